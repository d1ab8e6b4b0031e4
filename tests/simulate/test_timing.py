"""The predicted timeline of a launch's first CTA: consistent, and about the kernel's ops."""

import json
from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from protocols import KINDS, Kernel, correct

import tawa
import tawa.language as tl
from tawa.simulate import predict_launch
from tawa.simulate.interpret import errors
from tawa.simulate.timeline import perfetto
from tawa.simulate.timing.launch import LaunchPrediction, Replayed
from tawa.simulate.timing.machine import Actor
from tawa.simulate.timing.trace import Trace


def prediction(kind: str = "cooperative", k: int = 320, **options) -> LaunchPrediction:
    kernel = Kernel(correct(kind).text, k)
    grid, arguments = kernel.launch
    return predict_launch(
        kernel.module(), grid, arguments, **{"clock_ghz": 1.5, "timeline": True, **options}
    )


def first(kind: str = "cooperative", k: int = 320) -> Replayed:
    found = prediction(kind, k).first
    assert found is not None
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_timeline_is_consistent(kind: str):
    found = first(kind)
    tracks = defaultdict(list)
    for interval in found.timeline:
        assert 0 <= interval.start <= interval.end <= found.cycles
        tracks[interval.track].append((interval.start, interval.end, interval.name))
    actors = {track for track in tracks if " of CTA " not in track}
    assert any("math" in actor for actor in actors)
    for actor in actors:
        for before, after in pairwise(sorted(tracks[actor])):
            assert before[1] <= after[0] + 1e-6, f"{actor} does one thing at a time"
    products = [spans for track, spans in tracks.items() if track.startswith("tensor core")]
    assert products
    for spans in products:
        for name in {name for _, _, name in spans}:
            own = sorted(span for span in spans if span[2] == name)
            for before, after in pairwise(own):
                assert before[1] <= after[0] + 1e-6, f"groups of {name} run in order"


def test_the_timeline_does_not_change_the_prediction():
    plain, shown = prediction(timeline=False), prediction()
    assert plain.first is None
    assert shown.seconds == plain.seconds
    assert shown.first is not None
    assert shown.first.cycles == pytest.approx(plain.cycles, rel=0.05)


def test_intervals_say_what_they_are_about():
    timeline = first().timeline
    steps = {(i.track, i.name): i.event for i in timeline}
    waited = steps["math.0", "barrier wait"]
    assert waited.op.name == "hopper.mbarrier_wait"
    assert waited.slot.endswith("]")
    assert steps["tensor core of CTA 0", "math.0"].op.name == "hopper.wgmma"
    copies = [i for i in timeline if i.track == "copies of CTA 0"]
    assert len(copies) == 2 * 320 // 64
    assert copies[-1].event.iteration.endswith("= 4")


def test_a_loop_without_an_end_is_an_error():
    @tawa.jit
    def wait(flag):
        while tl.load(flag) == 0:
            tl.debug_barrier()

    module = wait.compile("*i32").module("hopper")
    with pytest.raises(errors.TurnsDependOnData, match="how many iterations this loop has"):
        predict_launch(module, (1,), [np.ones(1, np.int32)], clock_ghz=1.5)


def test_the_model_leaves_the_arguments_alone():
    kernel = correct()
    grid, arguments = kernel.launch
    before = arguments[2].base.copy()
    predict_launch(kernel.module(), grid, arguments, clock_ghz=1.5, timeline=True)
    assert arguments[2].base.tobytes() == before.tobytes()


def test_perfetto_trace():
    found = first("cluster")
    trace = json.loads(perfetto(found.timeline, 1.5, "gemm"))
    events = trace["traceEvents"]
    names = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {"CTA 0 math.0", "CTA 1 load", "tensor core of CTA 0", "copies of CTA 1"} <= names
    spans = [e for e in events if e["ph"] == "X"]
    assert len(spans) == len(found.timeline)
    assert max(e["ts"] + e["dur"] for e in spans) <= found.cycles / 1.5 / 1e3 + 1e-6
    threads = {e["tid"] for e in events if e["name"] == "thread_name"}
    assert {e["tid"] for e in spans} == threads


@pytest.mark.parametrize("ctas", [1, 2])
def test_a_trace_is_of_the_first_ctas(ctas: int):
    trace = Trace(ctas, clustered=True)
    for cta in range(3):
        actor = Actor("math", cta, iter(()))
        trace.own(actor, "barrier wait", 1.0, 2.0)
        trace.own(actor, "nothing", 2.0, 2.0)
    assert [i.track for i in trace.intervals] == [f"CTA {cta} math" for cta in range(ctas)]
