"""Contracts on Python functions, and what they let through."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tawa import axon
from tawa.axon.errors import ContractViolation, StaticArgumentError
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
