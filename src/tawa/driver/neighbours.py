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
from tawa.base.kernel_spec import KernelSpec
from tawa.base.options import Options
from tawa.driver.attempts import Attempts
from tawa.driver.compilation import Built
from tawa.driver.compiled import spec_of
from tawa.ir.decisions.assembling import CompiledForNeighbours
from tawa.ir.walking import every
from tawa.machine.chips import Chip

WARP_GROUPS = 2
"""Of a CTA: the one that copies, and the one that computes."""
CTAS = 2
"""On a multiprocessor."""


def at_first(attempts: Attempts, compile_: Callable[[Options, ModuleOp], Built]) -> Built | None:
    """A persistent kernel for two CTAs, if the assembler finds the registers.

    It is launched with as many CTAs as it is made for. So nobody needs to know the registers of
    the code for one CTA, and it is not assembled.
    """
    options = attempts.compilation.options
    if not options.persistent or not by_default(options):
        return None
    first = attempts.first
    if not _may_be_two(spec_of(first.module), first.aref, options.machine):
        return None
    return _for_two(options, attempts.tile, compile_)


def beside(built: Built, options: Options, compile_: Callable[[Options, ModuleOp], Built]) -> Built:
    """The kernel for two CTAs, if it is alone now and the assembler finds the registers."""
    if built.findings or not alone(built, options):
        return built
    return _for_two(options, built.module("tile"), compile_) or built


def alone(built: Built, options: Options) -> bool:
    """Whether only registers keep a second CTA of such a kernel from coming."""
    spec, machine = built.spec, options.machine
    if options.persistent or not by_default(options):
        return False
    functions = built.product.report.functions
    taken = functions[0].registers if functions else 0
    crowded = CTAS * taken * spec.threads > machine.registers
    return crowded and _may_be_two(spec, built.module("aref"), machine)


def by_default(options: Options) -> bool:
    """Whether nobody says how CTAs share a multiprocessor, or how the kernel is scheduled."""
    return options.ctas_per_sm == options.cluster == 1 and not options.schedule


def _may_be_two(spec: KernelSpec, aref: ModuleOp, machine: Chip) -> bool:
    """Whether one role copies and one computes, with shared memory for a second CTA."""
    groups = spec.threads == WARP_GROUPS * machine.group_threads
    return groups and machine.ctas_with(spec.shared_bytes) >= CTAS and _copies(aref)


def _copies(module: ModuleOp) -> bool:
    """Whether a role copies through pointers."""
    return any(isinstance(op, WarpGroup) and op.copies is not None for op in every(module))


def _for_two(
    options: Options, tile: ModuleOp, compile_: Callable[[Options, ModuleOp], Built]
) -> Built | None:
    try:
        shared = compile_(replace(options, ctas_per_sm=CTAS), tile)
    except TawaError:  # accumulators that half of the registers do not hold
        return None
    if shared.findings:
        return None
    return replace(shared, decisions=(*shared.decisions, CompiledForNeighbours(CTAS)))
