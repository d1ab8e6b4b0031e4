"""Which points of a segment are recorded where not all are; how their clocks come to memory."""

from __future__ import annotations

import re

import pytest
from xdsl.dialects.builtin import i1
from xdsl.dialects.test import TestOp as Made

from tawa.base.timeline import Activity
from tawa.hopper.dialect.sync import CtaSync
from tawa.hopper.dialect.text import Writer
from tawa.hopper.dialect.trace import MOST_POINTS, RecordEnd, Timestamp, TraceType
from tawa.hopper.recording.detail import Place, Plan, thinned

TILE: dict[str, tuple[list[str], list[int]]] = {
    "a wait and what is read after it": (["work", "barrier wait", "work"], [1, 2]),
    "a meeting": (["work", "meeting", "work"], [1, 2]),
    "two meetings": (["meeting", "work", "meeting"], [0]),
    "stores after products": (["wgmma issue", "wgmma wait", "work", "store wait"], [3]),
    "products and no store": (["wgmma issue", "wgmma wait", "work"], [2]),
    "nothing that waits": (["work", "wgmma issue"], [0]),
}
INNER: dict[str, tuple[list[str], list[int]]] = {
    "a wait": (["work", "barrier wait", "work"], [1, 2]),
    "products alone": (["work", "wgmma issue", "wgmma wait"], [1]),
    "products after a wait": (["barrier wait", "wgmma issue", "wgmma wait"], [0, 1]),
    "a meeting in turns": (
        ["barrier wait", "meeting", "wgmma issue", "arrival", "work"],
        [0, 1, 4],
    ),
    "a meeting": (["work", "meeting", "work"], []),
    "more than three points": (["barrier wait", "work", "barrier wait", "work"], [0, 1, 3]),
}


def points(kinds: list[str], *, inner: bool, **more: bool) -> list[int]:
    """The points that are left, by their number."""
    places = [Place(CtaSync(), after=False) for _ in range(len(kinds) + 1)]
    gaps: list[Activity | None] = [Activity(kind) for kind in kinds]
    (found,) = thinned([Plan("math", places, inner, gaps, **more)], "coarse")
    kept = [next(n for n, place in enumerate(places) if place is p) for p in found.places]
    parts = [found.lead, *found.gaps, found.trail]
    assert sum(len(p.parts) or 1 for p in parts if p is not None) == len(kinds), "all are told"
    return kept


@pytest.mark.parametrize("name", TILE)
def test_of_a_tile(name: str):
    kinds, expected = TILE[name]
    assert points(kinds, inner=False) == expected


@pytest.mark.parametrize("name", INNER)
def test_of_an_iteration(name: str):
    kinds, expected = INNER[name]
    assert points(kinds, inner=True) == (expected or [0])


def test_a_tile_s_ends_are_kept():
    kinds = ["work", "meeting", "work"]
    assert points(kinds, inner=False, tile_begins=True, tile_ends=True) == [0, 1, 2, 3]


def text_of(count: int) -> list[str]:
    """What writes a record of so many points."""
    trace, opened = Made(result_types=[TraceType(), i1]).results
    w = Writer()
    w.bind(trace, "trace")
    w.bind(opened, "opened")
    for index in range(count):
        Timestamp(trace, opened, 0, index, count, 4).cuda(w)
    RecordEnd(trace, opened, count).cuda(w)
    return w.lines


@pytest.mark.parametrize("count", [*range(1, 10), MOST_POINTS])
def test_each_clock_is_stored_once_before_another_takes_its_register(count: int):
    held: dict[int, int] = {}
    record: dict[int, int] = {}
    *lines, end = text_of(count)
    for line in lines:
        if into := re.fullmatch(r"timestamp.*\(trace_words\[(\d)\]\);", line):
            assert int(into[1]) not in held
            held[int(into[1])] = len(record) + len(held)
        elif stored := re.match(r"record_store<(\d+), (\d)>", line):
            first, words = int(stored[1]) // 4, int(stored[2])
            record |= {first + i: held.pop(i) for i in range(words)}
    assert not held
    assert record == {i: i for i in range(count)}
    length = int(end.removeprefix("record_end<").partition(">")[0])
    assert 4 * count <= length < 4 * count + 16
    assert length % 16 == 0
