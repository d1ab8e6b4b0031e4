"""Programs about things that are not seen directly, each with its exact answer.

Balls in an urn, a square in a noisy image, a speaker's intention, expressions that gave a number,
animals caught on several occasions, unboundedly many sticks: worked out by sums over all worlds.
"""

from __future__ import annotations

import itertools
import math
from math import comb, log

import numpy as np
from conformance_programs import Answer, Program, summed

SEEN = [True, True, True, False]
CAUGHT = [12, 9, 14]
IMAGE = ["....", ".##.", ".#..", "...#"]
MEANING = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
ALPHA = 1.5


def urn() -> Answer:
    def likelihood(n: int) -> float:
        shares = [(comb(n, b) * 0.5**n, 0.2 + 0.6 * b / n) for b in range(n + 1)]
        return sum(p * seen**3 * (1 - seen) for p, seen in shares)

    return summed((float(n), likelihood(n) / 8) for n in range(1, 9))


def graphics() -> Answer:
    def likelihood(size: int, x: int, y: int) -> float:
        return math.prod(
            0.9 if (y <= i < y + size and x <= j < x + size) == (IMAGE[i][j] == "#") else 0.1
            for i, j in itertools.product(range(4), repeat=2)
        )

    worlds = itertools.product((1, 2, 3), range(4), range(4))
    return summed((float(size), likelihood(size, x, y) / 48) for size, x, y in worlds)


def reference() -> Answer:
    literal = MEANING / MEANING.sum(1, keepdims=True)
    speaker = literal**4 / (literal**4).sum(0)
    return summed((float(o == 1), speaker[0, o] / 3) for o in range(3))


def arithmetic() -> Answer:
    top = 40
    found = np.zeros(top)
    for _ in range(150):
        sums = np.convolve(found, found)[:top]
        products = np.zeros(top)
        for i in range(1, top):
            for j in range(1, (top - 1) // i + 1):
                products[i * j] += found[i] * found[j]
        found = 0.2 * sums + 0.2 * products
        found[1:4] += 0.2
    product = 0.2 * sum(found[i] * found[6 // i] for i in (1, 2, 3, 6))
    return product / found[6], log(found[6])


def captures() -> Answer:
    def integral(n: int) -> float:
        """Of the binomial probabilities over a uniform p: a Beta function."""
        caught, left = sum(CAUGHT), sum(n - c for c in CAUGHT)
        ways = sum(log(comb(n, c)) for c in CAUGHT)
        beta = math.lgamma(caught + 1) + math.lgamma(left + 1) - math.lgamma(caught + left + 2)
        return math.exp(ways + beta)

    return summed((float(n), integral(n) / 67) for n in range(14, 81))


def sticks() -> Answer:
    return 2 / (2 + ALPHA), -log(1 + ALPHA)


WORLDS = [
    Program("urn", """
input seen : vector[bool]
def main () =
  let n = sample (uniform_int 1 8) in
  let blue = tabulate n (fn _ -> flip 0.5) in
  iter (fn s ->
    let ball = blue.[sample (uniform_int 0 (n - 1))] in
    observe (bernoulli (if ball then 0.8 else 0.2)) s) seen;
  n
""", urn, {"seen": SEEN}, mixes=False),
    Program("inverse graphics", """
input image : vector[vector[bool]]
def inside start size i = start <= i && i < start + size
def main () =
  let size = sample (uniform_int 1 3) in
  let x = sample (uniform_int 0 3) in
  let y = sample (uniform_int 0 3) in
  iteri (fn i row ->
    iteri (fn j pixel ->
      let on = inside y size i && inside x size j in
      observe (bernoulli (if on then 0.9 else 0.1)) pixel) row) image;
  size
""", graphics, {"image": [[p == "#" for p in row] for row in IMAGE]}, finite=0.0),
    Program("speakers and listeners", """
input meaning : vector[vector[float]]
def expect p weights =
  shift p (fn k ->
    let total = sum weights in
    range_fold (fn a i -> if weights.[i] == 0.0 then a else a + weights.[i] / total * k i) 0.0
      (length weights))
def listener u o =
  let p = prompt () in
  reset p (fn () -> if expect p meaning.[u] == o then 1.0 else 0.0)
def speaker o u =
  let p = prompt () in
  reset p (fn () ->
    if expect p (tabulate 3 (fn v -> listener v o ** 4.0)) == u then 1.0 else 0.0)
def main () =
  let object = sample (uniform_int 0 2) in
  factor (log (speaker object 0));
  object == 1
""", reference, {"meaning": MEANING.tolist()}, finite=0.0),
    Program("expressions", """
data Expr = Number(int) | Add(Expr, Expr) | Times(Expr, Expr)
def expression () =
  match sample (categorical [0.6, 0.2, 0.2]) with
  | 0 -> Number (sample (uniform_int 1 3))
  | 1 -> let a = expression () in Add (a, expression ())
  | _ -> let a = expression () in Times (a, expression ())
  end
def value e =
  match e with
  | Number n -> n
  | Add (a, b) -> value a + value b
  | Times (a, b) -> value a * value b
  end
def main () =
  let e = expression () in
  condition (value e == 6);
  match e with | Times (_, _) -> true | _ -> false end
""", arithmetic),
    Program("captures", """
input caught : vector[int]
def main () =
  let n = sample (uniform_int 14 80) in
  let p = sample (uniform 0 1) in
  iter (fn k -> observe (binomial n p) k) caught;
  n
""", captures, {"caught": CAUGHT}, mixes=False),
    Program("sticks", """
input alpha : float
def main () =
  let stick = mem (fn i -> sample (beta 1 alpha)) in
  letrec pick i = if flip (stick i) then i else pick (i + 1) in
  let a = pick 0 in
  condition (pick 0 == a);
  pick 0 == a
""", sticks, {"alpha": ALPHA}, mixes=False),
]  # fmt: skip
