"""What the simulator takes: a module with one kernel, its spec, and arrays as it was compiled for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr

import tawa
import tawa.language as tl
from tawa.base.indices import reciprocal
from tawa.base.kernel_spec import (
    GridParam,
    KernelSpec,
    PointerParam,
    ReciprocalParam,
    ScalarParam,
)
from tawa.simulate.interpret.global_memory import GlobalMemory, OutsideMemory
from tawa.simulate.interpret.hopper import run
from tawa.simulate.interpret.launch import SimulationInput, arrays_of, parameters


@tawa.jit
def moved(x, y, shift, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at) + shift)
    tl.store(y + N + at, tl.load(x + at))


def module() -> ModuleOp:
    return moved.compile("*f32", "*f32", "i32", 128).module("hopper")


def spec(*parameters_: Any, **more: Any) -> KernelSpec:
    return KernelSpec("small", 128, 0, parameters=parameters_, arguments=("x", "y", "n"), **more)


def values(made: KernelSpec, *arguments: Any, grid: tuple[int, int, int] = (3, 5, 7)) -> list[Any]:
    return parameters(made, arguments, grid, (1, 105), GlobalMemory())


def test_a_launch():
    x, y = np.arange(128, dtype=np.float32), np.zeros(256, np.float32)
    run(module(), (1,), [x, y, 2])
    np.testing.assert_array_equal(y, np.concatenate([x + 2, x]))


def test_one_kernel_with_its_spec():
    two, none, bare, other = module(), module(), module(), module()
    arguments = [np.zeros(128, np.float32), np.zeros(256, np.float32), 2]
    (kernel,) = two.ops
    two.body.block.add_op(kernel.clone())
    next(iter(none.ops)).detach()
    next(iter(bare.ops)).attributes.pop("tawa.spec", None)
    bare.attributes.pop("tawa.spec", None)
    for attributes in (next(iter(other.ops)).attributes, other.attributes):
        attributes.pop("hopper.warps", None)
        attributes.pop("hopper.threads", None)
        attributes.pop("hopper.shared_bytes", None)
    for wrong, why in ((two, "2 kernels"), (none, "0 kernels"), (bare, "no kernel spec"),
                       (other, "has no attribute hopper.")):  # fmt: skip
        with pytest.raises(SimulationInput, match=why):
            run(wrong, (1,), arguments)


def test_a_spec_may_stand_at_the_module():
    x, y = np.ones(128, np.float32), np.zeros(256, np.float32)
    made = module()
    (kernel,) = made.ops
    text = kernel.attributes.pop("tawa.spec", None) or made.attributes["tawa.spec"]
    assert isinstance(text, StringAttr)
    made.attributes["tawa.spec"] = text
    run(made, (1,), [x, y, 2])
    assert y[0] == 3


@pytest.mark.parametrize("count", [0, 2, 4])
def test_as_many_arguments_as_there_are(count: int):
    with pytest.raises(SimulationInput, match="takes 3 arguments") as caught:
        values(spec(), *[np.zeros(4)] * count)
    assert f"{count} arguments" in str(caught.value.render())


def test_numbers_of_a_launch():
    made = spec(
        ScalarParam(("arg", 2), "i32"), ScalarParam(("arg", 2), "u8"),
        ScalarParam(("arg", 2), "f32"), ScalarParam(7, "i64"),
        GridParam(0), GridParam(1), GridParam(2), ReciprocalParam(1),
    )  # fmt: skip
    x, y = np.zeros(4), np.zeros(4)
    found = values(made, x, y, 200)
    assert [int(v) for v in found] == [200, 200 - 256, 200, 7, 3, 5, 7, int(reciprocal(5))]
    assert [v.dtype for v in found[:4]] == [np.int32, np.int8, np.float32, np.int64]


def test_arrays_have_addresses_of_their_own():
    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
    first, second = values(spec(PointerParam(0), PointerParam(1)), x, y, 1)
    assert abs(int(first) - int(second)) >= 16
    assert [a is b for a, b in zip(arrays_of([x, 3, y]), (x, y), strict=True)] == [True, True]


BASE = np.zeros((8, 8), np.float32)

APART = {
    "others": (BASE, np.zeros(4, np.float32), True),
    "halves of rows": (BASE[:, :4], BASE[:, 4:], True),
    "rows in turns": (BASE[::2], BASE[1::2], True),
    "the same": (BASE, BASE, False),
    "a common column": (BASE[:, :5], BASE[:, 4:], False),
    "a view of it": (BASE, BASE.reshape(-1)[8:], False),
    "a number": (BASE, 3, True),
}


@pytest.mark.parametrize("name", APART)
def test_arrays_that_must_be_apart(name: str):
    x, y, apart = APART[name]
    made = spec(apart=(("x", "y"),))
    if apart:
        assert values(made, x, y, 1) == []
        return
    with pytest.raises(SimulationInput, match="overlaps"):
        values(made, x, y, 1)


def test_what_a_descriptor_reaches_must_be_apart():
    block = tawa.TensorDescriptor
    left, right = (block(BASE[:, 4 * n :], [8, 4], [8, 1], [4, 4]) for n in (0, 1))
    whole = block(BASE, [8, 8], [8, 1], [4, 4])
    made = spec(apart=(("x", "y"),))
    assert values(made, left, right, 1) == []
    with pytest.raises(SimulationInput, match="overlaps"):
        values(made, left, whole, 1)


def test_arrays_that_must_be_one():
    made = spec(same=(("x", "y"),))
    assert values(made, BASE, BASE, 1) == []
    assert values(made, BASE, BASE[:4], 1) == []
    for other in (BASE[1:], BASE.copy(), 3):
        with pytest.raises(SimulationInput, match="are two"):
            values(made, BASE, other, 1)
    with pytest.raises(SimulationInput, match="are two"):
        values(made, 3, BASE, 1)


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (90, 120, "bytes 90 to 120 of left, which has 100"),
        (190, 210, "bytes -10 to 10 of right, which has 100"),
        (101, 110, "bytes 101 to 110 of left, which has 100"),
    ],
)
def test_an_access_between_arrays_is_said_of_the_nearer(low: int, high: int, said: str) -> None:
    memory, both = GlobalMemory(), np.zeros(300, np.uint8)
    first = memory.add(both[:100], "left")
    memory.add(both[200:], "right")
    with pytest.raises(OutsideMemory, match=said):
        memory.find(first + low, first + high)
