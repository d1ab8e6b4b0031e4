"""Timelines: intervals on tracks, predicted or measured, and what a recording kernel can say.

A kernel that records its own timeline writes *records*: the number of a segment of its program,
then the clock at each point of that segment. A `TimelineTable` says what lies between the points.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple


class Interval(NamedTuple):
    """Something that takes time on one track of a timeline, in cycles."""

    track: str
    name: str
    start: float
    end: float
    event: Any = None
    """What takes the time: predicted, the simulator's event (its op, and in its text the actor and
    its iteration); measured, the `Activity`."""


def perfetto(intervals: Iterable[Interval], clock_ghz: float, title: str = "tawa") -> str:
    """A trace for ui.perfetto.dev: one thread a track, times in microseconds at a clock.

    The format is that of the Trace Event document: `X` events with `ts` and `dur`, and `M` events
    that name the process and its threads.
    """
    tracks: dict[str, int] = {}
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": title}}
    ]
    for interval in intervals:
        if interval.track not in tracks:
            tracks[interval.track] = len(tracks) + 1
            named = {"ph": "M", "pid": 1, "tid": tracks[interval.track], "name": "thread_name"}
            events.append({**named, "args": {"name": interval.track}})
        start, duration = (t / clock_ghz / 1e3 for t in _span(interval))
        place = {"pid": 1, "tid": tracks[interval.track]}
        events.append({"ph": "X", "name": interval.name, "ts": start, "dur": duration, **place})
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})


def _span(interval: Interval) -> tuple[float, float]:
    return interval.start, interval.end - interval.start


DETAILS = ("fine", "coarse", "tiles")
"""How many points a recording kernel has, most first."""


@dataclass(frozen=True)
class Activity:
    """What a role does between two points of a segment.

    - `kind`: `barrier wait`, `wgmma wait`, `store wait`, `meeting`, `copy issue`, `wgmma issue`,
      `store issue`, `arrival` or `work` (ordinary code).
    - `detail`: of what; the names are the kernel's own.
    - `op`: the op of the hopper level that it begins with.
    - `place`: `file:line:column` of the user's source, or nothing.
    - `pending`: of a `wgmma wait`, how many groups of products it leaves in flight.
    - `parts`: of kind `mixed`: several activities, one after the other, with no points between.
    """

    kind: str
    detail: str = ""
    op: str = ""
    place: str = ""
    pending: int = 0
    parts: tuple[Activity, ...] = ()

    @property
    def name(self) -> str:
        """How an interval of it is called."""
        if self.parts:
            return " + ".join(dict.fromkeys(part.name for part in self.parts))
        return f"{self.kind} {self.detail}".strip()

    @property
    def elements(self) -> tuple[Activity, ...]:
        """Its parts, or itself if it has none."""
        return self.parts or (self,)


def combined(activities: Iterable[Activity | None]) -> Activity | None:
    """Activities that follow each other as one: ordinary code stays `work`, else it is `mixed`."""
    parts = tuple(e for a in activities if a is not None for e in a.elements)
    if len(parts) < 2:
        return parts[0] if parts else None
    if all(part.kind == "work" for part in parts):
        return replace(parts[0], detail=", ".join(dict.fromkeys(p.detail for p in parts)))
    return Activity("mixed", op=parts[0].op, place=parts[0].place, parts=parts)


@dataclass(frozen=True)
class Segment:
    """Points that are always passed one after the other: what one record holds.

    - `role`: the role that passes them.
    - `gaps`: what is done between each point and the next; one less than there are points.
    - `lead`, `trail`: what is done between the record before and the first point, and after the
      last one.
    - `tile_begins`, `tile_ends`: an iteration of the loop over tiles begins at the first point, or
    ends
      at the last.
    """

    role: str
    gaps: tuple[Activity | None, ...]
    lead: Activity | None = None
    trail: Activity | None = None
    tile_begins: bool = False
    tile_ends: bool = False

    @property
    def points(self) -> int:
        """How many points it has."""
        return len(self.gaps) + 1


@dataclass(frozen=True)
class TimelineTable:
    """What a recording kernel can say: who records (warp groups, by name), and its segments.

    `detail` is one of `DETAILS`; `notes` are sentences about how the recording came about.
    """

    recorders: tuple[str, ...]
    segments: tuple[Segment, ...]
    detail: str = "fine"
    notes: tuple[str, ...] = ()

    @property
    def tag_bits(self) -> int:
        """Low bits of a record's first word that hold the number of its segment."""
        return max(1, (len(self.segments) - 1).bit_length())

    def to_record(self) -> dict[str, Any]:
        """The table as JSON's own types."""
        return asdict(self)

    @staticmethod
    def from_record(record: dict[str, Any]) -> TimelineTable:
        """What `to_record` made, with lists or tuples."""
        return TimelineTable(
            tuple(record["recorders"]),
            tuple(_segment(dict(s)) for s in record["segments"]),
            record["detail"],
            tuple(record["notes"]),
        )


def _segment(record: dict[str, Any]) -> Segment:
    gaps = tuple(_activity(gap) for gap in record.pop("gaps"))
    lead, trail = (_activity(record.pop(name)) for name in ("lead", "trail"))
    return Segment(gaps=gaps, lead=lead, trail=trail, **record)


def _activity(record: dict[str, Any] | None) -> Activity | None:
    if record is None:
        return None
    own: dict[str, Any] = {
        **record,
        "parts": tuple(Activity(**dict(part)) for part in record["parts"]),
    }
    return Activity(**own)
