"""Which addresses may lead to floats that depend on the values of a density: those of the heap.

Inputs and constants lie elsewhere, and refer to nothing in the heap. So what is loaded from an
address that comes from them alone is constant, in all functions that it is passed to.
"""

from __future__ import annotations

from collections.abc import Callable

from tawa.cuppl.core.ir import Alloc, Call, Function, Get, Instruction, Reg, Return, Type
from tawa.cuppl.lowering.dataflow import defined, used

__all__ = ["active_addresses"]

CONSTANT_FIELDS = ("inputs", "fuel", "depth")
ADDRESSES = (Type.REF, Type.I64)


def active_addresses(main: str, source: Callable[[str], Function]) -> dict[str, set[Reg]]:
    """For each function that `main` calls, the registers that may hold an address of the heap."""
    analysis = _Activity(main, source)
    while analysis.changed:
        analysis.changed = False
        for name in list(analysis.active):
            analysis.look(name)
    return analysis.active


class _Activity:
    def __init__(self, main: str, source: Callable[[str], Function]) -> None:
        self.source = source
        self.active: dict[str, set[Reg]] = {main: set()}
        self.results: dict[str, set[int]] = {}
        """Which results of a function may be such addresses."""
        self.changed = True

    def look(self, name: str) -> None:
        """Spread activity through a function, once."""
        function = self.source(name)
        own = self.active[name]
        for block in function.blocks.values():
            for item in block.instructions:
                if isinstance(item, Call):
                    self.call(item, own)
                elif self.makes(item, own):
                    self.mark(own, defined(item))
            if isinstance(block.terminator, Return):
                found = {k for k, value in enumerate(block.terminator.values) if value in own}
                known = self.results.setdefault(name, set())
                self.changed |= not found <= known
                known |= found

    def makes(self, item: Instruction, own: set[Reg]) -> bool:
        """Whether an instruction makes such an address."""
        if isinstance(item, Get):
            return item.field not in CONSTANT_FIELDS
        return isinstance(item, Alloc) or any(reg in own for reg in used(item))

    def call(self, item: Call, own: set[Reg]) -> None:
        """Activity goes through parameters and results."""
        params = self.source(item.function).params
        if item.function not in self.active:
            self.active[item.function] = set()
            self.changed = True
        given = [p for p, arg in zip(params, item.args, strict=True) if arg in own]
        self.mark(self.active[item.function], given)
        found = self.results.get(item.function, set())
        self.mark(own, [dst for k, dst in enumerate(item.dsts) if k in found])

    def mark(self, active: set[Reg], regs: tuple[Reg, ...] | list[Reg]) -> None:
        """Add registers."""
        more = {reg for reg in regs if reg.type in ADDRESSES} - active
        active |= more
        self.changed |= bool(more)
