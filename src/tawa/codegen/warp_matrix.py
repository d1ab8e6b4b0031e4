"""Lowering of products that warps do by themselves."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation

from tawa.aref.dialect.warp_ops import WarpDot
from tawa.codegen.fragments import convert, fragment
from tawa.codegen.group_lowering import GroupLowering
from tawa.hopper.dialect.warp_matrix import WarpProduct


def lower_warp_dot(g: GroupLowering, op: WarpDot) -> None:
    """One op for all of K; an accumulator of other products too may have their layout."""
    product, layout = op.product, g.layouts.accumulator(op)
    views = g.views[op.a], g.views[op.b]
    new = WarpProduct(
        fragment(g, op.accumulator, layout),
        (views[0].tile, views[1].tile),
        (views[0].transposed, views[1].transposed),
        product.inner,
        product.precision,
    )
    result = g.add(new, op.result.name_hint)
    g.fragments[op.result] = convert(g, result, g.layouts.of[op.result])


WARP_MATRIX: dict[type[Operation], Callable[..., None]] = {WarpDot: lower_warp_dot}
"""Lowering of products by warps."""
