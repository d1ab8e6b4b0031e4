"""Attention's gradients: two loops that recompute the weights from each row's log-sum-exp.

    from tawa.kernels.attention_gradients import attention_gradients

    dq, dk, dv = attention_gradients(q, k, v, out, lse, gradient, causal=True)

One program adds up dK and dV of a block of keys over the queries (of all heads that share them),
one dQ of a block of queries over the keys. Each sum has one order and nothing is added atomically,
so that equal inputs give equal bits.
"""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnnecessaryComparison=false, reportAttributeAccessIssue=false
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from typing import Any

import tawa
import tawa.language as tl
from tawa.kernels.attention_arguments import (
    AttentionTypeNotSupported,
    Problem,
    check_number,
    check_options,
    check_output,
    check_rows,
    described,
    edges,
    make_float32,
    padded,
    problem_of,
)

ROWS = 128
"""Rows of a block of which a row product is computed at a time."""
WIDE = 128
"""Head dimension beyond which dK and dV do not fit one program's registers together."""


@tawa.jit
def row_products(out: Any, gradient: Any, delta: Any, rows: Any, DV: tl.constexpr, B: tl.constexpr):
    """The sum of each row's elements of the output, times their gradients."""
    start, head, batch = tl.program_id(0) * B, tl.program_id(1), tl.program_id(2)
    o = out.load([batch, head, start, 0]).reshape(B, DV).to(tl.float32)
    do = gradient.load([batch, head, start, 0]).reshape(B, DV).to(tl.float32)
    at = start + tl.arange(0, B)
    first = (batch * tl.num_programs(1) + head) * rows
    tl.store(delta + first + at, tl.sum(o * do, axis=1), mask=at < rows)


@tawa.jit
def visible(queries: Any, keys: Any, left: Any, right: Any, offset: Any):
    """Which keys queries see, on at least one side of which there is a bound.

    `keys` and `queries` are indices that broadcast to a tile.
    """
    if left is None:
        return keys <= queries + offset + right
    if right is None:
        return keys >= queries + offset - left
    return (keys <= queries + offset + right) & (keys >= queries + offset - left)


@tawa.jit
def queries_of(
    start_n: Any, queries: Any, left: Any, right: Any, offset: Any,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
) -> Any:  # fmt: skip
    """The first query of the blocks that see a block of keys, and the number of the blocks."""
    first, last = 0, queries
    if right is not None:
        first = max(0, start_n - offset - right) // BLOCK_M * BLOCK_M
    if left is not None:
        last = min(queries, start_n + BLOCK_N - offset + left)
    return first, tl.cdiv(max(0, last - first), BLOCK_M)


@tawa.jit
def weights(scores: Any, total: Any, rows: Any, keys: Any, left: Any, right: Any, offset: Any):
    """Each key's weight in each query's sum, from scaled scores: keys by queries."""
    p = tl.exp2(scores - total[None, :])
    if left is not None or right is not None:
        p = tl.where(visible(rows[None, :], keys[:, None], left, right, offset), p, 0.0)
    return p


