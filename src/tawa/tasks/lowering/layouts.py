"""Whether a compiled kernel spreads tiles as a mapping says: each warp group, or warp, its box.

Below a block the compiler's layouts are the mapping. What a mapping says of warp groups and warps,
and what `partition_by_mma` says of instructions, is compared with the layouts and instructions of
the products that came of a leaf.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tawa.base.errors import Note
from tawa.base.layout import LANES
from tawa.driver.inspection.products import MatrixInstruction
from tawa.tasks.graph.ir import Call, Required, Share
from tawa.tasks.language.defaults import where
from tawa.tasks.language.errors import LayoutUnmet
from tawa.tasks.language.mapping import WARPS


def check_layouts(
    made: Sequence[MatrixInstruction], calls: Sequence[Call], required: Sequence[Required]
) -> None:
    """Raises `LayoutUnmet` where a kernel's instructions spread a leaf's products otherwise."""
    for call in calls:
        products = _products(made, call)
        for product in products if call.shares else ():
            _check_shares(call, product)
        for wanted in required:
            if wanted.instance in call.instance.lineage:
                for product in products:
                    _check_instruction(call, product, wanted)


def _products(made: Sequence[MatrixInstruction], call: Call) -> list[MatrixInstruction]:
    """The matrix instructions that came of a leaf's lines."""
    source = call.leaf.function.source
    lines = range(source.first_line, source.first_line + len(source.text.splitlines()))
    places = ((product, product.span) for product in made)
    return [p for p, span in places if span and span.file == source.file and span.line in lines]


def _check_shares(call: Call, product: MatrixInstruction) -> None:
    layout = product.layout
    name, cuts = _cuts(call, layout.shape)
    if name is None:
        return
    at = layout.coordinates
    warp = np.arange(layout.threads)[:, None] // LANES
    expected = np.zeros(at.shape[:2], np.int64)
    unit = layout.warps
    sizes = list(layout.shape)
    inside = at.copy()
    for share, d in cuts:
        unit //= share.extent
        if d is None:
            continue
        sizes[d] //= share.extent
        expected += inside[..., d] // sizes[d] * unit
        inside[..., d] %= sizes[d]
    fits = unit == (WARPS if cuts[-1][0].processor == "warp_group" else 1)
    if not fits or not np.array_equal(warp // unit * unit + 0 * expected, expected):
        raise LayoutUnmet(
            f"`{name}` of `{call.leaf.name}` is not spread over warps as the mapping says",
            span=call.span,
            expected=_shown(cuts, layout.shape),
            found=f"the layout {layout}",
            hint="cut along rows, which warp groups share in products; or map the launch to a "
            "block, which leaves it to the compiler",
            notes=[Note("in this product", product.span), where(call.instance)],
        )


def _cuts(call: Call, shape: tuple[int, ...]) -> tuple[str | None, list[tuple[Share, int | None]]]:
    """The tile that a product of this shape is: its name, and where each level cuts it."""
    for _, name, view in call.tensors():
        writes = call.leaf.task.privileges[name].writes
        if writes and tuple(map(int, view.buffer.shape)) == shape:
            return name, [(share, share.cut[name]) for share in call.shares]
    return None, []


def _shown(cuts: Sequence[tuple[Share, int | None]], shape: tuple[int, ...]) -> str:
    parts: list[str] = []
    sizes = list(shape)
    for share, d in cuts:
        if d is not None:
            sizes[d] //= share.extent
        box = "x".join(map(str, sizes))
        parts.append(f"a box of {box} for each of {share.extent} {share.processor}s")
    return ", in it ".join(parts).replace("_", " ")


def _check_instruction(call: Call, product: MatrixInstruction, wanted: Required) -> None:
    m, n, k = wanted.shape
    columns = product.columns
    if columns == n:
        return
    raise LayoutUnmet(
        f"`{call.leaf.name}` is not computed by the instruction that it is cut for",
        span=wanted.span,
        expected=f"products of {m} x {n} x {k} by warp groups",
        found=f"{product.name}" + ("" if columns is None else f" of {columns} columns"),
        hint="cut for the instruction that is found, or choose another tile",
        notes=[Note("in this product", product.span), where(call.instance)],
    )
