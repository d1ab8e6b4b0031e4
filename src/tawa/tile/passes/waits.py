"""Loops that wait for other programs read memory each time.

A `while` that decides by a load whether it goes on, from an address that stays the same, ends at
once or when somebody else has written: a load that a compiler may do once, or a cache may answer,
would leave it waiting for ever. Such a load is volatile, whether it says so or not. A loop that
reads on, as a search does, is none of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, UnitAttr

from tawa.ir.contracts import Contract
from tawa.ir.walking import all_of
from tawa.tile.analysis.waits import polls


@dataclass(frozen=True)
class Waits:
    """Make the loads volatile by which loops wait."""

    name: ClassVar[str] = "waits"
    contract: ClassVar[Contract] = Contract()

    def apply(self, module: ModuleOp) -> None:
        """Mark them."""
        for loop in all_of(module, scf.WhileOp):
            for load in polls(loop):
                load.volatile = UnitAttr()
