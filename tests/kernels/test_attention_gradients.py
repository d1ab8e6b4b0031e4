"""Attention's gradients against float64, by NumPy: lengths, windows, dimensions, shared heads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tawa.kernels import attention_gradients as attention_gradients_module
from tawa.kernels.attention import attention
from tawa.kernels.attention_arguments import AttentionSizesDoNotMatch, AttentionTypeNotSupported
from tawa.kernels.attention_gradients import Plan, attention_gradients


def exact(q: Any, k: Any, v: Any, do: Any, visible: Any) -> tuple[Any, Any, Any]:
    """dQ, dK and dV in float64, and rows without keys at 0."""
    q, k, v, do = (x.astype(np.float64) for x in (q, k, v, do))
    group, scale = q.shape[1] // k.shape[1], q.shape[-1] ** -0.5
    keys, values = (np.repeat(x, group, axis=1) for x in (k, v))
    scores = np.where(visible, q @ keys.swapaxes(-1, -2) * scale, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    p = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = p.sum(axis=-1, keepdims=True)
    p /= np.where(total == 0, 1, total)
    dp = do @ values.swapaxes(-1, -2)
    ds = p * (dp - (do * (p @ values)).sum(axis=-1, keepdims=True)) * scale

    def of_group(x: Any) -> Any:
        return x.reshape(len(x), k.shape[1], group, *x.shape[2:]).sum(axis=2)

    return (
        ds @ keys,
        of_group(ds.swapaxes(-1, -2) @ q),
        of_group(p.swapaxes(-1, -2) @ do),
    )


CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    # batch, heads, heads of keys, queries, keys, D, DV
    "window, rows without keys": ((1, 2, 1, 150, 70, 32, 64), {"window": (40, 3)}),
    "wide, one query": ((1, 1, 1, 1, 77, 136, 192), {}),
    "turned": ((1, 2, 2, 70, 90, 72, 128), {"window": (None, 0)}),
}


@pytest.fixture
def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops keep their order, which is compiled quickly."""
    plan = attention_gradients_module.plan_of

    def plan_of(columns: dict[str, int], *, masked: bool) -> Plan:
        return replace(plan(columns, masked=masked), options=(("overlap", False),))

    monkeypatch.setattr(attention_gradients_module, "plan_of", plan_of)


@pytest.mark.parametrize(
    ("name", "deterministic"),
    [*((name, False) for name in CASES), ("window, rows without keys", True)],
)
def test_gradients(name: str, deterministic: bool, in_order: None) -> None:
    (b, h, hk, m, n, d, dv), options = CASES[name]
    random = np.random.default_rng(0)
    shapes = (b, h, m, d), (b, hk, n, d), (b, hk, n, dv), (b, h, m, dv)
    q, k, v, do = (random.standard_normal(s).astype(np.float16) for s in shapes)
    out, lse = attention(q, k, v, return_lse=True, **options)
    found = attention_gradients(q, k, v, out, lse, do, deterministic=deterministic, **options)
    rows, columns = np.arange(m)[:, None] + n - m, np.arange(n)
    left, right = (n + m if x is None else x for x in options.get("window", (None, None)))
    visible = (columns <= rows + right) & (columns >= rows - left)
    for gradient, expected in zip(found, exact(q, k, v, do, visible), strict=True):
        assert np.isfinite(gradient).all()
        error = np.linalg.norm(gradient - expected)
        assert error <= 2e-3 * np.linalg.norm(expected)


def test_what_is_refused() -> None:
    q = np.zeros((1, 1, 16, 64), np.float16)
    lse = np.zeros((1, 1, 16), np.float32)
    with pytest.raises(AttentionSizesDoNotMatch, match="do not fit"):
        attention_gradients(q, q, q, q[:, :, :8], lse, q)
    with pytest.raises(AttentionTypeNotSupported, match="lse"):
        attention_gradients(q, q, q, q, lse.astype(np.float16), q)
