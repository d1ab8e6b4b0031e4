"""Gradients against differences, and how little of a density reaches the tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tawa import cuppl
from tawa.cuppl.core.builder import FunctionBuilder
from tawa.cuppl.core.ir import Call, Copy, Jump, Return, Type
from tawa.cuppl.lowering.continuous import lower_continuous
from tawa.cuppl.lowering.dataflow import defined
from tawa.cuppl.lowering.invariants import hoist_invariants
from tawa.cuppl.natives import tape
from tawa.cuppl.translation.native import translate

PROGRAMS = {
    "many families": """
def main () =
  let a = sample (gamma 2 1) in
  let b = sample (beta (a + 0.5) 2) in
  let v = tabulate 3 (fn i -> sample (normal b a)) in
  let d = sample (dirichlet [a, 1.0, 2.0]) in
  observe (student_t (a + 2.0) b d.[1]) (sum v);
  observe (beta_binomial 10 a 2.0) 4;
  observe (negative_binomial a b) 3;
  observe (gamma 2000.0 a) 1500.0;
  observe (von_mises 0.3 a) 0.5; b""",
    "branches and loops": """
def main () =
  let x = sample (normal 0 1) in
  let y = sample (normal x 1) in
  let z = if x * y > 0.3 then exp (x + y) else if y > 0.0 then sqrt (y + 2.0) else x * x in
  let w = range_fold (fn a i -> if i % 2 == 0 then a * x + y else max a (z * z)) (x - y) 7 in
  observe (normal w (1.0 + z * z)) (abs (x - 0.1) + min x y); w""",
    "functions of one number": """
def main () =
  let x = sample (normal 0 1) in
  let y = sigmoid x + tanh (2.0 * x) + sin x * cos (x + 1.0) + tan (0.3 * x) + atan x in
  let z = erf x + erfc (0.5 * x) + normal_cdf x + normal_quantile (sigmoid x) + expm1 x in
  factor (lgamma (3.0 + x) + log1p (x * x) + y * z); x""",
    "powers": """
def main () =
  let x = sample (normal 0 1) in
  let y = sample (normal 0 1) in
  factor (0.1 * x ** 3.0 - x ** 4.0 + 0.01 * y ** (-3.0) + exp x ** y + exp y ** 0.5 + y ** 1.0);
  x""",
    "loops in loops": """
input v : vector[float]
def main () =
  let a = sample (normal 0 1) in
  let s = sample (half_normal 1) in
  let w = repeat 2 (fn () -> sample (normal a 1)) in
  iteri (fn i x ->
    let m = range_fold (fn m k -> m + w.[k] * log (s + float k) * x) (exp a) 2 in
    let limit = if x > 0.5 then max m (a * x) else min m (log s) in
    observe (normal limit (s * exp (-a))) x) v;
  iter (fn x -> factor (x * log (s + a * a))) (slice 0 0 v); a""",
    "products of vectors": """
input v : vector[float]
def main () =
  let w = repeat 4 (fn () -> sample (normal 0 1)) in
  let u = map (fn x -> x * x + 1.0) w in
  observe (normal (dot v w + dot w u) 1) (dot v v);
  factor (0.1 * dot u u - dot (slice 0 0 v) (slice 1 0 w)); w.[0]""",
    "correlations": """
