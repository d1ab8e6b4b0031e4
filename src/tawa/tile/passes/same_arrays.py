"""Arguments of a launch that are one array: in place, equal addresses are known to be equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from tawa.base.options import Options
from tawa.ir.contracts import Contract
from tawa.ir.properties import ONE_PROGRAM
from tawa.tile.passes.overlaps import numbers_of


@dataclass(frozen=True)
class SameArrays:
    """Let a kernel use one argument for two that are the same array."""

    options: Options
    name: ClassVar[str] = "same-arrays"
    contract: ClassVar[Contract] = Contract(requires=(ONE_PROGRAM,))

    def apply(self, module: ModuleOp) -> None:
        """Replace the later of two arguments where their types are equal."""
        kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
        for numbers in numbers_of(kernel, "same_array", self.options.same_array):
            one, other = (kernel.args[number] for number in numbers)
            if one.type == other.type:
                other.replace_all_uses_with(one)
