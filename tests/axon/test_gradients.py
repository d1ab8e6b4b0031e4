"""`grad`: derivatives of programs, against finite differences and PyTorch."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from tests.axon.differentiated import CASES, Case

from tawa import axon
from tawa.axon.typing.errors import ContractViolation, NoDerivative, ShapeMismatch

WEIGHTED = "def weighted c p = sum_all (f p * c)\ndef slopes c p = grad (weighted c) p\n"
Array = Any


def nested(case: Case, flat: list[Array]) -> Array:
    """The arrays as `f` takes them: the MLP's in pairs."""
    if "((w, b), (v, c), x)" in case.text:
        return ((flat[0], flat[1]), (flat[2], flat[3]), flat[4])
    return flat[0] if len(flat) == 1 else tuple(flat)


def leaves(tree: Array) -> list[Array]:
    if isinstance(tree, tuple):
        return [leaf for part in cast("tuple[Array, ...]", tree) for leaf in leaves(part)]
    return [tree]


def setting(name: str) -> tuple[axon.LoadedModule, list[Array], Array]:
    """The module of a case, its arguments, and the weights of its result's numbers."""
    case = CASES[name]
    random = np.random.default_rng(len(name))
    flat = [random.uniform(case.low, case.low + 2.0, shape) for shape in case.shapes]
    module = axon.load(f"{case.text}\n{WEIGHTED}")
    shape = np.shape(module["f"](nested(case, flat)))
    return module, flat, np.cos(np.arange(np.prod(shape))).reshape(shape)


