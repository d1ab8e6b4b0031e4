"""Kernels that are assembled more than once, because of what the assembler says."""

from __future__ import annotations

import tawa
import tawa.language as tl


@tawa.jit
def states(x, b, scales, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for i in range(0, K, BK):
        left = tl.load(x + (i + k)[None, :] * M + m[:, None])
        right = tl.load(b + (i + k)[:, None] * N + n[None, :]).to(tl.float32)
        right = (right * tl.exp(tl.load(scales + i + k))[:, None]).to(left.dtype)
        acc = tl.dot(left, right, acc)
    tl.store(out + m[:, None] * N + n[None, :], acc)


POINTERS = "*bf16:16", "*bf16:16", "*f32:16", "*f32:16", "i32:16"
"""What `states` takes."""


@tawa.jit
def many_registers(a, b, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        inside = k0 + k < K
        at = a + m[:, None] * K + (k0 + k)[None, :]
        x = tl.load(at, mask=(m[:, None] < M) & inside[None, :], other=0)
        at = b + n[None, :] * K + (k0 + k)[:, None]
        y = tl.load(at, mask=(n[None, :] < N) & inside[:, None], other=0)
        acc = tl.dot(x, y, acc)
    at = out + m[:, None] * N + n[None, :]
    tl.store(at, acc, mask=(m[:, None] < M) & (n[None, :] < N))


BYTES = "*e4m3:16", "*e4m3:16", "*f32:16", "i32:16", "i32:16", "i32:16"
"""What `many_registers` takes."""
BLOCKS = {"BM": 80, "BN": 128, "BK": 64}
"""With these, persistent, two warps and one stage, it would spill much."""
