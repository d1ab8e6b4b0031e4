"""Points of Triton's semantics that are easy to get wrong, one test each, on values.

Types are compared with Triton's own front end in `test_types.py`; here the numbers count.
"""

from __future__ import annotations

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa import simulate
from tawa.base.numerics import decode, encode, round_to
from tawa.base.types import bf16, e4m3
from tawa.frontend.source.errors import NotSupported, OutOfRange

N = 16
I32 = np.arange(-8, 8, dtype=np.int32)
rng = np.random.default_rng(3)


@pytest.fixture
def evaluate(launch, define, typed):
    """The values of an expression of `x`, `y` (tensors of 16) and `s` (an int32 argument)."""

    def run(expression, x=I32, y=I32, out="int32", s=3, setup="pass"):
        text = (
            "def kernel(xp, yp, op, s, N: tl.constexpr):\n"
            "    i = tl.arange(0, N)\n    x = tl.load(xp + i)\n    y = tl.load(yp + i)\n"
            f"    {setup}\n    r = {expression}\n    tl.store(op + i, r)\n"
        )
        out = typed(np.zeros(N, np.uint16), "bf16") if out == "bf16" else np.zeros(N, out)
        launch(define(text), (1,), x, y, out, s, N=N)
        return getattr(out, "array", out)

    return run


def same(actual, expected):
    np.testing.assert_array_equal(actual, expected)


def test_weak_numbers_keep_the_tensor_s_type_and_strong_scalars_do_not(evaluate):
    x = np.full(N, 200, np.int16)
    same(evaluate("x * 200", x, out="int64"), np.full(N, 40000 - 65536))  # int16 wraps
    same(evaluate("x * s", x, s=200, out="int64"), np.full(N, 40000))  # int32
    half = np.full(N, 2049, np.float16)
    same(evaluate("x + 1.0", half, out="float32"), np.full(N, 2048))  # 2048.0 + 1 in f16
    eps = "eps = 1.0"  # a plain assignment makes a strong f32
    same(evaluate("x + eps", half, out="float32", setup=eps), np.full(N, 2049))
    with pytest.raises(OutOfRange, match="out of range of int16"):
        evaluate("x + 40000", x)


def test_integer_division_truncates_at_run_time_and_floors_at_compile_time(evaluate):
    same(evaluate("x // 2"), np.trunc(I32 / 2).astype(int))
    same(evaluate("x % 3"), np.fmod(I32, 3))
    same(evaluate("x * 0 + -7 // 2"), np.full(N, -4))
    same(evaluate("x * 0 + -7 % 3"), np.full(N, 2))
    same(evaluate("x * 0 + (0 - s) // 2", s=7), np.full(N, -3))
    floats = (I32 / 3).astype(np.float32)
    same(evaluate("x % 1.5", floats, out="float32"), np.fmod(floats, np.float32(1.5)))


def test_division_of_halves_gives_f32(evaluate):
    x = np.full(N, 1, np.float16)
    same(evaluate("x / 3", x, out="float32"), np.full(N, np.float32(1) / np.float32(3)))
    same(evaluate("x / y", out="float32", y=np.full(N, 3, np.int32)),
         (I32.astype(np.float32) / np.float32(3)))  # fmt: skip


def test_shifts_and_comparisons_follow_the_sign(evaluate):
    same(evaluate("x >> 1"), I32 >> 1)
    unsigned = I32.view(np.uint32)
    same(evaluate("x >> 1", unsigned, out="uint32"), unsigned >> 1)
    small, counts = I32.astype(np.int8), np.arange(N, dtype=np.uint32)
    same(evaluate("x >> y", small, counts, out="int64").astype(np.int32), I32 >> counts)
    same(evaluate("y >> x", counts, small.view(np.uint8)), small.view(np.uint8) >> counts)
    same(evaluate("-16 >> y", y=counts.astype(np.int32)), -16 >> np.arange(N))
    same(evaluate("x < 3"), (I32 < 3).astype(np.int32))
    same(evaluate("x < 3", unsigned), (unsigned < 3).astype(np.int32))
    same(evaluate("x << 4"), I32 << 4)


