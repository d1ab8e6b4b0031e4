"""Loops that the assembler may unroll: those that only read memory, in kernels of one role.

A loop is written as one iteration (`#pragma unroll 1`), since schedules, slots and meetings are
planned for that. Where an iteration just loads and adds up, several of them have their loads on the
way at the same time, and the assembler knows best how many it has registers for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, UnitAttr

from tawa.hopper.dialect.global_memory import GlobalLoad
from tawa.hopper.dialect.text import MAY_UNROLL
from tawa.hopper.passes.strips import of_one_role
from tawa.ir.contracts import Contract
from tawa.ir.effects import only_reads
from tawa.ir.properties import LOWERED
from tawa.ir.walking import every


@dataclass(frozen=True)
class FreeLoops:
    """Note which loops the assembler may unroll."""

    name: ClassVar[str] = "free-loops"
    contract: ClassVar[Contract] = Contract(requires=(LOWERED,))

    def apply(self, module: ModuleOp) -> None:
        """Give such loops their attribute."""
        for op in every(module) if of_one_role(module) else []:
            if isinstance(op, scf.ForOp) and _only_loads(op):
                op.attributes[MAY_UNROLL] = UnitAttr()


def _only_loads(loop: scf.ForOp) -> bool:
    """Whether an iteration loads tiles, and has no other effect and nothing nested in it."""
    body = list(loop.body.block.ops)
    plain = all(only_reads(op) and not op.regions for op in body if op is not body[-1])
    return plain and any(isinstance(op, GlobalLoad) for op in body)