@tawa.jit
def gradient_of_keys(
    q: Any, k: Any, v: Any, do: Any, dk: Any, dv: Any, lse: Any, delta: Any,
    scale: Any, queries: Any, offset: Any, left: Any, right: Any,
    GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, OF_KEYS: tl.constexpr, OF_VALUES: tl.constexpr,
):  # fmt: skip
    """BLOCK_N rows of dK and dV, or of one of them. Scores are transposed: keys by queries."""
    start_n, kv_head, batch = tl.program_id(0) * BLOCK_N, tl.program_id(1), tl.program_id(2)
    keys = start_n + tl.arange(0, BLOCK_N)
    k_tile = k.load([batch, kv_head, start_n, 0]).reshape(BLOCK_N, D)
    if OF_KEYS:
        v_tile = v.load([batch, kv_head, start_n, 0]).reshape(BLOCK_N, DV)
        dk_tile = tl.zeros((BLOCK_N, D), tl.float32)
    if OF_VALUES:
        dv_tile = tl.zeros((BLOCK_N, DV), tl.float32)
    first, blocks = queries_of(start_n, queries, left, right, offset, BLOCK_M, BLOCK_N)
    for turn in range(GROUP * blocks):
        head = kv_head * GROUP
        start_m = first + turn * BLOCK_M
        if GROUP > 1:
            head += turn // blocks
            start_m = first + turn % blocks * BLOCK_M
        q_tile = q.load([batch, head, start_m, 0]).reshape(BLOCK_M, D)
        rows = start_m + tl.arange(0, BLOCK_M)
        at = (batch * tl.num_programs(1) * GROUP + head) * queries + rows
        # Rows past the end get weight zero: their log-sum-exp is infinite.
        total = tl.load(lse + at, mask=rows < queries, other=float("inf")) * 1.4426950408889634
        scores = tl.dot(k_tile, q_tile.T) * (scale * 1.4426950408889634)
        p = weights(scores, total, rows, keys, left, right, offset)
        do_tile = do.load([batch, head, start_m, 0]).reshape(BLOCK_M, DV)
        if OF_VALUES:
            dv_tile = tl.dot(p.to(do_tile.dtype), do_tile, dv_tile)
        if OF_KEYS:
            means = tl.load(delta + at, mask=rows < queries, other=0.0)
            ds = p * (tl.dot(v_tile, do_tile.T) - means[None, :])
            dk_tile = tl.dot(ds.to(q_tile.dtype), q_tile, dk_tile)
    if OF_KEYS:
        dk.store(
            [batch, kv_head, start_n, 0], (dk_tile * scale).to(dk.dtype).reshape(1, 1, BLOCK_N, D)
        )
    if OF_VALUES:
        dv.store([batch, kv_head, start_n, 0], dv_tile.to(dv.dtype).reshape(1, 1, BLOCK_N, DV))


