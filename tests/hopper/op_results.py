"""What an op's text and its meaning leave behind: results and memory that differ."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_texts import OUTPUTS, OpText
from xdsl.ir import Operation, SSAValue

from tawa.base.numerics import Array, decode, storage_dtype
from tawa.hopper.dialect.fragment import ReduceRegisters, VoteAny, layout_of
from tawa.hopper.dialect.text import c_type, computed
from tawa.hopper.dialect.types import FragType
from tawa.hopper.dialect.warp_matrix import WarpProduct
from tawa.simulate.interpret.actor import HopperActor
from tawa.simulate.ptx.machine import Machine


def compare_results(text: OpText, machine: Machine, actor: HopperActor, op: Operation) -> str:
    """What is wrong with the results, or nothing."""
    outputs = [r for r in machine.regions if r.first >= OUTPUTS]
    for region, value in zip(outputs, text.outputs, strict=True):
        unread = _unread(op, value, len(region.data) // _size(value))
        if not (region.written.reshape(len(unread), -1).all(axis=1) | unread).all():
            return "a result was not written"
        if c_type(value.type) in ("u32", "u64") and not isinstance(value.type, FragType):
            found = region.data.view(c_type(value.type).replace("u", "uint"))
            expected = np.full(len(found), int(actor.value(value)) % (1 << 64)).astype(found.dtype)
            same = found == expected
        else:
            element = value.type.element_type if isinstance(value.type, FragType) else value.type
            found = decode(region.data.view(storage_dtype(element)), element)
            if isinstance(value.type, FragType):
                expected = np.ascontiguousarray(actor.registers(value).data).reshape(-1)
            else:
                expected = np.full(len(found), actor.value(value))
            if isinstance(op, VoteAny):  # a warp's own answer there, one of all warps here
                found, expected = found.any(keepdims=True), expected[:1]
            same = close(found, expected, element, _terms(op, actor)) | unread
        if not same.all():
            where = int(np.argmin(same))
            return f"{(~same).sum()} of {len(same)} values, the first at {where}: {found[where]} " \
                   f"by text, {expected[where]} by meaning"  # fmt: skip
    return ""


def _size(value: SSAValue) -> int:
    """Bytes of an element as the text writes it."""
    if c_type(value.type) in ("u32", "u64") and not isinstance(value.type, FragType):
        return int(c_type(value.type)[1:]) // 8
    element = value.type.element_type if isinstance(value.type, FragType) else value.type
    return storage_dtype(element).itemsize


def _unread(op: Operation, value: SSAValue, count: int) -> Array:
    """Which numbers of a result lie in registers that the op need not compute."""
    registers = value.type.layout.registers if isinstance(value.type, FragType) else 1
    return np.arange(count) % registers % computed(op) > 0


def _terms(op: Operation, actor: HopperActor) -> Array | float:
    """How large the terms of each result of a sum are, together: it takes another order."""
    if isinstance(op, WarpProduct):
        return float(np.abs(actor.registers(op.result).data).max()) * 16
    if not isinstance(op, ReduceRegisters) or op.kind.data != "addf":
        return 0.0
    terms = np.abs(actor.registers(op.operand).data.astype(np.float64)).sum(axis=1, keepdims=True)
    return np.repeat(terms, layout_of(op.value).registers, axis=1).reshape(-1)


def close(found: Array, expected: Array, element: Any, terms: Array | float = 0.0) -> Array:
    """Equal, or apart by a rounding of the numbers or of `terms`; functions are approximate."""
    if found.dtype.kind != "f":
        return found == expected
    kind = storage_dtype(element)
    step = {1: 2**-2, 2: 2**-7 if kind == np.uint16 else 2**-10, 4: 2**-18, 8: 2**-40}
    a, b = found.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        size = np.maximum(np.maximum(np.abs(a), np.abs(b)), terms)
        near = np.abs(a - b) <= step[kind.itemsize] * size + 1e-30
    return near | (a == b) | (np.isnan(a) & np.isnan(b))


def compare_memory(machine: Machine, actor: HopperActor, before: Array, kept: list[Array]) -> str:
    """What is wrong with shared and global memory, or nothing."""
    allocations = actor.machine.memory.allocations
    pairs = [(machine.shared, actor.cta.shared, before, "shared memory")]
    pairs += [
        (region, allocation.bytes, old, allocation.name)
        for region, allocation, old in zip(machine.regions, allocations, kept, strict=False)
    ]
    for region, now, old, name in pairs:
        changed = now != old
        wrong = (region.written & (region.data != now)) | (changed & ~region.written)
        if wrong.any():
            at = int(wrong.argmax())
            what = "other bytes" if region.written[at] else "nothing"
            return f"the text writes {what} at byte {at} of {name} ({wrong.sum()} bytes differ)"
    return ""
