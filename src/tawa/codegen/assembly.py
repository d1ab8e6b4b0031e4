"""Lowering of inline assembly: the same registers of all operands."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation, SSAValue

from tawa.base.layout import Layout, point
from tawa.base.types import element_of, shape_of
from tawa.codegen.fragments import convert, fragment
from tawa.codegen.group_lowering import GroupLowering
from tawa.hopper.dialect.assembly import InlineAssembly
from tawa.hopper.dialect.fragment import Extract, Fill
from tawa.hopper.dialect.types import FragType
from tawa.tile.dialect.ops import Asm, AsmEffect


def lower_assembly(g: GroupLowering, op: Asm | AsmEffect) -> None:
    """In the layout of the first result; scalars are what every thread computes."""
    first = op.outputs[0]
    scalar = not shape_of(first.type)
    layout = point(g.warps) if scalar else g.layouts.of.get(first) or g.layouts.default(first)
    operands = [_operand(g, v, layout) for v in op.values]
    elements = [element_of(v.type) for v in op.outputs]
    effect = isinstance(op, AsmEffect)
    new = InlineAssembly(op.assembly, operands, elements, layout, effect=effect)
    g.do(new)
    for old, value in zip(op.outputs, new.outputs, strict=True):
        value.name_hint = old.name_hint
        if scalar:
            g.scalars[old] = g.add(Extract(value), old.name_hint)
        else:
            g.fragments[old] = convert(g, value, g.layouts.of.get(old, layout))


def _operand(g: GroupLowering, value: SSAValue, layout: Layout) -> SSAValue:
    if shape_of(value.type):
        return fragment(g, value, layout)
    held = g.scalar(value)
    return g.add(Fill(held, FragType.of(held.type, layout)))


ASSEMBLY: dict[type[Operation], Callable[..., None]] = {
    Asm: lower_assembly,
    AsmEffect: lower_assembly,
}
"""Lowering of inline assembly."""