def test_casts_between_numbers(evaluate):
    floats = np.array([-1.9, -0.5, 0.5, 1.9] * 4, np.float32)
    same(evaluate("x", floats), np.trunc(floats).astype(np.int32))
    same(evaluate("(x.to(tl.int1)).to(tl.int32)"), (I32 != 0).astype(np.int32))
    same(evaluate("(x > 0).to(tl.float32)", out="float32"), (I32 > 0).astype(np.float32))
    same(evaluate("x.to(tl.int8)", I32 * 100, out="int64"), (I32 * 100).astype(np.int8))
    same(evaluate("x.to(tl.uint8)", I32, out="int64"), I32.astype(np.uint8))
    same(evaluate("x.to(tl.float32, bitcast=True).to(tl.int32, bitcast=True)"), I32)


def test_extremes_of_bools(evaluate):
    same(
        evaluate("tl.maximum(x > 0, x < -3).to(tl.int32)"),
        ((I32 > 0) | (I32 < -3)).astype(np.int32),
    )
    same(
        evaluate("tl.minimum(x > -3, x < 3).to(tl.int32)"),
        ((I32 > -3) & (I32 < 3)).astype(np.int32),
    )


def test_bools(evaluate):
    mask = I32 > 0
    same(evaluate("~(x > 0)"), (~mask).astype(np.int32))
    same(evaluate("(x > 0) + (x > 3)"), (mask ^ (I32 > 3)).astype(np.int32))
    same(evaluate("(x > 0) * (x > 3)"), (mask & (I32 > 3)).astype(np.int32))
    same(evaluate("x * 0 + tl.sum(x > 0, 0).to(tl.int32)"), np.full(N, mask.sum()))
    same(evaluate("((x > 0) and (x < 5)) or (x == -8)"),
         ((mask & (I32 < 5)) | (I32 == -8)).astype(np.int32))  # fmt: skip
    same(evaluate("not (x > 0)"), (~mask).astype(np.int32))
    flags = np.array([0, 1, 2, 255] * 4, np.uint8).view(np.bool_)
    same(evaluate("x", flags), (flags.view(np.uint8) != 0).astype(np.int32))


def test_nan_loses_in_maximum_unless_asked_to_win(evaluate):
    x = np.where(I32 % 2 == 0, np.nan, I32).astype(np.float32)
    y = np.full(N, 1, np.float32)
    same(evaluate("tl.maximum(x, y)", x, y, out="float32"), np.fmax(x, y))
    all_ = "tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)"
    same(evaluate(all_, x, y, out="float32"), np.maximum(x, y))
    same(evaluate("(x != x)", x), np.isnan(x).astype(np.int32))
    same(evaluate("(x == x)", x), (~np.isnan(x)).astype(np.int32))
    same(evaluate("y * tl.max(x, 0)", x, y, out="float32"), np.full(N, 7))
    same(evaluate("y * tl.argmax(x, 0)", x, y, out="float32"), np.full(N, 15))
    same(evaluate("tl.clamp(x, 0.0, 2.0)", x, y, out="float32"), np.fmin(np.fmax(x, 0), 2))


