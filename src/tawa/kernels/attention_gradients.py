"""Attention's gradients: the weights are recomputed from each row's log-sum-exp.

    from tawa.kernels.attention_gradients import attention_gradients

    dq, dk, dv = attention_gradients(q, k, v, out, lse, gradient, causal=True)

`gradients_by_keys` gives dK and dV of a block of keys, and adds what these keys contribute to dQ to
an array of fp32: five products, and sums whose order is a matter of time. `gradient_of_keys` and
`gradient_of_queries` take seven products, and add everything up in one order.

Rows past the end are zeros, and so are their products with what gradients add up: they count for
nothing, whatever their weights are.
"""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnnecessaryComparison=false, reportAttributeAccessIssue=false
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from dataclasses import dataclass
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
"""Rows of a block of the passes before and after."""
WIDE = 128
"""Head dimension beyond which dK and dV do not fit one program's registers together."""


@tawa.jit
def prepare(
    out: Any, do: Any, lse: Any, delta: Any, total: Any, sums: Any, rows: Any, padded: Any,
    D: tl.constexpr, DV: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Two numbers of each row, `padded` rows a head, and zeros.

    `delta`: the sum of its elements of the output, times their gradients; `total`: its log-sum-exp
    to base 2. With `sums` (fp32, batch * heads * padded * D elements) that is set to zero.
    """
    start, head, batch = tl.program_id(0) * B, tl.program_id(1), tl.program_id(2)
    o = out.load([batch, head, start, 0]).reshape(B, DV).to(tl.float32)
    to = do.load([batch, head, start, 0]).reshape(B, DV).to(tl.float32)
    at = start + tl.arange(0, B)
    number = batch * tl.num_programs(1) + head
    tl.store(delta + number * padded + at, tl.sum(o * to, axis=1))
    own = tl.load(lse + number * rows + at, mask=at < rows, other=0.0)
    # A row that sees no key has zero weights of scores that are hidden: 2^(-inf - 0).
    own = tl.where(own == -float("inf"), 0.0, own * 1.4426950408889634)
    tl.store(total + number * padded + at, own)
    if sums is not None:
        first = sums + (tl.cast(number, tl.int64) * padded + start) * D
        tl.store(first + tl.arange(0, B * D), tl.zeros((B * D,), tl.float32))


@tawa.jit
def finish(
    sums: Any, dq: Any, scale: Any, D: tl.constexpr, B: tl.constexpr, TURNED: tl.constexpr
):  # fmt: skip
    """Scale and round dQ, of which `sums` has the rows, or with TURNED the columns."""
    start, head, batch = tl.program_id(0) * B, tl.program_id(1), tl.program_id(2)
    if TURNED:
        tile = sums.load([batch, head, 0, start]).reshape(D, B).T
    else:
        tile = sums.load([batch, head, start, 0]).reshape(B, D)
    dq.store([batch, head, start, 0], (tile * scale).to(dq.dtype).reshape(1, 1, B, D))


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
def weights(
    k_tile: Any, q_tile: Any, total: Any, scale: Any, start_n: Any, start_m: Any, size: Any,
    left: Any, right: Any, offset: Any, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    EVEN: tl.constexpr,
) -> Any:  # fmt: skip
    """Each key's weight in each query's sum, keys by queries; EVEN: no keys are past the end."""
    scores = tl.dot(k_tile, q_tile.T)
    hidden = False
    if right is not None:
        hidden = hidden | (start_n + BLOCK_N - 1 > start_m + offset + right)
    if left is not None:
        hidden = hidden | (start_n < start_m + BLOCK_M - 1 + offset - left)
    if not EVEN:
        hidden = hidden | (start_n + BLOCK_N > size)
    if hidden:
        keys, rows = start_n + tl.arange(0, BLOCK_N), start_m + tl.arange(0, BLOCK_M)
        seen = (keys < size)[:, None] if not EVEN else True
        if left is not None or right is not None:
            seen = seen & visible(rows[None, :], keys[:, None], left, right, offset)
        scores = tl.where(seen, scores, -float("inf"))
    return tl.exp2(scores * (scale * 1.4426950408889634) - total[None, :])


@tawa.jit
def gradients_by_keys(
    q: Any, k: Any, v: Any, do: Any, sums: Any, dk: Any, dv: Any, total: Any, delta: Any,
    scale: Any, queries: Any, size: Any, offset: Any, left: Any, right: Any,
    GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, EVEN: tl.constexpr, TURNED: tl.constexpr,
):  # fmt: skip
    """BLOCK_N rows of dK and dV, and what these keys add to all rows of dQ (see `finish`).

    Scores are transposed, keys by queries. EVEN: no block has keys past the end.
    """
    start_n, kv_head, batch = tl.program_id(0) * BLOCK_N, tl.program_id(1), tl.program_id(2)
    k_tile = k.load([batch, kv_head, start_n, 0]).reshape(BLOCK_N, D)
    v_tile = v.load([batch, kv_head, start_n, 0]).reshape(BLOCK_N, DV)
    dk_tile = tl.zeros((BLOCK_N, D), tl.float32)
    dv_tile = tl.zeros((BLOCK_N, DV), tl.float32)
    first, blocks = queries_of(start_n, queries, left, right, offset, BLOCK_M, BLOCK_N)
    for turn in range(GROUP * blocks):
        head = kv_head * GROUP
        start_m = first + turn * BLOCK_M
        if GROUP > 1:
            head += turn // blocks
            start_m = first + turn % blocks * BLOCK_M
        q_tile = q.load([batch, head, start_m, 0]).reshape(BLOCK_M, D)
        sum_of_row = total.load([batch, head, start_m]).reshape(BLOCK_M)
        p = weights(
            k_tile, q_tile, sum_of_row, scale, start_n, start_m, size, left, right, offset,
            BLOCK_M, BLOCK_N, EVEN,
        )  # fmt: skip
        do_tile = do.load([batch, head, start_m, 0]).reshape(BLOCK_M, DV)
        dv_tile = tl.dot(p.to(do_tile.dtype), do_tile, dv_tile)
        means = delta.load([batch, head, start_m]).reshape(BLOCK_M)
        ds = (p * (tl.dot(v_tile, do_tile.T) - means[None, :])).to(q_tile.dtype)
        dk_tile = tl.dot(ds, q_tile, dk_tile)
        if TURNED:
            part = tl.dot(k_tile.T, ds).reshape(1, 1, D, BLOCK_M)
            sums.atomic_add([batch, head, 0, start_m], part)
        else:
            part = tl.dot(ds.T, k_tile).reshape(1, 1, BLOCK_M, D)
            sums.atomic_add([batch, head, start_m, 0], part)
    dk.store([batch, kv_head, start_n, 0], (dk_tile * scale).to(dk.dtype).reshape(1, 1, BLOCK_N, D))
    dv.store([batch, kv_head, start_n, 0], dv_tile.to(dv.dtype).reshape(1, 1, BLOCK_N, DV))


@tawa.jit
def gradient_of_keys(
    q: Any, k: Any, v: Any, do: Any, dk: Any, dv: Any, total: Any, delta: Any,
    scale: Any, queries: Any, offset: Any, left: Any, right: Any,
    GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, OF_KEYS: tl.constexpr, OF_VALUES: tl.constexpr,
):  # fmt: skip
    """BLOCK_N rows of dK and dV, or of one of them. Scores are transposed: keys by queries."""
    start_n, kv_head, batch = tl.program_id(0) * BLOCK_N, tl.program_id(1), tl.program_id(2)
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
        sum_of_row = total.load([batch, head, start_m]).reshape(BLOCK_M)
        p = weights(
            k_tile, q_tile, sum_of_row, scale, start_n, start_m, 0, left, right, offset,
            BLOCK_M, BLOCK_N, True,
        )  # fmt: skip
        do_tile = do.load([batch, head, start_m, 0]).reshape(BLOCK_M, DV)
        if OF_VALUES:
            dv_tile = tl.dot(p.to(do_tile.dtype), do_tile, dv_tile)
        if OF_KEYS:
            means = delta.load([batch, head, start_m]).reshape(BLOCK_M)
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
    q: Any, k: Any, v: Any, do: Any, dq: Any, total: Any, delta: Any,
    scale: Any, size: Any, offset: Any, left: Any, right: Any,
    GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """BLOCK_M rows of dQ of one head; `size` is the number of keys."""
    start_m, head, batch = tl.program_id(0) * BLOCK_M, tl.program_id(1), tl.program_id(2)
    rows = start_m + tl.arange(0, BLOCK_M)
    q_tile = q.load([batch, head, start_m, 0]).reshape(BLOCK_M, D)
    do_tile = do.load([batch, head, start_m, 0]).reshape(BLOCK_M, DV)
    sum_of_row = total.load([batch, head, start_m]).reshape(BLOCK_M)
    means = delta.load([batch, head, start_m]).reshape(BLOCK_M)
    dq_tile = tl.zeros((BLOCK_M, D), tl.float32)
    first, last = 0, size
    if left is not None:
        first = max(0, start_m + offset - left) // BLOCK_N * BLOCK_N
    if right is not None:
        last = min(size, start_m + BLOCK_M + offset + right)
    for start_n in range(first, last, BLOCK_N):
        k_tile = k.load([batch, head // GROUP, start_n, 0]).reshape(BLOCK_N, D)
        v_tile = v.load([batch, head // GROUP, start_n, 0]).reshape(BLOCK_N, DV)
        p = tl.exp2(tl.dot(q_tile, k_tile.T) * (scale * 1.4426950408889634) - sum_of_row[:, None])
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
    deterministic: bool = False,
) -> tuple[Any, Any, Any]:
    """The gradients of q, k and v, written to `into` (made if not given) and returned.

    `out` and `lse` are what `attention(q, k, v, return_lse=True)` gave for the same options, and
    `gradient` is that of `out`, of the type of q. Arrays are of fp16 or bf16, on a GPU or in NumPy
    (simulated), in the shapes of `attention`. Rows that see no key have gradients of 0. With
    `deterministic` the same inputs give the same bits; else terms of dQ are added up in fp32 in
    the order in which they are ready, which takes five products for seven. Raises what `attention`
    raises, and AttentionTypeNotSupported for fp8.
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
    given = {"q": q, "k": k, "v": v, "out": out, "do": gradient, "lse": lse}
    results = dict(zip(("dq", "dk", "dv"), grads, strict=True))
    work = _Work(problem, given | results, {"scale": factor, **mask})
    work.run(deterministic=deterministic)
    return grads


def _like(array: Any) -> Any:
    """An array of another's shape, type and order in memory, unset."""
    if hasattr(array, "new_empty"):
        import sys

        return sys.modules["torch"].empty_like(array)
    return array.__array_namespace__().empty_like(array)


@dataclass(frozen=True)
class Plan:
    """Rows of a block of queries and of keys, and the launch's options.

    `turned`: terms of dQ are computed as columns, so that they have the rows that warp groups
    share, 64 each.
    """

    m: int
    n: int
    turned: bool
    columns: int = 0
    """Columns of all tiles, if they are more than heads have."""
    options: tuple[tuple[str, Any], ...] = ()


EVENLY = (("persistent", True), ("deal", "even"))
"""Options of a launch whose blocks of keys differ in how many queries see them."""
TOGETHER = (("load_together", True),)
"""Options of short iterations: 3% of them are waits for slots (measured on an H100)."""


def plan_of(columns: dict[str, int], *, masked: bool) -> Plan:
    """How gradients of heads of such dimensions are cut into blocks."""
    most, deal = max(columns.values()), EVENLY if masked else ()
    if most > WIDE:
        return Plan(64, 64, False, 256, deal)  # two warp groups share the columns
    if most > 64:
        return Plan(64, 128, True, 128, (*TOGETHER, *deal))
    return Plan(128, 128, False, options=deal)


@dataclass(frozen=True)
class _Work:
    """What the kernels of a call share: the arrays by name, and the scalars of masks and scores."""

    problem: Problem
    arrays: dict[str, Any]
    scalars: dict[str, Any]

    def run(self, *, deterministic: bool) -> None:
        """Launch the kernels."""
        if deterministic:
            self._in_order(wide=max(self._columns().values()) > WIDE)
        else:
            self._as_they_come()

    def _columns(self) -> dict[str, int]:
        """Columns of a tile of q and k, and of v."""
        size = self.problem.element_bytes
        return {"D": padded(self.problem.d, size), "DV": padded(self.problem.dv, size)}

    def _as_they_come(self) -> None:
        """dK and dV by blocks of keys, which add their terms of dQ to an array of fp32."""
        columns, problem = self._columns(), self.problem
        masked = any(self.scalars[side] is not None for side in ("left", "right"))
        plan = plan_of(columns, masked=masked)
        m, n, turned = plan.m, plan.n, plan.turned
        if plan.columns:
            columns = dict.fromkeys(columns, plan.columns)
        shape = (columns["D"], self._rows) if turned else (self._rows, columns["D"])
        sums = make_float32(self.arrays["q"], (problem.batch, problem.heads, *shape))
        rows = self._prepare(columns, sums)

        def part(rows: int) -> Any:
            """The descriptor of rows of dQ, or of as many columns."""
            block = (columns["D"], rows) if turned else (rows, columns["D"])
            return described("sums", sums, (1, 1, *block))

        grid = self._blocks(problem.keys, n, problem.kv_heads)
        if all(grid):
            gradients_by_keys[grid](
                **self._tiles(columns, m, "q", "do"),
                **self._tiles(columns, n, "k", "v", "dk", "dv"),
                **self._vectors(rows, m), sums=part(m), queries=problem.queries, size=problem.keys,
                **self.scalars, **columns, **self._sharing(), BLOCK_M=m, BLOCK_N=n,
                EVEN=problem.keys % n == 0, TURNED=turned, **dict(plan.options),
            )  # fmt: skip
        grid = self._blocks(problem.queries, 64, problem.heads)
        if all(grid):
            finish[grid](
                sums=part(64), **self._tiles(columns, 64, "dq"), scale=self.scalars["scale"],
                D=columns["D"], B=64, TURNED=turned,
            )  # fmt: skip

    def _in_order(self, *, wide: bool) -> None:
        """dK and dV by blocks of keys, dQ by blocks of queries."""
        columns, problem = self._columns(), self.problem
        rows = self._prepare(columns, None)
        m, n = (64, 64) if wide else (128, 64)
        grid = self._blocks(problem.queries, m, problem.heads)
        if all(grid):
            gradient_of_queries[grid](
                **self._tiles(columns, m, "q", "do", "dq"), **self._tiles(columns, n, "k", "v"),
                **self._vectors(rows, m), size=problem.keys, **self.scalars, **columns,
                **self._sharing(), BLOCK_M=m, BLOCK_N=n,
            )  # fmt: skip
        m, n = 32 if wide else 64, 128
        grid = self._blocks(problem.keys, n, problem.kv_heads)
        for of_keys, of_values in [(True, False), (False, True)] if wide else [(True, True)]:
            if all(grid):
                gradient_of_keys[grid](
                    **self._tiles(columns, m, "q", "do"),
                    **self._tiles(columns, n, "k", "v", "dk", "dv"), **self._vectors(rows, m),
                    queries=problem.queries, **self.scalars, **columns, **self._sharing(),
                    BLOCK_M=m, BLOCK_N=n, OF_KEYS=of_keys, OF_VALUES=of_values,
                )  # fmt: skip

    @property
    def _rows(self) -> int:
        """Rows of a head in arrays of our own."""
        return tawa.cdiv(self.problem.queries, ROWS) * ROWS

    def _blocks(self, rows: int, block: int, heads: int) -> tuple[int, int, int]:
        return tawa.cdiv(rows, block), heads, self.problem.batch

    def _sharing(self) -> dict[str, int]:
        return {"GROUP": self.problem.heads // max(1, self.problem.kv_heads)}

    def _tiles(self, columns: dict[str, int], rows: int, *names: str) -> dict[str, Any]:
        """Descriptors of blocks of so many rows."""
        of_scores = ("q", "k", "dq", "dk")
        widths = {name: columns["D" if name in of_scores else "DV"] for name in names}
        return {
            name: described(name, self.arrays[name], (1, 1, rows, width))
            for name, width in widths.items()
        }

    def _vectors(self, vectors: dict[str, Any], rows: int) -> dict[str, Any]:
        """Descriptors of so many rows' sums."""
        describe = tawa.TensorDescriptor.from_tensor
        return {name: describe(array, [1, 1, rows]) for name, array in vectors.items()}

    def _prepare(self, columns: dict[str, int], sums: Any) -> dict[str, Any]:
        """Two numbers of each row, which all blocks read; and zeros in `sums`."""
        shape = (self.problem.batch, self.problem.heads, self._rows)
        found = {name: make_float32(self.arrays["q"], shape) for name in ("total", "delta")}
        grid = self._blocks(self.problem.queries, ROWS, self.problem.heads)
        if all(grid):
            prepare[grid](
                **self._tiles(columns, ROWS, "out", "do"), lse=self.arrays["lse"], **found,
                sums=sums, rows=self.problem.queries, padded=self._rows, **columns, B=ROWS,
            )  # fmt: skip
        return found
