"""How many elements lie side by side in a thread where rows are reduced and stored as bytes."""

from __future__ import annotations

import numpy as np
import pytest
from simulation import Arrays, check, values

import tawa
import tawa.language as tl
from tawa.hopper.dialect.global_memory import GlobalLoad, GlobalStore
from tawa.ir.walking import every


@tawa.jit
def scaled(x, q, s, n, HOW: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    at = r[:, None] * C + c[None, :]
    v = tl.load(x + at, mask=at < n, other=0).to(tl.float32)
    scale = tl.max(tl.abs(v), 1)
    tl.store(s + r, scale)
    if HOW == "bytes":
        tl.store(q + at, (v * 127 / scale[:, None]).to(tl.int8), mask=at < n)
    elif HOW == "halves":
        tl.store(q + at, (v / scale[:, None]).to(tl.float16), mask=at < n)


@pytest.mark.parametrize(
    ("how", "columns", "wide"),
    [("bytes", 128, 16), ("bytes", 64, 16), ("bytes", 16, 4), ("halves", 128, 8), ("no", 128, 8)],
)
def test_as_many_as_are_stored_at_once(how: str, columns: int, wide: int) -> None:
    a = Arrays()
    x, s = a.random("bf16", 16, columns), a.output("f32", 16)
    q = a.output("i8" if how == "bytes" else "f16", 16, columns)
    top = np.abs(values(x)).max(1)
    whole = 127 if how == "bytes" else 1
    exact = np.trunc(values(x) * whole / top[:, None]) if whole > 1 else values(x) / top[:, None]
    compiled = check(
        scaled, (1,), [x, q, s, 16 * columns], {2: top} | ({1: exact} if how != "no" else {}),
        2e-2 if whole > 1 else 1e-3, ("tile", "hopper", "ptx"), HOW=how, R=16, C=columns, num_warps=2,
    )  # fmt: skip
    ops = every(compiled.module("hopper"))
    (load,) = [op for op in ops if isinstance(op, GlobalLoad)]
    layout = load.value.type.layout  # pyright: ignore[reportAttributeAccessIssue]
    assert layout.vector(1) == wide
    stored = [op.vector.value.data for op in ops if isinstance(op, GlobalStore)]
    assert stored[1:] == ([] if how == "no" else [min(wide, 8 if how == "halves" else 16)])
