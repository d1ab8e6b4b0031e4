"""Descriptor stores of blocks whose rows lie along any axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.simulate.interpret.hopper import run


@tawa.jit
def scores(q_desc: Any, k_desc: Any, o_desc: Any, HEADS_LAST: tl.constexpr, ROWS: tl.constexpr):
    """Products of the rows of two tensors, head by head."""
    start = tl.program_id(0) * ROWS
    head = tl.program_id(1)
    q = q_desc.load([0, start, head, 0] if HEADS_LAST else [0, head, start, 0])
    k = k_desc.load([0, 0, head, 0] if HEADS_LAST else [0, head, 0, 0])
    found = tl.dot(q.reshape(ROWS, 64), k.reshape(64, 64).T).to(tl.float16)
    if HEADS_LAST:
        o_desc.store([0, start, head, 0], found.reshape(1, ROWS, 1, 64))
    else:
        o_desc.store([0, head, start, 0], found.reshape(1, 1, ROWS, 64))


@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize("heads_last", [True, False])
def test_rows_along_any_axis(heads_last: bool, rows: int):
    """[1, rows, 1, 64] and [1, 1, rows, 64] store the same numbers."""
    random = np.random.default_rng(0)
    q = random.standard_normal((1, 256, 2, 64)).astype(np.float16)
    k = random.standard_normal((1, 64, 2, 64)).astype(np.float16)
    exact = np.einsum("bmhd,bnhd->bmhn", q.astype(float), k.astype(float))
    blocks = [[1, rows, 1, 64], [1, 64, 1, 64], [1, rows, 1, 64]]
    if not heads_last:
        q, k, exact = (np.ascontiguousarray(x.swapaxes(1, 2)) for x in (q, k, exact))
        blocks = [[1, b[2], b[1], b[3]] for b in blocks]
    out = np.full(exact.shape, np.nan, np.float16)
    types = [f"desc<f16,{'x'.join(map(str, b))}>" for b in blocks]
    compiled = scores.compile(*types, heads_last, rows)
    describe = tawa.TensorDescriptor.from_tensor
    arrays = [describe(x, b) for x, b in zip((q, k, out), blocks, strict=True)]
    run(compiled.module("hopper"), (256 // rows, 2), arrays)
    np.testing.assert_allclose(out, exact, rtol=1e-2, atol=2e-2)
