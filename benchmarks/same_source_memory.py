"""Kernels without products in the forms of engines, at the sizes of models."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from same_source_case import Case, empty, random
from same_source_suite import BF16, F32, all_sizes, device, form, up, warps


def rms_norm_rows(rows: int, n: int) -> Case:
    """Rows of bf16, Gemma's offset."""
    x, w = random(rows, n, dtype=BF16), random(n, dtype=BF16)
    y, rstd = torch.empty_like(x), empty(rows, dtype=F32)
    block = 1 << (n - 1).bit_length()

    def exact() -> torch.Tensor:
        v = x.double()
        return v * torch.rsqrt((v * v).mean(1, keepdim=True) + 1e-6) * (1 + w.double())

    return form("rows.rms_norm_rows", "memory", {"rows": rows, "n": n}, lambda c: (rows,),
                [x, w, y, rstd, n, 1e-6], y, warps(4, 8, 16, OFFSET=1.0, BLOCK=block), exact,
                tolerance=1e-2, bytes=4 * rows * n)  # fmt: skip


def layer_norm_forward(rows: int, n: int) -> Case:
    """Three passes over a row, in blocks."""
    x, w, b = random(rows, n), random(n, dtype=F32), random(n, dtype=F32)
    y, mean, rstd = torch.empty_like(x), empty(rows, dtype=F32), empty(rows, dtype=F32)
    configs = [{"BLOCK": k, "num_warps": w_} for k, w_ in ((1024, 4), (2048, 8), (4096, 8))]
    return form("rows.layer_norm_forward", "memory", {"rows": rows, "n": n}, lambda c: (rows,),
                [x, y, w, b, mean, rstd, n, n, 1e-5], y, configs,
                lambda: torch.layer_norm(x.double(), (n,), w.double(), b.double(), 1e-5),
                bytes=4 * rows * n)  # fmt: skip


def kl_rows(rows: int, n: int) -> Case:
    """Divergence of rows of f32 from logarithms."""
    p, q = torch.softmax(random(rows, n, dtype=F32), -1), random(rows, n, dtype=F32)
    loss = empty(rows, dtype=F32)
    configs = [{"BLOCK": b, "MEAN": True, "num_warps": w}
               for b, w in ((2048, 8), (4096, 8), (8192, 16))]  # fmt: skip
    return form("rows.kl_rows", "memory", {"rows": rows, "n": n}, lambda c: (rows,),
                [p, q, loss, n, n], loss, configs,
                lambda: (p.double() * (p.double().log() - q.double())).sum(1) / n,
                bytes=8 * rows * n)  # fmt: skip


def tanh_gelu(rows: int, n: int) -> Case:
    """GEGLU by rows."""
    a, b = random(rows, n), random(rows, n)
    out = torch.empty_like(a)
    gelu = partial(torch.nn.functional.gelu, approximate="tanh")
    return form("training.tanh_gelu", "memory", {"rows": rows, "n": n}, lambda c: (rows,),
                [a, b, out, n], out, warps(4, 8, 16, n=n, BLOCK=1 << (n - 1).bit_length()),
                lambda: gelu(a.double()) * b.double(), bytes=6 * rows * n)  # fmt: skip


def conv1d_causal(rows: int, d: int) -> Case:
    """Four taps and SiLU, as before a state-space layer."""
    x, w, b = random(rows, d), random(d, 4, dtype=F32), random(d, dtype=F32)
    y = torch.empty_like(x)
    configs = [{"KERNEL": 4, "BT": t, "BD": k, "num_warps": 4}
               for t, k in ((16, 128), (32, 64), (8, 256))]  # fmt: skip

    def exact() -> torch.Tensor:
        wide = torch.nn.functional.pad(x.double(), (0, 0, 3, 0))
        s = sum(wide[i : i + rows] * w[:, i].double() for i in range(4)) + b.double()
        return s * torch.sigmoid(s)

    return form("pointwise.conv1d_causal", "memory", {"rows": rows, "d": d},
                lambda c: (*up(rows, c["BT"]), *up(d, c["BD"])), [x, w, b, y, rows, d], y, configs,
                exact, bytes=4 * rows * d)  # fmt: skip


