"""Descriptor stores of blocks whose rows lie along any axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.codegen.stores import _pending, chunks  # pyright: ignore[reportPrivateUsage]
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


@pytest.mark.parametrize(
    ("total", "slots"), [(1, 1), (4, 1), (4, 2), (4, 4), (5, 2), (6, 4), (2, 3)]
)
@pytest.mark.parametrize("alike", [True, False])
def test_stores_that_may_still_read(total: int, slots: int, alike: bool):
    """A buffer is written again when the store that read it is done: so many came after that."""
    stored: list[int] = []  # the buffers of stores, in their order
    for tile in range(3):
        for index in range(total):
            buffer = index % slots
            before = stored if alike else stored[len(stored) - index :]
            since = before[::-1].index(buffer) if buffer in before else None
            pending = _pending(index, slots, total, alike)
            if since is not None and (tile or index >= slots):
                assert pending == since
            if not alike and index < slots:
                assert pending == index  # nothing of the tile before is left
            stored.append(buffer)


@pytest.mark.parametrize(
    ("rows", "columns", "width"), [(64, 64, 64), (128, 64, 32), (64, 48, 32), (192, 80, 64)]
)
def test_chunks_are_all_of_a_share(rows: int, columns: int, width: int):
    """With the first register of each: threads have two columns of eight rows in turn."""
    found = chunks(rows, columns, width)
    covered = {(c.row + r, c.column + k) for c in found for r in range(64) for k in range(width)}
    assert covered == {(r, k) for r in range(rows) for k in range(columns)}
    assert [(c.row, c.column) for c in found] == sorted((c.row, c.column) for c in found)
    for c in found:
        assert c.register == (c.row // 64 * columns + c.column) // 2
    assert len(found) == rows // 64 * -(-columns // width)
