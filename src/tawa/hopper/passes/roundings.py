"""Products and sums that are rounded one by one, where `enable_fp_fusion=False` asks for it.

The assembler makes one instruction of a product and a sum, which rounds once. `mul.rn` is never
part of another instruction (PTX, "mul": with a rounding modifier it is not contracted).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp, StringAttr

from tawa.base.options import Options
from tawa.ir.contracts import Contract
from tawa.ir.elementwise import Map
from tawa.ir.properties import LOWERED

SEPARATE = {"mulf": "mulf_rn"}
"""Functions that may become part of others, and those that may not."""


@dataclass(frozen=True)
class SeparateRoundings:
    """Every product of floats becomes one that is rounded by itself."""

    name: ClassVar[str] = "separate-roundings"
    contract: ClassVar[Contract] = Contract(requires=(LOWERED,))

    def apply(self, module: ModuleOp) -> None:
        """Exchange the functions."""
        for op in module.walk():
            if isinstance(op, Map) and op.function.data in SEPARATE:
                op.properties["function"] = StringAttr(SEPARATE[op.function.data])


def separate_roundings(options: Options) -> list[SeparateRoundings]:
    """The pass, if the options ask for it."""
    return [] if options.enable_fp_fusion else [SeparateRoundings()]
