"""Programs of tasks on two GPUs of one host: results, copies of rows, and calls one after the other."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples" / "tasks"))

import devices_tasks as programs
import stencil_devices_tasks as stencil

from tawa.runtime.arrays import view
from tawa.runtime.driver import device_count
from tawa.runtime.peers import Peers, rows_of
from tawa.tasks import Sharded

torch: Any = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(device_count() < 2, reason="needs two GPUs"),
]

SPREAD: dict[str, tuple[tuple[int, int, int], str]] = {
    "sharded_gemm": ((0, 0, 1), "panels"),
    "gather_gemm": ((1, 0, 1), "chunks"),
    "gemm_scatter": ((0, 1, 0), "chunks"),
}
"""The dimensions along which C, A and B are sharded, and what travelling parts are counted by."""


def spread(x: Any, dim: int) -> Sharded:
    """A tensor in halves on two devices."""
    halves = torch.from_numpy(np.ascontiguousarray(x)).chunk(2, dim)
    return Sharded([half.contiguous().to(f"cuda:{d}") for d, half in enumerate(halves)], dim)


def gathered(x: Sharded) -> np.ndarray:
    """A sharded tensor on the host."""
    return torch.cat([shard.cpu() for shard in x.shards], x.dim).double().numpy()


@pytest.mark.parametrize("parts", [2, 8])
@pytest.mark.parametrize("name", SPREAD)
def test_products(name: str, parts: int) -> None:
    (dims, tunable), size = SPREAD[name], 1024
    c, a, b, exact = programs.operands(size, size, size)
    given = [spread(x, dim) for x, dim in zip((c, a, b), dims, strict=True)]
    mapping = programs.on_devices(f"{name}_node", 2, **{tunable: parts})
    getattr(programs, name)(*given, mapping=mapping)
    assert np.abs(gathered(given[0]) - exact).max() < 0.2


@pytest.mark.parametrize("name", SPREAD)
def test_calls_that_follow_each_other(name: str) -> None:
    """Nothing waits between calls: the second reads what the first wrote, ten times."""
    (dims, _), size = SPREAD[name], 512
    _, a, b, _ = programs.operands(size, size, size)
    b = np.eye(size, dtype=np.float16)[:, np.random.default_rng(0).permutation(size)]
    mapping = programs.on_devices(f"{name}_node", 2)
    x, y = a, None
    for _ in range(10):
        result = spread(np.zeros_like(a), dims[0])
        given = spread(x, dims[1]) if y is None else again(y, dims[1])
        getattr(programs, name)(result, given, spread(b, dims[2]), mapping=mapping)
        x, y = (x.astype(np.float64) @ b).astype(np.float16), result
    assert y is not None
    assert np.array_equal(gathered(y), x.astype(np.float64))


def test_a_stencil_of_strips() -> None:
    x = np.random.default_rng(0).standard_normal((256, 192)).astype(np.float32)
    y, other = (spread(np.full_like(x, np.nan), 0) for _ in range(2))
    mapping = programs.on_devices("diffuse_strips_node", 2, edge=16)
    stencil.diffuse_strips(y, spread(x, 0), other, 7, 0.125, mapping=mapping)
    exact = stencil.reference(x.astype(np.float64), 7, 0.125)
    assert np.abs(gathered(y) - exact).max() < 1e-5


def again(x: Sharded, dim: int) -> Sharded:
    """A tensor that was a result, sharded as the next call takes it, without the host."""
    whole = torch.cat([shard.to("cuda:0") for shard in x.shards], x.dim)
    parts = whole.chunk(2, dim)
    return Sharded([part.contiguous().to(f"cuda:{d}") for d, part in enumerate(parts)], dim)


def test_copies_of_rows() -> None:
    """Parts of arrays whose rows are apart, in three dimensions, and the order by events."""
    rng = np.random.default_rng(0)
    source = torch.from_numpy(rng.standard_normal((6, 50, 70)).astype(np.float32)).to("cuda:0")
    target = torch.zeros((8, 40, 33), device="cuda:1")
    part, to = source[1:5, 3:33, 7:38], target[2:6, 4:34, 1:32]
    with Peers(2) as peers:
        peers.copy(rows_of(view(part), view(to)), (0, 0), peers.use(1, copies=True))
    twice = to * 2
    assert torch.equal(to.cpu(), part.cpu())
    assert torch.equal(twice.cpu(), part.cpu() * 2)
    assert not target[:, :, 0].any()
    assert not target[0].any()
