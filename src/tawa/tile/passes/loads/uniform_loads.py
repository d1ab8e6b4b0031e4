"""A tile of loads from one address becomes one load.

Scales of blocks are indexed by the place of a block (`columns // 128`), so that all elements of a
tile are loaded from one address, under one mask. Each thread would load that number for every
register that it has of the tile. What is known of runs of equal elements (`axis_info`) shows it:
the address is then computed for the first element alone, and what is loaded is made a tile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.ir import Operation, SSAValue

from tawa.base.spans import copy_span
from tawa.base.types import element_of, shape_of
from tawa.ir.contracts import Contract
from tawa.ir.elementwise import Map
from tawa.ir.properties import TIDY
from tawa.ir.walking import every
from tawa.tile.analysis.axis_info import AxisAnalysis
from tawa.tile.dialect.ops import Arange, Broadcast, ExpandDims, Load, Splat, Trans


@dataclass(frozen=True)
class UniformLoads:
    """Load once what all elements of a tile load."""

    name: ClassVar[str] = "uniform-loads"
    contract: ClassVar[Contract] = Contract(invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Rewrite every load of a tile whose addresses, masks and substitutes are one each."""
        axes = AxisAnalysis()
        loads = [op for op in every(module) if isinstance(op, Load) and shape_of(op.result.type)]
        for load in loads:
            plain = load.volatile is None and load.desc is None
            if plain and all(_is_uniform(v, axes) and _is_made(v) for v in load.operands):
                _load_once(load)


def _is_uniform(value: SSAValue, axes: AxisAnalysis) -> bool:
    """Whether all elements of a tile are known to be equal."""
    shape, constant = shape_of(value.type), axes.of(value).constant
    return all(run >= size for run, size in zip(constant, shape, strict=True))


def _is_made(value: SSAValue) -> bool:
    """Whether a tile is computed from ranges and scalars alone, so that one element can be."""
    owner = value.owner
    if not shape_of(value.type):
        return True
    if isinstance(owner, Splat | Arange):
        return True
    if isinstance(owner, Map | Broadcast | ExpandDims | Trans):
        return all(_is_made(v) for v in owner.operands)
    return False


def _load_once(load: Load) -> None:
    block = load.parent
    assert block is not None
    known: dict[SSAValue, SSAValue] = {}
    new: list[Operation] = []
    ptr = _first(load.ptr, known, new)
    mask = _first(load.mask, known, new) if load.mask is not None else None
    other = _first(load.other, known, new) if load.other is not None else None
    single = Load(ptr, mask, other)
    single.properties |= {n: p for n, p in load.properties.items() if n in ("cache", "eviction")}
    single.result.name_hint = load.result.name_hint
    fill = Splat(single.result, shape_of(load.result.type))
    new += [single, fill]
    copy_span(load, new)
    block.insert_ops_before(new, load)
    load.result.replace_all_uses_with(fill.result)
    load.detach()
    load.erase()


def _first(value: SSAValue, known: dict[SSAValue, SSAValue], new: list[Operation]) -> SSAValue:
    """The first element of a tile as a scalar; what computes it is appended."""
    if value in known or not shape_of(value.type):
        return known.get(value, value)
    op = value.owner
    match op:
        case Splat() | Broadcast() | ExpandDims() | Trans():
            found = _first(op.value, known, new)
        case Arange():
            start = arith.ConstantOp(IntegerAttr(op.start.value.data, i32))
            new.append(start)
            found = start.result
        case _:
            assert isinstance(op, Map)
            operands = [_first(v, known, new) for v in op.arguments]
            scalar = Map(op.function.data, operands, element_of(value.type))
            new.append(scalar)
            found = scalar.result
    known[value] = found
    return found
