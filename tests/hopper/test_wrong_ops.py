"""Ops of the hopper level that cannot be: each condition of a verifier refuses, and no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, f16, f32, i1, i8, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from tawa.base.layout import Layout, accumulator, operand, parse_layout
from tawa.base.types import PtrType
from tawa.hopper.dialect.atomic import GlobalAtomic
from tawa.hopper.dialect.copies import CopyAsync
from tawa.hopper.dialect.fragment import Anchored, Rearrange, Relabel, ShuffleXor, Window
from tawa.hopper.dialect.gather import SharedGather, SharedHistogram
from tawa.hopper.dialect.lane_reduction import ReduceLanes
from tawa.hopper.dialect.lanes import Assemble, ShuffleAlong, ShuffleFrom, SwapBits
from tawa.hopper.dialect.matrix import PackOperand, Wgmma
from tawa.hopper.dialect.memory import Stmatrix, Subtile
from tawa.hopper.dialect.structure import OneThread, Role, SharedWarpGroup
from tawa.hopper.dialect.sync import NamedBarrierSync
from tawa.hopper.dialect.trace import MOST_POINTS, Timestamp, TraceType
from tawa.hopper.dialect.transpose import TransposeTile
from tawa.hopper.dialect.types import FragType, MatrixDescType, TileType

ROWS = accumulator((64, 32), 4)
"""16 registers of each thread of a warp group."""
FLAT = parse_layout("256: 2@0*1 | 32@0*2 | 4@0*64")
"""Two neighbours in each thread's registers."""
PAIRS = parse_layout("512: 2@0*1 2@0*256 | 32@0*2 | 4@0*64")
"""Two, and two far from them."""


def made(type_: Attribute) -> SSAValue:
    return Made(result_types=[type_]).results[0]


def frag(element: Attribute = f32, layout: Layout = ROWS) -> SSAValue:
    return made(FragType.of(element, layout))


def tile(rows: int, columns: int, element: Attribute = f32, swizzle: int = 0) -> SSAValue:
    return made(TileType.of(rows, columns, element, swizzle))


def role(first: int = 0, warps: int = 4, teams: int = 1, **kept: Any) -> Role:
    return Role("math", first, warps, teams, **kept)


def shared_group(first: int, registers: int | None, *roles: Role) -> Operation:
    return SharedWarpGroup(first, registers, roles)


def named_barrier(index: int) -> Operation:
    return NamedBarrierSync(arith.ConstantOp(IntegerAttr(index, i32)).result, 128)


def timestamp(segment: int, index: int, points: int, tag: int) -> Operation:
    return Timestamp(made(TraceType()), made(i1), segment, index, points, tag)


def transposed(source: SSAValue, target: SSAValue, in_flight: int = 2, **kept: Any) -> Operation:
    return TransposeTile(source, target, 4, in_flight, **kept)


def assembled(sources: list[tuple[int, int]]) -> Operation:
    """A fragment of two registers of those of two."""
    return Assemble([frag(f32, FLAT), frag(f32, FLAT)], sources, FLAT)


def swapped(lanes: int, registers: int, element: Attribute = f32) -> Operation:
    return SwapBits(frag(element, FLAT), lanes, registers, FLAT)


def anchored(anchors: list[int], distances: list[int], element: Attribute = i32) -> Operation:
    return Anchored(frag(element, FLAT), anchors, distances)


def added(element: Attribute, vector: int, order: str = "relaxed", **changed: Any) -> Operation:
    """An atomic sum, or another kind, whose old values may be `used`."""
    op = GlobalAtomic(
        changed.get("kind", "addf"), frag(PtrType(element), FLAT), frag(element, FLAT),
        scope="gpu", order=order, vector=vector,
    )  # fmt: skip
    if changed.get("used"):
        Made(operands=[op.value])
    return op


def window(column: int, wide: int = 64, *, swizzle: int = 128, keeps: bool = True) -> Operation:
    """Columns of a tile of 64 rows and two panels; another one's, unless it `keeps` panels."""
    op = Subtile(tile(64, 128, f16, swizzle), made(i32), column, 8, wide)
    if not keeps:
        op.tile._type = TileType.of(8, wide, f16, swizzle, 8)  # type: ignore[attr-defined]
    return op


def narrow_panels() -> Operation:
    op = window(0, 32)
    op.tile._type = TileType.of(8, 32, f16, 64, 64)  # type: ignore[attr-defined]
    return op


