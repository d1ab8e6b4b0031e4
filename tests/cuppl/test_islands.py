"""Islands in other processes, or on Ray, give the answers of one process."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tawa import cuppl
from tawa.cuppl.islands import Executor
from tawa.cuppl.typing.failures import InvalidParameter

pytestmark = pytest.mark.filterwarnings("ignore::tawa.cuppl.InferenceWarning")
LISTS = """
input ys : vector[float]
def step l y = let x = sample (normal 0 1) in observe (normal x 1) y; Cons (x, l)
def main () = fold step Nil ys
"""
LINE = """
input ys : vector[float]
def main () = let m = sample (normal 0 2) in iter (fn y -> observe (normal m 1) y) ys; m
"""
DATA = {"ys": [0.5, -1.0, 2.0]}


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    executor = cuppl.ProcessExecutor(2)
    yield executor
    executor.close()


def test_runs_of_smc_with_results_on_the_heap(processes: Executor) -> None:
    model = cuppl.model(LISTS)
    here = model.smc(200, runs=3, data=DATA, seed=4)
    there = cuppl.Islands(model, processes).smc(200, runs=3, data=DATA, seed=4)
    assert there.log_evidence == here.log_evidence
    assert there.log_evidence_error == here.log_evidence_error
    assert there.values == here.values


@pytest.mark.parametrize("method", ["mh", "nuts", "particle_gibbs"])
def test_chains(method: str, processes: Executor) -> None:
    model = cuppl.model(LINE)
    here = getattr(model, method)(40, chains=2, data=DATA, seed=3)
    there = getattr(cuppl.Islands(model, processes), method)(40, chains=2, data=DATA, seed=3)
    assert np.array_equal(there["m"], here["m"])
    assert there.diagnostics == pytest.approx(here.diagnostics)


def test_an_error_comes_back_with_its_place(processes: Executor) -> None:
    model = cuppl.model("def main () =\n  sample (normal 0 (0.0 - 1.0))", file="bad.ppl")
    with pytest.raises(InvalidParameter, match="normal needs sd > 0") as raised:
        cuppl.Islands(model, processes).importance(10, runs=2)
    assert "bad.ppl:2" in raised.value.render()


def test_ray_gives_the_same() -> None:
    pytest.importorskip("ray")
    executor = cuppl.RayExecutor(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        model = cuppl.model(LINE)
        here = model.smc(300, runs=4, data=DATA, seed=1)
        there = cuppl.Islands(model, executor).smc(300, runs=4, data=DATA, seed=1)
        assert there.log_evidence == here.log_evidence
        assert np.array_equal(there["m"], here["m"])
    finally:
        executor.close()