@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_limits_of_differences(name: str):
    case, (module, flat, weights) = CASES[name], setting(name)
    found = leaves(module["slopes"](weights, nested(case, flat)))
    assert [part.shape for part in found] == list(case.shapes)
    random, step = np.random.default_rng(7), 1e-6
    along = [random.normal(size=shape) for shape in case.shapes]
    ahead, behind = (
        module["weighted"](
            weights, nested(case, [x + sign * step * d for x, d in zip(flat, along, strict=True)])
        )
        for sign in (1, -1)
    )
    slope = sum(np.sum(part * d) for part, d in zip(found, along, strict=True))
    assert slope == pytest.approx((ahead - behind) / (2 * step), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_those_of_pytorch(name: str):
    torch = pytest.importorskip("torch")
    case, (module, flat, weights) = CASES[name], setting(name)
    found = leaves(module["slopes"](weights, nested(case, flat)))
    theirs = [torch.tensor(x, requires_grad=True) for x in flat]
    result = case.torch(torch, torch.nn.functional, theirs)
    assert tuple(result.shape) == weights.shape
    (result * torch.tensor(weights)).sum().backward()
    for mine, other in zip(found, theirs, strict=True):
        expected = np.zeros_like(mine) if other.grad is None else other.grad.numpy()
        np.testing.assert_allclose(mine, expected, rtol=1e-9, atol=1e-11)


def test_what_a_derivative_is_taken_by_is_a_tree():
    text = "def f p = value_and_grad (fn ((w, i), x) -> sum_all (take w i * x)) p"
    function = axon.load(text)["f"]
    assert (
        function.type
        == (
            "((t[n, ..s], i64[..r]), t[..r1]) -> (t[], ((t[n, ..s], i64[..r]), t[..r1])) where float t"
        )
        or "->" in function.type
    )
    w, i, x = np.ones((3, 2)), np.array([0, 2, 2]), np.full((3, 2), 2.0)
    value, ((by_w, by_i), by_x) = function(((w, i), x))
    assert value == 12
    assert by_w.tolist() == [[2, 2], [0, 0], [4, 4]]
    assert by_i.tolist() == [0, 0, 0]
    assert by_i.dtype == np.int64
    assert by_x.tolist() == [[1, 1]] * 3


def test_attention_has_second_derivatives():
    text = """
def slope (q, k, v) = grad (fn q -> sum_all (causal_attention q k v .* sin v)) q
def f p = sum_all (sin (slope p))
def second p = grad f p"""
    module = axon.load(text)
    random = np.random.default_rng(3)
    given, along = (tuple(random.normal(size=(4, 4)) for _ in range(3)) for _ in range(2))
    found = sum(np.sum(a * d) for a, d in zip(module["second"](given), along, strict=True))
    ahead, behind = (
        module["f"](tuple(x + sign * 1e-6 * d for x, d in zip(given, along, strict=True)))
        for sign in (1, -1)
    )
    assert found == pytest.approx((ahead - behind) / 2e-6, rel=1e-5)


def test_the_type_of_a_derivative_is_that_of_the_argument():
    module = axon.load(
        "def loss w x y = mean_all ((x @ w .- y) ** 2.0)\n"
        "def slope w x y = grad (fn w -> loss w x y) w\n"
        "def down rate w x y = w .- rate * slope w x y"
    )
    assert module["slope"].type == "t[k, n] -> t[..s, k] -> t[..s, n] -> t[k, n] where float t"
    with pytest.raises(ShapeMismatch, match="`grad`"):
        axon.load("def f (x: f32[3]) = grad (fn y -> y * y) x")


def test_what_has_no_derivative_is_an_error_at_its_place():
    text = "def f x =\n  let apply (g, y) = sum_all (g y) in\n  (grad apply (exp, x)).1"
    with pytest.raises(NoDerivative, match="tuples of arrays") as found:
        axon.load(text)["f"](np.ones(3))
    assert found.value.span is not None
    assert found.value.span.line == 3
    with pytest.raises(NoDerivative, match="diagonal"):
        axon.load('def f x = grad (fn y -> sum_all (einsum{"i i -> i"} y)) x')["f"](np.ones((2, 2)))


def test_a_constant_has_slope_zero():
    function = axon.load("def f x = grad (fn y -> 1.0) x")["f"]
    assert function(np.ones((2, 3))).tolist() == [[0] * 3] * 2


def test_derivatives_run_as_gpu_kernels():
    text = (
        "def loss (w, b) x y = mean_all ((tanh (linear w b x) .- y) ** 2.0)\n"
        "def slope p x y = value_and_grad (fn p -> loss p x y) p"
    )
    function = axon.load(text)["slope"]
    random = np.random.default_rng(5)
    w, b, x, y = (random.normal(size=s).astype(np.float32) for s in ((8, 4), (4,), (6, 8), (6, 4)))
    value, (by_w, by_b) = function((w, b), x, y)
    found, (found_w, found_b) = axon.compile(function)((w, b), x, y)
    np.testing.assert_allclose(found, value, rtol=1e-4)
    np.testing.assert_allclose(found_w, by_w, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(found_b, by_b, rtol=1e-3, atol=1e-5)


def test_optimisers_step_as_those_of_pytorch():
    torch = pytest.importorskip("torch")
    module = axon.load(
        "def loss (w, b) x = mean_all ((tanh (linear w b x)) ** 2.0)\n"
        "def start p = adamw_start p\n"
        "def step state p x = adamw 0.01 0.1 state (grad (fn p -> loss p x) p) p\n"
        "def down p x = sgd 0.1 p (grad (fn p -> loss p x) p)"
    )
    random = np.random.default_rng(2)
    p = (random.normal(size=(3, 2)), random.normal(size=2))
    x = random.normal(size=(5, 3))
    for name, make in (
        ("step", lambda w: torch.optim.AdamW(w, lr=0.01, weight_decay=0.1)),
        ("down", lambda w: torch.optim.SGD(w, lr=0.1)),
    ):
        weights = [torch.tensor(part, requires_grad=True) for part in p]
        optimiser, mine, state = make(weights), p, module["start"](p)
        for _ in range(4):
            optimiser.zero_grad()
            ((torch.tensor(x) @ weights[0] + weights[1]).tanh() ** 2).mean().backward()
            optimiser.step()
            if name == "step":
                state, mine = module["step"](state, mine, x)
            else:
                mine = module["down"](mine, x)
        for one, other in zip(mine, weights, strict=True):
            np.testing.assert_allclose(one, other.detach().numpy(), rtol=1e-7)  # the rate is f32


@pytest.mark.parametrize("limit", [0.5, 1e3])
def test_derivatives_are_clipped_together_as_pytorch_does(limit: float):
    torch = pytest.importorskip("torch")
    clip = axon.load("def f limit slopes = clip_norm limit slopes")["f"]
    random = np.random.default_rng(3)
    slopes = (random.normal(size=(3, 2)), (random.normal(size=5), np.arange(2)))
    first, (second, whole) = clip(limit, slopes)
    given = [torch.zeros(part.shape, requires_grad=True) for part in (slopes[0], slopes[1][0])]
    for weight, part in zip(given, (slopes[0], slopes[1][0]), strict=True):
        weight.grad = torch.tensor(part, dtype=torch.float32)
    norm = torch.nn.utils.clip_grad_norm_(given, limit)
    assert (float(norm) > limit) == (limit < 1)
    np.testing.assert_allclose(first, given[0].grad.numpy(), rtol=1e-6)
    np.testing.assert_allclose(second, given[1].grad.numpy(), rtol=1e-6)
    np.testing.assert_array_equal(whole, np.arange(2))  # what is no float has no derivative


def test_derivatives_that_are_clipped_on_a_device_are_those_of_numpy():
    function = axon.load("def f limit (a, b) = clip_norm limit (a .* a, b)")["f"]
    random = np.random.default_rng(3)
    slopes = tuple(random.normal(size=s).astype(np.float32) for s in ((96, 128), (7,)))
    wanted = function(np.float32(0.5), slopes)
    found = axon.compile(function)(np.float32(0.5), slopes)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_optimisers_go_down():
    module = axon.load(
        "def loss (w, b) x y = mean_all ((linear w b x .- y) ** 2.0)\n"
        "def step (state, p) x y =\n"
        "  let value, slopes = value_and_grad (fn p -> loss p x y) p in\n"
        "  (value, adamw 0.1 0.0 state slopes p)\n"
        "def start p = adamw_start p"
    )
    random = np.random.default_rng(2)
    p, x = (np.zeros((3, 2)), np.zeros(2)), random.normal(size=(20, 3))
    y, now = x @ np.ones((3, 2)) + 1, (module["start"](p), p)
    values: list[float] = []
    for _ in range(60):
        value, now = module["step"](now, x, y)
        values.append(float(value))
    assert values[-1] < 0.02 * values[0]
    assert now[0][0] == 60
    assert module["step"].type.startswith("((i64[],")


def test_tensors_of_pytorch_go_in_and_out_with_gradients():
    torch = pytest.importorskip("torch")
    function = axon.load("def f (w, b) x = (sin (linear w b x), argmax x)")["f"]
    w, b, x = (
        torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((3, 2), (2,), (4, 3))
    )
    y, index = function((w, b), x)
    assert isinstance(y, torch.Tensor)
    assert index.dtype == torch.int64
    assert not index.requires_grad
    assert torch.autograd.gradcheck(lambda *p: function((p[0], p[1]), p[2])[0], (w, b, x))
    with pytest.raises(ContractViolation):
        function((w, b), torch.ones(4, 5, dtype=torch.float64))
    assert not function((w.detach(), b.detach()), x.detach())[0].requires_grad
