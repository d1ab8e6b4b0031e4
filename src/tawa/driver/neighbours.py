"""Kernels that copy through pointers, compiled again so that two CTAs share a multiprocessor.

Where one warp group computes, its prologues, epilogues and waits are hidden by a neighbour's
products. Depths of rings leave room for it in shared memory; registers have to be asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp

from tawa.aref.dialect.ops import WarpGroup
from tawa.base.errors import TawaError
from tawa.base.options import Options
from tawa.driver.compilation import Built
from tawa.ir.decisions.assembling import CompiledForNeighbours
from tawa.ir.walking import every

WARP_GROUPS = 2
"""Of a CTA: the one that copies, and the one that computes."""
CTAS = 2
"""On a multiprocessor."""


def alone(built: Built, options: Options) -> bool:
    """Whether only registers, or its launch, keep a second CTA of such a kernel from coming.

    A persistent kernel is launched with as many CTAs as it is made for.
    """
    spec, machine = built.spec, options.machine
    by_default = options.ctas_per_sm == options.cluster == 1 and not options.schedule
    if (
        not by_default
        or not _copies(built.module("aref"))
        or spec.threads != WARP_GROUPS * machine.group_threads
    ):
        return False
    functions = built.product.report.functions
    taken = functions[0].registers if functions else 0
    fits = machine.ctas_with(spec.shared_bytes) >= CTAS
    crowded = CTAS * taken * spec.threads > machine.registers
    return fits and (crowded or bool(options.persistent))


def _copies(module: ModuleOp) -> bool:
    """Whether a role copies through pointers."""
    return any(isinstance(op, WarpGroup) and op.copies is not None for op in every(module))


def beside(built: Built, options: Options, compile_: Callable[[Options, ModuleOp], Built]) -> Built:
    """The kernel for two CTAs, if it is alone now and the assembler finds the registers."""
    if built.findings or not alone(built, options):
        return built
    try:
        shared = compile_(replace(options, ctas_per_sm=CTAS), built.module("tile"))
    except TawaError:  # accumulators that half of the registers do not hold
        return built
    if shared.findings:
        return built
    return replace(shared, decisions=(*shared.decisions, CompiledForNeighbours(CTAS)))
