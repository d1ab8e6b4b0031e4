"""Launches that wrote their timelines: tracks, intervals, and how long each activity takes.

`tawa.hopper.dialect.trace` describes what recorders write, a `TimelineTable` what it means.
"""

from __future__ import annotations

import math
import statistics
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from tawa.base.timeline import Activity, Interval, TimelineTable, combined
from tawa.machine.chips import DEFAULT
from tawa.runtime.tracebuffer import LONGEST_RECORD, STORED

Place = tuple[int, int]
"""The number of a segment, and of a gap between its points: -1 before the first, then from 0."""


@dataclass(frozen=True)
class Track:
    """What one recorder wrote: times in clocks of all multiprocessors' common origin.

    - `cta`, `name`: whose it is; the name is that of the simulator's actor.
    - `begin`, `end`: of the role; `end` is None if it did not end.
    - `records`: the number of each segment passed, and the time of each of its points.
    - `full`: there was no room for later records.
    """

    cta: int
    name: str
    begin: float
    end: float | None
    records: Sequence[tuple[int, tuple[float, ...]]]
    full: bool = False
    multiprocessor: int | None = None

    def intervals(self, table: TimelineTable, track: str) -> Iterator[Interval]:
        """The role, its tiles and its activities, as intervals of a track, in order of begin."""
        last = self.end if self.end is not None else self._last
        yield Interval(track, f"role {self.name}", self.begin, last)
        tile: float | None = None
        for number, times in self.records:
            segment = table.segments[number]
            if segment.tile_begins:
                tile = times[0]
            if segment.tile_ends and tile is not None:
                yield Interval(track, "tile", tile, times[-1])
        for _, activity, start, end in self.passages(table):
            yield Interval(track, activity.name, start, end, activity)

    def passages(self, table: TimelineTable) -> Iterator[tuple[Place, Activity, float, float]]:
        """What was done between points, in order: where in the program, what, from when to when."""
        number, at, trail = -1, self.begin, None
        for following, times in self.records:
            segment = table.segments[following]
            between = combined((trail, segment.lead))
            if between is not None:
                place = (number, len(table.segments[number].gaps)) if trail else (following, -1)
                yield place, between, at, times[0]
            for gap, activity in enumerate(segment.gaps):
                if activity is not None:
                    yield (following, gap), activity, times[gap], times[gap + 1]
            number, at, trail = following, times[-1], segment.trail
        ended = self.end is not None and self.end > at and not self.full
        if trail is not None and self.end is not None and ended:
            yield (number, len(table.segments[number].gaps)), trail, at, self.end

    @property
    def _last(self) -> float:
        return self.records[-1][1][-1] if self.records else self.begin

    def products(self, table: TimelineTable, track: str) -> Iterator[Interval]:
        """Groups of matrix instructions, as long as each may have been on the tensor core.

        That is from its issue, or the end of the group before, to the wait that found it done. An
        issue among other activities may be as early as they begin, a wait as late as they end.
        """
        if table.detail == "tiles":
            return  # how many iterations a loop took is not recorded
        flying: list[tuple[Activity, float]] = []
        done = self.begin
        for _, activity, begin, end in self.passages(table):
            for part in activity.elements:
                if part.kind == "wgmma issue":
                    flying.append((part, end if part is activity.elements[-1] else begin))
                while part.kind == "wgmma wait" and len(flying) > part.pending:
                    issue, start = flying.pop(0)
                    if end > max(start, done):
                        yield Interval(track, issue.detail, max(start, done), end, issue)
                    done = end


@dataclass(frozen=True)
class Durations:
    """How long one activity took, each time that it was recorded, in clocks."""

    role: str
    activity: Activity
    count: int
    median: float
    p10: float
    p90: float
    total: float
    """Over all recorders, so to be divided by their number for one's share."""

    def as_row(self) -> dict[str, Any]:
        """A JSON object."""
        own = {k: round(getattr(self, k), 1) for k in ("median", "p10", "p90", "total")}
        a = self.activity
        named = {"role": self.role, "name": a.name, "kind": a.kind, "detail": a.detail, "op": a.op}
        return {**named, "place": a.place, "count": self.count, **own}


