"""Draws that are rounded to an end of their support, full heaps, starts that are impossible."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tawa import cuppl
from tawa.cuppl.distributions import correlations, matrices, positive, supports, vectors
from tawa.cuppl.numeric.primitives import Context, new_floats
from tawa.cuppl.typing import failures

SHARES = """
def main () =
  let s = sample (exponential 1) in
  let coin () = let p = sample (beta (s / 20.0) (s / 20.0)) in observe (bernoulli p) true; p in
  let first = coin () in
  let second = coin () in
  (s, first, second)
"""


def test_draws_that_are_rounded_to_one_can_be_left_and_reached() -> None:
    """Heads tell nothing about the spread of a coin's bias: its mean stays 1."""
    posterior = cuppl.model(SHARES).mh(40_000, seed=1)
    assert float((posterior["first"] == 1.0).mean()) > 0.3
    mean, error = posterior.expectation("s")
    assert error < 0.06
    assert abs(mean - 1.0) < 4 * error


def test_gradients_reach_log_odds_whose_numbers_are_rounded() -> None:
    model = cuppl.model("def main () = let p = sample (beta 0.05 0.05) in (p, p == 1.0)")
    posterior = model.nuts(1500, warm_up=500, chains=2, seed=2)
    mean, error = posterior.expectation("p")
    assert posterior.diagnostics["divergent"] == 0
    assert error < 0.04
    assert abs(mean - 0.5) < 4 * error
    assert posterior.mean(1) > 0.05


@pytest.mark.parametrize("q", [-3.0, 0.2, 2.5])
def test_densities_of_unconstrained_values_agree_with_those_of_the_values(q: float) -> None:
    x, y = math.exp(q), supports.between(0.0, 1.0, q)
    pairs = [
        (positive.free_gamma(q, 0.7, 2.0), positive.logpdf_gamma(x, 0.7, 2.0) + q),
        (positive.free_chi_squared(q, 3.0), positive.logpdf_chi_squared(x, 3.0) + q),
        (
            positive.free_beta(q, 0.3, 1.4),
            positive.logpdf_beta(y, 0.3, 1.4) + supports.between_density(0.0, 1.0, q),
        ),
        (positive.drawn_gamma(x, 0.7, 2.0), positive.logpdf_gamma(x, 0.7, 2.0)),
        (positive.drawn_beta(y, 0.3, 1.4), positive.logpdf_beta(y, 0.3, 1.4)),
    ]
    assert [a for a, _ in pairs] == pytest.approx([b for _, b in pairs])


def test_the_simplex_in_both_forms() -> None:
    context = Context()
    free, weights = new_floats(context, 2), new_floats(context, 3)
    free[0], free[1] = 0.4, -1.3
    weights[0], weights[1], weights[2] = 0.5, 2.0, 0.8
    point = supports.to_simplex(context, free, 3)
    expected = vectors.logpdf_dirichlet(point, weights)
    assert vectors.drawn_dirichlet(point, weights) == pytest.approx(expected)
    assert vectors.free_dirichlet(free, weights) == pytest.approx(
        expected + supports.simplex_density(free, 3)
    )


def test_a_full_heap_inside_the_handler_of_a_shift() -> None:
    """The handler calls nothing that suspends; what it makes is more than the heap holds."""
    model = cuppl.model("""
data Step = Done | Yield(int, () -> Step)
def main () =
  let p = prompt () in
  let yield_ x = shift p (fn k -> Yield (x, k)) in
  let s = reset p (fn () -> yield_ (if flip 0.5 then 1 else 3); yield_ 2; Done) in
  match s with | Done -> 0 | Yield (x, _) -> x end
""")
    assert model.importance(20_000, threads=1).mean() == pytest.approx(2.0, abs=0.03)


def test_gradients_need_a_start_that_is_possible() -> None:
    model = cuppl.model("def main () = let x = sample (normal 0 1) in condition (x == 0.5); x")
    with pytest.raises(failures.AllWeightsZero, match="random starts"):
        model.nuts(10)


