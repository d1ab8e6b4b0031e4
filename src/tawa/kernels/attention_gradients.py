"""Attention's gradients.

    from tawa.kernels.attention_gradients import attention_gradients

    dq, dk, dv = attention_gradients(q, k, v, out, lse, gradient, causal=True)

See `attention_gradient_kernels` for the two ways to compute them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tawa
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
from tawa.kernels.attention_gradient_kernels import (
    finish,
    gradient_of_keys,
    gradient_of_queries,
    gradients_by_keys,
    prepare,
)

ROWS = 128
"""Rows of a block of the passes before and after."""
WIDE = 128
"""Head dimension beyond which dK and dV do not fit one program's registers together."""


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
    options: tuple[tuple[str, Any], ...] = ()


def plan_of(columns: dict[str, int]) -> Plan:
    """How gradients of heads of such dimensions are cut into blocks."""
    return Plan(64, 128, True) if max(columns.values()) > 64 else Plan(128, 128, False)


@dataclass(frozen=True)
class _Work:
    """What the kernels of a call share: the arrays by name, and the scalars of masks and scores."""

    problem: Problem
    arrays: dict[str, Any]
    scalars: dict[str, Any]

    def run(self, *, deterministic: bool) -> None:
        """Launch the kernels."""
        wide = max(self._columns().values()) > WIDE
        if deterministic or wide:
            self._in_order(wide=wide)
        else:
            self._as_they_come()

    def _columns(self) -> dict[str, int]:
        """Columns of a tile of q and k, and of v."""
        size = self.problem.element_bytes
        return {"D": padded(self.problem.d, size), "DV": padded(self.problem.dv, size)}

    def _as_they_come(self) -> None:
        """dK and dV by blocks of keys, which add their terms of dQ to an array of fp32."""
        columns, problem = self._columns(), self.problem
        plan = plan_of(columns)
        m, n, turned = plan.m, plan.n, plan.turned
        if turned:
            columns["D"] = 128  # rows of a product
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
