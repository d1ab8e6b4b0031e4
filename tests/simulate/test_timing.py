"""The timing model: its timeline is consistent and reacts to what should matter."""

import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import pytest

from tawa.base.target import SM90A
from tawa.simulate.catalogue import KINDS, Kernel, correct
from tawa.simulate.timeline import perfetto
from tawa.simulate.timing import Prediction, predict


def prediction(kind: str = "cooperative", k: int = 320, **options) -> Prediction:
    kernel = Kernel(correct(kind).text, k)
    grid, arguments = kernel.launch
    return predict(kernel.module(), grid, arguments, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_the_timeline_is_consistent(kind: str):
    found = prediction(kind)
    engines = defaultdict(list)
    for interval in found.timeline:
        assert 0 <= interval.start <= interval.end <= found.cycles
        if interval.track.startswith("tensor core"):
            engines[interval.track].append((interval.start, interval.end))
    assert engines
    for intervals in engines.values():
        intervals.sort()
        for before, after in pairwise(intervals):
            assert before[1] <= after[0], "the tensor core does one thing at a time"
    assert all(0 < share <= 1 for share in found.busy.values())


def test_the_tensor_core_takes_the_time_of_its_products():
    found = prediction()
    ideal = 2 * 128 * 128 * 320 / SM90A.tensor_flops
    assert found.busy["tensor"] * found.cycles == pytest.approx(ideal)


def test_a_longer_product_takes_longer_by_its_own_time():
    short, long = prediction(k=640), prediction(k=6400)
    extra = 2 * 128 * 128 * (6400 - 640) / SM90A.tensor_flops
    assert extra <= long.cycles - short.cycles < 2 * extra


def test_time_follows_the_clock():
    slow, fast = prediction(clock_ghz=1.0), prediction(clock_ghz=2.0)
    assert slow.cycles == fast.cycles
    assert slow.kernel_us == pytest.approx(2 * fast.kernel_us)
    assert "at 1.000 GHz" in slow.render()


def test_slow_copies_are_what_a_kernel_waits_for():
    slow = prediction(target=replace(SM90A, copy_bytes=4.0))
    assert slow.cycles > 2 * prediction().cycles
    assert slow.busy["copies"] > 0.8


def test_the_model_leaves_the_arguments_alone():
    kernel = correct()
    grid, arguments = kernel.launch
    before = arguments[2].base.copy()
    predict(kernel.module(), grid, arguments)
    assert arguments[2].base.tobytes() == before.tobytes()


def test_perfetto_trace():
    found = prediction("cluster")
    trace = json.loads(perfetto(found.timeline, found.clock_ghz, "gemm"))
    events = trace["traceEvents"]
    names = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {"CTA 0 math.0", "CTA 1 load", "tensor core of CTA 0", "copies of CTA 1"} <= names
    spans = [e for e in events if e["ph"] == "X"]
    assert len(spans) == len(found.timeline)
    assert max(e["ts"] + e["dur"] for e in spans) <= found.cycles / found.clock_ghz / 1e3 + 1e-6
    threads = {e["tid"] for e in events if e["name"] == "thread_name"}
    assert {e["tid"] for e in spans} == threads
