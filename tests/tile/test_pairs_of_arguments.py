"""Which pairs of arguments a launch looks at, and which numbers of theirs may be the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects import func, scf
from xdsl.dialects.builtin import (
    ArrayAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from tawa.base.options import BadOption, Options
from tawa.base.types import PtrType
from tawa.ir.elementwise import Map
from tawa.ir.kernels import DISJOINT, GIVEN, MADE
from tawa.tile.analysis.alias import ALIKE, APART, OVERLAPS
from tawa.tile.dialect.ops import Load, Store
from tawa.tile.passes.overlaps import Overlaps

NAMES = "x y z n m k".split()
TYPES = [PtrType(f32)] * 3 + [i32, i32, i64]


class Kernel:
    """A kernel of three pointers, two short numbers and a long one."""

    def __init__(self) -> None:
        self.op = func.FuncOp("kernel", FunctionType.from_lists(TYPES, []))
        self.block = self.op.body.block
        self.arguments: dict[str, BlockArgument] = {}
        for name, argument in zip(NAMES, self.block.args, strict=True):
            argument.name_hint = name
            self.arguments[name] = argument

    def __getitem__(self, name: str) -> SSAValue:
        return self.arguments[name]

    def add(self, op: Operation, block: Block | None = None) -> SSAValue:
        (block or self.block).add_op(op)
        return op.results[0] if op.results else self["x"]

    def at(self, pointer: str, *numbers: SSAValue | str, block: Block | None = None) -> SSAValue:
        """A pointer, so many elements further on."""
        found = self[pointer]
        for number in numbers:
            far = self[number] if isinstance(number, str) else number
            found = self.add(Map("addptr", [found, far]), block)
        return found

    def load(self, pointer: SSAValue, block: Block | None = None) -> SSAValue:
        return self.add(Load(pointer), block)

    def store(self, pointer: SSAValue, block: Block | None = None) -> None:
        self.add(Store(pointer, self.add(Made(result_types=[f32]), block)), block)

    def found(self, **options: Any) -> dict[str, Any]:
        self.block.add_op(func.ReturnOp())
        module = ModuleOp([self.op])
        Overlaps(Options(**options)).apply(module)
        texts = {name: self.op.attributes.get(name) for name in (OVERLAPS, APART, ALIKE)}
        return {name.removeprefix("tawa."): json.loads(text.data)
                for name, text in texts.items() if isinstance(text, StringAttr)}  # fmt: skip


def read_and_written(kernel: Kernel) -> None:
    kernel.load(kernel["x"])
    kernel.load(kernel["y"])
    kernel.store(kernel["z"])


def written_alone(kernel: Kernel) -> None:
    kernel.store(kernel["z"])


def read_alone(kernel: Kernel) -> None:
    kernel.load(kernel["x"])
    kernel.load(kernel["y"])


def both_written(kernel: Kernel) -> None:
    kernel.store(kernel["y"])
    kernel.store(kernel["x"])


def in_a_branch(kernel: Kernel) -> None:
    inside = Block()
    kernel.store(kernel["y"], inside)
    inside.add_op(scf.YieldOp())
    condition = kernel.add(Made(result_types=[i1]))
    kernel.add(scf.IfOp(condition, [], Region(inside)))
    kernel.load(kernel["x"])


@pytest.mark.parametrize(
    ("made", "pairs"),
    [(read_and_written, [[0, 2], [1, 2]]), (written_alone, None), (read_alone, None),
     (both_written, [[0, 1]]), (in_a_branch, [[0, 1]])],
)  # fmt: skip
def test_pairs_of_which_one_is_written(made: Callable[[Kernel], None], pairs: Any) -> None:
    kernel = Kernel()
    made(kernel)
    assert kernel.found().get("apart") == pairs


@pytest.mark.parametrize(
    ("given", "overlap"),
    [({"may_overlap": (("z", "x"),)}, [[0, 2]]),
     ({"may_overlap": (("x", "z"), ("x", "y"))}, [[0, 1], [0, 2]]),
     ({"same_array": (("y", "x"),), "may_overlap": (("x", "z"),)}, [[0, 2]]),
     ({"same_array": (("y", "x"),), "may_overlap": (("y", "z"),)}, [[0, 2], [1, 2]]),
     ({"same_array": (("y", "x"),), "may_overlap": (("x", "y"),)}, [[0, 1]]),
     ({"same_array": (("y", "x"),)}, None)],
)  # fmt: skip
def test_pairs_that_may_overlap(given: dict[str, Any], overlap: Any) -> None:
    """The earlier of two that are the same overlaps what the later does; those need not be apart."""
    kernel = Kernel()
    read_and_written(kernel)
    found = kernel.found(**given)
    assert found.get("overlaps") == overlap
    left = [p for p in [[0, 2], [1, 2]] if p not in (overlap or [])]
    assert found.get("apart", []) == left


@pytest.mark.parametrize(
    ("named", "left"), [("x z", [[1, 2]]), ("z y", [[0, 2]]), ("x y", [[0, 2], [1, 2]])]
)
def test_pairs_that_are_promised(named: str, left: list[list[int]]) -> None:
    kernel = Kernel()
    read_and_written(kernel)
    kernel.op.attributes[DISJOINT] = StringAttr(json.dumps([named.split()]))
    assert kernel.found()["apart"] == left


def test_a_pair_names_arguments() -> None:
    kernel = Kernel()
    read_and_written(kernel)
    with pytest.raises(BadOption, match="no argument `q`"):
        kernel.found(may_overlap=(("x", "q"),))


def rows(kernel: Kernel, one: tuple[str, ...], other: tuple[str, ...]) -> None:
    kernel.load(kernel.at("x", *one))
    kernel.store(kernel.at("y", *other))


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [("n", "m", [[0, 1, 3, 4]]), ("m", "n", [[0, 1, 3, 4]]), ("n", "n", None), ("n", "k", None),
     ("n m", "m", None), ("", "m", None), ("k n", "m", [[0, 1, 3, 4]])],
)  # fmt: skip
def test_numbers_that_count_one_array_or_the_other(one: str, other: str, alike: Any) -> None:
    """Only numbers of one type, each of one array alone."""
    kernel = Kernel()
    rows(kernel, tuple(one.split()), tuple(other.split()))
    assert kernel.found().get("alike") == alike


def test_arrays_that_are_not_looked_at_together_have_no_numbers_in_common() -> None:
    kernel = Kernel()
    kernel.load(kernel.at("x", "n"))
    kernel.load(kernel.at("y", "m"))
    assert "alike" not in kernel.found()


def test_numbers_of_several_accesses() -> None:
    """Any access counts: y is also addressed with n, so only m tells its arrays apart."""
    kernel = Kernel()
    rows(kernel, ("n",), ("m",))
    kernel.store(kernel.at("y", "n"))
    assert "alike" not in kernel.found()


@pytest.mark.parametrize("place", [1, 2])
def test_numbers_that_loops_carry_and_bounds_that_do_not_count(place: int) -> None:
    """Of two that are carried, m is the one whose place is given; n is a bound."""
    kernel = Kernel()
    zero = kernel.add(Made(result_types=[i32]))
    inside = Block(arg_types=[i32, i32, i32])
    kernel.store(kernel.at("y", inside.args[place], block=inside), inside)
    inside.add_op(scf.YieldOp(*inside.args[1:]))
    carried = [kernel["m"] if place == i else zero for i in (1, 2)]
    kernel.add(scf.ForOp(zero, kernel["n"], zero, carried, inside))
    kernel.load(kernel.at("x", "n"))
    assert kernel.found()["alike"] == [[0, 1, 3, 4]]


def test_a_loops_own_counter_is_not_its_bound() -> None:
    kernel = Kernel()
    zero = kernel.add(Made(result_types=[i32]))
    inside = Block(arg_types=[i32, i32])
    kernel.store(kernel.at("y", inside.args[0], block=inside), inside)
    inside.add_op(scf.YieldOp(inside.args[1]))
    kernel.add(scf.ForOp(zero, kernel["m"], zero, [kernel["m"]], inside))
    kernel.load(kernel.at("x", "n"))
    assert "alike" not in kernel.found()


def test_what_is_loaded_is_not_counted_with() -> None:
    """A number that comes from memory is not the address's that it was loaded from."""
    kernel = Kernel()
    index = kernel.add(Map("fptosi", [kernel.load(kernel.at("z", "m"))], i32))
    kernel.store(kernel.at("y", index))
    kernel.load(kernel.at("x", "n"))
    assert "alike" not in kernel.found() or [0, 1, 3, 4] not in kernel.found()["alike"]


def test_numbers_that_the_host_makes_are_none_of_a_launch() -> None:
    kernel = Kernel()
    rows(kernel, ("n",), ("m",))
    kernel.op.attributes[GIVEN] = IntegerAttr(4, i64)
    kernel.op.attributes[MADE] = ArrayAttr([StringAttr(json.dumps({"sum": 1}))] * 2)
    assert "alike" not in kernel.found()
