"""What a recorded launch says of all its CTAs together."""

from __future__ import annotations

import struct

import pytest

from tawa.base.timeline import Activity, Segment, TimelineTable
from tawa.machine.chips import DEFAULT
from tawa.runtime.recorded import (
    HEADER,
    HEADER_BYTES,
    Launch,
    Track,
    _cta_of,  # pyright: ignore[reportPrivateUsage]
    _durations,  # pyright: ignore[reportPrivateUsage]
    aligned,
)
from tawa.runtime.tracebuffer import LONGEST_RECORD, STORED


def launch(*spans: tuple[float, float | None]) -> Launch:
    tracks = [Track(cta, "math", begin, end, []) for cta, (begin, end) in enumerate(spans)]
    table = TimelineTable((), (), "coarse", ())
    return Launch("kernel", (len(spans),), table, tracks, clock_ghz=1.0)


def test_places_that_stay_empty_count() -> None:
    found = launch((0.0, 100.0), (0.0, 80.0), (0.0, 60.0), (60.0, 80.0))
    assert found.taken == (3, 260 / 300)
    assert "at most 3 CTAs at once; so many places are taken for 87%" in found.render()


def test_one_cta_says_nothing_of_places() -> None:
    for one in (launch((0.0, 10.0)), launch((0.0, 10.0), (0.0, None))):
        assert one.taken == (1, 1.0)
        assert "at once" not in one.render()
    assert launch().taken == (0, 0.0)


# --- from words to times ---------------------------------------------------------------------------

LOADS, WAITS = Activity("copy issue", "a"), Activity("barrier wait", "full")
TABLE = TimelineTable(
    ("load", "math"),
    (Segment("load", (LOADS,)), Segment("math", (WAITS, None, LOADS), trail=WAITS),
     Segment("math", (), lead=LOADS, tile_begins=True),
     Segment("math", (LOADS,), tile_ends=True)),
)  # fmt: skip
BITS = TABLE.tag_bits
START = 5_000_000


def region(
    begin: tuple[int, int],
    end: tuple[int, int] | None,
    records: list[tuple[int, list[int]]],
    *,
    place: int = 0,
    size: int = 4096,
    lost: int = 0,
) -> bytes:
    """What a recorder writes: timer (ns) and clock at begin and end, segments and their clocks."""
    words: list[int] = []
    for number, clocks in records:
        first = (clocks[0] & (1 << (32 - BITS)) - 1) << BITS | number
        own = [first, *(clock & 0xFFFFFFFF for clock in clocks[1:])]
        words += own + [0] * (-len(own) % STORED)
    used = HEADER_BYTES + 4 * len(words) - lost
    header = HEADER.pack(*begin, *(end or (0, 0)), place, used if end else 0)
    body = header.ljust(HEADER_BYTES, b"\0") + struct.pack(f"<{len(words)}I", *words)
    return body.ljust(size, b"\0")


def test_clocks_come_back_as_they_were() -> None:
    """Though only their low bits are kept: each comes less than a turn of those after the last."""
    clocks = [3 + (1 << 32), (1 << 32) + 900, (2 << 32) - 5, (2 << 32) + 7]
    near = [clocks[-1] + 10, clocks[-1] + (1 << 30) - 11]
    written = [(1, clocks), (0, near), (2, [near[-1] + 1])]
    begin, end = (START, 1 << 32), (START + 10**7, near[-1] + 500)
    ghz, (track,), _ = aligned({(4, 1): region(begin, end, written)}, TABLE)
    assert ghz == pytest.approx((end[1] - begin[1]) / 10**7)
    assert (track.cta, track.name, track.full, track.multiprocessor) == (4, "math", False, 0)
    assert track.begin == pytest.approx(0, abs=1)
    assert track.end == pytest.approx(end[1] - begin[1], abs=1)
    found = [(number, [round(t + begin[1]) for t in times]) for number, times in track.records]
    assert found == written


def test_what_is_not_whole_is_left_out() -> None:
    begin, end = (START, 100), (START + 1000, 2100)
    records = [(0, [200, 300]), (1, [400, 500, 600, 700])]
    for lost, count in ((0, 2), (1, 1), (4, 1), (16, 1), (24, 1), (25, 0)):
        _, (track,), _ = aligned({(0, 1): region(begin, end, records, lost=lost)}, TABLE)
        assert len(track.records) == count, lost
    _, (open_,), _ = aligned({(0, 1): region(begin, None, records)}, TABLE)
    assert (open_.end, list(open_.records)) == (None, [])
    assert aligned({(0, 0): bytes(4096)}, TABLE)[1] == [], "nobody began"


