"""What actors load, store and multiply: their programs without anything else, which is quick."""

from __future__ import annotations

from xdsl.dialects import func

from tawa.machine.chips import Chip
from tawa.simulate.interpret.global_memory import GlobalMemory
from tawa.simulate.interpret.hopper import Span
from tawa.simulate.timing.code import Amounts, Code, Count, Places
from tawa.simulate.timing.program import function


def count(
    kernel: func.FuncOp,
    warps: Span,
    kernel_warps: int,
    target: Chip,
    loads_only: bool = True,
    memory: GlobalMemory | None = None,
) -> Count:
    """What some warps of every CTA load and store: nothing else is done, which is quick.

    Unless `loads_only`, also what they multiply, and move through pointers.
    """
    code = Code(target, warps, kernel_warps, memory, threads=32 * warps.count, counting=True)
    code.loads_only = loads_only
    names = ", ".join(Amounts._fields)
    code.line(f"{' = '.join(Amounts._fields)} = 0")
    return function(code, kernel, f"return {names}")


def places(
    kernel: func.FuncOp, warps: Span, kernel_warps: int, target: Chip, memory: GlobalMemory
) -> Places:
    """What some warps of every CTA load, box by box."""
    code = Code(target, warps, kernel_warps, memory, threads=32 * warps.count, counting=True)
    code.places = True
    code.line("loaded = []")
    return function(code, kernel, "return loaded")