def copied(
    vector: int, element: Attribute = f16, into: SSAValue | None = None, layout: Layout = FLAT
) -> Operation:
    """A row of elements through pointers, so many neighbours at a time of two."""
    pointers = made(FragType.of(PtrType(element), layout))
    row = tile(1, layout.shape[0], element) if into is None else into
    return CopyAsync(pointers, None, row, vector)


def product(n: int, element: Attribute = f16, *, a: bool = False, b: bool = False) -> Operation:
    wide = frag(f32, accumulator((64, 256), 4))
    turns = {"transpose_a": a, "transpose_b": b}
    numbers = {"n": n, "first_register": 0, "a_offset": 0, "b_offset": 0}
    return Wgmma(
        operands=[wide, made(MatrixDescType()), made(MatrixDescType()), None],
        properties={**{k: IntegerAttr(v, 64) for k, v in numbers.items()},
                    "a_type": element, "b_type": element,
                    **{k: UnitAttr() for k, v in turns.items() if v}},
        result_types=[wide.type],
    )  # fmt: skip


def counted(value: Attribute, into: SSAValue) -> Operation:
    return SharedHistogram(frag(value, FLAT), into)


def gathered(from_: SSAValue, places: Attribute = i32, result: FragType | None = None) -> Operation:
    op = SharedGather(from_, frag(places, FLAT))
    if result is not None:
        op.value._type = result  # type: ignore[attr-defined]
    return op


def scope(name: str) -> Operation:
    return OneThread(name)


F32_ROW = FragType.of(f32, FLAT)

RIGHT: dict[str, Callable[[], Operation]] = {
    "as few registers as there can be": lambda: role(registers=24),
    "as many": lambda: role(registers=256),
    "all threads": lambda: role(whole=True),
    "teams": lambda: role(first=4, teams=2, registers=32),
    "roles that share": lambda: shared_group(4, 24, role(4, 1, 2), role(6, 2)),
    "one thread": lambda: scope("group"),
    "the last barrier": lambda: named_barrier(15),
    "a barrier that a loop chooses": lambda: NamedBarrierSync(made(i32), 128),
    "the most points": lambda: timestamp(3, MOST_POINTS - 1, MOST_POINTS, 2),
    "a long tag": lambda: timestamp(65535, 0, 1, 16),
    "bytes": lambda: transposed(tile(64, 32, i8), tile(32, 64, i8), 8, interleaved=True),
    "narrow": lambda: transposed(tile(64, 32, f16), tile(32, 64, f16)),
    "parts": lambda: assembled([(1, 1), (0, 0)]),
    "a digit": lambda: ShuffleAlong(frag(), 4, 8, 1),
    "the highest lane": lambda: swapped(16, 1),
    "other lanes": lambda: ShuffleFrom(frag(), (1, 2, 4, 8, 0), (0, 16) * 8, ROWS),
    "anchors": lambda: anchored([0, 0], [0, 1]),
    "truth": lambda: anchored([0, 0], [0, 0], i1),
    "turned": lambda: Rearrange(frag(f32, FLAT), [1, 0], FLAT),
    "seen": lambda: Relabel(frag(f32, FLAT), FLAT),
    "part of": lambda: Window(frag(), 14, FLAT),
    "across all lanes": lambda: ShuffleXor(frag(), 31),
    "pairs added": lambda: added(f16, 2),
    "one with its old value": lambda: added(f32, 1, "acq_rel", kind="maxf", used=True),
    "a second panel": lambda: window(64),
    "a row": lambda: Subtile(tile(1, 128, f16), made(i32), 3, 1, 5),
    "four bytes": lambda: copied(2),
    "of pairs that lie apart": lambda: copied(2, layout=PAIRS),
    "an instruction": lambda: product(256, a=True, b=True),
    "narrow bytes": lambda: product(8, i8),
    "blocks": lambda: Stmatrix(frag(f16), 0, tile(64, 32, f16, 64)),
    "lanes": lambda: ReduceLanes(frag(i32), "addi"),
    "counts": lambda: counted(i32, tile(4, 64, i32)),
    "picked": lambda: gathered(tile(1, 64)),
}  # fmt: skip

