"""Products that add up in f16: by the instructions that do, at every level, with few conversions."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from simulation import Arrays, check

import tawa
import tawa.language as tl
from tawa.base.numerics import decode
from tawa.base.types import NAMES


@tawa.jit
def sums(
    a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, INTO: tl.constexpr
):  # fmt: skip
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float16)
    for first in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + first + k[None, :])
        y = tl.load(b + (first + k)[:, None] * N + n[None, :])
        if INTO:
            acc = tl.dot(x, y, acc, out_dtype=tl.float16)
        else:
            acc += tl.dot(x, y, out_dtype=tl.float16)
    tl.store(c + m[:, None] * N + n[None, :], acc)


def ran(sizes: tuple[int, int, int, int], element: str, into: bool, **options: Any) -> str:
    """The PTX, once it is right at every level."""
    m, n, step, inner = sizes
    arrays = Arrays()
    a, b, c = (
        arrays.random(element, m, inner), arrays.random(element, inner, n),
        arrays.output("f16", m, n),
    )  # fmt: skip
    left, right = (decode(np.asarray(x), NAMES[element]).astype(np.float64) for x in (a, b))
    compiled = check(
        sums, (1,), (a, b, c, inner), {2: left @ right}, 4e-3, ["tile", "aref", "hopper", "ptx"],
        M=m, N=n, BK=step, INTO=into, **options,
    )  # fmt: skip
    return compiled.stages["ptx"]


@pytest.mark.parametrize("into", [True, False])
@pytest.mark.parametrize(
    ("sizes", "element", "options"),
    [
        ((128, 128, 64, 128), "f16", {}),
        ((128, 64, 64, 192), "f16", {"num_warps": 8}),
        ((64, 256, 32, 64), "f16", {"specialize": False}),
        ((128, 64, 64, 128), "e4m3", {}),
    ],
)
def test_warp_groups_add_up_in_f16(sizes: Any, element: str, options: Any, into: bool) -> None:
    ptx = ran(sizes, element, into, **options)
    kinds = set(re.findall(r"wgmma\.mma_async\S*?k\d+\.(\S+)", ptx))
    assert kinds == {f"f16.{element}.{element}"}
    assert "cvt.rn.f16" not in ptx


@pytest.mark.parametrize("into", [True, False])
@pytest.mark.parametrize(
    ("sizes", "element"),
    [((16, 16, 16, 32), "f16"), ((32, 64, 32, 96), "f16"), ((16, 8, 64, 256), "f16"),
     ((16, 32, 32, 64), "e5m2")],
)  # fmt: skip
def test_warps_add_up_in_f16(sizes: Any, element: str, into: bool) -> None:
    ptx = ran(sizes, element, into)
    assert set(re.findall(r"mma\.sync\.\S*col\.(\S+)", ptx)) == {"f16.f16.f16.f16"}


@tawa.jit
def of_large_tiles(a_desc, b_desc, c_desc, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    i, j = tl.program_id(0), tl.program_id(1)
    acc = tl.zeros((M, N), tl.float16)
    for k in range(0, K, BK):
        acc = tl.dot(a_desc.load([i * M, k]), b_desc.load([k, j * N]), acc, out_dtype=tl.float16)
    c_desc.store([i * M, j * N], tl.maximum(acc, 0.0))


def test_tiles_that_f32_sums_would_not_fit_in_registers() -> None:
    arrays, tile = Arrays(), tawa.TensorDescriptor.from_tensor
    a, b = arrays.random("f16", 256, 128), arrays.random("f16", 128, 256)
    c = arrays.output("f16", 256, 256)
    expected = np.maximum(np.asarray(a, np.float64) @ np.asarray(b, np.float64), 0)
    args = tile(a, [256, 32]), tile(b, [32, 256]), tile(c, [256, 256]), 128
    levels = ["tile", "hopper", "ptx"]
    given = {"M": 256, "N": 256, "BK": 32}
    compiled = check(of_large_tiles, (1, 1), args, {2: expected}, 4e-3, levels, **given)
    assert "m64n256k16.f16.f16.f16" in compiled.stages["ptx"]
