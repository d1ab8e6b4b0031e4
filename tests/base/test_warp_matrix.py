"""Layouts of products that warps do by themselves: everything is held, and read by who needs it."""

from __future__ import annotations

import numpy as np
import pytest

from tawa.base.types import bf16, e4m3, f16, f32, f64, i8
from tawa.base.warp_matrix import Product

SHAPES = [
    (1, 16, 8, 16), (1, 16, 64, 64), (1, 48, 80, 32), (1, 128, 24, 16), (4, 32, 16, 32),
    (2, 16, 16, 64), (1, 32, 12, 16), (1, 8, 8, 4), (3, 16, 8, 8),
]  # fmt: skip


def product(shape: tuple[int, int, int, int], element, precision: str) -> Product:
    batches, rows, columns, inner = shape
    first = (batches,) if batches > 1 else ()
    return Product.of((*first, rows, inner), (*first, inner, columns), element, precision)


@pytest.mark.parametrize("warps", [1, 2, 4, 8])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("element", "precision"),
    [(f16, "tf32"), (bf16, "tf32"), (e4m3, "tf32"), (i8, "tf32"), (f32, "tf32"), (f32, "tf32x3"),
     (f32, "ieee"), (f64, "tf32")],
)  # fmt: skip
def test_layouts(shape, element, precision: str, warps: int) -> None:
    made = product(shape, element, precision)
    result = made.accumulator(warps)
    assert result.verify() is None
    assert result.warps == warps
    a, b = (made.operand(warps, side) for side in (0, 1))
    assert a.verify() is None
    assert b.verify() is None
    for warp in range(warps):
        part = slice(32 * warp, 32 * warp + 32)
        need, left, right = (layout.coordinates[part] for layout in (result, a, b))
        assert np.isin(need[..., -2], left[..., -2]).all()
        assert np.isin(need[..., -1], right[..., -1]).all()


def test_how_products_are_done() -> None:
    ways = {
        (f16, "tf32", 16): "matrix", (f16, "tf32", 8): "matrix", (f16, "tf32", 4): "scalar",
        (f32, "tf32", 8): "matrix", (f32, "tf32x3", 8): "three", (f32, "ieee", 8): "scalar",
        (f64, "tf32", 16): "scalar", (e4m3, "tf32", 16): "matrix", (i8, "tf32", 16): "matrix",
        (i8, "tf32", 8): "scalar",
    }  # fmt: skip
    found = {key: product((1, 16, 8, key[2]), key[0], key[1]).way for key in ways}
    assert found == ways
