"""Matrices in the language against NumPy, their errors and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tawa import cuppl
from tawa.functional.errors import FunctionalError

X = np.arange(6.0).reshape(3, 2) - 1.5
A = np.array([[2.0, 0.5], [0.5, 1.0]])


def value(expression: str) -> Any:
    """What an expression is, in a program with a matrix `x` and a positive definite `a`."""
    text = f"input x : matrix\ninput a : matrix\ndef main () = {expression}"
    return cuppl.model(text).importance(4, data={"x": X, "a": A}).values[0]


def test_values_are_numpys() -> None:
    factor = np.linalg.cholesky(A)
    cases = {
        "x @ a": X @ A,
        "x @ [1, 2]": X @ [1, 2],
        "x @ a @ transpose x": X @ A @ X.T,
        "cholesky_factor a": factor,
        "solve_lower (cholesky_factor a) [1, 2]": np.linalg.solve(factor, [1, 2]),
        "solve_lower (cholesky_factor a) (transpose x)": np.linalg.solve(factor, X.T),
        "solve_upper (transpose (cholesky_factor a)) (transpose x)": np.linalg.solve(factor.T, X.T),
        "solve_factored (cholesky_factor a) [3, 1]": np.linalg.solve(A, [3, 1]),
        "log_det_factor (cholesky_factor a)": np.log(np.linalg.det(A)),
        "matrix_of_rows [column x 0, column x 1]": X.T,
        "scale_rows [2, 3] a": np.diag([2, 3]) @ A,
        "outer [1, 2] [3, 4, 5]": np.outer([1, 2], [3, 4, 5]),
        "matrix_map2 (fn p q -> p * q) a (identity 2)": A * np.eye(2),
        "diagonal_matrix (diagonal a)": np.diag(np.diag(A)),
        "matrix 2 3 (fn i j -> float (i + 10 * j))": np.add.outer([0, 1], [0, 10, 20]),
        "row x 1": X[1],
    }
    text = "(" + ", ".join(cases) + ")"
    for found, (name, expected) in zip(value(text), cases.items(), strict=True):
        assert np.allclose(found, expected, rtol=1e-14), name


def test_matrices_are_values() -> None:
    assert value("let f m = (m == transpose m, rows m) in (f a, f x, [a, a].[1] == a)") == (
        (True, 2), (False, 3), True,
    )  # fmt: skip
    assert value("let f = mem (fn m -> sample (normal (entry m 0 1) 1)) in f a == f a") is True


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("x @ [1, 2, 3]", "not as many rows as it has columns"),
        ("a + a", "matrix_map2"),
        ("a @ [true]", "wrong type"),
        ("a @ 1", "`matrix` or `vector`"),
        ("cholesky_factor x", "as many rows as columns"),
        ("matrix_of 2 2 [1.0]", "rows times columns"),
        ("matrix_of 4294967296 4294967296 []", "rows times columns"),
        ("entry a 0 2", "index out of range"),
        ("solve_lower a [1.0]", "as many rows as the left side"),
    ],
)
def test_what_does_not_fit_is_said(expression: str, message: str) -> None:
    with pytest.raises(FunctionalError) as caught:
        value(expression)
    assert message in caught.value.render()
    assert "^" in caught.value.render()


def test_an_input_has_two_dimensions() -> None:
    model = cuppl.model("input x : matrix\ndef main () = rows x")
    with pytest.raises(FunctionalError, match="doesn't fit"):
        model.importance(4, data={"x": [1.0, 2.0]})
    assert model.importance(4, data={"x": [[1, 2]]}).values == [1] * 4


def test_an_input_that_nothing_reads_may_be_given() -> None:
    model = cuppl.model("input x : float\ninput unused : vector[float]\ndef main () = x")
    assert model.importance(4, data={"x": 2.0, "unused": [1.0]}).values == [2.0] * 4
    with pytest.raises(FunctionalError, match="no input `other`"):
        model.importance(4, data={"x": 2.0, "other": 1.0})
