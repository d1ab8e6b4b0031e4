"""The no-U-turn sampler's bookkeeping, and what of it runs as machine code."""

from __future__ import annotations

import numpy as np
import pytest
from tests.work import calls_made

from tawa import cuppl
from tawa.cuppl.inference.nuts import nuts_chain
from tawa.cuppl.natives import tape as k

FUNNEL = """
def main () =
  let v = sample (normal 0 3) in
  let xs = repeat 5 (fn () -> sample (normal 0 (exp (v / 2.0)))) in
  v
"""


def turns(momenta: np.ndarray, metric: np.ndarray) -> bool:
    """Whether a balanced piece, or one of its halves, begins to turn back."""
    half = len(momenta) // 2
    if not half:
        return False
    if turns(momenta[:half], metric) or turns(momenta[half:], metric):
        return True
    across = metric * momenta.sum(0)
    return bool(momenta[0] @ across <= 0 or momenta[-1] @ across <= 0)


@pytest.mark.parametrize("seed", range(6))
def test_pieces_are_those_of_the_recursive_definition(seed: int) -> None:
    random = np.random.default_rng(seed)
    n, metric = 3, random.random(3) + 0.5
    momenta = random.standard_normal((16, n)) + 0.5 * seed
    sums, kept = np.zeros(n), np.zeros(2 * 10 * n)
    for leaf, p in enumerate(momenta):
        k.add_momentum(n, leaf, sums, kept, p)
        sizes = [size for size in (2, 4, 8, 16) if (leaf + 1) % size == 0]
        expected = any(turns(momenta[leaf + 1 - size : leaf + 1], metric) for size in sizes)
        assert k.turned(n, leaf, metric, sums, kept, p) == expected
        if expected:
            break


def test_long_trajectories_are_no_work_for_the_interpreter() -> None:
    density, inputs = cuppl.model(FUNNEL).density()
    steps: list[int] = []

    def chain() -> None:
        steps.append(nuts_chain(density, 50, 50, 1, 0.99, 0).evaluations)

    chain()
    before = steps[-1]
    calls = calls_made(chain)
    assert calls < 20 * (steps[-1] - before)
    del inputs
