"""Ops of the tile level that cannot be: each condition of a verifier refuses, and no more."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, TensorType, f16, f32, i1, i32, i64
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from tawa.base.types import DescType, PtrType
from tawa.ir.boxes import Box
from tawa.tile.dialect.combine_ops import ReduceWith
from tawa.tile.dialect.ops import (
    Assert,
    AtomicCas,
    AtomicRmw,
    DescLoad,
    DescSize,
    DescStore,
    Load,
    MakeDesc,
    Store,
    Yield,
)
from tawa.tile.dialect.value_ops import ExtractSlice, Join, Repeat, RowEnds, Split


def tile(*shape: int, element: Attribute = f32) -> SSAValue:
    return Made(result_types=[TensorType(element, shape)]).results[0]


def number() -> SSAValue:
    return Made(result_types=[i32]).results[0]


def window(source: SSAValue, sizes: tuple[int, ...], offsets: int) -> Operation:
    return ExtractSlice(source, [number() for _ in range(offsets)], sizes)


def repeated(axis: int, times: int, *shape: int) -> Operation:
    """A repetition of a tile of 4 x 8 that claims to have a shape."""
    made = Repeat(tile(4, 8), 0, 1)
    made.properties["axis"] = IntegerAttr(axis, 32)
    made.properties["times"] = IntegerAttr(times, 32)
    result = TensorType(f32, shape)
    return Repeat.create(operands=made.operands, properties=made.properties, result_types=[result])


def promised(ends: SSAValue, counter: Attribute = i32, *, inside: bool = True) -> Operation:
    """A promise of a loop."""
    promise = RowEnds(ends)
    bound = arith.ConstantOp(IntegerAttr(4, counter))
    body = Block([promise, scf.YieldOp()] if inside else [scf.YieldOp()], arg_types=[counter])
    loop = scf.ForOp(bound, bound, bound, [], Region(body))
    Block([bound, loop] if inside else [bound, loop, promise])
    return promise


RIGHT: dict[str, Callable[[], Operation]] = {
    "twice as many rows": lambda: repeated(0, 2, 8, 8),
    "columns as often as once": lambda: repeated(1, 1, 4, 8),
    "a window": lambda: window(tile(8, 8), (2, 8), 2),
    "all of it": lambda: window(tile(8), (8,), 1),
    "two of a type": lambda: Join(tile(4, 8), tile(4, 8)),
    "halves": lambda: Split(tile(4, 2)),
    "ends of rows": lambda: promised(tile(8, element=i32)),
    "long ends of rows": lambda: promised(tile(8, element=i64), i64),
}

WRONG: dict[str, tuple[Callable[[], Operation], str]] = {
    "an axis before the first": (lambda: repeated(-1, 2, 4, 16), "cannot repeat"),
    "an axis behind the last": (lambda: repeated(2, 1, 4, 8), "cannot repeat"),
    "another number of rows": (lambda: repeated(0, 2, 12, 8), "cannot repeat"),
    "the other axis": (lambda: repeated(0, 2, 4, 16), "cannot repeat"),
    "another rank": (lambda: repeated(0, 2, 8, 8, 1), "cannot repeat"),
    "too few offsets": (lambda: window(tile(8, 8), (2, 8), 1), "one rank"),
    "too many offsets": (lambda: window(tile(8, 8), (2, 8), 3), "one rank"),
    "a window of fewer dimensions": (lambda: window(tile(8, 8), (2,), 2), "one rank"),
    "a window that is too wide": (lambda: window(tile(8, 8), (2, 9), 2), "too large"),
    "a window of too many rows": (lambda: window(tile(8, 8), (9, 8), 2), "too large"),
    "another one to compare": (lambda: AtomicCas(pointers(8), tile(8), halves(8)), "expected"),
    "a condition of numbers": (lambda: Assert(halves(8), "so"), "a condition of i1"),
    "a box without a place": (
        lambda: Load(pointers(8), box=Box(block(8), [], made(i1))),
        "a box has",
    ),
    "other without a mask": (lambda: Load(pointers(8), None, halves(8)), "needs a mask"),
    "two shapes": (lambda: Join(tile(4, 8), tile(8, 4)), "does not verify"),
    "two element types": (lambda: Join(tile(4), tile(4, element=f16)), "does not verify"),
    "three thirds": (lambda: Split(tile(4, 3)), "dimension of 2"),
    "a vector of two": (lambda: Split(tile(2)), "base attribute tensor"),
    "no loop around it": (lambda: promised(tile(8, element=i32), inside=False), "a loop"),
    "rows and columns": (lambda: promised(tile(8, 1, element=i32)), "one number a row"),
    "another counter": (lambda: promised(tile(8, element=i64)), "the counter's type"),
}


@pytest.mark.parametrize("case", RIGHT)
def test_what_can_be_is_accepted(case: str) -> None:
    RIGHT[case]().verify()


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_is_refused(case: str) -> None:
    make, message = WRONG[case]
    with pytest.raises(VerifyException, match=message):
        make().verify()


# --- ops on memory --------------------------------------------------------------------------------

HALF = PtrType(f16)


def made(kind: Attribute) -> SSAValue:
    return Made(result_types=[kind]).results[0]


def pointers(*shape: int) -> SSAValue:
    return made(TensorType(HALF, shape))


def bits_(*shape: int) -> SSAValue:
    return made(TensorType(i1, shape))


def halves(*shape: int) -> SSAValue:
    return made(TensorType(f16, shape))


def block(*shape: int) -> SSAValue:
    return made(DescType(TensorType(f16, shape)))


def numbers(count: int) -> list[SSAValue]:
    return [made(i32) for _ in range(count)]


def described(sizes: int, strides: int, *shape: int, **more: str) -> Operation:
    long = [made(i64) for _ in range(strides)]
    return MakeDesc(made(HALF), numbers(sizes), long, shape, **more)


def of_type(op: Operation, result: Attribute) -> Operation:
    """The same op with another result."""
    return type(op).create(operands=op.operands, properties=op.properties, result_types=[result])


def combined(shape: tuple[int, ...], axis: int, arguments: int, yielded: int) -> Operation:
    """A reduction of two tiles of f32 by a region."""
    inner = Block(arg_types=[f32] * arguments)
    inner.add_op(Yield(list(inner.args[:yielded])))
    return ReduceWith([tile(*shape), tile(4, 8)], axis, Region(inner))


RIGHT_IN_MEMORY: dict[str, Callable[[], Operation]] = {
    "a load": lambda: Load(pointers(8)),
    "a masked load": lambda: Load(pointers(8), bits_(8), halves(8)),
    "a load of one": lambda: Load(made(HALF), made(i1)),
    "a store": lambda: Store(pointers(8), halves(8), bits_(8)),
    "an addition": lambda: AtomicRmw("addf", pointers(8), halves(8)),
    "a descriptor": lambda: described(2, 2, 8, 16),
    "a descriptor of a row": lambda: described(1, 1, 16),
    "a descriptor of rank 5": lambda: described(5, 5, 1, 2, 2, 2, 8),
    "a descriptor of no numbers": lambda: described(1, 1, 16, padding="nan"),
    "a size": lambda: DescSize(block(8, 16), 1),
    "the first stride": lambda: DescSize(block(8, 16), 0, stride=True),
    "a block": lambda: DescLoad(block(8, 16), numbers(2)),
    "a block that is stored": lambda: DescStore(block(8, 16), numbers(2), halves(8, 16)),
    "a block that is added": lambda: DescStore(block(8, 16), numbers(2), halves(8, 16), "addf"),
    "two tiles by a region": lambda: combined((4, 8), 1, 4, 2),
    "an exchange": lambda: AtomicCas(pointers(8), halves(8), halves(8)),
    "a condition": lambda: Assert(bits_(8), "so"),
    "a load of a box": lambda: Load(pointers(8), box=Box(block(8), numbers(1), made(i1))),
    "down the columns": lambda: combined((4, 8), 0, 4, 2),
}

WRONG_IN_MEMORY: dict[str, tuple[Callable[[], Operation], str]] = {
    "a load of numbers": (lambda: Load(halves(8)), "a pointer"),
    "another mask": (lambda: Load(pointers(8), bits_(4)), "a mask"),
    "a mask of numbers": (lambda: Load(pointers(8), halves(8)), "a mask"),
    "a scalar mask of a tile": (lambda: Load(pointers(8), made(i1)), "a mask"),
    "other of another type": (lambda: Load(pointers(8), bits_(8), tile(8)), ""),
    "another value": (lambda: Store(pointers(8), tile(8)), ""),
    "a value of another shape": (lambda: Store(pointers(8), halves(4)), ""),
    "no such kind": (lambda: AtomicRmw("mulf", pointers(8), halves(8)), "is one of"),
    "no such order": (lambda: AtomicRmw("addf", pointers(8), halves(8), order="later"), "is one of"),
    "no such scope": (lambda: AtomicRmw("addf", pointers(8), halves(8), scope="us"), "is one of"),
    "one size too few": (lambda: described(1, 2, 8, 16), "2 sizes and strides"),
    "one stride too few": (lambda: described(2, 1, 8, 16), "2 sizes and strides"),
    "no sizes": (lambda: described(0, 0), "rank 1 to 5"),
    "six sizes": (lambda: described(6, 6, 1, 1, 1, 1, 1, 8), "rank 1 to 5"),
    "another element": (
        lambda: of_type(described(1, 1, 16), DescType(TensorType(f32, (16,)))), "element types"),
    "no such padding": (lambda: described(1, 1, 16, padding="one"), "padding is one of"),
    "an axis too far": (lambda: DescSize(block(8, 16), 2), ""),
    "one coordinate": (lambda: DescLoad(block(8, 16), numbers(1)), ""),
    "three coordinates": (lambda: DescLoad(block(8, 16), numbers(3)), ""),
    "a part of a block": (lambda: DescStore(block(8, 16), numbers(2), halves(8, 8)), ""),
    "no such sum": (lambda: DescStore(block(8, 16), numbers(2), halves(8, 16), "subf"), ""),
    "two shapes": (lambda: combined((8, 4), 0, 4, 2), "one shape"),
    "an axis that is not there": (lambda: combined((4, 8), 2, 4, 2), "out of range"),
    "one side of a pair": (lambda: combined((4, 8), 1, 2, 2), "both sides"),
    "one result of two": (lambda: combined((4, 8), 1, 4, 1), "yields one element"),
}  # fmt: skip


@pytest.mark.parametrize("case", RIGHT_IN_MEMORY)
def test_what_is_right_in_memory(case: str) -> None:
    RIGHT_IN_MEMORY[case]().verify()


@pytest.mark.parametrize("case", WRONG_IN_MEMORY)
def test_what_is_wrong_in_memory(case: str) -> None:
    make, message = WRONG_IN_MEMORY[case]
    with pytest.raises((VerifyException, ValueError), match=message or None):
        make().verify()


def test_results_and_boxes_of_ops_on_memory() -> None:
    assert DescSize(block(8, 16), 1).result.type == i32
    assert DescSize(block(8, 16), 0).stride is None
    long = DescSize(block(8, 16), 0, stride=True)
    assert (long.result.type, long.stride is None) == (i64, False)
    plain = Load(pointers(8))
    assert (plain.volatile, plain.box) == (None, None)
    assert Load(pointers(8), volatile=True).volatile is not None
    box = Box(block(8), numbers(1), made(i1))
    found = Load(pointers(8), box=box).box
    assert found is not None
    assert (found.desc, [*found.coordinates], found.holds) == (box.desc, box.coordinates, box.holds)


@pytest.mark.parametrize(("axis", "left"), [(0, (8, 2)), (1, (4, 2)), (2, (4, 8))])
def test_what_is_left_of_a_tile(axis: int, left: tuple[int, ...]) -> None:
    inner = Block(arg_types=[f32] * 2)
    inner.add_op(Yield([inner.args[0]]))
    op = ReduceWith([tile(4, 8, 2)], axis, Region(inner))
    op.verify()
    assert op.outputs[0].type == TensorType(f32, left)
