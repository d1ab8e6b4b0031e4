"""Where matrix instructions find their operands, and where threads hold them."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import bf16, f16, f32, i8, i32

from tawa.base.types import byte_size, e4m3
from tawa.simulate.interpret.tensor_core import (
    MatrixDescriptor,
    accumulator_places,
    from_fragment,
    multiply,
    operand_places,
    to_tf32,
)


@pytest.mark.parametrize("element", [f16, f32, e4m3], ids=str)
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_rows_of_operands(element, swizzle: int) -> None:
    """A row's bytes come one after the other, 16 together; swizzles exchange those of 8 rows."""
    size = byte_size(element)
    k, rows = (swizzle or 32) // size, 64
    leading, stride = 128 * rows // 8, (swizzle or 16) * 8
    found = MatrixDescriptor(1024, leading, stride, swizzle).addresses(rows, k, element, False)
    assert len(np.unique(found)) == rows * k
    assert found.min() == 1024
    assert found.max() == 1024 + (rows * k - 1) * size
    for row in range(rows):
        for unit in range(0, k, 16 // size):
            first = found[row, unit]
            assert first % 16 == 0
            assert (
                found[row, unit : unit + 16 // size] == first + size * np.arange(16 // size)
            ).all()
            plain = row // 8 * stride + row % 8 * (swizzle or 16)
            plain += unit * size if swizzle else unit * size // 16 * leading
            line = plain >> 7 & 7
            moved = line & (swizzle // 16 - 1 if swizzle else 0)
            assert first == 1024 + (plain ^ moved << 4)


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_columns_of_operands(swizzle: int) -> None:
    """Where rows are neighbours: blocks of eight of K, each as many rows as a swizzle is wide."""
    k = 16
    across = (swizzle or 16) // 2
    rows = 2 * across
    block = 8 * (swizzle or 16)
    leading, stride = (block * 2, block) if swizzle else (block, block * 2)
    found = MatrixDescriptor(0, leading, stride, swizzle).addresses(rows, k, f16, True)
    assert sorted(found.ravel()) == list(range(0, 2 * rows * k, 2))
    for column in range(k):
        for part in range(0, rows, 8):
            first = found[part, column]
            assert (found[part : part + 8, column] == first + 2 * np.arange(8)).all()
            at = part * 2 // (swizzle or 16), column // 8
            where = at[0] * (leading if swizzle else stride) + at[1] * (
                stride if swizzle else leading
            )
            where += column % 8 * (swizzle or 16) + part * 2 % (swizzle or 16)
            line = where >> 7 & 7
            moved = line & (swizzle // 16 - 1 if swizzle else 0)
            assert first == where ^ moved << 4


@pytest.mark.parametrize(
    ("word", "fields"),
    [
        (0, (0, 0, 0, 0)), (0x3FFF, (0x3FFF0, 0, 0, 0)), (0x4000, (0, 0, 0, 0)),
        (5 << 16, (0, 80, 0, 0)), (7 << 32, (0, 0, 112, 0)), (1 << 62, (0, 0, 0, 128)),
        (2 << 62, (0, 0, 0, 64)), (3 << 62, (0, 0, 0, 32)),
        (9 | 3 << 16 | 2 << 32 | 1 << 62, (144, 48, 32, 128)),
    ],
)  # fmt: skip
def test_fields_of_descriptors(word: int, fields: tuple[int, int, int, int]) -> None:
    found = MatrixDescriptor.decode(word)
    assert (found.start, found.leading, found.stride, found.swizzle) == fields


@pytest.mark.parametrize("n", [8, 16, 256])
def test_accumulators_are_held_once(n: int) -> None:
    """Four warps have 16 rows each; a thread two columns of eight and of the row eight below."""
    row, column = accumulator_places(n)
    assert row.shape == (128, n // 2)
    assert (
        len({*zip(row.ravel(), np.broadcast_to(column, row.shape).ravel(), strict=True)}) == 64 * n
    )
    assert (row // 16 == np.arange(128)[:, None] // 32).all()
    assert row[37, :4].tolist() == [17, 17, 25, 25]
    assert np.broadcast_to(column, row.shape)[37, :6].tolist() == [2, 3, 2, 3, 10, 11][: n // 2]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_operands_in_registers_are_held_once(size: int) -> None:
    """Words of four lanes are a row's first 16 bytes; eight rows below, then 16 bytes further."""
    row, k = operand_places(size)
    per = 4 // size
    assert row.shape == (128, 4 * per)
    assert len({*zip(row.ravel(), k.ravel(), strict=True)}) == 64 * 32 // size
    assert (row[69] == np.repeat([33, 41, 33, 41], per)).all()
    assert (
        k[69].tolist() == [per + i for i in range(per)] * 2 + [5 * per + i for i in range(per)] * 2
    )
    registers = np.arange(128 * 4 * per).reshape(128, 4 * per)
    whole = from_fragment(registers, size)
    assert whole.shape == (64, 32 // size)
    assert (whole[row, k] == registers).all()


def test_products_are_those_of_their_types() -> None:
    rng = np.random.default_rng(0)
    a, b, start = (rng.standard_normal(shape) for shape in ((64, 16), (8, 16), (64, 8)))
    for kind in (f16, bf16):
        found = multiply(a, b, start, (kind, f32))
        np.testing.assert_allclose(found, start + a @ b.T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(multiply(a, b, None, (f16, f32)), a @ b.T, rtol=1e-5, atol=1e-5)
    half = multiply(a, b, start, (f16, f16))
    assert (half == half.astype(np.float16)).all()
    p, q = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((64, 32), (8, 32)))
    exact = p.astype(np.int64) @ q.astype(np.int64).T
    assert (multiply(p, q, None, (i8, i32)) == exact).all()
    assert (multiply(p, q, exact.astype(np.int32), (i8, i32)) == 2 * exact).all()
    short = multiply(a, b, None, (f32, f32))
    np.testing.assert_allclose(short, to_tf32(a) @ to_tf32(b).T, rtol=1e-6, atol=1e-5)
    assert abs(short - a @ b.T).max() > 1e-5


@pytest.mark.parametrize(
    ("value", "kept"),
    [(1.0, 1.0), (1 + 2**-10, 1 + 2**-10), (1 + 2**-11, 1.0), (-1 - 2**-10 - 2**-20, -1 - 2**-10),
     (0.0, 0.0), (2.0**-140, 0.0), (1 + 2**-23, 1.0), (float("inf"), float("inf"))],
)  # fmt: skip
def test_tf32_has_ten_bits_behind_the_point(value: float, kept: float) -> None:
    assert to_tf32(np.array([value]))[0] == np.float32(kept)
