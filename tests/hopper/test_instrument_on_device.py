"""Timelines of a GPU: results are right, every role is there, times go forward."""

from __future__ import annotations

import pytest

import tawa
from tawa.base.timeline import Segment
from tawa.kernels.gemm import matmul
from tawa.runtime.recorded import Launch, Track

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu


def product(m: int, n: int, k: int, detail: str = "coarse", **sizes: int) -> Launch:
    """The recorded launch of a product, whose result is compared with the unrecorded one."""
    torch.manual_seed(0)
    a, b = (torch.randn(size, k, device="cuda", dtype=torch.float16) for size in (m, n))
    expected = matmul(a, b.T)
    with tawa.Timeline(detail=detail, **sizes) as timeline:
        found = matmul(a, b.T)
    assert torch.equal(found, expected)
    return timeline.launch


def times(track: Track) -> list[float]:
    return [time for _, points in track.records for time in points]


@pytest.mark.parametrize("detail", ["fine", "coarse", "tiles"])
@pytest.mark.parametrize("k", [256, 4096])
def test_every_role_is_recorded(k: int, detail: str):
    launch = product(2048, 2048, k, detail, kilobytes=128)
    assert launch.table.detail == detail
    assert not launch.simulated
    assert launch.missing() == []
    assert 0.2 < launch.clock_ghz < 2.5
    assert len(launch.tracks) == len(launch.ctas) * len(launch.table.recorders)
    for track in launch.tracks:
        assert track.end is not None
        assert times(track) == sorted(times(track))
        assert track.begin <= times(track)[0]
        assert times(track)[-1] <= track.end


def test_turns_are_counted():
    """Each loading role issues the copies of its tiles' turns, and the others wait for as many."""
    launch = product(2048, 2048, 1024, "fine", kilobytes=128)

    def turns(track: Track, kind: str) -> int:
        segments: list[Segment] = [launch.table.segments[number] for number, _ in track.records]
        return sum(gap.kind == kind for s in segments for gap in s.gaps if gap is not None)

    for cta in launch.ctas:
        own = [track for track in launch.tracks if track.cta == cta]
        issued = sum(turns(track, "copy issue") for track in own if track.name == "load")
        assert issued > 0
        waited = [turns(t, "barrier wait") for t in own if t.name != "load"]
        assert sum(waited) in (issued, issued * len(waited))


def test_launches_repeat_and_overflow_is_said():
    launch = product(4096, 4096, 8192, "fine", ctas=8, kilobytes=4)
    assert launch.ctas == list(range(8))
    assert any("full" in line for line in launch.missing())
    a = torch.randn(512, 512, device="cuda", dtype=torch.float16)
    with tawa.Timeline() as timeline:
        for _ in range(5):
            matmul(a, a.T)
    assert len(timeline.launches) == 1
    assert timeline.launch.missing() == []
