"""Descriptors of bases and sizes that no host knows, and atomics: tiles of pointers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.base.kernel_spec import TensorMapParam
from tawa.driver.jit import through_pointers
from tawa.frontend.source.errors import TypeMismatch
from tawa.runtime.tensormap import StoreNotAligned, encoder
from tawa.simulate.interpret import aref, hopper, tile

RUNS = {"tile": tile.run, "aref": aref.run, "hopper": hopper.run}


@tawa.jit
def heads(x, o, n, K: tl.constexpr, B: tl.constexpr):
    h = tl.program_id(0)
    source = tl.make_tensor_descriptor(x + h * n * K, [n, K], [K, 1], [B, K])
    target = tl.make_tensor_descriptor(o + h * n * K, [n, K], [K, 1], [B, K])
    for i in range(tl.cdiv(n, B)):
        target.store([i * B, 0], source.load([i * B - 2, 0]) + source.shape[0])


@tawa.jit
def ragged(x, starts, o, K: tl.constexpr, B: tl.constexpr):
    h = tl.program_id(0)
    first = tl.load(starts + h)
    rows = tl.load(starts + h + 1) - first
    source = tl.make_tensor_descriptor(x + first * K, [rows, K], [K, 1], [B, K], "nan")
    i, j = tl.arange(0, B)[:, None], tl.arange(0, K)[None, :]
    tl.store(o + (h * B + i) * K + j, source.load([0, 0]))


@tawa.jit
def products(a, b, o, n, K: tl.constexpr, B: tl.constexpr):
    h = tl.program_id(0)
    left = tl.make_tensor_descriptor(a + h * B * n, [B, n], [n, 1], [B, K])
    right = tl.make_tensor_descriptor(b + h * B * n, [B, n], [n, 1], [B, K])
    total = tl.zeros((B, B), tl.float32)
    for k in range(0, n, K):
        total = tl.dot(left.load([0, k]), right.load([0, k]).T, total)
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    tl.store(o + (h * B + i) * B + j, total)


@tawa.jit
def add_blocks(o, n, K: tl.constexpr, B: tl.constexpr):
    d = tl.make_tensor_descriptor(o, [n, K], [K, 1], [B, K])
    at = [tl.program_id(0) * 4 - 4, 0]
    d.atomic_add(at, tl.full((B, K), 2, tl.int32))
    d.atomic_max([n - 2, 0], tl.full((B, K), 7, tl.int32))


@tawa.jit
def add_to_given(d):
    d.atomic_add([0, 0], tl.full((16, 16), 1.0, tl.float32))


def run(kernel: Any, grid: int, arrays: list[Any], *rest: Any, level: str = "tile") -> None:
    """Run a level of what a kernel compiles to."""
    compiled = kernel.compile(*arrays, *rest)
    values = [*arrays, *rest][: len(compiled.spec.arguments)]
    RUNS[level](compiled.module(level), (grid,), values)


@pytest.mark.parametrize("level", RUNS)
def test_each_program_has_a_descriptor_of_its_own(level: str) -> None:
    x = np.arange(2 * 20 * 32, dtype=np.float32).reshape(2, 20, 32)
    o = np.zeros_like(x)
    run(heads, 2, [x, o], 20, 32, 8, level=level)
    expected = np.concatenate([np.zeros((2, 2, 32)), x[:, :-2]], axis=1) + 20
    np.testing.assert_array_equal(o, expected)


@pytest.mark.parametrize("level", ["tile", "hopper"])
def test_sizes_may_be_loaded(level: str) -> None:
    x = np.random.default_rng(0).standard_normal((20, 16)).astype(np.float32)
    starts = np.array([0, 5, 5, 17], np.int32)
    o = np.zeros((3, 16, 16), np.float32)
    run(ragged, 3, [x, starts, o], 16, 16, level=level)
    for h in range(3):
        rows = starts[h + 1] - starts[h]
        np.testing.assert_array_equal(o[h, :rows], x[starts[h] : starts[h + 1]])
        assert np.isnan(o[h, rows:]).all()


@pytest.mark.parametrize("level", ["tile", "hopper"])
def test_operands_of_products_may_be_of_such_descriptors(level: str) -> None:
    random = np.random.default_rng(1)
    a, b = (random.integers(-3, 4, (2, 64, 128)).astype(np.float16) for _ in range(2))
    o = np.zeros((2, 64, 64), np.float32)
    run(products, 2, [a, b, o], 128, 64, 64, level=level)
    np.testing.assert_array_equal(o, np.einsum("hik,hjk->hij", a.astype(np.float32), b))


@pytest.mark.parametrize("level", ["tile", "hopper"])
def test_atomics_combine_what_lies_inside(level: str) -> None:
    o = np.zeros((10, 16), np.int32)
    run(add_blocks, 3, [o], 10, 16, 8, level=level)
    rows = np.zeros(10, np.int64)
    for program in range(3):
        first = program * 4 - 4
        rows[max(first, 0) : first + 8] += 2
        rows[8:] = np.maximum(rows[8:], 7)
    assert (rows[:8] == o[:8].T).all()
    assert (o[8:] >= 7).all()


@pytest.mark.parametrize("level", ["tile", "hopper"])
def test_descriptors_of_a_launch_have_atomics(level: str) -> None:
    o = np.arange(20 * 24, dtype=np.float32).reshape(20, 24)
    expected = o.copy()
    expected[2:9, :12] += 1
    part = tawa.TensorDescriptor(o[2:, :], [7, 12], [24, 1], [16, 16])
    run(add_to_given, 1, [part], level=level)
    np.testing.assert_array_equal(o, expected)


@tawa.jit
def add_products(a, b, d, c, turns, M: tl.constexpr):
    """Products of a loop, each added to memory, after a block is stored where they begin."""
    first = tl.program_id(0) * 64
    d.store([first - 64, 0], tl.full((128, M), 1.0, tl.float32).to(d.dtype))
    acc = tl.zeros((128, M), tl.float32)
    for k in range(turns):
        tile = b.load([0, k * 64])
        part = tl.dot(a.load([0, k * 64]), tile.T)
        d.atomic_add([first, 0], part.to(d.dtype))
        acc += part
    c.store([0, 0], acc)


@pytest.mark.parametrize("element", ["f32", "f16"])
def test_the_copy_engine_adds_blocks(element: str) -> None:
    random = np.random.default_rng(2)
    dtype = {"f32": np.float32, "f16": np.float16}[element]
    a, b = (random.integers(-2, 3, (rows, 192)).astype(np.float16) for rows in (128, 48))
    d, c = np.zeros((128, 48), dtype), np.zeros((128, 48), np.float32)
    blocks = ([128, 64], [48, 64], [128, 48], [128, 48])
    given = [
        tawa.TensorDescriptor.from_tensor(x, block)
        for x, block in zip((a, b, d, c), blocks, strict=True)
    ]
    compiled = add_products.compile(*given, 3, 48)
    assert "cp.reduce.async.bulk.tensor" in compiled.asm["cu"]
    assert "atomic" not in compiled.asm["cu"]
    hopper.run(compiled.module("hopper"), (1,), [*given, 3])
    expected = a.astype(np.float64) @ b.T.astype(np.float64)
    np.testing.assert_array_equal(c, expected)
    np.testing.assert_array_equal(d, expected + np.arange(128)[:, None].__lt__(64))


@tawa.jit
def add_rows(x, d, B: tl.constexpr):
    """Programs that add to the same rows."""
    block = x.load([tl.program_id(0) * B, 0])
    d.atomic_add([tl.program_id(0) % 2 * (B // 2), 0], block)


@pytest.mark.parametrize("level", ["tile", "hopper"])
def test_programs_add_to_the_same_block(level: str) -> None:
    x = np.random.default_rng(3).integers(-9, 9, (64, 32)).astype(np.int32)
    d = np.zeros((24, 32), np.int32)
    given = [tawa.TensorDescriptor.from_tensor(array, [16, 32]) for array in (x, d)]
    run(add_rows, 4, given, 16, level=level)
    expected = np.zeros_like(d)
    for program in range(4):
        first = program % 2 * 8
        expected[first : first + 16] += x[program * 16 : program * 16 + 16]
    np.testing.assert_array_equal(d, expected)


@tawa.jit
def largest(d, x):
    i, j = tl.arange(0, 8)[:, None], tl.arange(0, 16)[None, :]
    d.atomic_max([0, 0], tl.load(x + i * 16 + j))


def test_extremes_of_halves_are_combined_and_those_of_wider_floats_are_not() -> None:
    x = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float16)
    o = np.zeros((8, 16), np.float16)
    run(largest, 1, [tawa.TensorDescriptor.from_tensor(o, [8, 16]), x], level="hopper")
    np.testing.assert_array_equal(o, np.maximum(x, 0))
    with pytest.raises(TypeMismatch, match="atomic_max"):
        largest.compile("desc<f32,8x16>", "*f32")


@tawa.jit
def double(x, d, n, m, B: tl.constexpr):
    made = tl.make_tensor_descriptor(x, [n, m], [m + 9, 1], [B, B])
    i = tl.program_id(0) * B
    for j in range(0, m, B):
        block = made.load([i, j]) * 2
        made.store([i, j], block)
        d.store([i, j], block + 1)


@pytest.mark.parametrize("level", ["tile", "hopper"])
def test_rows_that_end_inside_a_piece_are_written_through_pointers(level: str) -> None:
    x, y = (np.arange(20 * 32, dtype=np.float32).reshape(20, 32) * k for k in (1, 0))
    expected, other = x.copy(), y.copy()
    expected[:18, :23] *= 2
    other[:18, :23] = expected[:18, :23] + 1
    given = tawa.TensorDescriptor(y, [18, 23], [32, 1], [16, 16])
    compiled = double.compile(x, given, 18, 23, 16, through_pointers=("x", "d"))
    assert "desc_store" not in str(compiled.stages["aref"])
    assert not any(getattr(p, "stored", False) for p in compiled.spec.parameters)
    RUNS[level](compiled.module(level), (2,), [x, given, 18, 23])
    np.testing.assert_array_equal(x, expected)
    np.testing.assert_array_equal(y, other)


def test_a_launch_finds_the_arguments_that_the_engine_can_not_write() -> None:
    parameter = TensorMapParam(0, "f32", (8, 16), stored=True)
    make = encoder(parameter, "d", lambda *_: 0, lambda: 0)
    y = np.zeros((8, 32), np.float32)
    with pytest.raises(StoreNotAligned, match="16 bytes") as found:
        make(256, tawa.TensorDescriptor(y, [8, 23], [32, 1], [8, 16]).geometry)
    assert found.value.argument == "d"
    again = through_pointers({"num_warps": 4}, found.value)
    assert again == {"num_warps": 4, "through_pointers": ("d",)}
    with pytest.raises(StoreNotAligned):
        through_pointers(again, found.value)  # no launch goes on for ever


@tawa.jit
def from_one_way_to_the_other(y, yd, wide, n):
    r, c = tl.arange(0, 4)[:, None], tl.arange(0, 16)[None, :]
    for i in range(n):
        yd.store([i * 4 + 2, 0], tl.load(y + (i * 4 + r) * wide + c))


@pytest.mark.parametrize("through", [(), ("yd",)])
def test_strides_that_the_host_makes_are_no_arguments_of_the_launch(
    through: tuple[str, ...],
) -> None:
    compiled = from_one_way_to_the_other.compile(
        "*f16:16", "desc<f16,4x16>", "i64", "i32", through_pointers=through
    )
    assert compiled.spec.apart == (("y", "yd"),)
    assert compiled.spec.alike == ()
