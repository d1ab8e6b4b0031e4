"""SMC with eight particles at once: the same bits as one after the other, and what runs alone."""

from __future__ import annotations

import numpy as np
import pytest

from tawa import cuppl
from tawa.cuppl.cpu import executable as ex
from tawa.cuppl.inference.settings import Limits
from tawa.cuppl.inference.smc import SmcRun, run_smc
from tawa.cuppl.lowering.pipeline import lower
from tawa.cuppl.typing.failures import InvalidParameter

YS = [0.3, -0.7, 1.9, 0.0, 2.5, -1.1, 0.4]
WALK = """
input ys : vector[float]
def main () =
  fold (fn x y ->
    let n = sample (normal (0.9 * x) 0.5) in
    observe (normal n 0.7) y; n) (sample (normal 0 1)) ys
"""
LOOP = """
input ys : vector[float]
def go x k t =
  if t == length ys then (x, k, t) else
  let z = sample (normal (x + cos (float t)) 0.5) in
  let j = if z > 0.5 then k + 1 else if flip 0.3 then k - 1 else k in
  observe (student_t 3 (0.5 * z * z) 1) (ys.[t]);
  go z j (t + 1)
def main () = go 0.0 0 0
"""
CALLS = """
input ys : vector[float]
def seen a b y = observe (normal (a + b) 1) y; a - b
def both a b y = let c = seen a b y in let d = seen b c y in (c, d)
def main () =
  let a = sample (normal 0 1) in
  let b = sample (laplace 0 1) in
  let s = fold (fn s y -> let r = both (a + s.0) (b - s.1) y in (0.5 * r.0, 0.5 * r.1 + s.2, s.0))
    (a, b, 1.0) ys in
  (s.0, s.1, s.2, a, b)
"""
LOST = """
input ys : vector[float]
def main () =
  let x = fold (fn x y ->
    let n = sample (normal (0.9 * x) 0.5) in
    condition (abs (n - y) < WIDTH);
    observe (normal n 2) y;
    n) (sample (normal 0 1)) ys in
  (x, sin (10.0 * x))
"""
APART = """
input ys : vector[float]
def main () =
  fold (fn g y ->
    let n = sample (gamma 0.7 (0.5 + g)) in
    let k = if n > 1.0 then sample (poisson (3.0 + n)) else sample (binomial 20 0.3) in
    observe (normal (n - float k) 3) y;
    n) 1.0 ys
"""
LONG = """
input ys : vector[float]
def main () =
  let a = sample (normal 0 1) in let b = sample (normal 0 1) in let c = sample (normal a 1) in
  let d = sample (normal b 1) in let e = sample (normal c 1) in let f = sample (normal d 1) in
  let g = sample (normal e 1) in let h = sample (normal f 1) in let i = sample (normal g 1) in
  let more = flip 0.5 in
  iter (fn y -> observe (normal (a + b + c + d + e + f + g + h + i) (if more then 2.0 else 1.0)) y) ys;
  (a, b, c, d, e, f, g, h, i, more)
"""
TOGETHER = {
    "walk": WALK,
    "loop": LOOP,
    "calls": CALLS,
    "a few are lost": LOST.replace("WIDTH", "4.0"),
    "most are lost": LOST.replace("WIDTH", "1.5"),
    "draws that some make": APART,
    "stacks of several blocks": LONG,
}


def built(model: cuppl.Model) -> list[ex.Executable]:
    """The program with lanes and without."""
    lowered = lower(model.elaborated, suspend_at_factors=True)
    return [ex.Executable.build(lowered, lanes=lanes) for lanes in (True, False)]


def runs(
    model: cuppl.Model, both: list[ex.Executable], n: int, threads: int = 1, threshold: float = 0.5
) -> list[SmcRun]:
    """The same run of both."""
    found: list[SmcRun] = []
    for executable in both:
        workers, block = model.workers({"ys": YS}, threads)
        found.append(run_smc(executable, workers, n, 7, threshold, Limits()))
        found[-1].memory.append(block)
    return found


def kalman() -> tuple[float, float, float]:
    """Mean and variance of the walk's last state, and the log evidence."""
    mean, variance, evidence = 0.0, 1.0, 0.0
    for y in YS:
        mean, variance = 0.9 * mean, 0.81 * variance + 0.25
        spread = variance + 0.49
        evidence -= 0.5 * (np.log(2.0 * np.pi * spread) + (y - mean) ** 2 / spread)
        mean, variance = mean + variance / spread * (y - mean), variance * 0.49 / spread
    return mean, variance, evidence


def has_lanes(model: cuppl.Model) -> bool:
    lowered = lower(model.elaborated, suspend_at_factors=True)
    return bool(ex.together(lowered, ex.driver_program(lowered, "smc_thread")[0]))


