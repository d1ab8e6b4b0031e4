"""The solver of differential equations: known solutions, gradients, and what cannot be solved."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tawa import cuppl
from tawa.functional.errors import FunctionalError


def solution(text: str, **data: Any) -> Any:
    inputs = "".join(f"input {name} : vector[float]\n" for name in data)
    return cuppl.model(f"{inputs}def main () = {text}").importance(4, data=data).values[0]


def test_known_solutions() -> None:
    times = [0.0, 0.5, 3.0, 10.0]
    turning = solution("ode (fn t y -> [y.[1], 0.0 - y.[0]]) 0.0 [0, 1] times 1e-9", times=times)
    assert np.allclose(turning, [[math.sin(t), math.cos(t)] for t in times], atol=1e-7)
    driven = solution("ode (fn t y -> [2.0 * t]) 1.0 [3] times 1e-6", times=[1.0, 2.0, 4.0])
    assert np.allclose(driven, [[3], [6], [18]], atol=1e-9)
    logistic = solution(
        "ode (fn t y -> [y.[0] * (1.0 - y.[0])]) 0.0 [0.01] times 1e-8", times=[9.0]
    )
    assert logistic[0][0] == pytest.approx(1 / (1 + 99 * math.exp(-9)), abs=1e-6)
    assert solution("ode (fn t y -> y) 0.0 [1] (slice 0 0 [1.0]) 1e-6") == []


def test_gradients_go_through_the_solver() -> None:
    """Of exp(-r t), whose derivative by the rate is known."""
    text = (
        "def main () = let r = sample (normal 1 1) in\n"
        "  let z = ode (fn t y -> [0.0 - r * y.[0]]) 0.0 [1] [0.7, 2.0] 1e-9 in\n"
        "  factor z.[1].[0]; r"
    )
    density, block = cuppl.model(text).density()
    for r in (0.3, 1.7):
        value, gradient = density(np.array([r - 0.0]))
        prior = -0.5 * (r - 1) ** 2 - 0.5 * math.log(2 * math.pi)
        assert value == pytest.approx(prior + math.exp(-2 * r), abs=1e-7)
        assert gradient[0] == pytest.approx(1 - r - 2 * math.exp(-2 * r), abs=1e-6)
    assert block is not None


def test_what_is_not_solved() -> None:
    with pytest.raises(FunctionalError, match="must ascend"):
        solution("ode (fn t y -> y) 0.0 [1] times 1e-6", times=[2.0, 1.0])
    with pytest.raises(FunctionalError, match="weights are zero"):
        solution("ode (fn t y -> [y.[0] * y.[0]]) 0.0 [1] times 1e-6", times=[2.0])
    for change, start in (("[1.0, 2.0]", "[1]"), ("[1.0]", "[1, 2]")):
        with pytest.raises(FunctionalError, match="a change for each of the values"):
            solution(f"ode (fn t y -> {change}) 0.0 {start} times 1e-6", times=[2.0])


def test_an_end_at_infinity() -> None:
    text = "def main () = sample (truncated_normal 0 1 1 infinity)"
    posterior = cuppl.model(text).nuts(500, warm_up=300, chains=2, seed=1)
    mean, error = posterior.expectation("result")
    assert abs(mean - 1.525135) < 5 * error
