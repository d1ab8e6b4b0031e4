"""Posteriors of the discrete conformance models, worked out without CuPPL."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

Table = dict[Any, float]


@dataclass(frozen=True)
class Case:
    """A model, and the exact posterior (or means) of its result."""

    name: str
    source: str
    posterior: Table
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    tolerance: float = 0.0
    """For enumeration: paths below this prior probability are dropped."""
    enumerable: bool = True


def normalised(weights: Iterable[tuple[Any, float]]) -> Table:
    """A table of probabilities from weighted values."""
    table: Table = {}
    for value, weight in weights:
        if weight > 0.0:
            table[value] = table.get(value, 0.0) + weight
    total = sum(table.values())
    return {value: weight / total for value, weight in table.items()}


def flips(ps: list[float], result: Callable[..., Any], weight: Callable[..., float]) -> Table:
    """The posterior of independent coins, by going through all outcomes."""
    worlds = itertools.product([False, True], repeat=len(ps))
    return normalised(
        (result(*w), weight(*w) * math.prod(p if b else 1 - p for p, b in zip(ps, w, strict=True)))
        for w in worlds
    )


def binomial(n: int, p: float) -> list[float]:
    return [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]


def geometric(p: float, count: int = 60) -> Table:
    return {k: p * (1 - p) ** k for k in range(count)}


def hmm_posterior() -> Table:
    """The last state of a two-state chain after three noisy observations, by brute force."""
    seen = [True, False, True]

    def weight(states: tuple[bool, ...]) -> float:
        total = 0.5
        for before, after in itertools.pairwise(states):
            total *= 0.7 if before == after else 0.3
        for state, observation in zip(states, seen, strict=True):
            total *= 0.9 if state == observation else 0.1
        return total

    return normalised((s[-1], weight(s)) for s in itertools.product([False, True], repeat=3))


def pcfg_lengths() -> Table:
    """Number of leaves of a random binary tree that splits with probability 0.15."""
    p, table = 0.15, {}
    for n in range(1, 40):
        catalan = math.comb(2 * (n - 1), n - 1) // n
        table[n] = catalan * p ** (n - 1) * (1 - p) ** n
    return table


def implicature() -> Table:
    """A literal listener, a speaker with rationality 1, a pragmatic listener of 'some'."""
    meanings = {"none": {0}, "some": {1, 2, 3}, "all": {3}}
    literal = {
        u: {s: 1 / len(states) if s in states else 0.0 for s in range(4)}
        for u, states in meanings.items()
    }
    speaker = {}
    for s in range(4):
        scores = {u: literal[u][s] for u in meanings}
        total = sum(scores.values())
        speaker[s] = {u: v / total for u, v in scores.items()}
    return normalised((s, speaker[s]["some"] / 4) for s in range(4))


def coupon(n: int = 3) -> Table:
    """Distinct values among four uniform draws of n."""
    return normalised((len(set(w)), 1.0) for w in itertools.product(range(n), repeat=4))


def semi_markov() -> Table:
    """Segments of random length 1-2 that alternate between two states over four steps."""

    def run(position: int, state: bool, weight: float) -> list[tuple[bool, float]]:
        if position >= 4:
            return [(not state, weight)]
        return [
            found for length in (1, 2) for found in run(position + length, not state, weight * 0.5)
        ]

    return normalised(run(0, True, 1.0))


def crp_tables(n: int = 4, alpha: float = 1.0) -> Table:
    """Number of tables of a Chinese restaurant process, by recursion over customers."""
    state = {(): 1.0}
    for k in range(n):
        new: dict[tuple[int, ...], float] = {}
        for sizes, p in state.items():
            for index, size in enumerate(sizes):
                grown = tuple(s + (i == index) for i, s in enumerate(sizes))
                new[grown] = new.get(grown, 0.0) + p * size / (k + alpha)
            fresh = (*sizes, 1)
            new[fresh] = new.get(fresh, 0.0) + p * alpha / (k + alpha)
        state = new
    return normalised((len(s), p) for s, p in state.items())


def noisy_or() -> Table:
    """Cause given effect in a noisy-or of two causes with leak."""

    def likelihood(a: bool, b: bool) -> float:
        return 1 - 0.99 * (0.3 if a else 1.0) * (0.5 if b else 1.0)

    return flips([0.1, 0.2], lambda a, b: a, likelihood)


def ising() -> Table:
    """Three spins in a ring with coupling 0.5."""

    def energy(*s: bool) -> float:
        same = sum(s[i] == s[(i + 1) % 3] for i in range(3))
        return math.exp(0.5 * same)

    return flips([0.5] * 3, lambda *s: sum(s), energy)


def lda_topic() -> Table:
    """Topic of the first of three words, topics drawn from a fixed document mixture."""
    words, topics = [0, 0, 1], [[0.8, 0.2], [0.3, 0.7]]
    mixture = [0.6, 0.4]
    return normalised(
        (z[0], math.prod(mixture[t] * topics[t][w] for t, w in zip(z, words, strict=True)))
        for z in itertools.product([0, 1], repeat=3)
    )


def walk() -> Table:
    """A random walk of four steps that must end at 0 and not go below -1."""

    def paths() -> Iterable[tuple[int, float]]:
        for steps in itertools.product([-1, 1], repeat=4):
            heights = list(itertools.accumulate(steps))
            if heights[-1] == 0 and min(heights) >= -1:
                yield max(heights), 1.0

    return normalised(paths())


def monty_hall() -> Table:
    """Whether switching wins."""
    return {True: 2 / 3, False: 1 / 3}


def tug_of_war() -> Table:
    """Is A strong, given that A and B beat C, then A alone beats C? Strength 1 or 2; ties lose."""
    table: list[tuple[bool, float]] = []
    for a, b, c in itertools.product([1, 2], repeat=3):
        for lazy in itertools.product([0.5, 1.0], repeat=5):
            first = a * lazy[0] + b * lazy[1] > c * lazy[2]
            second = a * lazy[3] > c * lazy[4]
            table.append((a == 2, float(first and second)))
    return normalised(table)
