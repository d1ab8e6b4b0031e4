"""Whole programs at the aref level: what roles compute together is what the program says.

All passes of the level run; each of those that are asked for finds something to do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.base.attempts import NO_SLACK
from tawa.driver.compilation import Compilation
from tawa.driver.pipeline import roles, whole_tiles
from tawa.frontend import lower_to_tile, parse_argument
from tawa.ir.decisions.decision import Decisions
from tawa.simulate.interpret import aref

describe = tawa.TensorDescriptor.from_tensor


@tawa.jit
def gemm(a, b, c, n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, HOW: tl.constexpr):
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    total = tl.zeros((M, N), tl.float32)
    for t in range(0, n, K):
        x = a.load([row, t])
        if HOW == "turned":
            y = b.load([column, t]).T
        else:
            y = b.load([t, column])
        if HOW == "computed":
            x = (x.to(tl.float32) * 2 + 1).to(tl.float16)
        total = tl.dot(x, y, total)
    if HOW == "rows":
        total = total - tl.max(total, 1)[:, None]
    c.store([row, column], total)


@tawa.jit
def attention(q, k, v, o, n, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, HOW: tl.constexpr):
    row = tl.program_id(0) * M
    x = q.load([row, 0])
    most, total = tl.full((M,), -float("inf"), tl.float32), tl.zeros((M,), tl.float32)
    out = tl.zeros((M, D), tl.float32)
    for t in range(0, n, N):
        s = tl.dot(x, k.load([t, 0]).T) * 0.25
        if HOW == "masked":
            s = tl.where(t + tl.arange(0, N)[None, :] < n - 5, s, -1e9)
        high = tl.maximum(most, tl.max(s, 1))
        p = tl.exp2(s - high[:, None])
        scale = tl.exp2(most - high)
        total = total * scale + tl.sum(p, 1)
        out = out * scale[:, None]
        out = tl.dot(p.to(tl.float16), v.load([t, 0]), out)
        most = high
    o.store([row, 0], out / total[:, None])


def finished(kernel: Any, args: Any, constants: Any, **options: Any) -> tuple[Any, set[str]]:
    """The module behind the last pass, and the passes that changed something."""
    request = kernel.request(*args, **constants, **options)
    kinds = [parse_argument(text) for text in request.types.values()]
    module = Compilation(request.options).level(
        "tile", lower_to_tile(kernel, kinds, request.constants)
    )
    decided, changed = Decisions(), set[str]()
    first = whole_tiles(request.options, decided)
    for step in [*first, *roles(request.options, decided, NO_SLACK)]:
        before = str(module)
        module = step.apply(module) or module
        if str(module) != before and step not in first[:-1]:
            changed.add(step.name)
    module.verify()
    return module, changed


EVERY = {"partition", "async-dots", "cursors"}
"""Passes that have something to do in every program."""


def halves(*shape: int, seed: int = 0) -> Any:
    return (np.random.default_rng(seed).integers(-8, 9, shape) / 8).astype(np.float16)


@pytest.mark.parametrize(
    ("how", "options", "changed"),
    [("computed", {"num_stages": 1}, set()), ("turned", {"num_warps": 8, "M": 128}, set()),
     ("plain", {"slice_k": 2}, {"slices"}),
     ("rows", {"ping_pong": True, "persistent": True}, {"ping-pong"})],
)  # fmt: skip
def test_products(how: str, options: dict[str, Any], changed: set[str]) -> None:
    options = dict(options)
    m = options.pop("M", 64)
    a, b, c = halves(2 * m, 128), halves(128, 64, seed=1), np.zeros((2 * m, 64), np.float32)
    given = np.ascontiguousarray(b.T) if how == "turned" else b
    args = [describe(a, [m, 32]), describe(given, [32, 32]), describe(c, [m, 32])]
    constants = {"M": m, "N": 32, "K": 32, "HOW": how}
    module, found = finished(gemm, [*args, 96], constants, **options)
    assert EVERY | changed <= found
    x = (a.astype(np.float64) * 2 + 1).astype(np.float16) if how == "computed" else a
    for n in (32, 96):
        aref.run(module, (2, 2), [*args, n], multiprocessors=2)
        exact = x[:, :n].astype(np.float64) @ b[:n].astype(np.float64)
        if how == "rows":
            blocks = exact.reshape(2 * m, 2, 32)
            exact = (blocks - blocks.max(2, keepdims=True)).reshape(2 * m, 64)
        np.testing.assert_allclose(c, exact, rtol=1e-5, atol=1e-5, err_msg=str(n))


@pytest.mark.parametrize(
    ("how", "options"),
    [("plain", {}), ("masked", {"overlap": False}), ("plain", {"num_stages": 1})],
)  # fmt: skip
def test_attention(how: str, options: dict[str, Any]) -> None:
    options = dict(options)
    m = options.pop("M", 64)
    q, k, v = halves(2 * m, 16), halves(128, 16, seed=1), halves(128, 16, seed=2)
    o = np.zeros((2 * m, 16), np.float32)
    args = [describe(q, [m, 16]), *(describe(x, [32, 16]) for x in (k, v)), describe(o, [m, 16])]
    constants = {"M": m, "N": 32, "D": 16, "HOW": how}
    module, found = finished(attention, [*args, 96], constants, **options)
    assert {*EVERY, "conditional-rescaling", "partial-sums"} <= found
    assert ("schedule" in found) == options.get("overlap", True)
    assert ("depths" in found) == (options.get("num_stages") != 1)
    n = 96
    aref.run(module, (2,), [*args, n], multiprocessors=1)
    s = q.astype(np.float64) @ k[:n].T.astype(np.float64) * 0.25
    if how == "masked":
        s[:, n - 5 :] = -1e9
    p = np.exp2(s - s.max(1, keepdims=True))
    exact = p @ v[:n].astype(np.float64) / p.sum(1, keepdims=True)
    np.testing.assert_allclose(o, exact, rtol=2e-3, atol=2e-3)