def test_where_evaluates_both_sides_and_keeps_numbers_weak(evaluate):
    same(evaluate("tl.where(x > 0, x, -1)"), np.where(I32 > 0, I32, -1))
    same(evaluate("tl.where(x > 0, 10 // x, 0)"),
         np.where(I32 > 0, 10 // np.where(I32 > 0, I32, 1), 0))  # fmt: skip


def test_sums_of_halves_round_at_each_step(evaluate):
    x = np.full(N, 2048, np.float16)
    x[0] = 1
    total = evaluate("x * 0 + tl.sum(x, 0)", x, out="float32")[0]
    assert total in (30720, 30752)  # 30721 is no f16 value
    small = np.full(N, 100, np.int8)
    same(evaluate("tl.sum(x, 0) + y * 0", small), np.full(N, 1600))  # in int32


def test_scans(evaluate):
    same(evaluate("tl.cumsum(x, 0)"), np.cumsum(I32))
    same(evaluate("tl.cumsum(x, 0, reverse=True)"), np.cumsum(I32[::-1])[::-1])
    same(evaluate("tl.cumprod(x, 0)", np.full(N, 2, np.int32)), 2 ** np.arange(1, N + 1))


def test_masked_off_elements_are_not_touched_and_read_as_zero(launch, define):
    kernel = define(
        "def kernel(xp, op, n):\n"
        "    i = tl.arange(0, 16)\n"
        "    a = tl.load(xp + i * 1000, mask=i < n)\n"
        "    b = tl.load(xp + i * 1000, mask=i < n, other=-1)\n"
        "    tl.store(op + i, a)\n    tl.store(op + 16 + i, b)\n"
    )
    x, out = np.array([5], np.int32), np.full(32, 9, np.int32)
    launch(kernel, (1,), x, out, 1)
    same(out[:16], [5, *[0] * 15])
    same(out[16:], [5, *[-1] * 15])


def test_offsets_wrap_in_int32_unless_widened(evaluate):
    big = np.full(N, 2**31 - 1, np.int32)
    same(evaluate("x + 1", big, out="int64"), np.full(N, -(2**31)))
    same(evaluate("x.to(tl.int64) + 1", big, out="int64"), np.full(N, 2**31))
    same(evaluate("x * 2", np.full(N, 2**31 + 5, np.uint32), out="int64"), np.full(N, 10))


def test_unsigned_offsets_of_pointers_are_zero_extended(launch, define):
    kernel = define(
        "def kernel(xp, ip, op):\n    i = tl.arange(0, 16)\n"
        "    tl.store(op + i, tl.load(xp + tl.load(ip + i)))\n"
    )
    x = np.arange(256, dtype=np.int32)
    index = np.arange(200, 216, dtype=np.uint8)
    out = np.zeros(16, np.int32)
    launch(kernel, (1,), x, index, out)
    same(out, x[200:216])


def test_narrowing_rounds_to_nearest_even(evaluate):
    x = np.array([1 + 2**-11, 1 + 3 * 2**-11, 65519, 65520, 2**-25, 1e-30] * 3, np.float32)[:N]
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    same(evaluate("x.to(tl.float16)", x, out="float16"), expected)
    rounded = evaluate("x.to(tl.bfloat16)", x, out="bf16")
    same(decode(rounded, bf16), round_to(x, bf16))
    eighth = np.array([0.0, 447, 449, 1000, -1e9, np.nan, 2**-10, 17, 18, 19, 20, 21] + [1] * 4,
                      np.float32)  # fmt: skip
    got = evaluate("x.to(tl.float8e4nv).to(tl.float32)", eighth, out="float32")
    same(got, round_to(eighth, e4m3))
    assert got[2] == got[3] == 448
    assert got[7] == 16  # 17 lies halfway between 16 and 18
    same(encode(got, e4m3)[4], 0xFE)


@pytest.mark.parametrize("kind", [np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_elements_are_exchanged_where_they_are_as_expected(launch, define, kind):
    kernel = define(
        "def kernel(xp, op):\n    i = tl.arange(0, 4)\n"
        "    old = tl.atomic_cas(xp + i, i * 2, i + 100)\n    tl.store(op + i, old)\n"
    )
    x, out = np.array([0, 1, 4, 7], kind), np.zeros(4, kind)
    launch(kernel, (1,), x, out)
    same(x, [100, 1, 102, 7])
    same(out, [0, 1, 4, 7])


def test_elements_of_other_widths_are_not_exchanged(launch, define):
    kernel = define("def kernel(xp):\n    tl.atomic_cas(xp, 0, 1)\n")
    with pytest.raises(NotSupported, match="16, 32 or 64 bits"):
        launch(kernel, (1,), np.zeros(4, np.int8))


def test_atomics_give_the_old_elements(launch, define):
    kernel = define(
        "def kernel(cp, op, fp):\n    i = tl.program_id(0)\n"
        "    old = tl.atomic_add(cp, i + 1)\n    tl.store(op + i, old)\n"
        "    tl.atomic_max(cp + 1, i)\n    tl.atomic_min(cp + 2, -i)\n"
        "    tl.atomic_cas(cp + 3, i, i + 1)\n    tl.atomic_xchg(cp + 4, i)\n"
        "    j = tl.arange(0, 8)\n    tl.atomic_add(fp + j % 2, 0.5, mask=j < 6)\n"
    )
    counters, out = np.zeros(5, np.int32), np.zeros(4, np.int32)
    floats = np.zeros(2, np.float32)
    launch(kernel, (4,), counters, out, floats)
    same(counters, [10, 3, -3, 4, 3])
    same(out, [0, 1, 3, 6])
    same(floats, [6, 6])


def test_shapes_and_indexing(launch, define):
    kernel = define(
        "def kernel(op):\n    a = tl.arange(0, 8)\n"
        "    x = a[:, None] * 10 + tl.arange(0, 4)[None, :]\n"
        "    y = x.T.reshape(8, 4)\n"
        "    z = tl.join(y, -y)\n"
        "    p, m = z.split()\n"
        "    w = tl.permute(z, (2, 0, 1)).ravel()\n"
        "    tl.store(op + tl.arange(0, 64), w)\n"
        "    tl.store(op + 64 + a[:, None] * 4 + tl.arange(0, 4)[None, :], p + m * 2)\n"
    )
    out = np.zeros(96, np.int32)
    launch(kernel, (1,), out)
    x = np.arange(8)[:, None] * 10 + np.arange(4)
    y = x.T.reshape(8, 4)
    same(out[:64], np.stack([y, -y]).ravel())
    same(out[64:], (-y).ravel())


def test_block_pointers(launch, define):
    kernel = define(
        "def kernel(xp, op, M, N, stride):\n"
        "    src = tl.make_block_ptr(xp, (M, N), (stride, 1), (0, 0), (8, 8), (1, 0))\n"
        "    acc = tl.zeros((8, 8), tl.float32)\n"
        "    for j in range(0, tl.cdiv(N, 8)):\n"
        "        acc += tl.load(src, boundary_check=(0, 1), padding_option='zero')\n"
        "        src = tl.advance(src, (0, 8))\n"
        "    dst = tl.make_block_ptr(op, (M, 8), (8, 1), (0, 0), (8, 8), (1, 0))\n"
        "    tl.store(dst, acc, boundary_check=(0,))\n"
    )
    x = rng.standard_normal((5, 19)).astype(np.float32)
    out = np.zeros((5, 8), np.float32)
    launch(kernel, (1,), x, out, 5, 19, 19)
    padded = np.zeros((5, 24), np.float32)
    padded[:, :19] = x
    np.testing.assert_allclose(out, padded.reshape(5, 3, 8).sum(1), rtol=1e-6)


def test_descriptors_clip(launch, define, block):
    kernel = define(
        "def kernel(src, dst, n):\n    x = src.load([n, -4])\n    dst.store([2, 0], x + 1)\n"
    )
    x, out = np.arange(48, dtype=np.float32).reshape(6, 8), np.zeros((6, 8), np.float32)
    launch(kernel, (1,), block(x, 8, 8), block(out, 8, 8), 3)
    expected = np.zeros((6, 8), np.float32)
    shifted = np.zeros((8, 8), np.float32)
    shifted[:3, 4:] = x[3:6, :4]
    expected[2:6] = (shifted + 1)[:4]
    same(out, expected)


def test_random_numbers_are_philox(launch, define):
    """The first words of Philox 4x32-10 for a zero key and counter (Random123's known answers)."""
    kernel = define(
        "def kernel(op):\n    i = tl.arange(0, 8)\n"
        "    a, b, c, d = tl.randint4x(0, i)\n    tl.store(op + i, a)\n    tl.store(op + 8 + i, b)\n"
        "    tl.store(op + 16 + i, c)\n    tl.store(op + 24 + i, d)\n"
    )
    out = np.zeros(32, np.uint32)
    launch(kernel, (1,), out)
    assert [hex(v) for v in out[::8]] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]
    uniform = define("def kernel(op):\n    i = tl.arange(0, 1024)\n"
                     "    tl.store(op + i, tl.rand(7, i))\n    tl.store(op + 1024 + i, tl.randn(7, i))\n")  # fmt: skip
    out = np.zeros(2048, np.float32)
    launch(uniform, (1,), out)
    assert 0 <= out[:1024].min() < 0.02
    assert 0.98 < out[:1024].max() < 1
    assert abs(out[1024:].mean()) < 0.15
    assert abs(out[1024:].std() - 1) < 0.1


def test_combine_functions(launch, define):
    kernel = define(
        "@jit\ndef larger(a, b):\n    return tl.maximum(a, b)\n\n"
        "@jit\ndef plus(a, b):\n    return a + b\n\n"
        "def kernel(xp, op):\n    i = tl.arange(0, 16)\n    x = tl.load(xp + i)\n"
        "    tl.store(op, tl.reduce(x, 0, larger))\n"
        "    tl.store(op + 1, tl.sum(tl.associative_scan(x, 0, plus), 0))\n"
    )
    out = np.zeros(2, np.int32)
    launch(kernel, (1,), I32, out)
    same(out, [7, np.cumsum(I32).sum()])


def test_dtype_predicates_and_builtins(launch, define):
    kernel = define(
        "SCALE = tl.constexpr(3)\n\n"
        "def kernel(xp, op, N: tl.constexpr):\n    i = tl.arange(0, N)\n    x = tl.load(xp + i)\n"
        "    tl.static_assert(xp.dtype.element_ty == tl.float16)\n"
        "    tl.static_assert(xp.dtype.is_ptr() and x.dtype.is_floating())\n"
        "    tl.static_assert(x.dtype.primitive_bitwidth == 16 and x.shape[0] == N)\n"
        "    tl.static_assert(isinstance(N, tl.constexpr) and len(x.shape) == 1, f'bad {N}')\n"
        "    if x.dtype.is_fp16():\n        x = x.to(tl.float32)\n"
        "    y: tl.constexpr = max(N // 4, 2) ** 2\n"
        "    tl.store(op + i, (x * SCALE + y).to(op.dtype.element_ty))\n"
    )
    x, out = np.arange(16, dtype=np.float16), np.zeros(16, np.float32)
    launch(kernel, (1,), x, out, N=16)
    same(out, x.astype(np.float32) * 3 + 16)


def test_tensors_of_sizes_that_are_no_power_of_two(launch, define, block):
    kernel = define(
        "def kernel(src, op):\n    x = src.load([0, 0])\n    acc = tl.zeros((24, 40), tl.float32)\n"
        "    acc = tl.dot(x, x.T, tl.zeros((24, 24), tl.float32))\n"
        "    i = tl.arange(0, 24)\n    tl.store(op + i, tl.sum(acc, 1))\n"
    )
    x = rng.standard_normal((24, 40)).astype(np.float16)
    out = np.zeros(24, np.float32)
    launch(kernel, (1,), block(x, 24, 40), out)
    np.testing.assert_allclose(out, (x.astype(float) @ x.T.astype(float)).sum(1), rtol=1e-2)


def test_tf32_drops_bits_and_ieee_keeps_them(launch, define):
    text = (
        "def kernel(xp, op, PRECISION: tl.constexpr):\n    i = tl.arange(0, 16)\n"
        "    ij = i[:, None] * 16 + i[None, :]\n    x = tl.load(xp + ij)\n"
        "    tl.store(op + ij, tl.dot(x, x, input_precision=PRECISION))\n"
    )
    x = (np.eye(16) * (1 + 2**-12)).astype(np.float32)
    out = np.zeros((16, 16), np.float32)
    launch(define(text), (1,), x, out, PRECISION="tf32")
    same(out, np.eye(16))
    launch(define(text), (1,), x, out, PRECISION="ieee")
    same(out, x @ x)
    assert tl.float32.is_floating()


def test_names_of_earlier_versions(launch, define):
    kernel = define(
        "def kernel(xp, op):\n    i = tl.core.arange(0, 16)\n    x = tl.load(xp + i)\n"
        "    y = tl.math.tanh(x) * tl.float32(2.0)\n"
        "    q = (op.to(tl.int64) + 4).to(tl.pointer_type(tl.float32))\n"
        "    tl.store(q + i, y, mask=(x > 0).logical_and(x < 4).logical_or(x == -1))\n"
    )
    x, out = np.arange(-8, 8, dtype=np.float32), np.zeros(17, np.float32)
    launch(kernel, (1,), x, out)
    stored = ((x > 0) & (x < 4)) | (x == -1)
    np.testing.assert_allclose(out[1:], np.where(stored, np.tanh(x) * 2, 0), rtol=1e-6)


def test_combine_functions_of_several_tensors(launch, define):
    """A running affine map (as in state space models), and the position of a maximum."""
    kernel = define(
        "@jit\ndef compose(a, x, b, y):\n    return a * b, b * x + y\n\n"
        "@jit\ndef later_max(v, i, w, j):\n"
        "    if w > v:\n        best = j\n    else:\n        best = i\n"
        "    return (v if v >= w else w), best\n\n"
        "def kernel(ap, xp, op, ip):\n    i = tl.arange(0, 16)\n"
        "    a = tl.load(ap + i)\n    x = tl.load(xp + i)\n"
        "    _, h = tl.associative_scan((a, x), 0, compose)\n"
        "    tl.store(op + i, h)\n"
        "    best, at = tl.reduce((h, i), 0, later_max)\n"
        "    tl.store(op + 16, best)\n    tl.store(ip, at)\n"
    )
    a, x = rng.random((2, 16)).astype(np.float32)
    out, at = np.zeros(17, np.float32), np.zeros(1, np.int32)
    launch(kernel, (1,), a, x, out, at)
    h, expected = np.float32(0), []
    for decay, value in zip(a, x, strict=True):
        h = decay * h + value
        expected.append(h)
    np.testing.assert_allclose(out[:16], expected, rtol=1e-5)
    assert out[16] == out[:16].max()
    assert at[0] == out[:16].argmax()


def test_numbers_are_strong_where_triton_makes_scalars_of_them(evaluate):
    """A half beside 0.1 is compared in f32: the nearest half is less than 0.1."""
    x = np.resize(np.array([0.1, 0.2, 0.0], np.float16), N)
    wide = x.astype(np.float32)
    same(evaluate("(x < 0.1).to(tl.int32)", x, out="int32"), (wide < np.float32(0.1)) * 1)
    larger = np.maximum(wide, np.float32(0.1))
    same(evaluate("tl.maximum(x, 0.1) * 3", x, out="float32"), larger * np.float32(3))
    small = np.resize(np.array([-100, 100, 7], np.int8), N)
    exact = small.astype(np.int32)
    same(evaluate("tl.minimum(x, 50) * 3", small, out="int32"), np.minimum(exact, 50) * 3)
    same(evaluate("(x < 200).to(tl.int32)", small, out="int32"), np.ones(N, np.int32))
    same(evaluate("x.to(tl.dtype('int16')) * 9", small, out="int32"), exact * 9)
    same(evaluate("tl.fdiv(x, x + x)", x + 1, out="float16"), np.full(N, 0.5, np.float16))


def test_extremes_of_bools_have_positions(evaluate):
    """The first true element, the first false one, and what they are."""
    x = (I32 > -3).astype(np.int32)
    same(evaluate("y * 0 + tl.argmax(x > 0, 0)", x), np.full(N, 6))
    same(evaluate("y * 0 + tl.argmin(x > 0, 0)", x), np.full(N, 0))
    same(evaluate("y * 0 + tl.argmin(x == 0, 0)", x), np.full(N, 6))
    both = "a, b = tl.max(x > 0, 0, return_indices=True)"
    same(evaluate("y * 0 + a * 100 + b", x, setup=both), np.full(N, 106))
    least = "a, b = tl.min(x > -1, 0, return_indices=True)"
    same(evaluate("y * 0 + a * 100 + b", x, setup=least), np.full(N, 100))


@tawa.jit
def first_of_bools(x, out, N: tl.constexpr):
    row = tl.arange(0, 4)
    positive = tl.load(x + row[:, None] * N + tl.arange(0, N)[None, :]) > 0
    most, first = tl.max(positive, 1, return_indices=True)
    tl.store(out + row, first + tl.argmin(positive, 1) * 100 + most.to(tl.int32) * 10000)


def test_extremes_of_bools_are_found_by_instructions() -> None:
    x, out = np.zeros((4, 64), np.float32), np.zeros(4, np.int32)
    x[0, [5, 9]] = x[1, :40] = x[2] = 1
    module = first_of_bools.compile("*f32", "*i32", 64).module("hopper")
    simulate.run(module, (1,), [x, out])
    assert out.tolist() == [10005, 14000, 10000, 0]
