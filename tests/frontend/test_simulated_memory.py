"""The tile-level simulator's memory: what is caught, and how fast a GEMM runs."""

from __future__ import annotations

import numpy as np
import pytest

import tawa.language as tl
from tawa.frontend import lower_to_tile, parse_argument
from tawa.simulate.interpret.memory import IllegalAccess, WrongArrayType
from tawa.simulate.interpret.tile import DeviceAssertion, HostDescriptor, WrongLaunch, run


def compile_kernel(define, body, *signature):
    lines = "\n".join("    " + line for line in body.split("\n"))
    kernel = define(f"def kernel(x, n):\n{lines}\n")
    return lower_to_tile(kernel, [parse_argument(s) for s in signature or ("*f32", "i32")], {})


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("tl.store(x + tl.arange(0, 16), 0.0)", "element 10 of `x`, which has 10"),
        ("y = tl.load(x - 1)\ntl.store(x, y)", "element -1 of `x`"),
        ("y = tl.load(x + n * 1000000)\ntl.store(x, y)", "element 3000000 of `x`"),
        ("p = (x.to(tl.int64) + 2).to(x.dtype)\ntl.store(p, 1.0)", "element 0 of `x`"),
    ],
)
def test_accesses_outside_are_found_with_their_line(define, body, found):
    module = compile_kernel(define, body)
    with pytest.raises(IllegalAccess) as caught:
        run(module, (1,), [np.zeros(10, np.float32), 3])
    assert found in caught.value.found
    assert caught.value.span.line in (2, 3)
    assert "program [0, 0, 0]" in caught.value.message


def test_neighbouring_arrays_are_not_reached(define):
    """An access far beyond one array does not land in another."""
    kernel = define("def kernel(x, y, n):\n    tl.store(x + n, 1.0)\n")
    module = lower_to_tile(kernel, [parse_argument(t) for t in ("*f32", "*f32", "i64")], {})
    for offset in (10, 1 << 20, 1 << 38):
        with pytest.raises(IllegalAccess):
            run(module, (1,), [np.zeros(10, np.float32), np.zeros(10, np.float32), offset])


def test_strided_arrays_are_shared(define):
    kernel = define("def kernel(x, n):\n    i = tl.arange(0, 4)\n    tl.store(x + i * n, i)\n")
    module = lower_to_tile(kernel, [parse_argument("*i32"), parse_argument("i32")], {})
    base = np.zeros((4, 6), np.int32)
    run(module, (1,), [base[:, 2], 6])
    np.testing.assert_array_equal(base[:, 2], [0, 1, 2, 3])
    assert base.sum() == 6


def test_wrong_launches(define):
    module = compile_kernel(define, "tl.store(x, n)")
    with pytest.raises(WrongLaunch):
        run(module, (1,), [np.zeros(4, np.float32)])
    with pytest.raises(WrongLaunch):
        run(module, (1,), [[1.0], 3])
    with pytest.raises(WrongArrayType):
        run(module, (1,), [np.zeros(4, np.float64), 3])
    with pytest.raises(WrongLaunch, match="no function"):
        run(module, (1,), [np.zeros(4, np.float32), 3], kernel="other")


def test_device_assertions(define):
    body = 'i = tl.arange(0, 8)\ntl.device_assert(i < n, "too far")\ntl.store(x, 0.0)'
    module = compile_kernel(define, body)
    run(module, (1,), [np.zeros(4, np.float32), 8])
    with pytest.raises(DeviceAssertion, match="too far") as caught:
        run(module, (2,), [np.zeros(4, np.float32), 5])
    assert "element [5]" in caught.value.found


def test_prints(define, capsys):
    module = compile_kernel(define, 'tl.device_print("n is", n)\ntl.store(x, 0.0)')
    run(module, (2,), [np.zeros(4, np.float32), 5])
    assert capsys.readouterr().out == "program [0, 0, 0]: n is 5\nprogram [1, 0, 0]: n is 5\n"


def gemm(a_desc, b_desc, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a_desc.load([m, k]), b_desc.load([k, n]), acc)
    c_desc.store([m, n], acc.to(tl.float16))


def test_a_gemm_of_256():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 256, 256)).astype(np.float16)
    c = np.zeros_like(a)
    types = [parse_argument("desc<f16, 64x64>")] * 3 + [parse_argument("i32")]
    module = lower_to_tile(gemm, types, {"BM": 64, "BN": 64, "BK": 64})
    run(module, (4, 4), [*(HostDescriptor.of(x) for x in (a, b, c)), 256])
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert np.linalg.norm(c - expected) < 1e-3 * np.linalg.norm(expected)