NESTED = """
## The masses of 0 .. n - 1 under a program whose choices are made by its argument.
def table n program =
  let p = prompt () in
  let choose k = shift p (fn go ->
    fold (fn t i -> map2 (fn a b -> a + b / float k) t (go i)) (replicate n 0.0) (range k)) in
  let given c = shift p (fn go -> if c then go () else replicate n 0.0) in
  let masses = reset p (fn () ->
    let value = program choose given in
    tabulate n (fn i -> if i == value then 1.0 else 0.0)) in
  let z = sum masses in
  map (fn m -> m / z) masses
def meaning u s = if u == 0 then s > 0 else if u == 1 then s == 3 else s == 0
def literal u = table 4 (fn choose given -> let s = choose 4 in given (meaning u s); s)
def main () =
  let s = sample (uniform_int 0 3) in
  observe (categorical (tabulate 3 (fn u -> (literal u).[s]))) 0;
  s
"""


def test_programs_with_control_are_run_again() -> None:
    """A listener reasons about a speaker who reasons about a literal listener: some, not all."""
    model = cuppl.model(NESTED)
    exact = model.enumerate().probabilities()
    assert exact == pytest.approx({1: 4 / 9, 2: 4 / 9, 3: 1 / 9})
    posterior = model.mh(5000, seed=1)
    mean, error = posterior.expectation(lambda s: float(s == 3))
    assert abs(mean - 1 / 9) < 4 * error


DEEP = """
def build p n = if n == 0 then shift p (fn k -> k Nil) else Cons (flip 0.5, build p (n - 1))
def main () =
  let p = prompt () in
  let l = reset p (fn () -> build p 400) in
  condition (list_fold (fn a x -> a || x) false l);
  l
"""


def list_items(value: Any) -> list[Any]:
    """The elements of a decoded list."""
    out: list[Any] = []
    while value != "Nil":
        _, item, value = value
        out.append(item)
    return out


def test_lists_of_any_length_are_results() -> None:
    model = cuppl.model("""
def build n = if n == 0 then Nil else Cons (n, build (n - 1))
def main () = let n = 5000 in (build (if flip 0.5 then n else n + 1), flip 0.25 || flip 0.5)
""")
    posterior = model.enumerate()
    found = sorted(posterior.probabilities().values())
    assert found == pytest.approx([0.1875, 0.1875, 0.3125, 0.3125])
    assert len(list_items(posterior.values[0][0])) in (5000, 5001)


def test_the_stack_of_a_run_with_control_grows() -> None:
    posterior = cuppl.model(DEEP).mh(300, burn=100, chains=1)
    heads = posterior.mean(lambda value: float(sum(list_items(value))))
    assert 150 < heads < 250


def test_a_run_with_control_that_never_ends() -> None:
    model = cuppl.model("""
def down p n = 1 + down p (n + shift p (fn k -> k 1))
def main () = let p = prompt () in reset p (fn () -> down p 0)
""")
    with pytest.raises(failures.UnboundedRecursion):
        model.mh(10, limits=cuppl.Limits(max_memory=1 << 22, max_steps=1 << 18))


