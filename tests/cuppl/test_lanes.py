"""Eight particles at once: the same bits as one after the other, and what can't be done together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tawa import cuppl
from tawa.cuppl.cpu import executable as ex
from tawa.cuppl.inference.importance import run_importance
from tawa.cuppl.inference.settings import Limits
from tawa.cuppl.inference.smc import SmcRun
from tawa.cuppl.lowering.pipeline import lower
from tawa.cuppl.typing.failures import InvalidParameter
from tawa.functional.errors import FunctionalError

XS = [0.1 * k for k in range(-10, 11)]
CURVE = """
input xs : vector[float]
def main () =
  let a = sample (normal 0 1) in
  let b = sample (laplace 0 1) in
  iteri (fn i x -> observe (normal (a + b * x) 0.5) (x * x)) xs;
  (a, b, i_of a)
def i_of a = if a > 1.0 then 2 else if a > 0.0 then 1 else 0
"""
PARTS = """
input xs : vector[float]
def kind u = if u < 0.2 then 1 else if u < 0.9 then 2 else 3
def main () =
  let u = sample (uniform 0 1) in
  let k = kind u in
  let x = xs.[k + 3] in
  let y = if flip 0.5 then exp (x - u) else log (u + 1e-310) / float (k % 3 - 4) in
  observe (exponential (abs y + 0.1)) (0.2 + u);
  factor (if k == 1 then 0.5 else sqrt u);
  (k, y, flip u)
"""
LOST = """
def main () =
  let n = sample (normal 0 1) in
  let u = sample (uniform 0 1) in
  condition (n > LIMIT);
  (n, sin (100.0 * u), floor (10.0 * n) % 3)
"""
SWITCHED = """
data Shape = Round(float) | Long(float, float) | Point
def area s = match s with | Round r -> 3.0 * r * r | Long (a, b) -> a * b | Point -> 0.0 end
input shapes : vector[Shape]
def main () =
  let k = floor (3.0 * sample (uniform 0 1)) in
  let x = area shapes.[k] in
  observe (normal x 1) 1.0;
  (k, x)
"""
APART = """
input ws : vector[float]
def main () =
  let g = sample (gamma 0.7 2) in
  let b = if flip 0.4 then sample (beta 2 3) else (let u = sample (uniform 0 1) in u * u) in
  let k = sample (categorical ws) in
  let n = if k == 1 then sample (poisson (3.0 + 20.0 * b)) else sample (binomial 40 b) in
  observe (student_t 4 (g + b) 1) 0.7;
  factor (lgamma (g + b) - lgamma (g + 1.5));
  (g, b, n + k)
"""
TURNS = """
def main () =
  let k = floor (8.0 * sample (uniform 0 1)) in
  let x = range_fold (fn a i -> a + 1.0 / float (i + 1)) 0.0 (k * 3) in
  observe (normal x 1) (if k > 4 then range_fold (fn a i -> a * 0.5) x k else 0.5);
  (k, x)
"""
TOGETHER: dict[str, tuple[str, dict[str, Any]]] = {
    "data types": (SWITCHED, {"shapes": [("Round", 1.5), ("Long", 1.0, 2.5), "Point"]}),
    "draws that some make": (APART, {"ws": [0.5, 1.5, 1.0]}),
    "turns of their own": (TURNS, {}),
    "curve": (CURVE, {"xs": XS}),
    "detours": (PARTS, {"xs": XS}),
    "a few are lost": (LOST.replace("LIMIT", "-1.5"), {}),
    "most are lost": (LOST.replace("LIMIT", "1.5"), {}),
}


def runs(model: cuppl.Model, data: dict[str, Any], n: int, threads: int = 1) -> list[SmcRun]:
    """The same run with lanes and without."""
    lowered = lower(model.elaborated, suspend_at_factors=False)
    found: list[SmcRun] = []
    for lanes in (True, False):
        workers, block = model.workers(data, threads)
        built = ex.Executable.build(lowered, lanes=lanes)
        found.append(run_importance(built, workers, n, 7, Limits()))
        found[-1].memory.append(block)
    return found


def has_lanes(model: cuppl.Model) -> bool:
    lowered = lower(model.elaborated, suspend_at_factors=False)
    return bool(ex.together(lowered, ex.driver_program(lowered, "importance_thread")[0]))


@pytest.mark.parametrize("name", TOGETHER)
@pytest.mark.parametrize("threads", [1, 3])
def test_bits_are_the_same(name: str, threads: int) -> None:
    source, data = TOGETHER[name]
    model = cuppl.model(source)
    assert has_lanes(model)
    first, second = runs(model, data, 1003, threads)
    assert (first.results == second.results).all()
    assert (first.log_weights.view(np.int64) == second.log_weights.view(np.int64)).all()
    assert len(np.unique(first.results[0])) > 2


def test_lost_particles_leave_nothing_behind() -> None:
    model = cuppl.model(LOST.replace("LIMIT", "0.0"))
    found = model.importance(2000, seed=1)
    assert np.isfinite(found[0]).all()
    assert np.isfinite(found[1]).all()
    assert found.mean(0) == pytest.approx(0.798, abs=0.08)


@pytest.mark.parametrize(
    "source",
    [
        "def go n = if flip 0.5 then n else go (n + 1)\ndef main () = go 0",
        "def main () = let x = sample (normal 0 1) in sum (map (fn k -> k * x) [1.0, 2.0])",
        "def main () = let f = mem (fn k -> flip 0.5) in f 1 && f 2",
        "def up n = if n == 0 then 0 else 1 + up (n - 1)\ndef main () = up (sample (uniform_int 0 3))",
    ],
)
def test_what_lanes_cannot_do_runs_alone(source: str) -> None:
    model = cuppl.model(source)
    assert not has_lanes(model)
    first, second = runs(model, {}, 50)
    assert (first.results == second.results).all()


def test_a_failure_is_that_of_the_first_particle() -> None:
    source = "def main () =\n  let x = sample (normal 0 1) in\n  sample (normal 0 (x + 2.5))"
    model = cuppl.model(source)
    assert has_lanes(model)
    notes: list[str] = []
    for threads in (1, 2):
        with pytest.raises(InvalidParameter) as caught:
            model.importance(4000, seed=2, threads=threads)
        notes.append(str(caught.value))
    assert notes[0] == notes[1]
    assert "normal needs sd > 0" in notes[0]
    assert "particle " in notes[0]


@pytest.mark.parametrize("method", ["importance", "smc"])
@pytest.mark.parametrize(
    "wrong", ["observe (normal 0 (float k)) 0.1", "observe (normal 0 1) (1.0 / float (100 // k))"]
)
def test_a_failure_is_no_weight_of_0(wrong: str, method: str) -> None:
    """What a lane computes after its failure must not look like a rejection."""
    source = f"def main () = let k = sample (uniform_int 0 400) in {wrong}; condition (k > 0); k"
    model = cuppl.model(source)
    assert has_lanes(model)
    with pytest.raises(FunctionalError, match=r"sd > 0|division by zero"):
        getattr(model, method)(5000, seed=1, threads=1)
