"""Kernels that copy through pointers, compiled again so that two CTAs share a multiprocessor.

Where one warp group computes, its prologues, epilogues and waits are hidden by a neighbour's
products. Depths of rings leave room for it in shared memory; registers have to be asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp

from tawa.base.errors import TawaError
from tawa.base.options import Options
from tawa.driver.compiled import Compiled
from tawa.hopper.passes.occupancy import ShareMultiprocessor
from tawa.machine.target import CTA_BYTES
from tawa.runtime.compile_log import parse_log

WARP_GROUPS = 2
"""Of a CTA: the one that copies, and the one that computes."""
THREADS = 128
"""Of a warp group."""


def alone(compiled: Compiled, options: Options) -> bool:
    """Whether only registers keep a second CTA of such a kernel from a multiprocessor."""
    text, spec, machine = str(compiled.stages["aref"]), compiled.spec, options.machine
    by_default = options.ctas_per_sm == options.cluster == 1 and not options.schedule
    copying = re.search(r'role = "load".*copies', text) is not None
    if not by_default or not copying or spec.threads != WARP_GROUPS * THREADS:
        return False
    functions = parse_log(compiled.log).functions
    taken = functions[0].registers if functions else 0
    memory = machine.shared_bytes + CTA_BYTES
    fits = 2 * (spec.shared_bytes + CTA_BYTES) <= memory
    return fits and 2 * taken * spec.threads > machine.registers


def beside(
    compiled: Compiled, options: Options, compile_: Callable[[Options, ModuleOp], Compiled]
) -> Compiled:
    """The kernel for two CTAs, if it is alone now and the assembler finds the registers."""
    if compiled.findings or not alone(compiled, options):
        return compiled
    try:
        shared = compile_(replace(options, ctas_per_sm=2), compiled.module("tile"))
    except TawaError:  # accumulators that half of the registers do not hold
        return compiled
    if shared.findings:
        return compiled
    said = f"{ShareMultiprocessor.name}: compiled for 2 CTAs on a multiprocessor"
    return replace(shared, remarks=(*shared.remarks, said))
