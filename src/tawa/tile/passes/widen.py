"""Products into 16-bit accumulators that no instruction has: in f32, rounded once a product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from tawa.base.spans import copy_span
from tawa.base.types import f32, shape_of
from tawa.ir.contracts import Contract
from tawa.ir.elementwise import Map
from tawa.ir.properties import FUSED_SUMS, ONE_PROGRAM, TIDY, WIDE_SUMS
from tawa.ir.walking import all_of
from tawa.tile.analysis.narrow_sums import too_narrow
from tawa.tile.analysis.zero import is_zero
from tawa.tile.dialect.ops import Dot, Splat


@dataclass(frozen=True)
class WidenAccumulators:
    """`f16 + a @ b` becomes `round(f32 + a @ b)`, where no matrix instruction adds up in f16."""

    name: ClassVar[str] = "widen-accumulators"
    contract: ClassVar[Contract] = Contract(
        requires=(ONE_PROGRAM, FUSED_SUMS), establishes=(WIDE_SUMS,), invalidates=(TIDY,)
    )

    def apply(self, module: ModuleOp) -> None:
        """Rewrite every such product."""
        for dot in all_of(module, Dot):
            if too_narrow(dot):
                self._dot(dot)

    def _dot(self, dot: Dot) -> None:
        block = dot.parent
        assert block is not None
        start, before = self._wide(dot.acc)
        wide = Dot(dot.a, dot.b, start, dot.precision.data if dot.precision else None)
        narrow = Map("truncf", [wide.result], dot.result.type)
        narrow.result.name_hint = dot.result.name_hint
        copy_span(dot, [*before, wide, narrow])
        block.insert_ops_before([*before, wide, narrow], dot)
        dot.result.replace_all_uses_with(narrow.result)
        dot.detach()
        dot.erase()

    def _wide(self, value: SSAValue) -> tuple[SSAValue, list[Operation]]:
        """The accumulator in f32, and the ops that make it."""
        type_ = TensorType(f32, shape_of(value.type))
        if is_zero(value):
            zero = arith.ConstantOp(FloatAttr(0.0, f32))
            tile = Splat(zero.result, shape_of(value.type))
            return tile.result, [zero, tile]
        wide = Map("extf", [value], type_)
        return wide.result, [wide]
