"""Products of f32 by matrix instructions of bf16: each operand is a sum of bf16 parts.

Two parts keep 16 bits of an element, three all 24. `bf16x3` and `bf16x6` say how many products of
parts are summed: those left out are no larger than what the parts leave out themselves. The range
is that of bf16, whose largest number is a little smaller than that of f32.
"""

from __future__ import annotations

from tawa.frontend.syntax.calls import FunctionCompiler
from tawa.frontend.values import arithmetic, conversion
from tawa.frontend.values.conversion import mapped
from tawa.frontend.values.values import Tensor
from tawa.language.dtypes import bfloat16, float32, int1
from tawa.tile.dialect import ops

INFINITY = float("inf")

PARTS = {
    "bf16x3": ((1, 0), (0, 1)),
    "bf16x6": ((2, 0), (1, 1), (0, 2), (1, 0), (0, 1)),
}
"""The parts that are multiplied besides the first of both, small products first."""


def is_of_parts(precision: str, left: Tensor, right: Tensor) -> bool:
    """Whether a product is computed in parts: if matrix instructions of bf16 take its shape."""
    rows, inner, columns = *left.shape[-2:], right.shape[-1]
    return precision in PARTS and not (rows % 16 or inner % 16 or columns % 8)


def product_of_parts(
    f: FunctionCompiler, left: Tensor, right: Tensor, total: Tensor, precision: str
) -> Tensor:
    """`total + left @ right`; only the product of the first parts is infinite or no number."""
    pairs = PARTS[precision]
    count = 1 + max(map(max, pairs))
    a, b = _parts(f, left, count), _parts(f, right, count)
    small = conversion.fill(f.b, total.shape, conversion.scalar(f.b, 0, float32))
    for i, j in pairs:
        small = _product(f, a[i], b[j], small)
    return _product(f, a[0], b[0], arithmetic.add(f.b, total, _finite(f, small)))


def _parts(f: FunctionCompiler, x: Tensor, count: int) -> list[Tensor]:
    """What bf16 keeps of a tile, what it keeps of the rest, and so on; no number has no rest."""
    found: list[Tensor] = []
    for _ in range(count - 1):
        part = conversion.cast(f.b, x, bfloat16)
        found.append(part)
        x = _finite(f, arithmetic.subtract(f.b, x, conversion.cast(f.b, part, float32)))
    return [*found, conversion.cast(f.b, x, bfloat16)]


def _finite(f: FunctionCompiler, x: Tensor) -> Tensor:
    """A tile with zeros in place of infinities, and of what is no number."""
    size = mapped(f.b, "absf", float32, x)
    limit = conversion.fill(f.b, x.shape, conversion.scalar(f.b, INFINITY, float32))
    kept = mapped(f.b, "cmpf_olt", int1, size, limit)
    return arithmetic.where(f.b, kept, x, 0.0)


def _product(f: FunctionCompiler, a: Tensor, b: Tensor, total: Tensor) -> Tensor:
    return Tensor(f.b.add(ops.Dot(a.ssa, b.ssa, total.ssa)).result, float32, total.shape)
