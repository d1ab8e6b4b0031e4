"""From words in memory to intervals: clocks of several multiprocessors, full regions, what lasts."""

from __future__ import annotations

import ctypes
import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest

from tawa.base.kernel_spec import InvalidSpec, KernelSpec, TimelineParam
from tawa.base.timeline import Activity, Interval, Segment, TimelineTable, combined, perfetto
from tawa.runtime.launch import EntryPoints, LaunchConfig, Launcher
from tawa.runtime.recorded import HEADER_BYTES, LONGEST_RECORD, Launch, Track, aligned

WAIT = Activity("barrier wait", "a_full", "hopper.mbarrier_wait", "gemm.py:4:1")
ISSUE = Activity("wgmma issue", "acc", "hopper.wgmma_fence")
DRAIN = Activity("wgmma wait", pending=1)
WORK = Activity("work", "exp2")
TABLE = TimelineTable(
    ("math.0", "math.1", "load"),
    (
        Segment("math", (WAIT, ISSUE, DRAIN), trail=WORK),
        Segment("math", (), tile_begins=True),
        Segment("math", (), tile_ends=True),
        Segment("load", (WAIT,)),
    ),
)
REGION = 4096


@dataclass
class Multiprocessor:
    """A clock of its own: `origin` at time 0 (ns), `ghz` clocks a nanosecond; a timer in steps."""

    number: int
    origin: int
    ghz: float = 1.5
    step: int = 32

    def clock(self, ns: float) -> int:
        """The 64-bit clock."""
        return self.origin + round(ns * self.ghz)

    def timer(self, ns: float) -> int:
        """The device's timer."""
        return (1_000_000_000 + int(ns)) // self.step * self.step

    def words(self, number: int, at: Sequence[float]) -> Iterator[int]:
        """Of a record: the first has the segment's number in its low bits."""
        yield (self.clock(at[0]) << TABLE.tag_bits) + number
        yield from map(self.clock, at[1:])

    def region(
        self, begin: float, end: float | None, records: Sequence[tuple[int, Sequence[float]]]
    ) -> bytes:
        """What a recorder writes; times in nanoseconds."""
        body = b"".join(
            struct.pack(f"<{len(at)}I", *(word & 0xFFFFFFFF for word in self.words(n, at)))
            for n, at in records
        )
        ends = (0, 0) if end is None else (self.timer(end), self.clock(end))
        size = 0 if end is None else HEADER_BYTES + len(body)
        header = struct.pack("<6Q", self.timer(begin), self.clock(begin), *ends, self.number, size)
        whole = header.ljust(HEADER_BYTES, b"\0") + body
        return whole.ljust(REGION, b"\xab")


def test_clocks_of_multiprocessors_are_aligned():
    first, second = Multiprocessor(7, 5_000_000_000), Multiprocessor(9, 123)
    records = [(0, (100.0, 200.0, 210.0, 300.0)), (0, (400.0, 500.0, 510.0, 600.0))]
    regions = {
        (0, 0): first.region(50, 1_000_000, records),
        (1, 0): second.region(80, 1_000_000, records),
        (2, 0): bytes(REGION),
    }
    ghz, tracks, step = aligned(regions, TABLE)
    assert ghz == pytest.approx(1.5, rel=1e-4)
    assert step == 32
    assert [(t.cta, t.multiprocessor, t.full) for t in tracks] == [(0, 7, False), (1, 9, False)]
    one, other = tracks
    assert [n for n, _ in one.records] == [0, 0]
    for (_, a), (_, b) in zip(one.records, other.records, strict=True):
        for x, y in zip(a, b, strict=True):
            assert abs(x - y) <= 2 * step * ghz
        assert [y - x for x, y in pairwise(a)] == [150, 15, 135]


def test_a_clock_whose_low_half_wraps():
    sm = Multiprocessor(0, 2**32 - 100)
    _, (track,), _ = aligned({(0, 2): sm.region(0, 5000, [(3, (60.0, 1000.0))])}, TABLE)
    ((_, (start, end)),) = track.records
    assert end - start == 1410
    assert track.name == "load"
    assert track.begin < start


