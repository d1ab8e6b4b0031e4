"""What fills the time of each lane in two timelines: predicted and measured, or two kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from tawa.cli.report.timeline import Timeline, shares


@dataclass(frozen=True)
class Compared:
    """Microseconds that one kind of work takes in a lane of each; None where it is in one only."""

    lane: str
    what: str
    one: float | None
    other: float | None

    @property
    def ratio(self) -> float | None:
        """The other's time over the one's; None where there is nothing to divide by."""
        return self.other / self.one if self.one and self.other is not None else None


def compared(one: Timeline, other: Timeline) -> Iterator[Compared]:
    """The whole first; then, lane by lane, what fills it."""
    yield Compared("all", "first to last", *(t.cycles / t.clock_ghz / 1e3 for t in (one, other)))
    left, right = _times(one), _times(other)
    for key in dict.fromkeys((*left, *right)):
        yield Compared(*key, left.get(key), right.get(key))


def _times(timeline: Timeline) -> dict[tuple[str, str], float]:
    """Microseconds by lane and by what fills it."""
    unit = 1 / timeline.clock_ghz / 1e3
    return {
        (lane.name, what): cycles * unit
        for lane in timeline.lanes
        for what, cycles in shares(lane, 1.0).items()
    }


def table(one: Timeline, other: Timeline, names: tuple[str, str]) -> str:
    """Both times of each row beside each other, as HTML."""
    head = "".join(f'<th class="n">{escape(name)}, µs</th>' for name in names)
    body = "".join(_row(row) for row in compared(one, other))
    return (
        f"<table><thead><tr><th>lane</th><th>what</th>{head}<th class='n'>ratio</th></tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _row(row: Compared) -> str:
    times = "".join(f'<td class="n">{_number(time)}</td>' for time in (row.one, row.other))
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return (
        f"<tr><td>{escape(row.lane)}</td><td>{escape(row.what)}</td>{times}"
        f'<td class="n">{ratio}</td></tr>'
    )


def _number(time: float | None) -> str:
    return "" if time is None else f"{time:.2f}"
