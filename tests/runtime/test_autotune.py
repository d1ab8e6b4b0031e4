"""Autotuning and heuristics, on a kernel that writes down how it is run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tawa.base.errors import TawaError
from tawa.runtime import autotune as autotuning
from tawa.runtime.autotune import (
    REP,
    WARMUP,
    Autotuner,
    Config,
    Heuristics,
    NoConfiguration,
    UnknownKey,
    autotune,
    decorators_of,
    heuristics,
)


class TooBig(TawaError, group=True):
    """A configuration that can't be compiled."""


class Recorder:
    """Stands where a kernel stands: takes arguments x, n, BLOCK and options."""

    arg_names = ("x", "n", "BLOCK")

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []

    def run(self, x: Any, n: int, *, grid: Any, BLOCK: int, **options: Any) -> int:
        if BLOCK > 512:
            raise TooBig("too big")
        x += BLOCK
        self.runs.append({"x": x.copy(), "n": n, "BLOCK": BLOCK, "grid": grid, **options})
        return BLOCK

    def warmup(self, x: Any, n: int, *, BLOCK: int, **options: Any) -> int:
        return BLOCK


CONFIGS = [Config({"BLOCK": block}, num_warps=4, consumers=2) for block in (64, 128, 1024, 256)]


def bench(costs: dict[int, float], recorder: Recorder) -> Any:
    """A `do_bench` that runs the work and gives the cost of the block that it ran with."""

    def do_bench(work: Any, quantiles: Any) -> list[float]:
        work()
        return [costs[recorder.runs[-1]["BLOCK"]], 0.0, 0.0]

    return do_bench


COSTS = {64: 3.0, 128: 1.0, 256: 2.0}


def test_the_fastest_configuration_is_used_and_remembered() -> None:
    recorder = Recorder()
    tuned = autotune(CONFIGS, ["n"], do_bench=bench(COSTS, recorder))(recorder)
    x = np.zeros(4)
    assert tuned[(7,)](x, 10) == 128
    assert [run["BLOCK"] for run in recorder.runs] == [64, 128, 256, 128]
    assert recorder.runs[-1]["grid"] == (7,)
    assert (recorder.runs[-1]["num_warps"], recorder.runs[-1]["consumers"]) == (4, 2)
    assert "num_stages" not in recorder.runs[-1]
    tuned[(7,)](x, n=10)
    assert len(recorder.runs) == 5
    (failures,) = tuned.failures.values()
    assert [str(error) for error in failures.values()] == ["too big"]


@pytest.mark.parametrize("second", [(np.zeros(4), 11), (np.zeros(4, np.float32), 10)])
def test_a_new_key_or_dtype_measures_again(second: tuple[Any, ...]) -> None:
    recorder = Recorder()
    tuned = autotune(CONFIGS, ["n"], do_bench=bench(COSTS, recorder))(recorder)
    tuned[1](np.zeros(4), 10)
    tuned[1](*second)
    assert len(recorder.runs) == 8


class Predicted(Recorder):
    """A kernel with a timing model, which likes large blocks and has none for 64."""

    def predict(self, x: Any, n: int, *, grid: Any, BLOCK: int, **options: Any) -> Any:
        if BLOCK == 64:
            raise TooBig("no prediction")
        assert (grid, n) == ((7,), 10)
        return SimpleNamespace(seconds=1 / BLOCK)


def test_only_what_is_predicted_to_be_fast_is_measured() -> None:
    recorder = Predicted()
    prune = {"predicted": 2}
    tuned = autotune(CONFIGS, [], do_bench=bench(COSTS, recorder), prune_configs_by=prune)(recorder)
    assert tuned[(7,)](np.zeros(4), 10) == 256
    assert {run["BLOCK"] for run in recorder.runs} == {256}
    (failures,) = tuned.failures.values()
    assert sorted(config.kwargs["BLOCK"] for config in failures) == [64, 1024]


