"""Which products add up in 16 bits: those of f16 or fp8 into f16 that matrix instructions do."""

from __future__ import annotations

from tawa.base.types import bf16, element_of, f16, shape_of
from tawa.base.warp_matrix import Product
from tawa.tile.dialect.ops import Dot


def too_narrow(dot: Dot) -> bool:
    """Whether a product's accumulator has 16 bits, and no matrix instruction adds up in its type.

    PTX ISA 9.0, mma and wgmma.mma_async: sums of f16 for operands of f16 and fp8, none of bf16.
    """
    total = element_of(dot.acc.type)
    if total == bf16:
        return True
    if total != f16:
        return False
    product = Product.of(shape_of(dot.a.type), shape_of(dot.b.type), element_of(dot.a.type), None)
    return product.multiplied != f16 or product.way != "matrix"
