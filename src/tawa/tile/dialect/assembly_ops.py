"""The tile level's ops of inline assembly, element by element."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def, traits_def, var_operand_def, var_result_def
from xdsl.traits import Pure

from tawa.base.numerics import Array
from tawa.base.spans import span_of
from tawa.base.types import element_of, i32, shape_of
from tawa.ir.effects import GLOBAL, ORDER, Collective, Effects, reads, writes
from tawa.ir.scalars.assembly import Assembly
from tawa.ir.scalars.ptx import UnknownInstruction
from tawa.tile.dialect.value_ops import I32Attr, TileOp, require, tensor_type


class _Assembly(TileOp):
    """What both ops share: `pack` elements of each operand go through the text at a time."""

    values = var_operand_def()
    text = prop_def(StringAttr)
    constraints = prop_def(StringAttr)
    pack = prop_def(I32Attr)
    outputs = var_result_def()

    def __init__(
        self,
        assembly: Assembly,
        values: Sequence[SSAValue],
        elements: Sequence[Attribute],
        shape: Sequence[int],
    ) -> None:
        super().__init__(
            operands=[list(values)],
            properties={
                "text": StringAttr(assembly.text),
                "constraints": StringAttr(assembly.constraints),
                "pack": IntegerAttr(assembly.pack, i32),
            },
            result_types=[[tensor_type(e, shape) for e in elements]],
        )

    @property
    def assembly(self) -> Assembly:
        """The text and how registers are shared."""
        return Assembly(self.text.data, self.constraints.data, self.pack.value.data)

    @property
    def elements(self) -> tuple[list[Attribute], list[Attribute]]:
        """Element types of the results and of the operands."""
        return (
            [element_of(v.type) for v in self.outputs],
            [element_of(v.type) for v in self.values],
        )

    def verify_(self) -> None:
        """Check that shapes agree and constraints fit."""
        shapes = {shape_of(v.type) for v in (*self.values, *self.outputs)}
        require(len(shapes) == 1, "tensors of one shape expected")
        problem = self.assembly.problem(*self.elements)
        require(problem is None, problem or "")

    def evaluate(self, *arrays: Array) -> Array | list[Array]:
        """See the class. Raises UnknownInstruction."""
        shape = shape_of(self.outputs[0].type)
        flat = [np.reshape(a, (1, -1)) for a in arrays]
        try:
            found = self.assembly.evaluate(*self.elements, flat)
        except UnknownInstruction as error:
            error.span = error.span or span_of(self)
            raise
        shaped = [np.broadcast_to(f.reshape(-1), (max(1, f.size),)).reshape(shape) for f in found]
        return shaped[0] if len(shaped) == 1 else shaped


@irdl_op_definition
class Asm(_Assembly):
    """Inline assembly that only computes its results from its operands."""

    name = "tile.asm"
    traits = traits_def(Pure(), Collective())


@irdl_op_definition
class AsmEffect(_Assembly):
    """Inline assembly that does more, or gives other results each time."""

    name = "tile.asm_effect"
    traits = traits_def(
        Collective(), Effects(reads(GLOBAL), writes(GLOBAL), reads(ORDER), writes(ORDER))
    )


ASSEMBLY_OPS = (Asm, AsmEffect)
