"""What a recorded launch says of all its CTAs together."""

from __future__ import annotations

from tawa.base.timeline import TimelineTable
from tawa.runtime.recorded import Launch, Track


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