def quantise_rows_int8(rows: int, n: int) -> Case:
    """A scale a row; the scales are checked."""
    x = random(rows, n, dtype=BF16)
    q, scales = torch.empty_like(x, dtype=torch.int8), empty(rows, dtype=F32)
    return form("serving.quantise_rows_int8", "memory", {"rows": rows, "n": n}, lambda c: (rows,),
                [x, q, scales, n], scales, warps(4, 8, 16, BLOCK=1 << (n - 1).bit_length()),
                lambda: x.double().abs().amax(1) / 127, bytes=3 * rows * n)  # fmt: skip


def quantise_groups_fp8(rows: int, n: int) -> Case:
    """A scale for 128 elements; the scales are checked."""
    x = random(rows, n, dtype=BF16)
    q = torch.empty_like(x, dtype=torch.float8_e4m3fn)
    s = empty(rows, n // 128, dtype=F32)
    configs = [{"GROUP": 128, "GROUPS": g, "UE8M0": False, "num_warps": w}
               for g, w in ((8, 4), (16, 4), (32, 8))]  # fmt: skip
    return form("serving.quantise_groups_fp8", "memory", {"rows": rows, "n": n},
                lambda c: (rows, -(-n // (128 * c["GROUPS"]))),
                [x, q, s, n, n, 1e-10, -448.0, 448.0], s, configs,
                lambda: x.double().view(rows, -1, 128).abs().amax(-1) / 448,
                bytes=3 * rows * n)  # fmt: skip


def top_k_gating(rows: int, experts: int, k: int) -> Case:
    """Weights of the chosen experts."""
    logits = random(rows, experts, dtype=BF16)
    weights, ids = empty(rows, k, dtype=F32), empty(rows, k).to(torch.int32)

    def exact() -> torch.Tensor:
        p = torch.softmax(logits.double(), -1).topk(k, -1).values
        return p / p.sum(1, keepdim=True)

    block = 1 << (experts - 1).bit_length()
    return form("serving.top_k_gating", "memory", {"rows": rows, "experts": experts, "k": k},
                lambda c: (rows,), [logits, weights, ids, experts], weights,
                warps(1, 2, 4, K=k, BLOCK=block, RENORM=True), exact,
                bytes=2 * rows * experts)  # fmt: skip


def gumbel_sample(rows: int, n: int) -> Case:
    """A token of each row of logits, by noise."""
    logits, out = random(rows, n, dtype=F32), torch.zeros(rows, device=device()).long()
    seeds = torch.arange(rows, device=device()) + 11
    configs = [{"BLOCK": b, "num_warps": w} for b, w in ((1024, 4), (2048, 8), (4096, 8))]
    return form("serving.gumbel_sample", "memory", {"rows": rows, "n": n}, lambda c: (rows,),
                [logits, out, seeds, n, 0.8], out, configs, bytes=4 * rows * n)  # fmt: skip


def softmax_of_columns(m: int, n: int) -> Case:
    """Along the first dimension."""
    x, y = random(m, n, dtype=BF16), empty(m, n, dtype=F32)
    configs = [{"BM": a, "BN": b, "num_warps": w} for a, b, w in ((16, 128, 4), (32, 64, 4),
                                                                  (64, 64, 8))]  # fmt: skip
    return form("norms.softmax_of_columns", "memory", {"m": m, "n": n},
                lambda c: up(n, c["BN"]), [x, y, m, n], y, configs,
                lambda: torch.softmax(x.double(), 0), bytes=6 * m * n)  # fmt: skip


def dequantise_e5m2(m: int, n: int) -> Case:
    """fp8 by blocks of 64 to bf16."""
    q = random(m, n, dtype=F32).clamp(-4, 4).to(torch.float8_e5m2)
    s, y = torch.rand(m // 64, n // 64, device=device()), empty(m, n).to(BF16)
    return form("serving.dequantise_e5m2", "memory", {"m": m, "n": n},
                lambda c: (m // 64, n // 64), [q, s, y, m, n], y, warps(4, 8, BLOCK=64),
                lambda: q.double() * s.double().repeat_interleave(64, 0).repeat_interleave(64, 1),
                tolerance=1e-2, bytes=3 * m * n)  # fmt: skip


def transpose_tiles(m: int, n: int) -> Case:
    """A transpose in tiles."""
    x, y = random(m, n, dtype=F32), empty(n, m, dtype=F32)
    configs = [{"BM": b, "BN": b, "num_warps": w} for b, w in ((32, 4), (64, 4), (64, 8))]
    return form("pointwise.transpose_tiles", "memory", {"m": m, "n": n},
                lambda c: (*up(m, c["BM"]), *up(n, c["BN"])), [x, y, m, n], y, configs,
                lambda: x.double().T, bytes=8 * m * n)  # fmt: skip


def matrix_vector(m: int, n: int) -> Case:
    """A decoding step's product."""
    a, x, y = random(m, n), random(n), empty(m, dtype=F32)
    configs = [{"BM": b, "BN": c, "num_warps": w} for b, c, w in ((4, 1024, 4), (16, 256, 4),
                                                                  (8, 1024, 8))]  # fmt: skip
    return form("products.matrix_vector", "memory", {"m": m, "n": n}, lambda c: up(m, c["BM"]),
                [a, x, y, m, n], y, configs, lambda: a.double() @ x.double(),
                tolerance=1e-2, bytes=2 * m * n)  # fmt: skip


def softmax_grad(rows: int, n: int) -> Case:
    """Backward of softmax, in blocks of a row."""
    dy, y = random(rows, n, dtype=BF16), torch.softmax(random(rows, n, dtype=F32), -1).to(BF16)
    dx = empty(rows, n, dtype=F32)
    configs = [{"BLOCK": b, "num_warps": w} for b, w in ((1024, 4), (2048, 8), (4096, 8))]

    def exact() -> torch.Tensor:
        g, p = dy.double(), y.double()
        return p * (g - (g * p).sum(1, keepdim=True))

    return form("updates.softmax_grad", "memory", {"rows": rows, "n": n}, lambda c: (rows,),
                [dy, y, dx, n], dx, configs, exact, bytes=8 * rows * n)  # fmt: skip


def cumulate(rows: int, n: int) -> Case:
    """Running sums of rows of f32."""
    x, y = random(rows, n, dtype=F32), empty(rows, n, dtype=F32)
    return form("rows.cumulate", "memory", {"rows": rows, "n": n}, lambda c: (rows,), [x, y, n], y,
                warps(4, 8, 16, BLOCK=1 << (n - 1).bit_length(), REVERSE=False),
                lambda: x.double().cumsum(1), bytes=8 * rows * n)  # fmt: skip


CASES: list[Callable[[], Case]] = [
    *all_sizes(rms_norm_rows, (16384, 1024), (16384, 4096), (8192, 7168)),
    *all_sizes(layer_norm_forward, (16384, 1000), (16384, 4096), (8192, 12288)),
    *all_sizes(kl_rows, (4096, 32000), (2048, 50257), (1024, 128256)),
    *all_sizes(tanh_gelu, (16384, 1408), (8192, 8192), (4096, 14336)),
    *all_sizes(conv1d_causal, (16384, 1024), (65536, 2048), (8192, 5120)),
    *all_sizes(quantise_rows_int8, (16384, 1024), (16384, 4096), (8192, 7168)),
    *all_sizes(quantise_groups_fp8, (16384, 1024), (16384, 4096), (8192, 7168)),
    *all_sizes(top_k_gating, (16384, 64, 4), (65536, 128, 8), (16384, 256, 8)),
    *all_sizes(gumbel_sample, (256, 32000), (512, 50257), (128, 128256)),
    *all_sizes(softmax_of_columns, (4096, 16384), (1024, 65536), (16384, 4096)),
    *all_sizes(dequantise_e5m2, (4096, 4096), (8192, 8192), (16384, 4096)),
    *all_sizes(transpose_tiles, (4096, 4096), (8192, 8192), (16384, 2048)),
    *all_sizes(matrix_vector, (4096, 4096), (16384, 8192), (28672, 4096)),
    *all_sizes(softmax_grad, (16384, 1000), (8192, 4096), (2048, 32000)),
    *all_sizes(cumulate, (16384, 1024), (8192, 4096), (4096, 16384)),
]  # fmt: skip