EXPRESSIONS = {
    "log_density (cauchy 0 1) 1e300": -math.log(math.pi) - 600 * math.log(10),
    "log_density (half_cauchy 1) 1e300": math.log(2 / math.pi) - 600 * math.log(10),
    "log_density (student_t 1 0 1) (-1e200)": -math.log(math.pi) - 400 * math.log(10),
    "log_density (student_t 3 0 2) 1.5": -2.0377365440367736,
    "normal_quantile 1.5": math.nan,
    "normal_quantile (-0.5)": math.nan,
    "dot [] []": 0.0,
    "dot [1.0, 2.0, 3.0] [4.0, 5.0, 6.0]": 32.0,
    "dot [1.0, 2.0, 3.0, 4.0, 5.0, 6.0] [1.0, 1.0, 1.0, 1.0, 2.0, 3.0]": 38.0,
    "min (0.0 / 0.0) 1.0": math.nan,
    "min 1.0 (0.0 / 0.0)": math.nan,
    "max (0.0 / 0.0) 1.0": math.nan,
    "max 1.0 (0.0 / 0.0)": math.nan,
    "max 2.0 (1.0 / 0.0)": math.inf,
    "float (length (flatten (slice 0 0 [[1.0]])))": 0.0,
    "sum (flatten [slice 0 0 [1.0], [2.0, 3.0]])": 5.0,
    "log_mean_exp [1.0, infinity]": math.inf,
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_numbers_at_the_edges(text: str) -> None:
    (found,) = set(map(repr, cuppl.model(f"def main () = {text}").importance(2).values))
    assert float(found) == pytest.approx(EXPRESSIONS[text], rel=1e-7, nan_ok=True)


def test_rows_of_a_matrix_are_equally_long() -> None:
    """Also where all of them together have as many entries as such rows would have."""
    text = "def main () = entry (matrix_of_rows [[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]]) 1 1"
    with pytest.raises(failures.ProgramFailed, match="equally long"):
        cuppl.model(text).importance(1)


def test_products_of_vectors_of_different_lengths() -> None:
    with pytest.raises(failures.ProgramFailed, match="different lengths") as caught:
        cuppl.model("def main () =\n  dot [1.0] [1.0, 2.0]").importance(2)
    assert caught.value.span is not None
    assert caught.value.span.line == 2


FACTOR = np.array([1.4, 0.0, 0.3, 0.9])
FREE_VECTORS: list[tuple[Any, Any, Any, tuple[Any, ...], int, Any]] = [
    (correlations.free_lkj_cholesky, supports.to_correlation_factor, correlations.logpdf_lkj_cholesky,
     (3, 1.7), 3, np.tril_indices(3, -1)),
    (correlations.free_lkj, supports.to_correlation, correlations.logpdf_lkj,
     (3, 1.7), 3, np.tril_indices(3, -1)),
    (matrices.free_wishart, supports.to_covariance, matrices.logpdf_wishart,
     (4.5, FACTOR), 4, np.tril_indices(2)),
    (matrices.free_inverse_wishart, supports.to_covariance, matrices.logpdf_inverse_wishart,
     (4.5, FACTOR), 4, np.tril_indices(2)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("free_density", "to", "density", "parameters", "order", "cells"), FREE_VECTORS
)
def test_densities_of_unconstrained_matrices(
    free_density: Any, to: Any, density: Any, parameters: tuple[Any, ...], order: int, cells: Any
) -> None:
    """They have the determinant of the cells that tell the others, by differences."""
    context, side = Context(), max(cells[0]) + 1

    def call(f: Any, *given: Any) -> Any:
        return f(context, *given) if "ctx" in f.__annotations__ else f(*given)

    def told(free: np.ndarray) -> np.ndarray:
        return np.asarray(call(to, free, order)).reshape(side, side)[cells]

    q = np.array([0.4, -0.7, 1.1])
    steps = [1e-6 * row for row in np.eye(3)]
    columns = [(told(q + h) - told(q - h)) / 2e-6 for h in steps]
    _, log_det = np.linalg.slogdet(np.array(columns))
    expected = call(density, call(to, q, order), *parameters) + log_det
    assert call(free_density, q, *parameters) == pytest.approx(expected, rel=1e-7)


def test_ordered_values_in_both_forms() -> None:
    q = np.array([0.4, -0.7, 1.1])
    x = supports.to_ordered(Context(), q, 3)
    assert list(x) == pytest.approx(
        [0.4, 0.4 + math.exp(-0.7), 0.4 + math.exp(-0.7) + math.exp(1.1)]
    )
    assert supports.ordered_density(q, 3) == pytest.approx(0.4)
