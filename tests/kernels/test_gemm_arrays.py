"""`matmul` on arrays that lie anyhow: any strides, odd sizes, none at all, batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tawa.driver.jit import Kernel
from tawa.kernels.gemm import Configuration, NothingToAdd, Product, SizesDoNotMatch, matmul
from tawa.kernels.gemm_configurations import few_rows
from tawa.kernels.gemm_operands import matrices, packer
from tawa.kernels.gemm_plans import plan

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((70, 37)).astype(np.float16), RNG.standard_normal((37, 45)).astype("f2")
X, Y = RNG.standard_normal((3, 70, 40)).astype(np.float16), RNG.standard_normal((3, 40, 48)).astype("f2")  # fmt: skip
PERSISTENT = Configuration(64, 32, 16, options={"persistent": True, "ping_pong": True})
SPLIT = Configuration(64, 32, 16, split=2)


def check(result: Any, a: Any, b: Any) -> None:
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert result.shape == exact.shape
    assert np.linalg.norm(result - exact) <= 1e-3 * np.linalg.norm(exact)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (A, B),
        (A[::2], B[:, ::3]),
        (A[::-1], B[:, ::-1]),
        (np.broadcast_to(A[:1], A.shape), B),
        (A.T.copy().T, B.T.copy().T),
        (A[:1], B),
        (A[:, :1], B[:1]),
        (A, B[:, :1]),
        (A[:, 1:], B[1:, 3:]),
    ],
)
def test_any_strides(a: Any, b: Any) -> None:
    check(matmul(a, b), a, b)


@pytest.mark.parametrize("split", [1, 2])
def test_outputs_with_any_strides(split: int) -> None:
    config = Configuration(64, 32, 16, split=split)
    out = np.full((45, 70), np.nan, np.float16).T
    check(matmul(A, B, out, config), A, B)
    wide = np.full((140, 135), np.nan, np.float16)
    check(matmul(A, B, wide[::2, ::3], config), A, B)
    assert np.isnan(wide[1::2]).all()
    assert np.isnan(wide[:, 1::3]).all()
    assert np.isnan(wide[:, 2::3]).all()


def test_no_elements() -> None:
    assert matmul(A[:0], B).shape == (0, 45)
    assert matmul(A, B[:, :0]).shape == (70, 0)
    assert matmul(X[:0], Y[:0]).shape == (0, 70, 48)
    assert (matmul(A[:, :0], B[:0], np.full((70, 45), np.nan, np.float16)) == 0).all()


@pytest.mark.parametrize(
    ("a", "b", "config"),
    [
        (X, Y, None),
        (X, Y, PERSISTENT),
        (X, Y[0], SPLIT),
        (X[0], Y, SPLIT),
        (X[:, :, :37], Y[:, :37, :45], SPLIT),
        (Y.swapaxes(1, 2), X.swapaxes(1, 2), PERSISTENT),
        (X[::2], Y[::-2], None),
    ],
)
def test_batches(a: Any, b: Any, config: Configuration | None) -> None:
    check(matmul(a, b, config=config), a, b)


@pytest.mark.parametrize("copied", [(True, False), (False, True), (True, True)])
def test_operands_that_are_copied_first(copied: tuple[bool, bool]) -> None:
    plain = Configuration(64, 32, 16, group_m=0, copied=copied)
    for a, b in ((A, B), (B.T, A.T)):
        check(matmul(a, b, config=plain), a, b)
    a, b = Y.swapaxes(1, 2), X.swapaxes(1, 2)
    check(matmul(a, b, config=replace(plain, split=2)), a, b)


def test_eight_bits_are_transposed_by_a_copy() -> None:
    a, b = RNG.integers(-9, 9, (2, 3, 136, 136)).astype(np.int8)
    out = np.zeros((3, 136, 136), np.int32)
    config = Configuration(64, 64, 32, group_m=0, copied=(True, True))
    matmul(a.swapaxes(1, 2), b, out, config)
    assert (out == a.swapaxes(1, 2).astype(int) @ b.astype(int)).all()


@pytest.mark.parametrize("along_n", [False, True])
@pytest.mark.parametrize("group_m", [0, 2])
def test_any_order_of_programs(group_m: int, along_n: bool) -> None:
    for options in ({}, {"persistent": True, "ping_pong": True}):
        config = Configuration(64, 16, 16, group_m=group_m, along_n=along_n, options=options)
        check(matmul(A, B, config=config), A, B)


def test_a_batch_is_written_where_it_belongs() -> None:
    wide = np.full((6, 70, 56), np.nan, np.float16)
    check(matmul(X, Y, wide[::2, :, :48]), X, Y)
    assert np.isnan(wide[1::2]).all()
    assert np.isnan(wide[:, :, 48:]).all()


def test_batches_must_match() -> None:
    for a, b in ((X, Y[:2]), (X[None], Y), (X[0, 0], Y)):
        with pytest.raises(SizesDoNotMatch, match="batches"):
            matmul(a, b)


def test_only_what_the_hardware_cannot_copy_is_copied() -> None:
    wide = np.zeros((64, 72), np.float16)
    for kept in (wide, wide.T, wide[:, :37], wide[::2], np.zeros((2, 64, 80), np.int8)):
        assert matrices(kept).lie.describable
    for copied in (wide[:, ::2], wide[::-1], np.zeros((64, 37), np.float16), X[..., :3, ::-1]):
        lying = matrices(copied)
        assert not lying.lie.describable
        assert lying.packed.lie.describable
        assert lying.packed.lie.aligned
        copy = packer(lying)(copied)
        made = np.moveaxis(copy, -1, -2) if lying.by_columns else copy
        assert (made[..., : copied.shape[-2], : copied.shape[-1]] == copied).all()
    assert matrices(wide).lie.storable
    # The copy engine writes whole pieces of 16 bytes.
    assert not matrices(wide[:, :37]).lie.storable
    assert not matrices(wide.T).lie.storable


LEFT, RIGHT = X[0], Y[0]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("a", "b", "config"),
    [
        (A, B, None),
        (LEFT, RIGHT, None),
        (LEFT, RIGHT, SPLIT),
        (X, RIGHT, None),
        (X, Y, PERSISTENT),
    ],
)
def test_scaled_and_added(a: Any, b: Any, config: Configuration | None, turned: bool) -> None:
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bias = RNG.standard_normal(2 * b.shape[-1]).astype(np.float32)[::2]
    held = RNG.standard_normal(exact.shape).astype(np.float16)
    out = held.swapaxes(-1, -2).copy().swapaxes(-1, -2) if turned else held.copy()
    expected = 0.5 * exact + bias - 2.0 * held
    assert matmul(a, b, out, config, bias=bias, alpha=0.5, beta=-2.0) is out
    assert np.linalg.norm(out - expected) <= 1e-3 * np.linalg.norm(expected)
    out[:] = np.nan
    matmul(a, b, out, config, bias=bias)
    assert np.linalg.norm(out - exact - bias) <= 1e-3 * np.linalg.norm(expected)


def test_what_is_added_must_fit() -> None:
    with pytest.raises(SizesDoNotMatch, match="bias"):
        matmul(A, B, bias=np.zeros(44, np.float16))
    with pytest.raises(NothingToAdd):
        matmul(A, B, beta=1.0)


@pytest.mark.parametrize("layout", ["NT", "NN", "TN", "TT"])
def test_small_matrices_that_cannot_be_copied_take_one_kernel(
    layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = A.T.copy().T if layout[0] == "T" else A
    b = B.T.copy().T if layout[1] == "T" else B
    launch, names = Kernel._launch, []

    def launched(self: Kernel, *args: Any, **kwargs: Any) -> Any:
        names.append(self.__name__)
        return launch(self, *args, **kwargs)

    monkeypatch.setattr(Kernel, "_launch", launched)
    monkeypatch.setattr("tawa.kernels.gemm._plans", {})
    check(matmul(a, b), a, b)
    assert names == ["gemm_by_elements"]


def test_arrays_that_lie_alike_share_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def planned(*args: Any) -> Any:
        made.append(args)
        return plan(*args)

    monkeypatch.setattr("tawa.kernels.gemm.plan", planned)
    a, b = RNG.standard_normal((2, 23, 23)).astype(np.float16)
    for _ in range(2):
        check(matmul(a, b), a, b)
        check(matmul(b, a), b, a)
    assert len(made) == 1
    check(matmul(b, a[:, :17]), b, a[:, :17])
    assert len(made) == 2


@pytest.mark.parametrize("m", [1, 16, 17, 32])
def test_few_rows(m: int) -> None:
    a, b = X[0, :m], Y[0]
    for config in few_rows(Product(m, 48, 40)):
        check(matmul(a, b, config=replace(config, block_k=16)), a, b)
    check(matmul(a, b), a, b)