@tawa.jit
def gradient_of_queries(
    q: Any, k: Any, v: Any, do: Any, dq: Any, lse: Any, delta: Any,
    scale: Any, queries: Any, size: Any, offset: Any, left: Any, right: Any,
    GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """BLOCK_M rows of dQ of one head; `size` is the number of keys."""
    start_m, head, batch = tl.program_id(0) * BLOCK_M, tl.program_id(1), tl.program_id(2)
    rows = start_m + tl.arange(0, BLOCK_M)
    q_tile = q.load([batch, head, start_m, 0]).reshape(BLOCK_M, D)
    do_tile = do.load([batch, head, start_m, 0]).reshape(BLOCK_M, DV)
    at = (batch * tl.num_programs(1) + head) * queries + rows
    total = tl.load(lse + at, mask=rows < queries, other=0.0) * 1.4426950408889634
    means = tl.load(delta + at, mask=rows < queries, other=0.0)
    dq_tile = tl.zeros((BLOCK_M, D), tl.float32)
    first, last = 0, size
    if left is not None:
        first = max(0, start_m + offset - left) // BLOCK_N * BLOCK_N
    if right is not None:
        last = min(size, start_m + BLOCK_M + offset + right)
    for start_n in range(first, last, BLOCK_N):
        k_tile = k.load([batch, head // GROUP, start_n, 0]).reshape(BLOCK_N, D)
        v_tile = v.load([batch, head // GROUP, start_n, 0]).reshape(BLOCK_N, DV)
        p = tl.exp2(tl.dot(q_tile, k_tile.T) * (scale * 1.4426950408889634) - total[:, None])
        keys = start_n + tl.arange(0, BLOCK_N)
        seen = (keys < size)[None, :]
        if left is not None or right is not None:
            seen = seen & visible(rows[:, None], keys[None, :], left, right, offset)
        ds = p * (tl.dot(do_tile, v_tile.T) - means[:, None])
        dq_tile = tl.dot(tl.where(seen, ds, 0.0).to(k_tile.dtype), k_tile, dq_tile)
    dq.store([batch, head, start_m, 0], (dq_tile * scale).to(dq.dtype).reshape(1, 1, BLOCK_M, D))


def attention_gradients(
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    lse: Any,
    gradient: Any,
    into: tuple[Any, Any, Any] | None = None,
    *,
    causal: bool = False,
    window: tuple[int | None, int | None] | None = None,
    alignment: str = "bottom-right",
    scale: float | None = None,
) -> tuple[Any, Any, Any]:
    """The gradients of q, k and v, written to `into` (made if not given) and returned.

    `out` and `lse` are what `attention(q, k, v, return_lse=True)` gave for the same options, and
    `gradient` is that of `out`, of the type of q. Arrays are of fp16 or bf16, on a GPU or in NumPy
    (simulated), in the shapes of `attention`. Rows that see no key have gradients of 0. The same
    inputs give the same bits, always. Raises what `attention` raises, and AttentionTypeNotSupported
    for fp8.
    """
    problem = problem_of(q, k, v)
    if problem.element_bytes != 2:
        raise AttentionTypeNotSupported(
            "gradients of these element types", expected="f16 or bf16", found=problem.element_type
        )
    check_options(alignment, None, ())
    for array in (out, gradient):
        check_output(array, problem)
    check_rows("lse", lse, problem.out_shape[:-1])
    grads = into or tuple(_like(x) for x in (q, k, v))
    left, right = edges(causal, window)
    offset = 0 if alignment == "top-left" else problem.keys - problem.queries
    mask = {"offset": offset, "left": left, "right": right}
    factor = check_number("scale", problem.d**-0.5 if scale is None else scale)
    _launch(problem, (q, k, v, out, gradient), lse, grads, {"scale": factor, **mask})
    return grads


def _like(array: Any) -> Any:
    """An array of another's shape, type and order in memory, unset."""
    if hasattr(array, "new_empty"):
        import sys

        return sys.modules["torch"].empty_like(array)
    return array.__array_namespace__().empty_like(array)


def _launch(
    problem: Problem,
    arrays: tuple[Any, ...],
    lse: Any,
    grads: tuple[Any, ...],
    arguments: dict[str, Any],
) -> None:
    q, k, v, out, gradient = arrays
    d, dv = (padded(size, problem.element_bytes) for size in (problem.d, problem.dv))
    delta = make_float32(q, problem.out_shape[:-1])
    sizes = {"D": d, "DV": dv, "GROUP": problem.heads // problem.kv_heads}
    sums = {"lse": lse, "delta": delta, "queries": problem.queries, **arguments}

    def tiles(rows: int, **named: Any) -> dict[str, Any]:
        """Descriptors of blocks of so many rows."""
        columns = {"q": d, "k": d, "dq": d, "dk": d}
        return {
            name: described(name, array, (1, 1, rows, columns.get(name, dv)))
            for name, array in named.items()
        }

    if problem.rows:
        row_products[(tawa.cdiv(problem.queries, ROWS), problem.heads, problem.batch)](
            **tiles(ROWS, out=out, gradient=gradient),
            delta=delta,
            rows=problem.queries,
            DV=dv,
            B=ROWS,
        )
        m, n = (128, 64) if max(d, dv) <= WIDE else (64, 64)
        gradient_of_queries[(tawa.cdiv(problem.queries, m), problem.heads, problem.batch)](
            **tiles(m, q=q, do=gradient, dq=grads[0]), **tiles(n, k=k, v=v), size=problem.keys,
            **sums, **sizes, BLOCK_M=m, BLOCK_N=n,
        )  # fmt: skip
    m, n = 64 if max(d, dv) <= WIDE else 32, 128
    together = max(d, dv) <= WIDE
    for of_keys, of_values in [(True, True)] if together else [(True, False), (False, True)]:
        grid = (tawa.cdiv(problem.keys, n), problem.kv_heads, problem.batch)
        if all(grid):
            gradient_of_keys[grid](
                **tiles(m, q=q, do=gradient), **tiles(n, k=k, v=v, dk=grads[1], dv=grads[2]),
                **sums, **sizes, BLOCK_M=m, BLOCK_N=n, OF_KEYS=of_keys, OF_VALUES=of_values,
            )  # fmt: skip
