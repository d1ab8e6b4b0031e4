"""Products of 64 rows whose columns one warp group can not hold: two share the columns."""

from __future__ import annotations

from typing import Any

import numpy as np

import tawa
import tawa.language as tl
from tawa.simulate.interpret import hopper
from tawa.simulate.ptx.launch import run as run_ptx


@tawa.jit
def by_pointers(a, b, c, K, N: tl.constexpr, BK: tl.constexpr):
    rows, columns, ks = tl.arange(0, 64)[:, None], tl.arange(0, N)[None, :], tl.arange(0, BK)
    acc = tl.zeros((64, N), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rows * K + k + ks[None, :])
        y = tl.load(b + (k + ks[:, None]) * N + columns)
        acc = tl.dot(x, y, acc)
    tl.store(c + rows * N + columns, acc)


@tawa.jit
def by_descriptors(a, b, c, K, N: tl.constexpr, BK: tl.constexpr):
    acc = tl.zeros((64, N), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
    top = tl.max(acc, axis=1)[:, None]
    c.store([0, 0], (acc - top).to(tl.float16))


def operands(K: int, N: int) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(0)
    a, b = (random.integers(-2, 3, shape).astype(np.float16) for shape in ((64, K), (K, N)))
    return a, b, a.astype(np.float32) @ b.astype(np.float32)


def check(compiled: tawa.Compiled, values: list[Any], c: Any, expected: Any) -> None:
    text = compiled.stages["cuda"] if "cuda" in compiled.stages else compiled.stages["cu"]
    assert "wgmma" in str(text)
    assert any("2 consumer warp groups" in remark for remark in compiled.remarks)
    hopper.run(compiled.module("hopper"), (1,), values)
    np.testing.assert_array_equal(c, expected)
    c[:] = 0
    run_ptx(str(compiled.stages["ptx"]), compiled.spec, (1,), values)
    np.testing.assert_array_equal(c, expected)


def test_pointers() -> None:
    a, b, expected = operands(32, 512)
    c = np.zeros((64, 512), np.float32)
    check(by_pointers.compile(a, b, c, 32, 512, 16), [a, b, c, 32], c, expected)


def test_descriptors() -> None:
    a, b, product = operands(32, 512)
    c = np.zeros((64, 512), np.float16)
    expected = (product - product.max(axis=1)[:, None]).astype(np.float16)
    tile = tawa.TensorDescriptor.from_tensor
    given = tile(a, [64, 16]), tile(np.ascontiguousarray(b.T), [512, 16]), tile(c, [64, 512])
    check(by_descriptors.compile(*given, 32, 512, 16), [*given, 32], c, expected)