WRONG: dict[str, tuple[Callable[[], Operation], str]] = {
    "lanes of some registers": (lambda: ShuffleFrom(frag(), (1,), (0,), ROWS), "one lane"),
    "a lane too high": (lambda: ShuffleFrom(frag(), (16,), (16,) * 16, ROWS), "from 0 to 31"),
    "odd registers": (lambda: role(registers=28), "multiple of 8"),
    "few registers": (lambda: role(registers=16), "from 24"),
    "many registers": (lambda: role(registers=264), "to 256"),
    "all threads are one": (lambda: role(whole=True, single=True), "all threads"),
    "all threads give up": (lambda: role(whole=True, registers=24), "all threads"),
    "all threads of two teams": (lambda: role(whole=True, teams=2), "all threads"),
    "all threads but the first": (lambda: role(first=4, whole=True), "all threads"),
    "not a role": (lambda: SharedWarpGroup(4, 24, [scope("cta")]), "consists of roles"),  # type: ignore[list-item]
    "own registers": (lambda: shared_group(4, 24, role(4, 1, registers=24)), "without registers"),
    "half a group": (lambda: shared_group(2, 24, role(2, 1)), "warps are not"),
    "warps before": (lambda: shared_group(4, 24, role(3, 1)), "warps are not"),
    "warps behind": (lambda: shared_group(4, 24, role(6, 1, 3)), "warps are not"),
    "no such scope": (lambda: scope("warp"), "scope is one of"),
    "a barrier too many": (lambda: named_barrier(16), "named barriers"),
    "a barrier below 0": (lambda: named_barrier(-1), "named barriers"),
    "a point behind the last": (lambda: timestamp(0, 2, 2, 1), "points"),
    "a point below 0": (lambda: timestamp(0, -1, 2, 1), "points"),
    "too many points": (lambda: timestamp(0, 0, MOST_POINTS + 1, 1), "points"),
    "a segment that does not fit": (lambda: timestamp(4, 0, 2, 2), "tag"),
    "a segment below 0": (lambda: timestamp(-1, 0, 2, 2), "tag"),
    "a tag too long": (lambda: timestamp(0, 0, 2, 17), "tag"),
    "three blocks": (
        lambda: transposed(tile(64, 32, i8), tile(32, 64, i8), 3), "blocks in flight"),
    "not turned": (lambda: transposed(tile(64, 32, i8), tile(64, 32, i8)), "columns as rows"),
    "another type": (lambda: transposed(tile(64, 32, i8), tile(32, 64, f16)), "columns as rows"),
    "short rows": (lambda: transposed(tile(4, 32, i8), tile(32, 4, i8)), "multiples of"),
    "interleaved halves": (
        lambda: transposed(tile(64, 32, f16), tile(32, 64, f16), interleaved=True), "8-bit"),
    "a third part": (lambda: assembled([(2, 0), (0, 0)]), "one source register"),
    "a third register": (lambda: assembled([(0, 2), (0, 0)]), "one source register"),
    "one of two registers": (lambda: assembled([(0, 0)]), "one source register"),
    "64 lanes": (lambda: ShuffleAlong(frag(), 8, 8, 1), "32 lanes"),
    "two bits": (lambda: swapped(3, 1), "one bit"),
    "no bit": (lambda: swapped(0, 1), "one bit"),
    "two bits of registers": (lambda: swapped(1, 3), "one bit"),
    "a lane too far": (lambda: swapped(32, 1), "one bit"),
    "a register too far": (lambda: swapped(1, 2), "one bit"),
    "an anchor too few": (lambda: anchored([0], [0, 1]), "one anchor"),
    "a distance too few": (lambda: anchored([0, 0], [1]), "one anchor"),
    "an anchor behind": (lambda: anchored([0, 2], [0, 1]), "one anchor"),
    "truth that grows": (lambda: anchored([0, 0], [0, 1], i1), "do not grow"),
    "a source too few": (lambda: Rearrange(frag(f32, FLAT), [1], FLAT), "one source register"),
    "a source behind": (lambda: Rearrange(frag(f32, FLAT), [2, 0], FLAT), "one source register"),
    "fewer registers": (lambda: Relabel(frag(), FLAT), "keeps its registers"),
    "a window past the end": (lambda: Window(frag(), 15, FLAT), "outside"),
    "no lane": (lambda: ShuffleXor(frag(), 0), "lane mask"),
    "another warp's lane": (lambda: ShuffleXor(frag(), 32), "lane mask"),
    "greatest of two": (lambda: added(f16, 2, kind="maxf"), "several elements"),
    "sums of integers": (lambda: added(i32, 2), "several elements"),
    "old values of two": (lambda: added(f16, 2, used=True), "several elements"),
    "two in order": (lambda: added(f16, 2, "release"), "relaxed"),
    "in a panel": (lambda: window(32), "start of a panel"),
    "panels of fewer rows": (lambda: window(64, keeps=False), "keeps its tile's panels"),
    "narrower panels": (narrow_panels, "keeps its tile's panels"),
    "swizzled row": (
        lambda: Subtile(tile(1, 128, f16, 128), made(i32), 3, 1, 64), "start of a panel"),
    "columns of rows": (lambda: Subtile(tile(64, 128, f16), made(i32), 3, 8, 64), "a panel"),
    "two bytes": (lambda: copied(1), "4, 8 or 16 bytes"),
    "more than neighbours": (lambda: copied(4), "neighbours of a row"),
    "pairs that lie apart": (lambda: copied(4, layout=PAIRS), "neighbours of a row"),
    "another row": (lambda: copied(2, f16, tile(1, 128, f16)), "the tile's elements"),
    "another tile's type": (lambda: copied(2, f16, tile(1, 256, f32)), "the tile's elements"),
    "n between": (lambda: product(12), "multiple of 8"),
    "n of nothing": (lambda: product(0), "multiple of 8"),
    "n too wide": (lambda: product(264), "multiple of 8"),
    "bytes of A turned": (lambda: product(8, i8, a=True), "16-bit"),
    "bytes of B turned": (lambda: product(8, i8, b=True), "16-bit"),
    "wide elements": (lambda: Stmatrix(frag(f32), 0, tile(64, 32, f32)), "16-bit"),
    "few rows": (lambda: Stmatrix(frag(f16), 0, tile(32, 32, f16)), "64 rows"),
    "few columns": (lambda: Stmatrix(frag(f16), 0, tile(64, 24, f16)), "64 rows"),
    "sums of lanes": (lambda: ReduceLanes(frag(f32), "addf"), "no instruction"),
    "counts of floats": (lambda: counted(f32, tile(4, 64, i32)), "i32 are counted"),
    "floating counts": (lambda: counted(i32, tile(4, 64, f32)), "i32 are counted"),
    "a row too few": (lambda: counted(i32, tile(2, 64, i32)), "a row for each warp"),
    "swizzled counts": (lambda: counted(i32, tile(4, 64, i32, 128)), "a row for each warp"),
    "long positions": (lambda: gathered(tile(1, 64), f32), "positions are i32"),
    "another layout": (
        lambda: gathered(tile(1, 64), result=FragType.of(f32, ROWS)), "positions are i32"),
    "two rows": (lambda: gathered(tile(2, 64)), "a row of the result"),
    "a swizzle": (lambda: gathered(tile(1, 64, f32, 128)), "a row of the result"),
    "another element": (lambda: gathered(tile(1, 64, i32), result=F32_ROW), "a row of the result"),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_what_can_be_is_accepted(name: str):
    RIGHT[name]().verify_()


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_refused(name: str):
    build, why = WRONG[name]
    with pytest.raises(VerifyException, match=why):
        build().verify_()


@pytest.mark.parametrize(
    ("element", "words"), [(f16, (i32, 8)), (i8, (i32, 4)), (f32, (f32, 16))], ids=str
)
def test_operands_are_packed_into_words(element: Attribute, words: tuple[Attribute, int]):
    """Of narrow elements the words are a fragment of their own."""
    size = {f16: 2, i8: 1, f32: 4}[element]
    op = PackOperand(frag(element, operand((64, 32), 4, size)))
    op.verify_()
    assert isinstance(op.value.type, FragType)
    assert (op.value.type.element_type, op.value.type.layout.registers) == words


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_swizzles(swizzle: int):
    TileType.of(8, 64, f16, swizzle).verify()


@pytest.mark.parametrize("swizzle", [16, 96, 256])
def test_no_other_swizzle(swizzle: int):
    with pytest.raises(VerifyException, match="0, 32, 64 or 128"):
        TileType.of(8, 64, f16, swizzle)


@pytest.mark.parametrize("text", ["4x", "8: 2@0*1 | 2@0*2 | 1@0*1", "8: 2@1*1 | 4@0*2 |"])
def test_no_layout(text: str):
    with pytest.raises(VerifyException):
        FragType(f32, StringAttr(text))