def test_other_arguments_do_not_measure_again() -> None:
    recorder = Recorder()
    tuned = autotune(CONFIGS, [], do_bench=bench(COSTS, recorder))(recorder)
    tuned[1](np.zeros(4), 10)
    tuned[1](np.zeros(8), 11)
    assert len(recorder.runs) == 5


def test_in_the_simulator_the_first_that_runs_is_taken() -> None:
    recorder = Recorder()
    tuned = autotune(CONFIGS[2:], [])(recorder)
    assert tuned[1](np.zeros(4), 10) == 256
    assert [run["BLOCK"] for run in recorder.runs] == [256, 256]


def test_values_are_restored_and_zeroed_before_each_run() -> None:
    recorder = Recorder()
    x = np.full(4, 5.0)
    restored = autotune(CONFIGS, [], restore_value=["x"], do_bench=bench(COSTS, recorder))
    restored(recorder)[1](x, 1)
    assert [run["x"][0] for run in recorder.runs] == [69, 133, 261, 133]
    recorder, x = Recorder(), np.full(4, 5.0)
    zeroed = autotune(CONFIGS, [], reset_to_zero=["x"], do_bench=bench(COSTS, recorder))
    zeroed(recorder)[1](x, 1)
    assert [run["x"][0] for run in recorder.runs[:3]] == [64, 128, 256]


def test_hooks_see_all_arguments() -> None:
    seen: list[dict[str, Any]] = []
    configs = [Config({"BLOCK": 64}, num_stages=3, pre_hook=seen.append), Config({"BLOCK": 128})]
    recorder = Recorder()
    tuned = autotune(configs, [], do_bench=bench({64: 1.0, 128: 2.0}, recorder))(recorder)
    tuned[1](np.zeros(4), n=9)
    assert len(seen) == 2  # once measured, once for the run
    assert all((s["n"], s["BLOCK"], s["num_stages"]) == (9, 64, 3) for s in seen)


def test_pruning() -> None:
    recorder = Recorder()
    prune = {
        "early_config_prune": lambda configs, named, **_: [
            c for c in configs if c.kwargs["BLOCK"] <= named["n"]
        ],
        "perf_model": lambda n, BLOCK, **_: abs(BLOCK - 200),
        "top_k": 2,
    }
    tuned = autotune(CONFIGS, [], prune_configs_by=prune, do_bench=bench(COSTS, recorder))(recorder)
    tuned[1](np.zeros(4), 300)
    assert [run["BLOCK"] for run in recorder.runs] == [256, 128, 128]
    assert tuned.warmup(np.zeros(4), 300) == [256, 128]


def test_failures_are_listed() -> None:
    tuned = autotune([CONFIGS[2], CONFIGS[2]], [])(Recorder())
    with pytest.raises(NoConfiguration, match=r"BLOCK=1024.*too big"):
        tuned[1](np.zeros(4), 1)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnknownKey):
        autotune(CONFIGS, key=[], reset_to_zero=["y"])(Recorder())


def test_a_key_that_no_launch_passes_is_left_out() -> None:
    recorder = Recorder()
    tuned = autotune(CONFIGS[:1], key=["m"])(recorder)
    tuned[1](np.zeros(4), 5)
    assert [run["BLOCK"] for run in recorder.runs] == [CONFIGS[0].kwargs["BLOCK"]]


def test_heuristics_compute_from_the_other_arguments() -> None:
    recorder = Recorder()
    kernel = heuristics({"BLOCK": lambda named: 2 * named["n"]})(recorder)
    assert kernel[1](np.zeros(4), 16) == 32
    assert kernel[1](np.zeros(4), n=64) == 128
    assert kernel.warmup(np.zeros(4), 8) == 16