def same(first: SmcRun, second: SmcRun) -> bool:
    """Whether two runs have the same bits."""
    weights = [run.log_weights.view(np.int64) for run in (first, second)]
    return (
        bool((first.results == second.results).all() and (weights[0] == weights[1]).all())
        and bool((first.ancestors == second.ancestors).all())
        and (first.log_evidence, first.resampled) == (second.log_evidence, second.resampled)
    )


@pytest.mark.parametrize("name", TOGETHER)
def test_bits_are_the_same(name: str) -> None:
    model = cuppl.model(TOGETHER[name])
    assert has_lanes(model)
    both = built(model)
    for threads, n, threshold in ((3, 517, 1.0), (2, 61, 0.5), (1, 1003, 0.5)):
        first, second = runs(model, both, n, threads, threshold)
        assert same(first, second), (threads, n)
    assert len(np.unique(first.results[0])) > 2


@pytest.mark.parametrize(
    "source",
    [
        "input ys : vector[float]\ndef main () = list_fold (fn a x -> a + x) 0.0 (fold (fn l y -> let x = sample (normal 0 1) in"
        " observe (normal x 1) y; Cons (x, l)) Nil ys)",
        "input ys : vector[float]\ndef main () = fold (fn a y -> if flip 0.5 then"
        " (observe (normal a 1) y; a) else a + 1.0) 0.0 ys",
        "input ys : vector[float]\ndef main () = let f = mem (fn k -> sample (normal 0 1)) in"
        " fold (fn a y -> observe (normal (f 1) 1) y; a + f 2) 0.0 ys",
        "input ys : vector[float]\ndef go x n = if n > 3 then x else"
        " (observe (normal x 1) ys.[n]; if flip 0.5 then go (x + 1.0) (n + 1) else go x (n + 2))\n"
        "def main () = go 0.0 0",
    ],
)
def test_what_runs_alone_has_the_same_bits(source: str) -> None:
    model = cuppl.model(source)
    first, second = runs(model, built(model), 203, 2)
    assert same(first, second)


def test_a_failure_is_that_of_the_first_particle() -> None:
    source = (
        "input ys : vector[float]\ndef main () = fold (fn x y ->\n"
        "  let n = sample (normal x 1) in\n  observe (normal 0 (n + 4.5)) y; n) 0.0 ys"
    )
    model = cuppl.model(source)
    assert has_lanes(model)
    notes: list[str] = []
    for threads in (1, 2):
        with pytest.raises(InvalidParameter) as caught:
            model.smc(4000, data={"ys": YS}, seed=2, threads=threads)
        notes.append(str(caught.value))
    assert notes[0] == notes[1]
    assert "normal needs sd > 0" in notes[0]
    assert "particle " in notes[0]


def test_a_kept_particle_has_draws_of_its_own() -> None:
    model = cuppl.model(WALK)
    assert has_lanes(model)
    found = model.particle_gibbs(60, particles=50, data={"ys": YS}, seed=1)
    assert found.mean(0) == pytest.approx(kalman()[0], abs=0.3)


def test_recursion_outgrows_the_room_side_by_side() -> None:
    source = (
        "input ys : vector[float]\ndef down n = if n == 0 then 0.0 else\n"
        "  let x = sample (normal 0 1) in observe (normal x 1) ys.[n % 7];"
        " let r = down (n - 1) in r + x\ndef main () = down 90"
    )
    model = cuppl.model(source)
    first, second = runs(model, built(model), 61)
    assert same(first, second)


FILTERS = {
    "bootstrap": "let n = sample (normal (0.9 * x) 0.5) in observe (normal n 0.7) y; n",
    "guided": """let q = normal ((0.9 * x / 0.25 + y / 0.49) / (1.0 / 0.25 + 1.0 / 0.49))
      (sqrt (1.0 / (1.0 / 0.25 + 1.0 / 0.49))) in
    let n = sample q in
    factor (log_density (normal (0.9 * x) 0.5) n - log_density q n);
    observe (normal n 0.7) y;
    n""",
    "auxiliary": """let ahead = log_density (normal (0.9 * x) 1.0) y in
    factor ahead;
    let n = sample (normal (0.9 * x) 0.5) in
    factor (log_density (normal n 0.7) y - ahead);
    n""",
}


@pytest.mark.parametrize("name", FILTERS)
def test_filters_agree_with_the_kalman_filter(name: str) -> None:
    source = "input ys : vector[float]\ndef main () =\n  fold (fn x y ->\n    "
    model = cuppl.model(f"{source}{FILTERS[name]}) (sample (normal 0 1)) ys")
    mean, variance, evidence = kalman()
    found = model.smc(20_000, data={"ys": YS}, seed=1)
    assert found.log_evidence == pytest.approx(evidence, abs=0.05)
    assert found.mean(0) == pytest.approx(mean, abs=0.02)
    assert found.std(0) == pytest.approx(np.sqrt(variance), abs=0.02)
