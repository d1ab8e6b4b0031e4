"""Tiles transposed in shared memory: which byte every lane moves, and what conflicts cost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import f32
from xdsl.dialects.test import TestOp as Made
from xdsl.utils.exceptions import VerifyException

from tawa.base.numerics import Array, decode, encode, storage_dtype
from tawa.base.types import byte_size, e4m3, i8
from tawa.codegen.shared_memory import tile_for
from tawa.hopper.dialect.transpose import BLOCK_K, INTERLEAVED, Shares, TransposeTile
from tawa.hopper.dialect.types import TileType
from tawa.machine.chips import H100
from tawa.simulate.timing.work import work_of

BANKS = 32


class Lanes:
    """Actors of a team, one after the other, over one shared memory; counts bank conflicts."""

    def __init__(self, size: int, warps: int) -> None:
        self.memory = np.zeros(size, np.uint8)
        self.threads, self.first_thread = 32 * min(warps, 4), 0
        self.bases: dict[Any, int] = {}
        self.conflicts = 0

    def integer(self, name: Any) -> int:
        """The tiles' addresses."""
        return self.bases[name]

    def shared_load(self, at: Array, element: Any, by: Array | None = None) -> Array:
        """Elements of any addresses."""
        self._count(at)
        at = at if by is None else np.where(by[:, None], at, 0)
        raw = self.memory[at[..., None] + np.arange(byte_size(element))]
        return decode(raw.view(storage_dtype(element))[..., 0], element)

    def shared_store(self, at: Array, values: Array, element: Any, by: Array) -> None:
        """Elements to any addresses."""
        self._count(at)
        stored = np.ascontiguousarray(encode(values[by], element)).view(np.uint8)
        size = byte_size(element)
        self.memory[at[by][..., None] + np.arange(size)] = stored.reshape(*at[by].shape, size)

    def _count(self, at: Array) -> None:
        """An `ldmatrix` or `stmatrix` takes one 8x8 matrix of 16-bit pairs at a time: 128 bytes."""
        if at.shape[1] % 16:
            return
        for warp in at.reshape(-1, 32, at.shape[1] // 4, 4):
            for matrix in warp.swapaxes(0, 1):
                words = np.unique(matrix // 4)
                self.conflicts += int(np.bincount(words % BANKS).max() > 1)


def transposed(
    shape: tuple[int, int], element: Any, *, warps: int = 4, interleaved: bool = False
) -> tuple[Array, Array, Lanes]:
    """Source and target after the op, as rows of bit patterns."""
    source, target = tile_for(shape, element), tile_for(shape[::-1], element)
    op = TransposeTile(*_places(source, target), warps, interleaved=interleaved)
    op.verify()
    lanes = Lanes(source.bytes + target.bytes + 1024, warps)
    start = -(-source.bytes // 1024) * 1024
    lanes.bases = {op.source: 0, op.target: start}
    rng = np.random.default_rng(0)
    pattern = rng.integers(0, 1 << 7, shape).astype(storage_dtype(element))
    at = source.offsets(*np.mgrid[: shape[0], : shape[1]])
    size = byte_size(element)
    lanes.memory[at[..., None] + np.arange(size)] = pattern.view(np.uint8).reshape(*shape, size)
    for first in range(0, 32 * warps, 128):
        lanes.first_thread = first
        op.run(SimpleNamespace(**{n: getattr(lanes, n) for n in (
            "threads", "first_thread", "integer", "shared_load", "shared_store")}))  # fmt: skip
    at = start + target.offsets(*np.mgrid[: shape[1], : shape[0]])
    found = lanes.memory[at[..., None] + np.arange(size)].view(storage_dtype(element))[..., 0]
    return pattern, found, lanes


def _places(source: TileType, target: TileType) -> tuple[Any, Any]:
    return Made(result_types=[source]).res[0], Made(result_types=[target]).res[0]


def interleave(rows: Array) -> Array:
    """The order in which an interleaved tile has rows of K."""
    return rows.reshape(-1, 16, rows.shape[1])[:, list(INTERLEAVED)].reshape(rows.shape)


SHAPES = [(128, 128), (128, 64), (128, 256), (64, 128), (32, 64), (160, 128), (256, 32), (64, 48)]


@pytest.mark.parametrize("warps", [2, 3, 4, 8])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_byte_lands_where_it_belongs(
    shape: tuple[int, int], interleaved: bool, warps: int
) -> None:
    source, target, _ = transposed(shape, i8, warps=warps, interleaved=interleaved)
    wanted = interleave(source) if interleaved else source
    np.testing.assert_array_equal(target, wanted.T)


@pytest.mark.parametrize("shape", [(64, 24), (32, 8), (96, 40)])
@pytest.mark.parametrize("interleaved", [False, True])
def test_other_extents_are_gathered(shape: tuple[int, int], interleaved: bool) -> None:
    source, target, _ = transposed(shape, e4m3, interleaved=interleaved)
    wanted = interleave(source) if interleaved else source
    np.testing.assert_array_equal(target, wanted.T)


@pytest.mark.parametrize("shape", [(32, 64), (64, 32), (8, 24)])
def test_wide_elements_are_gathered(shape: tuple[int, int]) -> None:
    source, target, _ = transposed(shape, f32)
    np.testing.assert_array_equal(target, source.T)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("shape", [(128, 128), (64, 64), (128, 64), (64, 128)])
def test_matrices_lie_in_different_banks(shape: tuple[int, int], interleaved: bool) -> None:
    *_, lanes = transposed(shape, i8, interleaved=interleaved)
    assert lanes.conflicts == 0


@pytest.mark.parametrize("warps", [2, 3, 4, 8])
@pytest.mark.parametrize("rows", [32, 64, 96, 128, 160, 192, 256])
def test_blocks_at_once_differ_in_bits_of_their_places(rows: int, warps: int) -> None:
    """The text adds a block's rows to the place of the first by an exclusive or."""
    shares = Shares.of(rows, 128, warps, 4)
    assert shares is not None
    far, target = BLOCK_K * shares.groups, tile_for((128, rows), i8)
    panel = target.panel_bytes
    for g in range(0, shares.group_steps, shares.at_once[0]):
        for group in range(shares.groups):
            k = group * BLOCK_K + g * far
            for i in range(shares.at_once[0]):
                assert (
                    k % panel ^ i * far % panel
                ) + i * far // panel * panel == k % panel + i * far


def test_an_interleaved_tile_is_what_accumulators_multiply() -> None:
    """Place 4q + i of 16 is column 2q, 2q + 1, 2q + 8, 2q + 9: those of lane q."""
    for q in range(4):
        assert set(INTERLEAVED[4 * q : 4 * q + 4]) == {2 * q, 2 * q + 1, 2 * q + 8, 2 * q + 9}


def test_blocks_cost_less_than_chunks() -> None:
    blocks = TransposeTile(*_places(tile_for((128, 128), i8), tile_for((128, 128), i8)), 4)
    chunks = TransposeTile(*_places(tile_for((128, 40), i8), tile_for((40, 128), i8)), 4)
    fast, slow = work_of(blocks, H100), work_of(chunks, H100)
    assert fast is not None
    assert slow is not None
    assert fast.shared == 2 * 128 * 128 / H100.shared_memory_bytes
    assert fast.issue < slow.issue


def test_tiles_have_to_fit() -> None:
    wrong = TransposeTile(*_places(tile_for((64, 32), i8), tile_for((64, 32), i8)), 4)
    with pytest.raises(VerifyException, match="columns as rows"):
        wrong.verify()
    wide = TransposeTile(
        *_places(tile_for((64, 32), f32), tile_for((32, 64), f32)), 4, interleaved=True
    )
    with pytest.raises(VerifyException, match="8-bit"):
        wide.verify()
