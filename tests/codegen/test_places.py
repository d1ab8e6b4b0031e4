"""Where threads access memory: addresses that only one thread has, and bytes that none shares."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import f32, i8, i32, i64
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, Region, SSAValue

from tawa.base.layout import Layout, Mode
from tawa.base.types import PtrType
from tawa.codegen.places import Places, _count_up, places_of, same_in_each_thread
from tawa.codegen.shared_memory import tile_for
from tawa.hopper.dialect.fragment import Coordinate, Fill
from tawa.hopper.dialect.memory import TmaStore
from tawa.hopper.dialect.structure import GroupIndex, Role, TeamIndex
from tawa.hopper.dialect.types import FragType, TensorMapType
from tawa.ir.affine import Affine, Part
from tawa.ir.elementwise import Map
from tawa.ir.loops import integer_constant


def parts(*found: tuple[int, int | None, int | None]) -> tuple[Part, ...]:
    return tuple(Part(*part) for part in found)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (parts((4, 0, 31)), True), (parts((4, 0, 30)), False), (parts((4, 0, 32)), False),
        (parts((4, 0, 7), (32, 0, 3)), True), (parts((32, 0, 3), (4, 0, 7)), True),
        (parts((4, 0, 7), (16, 0, 3)), False), (parts((8, 0, 15)), False), (parts(), False),
        (parts((4, 1, 32)), False), (parts((4, 0, None)), False), (parts((4, None, 31)), False),
        (parts((4, 0, 31), (128, 0, 0)), True), (parts((4, 0, 15), (64, 0, 0)), False),
    ],
)  # fmt: skip
def test_every_multiple_once(found: tuple[Part, ...], expected: bool):
    assert _count_up(found, 4, 128) is expected


@pytest.mark.parametrize(
    ("found", "bytes_", "count", "expected"),
    [
        (parts((4, 0, 31)), 4, 32, True), (parts((4, 0, 31)), 4, 64, False),
        (parts((4, 0, 31)), 8, 32, False), (parts((8, 0, 31)), 4, 32, True),
        (parts((-4, 0, 31)), 4, 32, True), (parts((4, 0, 7), (32, 0, 3)), 4, 32, True),
        (parts((4, 0, 7), (31, 0, 3)), 4, 32, False), (parts((4, 0, 7), (28, 0, 3)), 4, 32, False),
        (parts((32, 0, 3), (4, 0, 7)), 4, 32, True), (parts((4, 0, None)), 4, 32, False),
        (parts((4, None, 7)), 4, 8, False), (parts(), 4, 1, True), (parts(), 4, 2, False),
        (parts((4, 5, 12)), 4, 8, True), (parts((4, 5, 12)), 4, 9, False),
        (parts((4, 0, 7), (32, 0, 3)), 4, 33, False),
    ],
)  # fmt: skip
def test_bytes_that_elements_share(
    found: tuple[Part, ...], bytes_: int, count: int, expected: bool
):
    assert Places(None, (Affine(parts=found),), (bytes_,)).are_distinct(count) is expected


@pytest.mark.parametrize(
    ("first", "second", "apart"),
    [
        ((0, 16), (16, 16), True), ((0, 16), (15, 16), False), ((16, 16), (0, 16), True),
        ((0, 16), (-15, 16), False), ((0, 16), (-16, 16), True), ((0, 1), (1, 1), True),
        ((0, 32), (16, 4), False), ((0, 4), (4, 32), True),
    ],
)  # fmt: skip
def test_accesses_that_are_apart(first: Any, second: Any, apart: bool):
    one, other = (Places(None, (Affine(begin),), (size,)) for begin, size in (first, second))
    assert one.apart(other, []) is apart
    assert not one.apart(Places(scalar(), other.begins, other.extents), [])
    twice = (Places(None, (Affine(0), *p.begins), (8, *p.extents)) for p in (one, other))
    assert next(twice).apart(next(twice), []) is apart


def scalar(kind: Any = i64) -> SSAValue:
    return Made(result_types=[kind]).results[0]


LAYOUT = Layout((128,), (), (Mode(32, 0, 1),), (Mode(4, 0, 32),))
N, N32 = scalar(), scalar(i32)
ITEM = PtrType(f32)


def number(value: int) -> SSAValue:
    return integer_constant(value, i64).result


def filled(value: SSAValue) -> SSAValue:
    return Fill(value, FragType.of(value.type, LAYOUT)).results[0]


def lanes(layout: Layout = LAYOUT, start: int = 0) -> SSAValue:
    return Map("extsi", [Coordinate(0, start, layout).value], i64).result


def of(function: str, *values: SSAValue) -> SSAValue:
    return Map(function, values).result


def cut(value: SSAValue, kind: Any) -> SSAValue:
    """The lower bits of a number."""
    return Map("extui", [Map("trunci", [value], kind).result], i64).result


POINTER = scalar(ITEM)


def addresses(offset: SSAValue, *more: SSAValue, each: SSAValue | None = None) -> SSAValue:
    """One for each thread: a pointer, its number, and what is added for all."""
    at = lanes() if each is None else each
    for value in (offset, *more):
        at = of("addi", at, filled(value))
    return Map("addptr", [filled(POINTER), at], None).result


SAME: dict[str, tuple[SSAValue, SSAValue, bool]] = {
    "equal": (addresses(number(0)), addresses(number(0)), True),
    "a tile apart": (addresses(number(0)), addresses(number(128)), True),
    "two tiles before": (addresses(number(256)), addresses(number(0)), True),
    "half a tile apart": (addresses(number(0)), addresses(number(64)), False),
    "one element apart": (addresses(number(0)), addresses(number(1)), False),
    "as far as nobody knows": (addresses(N), addresses(N), True),
    "as far and a tile": (addresses(N), addresses(N, number(128)), True),
    "as far and half a tile": (addresses(N), addresses(N, number(64)), False),
    "so many tiles apart": (addresses(N), addresses(N, of("muli", N, number(128))), True),
    "so many halves apart": (addresses(N), addresses(N, of("muli", N, number(64))), False),
    "apart as nobody knows": (addresses(N), addresses(number(0)), False),
    "twice as far": (addresses(N), addresses(N, N), False),
    "so many tiles, or none": (addresses(number(0)), addresses(of("muli", N, number(128))), True),
    "a quarter further both": (addresses(number(32)), addresses(number(32)), True),
    "cut to 32 bits": (addresses(N), addresses(cut(N, i32)), True),
    "cut to 8 bits": (addresses(N), addresses(cut(N, i8)), False),
    "both cut to 8 bits": (*[addresses(cut(N, i8))] * 2, True),
    "other threads": (addresses(N), addresses(N, each=of("addi", lanes(), lanes())), False),
    "two elements each": (*[addresses(N, each=of("addi", lanes(), lanes()))] * 2, False),
}


@pytest.mark.parametrize("name", SAME)
def test_addresses_that_one_thread_has(name: str):
    one, other, expected = SAME[name]
    assert same_in_each_thread(one, other, []) is expected
    assert same_in_each_thread(other, one, []) is expected


def test_other_values_than_tiles_of_addresses():
    assert not same_in_each_thread(POINTER, POINTER, [])
    half = Layout((64,), (), (Mode(32, 0, 1),), (Mode(2, 0, 32),))
    short = Map("addptr", [Fill(POINTER, FragType.of(ITEM, half)).results[0], lanes(half)]).result
    assert same_in_each_thread(short, short, [])
    assert not same_in_each_thread(addresses(N), short, [])


def test_tiles_of_odd_sizes_wrap():
    """Where addresses wrap, tiles of another number of bytes than a power of two do not repeat."""
    odd = Layout((96,), (), (Mode(32, 0, 1),), (Mode(3, 0, 32),))
    tile = Map("addptr", [Fill(POINTER, FragType.of(ITEM, odd)).results[0], lanes(odd)]).result
    assert not same_in_each_thread(tile, tile, [])


@pytest.mark.parametrize(("times", "expected"), [(1, False), (64, False), (128, True), (256, True)])
def test_numbers_of_a_loop_that_went_on_are_others(times: int, expected: bool):
    """Whole tiles further in each iteration are met by the same threads again."""
    body = Block(arg_types=[i32])
    counter = Map("extsi", [body.args[0]], i64)
    step = integer_constant(times, i64)
    far = Map("muli", [counter.result, step.result])
    body.add_ops([counter, step, far, scf.YieldOp()])
    bound = Made(result_types=[i32]).results[0]
    loop: Operation = scf.ForOp(bound, bound, bound, [], body)
    tile = addresses(far.result)
    assert same_in_each_thread(tile, tile, [])
    assert same_in_each_thread(tile, tile, [loop]) is expected
    whole = addresses(of("muli", counter.result, number(128)))
    for one, other in ((tile, whole), (whole, tile)):
        assert same_in_each_thread(one, other, [loop]) is expected


@pytest.mark.parametrize(
    ("rank", "extents"), [(1, (64 * 32,)), (2, (64, 32)), (3, (64, 64, 32))], ids=str
)
def test_where_a_copy_of_a_box_begins(rank: int, extents: tuple[int, ...]):
    """Of several dimensions that make its rows, each has at most as many as there are."""
    map_, own = scalar(TensorMapType()), scalar(tile_for((64, 32), f32))
    store = TmaStore(map_, [N32] * rank, own, False)
    found = places_of(store, map_)
    assert found is not None
    assert (found.map, found.extents) == (map_, extents)
    assert found.begins == (Affine(0, {(N32,): 1}),) * rank
    assert places_of(Made(), map_) is None


@pytest.mark.parametrize(
    ("warps", "teams", "team", "most"),
    [(4, 3, True, 2), (4, 1, True, 0), (8, 3, False, 1), (4, 3, False, 0), (12, 1, False, 2),
     (2, 1, False, 0)],
)  # fmt: skip
def test_numbers_of_teams_and_groups(warps: int, teams: int, team: bool, most: int):
    """Other threads have another one."""
    index = TeamIndex() if team else GroupIndex()
    Role("math", 0, warps, teams, Region(Block([index])))
    found = places_of(Made(), of("addptr", POINTER, Map("extsi", [index.results[0]], i64).result))
    assert found is not None
    assert found.begins[0].parts == (Part(4, 0, most),)


def test_where_an_access_begins():
    op = Made()
    found = places_of(op, addresses(N))
    assert found is not None
    assert (found.map, found.extents) == (None, (4,))
    assert places_of(op, None) is None
    assert places_of(op, scalar(i64)) is None
    loaded = places_of(op, scalar(ITEM))
    assert loaded is not None
    assert loaded.extents == (4,)
