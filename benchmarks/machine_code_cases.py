"""Operators of public packages, at sizes that models have, as `machine_code.py` records them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Operator = Callable[[], Any]


def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """An array of which only the size counts."""
    return torch.zeros(shape, dtype=dtype)


B, T, H, D = 4, 2048, 8, 128


def heads() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, keys and values."""
    return empty(B, T, H, D), empty(B, T, H, D), empty(B, T, H, D)


def chunk_simple_gla() -> Operator:
    from fla.ops.simple_gla import chunk_simple_gla as op

    q, k, v = heads()
    return lambda: op(q, k, v, empty(B, T, H, dtype=torch.float32))


def chunk_gla() -> Operator:
    from fla.ops.gla import chunk_gla as op

    q, k, v = heads()
    return lambda: op(q, k, v, empty(B, T, H, D))


def fused_recurrent_gla() -> Operator:
    from fla.ops.gla import fused_recurrent_gla as op

    q, k, v = heads()
    return lambda: op(q, k, v, empty(B, T, H, D))


def chunk_gated_delta_rule() -> Operator:
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule as op

    q, k, v = heads()
    return lambda: op(q, k, v, empty(B, T, H, dtype=torch.float32), empty(B, T, H))


def chunk_delta_rule() -> Operator:
    from fla.ops.delta_rule import chunk_delta_rule as op

    q, k, v = heads()
    return lambda: op(q, k, v, empty(B, T, H))


def chunk_rwkv6() -> Operator:
    from fla.ops.rwkv6 import chunk_rwkv6 as op

    q, k, v = heads()
    return lambda: op(q, k, v, empty(B, T, H, D), empty(H, D))


def cross_entropy() -> Operator:
    from liger_kernel.ops.cross_entropy import cross_entropy_forward as op

    logits, target = empty(4096, 32000), empty(4096, dtype=torch.int64)
    return lambda: op(logits, target, None, -100, 0.0, 0.0, "mean", None, False)


def dyt() -> Operator:
    from liger_kernel.ops.dyt import liger_dyt_fwd as op

    x, alpha, gamma, beta = empty(8192, 4096), empty(1), empty(4096), empty(4096)
    return lambda: op(x, alpha, gamma, beta)


def rms_norm() -> Operator:
    from liger_kernel.ops.rms_norm import rms_norm_forward as op

    x, w = empty(8192, 4096), empty(4096)
    return lambda: op(x, w, 1e-6, 0.0, "llama", None)


def geglu() -> Operator:
    from liger_kernel.ops.geglu import geglu_forward as op

    a, b = empty(8192, 4096), empty(8192, 4096)
    return lambda: op(a, b)


def jsd() -> Operator:
    from liger_kernel.ops.jsd import jsd_forward as op

    a, b = empty(2048, 32000, dtype=torch.float32), empty(2048, 32000, dtype=torch.float32)
    return lambda: op(a, b, None, 0.5, -100, False)


def rope() -> Operator:
    from liger_kernel.ops.rope import rope_forward as op

    q, k = empty(4, 32, 2048, 128), empty(4, 8, 2048, 128)
    cos, sin = empty(1, 2048, 128), empty(1, 2048, 128)
    return lambda: op(q, k, cos, sin)


OPERATORS = {
    make.__name__: make
    for make in (
        chunk_simple_gla, chunk_gla, fused_recurrent_gla, chunk_gated_delta_rule, chunk_delta_rule,
        chunk_rwkv6, cross_entropy, dyt, rms_norm, geglu, jsd, rope,
    )
}  # fmt: skip