def test_heuristics_under_autotuning() -> None:
    recorder = Recorder()
    kernel = heuristics({"num_warps": lambda named: named["BLOCK"] // 32})(recorder)
    configs = [Config({"BLOCK": 64}), Config({"BLOCK": 128})]
    tuned = autotune(configs, ["n"], do_bench=bench({64: 2.0, 128: 1.0}, recorder))(kernel)
    tuned[1](np.zeros(4), 1)
    assert recorder.runs[-1]["num_warps"] == 4


@pytest.mark.parametrize(
    ("top", "left"),
    [(1, [256]), (2, [256, 128]), (1.0, [256, 128, 64, 1024]), (0.5, [256, 128]), (0.1, [256]),
     (0, [256]), (3.0, [256, 128, 64]), (9, [256, 128, 64, 1024])],
)  # fmt: skip
def test_how_many_a_model_leaves(top: float, left: list[int]) -> None:
    """A whole number counts configurations, a fraction is a share; one is always left."""
    prune = {"perf_model": lambda n, BLOCK, **_: abs(BLOCK - 200), "top_k": top}
    tuned = autotune(CONFIGS, [], prune_configs_by=prune)(Recorder())
    assert tuned.warmup(np.zeros(4), 300) == left


@pytest.mark.parametrize(
    ("asked", "taken"),
    [({}, (25, 100)), ({"warmup": 3}, (3, 100)), ({"rep": 7}, (25, 7)),
     ({"warmup": 3, "rep": 7}, (3, 7))],
)  # fmt: skip
def test_how_long_each_is_measured(asked: dict[str, float], taken: tuple[float, float]) -> None:
    """Seconds of the runs before, then of those that count; the median of these is the time."""
    asked_for: list[float] = []
    watch: Any = SimpleNamespace(
        times_for=lambda work, seconds: (asked_for.append(seconds), (work(), [4.0, 9.0, 5.0])[1])[1]
    )
    tuned: Any = autotune(CONFIGS, [], **asked)(Recorder())
    done: list[str] = []
    found = tuned._time(lambda: done.append("prepare"), lambda: done.append("work"), watch)
    assert (found, done) == (5.0, ["work", "work"])
    watch.before()
    assert done[2:] == ["prepare"]
    defaults = {"warmup": WARMUP, "rep": REP} | asked
    assert asked_for == [defaults["warmup"] / 1e3, defaults["rep"] / 1e3]


def test_where_nothing_can_be_timed_it_runs_once() -> None:
    tuned: Any = autotune(CONFIGS, [])(Recorder())
    done: list[str] = []
    assert tuned._time(lambda: done.append("prepare"), lambda: done.append("work"), None) == 0.0
    assert done == ["prepare", "work"]


@pytest.mark.parametrize("result", [3.5, [3.5, 1.0, 9.0], (3.5,)], ids=str)
def test_the_first_number_of_one_s_own_measurement_counts(result: Any) -> None:
    def own(work: Any, quantiles: Any) -> Any:
        work()
        return result

    tuned: Any = autotune(CONFIGS, [], do_bench=own)(Recorder())
    assert tuned._time(lambda: None, lambda: None, None) == 3.5


def test_hooks_after_each_run_hear_of_failures() -> None:
    heard: list[Any] = []
    recorder = Recorder()
    tuned = autotune(
        CONFIGS[1:3], [], do_bench=bench(COSTS, recorder), pre_hook=lambda named: heard.append(
            named["BLOCK"]), post_hook=lambda named, exception: heard.append(str(exception)),
    )(recorder)  # fmt: skip
    tuned[1](np.zeros(4), 1)
    assert heard == [128, "None", 1024, "too big"]


class Foreign(SimpleNamespace):
    """What Triton's decorators leave: a function in another, and what that is to do."""


def own(fn: Any) -> Any:
    """A kernel of a function: one that records."""
    recorder = Recorder()
    recorder.made_of = fn  # type: ignore[attr-defined]
    return recorder


def test_decorators_of_triton_are_made_anew() -> None:
    def hook(named: Any) -> None: ...

    fields: dict[str, Any] = {
        "configs": CONFIGS[:2], "keys": ["n"], "reset_to_zero": ["x"], "restore_value": [],
        "pre_hook": hook, "post_hook": hook, "perf_model": None, "early_config_prune": None,
    }  # fmt: skip
    plain: Any = decorators_of(Foreign(fn="text", **fields), own)
    assert isinstance(plain, Autotuner)
    assert (plain.fn.made_of, plain.configs, plain._hooks) == ("text", CONFIGS[:2], (None, None))
    assert (plain._reset, plain._restore, plain._prune["top_k"]) == (["x"], [], 1.0)
    hooked: Any = decorators_of(
        Foreign(fn="text", user_defined_pre_hook=True, configs_top_k=3, **fields), own
    )
    assert (hooked._hooks, hooked._prune["top_k"]) == ((hook, None), 3)
    computed: Any = decorators_of(Foreign(fn="text", values={"BLOCK": len}), own)
    assert isinstance(computed, Heuristics)
    assert (computed.fn.made_of, computed.values) == ("text", {"BLOCK": len})
    both: Any = decorators_of(Foreign(fn=Foreign(fn="text", values={"BLOCK": len}), **fields), own)
    assert isinstance(both, Autotuner)
    assert isinstance(both.fn, Heuristics)
    for other in (Foreign(fn="text"), Foreign(values={"BLOCK": len}), Foreign(fn="text", values=1),
                  Foreign(fn="text", configs=[]), Foreign(fn="text", keys=[])):  # fmt: skip
        made = decorators_of(other, own)
        assert isinstance(made, Recorder)
        assert made.made_of is other  # type: ignore[attr-defined]


def arrays_on(*devices: int) -> list[Any]:
    """Arrays with the interface, on the CPU (-1) or on a GPU."""
    given = {"data": (64, False), "shape": (4,), "typestr": "<f4", "version": 3}
    found: list[Any] = []
    for device in devices:
        place = SimpleNamespace(id=device)
        fields = {"__cuda_array_interface__": given, "dtype": np.dtype("f4"), "device": place}
        found.append(np.zeros(4, np.float32) if device < 0 else SimpleNamespace(**fields))
    return found


@pytest.mark.parametrize(
    ("args", "timed"),
    [
        ([3, *arrays_on(-1)], None), (arrays_on(1), (1, 0)), ([True, None, *arrays_on(2)], (2, 0)),
        (arrays_on(-1, 1), None), (arrays_on(1, -1), (1, 0)), ([3, "text"], ()), ([], ()),
    ],
)  # fmt: skip
def test_what_times_a_launch(args: Any, timed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first array says on which device it runs; the simulator's own time says nothing."""
    monkeypatch.setattr(autotuning, "Stopwatch", lambda *place: place)
    tuned: Any = autotune(CONFIGS, [])(Recorder())
    assert tuned._watch(tuple(args), {}) == timed
    assert tuned._watch((), {f"x{n}": value for n, value in enumerate(args)}) == timed


@pytest.mark.parametrize(("asked", "blocks"), [(1, {256}), (2, {128, 256}), (0, {256})])
def test_how_many_predicted_ones_are_measured(asked: int, blocks: set[int]) -> None:
    recorder = Predicted()
    configs = [config for config in CONFIGS if config.kwargs["BLOCK"] < 1024]
    tuned: Any = autotune(
        configs, [], do_bench=bench(COSTS, recorder), prune_configs_by={"predicted": asked}
    )(recorder)
    tuned[(7,)](np.zeros(4), 10)
    assert {run["BLOCK"] for run in recorder.runs} == blocks
    recorder.runs.clear()
    tuned.configs = configs[1:]
    tuned[(7,)](np.zeros(4, np.float32), 10)
    assert {run["BLOCK"] for run in recorder.runs} == blocks
    tuned.configs = configs[:1]  # one alone, of which there is no prediction
    assert tuned[(7,)](np.zeros(4, np.int8), 10) == 64
