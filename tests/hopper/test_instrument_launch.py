"""Recording as users do it: a block around launches; what happens without a GPU, and by mistake."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.driver.compiler import compile_kernel
from tawa.hopper.recording.instrument import NotInstrumentable
from tawa.kernels.gemm import Configuration, matmul
from tawa.runtime.recorded import Launch
from tawa.runtime.timeline import LIMIT, BadTimeline, NoTimeline, TimelineEmpty, _reader

sys.path.append(str(Path(__file__).parents[2] / "examples"))


@tawa.jit
def double(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)


@tawa.jit
def named(timeline, BLOCK: tl.constexpr):
    tl.store(timeline + tl.arange(0, BLOCK), 1.0)


@pytest.fixture(scope="module")
def product() -> tuple[tawa.Timeline, np.ndarray, np.ndarray]:
    """A library product in a timeline's block: the timeline, what it gave and should give."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((256, 320)).astype(np.float16) for _ in range(2))
    with tawa.Timeline(detail="fine") as timeline:
        c = matmul(a, b.T, config=Configuration(64, 32, 64))
    return timeline, c, a.astype(float) @ b.astype(float).T


def test_numpy_arrays_get_the_simulators_times(product):
    timeline, c, expected = product
    assert np.abs(c - expected).max() < 0.1
    launch = timeline.launch
    assert launch.simulated
    assert "simulated" in launch.render()
    assert not launch.missing()
    assert 0 < launch.cycles < 1e6
    turns = {d.count for d in launch.durations() if d.activity.kind == "copy issue"}
    assert turns == {320 // 64}


def test_simulated_times_agree_with_the_prediction(product):
    from tawa.simulate import predict_launch

    launch = product[0].launch
    a, b, c = (np.zeros((256, n), np.float16) for n in (320, 320, 256))
    kernel = double.compile("*f32:16", "*f32:16", "i32", BLOCK=128, timeline=True)
    x = np.zeros(128, np.float32)
    module, values = kernel.module("hopper"), [x, x.copy(), 128]
    found = predict_launch(module, (1,), values, clock_ghz=1.7, timeline=True).first
    assert found is not None
    (stamps,) = found.stamps.values()
    assert stamps[0][1:] == (-1, 0)
    assert stamps[-1][1:] == (-1, 1)
    assert [t for t, *_ in stamps] == sorted(t for t, *_ in stamps)
    assert stamps[-1][0] <= found.cycles
    del a, b, c
    assert all(i.end >= i.start >= 0 for i in launch.intervals())
    assert max(i.end for i in launch.intervals()) <= launch.cycles


def test_the_trace_is_written(product, tmp_path: Path):
    path = product[0].save(tmp_path / "trace.json")
    events = json.loads(path.read_text())["traceEvents"]
    assert events[0]["args"]["name"].endswith("(simulated)")
    assert {e["args"]["name"] for e in events if e["ph"] == "M"} >= {"load"}


def test_only_launches_in_the_block_are_instrumented():
    x = np.arange(100, dtype=np.float32)
    y = np.zeros_like(x)
    before = double[(1,)](x, y, 100, BLOCK=128)
    with tawa.Timeline() as timeline:
        inside = double[(1,)](x, y, 100, BLOCK=128)
    after = double[(1,)](x, y, 100, BLOCK=128)
    assert before is after
    assert before.spec.timeline is None
    assert inside.spec.timeline is not None
    assert "timestamp" in str(inside.stages["cu"])
    assert "timestamp" not in str(before.stages["cu"])
    assert inside.stages["aref"] == before.stages["aref"]
    np.testing.assert_array_equal(y, 2 * x)
    assert timeline.launch.kernel == before.spec.entry


def test_the_detail_is_the_blocks():
    x, y = np.ones((2, 4), np.float32)
    points = {}
    for detail in ("fine", "coarse", "tiles"):
        with tawa.Timeline(detail=detail):
            found = double[(1,)](x, y, 4, BLOCK=16)
        assert found.spec.timeline is not None
        assert found.spec.timeline.detail == detail
        points[detail] = sum(s.points for s in found.spec.timeline.segments)
    assert points["fine"] >= points["coarse"] >= points["tiles"] > 0
    same = double.compile("*f32:16", "*f32:16", "i32", BLOCK=16, timeline=True).spec.timeline
    assert same is not None
    assert same.detail == "coarse"


def test_blocks_nest():
    x, y = np.ones((2, 4), np.float32)
    with tawa.Timeline() as outer:
        double[(1,)](x, y, 4, BLOCK=16)
        with tawa.Timeline() as inner:
            double[(2,)](x, y, 4, BLOCK=16)
        double[(3,)](x, y, 4, BLOCK=16)
    assert [launch.grid[0] for launch in outer.launches] == [1, 3]
    assert [launch.grid[0] for launch in inner.launches] == [2]


def test_the_last_launch_of_each_kernel_and_grid_is_kept():
    table = double.compile("*f32", "*f32", "i32", BLOCK=16, timeline=True).spec.timeline
    assert table is not None
    timeline = tawa.Timeline()
    for number in range(LIMIT + 3):
        timeline.add(Launch("k", (number,), table, [], 1.0, simulated=True))
    timeline.add(Launch("k", (5,), table, [], 2.0, simulated=True))
    assert [launch.grid[0] for launch in timeline.launches][-2:] == [LIMIT + 2, 5]
    assert len(timeline.launches) == LIMIT
    assert timeline.launch.clock_ghz == 2.0


class Buffer:
    """Stands where device memory does: regions that change with each launch."""

    def __init__(self) -> None:
        self.regions: dict[tuple[int, int], bytes] = {}

    def read(self) -> dict[tuple[int, int], bytes]:
        return self.regions


def test_a_launch_is_decoded_once_for_each_time_it_was_made():
    spec = double.compile("*f32", "*f32", "i32", BLOCK=16, timeline=True).spec
    buffer = Buffer()
    read = _reader(spec, (2,), buffer)  # pyright: ignore
    first = read()
    assert read() is first
    assert first.grid == (2, 1, 1)
    assert first.tracks == []
    buffer.regions = {}
    assert read() is not first


def test_mistakes_have_names(tmp_path: Path):
    x = np.zeros(16, np.float32)
    with pytest.raises(NoTimeline):
        double[(1,)](x, x, 16, BLOCK=16, timeline=True)
    with tawa.Timeline(), pytest.raises(BadTimeline, match="called `timeline`"):
        named[(1,)](x, BLOCK=16)
    named[(1,)](x, BLOCK=16)
    with pytest.raises(TimelineEmpty):
        tawa.Timeline().save(tmp_path / "trace.json")
    for sizes in ({"ctas": 0}, {"kilobytes": 3}, {"kilobytes": 96}, {"kilobytes": 8192}):
        with pytest.raises(BadTimeline):
            tawa.Timeline(**sizes)
    with pytest.raises(BadTimeline, match="detail"):
        tawa.Timeline(detail="all")
    with pytest.raises(tawa.TawaError, match="timeline"):
        double[(1,)](x, x, 16, BLOCK=16, timeline="yes")


def test_stages_by_hand():
    request = double.request("*f32:16", "*f32:16", "i32", BLOCK=128, timeline=True)
    arguments = double, request.types, request.constants, request.options
    plain = double.compile("*f32:16", "*f32:16", "i32", BLOCK=128)
    texts = {stage: str(plain.stages[stage]) for stage in ("hopper", "cu")}
    found = compile_kernel(*arguments, start=("hopper", texts["hopper"]))
    assert found.spec.timeline == double.compile(
        "*f32:16", "*f32:16", "i32", BLOCK=128, timeline=True
    ).spec.timeline  # fmt: skip
    with pytest.raises(NotInstrumentable):
        compile_kernel(*arguments, start=("cu", texts["cu"]))
    with pytest.raises(NotInstrumentable):
        compile_kernel(*arguments, override={"cu": texts["cu"]})
