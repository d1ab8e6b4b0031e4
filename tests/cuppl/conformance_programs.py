"""Programs of the kinds that tutorials of other languages show, each with its exact answer.

Clustering with unboundedly many clusters, branching processes, changepoints, coalescents, random
programs, queues, planning, diagnosis: the posterior mean of the result, and the log evidence, are
worked out here by sums over partitions or values, closed forms, or quadrature.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import exp, factorial, lgamma, log
from typing import Any

import numpy as np

Answer = tuple[float, float]


@dataclass(frozen=True)
class Program:
    """A model, and the posterior mean of its result with the log evidence."""

    name: str
    source: str
    exact: Callable[[], Answer]
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    finite: float | None = None
    """If all choices are finite: below this prior probability, enumeration may drop paths."""
    mixes: bool = True
    """Whether changes of one choice at a time get from any likely run to any other soon."""


def summed(weights: Iterable[tuple[float, float]]) -> Answer:
    """Mean and log evidence of weighted values."""
    pairs = list(weights)
    total = sum(w for _, w in pairs)
    return sum(v * w for v, w in pairs) / total, log(total)


def log_normal(ys: list[float], cov: np.ndarray[Any, Any]) -> float:
    """Log density of a normal vector with mean 0."""
    y = np.array(ys)
    quadratic = float(y @ np.linalg.solve(cov, y))
    return -0.5 * (quadratic + np.linalg.slogdet(cov)[1] + len(y) * log(2 * math.pi))


def shared_mean(ys: list[float], spread: float, noise: float) -> float:
    """Log density of observations around a common normal mean."""
    size = len(ys)
    return log_normal(ys, spread * np.ones((size, size)) + noise * np.eye(size))


def poisson(k: int, rate: float) -> float:
    return exp(k * log(rate) - rate - lgamma(k + 1))


def partitions(n: int) -> list[list[list[int]]]:
    """All partitions of 0 .. n - 1."""
    if n == 0:
        return [[]]
    found: list[list[list[int]]] = []
    for smaller in partitions(n - 1):
        found.append([*smaller, [n - 1]])
        for k, block in enumerate(smaller):
            found.append([*smaller[:k], [*block, n - 1], *smaller[k + 1 :]])
    return found


POINTS = [-1.2, -0.8, 1.5, 1.9]


def sticks() -> Answer:
    def weight(blocks: list[list[int]]) -> float:
        prior = math.prod(factorial(len(b) - 1) for b in blocks) / factorial(4)
        return prior * exp(sum(shared_mean([POINTS[i] for i in b], 4.0, 0.25) for b in blocks))

    return summed(
        (float(any({0, 1} <= set(b) for b in blocks)), weight(blocks)) for blocks in partitions(4)
    )


def branching() -> Answer:
    fibonacci = [1, 1]
    while len(fibonacci) < 20:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])

    def likelihood(r: int) -> float:
        if r > 4:
            return poisson(6, 6.0)
        return sum(poisson(t, 4.0) * poisson(6, fibonacci[3 * r] + t) for t in range(60))

    return summed((float(r), poisson(r, 4.0) * likelihood(r)) for r in range(60))


COUNTS = [5, 4, 6, 5, 1, 0, 2, 1]


def changepoint() -> Answer:
    def segment(counts: list[int]) -> float:
        """Log probability of counts whose common rate is gamma(2, 1)."""
        total, n = sum(counts), len(counts)
        missing = sum(lgamma(c + 1) for c in counts)
        return lgamma(2 + total) - (2 + total) * log(1 + n) - missing

    return summed(
        (float(k), exp(segment(COUNTS[:k]) + segment(COUNTS[k:])) / 7) for k in range(1, 8)
    )


def progeny() -> Answer:
    """The total progeny of a branching process with Poisson offspring has Borel's law."""
    return summed(
        (float(n), exp(-0.5 * n) * (0.5 * n) ** (n - 1) / factorial(n)) for n in (1, 2, 3)
    )


LINE = {"xs": [0.0, 1.0, 2.0, 3.0], "ys": [0.1, 1.2, 7.0, 2.9]}


def outliers() -> Answer:
    design = np.column_stack([np.ones(4), LINE["xs"]])

    def weighted(out: tuple[bool, ...]) -> tuple[float, float]:
        cov = design @ design.T + np.diag([25.0 if o else 0.09 for o in out])
        slope = float((design.T @ np.linalg.solve(cov, np.array(LINE["ys"])))[1])
        prior = math.prod(0.2 if o else 0.8 for o in out)
        return slope, prior * exp(log_normal(LINE["ys"], cov))

    return summed(weighted(out) for out in itertools.product([False, True], repeat=4))


