"""Intervals of a timeline as bars on lanes: what they are called, and where they come from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.ir import Operation

from tawa.base.spans import span_of
from tawa.base.timeline import Activity, Interval
from tawa.cli.report.listing import Place, places_of
from tawa.simulate.timing.trace import Step

KINDS = ("work", "wait", "copy", "tensor", "store")
"""What a bar can be: ordinary code, waiting, a copy in, matrix products, a copy out."""

MOST_BARS = 20_000
"""A timeline beyond this many bars is cut off: a page has to be opened."""

_ENGINES = {"copies": "copy", "tensor core": "tensor", "products": "tensor", "stores": "store"}
_PLACE = re.compile(r"(.*):(\d+):\d+$")


@dataclass(frozen=True)
class Bar:
    """One interval, in cycles; `row` is its row of the lane, where intervals overlap.

    `op` is the number of the op of the hopper level, in the order of a walk, and `places` are the
    lines of the user's source.
    """

    start: float
    end: float
    kind: str
    name: str
    row: int = 0
    iteration: str = ""
    slot: str = ""
    op_name: str = ""
    op: int | None = None
    places: tuple[Place, ...] = ()
    frame: bool = False
    """It spans other bars of its lane, as a tile does, and takes no time of its own."""


@dataclass(frozen=True)
class Lane:
    """The bars of one actor or engine, and how many rows they take."""

    name: str
    rows: int
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Timeline:
    """Lanes under one title (`predicted`, `measured`); times in cycles of `clock_ghz`."""

    title: str
    lanes: tuple[Lane, ...]
    clock_ghz: float
    cycles: float
    left_out: int = 0
    """Intervals after the last one shown."""
    iterations_left_out: int = 0
    """Iterations of the outermost loop, at its end, that have no intervals."""

    @property
    def note(self) -> str:
        """What is not shown, in parentheses; nothing if all is."""
        found = [f"{self.iterations_left_out} later iterations"] * bool(self.iterations_left_out)
        found += [f"{self.left_out} later intervals"] * bool(self.left_out)
        return f"({' and '.join(found)} left out)" if found else ""


def timeline(
    title: str,
    intervals: Sequence[Interval],
    clock_ghz: float,
    numbers: Mapping[Operation, int] | None = None,
    iterations_left_out: int = 0,
) -> Timeline:
    """Lanes of intervals; `numbers` are those of the ops of the module that was replayed.

    `iterations_left_out` are iterations of the outermost loop without intervals.

    Roles as a whole are left out: their activities fill them.
    """
    intervals = [i for i in intervals if not i.name.startswith("role ")]
    shown = sorted(intervals, key=lambda i: i.start)[:MOST_BARS]
    bars: dict[str, list[Bar]] = {}
    for interval in shown:
        bars.setdefault(interval.track, []).append(_bar(interval, numbers or {}))
    many = any(name.startswith("CTA ") for name in bars)
    lanes = [
        _lane(_lane_name(name, many), found)
        for name, found in bars.items()
        if not re.match(r"(CTA \d+ )?idle", name)
    ]
    end = max((i.end for i in shown), default=0.0)
    ordered = tuple(sorted(lanes, key=_order))
    cut = len(intervals) - len(shown)
    return Timeline(title, ordered, clock_ghz, end, cut, iterations_left_out)


def _order(lane: Lane) -> tuple[str, int, str]:
    """CTA by CTA: who loads, the copies, who computes, the tensor core, the stores."""
    cta = re.search(r"CTA \d+", lane.name)
    kinds = {bar.kind for bar in lane.bars}
    engine = next((e for e in _ENGINES if e in lane.name), None)
    rank = {None: 2, "copies": 1, "tensor core": 3, "products": 3, "stores": 4}[engine]
    produces = engine is None and any(b.op_name == "hopper.tma_load" for b in lane.bars)
    if produces or (engine is None and "load" in lane.name and "tensor" not in kinds):
        rank = 0
    return (cta[0] if cta else "CTA 0", rank, lane.name)


def _lane(name: str, bars: Iterable[Bar]) -> Lane:
    """Bars in as few rows as keep those of one row apart."""
    ends: list[float] = []
    placed: list[Bar] = []
    for bar in bars:
        row = next((r for r, end in enumerate(ends) if end <= bar.start + 1e-9), len(ends))
        if row == len(ends):
            ends.append(0.0)
        ends[row] = bar.end
        placed.append(replace(bar, row=row))
    return Lane(name, len(ends), tuple(placed))


def _lane_name(track: str, many: bool) -> str:
    """`CTA 1 copies` for `copies of CTA 1`; without the CTA where there is one only."""
    engine, of, cta = track.partition(" of CTA ")
    if not of:
        return track
    return f"CTA {cta} {engine}" if many else engine


def _bar(interval: Interval, numbers: Mapping[Operation, int]) -> Bar:
    kind = _kind(interval)
    event: Any = interval.event
    if isinstance(event, Activity):
        place = _PLACE.match(event.place)
        places = ((place[1], int(place[2])),) if place else ()
        name = event.name
        return Bar(interval.start, interval.end, kind, name, op_name=event.op, places=places)
    op: Operation | None = getattr(event, "op", None)
    return Bar(
        interval.start,
        interval.end,
        kind,
        _name(interval, kind),
        frame=event is None and interval.name == "tile",
        iteration=getattr(event, "iteration", ""),
        slot=getattr(event, "slot", ""),
        op_name=op.name if op is not None else "",
        op=numbers.get(op) if op is not None else None,
        places=_places(event) if isinstance(event, Step) else (),
    )


def _kind(interval: Interval) -> str:
    for engine, kind in _ENGINES.items():
        if interval.track.startswith(engine):
            return kind
    what = getattr(interval.event, "kind", "") if isinstance(interval.event, Activity) else ""
    if "wait" in (what or interval.name) or (what or interval.name) == "meeting":
        return "wait"
    return "work"


def _name(interval: Interval, kind: str) -> str:
    """What the bar is called: the copied tensor, the functions, the op."""
    if kind == "tensor":
        return re.sub(r"^CTA \d+ ", "", interval.name)
    if kind in ("copy", "store"):
        return re.sub(r"(_desc)?(_map)?$", "", interval.name)
    return interval.name


def _places(step: Step) -> tuple[Place, ...]:
    """The lines of the source that a step's ops come from."""
    found = (place for op in step.about.ops for place in places_of(span_of(op)))
    return tuple(dict.fromkeys(found))


def shares(lane: Lane, cycles: float) -> dict[str, float]:
    """What part of `cycles` the lane's bars take, by name for waits, by kind for the rest."""
    found: dict[str, float] = {}
    for bar in (b for b in lane.bars if not b.frame):
        key = bar.name if bar.kind == "wait" else bar.kind
        found[key] = found.get(key, 0.0) + (bar.end - bar.start) / cycles
    return found
