"""Contracts on Python functions, and what they let through."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tawa import axon
from tawa.axon.typing.errors import ContractViolation, ShapeMismatch, StaticArgumentError
from tawa.base.errors import TawaError


@axon.contract("f32[..b, i] -> f32[i, h] -> f32[..b, h]")
def layer(x, w):
    return x @ w


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def test_arguments_and_result_are_checked():
    assert layer(ones(2, 5, 3), ones(3, 4)).shape == (2, 5, 4)
    with pytest.raises(ContractViolation, match=r"argument `2` of type f32\[4, 4\]") as raised:
        layer(ones(2, 3), ones(4, 4))
    assert raised.value.expected == "f32[3, h]"
    with pytest.raises(ContractViolation, match="f64"):
        layer(np.ones((2, 3)), ones(3, 4))


def test_a_wrong_result_is_caught():
    @axon.contract("t[n, m] -> t[m, n]")
    def forgets(x):
        return x

    assert forgets(ones(3, 3)).shape == (3, 3)
    with pytest.raises(ContractViolation, match="the result") as raised:
        forgets(ones(2, 3))
    assert raised.value.expected == "f32[3, 2]"


@dataclass
class Tensor:
    """What PyTorch's tensors look like to a contract."""

    shape: tuple[int, ...]
    dtype: str


def test_any_library_with_shape_and_dtype():
    checked = axon.contract("bf16[..b, 2*n] -> (bf16[..b, n], bf16[..b, n])")(
        lambda x: (Tensor((*x.shape[:-1], x.shape[-1] // 2), x.dtype),) * 2
    )
    assert checked(Tensor((4, 6), "torch.bfloat16"))[0].shape == (4, 3)
    with pytest.raises(ContractViolation):
        checked(Tensor((4, 5), "torch.bfloat16"))
    with pytest.raises(ContractViolation, match="not supported"):
        checked(Tensor((4, 6), "torch.complex64"))


def test_two_shape_variables_conditions_and_statics():
    checked = axon.contract("{axis} t[..p, n, ..q] -> t[..p, ..q] where axis splits ..p ..q")(
        lambda x, axis: x.sum(axis)
    )
    assert checked(ones(2, 3, 4), axis=1).shape == (2, 4)
    wrong = axon.contract("{axis} t[..p, n, ..q] -> t[..p, ..q] where axis splits ..p ..q")(
        lambda x, axis: x.sum(0)
    )
    with pytest.raises(ContractViolation, match="the result"):
        wrong(ones(2, 3, 4), axis=1)
    with pytest.raises(StaticArgumentError):
        axon.contract("t[n] -> t[n]").enter((ones(3),), {"axis": 1})


def test_an_inferred_type_is_a_contract_for_another_implementation():
    inferred = axon.load("def f x w b = linear w b (relu x)")["f"]
    mine = inferred.contract(lambda x, w, b: np.maximum(x, 0) @ w + b)
    assert mine(ones(5, 3), ones(3, 4), ones(4)).shape == (5, 4)
    with pytest.raises(ContractViolation, match=r"`f`: argument `b` of type f32\[3\]"):
        mine(ones(5, 3), ones(3, 4), ones(3))


def test_broadcasting_is_a_condition():
    add = axon.contract("t[..s] -> t[..r] -> t[..s & ..r]")(np.add)
    assert add(ones(4, 1, 3), ones(5, 1)).shape == (4, 5, 3)
    with pytest.raises(ContractViolation):
        add(ones(4, 3), ones(5, 3))


def test_a_signature_that_cant_be_read():
    with pytest.raises(TawaError):
        axon.contract("f32[n -> f32")


def test_static_arguments_are_taken_by_what_they_say() -> None:
    """`kv = 2` first: `groups * kv = 4` alone has several solutions."""
    module = axon.load("""
def spread{heads, kv} (y: t[b, c, n, e]) =
  let wide = broadcast{[b, kv, heads/kv, n, _]} (expand{2} y) in
  rearrange{"b h g n e -> b (h g) n e"} wide
""")
    assert module["spread"](np.ones((2, 2, 3, 5)), heads=4, kv=2).shape == (2, 4, 3, 5)
    with pytest.raises(ContractViolation):
        module["spread"](np.ones((2, 2, 3, 5)), heads=5, kv=2)


def test_rests_of_divisions_are_smaller_than_divisors() -> None:
    """What doubles back to an image's size: weights of 2x2, not of 4x4."""
    module = axon.load(
        "def f w v x = concat{axis = 1} x (up{stride = 2} (conv2d{stride = 2, pad = 1} x w) v)"
    )
    weights, image = np.ones((3, 2, 3, 3)), np.ones((1, 2, 8, 8))
    assert module["f"](weights, np.ones((3, 5, 2, 2)), image).shape == (1, 7, 8, 8)
    with pytest.raises(ContractViolation, match="8 is not 10"):
        module["f"](weights, np.ones((3, 5, 4, 4)), image)
    with pytest.raises(ShapeMismatch, match="always larger"):
        axon.load("def f (x: f32[n + 1]) (y: f32[2*(n//2)]) = x .+ y")
