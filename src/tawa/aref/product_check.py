"""What every matrix product must keep to, checked before anything is laid out."""

from __future__ import annotations

from xdsl.ir import Operation

from tawa.aref.matrix import ProductNotSupported
from tawa.aref.ops import WarpGroup
from tawa.base.spans import span_of
from tawa.base.target import Target
from tawa.base.types import bf16, byte_size, e4m3, e5m2, element_of, f16, f32, i8, shape_of
from tawa.tile.ops import Dot

ELEMENTS = (f16, bf16, f32, e4m3, e5m2, i8)
"""Element types of operands that an instruction multiplies (f32 as tf32)."""


def check_product(dot: Dot, target: Target) -> None:
    """Raise ProductNotSupported if no matrix instruction does this product."""
    element, rank = element_of(dot.a.type), len(shape_of(dot.result.type))
    if rank != 2:
        raise ProductNotSupported(
            "products of batches have no matrix instruction",
            span=span_of(dot),
            expected="operands of rank 2",
            found=f"operands of rank {rank}",
            hint="let each program, or each turn of a loop, do one product of the batch",
        )
    if element not in ELEMENTS:
        raise ProductNotSupported(
            f"products of {element} have no matrix instruction",
            span=span_of(dot),
            expected="f16, bf16, f32 (as tf32), e4m3, e5m2 or i8 operands",
            found=f"{element} operands",
            hint="convert the operands, or sum the elementwise product",
        )
    _check_extents(dot, target)


def _check_extents(dot: Dot, target: Target) -> None:
    """Rows, columns and K against the instruction's, for the warps that share the product."""
    rows, columns = shape_of(dot.result.type)
    inner, size = shape_of(dot.a.type)[1], byte_size(element_of(dot.a.type))
    warps = _warps(dot)
    if warps % target.group_warps:
        raise ProductNotSupported(
            "a matrix product needs whole warp groups",
            span=span_of(dot),
            expected=f"num_warps in multiples of {target.group_warps}",
            found=f"num_warps={warps}",
            hint="set num_warps=4 or num_warps=8",
        )
    share = target.mma_m * (warps // target.group_warps)
    if rows % share:
        raise ProductNotSupported(
            "the rows of this product do not fill the matrix instruction",
            span=span_of(dot),
            expected=f"a multiple of {share} rows for {warps} warps",
            found=f"{rows} rows",
            hint="use a larger block of rows, or fewer warps or consumers",
        )
    if columns % target.mma_n_step:
        raise ProductNotSupported(
            "the columns of this product do not fit the matrix instruction",
            span=span_of(dot),
            expected=f"a multiple of {target.mma_n_step} columns",
            found=f"{columns} columns",
            hint="change the block's columns",
        )
    step = target.mma_k_bytes // size
    if inner % step:
        raise ProductNotSupported(
            "K of this product does not fit the matrix instruction",
            span=span_of(dot),
            expected=f"a multiple of {step} along K",
            found=f"{inner}",
            hint="change the block along K",
        )


def _warps(op: Operation) -> int:
    parent = op.parent_op()
    while not isinstance(parent, WarpGroup):
        assert parent is not None
        parent = parent.parent_op()
    return parent.warps.value.data


__all__ = ["check_product"]