def coalescent() -> Answer:
    """Between two events of k lineages, mutations are geometric; the rate is integrated out."""
    rates, weights = np.polynomial.laguerre.laggauss(100)

    def four(rate: float) -> float:
        def between(k: int, mutations: int) -> float:
            q = k * rate / (k * rate + k * (k - 1) / 2)
            return (1 - q) * q**mutations

        return sum(between(3, i) * between(2, 4 - i) for i in range(5))

    pairs = zip(rates.tolist(), weights.tolist(), strict=True)
    return summed((r, w * four(r)) for r, w in pairs)


def dirichlet_mixture() -> Answer:
    xs = [-2.0, -1.8, 2.2]

    def weight(z: tuple[int, ...]) -> float:
        groups = [[x for x, k in zip(xs, z, strict=True) if k == g] for g in (0, 1)]
        prior = math.prod(factorial(len(g)) for g in groups) / factorial(4)
        return prior * exp(sum(shared_mean(g, 9.0, 1.0) for g in groups if g))

    return summed((float(z[0] == z[2]), weight(z)) for z in itertools.product([0, 1], repeat=3))


def random_programs() -> Answer:
    values = {(v, 1): 1 / 3 for v in (1, 2, 3)}
    for _ in range(2):
        new = {(v, 1): 0.2 for v in (1, 2, 3)}
        for ((a, m), p), ((b, n), q) in itertools.product(values.items(), repeat=2):
            for result in (a + b, a * b):
                new[result, m + n] = new.get((result, m + n), 0.0) + 0.2 * p * q
        values = new
    return summed((float(size), p) for (value, size), p in values.items() if value == 6)


def planning() -> Answer:
    return summed(
        (float(moves[0]), exp(-2.0 * abs(sum(moves) - 2)) / 27)
        for moves in itertools.product((-1, 0, 1), repeat=3)
    )


def queue() -> Answer:
    states = {(0, 0): 1.0}
    for _ in range(6):
        new: dict[tuple[int, int], float] = {}
        for (waiting, most), p in states.items():
            for comes, pc in ((1, 0.3), (0, 0.7)):
                now = waiting + comes
                leaving = ((1, 0.4), (0, 0.6)) if now > 0 else ((0, 1.0),)
                for leaves, pl in leaving:
                    key = (now - leaves, max(most, now - leaves))
                    new[key] = new.get(key, 0.0) + p * pc * pl
        states = new
    return summed((float(most), p) for (waiting, most), p in states.items() if waiting == 1)


def hidden_states() -> Answer:
    step = [[0.7, 0.3], [0.4, 0.6]]
    emit = [[0.9, 0.1], [0.2, 0.8]]
    seen = [0, 0, 1, 1, 0]

    def weight(z: tuple[int, ...]) -> float:
        moves = math.prod(step[a][b] for a, b in itertools.pairwise(z))
        return 0.5 * moves * math.prod(emit[k][o] for k, o in zip(z, seen, strict=True))

    return summed((float(z[2]), weight(z)) for z in itertools.product([0, 1], repeat=5))


def sources() -> Answer:
    def weight(n: int) -> float:
        variance = n + 0.25
        return poisson(n, 2.0) * exp(log_normal([3.0 - n], np.array([[variance]])))

    return summed((float(n), weight(n)) for n in range(40))