def test_what_does_not_fit_is_said():
    sm = Multiprocessor(0, 0)
    count = -(-(REGION - LONGEST_RECORD - HEADER_BYTES) // 16)
    times = [(0, (i * 10.0, i * 10 + 1.0, i * 10 + 2.0, i * 10 + 3.0)) for i in range(count)]
    _, tracks, _ = aligned({(0, 0): sm.region(0, 10.0 * count, times)}, TABLE)
    launch = Launch("k", (1,), TABLE, tracks, 1.5)
    assert len(tracks[0].records) == count
    assert "1 of 1 regions are full (math.0)" in launch.missing()[0]
    assert "kilobytes" in launch.render()
    # What came after the last record is not known.
    assert [d.count for d in launch.durations() if d.activity is WORK] == [count - 1]
    _, tracks, _ = aligned({(0, 0): sm.region(0, 10.0 * count, times[:-1])}, TABLE)
    assert not Launch("k", (1,), TABLE, tracks, 1.5).missing()


def test_a_role_that_did_not_end_has_no_records():
    sm = Multiprocessor(0, 0)
    _, tracks, _ = aligned({(0, 1): sm.region(0, None, [(0, (1.0, 2.0, 3.0, 4.0))])}, TABLE)
    launch = Launch("k", (1,), TABLE, tracks, 1.5)
    assert tracks[0].end is None
    assert not tracks[0].records
    assert launch.missing() == ["1 roles did not end"]
    assert launch.cycles == 0


def launch() -> Launch:
    records = [
        (1, (5.0,)),
        (0, (10.0, 20.0, 22.0, 30.0)),
        (0, (40.0, 50.0, 52.0, 70.0)),
        (2, (90.0,)),
    ]
    return Launch("k", (2, 1, 1), TABLE, [Track(0, "math.0", 0.0, 100.0, records)], 2.0)


def test_intervals():
    found = launch().intervals()
    assert found[:2] == [
        Interval("math.0", "role math.0", 0, 100),
        Interval("math.0", "tile", 5, 90),
    ]
    assert found[2:-1] == [
        Interval("math.0", "barrier wait a_full", 10, 20, WAIT),
        Interval("math.0", "wgmma issue acc", 20, 22, ISSUE),
        Interval("math.0", "wgmma wait", 22, 30, DRAIN),
        Interval("math.0", "work exp2", 30, 40, WORK),
        Interval("math.0", "barrier wait a_full", 40, 50, WAIT),
        Interval("math.0", "wgmma issue acc", 50, 52, ISSUE),
        Interval("math.0", "wgmma wait", 52, 70, DRAIN),
        Interval("math.0", "work exp2", 70, 90, WORK),
    ]
    # One group stays in flight: the first is known to be done when the second was waited for.
    assert found[-1] == Interval("products of math.0", "acc", 22, 70, ISSUE)


def test_intervals_of_one_track_nest():
    spans = [(i.start, i.end) for i in launch().intervals() if i.track == "math.0"]
    for a, b in spans:
        for c, d in spans:
            assert b <= c or d <= a or (a <= c and d <= b) or (c <= a and b <= d)


def test_tracks_of_several_ctas_say_whose_they_are():
    two = launch()
    more = Track(5, "math.0", 1000.0, 1100.0, [])
    both = Launch(two.kernel, two.grid, TABLE, [*two.tracks, more], 2.0)
    assert {i.track for i in both.intervals()} >= {"CTA 0 math.0", "CTA 5 math.0"}
    assert {i.track for i in both.intervals([5])} == {"math.0"}
    assert both.intervals([5])[0].start == 0
    assert both.cycles == 1100


def test_durations():
    rows = [d.as_row() for d in launch().durations()]
    assert [(r["kind"], r["count"], r["median"], r["total"]) for r in rows] == [
        ("barrier wait", 2, 10, 20),
        ("wgmma issue", 2, 2, 4),
        ("wgmma wait", 2, 13, 26),
        ("work", 2, 15, 30),
    ]
    assert rows[0]["place"] == "gemm.py:4:1"


def test_activities_without_points_between():
    """An issue and its waits may be parts of one activity, also one between two records."""
    mixed = combined((ISSUE, DRAIN))
    assert mixed is not None
    assert (mixed.kind, mixed.name) == ("mixed", "wgmma issue acc + wgmma wait")
    last = Activity("wgmma wait")
    assert combined((WORK, WORK)) == WORK
    assert combined((mixed, None)) == mixed
    table = TimelineTable(
        ("math",),
        (Segment("math", (WAIT,), trail=mixed), Segment("math", (), lead=last, trail=WORK)),
        detail="coarse",
        notes=("recorded as 'coarse'",),
    )
    records = [(0, (10.0, 20.0)), (0, (60.0, 65.0)), (1, (130.0,))]
    found = Launch("k", (1,), table, [Track(0, "math", 0.0, 150.0, records)], 2.0)
    assert [(i.name, i.start, i.end) for i in found.intervals() if i.track == "math"] == [
        ("role math", 0, 150),
        ("barrier wait a_full", 10, 20),
        ("wgmma issue acc + wgmma wait", 20, 60),
        ("barrier wait a_full", 60, 65),
        ("wgmma issue acc + wgmma wait", 65, 130),
        ("work exp2", 130, 150),
    ]
    products = [(i.start, i.end) for i in found.intervals() if i.track == "products of math"]
    assert products == [(20, 130)]
    assert [(d.activity.kind, d.count, d.total) for d in found.durations()] == [
        ("barrier wait", 2, 15),
        ("mixed", 1, 40),
        ("mixed", 1, 65),
        ("work", 1, 20),
    ]
    assert found.missing() == ["recorded as 'coarse'"]
    spec = KernelSpec("k", 128, 0, (TimelineParam("mask"),), timeline=table)
    assert KernelSpec.from_json(spec.to_json()) == spec


def test_the_trace_is_in_microseconds():
    events = json.loads(perfetto(launch().intervals(), 2.0, "k"))["traceEvents"]
    named = [e["args"]["name"] for e in events if e["ph"] == "M"]
    assert named == ["k", "math.0", "products of math.0"]
    tile = next(e for e in events if e["name"] == "tile")
    assert (tile["ts"], tile["dur"]) == (pytest.approx(0.0025), pytest.approx(0.0425))


def test_the_table_survives_its_json_form():
    spec = KernelSpec("k", 128, 0, (TimelineParam("mask"),), timeline=TABLE)
    assert KernelSpec.from_json(spec.to_json()) == spec
    assert KernelSpec.from_json(KernelSpec("k", 128, 0, ()).to_json()).timeline is None


def test_a_timeline_has_three_parameters():
    with pytest.raises(InvalidSpec, match="colour"):
        TimelineParam("colour")  # pyright: ignore


def test_a_launch_passes_where_to_write():
    found: list[list[bytes]] = []
    sizes = [8, 8, 8]

    def start(config: int, kernel: int, parameters: int, extra: int | None) -> int:
        del kernel, extra
        assert LaunchConfig.from_address(config).block[0] == 128
        addresses = (ctypes.c_void_p * 3).from_address(parameters)
        found.append([ctypes.string_at(a, n) for a, n in zip(addresses, sizes, strict=True)])
        return 0

    entry = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(start)
    spec = KernelSpec(
        "k", 128, 0, tuple(TimelineParam(f) for f in ("buffer", "ctas", "mask")), timeline=TABLE
    )
    launcher = Launcher(spec, 1, 0, EntryPoints(entry, entry, lambda: 0, 132))
    launcher((1,), (), 0)
    launcher.timeline[:] = (0x7F0000010000, 132, 65535)
    launcher((1,), (), 0)
    assert found[0] == [bytes(8)] * 3
    assert [int.from_bytes(b, "little") for b in found[1]] == [0x7F0000010000, 132, 65535]
