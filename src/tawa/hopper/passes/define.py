"""Fewer registers for kernels that would spill: defined accumulators, products step by step.

The first product of a sum ignores what its accumulator holds, so nothing is written there before.
To the assembler these registers then hold a value from the loop's start to its end, and no other
value can use them in between, as an epilogue that computes with whole tiles would have to: so they
are defined. And products that warps do by themselves are written straight-line along K, for the
assembler to fetch operands well before they are multiplied: so that is limited.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    UnitAttr,
    i32,
)
from xdsl.ir import Attribute, Operation
from xdsl.utils.hints import isa

from tawa.hopper.dialect.fragment import Fill, Undefined
from tawa.hopper.dialect.types import FragType
from tawa.hopper.dialect.warp_matrix import WarpProduct
from tawa.ir.contracts import Contract
from tawa.ir.decisions.assembling import ProductsNarrowed, RegistersDefined
from tawa.ir.decisions.decision import Decisions
from tawa.ir.properties import LOWERED, TIDY
from tawa.ir.walking import all_of, every


@dataclass(frozen=True)
class DefineRegisters:
    """`hopper.undefined` inside loops -> `hopper.fill` with zero."""

    decided: Decisions
    spill: str
    """What the assembler says of the registers that lie in memory."""
    name: ClassVar[str] = "define-registers"
    contract: ClassVar[Contract] = Contract(requires=(LOWERED,), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Define all of them."""
        found = [op for op in every(module) if isinstance(op, Undefined) and _in_loop(op)]
        for op in found:
            frag = op.value.type
            assert isinstance(frag, FragType)
            zero = arith.ConstantOp(_zero(frag.element_type))
            new = Fill(zero.result, frag)
            new.value.name_hint = op.value.name_hint
            block = op.parent
            assert block is not None
            block.insert_ops_before([zero, new], op)
            op.value.replace_all_uses_with(new.value)
            op.detach()
            op.erase()
        if found:
            self.decided.add(RegistersDefined(self.spill))


@dataclass(frozen=True)
class NarrowProducts:
    """Let warps' products fetch their operands one step along K at a time, and keep one sum."""

    decided: Decisions
    spill: str
    """What the assembler says of the registers that lie in memory."""
    name: ClassVar[str] = "narrow-products"
    contract: ClassVar[Contract] = Contract(requires=(LOWERED,), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Narrow all of them."""
        found = all_of(module, WarpProduct)
        for op in found:
            op.narrow = UnitAttr()
        if found:
            self.decided.add(ProductsNarrowed(self.spill))


def _in_loop(op: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, scf.ForOp | scf.WhileOp):
        parent = parent.parent_op()
    return parent is not None


def _zero(element: Attribute) -> FloatAttr[AnyFloat] | IntegerAttr[IntegerType]:
    if isa(element, AnyFloat):
        return FloatAttr(0.0, element)
    assert element == i32
    return IntegerAttr(0, i32)