PROGRAMS = [
    Program(
        "Dirichlet process by sticks",
        """input ys : vector[float]
def stick v i = if flip (v i) then i else stick v (i + 1)
def main () =
  let v = mem (fn i -> sample (beta 1 1)) in
  let mu = mem (fn k -> sample (normal 0 2)) in
  let draw = fn y -> let z = stick v 0 in observe (normal (mu z) 0.5) y; z in
  let zs = map draw ys in
  if zs.[0] == zs.[1] then 1.0 else 0.0""",
        sticks,
        {"ys": POINTS},
    ),
    Program(
        "branching",
        """def fib n = if n < 2 then 1 else fib (n - 1) + fib (n - 2)
def main () =
  let r = sample (poisson 4) in
  let l = if 4 < r then 6 else fib (3 * r) + sample (poisson 4) in
  observe (poisson (float l)) 6;
  r""",
        branching,
    ),
    Program(
        "changepoint",
        """input counts : vector[int]
def main () =
  let tau = sample (uniform_int 1 7) in
  let before = sample (gamma 2 1) in
  let after = sample (gamma 2 1) in
  iteri (fn i c -> observe (poisson (if i < tau then before else after)) c) counts;
  tau""",
        changepoint,
        {"counts": COUNTS},
    ),
    Program(
        "progeny",
        """def progeny () =
  let n = sample (poisson 0.5) in
  range_fold (fn total _ -> total + progeny ()) 1 n
def main () = let n = progeny () in condition (n <= 3); n""",
        progeny,
    ),
    Program(
        "regression with outliers",
        """input xs : vector[float]
input ys : vector[float]
def main () =
  let a = sample (normal 0 1) in
  let b = sample (normal 0 1) in
  let point (x, y) =
    let noise = if flip 0.2 then 5.0 else 0.3 in
    observe (normal (a + b * x) noise) y in
  iter point (zip xs ys);
  b""",
        outliers,
        LINE,
    ),
    Program(
        "coalescent",
        """def grow k length =
  if k == 1 then length
  else
    let t = sample (exponential (float (k * (k - 1)) / 2.0)) in
    grow (k - 1) (length + float k * t)
def main () =
  let theta = sample (gamma 1 1) in
  observe (poisson (theta * grow 3 0.0)) 4;
  theta""",
        coalescent,
    ),
    Program(
        "mixture with unknown shares",
        """def main () =
  let w = sample (dirichlet [1.0, 1.0]) in
  let mus = repeat 2 (fn _ -> sample (normal 0 3)) in
  let draw x = let z = sample (categorical w) in observe (normal mus.[z] 1) x; z in
  let zs = map draw [-2.0, -1.8, 2.2] in
  if zs.[0] == zs.[2] then 1.0 else 0.0""",
        dirichlet_mixture,
    ),
    Program(
        "random programs",
        """data Expr = Const(int) | Add(Expr, Expr) | Mul(Expr, Expr)
def gen depth =
  if depth == 0 then Const (sample (uniform_int 1 3))
  else
    let k = sample (categorical [0.6, 0.2, 0.2]) in
    if k == 0 then Const (sample (uniform_int 1 3))
    else
      let a = gen (depth - 1) in
      let b = gen (depth - 1) in
      if k == 1 then Add (a, b) else Mul (a, b)
def eval e =
  match e with
  | Const n -> n
  | Add (a, b) -> eval a + eval b
  | Mul (a, b) -> eval a * eval b
  end
def size e =
  match e with | Const _ -> 1 | Add (a, b) -> size a + size b | Mul (a, b) -> size a + size b end
def main () = let e = gen 2 in condition (eval e == 6); size e""",
        random_programs,
        finite=0.0,
    ),
    Program(
        "planning",
        """def walk x steps first =
  if steps == 0 then (factor (-2.0 * abs (float x - 2.0)); first)
  else
    let a = sample (uniform_int (-1) 1) in
    walk (x + a) (steps - 1) (if steps == 3 then a else first)
def main () = float (walk 0 3 0)""",
        planning,
        finite=0.0,
    ),
    Program(
        "queue",
        """def tick n q most =
  if n == 0 then (q, most)
  else
    let q1 = if flip 0.3 then q + 1 else q in
    let q2 = if q1 > 0 && flip 0.4 then q1 - 1 else q1 in
    tick (n - 1) q2 (max most q2)
def main () = let (q, most) = tick 6 0 0 in condition (q == 1); most""",
        queue,
        finite=0.0,
        mixes=False,
    ),
    Program(
        "states remembered as they are asked for",
        """def main () =
  letrec state = mem (fn i ->
    if i == 0 then sample (categorical [0.5, 0.5])
    else if state (i - 1) == 0 then sample (categorical [0.7, 0.3])
    else sample (categorical [0.4, 0.6])) in
  let emitted s = if s == 0 then [0.9, 0.1] else [0.2, 0.8] in
  iteri (fn i o -> observe (categorical (emitted (state i))) o) [0, 0, 1, 1, 0];
  float (state 2)""",
        hidden_states,
        finite=0.0,
    ),
    Program(
        "unknown number of sources",
        """def main () =
  let n = sample (poisson 2) in
  let total = range_fold (fn a _ -> a + sample (normal 1 1)) 0.0 n in
  observe (normal total 0.5) 3.0;
  n""",
        sources,
    ),
]