def main () =
  let c = sample (lkj_cholesky 3 (sample (gamma 2 1))) in
  let s = repeat 3 (fn () -> sample (half_student_t 4 2)) in
  let f = tabulate 9 (fn k -> s.[k // 3] * c.[k]) in
  observe (mv_normal [0.1, 0.2, 0.3] f) [1.0, -0.5, 0.2];
  let w = sample (wishart 5.5 f) in
  observe (mv_student_t (1.0 + s.[0]) [0.1, s.[1], 0.3] (cholesky 3 w)) [1.0, -0.5, 0.2];
  observe (inverse_wishart 6.0 f) w; observe (lkj 3 2.0) (sample (lkj 3 s.[2]));
  sum c""",
    "matrices": """
input v : vector[float]
def main () =
  let b = matrix 3 2 (fn i j -> sample (normal (float (i - j)) 1)) in
  let k = b @ transpose b in
  let s = matrix_map2 (fn p q -> p + q) k (identity 3) in
  let l = cholesky_factor s in
  let y = matrix_of 2 2 v @ [entry b 0 0, entry b 2 1] in
  let z = solve_upper (transpose l) (solve_lower l b) in
  observe (multi_normal [0.1, y.[0], y.[1]] s) [1.0, -0.5, 0.2];
  observe (multi_normal_cholesky (column z 1) l) (row (transpose b) 0);
  factor (dot (diagonal (z @ matrix_of 2 2 v)) [0.1, 0.3]); y.[0]""",
    "ordered": """
def main () =
  let c = sample (ordered_normal 3 0 (sample (half_normal 2))) in
  observe (ordered_logistic c.[1] c) 2; observe (ordered_logistic 0.3 c) 0;
  observe (ordered_logistic c.[2] c) 3; c.[0]""",
    "one name for another": """
def turn a b n = if n == 0 then a - 2.0 * b else turn b (a * b + 0.5) (n - 1)
def main () =
  let x = sample (normal 0 1) in
  let y = sample (normal 0 1) in
  let same = x in
  factor (turn same (same * y) 5 * 0.1); observe (normal (x + same + x * x) 2.0) y; x""",
    "many operands": """
def main () =
  let v = tabulate 12 (fn i -> sample (normal (float i) 1)) in
  let t = v.[0] + v.[1] * v.[2] + v.[3] * v.[4] * v.[5] + v.[6] / v.[7] in
  observe (normal (t + v.[8] * v.[9]) (exp (0.1 * v.[10]))) (v.[11] - t); t""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_those_of_differences(name: str) -> None:
    data = {"v": [0.3, 1.2, -0.4, 0.9]} if "input" in PROGRAMS[name] else {}
    density, block = cuppl.model(PROGRAMS[name]).density(data)
    n = density.dimension
    for seed in range(4):
        q = np.random.default_rng(seed).normal(size=n) * 0.4 + 0.2
        _, gradient = density(q)
        moved = [(density(q + h)[0], density(q - h)[0]) for h in np.eye(n) * 1e-6]
        expected = [(above - below) / 2e-6 for above, below in moved]
        assert gradient == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert block is not None


REGRESSION = """
input x : vector[float]
input y : vector[float]
def main () =
  let a = sample (normal 0 1) in
  let b = sample (normal 0 1) in
  let s = sample (half_normal 1) in
  iteri (fn i v -> observe (normal (a + b * x.[i]) s) v) y; a"""


def test_observations_reach_the_weight_without_the_tape() -> None:
    model = cuppl.model(REGRESSION)
    density, block = model.density(data={"x": [0.1] * 200, "y": [0.5] * 200})
    density(np.array([0.1, 0.2, 0.3]))
    assert density.meter[tape.USED] < 10
    assert block is not None


AUTOREGRESSION = """
input y : vector[float]
def main () =
  let b = repeat TURNS (fn () -> sample (normal 0 1)) in
  let s = sample (half_normal 1) in
  iter (fn t ->
    let m = range_fold (fn m k -> m + b.[k] * y.[t + k]) 0.1 TURNS in
    observe (normal m s) y.[t + TURNS]) (range (length y - TURNS)); s"""


@pytest.mark.parametrize(("turns", "written_out"), [(1, True), (3, True), (6, True), (20, False)])
def test_short_loops_of_a_known_length_cost_no_entries(turns: int, written_out: bool) -> None:
    y = np.sin(np.arange(80.0))
    model = cuppl.model(AUTOREGRESSION.replace("TURNS", str(turns)))
    density, block = model.density({"y": y.tolist()})
    q = np.random.default_rng(1).normal(size=turns + 1) * 0.3
    value, gradient = density(q)
    assert (density.meter[tape.USED] < turns + 8) == written_out
    x = np.stack([y[k : 80 - turns + k] for k in range(turns)], axis=1)
    away, s = y[turns:] - 0.1 - x @ q[:turns], np.exp(q[turns])
    slopes = x.T @ away / s**2 - q[:turns]
    assert gradient[:turns] == pytest.approx(slopes, rel=1e-9)
    last = (away**2).sum() / s**2 - (80 - turns) - s * s + 1
    assert gradient[turns] == pytest.approx(last, rel=1e-9)
    assert np.isfinite(value)
    assert block is not None


NO_TURNS = """
def main () =
  let x = sample (normal 0 1) in
  let (a, n) = range_fold (fn an k ->
    let (a, n) = an in (if a > 0.5 then a * x else a + x * float k, n + k)) (x, 10) COUNT in
  observe (normal a 1) 0.3; n"""


@pytest.mark.parametrize("count", range(6))
def test_what_a_loop_carries_is_right_after_it_is_written_out(count: int) -> None:
    """Values that branches change, and numbers without derivatives, with no turn up to five."""
    density, block = cuppl.model(NO_TURNS.replace("COUNT", str(count))).density()

    def exact(x: float) -> float:
        a = x
        for k in range(count):
            a = a * x if a > 0.5 else a + x * k
        return -0.5 * x * x - 0.5 * (a - 0.3) ** 2

    for x in (0.7, -0.4, 0.2):
        _, gradient = density(np.array([x]))
        assert density.results[0] == 10 + sum(range(count))
        slope = (exact(x + 1e-6) - exact(x - 1e-6)) / 2e-6
        assert gradient[0] == pytest.approx(slope, rel=1e-6, abs=1e-8)
    assert block is not None


def test_what_a_loop_need_not_compute_again_is_computed_before_it() -> None:
    elaborated = cuppl.model(REGRESSION).elaborated
    lowered = lower_continuous(elaborated)
    assert lowered is not None
    (loop,) = (f for name, f in lowered.program.functions.items() if name.startswith("iteri"))
    logs = [
        block.name
        for block in loop.blocks.values()
        for item in block.instructions
        if isinstance(item, Call) and item.function in ("log", "slope_log")
    ]
    assert len(logs) == 2
    assert all(isinstance(loop.blocks[name].terminator, Jump) for name in logs)
    assert not any("loop" in name or "body" in name for name in logs)


def test_invariants_of_loops() -> None:
    """What is set twice, depends on the loop, may stop the processor or has an effect stays."""
    b = FunctionBuilder("f", (Type.F64, Type.I64), (Type.F64,))
    x, n = b.params
    i, total = b.fresh_copy([b.const(0)], "i")[0], b.fresh_copy([b.const(0.0, Type.F64)], "t")[0]
    b.jump("head")
    b.open("head")
    b.branch(b.op("lti", i, n), "body", "done")
    b.open("body")
    moved = b.op("mulf", x, x)
    also_moved = b.call("exp", [moved], [Type.F64])[0]
    stays = b.op("divi", n, n)
    depends = b.op("addf", also_moved, total)
    b.put(Copy(total, depends))
    b.put(Copy(i, b.op("addi", i, stays)))
    b.jump("head")
    b.open("done")
    b.end(Return((total,)))
    function = b.finish()
    hoist_invariants(function, translate)
    body = [reg for item in function.blocks["body"].instructions for reg in defined(item)]
    assert body == [stays, depends, total, body[3], i]
    first = next(iter(function.blocks.values()))
    before = [reg for item in first.instructions for reg in defined(item)]
    assert before.index(moved) < before.index(also_moved)


@pytest.mark.parametrize(
    ("slopes", "order"),
    [
        ("b", lambda n: np.arange(n)),
        ("tabulate n (fn k -> b.[n - 1 - k])", lambda n: np.arange(n)[::-1]),
        ("tabulate n (fn k -> b.[k - k % 2])", lambda n: np.arange(n) // 2 * 2),
        ("tabulate n (fn k -> if k == 3 then 1.5 else b.[k])", lambda n: np.arange(n)),
    ],
)
@pytest.mark.parametrize("n", [5, 19])
def test_products_with_parameters_wherever_they_lie(
    slopes: str, order: Callable[[int], Any], n: int
) -> None:
    source = (
        "input xs : vector[vector[float]]\ninput y : vector[float]\ninput n : int\n"
        "def main () = let b = repeat n (fn () -> sample (normal 0 1)) in\n"
        f"  let c = {slopes} in iteri (fn i v -> observe (normal (dot c xs.[i]) 1) v) y; b.[0]"
    )
    random = np.random.default_rng(n)
    x, y, q = random.normal(size=(7, n)), random.normal(size=7), random.normal(size=n)
    density, block = cuppl.model(source).density({"xs": x.tolist(), "y": y.tolist(), "n": n})
    density(np.zeros(n))
    _, gradient = density(q)
    chosen, fixed = order(n), "1.5" in slopes
    c = np.where(fixed & (np.arange(n) == 3), 1.5, q[chosen])
    expected = -q
    by_place = x.T @ (y - x @ c)
    by_place[3] = 0.0 if fixed else by_place[3]
    np.add.at(expected, chosen, by_place)
    assert gradient == pytest.approx(expected, abs=1e-9)
    assert len(block)