@dataclass(frozen=True)
class Launch:
    """One recorded launch.

    `simulated` says that the times are the simulator's: one CTA (or cluster), replayed with the
    costs of the hardware table.
    """

    kernel: str
    grid: tuple[int, ...]
    table: TimelineTable
    tracks: Sequence[Track]
    clock_ghz: float
    simulated: bool = False
    step_ns: int = 0
    """The step of the timer that multiprocessors are aligned by; within one, times are exact."""

    @property
    def cycles(self) -> float:
        """From the first role's begin to the last one's end."""
        ends = [t.end for t in self.tracks if t.end is not None]
        return max(ends, default=0.0) - min((t.begin for t in self.tracks), default=0.0)

    @property
    def ctas(self) -> list[int]:
        """The CTAs that were recorded."""
        return sorted({track.cta for track in self.tracks})

    @property
    def taken(self) -> tuple[int, float]:
        """The most CTAs at once, and for which part of the time so many places are taken."""
        spans: dict[int, tuple[float, float]] = {}
        for track in self.tracks:
            if track.end is not None:
                begin, end = spans.get(track.cta, (track.begin, track.end))
                spans[track.cta] = min(begin, track.begin), max(end, track.end)
        begins, ends = ([span[side] for span in spans.values()] for side in (0, 1))
        steps = sorted([(end, -1) for end in ends] + [(begin, 1) for begin in begins])
        places = max(accumulate(step for _, step in steps), default=0)
        time = sum(ends) - sum(begins)
        return places, time / max(1.0, places * self.cycles)

    def intervals(self, ctas: Sequence[int] | None = None) -> list[Interval]:
        """Intervals of some CTAs (by default all); times count from the first begin.

        Of one CTA, tracks are named as those of a predicted timeline; else with their CTA.
        """
        chosen = self.ctas if ctas is None else list(ctas)
        found: list[Interval] = []
        for track in (t for t in self.tracks if t.cta in chosen):
            name = track.name if len(chosen) == 1 else f"CTA {track.cta} {track.name}"
            found += track.intervals(self.table, name)
            found += track.products(self.table, f"products of {name}")
        start = min((i.start for i in found), default=0.0)
        return [i._replace(start=i.start - start, end=i.end - start) for i in found]

    def durations(self) -> list[Durations]:
        """How long each activity takes, in the program's order."""
        times: dict[tuple[Place, Activity], list[float]] = {}
        for track in self.tracks:
            for place, activity, start, end in track.passages(self.table):
                times.setdefault((place, activity), []).append(end - start)
        return [
            _durations(self.table.segments[place[0]].role, activity, times[place, activity])
            for place, activity in sorted(times, key=lambda key: (key[0], key[1].name))
        ]

    def missing(self) -> list[str]:
        """Sentences about what was not recorded, or not as it was asked for."""
        found: list[str] = list(self.table.notes)
        full = [t for t in self.tracks if t.full]
        if full:
            names = ", ".join(sorted({t.name for t in full}))
            found.append(
                f"{len(full)} of {len(self.tracks)} regions are full ({names}): later records are "
                "missing; give Timeline more `kilobytes`"
            )
        stopped = [t for t in self.tracks if t.end is None]
        if stopped:
            found.append(f"{len(stopped)} roles did not end")
        return found

    def render(self) -> str:
        """The launch as text: its time, and a line for each activity."""
        how = "simulated" if self.simulated else "measured"
        clock = f"{self.clock_ghz:.3f} GHz"
        us = self.cycles / self.clock_ghz / 1e3
        lines = [
            f"{self.kernel}, grid {self.grid}: {how}, {us:.1f} us at {clock}, "
            f"{len(self.ctas)} CTAs recorded"
        ]
        if self.table.detail == "fine" and not self.simulated:
            lines[0] += "; so many points lengthen it, `coarse` ones by less than 3%"
        if self.step_ns:
            lines[0] += f"; between multiprocessors times are good to {self.step_ns} ns"
        places, taken = self.taken
        if places > 1 and not self.simulated:
            lines.append(f"at most {places} CTAs at once; so many places are taken for {taken:.0%}")
        lines += self.missing()
        lines.append(f"{'role':10} {'times':>7} {'median':>8} {'p90':>8}  activity (clocks)")
        for d in self.durations():
            text = f"{d.role:10} {d.count:7} {d.median:8.0f} {d.p90:8.0f}  {d.activity.name}"
            lines.append(text.rstrip())
        return "\n".join(lines)


def _durations(role: str, activity: Activity, times: list[float]) -> Durations:
    times = sorted(times)
    p10, p90 = (times[int(len(times) * q)] for q in (0.1, 0.9))
    return Durations(role, activity, len(times), statistics.median(times), p10, p90, sum(times))


def simulated(
    spec: Any,
    grid: Sequence[int],
    stamps: Mapping[str, Sequence[tuple[float, int, int]]],
    ghz: float,
) -> Launch:
    """A launch with the times of the simulator's replay: of its first CTA, or cluster."""
    tracks: list[Track] = []
    for actor, found in stamps.items():
        own, records = _Stamps(), list[tuple[int, tuple[float, ...]]]()
        for time, number, _ in found:
            if number < 0:
                own.role.append(time)
            else:
                own.times.append(time)
                if len(own.times) == spec.timeline.segments[number].points:
                    records.append((number, tuple(own.times)))
                    own.times.clear()
        cta, name = _cta_of(actor)
        tracks.append(Track(cta, name, own.role[0], own.role[-1], records))
    return Launch(spec.entry, tuple(grid), spec.timeline, tracks, ghz, simulated=True)


