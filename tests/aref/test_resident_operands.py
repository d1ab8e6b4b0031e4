"""Operands that stay in registers through a loop: which, and what they multiply to."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.aref.dialect.ops import DotIssue, ViewRead, ViewType
from tawa.ir.decisions.loops import OperandResident
from tawa.simulate.interpret.hopper import run
from tawa.simulate.interpret.tile import HostDescriptor


@tawa.jit
def weighted(a_desc: Any, b_desc: Any, c_desc: Any, N: Any, ROWS: tl.constexpr, K: tl.constexpr,
             BLOCK: tl.constexpr):  # fmt: skip
    """Row sums of the squares of ROWS rows of A times B, for all N rows of B^T."""
    row = tl.program_id(0) * ROWS
    a = a_desc.load([row, 0])
    first = tl.dot(a, b_desc.load([0, 0]).T)
    acc = first * first
    for start in range(BLOCK, N, BLOCK):
        b = b_desc.load([start, 0])
        product = tl.dot(a, b.T)
        acc += product * product
    c_desc.store([row, 0], acc)


def compiled(element: str, block: int, k: int = 128, rows: int = 128) -> Any:
    types = [f"desc<{element},{rows}x{k}>", f"desc<{element},{block}x{k}>",
             f"desc<f32,{rows}x{block}>", "i32"]  # fmt: skip
    return weighted.compile(*types, ROWS=rows, K=k, BLOCK=block, persistent=True)


def in_registers(kernel: Any) -> list[bool]:
    """Of each product: whether its A operand comes from registers."""
    dots = [op for op in kernel.module("aref").walk() if isinstance(op, DotIssue)]
    return [not isinstance(dot.a.type, ViewType) for dot in dots]


@pytest.mark.parametrize(
    ("element", "block", "k", "held"),
    [("e4m3", 64, 128, True), ("e4m3", 32, 256, True), ("e4m3", 128, 128, False),
     ("f16", 64, 64, False), ("e4m3", 64, 512, False)],
)  # fmt: skip
def test_narrow_products_of_bytes(element: str, block: int, k: int, held: bool) -> None:
    kernel = compiled(element, block, k)
    assert any(in_registers(kernel)) == held
    said = kernel.decided(OperandResident)
    assert bool(said) == held


def launch(module: Any, rows_of_b: int) -> None:
    """Two multiprocessors with two tiles each, compared with float64."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, 128)).astype(ml_dtypes.float8_e4m3fn) for n in (512, rows_of_b))
    c = np.full((512, 64), np.nan, np.float32)
    described = [
        HostDescriptor(x.view(np.uint8) if x.itemsize == 1 else x, x.shape, (x.shape[1], 1))
        for x in (a, b, c)
    ]
    run(module, (4,), [*described, rows_of_b], multiprocessors=2)
    products = a.astype(np.float64) @ b.astype(np.float64).T
    exact = (products.reshape(512, -1, 64) ** 2).sum(1)
    np.testing.assert_allclose(c, exact, rtol=2e-3, atol=1e-3)


def test_the_warps_meet_once_they_have_read() -> None:
    """Else one of them may find the products done, and return the slot, before all have read it."""
    module = compiled("e4m3", 64).module("aref")
    reads = [op for op in module.walk() if isinstance(op, ViewRead)]
    assert [read.meets is not None for read in reads] == [True]


@pytest.mark.parametrize("rows_of_b", [64, 128, 320])
def test_products_are_right(rows_of_b: int) -> None:
    launch(compiled("e4m3", 64).module("hopper"), rows_of_b)
