"""Timelines as files: Perfetto's (and Chrome's) trace JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tawa.simulate.timing import Interval


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
