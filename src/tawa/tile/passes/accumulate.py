"""`x + a @ b` becomes one product that accumulates into `x`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from tawa.base.spans import copy_span
from tawa.ir.contracts import Contract
from tawa.ir.elementwise import Map
from tawa.ir.properties import FUSED_SUMS, ONE_PROGRAM, TIDY
from tawa.ir.walking import all_of
from tawa.tile.analysis.zero import is_zero
from tawa.tile.dialect.ops import Dot


@dataclass(frozen=True)
class FuseAccumulate:
    """Fold an addition into the product that is its only other operand."""

    name: ClassVar[str] = "fuse-accumulate"
    contract: ClassVar[Contract] = Contract(
        requires=(ONE_PROGRAM,), establishes=(FUSED_SUMS,), invalidates=(TIDY,)
    )

    def apply(self, module: ModuleOp) -> None:
        """Rewrite every addition of a product that started from zero and has no other use."""
        for add in all_of(module, Map):
            if add.function.data not in ("addf", "addi"):
                continue
            for mine, other in ((0, 1), (1, 0)):
                dot = add.arguments[mine].owner
                if isinstance(dot, Dot) and is_zero(dot.acc) and dot.result.has_one_use():
                    self._fold(add, dot, add.arguments[other])
                    break

    def _fold(self, add: Map, dot: Dot, other: SSAValue) -> None:
        block = add.parent
        assert block is not None
        new = Dot(dot.a, dot.b, other, dot.precision.data if dot.precision else None)
        new.result.name_hint = add.result.name_hint or dot.result.name_hint
        copy_span(dot, [new])
        block.insert_op_before(new, add)
        add.result.replace_all_uses_with(new.result)
        for op in (add, dot):
            op.detach()
            op.erase()
