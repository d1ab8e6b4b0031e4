"""The last level, changed once because of what the assembler reports, and assembled again."""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp

from tawa.driver.attempts import spilled_bytes
from tawa.driver.compilation import Built, Compilation
from tawa.driver.compiled import spec_of
from tawa.hopper.passes.define import DefineRegisters, NarrowProducts
from tawa.hopper.passes.occupancy import Occupancy, ShareMultiprocessor, may_share
from tawa.ir.copying import copied
from tawa.ir.decisions.assembling import RegistersForMore
from tawa.runtime.bounded_ptx import bounded

MOST_SAVED = 64
"""Bytes of spills, at most, for which C++ is compiled again: 16 and 40 bytes went away by that in
two of seven kernels; 32 in one, and 84 and more in the others, did not."""


def reassembled(work: Compilation, built: Built) -> Built:
    """The kernel with fewer registers: where it spills, or where more CTAs then share an SM."""
    if work.ends_in_text:
        return built
    return defined(work, built) if spills(built) else shared(work, built)


def spills(built: Built) -> list[str]:
    """What the assembler says of registers that lie in memory."""
    return [f"{found.kind}: {found.text}" for found in built.findings if found.kind == "spill"]


def defined(work: Compilation, built: Built) -> Built:
    """The kernel with defined registers and narrow products, if it has any and spills no more."""
    module = copied(built.module("hopper"))
    before = len(work.decided.made)
    first, *_ = spills(built)
    work.run([DefineRegisters(work.decided, first), NarrowProducts(work.decided, first)], module)
    if not work.decided.made[before:]:
        return built
    new = work.finish(built.name, module)
    if spilled_bytes(new.product) <= spilled_bytes(built.product):
        return new
    work.stages = dict(built.stages)
    return built


def shared(work: Compilation, built: Built) -> Built:
    """The kernel with fewer registers, if that lets more CTAs onto a multiprocessor."""
    module, spec = built.module("hopper"), built.spec
    if work.options.ctas_per_sm > 1 or built.findings or not may_share(module):
        return built
    report = built.product.report
    if not report.functions:
        return built  # a remark says that the log is empty
    registers = report.function(spec.entry).registers
    taken = Occupancy.of(module, work.options.machine, spec.threads, registers, spec.shared_bytes)
    for number, ctas in enumerate(taken.more):
        first = taken.meets and not taken.by_warps and not number
        fuller = _fuller(work, built, module, ctas, whole=first)
        if fuller is not None:
            said = RegistersForMore(ctas)
            return replace(fuller, decisions=(*fuller.decisions, said))
    work.stages = dict(built.stages)
    return built


def _fuller(
    work: Compilation, built: Built, module: ModuleOp, ctas: int, *, whole: bool
) -> Built | None:
    """The kernel with registers that let so many CTAs in; None if that costs speed.

    Its PTX is assembled by itself. If that can't be, or if it is worth the `whole` of the time, its
    C++ is compiled again: knowing the bound, the compiler computes some values twice. Of code that
    multiplies by warps, whose operands fill the registers, it makes the same PTX.
    """
    product = work.timed(
        "cubin", lambda: bounded(built.product, work.options.target, ctas, f"{built.name}.cu")
    )
    good = product is not None and not product.report.findings()
    if product is not None and not good and not (whole and spilled_bytes(product) <= MOST_SAVED):
        return None
    shared = copied(module)
    work.run([ShareMultiprocessor(ctas)], shared)
    if product is None or not good:
        fuller = work.finish(built.name, shared)
        return None if fuller.findings else fuller
    work.keep("hopper", shared)
    work.keep("cu", work.emitted(shared))
    return work.built(built.name, spec_of(shared), product)
