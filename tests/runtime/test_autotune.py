"""Autotuning and heuristics, on a kernel that writes down how it is run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tawa.base.errors import TawaError
from tawa.runtime.autotune import Config, NoConfiguration, UnknownKey, autotune, heuristics


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