@pytest.mark.parametrize(("size", "full"), [(640, True), (624, True), (656, False), (4096, False)])
def test_a_region_without_room_for_a_record_is_full(size: int, full: bool) -> None:
    """Of 128 bytes that are used, with so many that are kept free behind them."""
    records = [(1, [200, 300, 400, 500])] * 4
    assert HEADER_BYTES + 64 + LONGEST_RECORD == 640
    _, (track,), _ = aligned(
        {(0, 1): region((START, 100), (START + 9, 600), records, size=size)}, TABLE
    )
    assert track.full is full


def test_multiprocessors_have_clocks_of_their_own() -> None:
    """At one rate; origins are what the timer says in the middle of begins and ends."""
    regions = {
        (1, 0): region((START + 500, 7_001_000), (START + 1500, 7_003_000), [], place=1),
        (0, 0): region((START, 50), (START + 1000, 2050), [], place=0),
        (0, 1): region((START + 100, 250), None, [], place=0),
    }
    ghz, tracks, step = aligned(regions, TABLE)
    assert ghz == 2.0
    assert [(t.cta, t.name, t.begin, t.end) for t in tracks] == [
        (0, "load", 0.0, 2000.0), (0, "math", 200.0, None), (1, "load", 1000.0, 3000.0)]  # fmt: skip
    assert step == 100
    early = region((START, 50), (START + 1000, 2090), [])
    assert aligned({(0, 0): early}, TABLE)[1][0].begin == pytest.approx(0, abs=1e-9)
    still = region((START, 50), (START, 90), [])
    assert aligned({(0, 0): still}, TABLE)[0] == DEFAULT.clock_ghz, "the timer did not move"


def test_passages_and_tiles() -> None:
    records = [(2, (10.0,)), (1, (20.0, 25.0, 27.0, 30.0)), (3, (40.0, 45.0))]
    track = Track(0, "math", 0.0, 60.0, records)
    named = [(place, a.name, b, e) for place, a, b, e in track.passages(TABLE)]
    assert named == [
        ((2, -1), "copy issue a", 0.0, 10.0), ((1, 0), "barrier wait full", 20.0, 25.0),
        ((1, 2), "copy issue a", 27.0, 30.0), ((1, 3), "barrier wait full", 30.0, 40.0),
        ((3, 0), "copy issue a", 40.0, 45.0),
    ]  # fmt: skip
    own = [(i.name, i.start, i.end) for i in track.intervals(TABLE, "t")]
    assert own[:2] == [("role math", 0.0, 60.0), ("tile", 10.0, 45.0)]
    last = Track(0, "math", 0.0, 60.0, records[:2])
    assert [*last.passages(TABLE)][-1][2:] == (30.0, 60.0)
    for ended in (Track(0, "math", 0.0, None, records[:2]), Track(0, "math", 0.0, 60.0, records[:2], True),
                  Track(0, "math", 0.0, 30.0, records[:2])):  # fmt: skip
        assert [*ended.passages(TABLE)][-1][2:] == (27.0, 30.0)
    (only,) = Track(0, "math", 5.0, None, []).intervals(TABLE, "t")
    assert only.end == 5.0


def test_products_last_until_they_are_waited_for() -> None:
    issue, wait = Activity("wgmma issue", "p"), Activity("wgmma wait", pending=1)
    drain = Activity("wgmma wait", pending=0)
    table = TimelineTable(("math",), (Segment("math", (issue,)), Segment("math", (wait,)),
                                      Segment("math", (drain,))))  # fmt: skip
    records = [(0, (10.0, 12.0)), (0, (14.0, 15.0)), (1, (15.0, 30.0)), (2, (31.0, 50.0))]
    track = Track(0, "math", 0.0, 60.0, records)
    assert [(i.name, i.start, i.end) for i in track.products(table, "t")] == [
        ("p", 12.0, 30.0), ("p", 30.0, 50.0)]  # fmt: skip


@pytest.mark.parametrize(
    ("actor", "place"),
    [("CTA 1 math.0", (1, "math.0")), ("math.0", (0, "math.0")), ("CTA 3 a b", (3, "a b")),
     ("CTA 1", (0, "CTA 1")), ("ROW 1 math", (0, "ROW 1 math"))],
)  # fmt: skip
def test_actors_of_clusters(actor: str, place: tuple[int, str]) -> None:
    assert _cta_of(actor) == place


def test_how_long_an_activity_takes() -> None:
    times = [float(n) for n in (5, 1, 4, 2, 3, 10, 9, 8, 7, 6)]
    found = _durations("math", LOADS, times)
    assert (found.count, found.median, found.p10, found.p90, found.total) == (10, 5.5, 2, 10, 55)
    assert _durations("math", LOADS, [4.0]).p90 == 4.0
