"""L2 is asked for what a later tile loads, once a tile, at the right place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import scf

import tawa
import tawa.language as tl
from tawa.aref.ops import Create, Fetch, LoadInto, WarpGroup
from tawa.compiled import Compiled
from tawa.hopper.ops.memory import TmaLoad, TmaPrefetch
from tawa.simulate.check import check


@tawa.jit
def rows_times_weights(x: Any, w: Any, y: Any, turns: Any, K: tl.constexpr):
    """Rows stay for a tile, blocks of weights pass by."""
    row = tl.program_id(0) * 64
    rows = x.load([row, 0])
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, turns):
        acc += tl.maximum(tl.dot(rows, w.load([k * 64, 0]).T), 0.0)
    y.store([row, 0], acc.to(tl.float16))


def compiled(width: int, **options: Any) -> Compiled:
    types = [f"desc<f16,64x{width}>", f"desc<f16,64x{width}>", "desc<f16,64x64>", "i32"]
    return rows_times_weights.compile(*types, width, **options)


def loading(found: Compiled, level: str) -> Any:
    """The loading role's ops of the loop over tiles."""
    groups = [op for op in found.module(level).walk() if isinstance(op, WarpGroup)]
    (role,) = [group for group in groups if group.single is not None]
    return role


WIDE = {"persistent": True, "num_stages": 1, "overlap": False}
"""Options with which shared memory holds the rows of one tile."""


def test_fetched_once_a_tile() -> None:
    """Before the tile's loop, behind a branch: the last tile has no successor."""
    found = compiled(768, **WIDE)
    role = loading(found, "aref")
    (fetch,) = [op for op in role.walk() if isinstance(op, Fetch)]
    depth = [op.ref.type.depth.data for op in found.module("aref").walk() if isinstance(op, Create)]
    assert depth[0] == 1
    branch = fetch.parent_op()
    assert isinstance(branch, scf.IfOp)
    assert isinstance(branch.parent_op(), scf.ForOp)
    loads = [op for op in role.walk() if isinstance(op, LoadInto) and op.desc is fetch.desc]
    assert len(loads) == 1
    assert any("fetch-ahead" in line for line in found.remarks)
    hopper = found.module("hopper")
    boxes = [op for op in hopper.walk() if isinstance(op, TmaPrefetch)]
    copies = [op for op in hopper.walk() if isinstance(op, TmaLoad)]
    assert len(boxes) == sum(op.map is boxes[0].map for op in copies) > 1


@pytest.mark.parametrize("options", [{}, {"persistent": True, "num_stages": 2}])
def test_not_where_the_load_itself_can_run_ahead(options: dict[str, Any]) -> None:
    """One tile a program; or slots for the rows of two tiles."""
    role = loading(compiled(64, **options), "aref")
    assert not any(isinstance(op, Fetch) for op in role.walk())


def test_results_are_the_same() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((256, 768)).astype(np.float16) / 8 for _ in range(2))
    y = np.full((256, 64), np.nan, np.float16)
    describe = tawa.TensorDescriptor.from_tensor
    described = [describe(x, [64, 768]), describe(w, [64, 768]), describe(y, [64, 64])]
    report = check(compiled(768, **WIDE).module("hopper"), (4,), [*described, 4], multiprocessors=2)
    assert report.proved
    products = np.maximum(x.astype(np.float32) @ w.T.astype(np.float32), 0)
    np.testing.assert_allclose(y, products.reshape(256, 4, 64).sum(1), 1e-2, 1e-2)