@dataclass
class _Stamps:
    """Of one actor: when its role begins and ends, and the record that is being made."""

    role: list[float] = field(default_factory=list[float])
    times: list[float] = field(default_factory=list[float])


def _cta_of(actor: str) -> tuple[int, str]:
    """The CTA and the name in `CTA 1 math.0`, as the actors of a cluster are called."""
    words = actor.split(" ", 2)
    return (int(words[1]), words[2]) if words[0] == "CTA" and len(words) == 3 else (0, actor)


# --- from words to times ----------------------------------------------------------------------

HEADER_BYTES = 64
HEADER = struct.Struct("<6Q")
"""Timer and clock at begin, timer and clock at end, multiprocessor, offset of the end."""


@dataclass(frozen=True)
class _Header:
    begin_ns: int
    begin_clock: int
    end_ns: int
    end_clock: int
    multiprocessor: int
    end_offset: int

    def samples(self) -> list[tuple[int, int]]:
        """Timer and clock, whenever both were read."""
        begin = (self.begin_ns, self.begin_clock)
        return [begin, (self.end_ns, self.end_clock)] if self.end_ns else [begin]


def aligned(
    regions: Mapping[tuple[int, int], bytes], table: TimelineTable
) -> tuple[float, list[Track], int]:
    """The clock in GHz, the tracks, and the timer's step (ns) of regions by CTA and recorder.

    Every multiprocessor counts clocks from its own origin, at one common rate. The rate is what the
    clocks and the device's timer advance by between begins and ends; an origin is the middle of
    what the timer says at begins and ends on that multiprocessor, since the timer moves in steps.
    """
    headers = {
        key: _Header(*HEADER.unpack_from(region))
        for key, region in regions.items()
        if region[:8] != bytes(8)
    }
    ended = [h for h in headers.values() if h.end_ns > h.begin_ns]
    clocks = sum(h.end_clock - h.begin_clock for h in ended)
    ns = sum(h.end_ns - h.begin_ns for h in ended)
    ghz = clocks / ns if ns else DEFAULT.clock_ghz  # the timer did not advance
    offsets = _offsets(list(headers.values()), ghz)
    tracks = [
        _track(key, header, regions[key], offsets[header.multiprocessor], table)
        for key, header in sorted(headers.items())
    ]
    return ghz, tracks, timer_step(list(headers.values()))


def _offsets(headers: Sequence[_Header], ghz: float) -> dict[int, float]:
    """What to add to each multiprocessor's clock, so that the first begin is at about 0."""
    origin = min((h.begin_ns for h in headers), default=0)
    found: dict[int, list[float]] = {}
    for header in headers:
        for ns, clock in header.samples():
            found.setdefault(header.multiprocessor, []).append((ns - origin) * ghz - clock)
    return {number: (min(values) + max(values)) / 2 for number, values in found.items()}


def timer_step(headers: Sequence[_Header]) -> int:
    """Nanoseconds that the device's timer moves by at once, as far as the headers tell."""
    times = [ns for header in headers for ns, _ in header.samples()]
    return math.gcd(*(ns - times[0] for ns in times)) if times else 0


def _track(
    key: tuple[int, int], header: _Header, region: bytes, offset: float, table: TimelineTable
) -> Track:
    ended = header.end_ns != 0
    used = header.end_offset if ended else HEADER_BYTES
    words = memoryview(region)[HEADER_BYTES : used - used % 4].cast("I")
    records: list[tuple[int, tuple[float, ...]]] = []
    at, now, bits = 0, header.begin_clock, table.tag_bits
    while at < len(words) and (number := words[at] & (1 << bits) - 1) < len(table.segments):
        own = words[at : at + table.segments[number].points]
        if len(own) < table.segments[number].points:
            break
        now += ((own[0] >> bits) - now) & (1 << 32 - bits) - 1
        times = [now + offset]
        for word in own[1:]:
            now += (word - now) & 0xFFFFFFFF
            times.append(now + offset)
        records.append((number, tuple(times)))
        at += -(-len(own) // STORED) * STORED
    full = used >= len(region) - LONGEST_RECORD
    cta, recorder = key
    end = header.end_clock + offset if ended else None
    begin = header.begin_clock + offset
    return Track(cta, table.recorders[recorder], begin, end, records, full, header.multiprocessor)
