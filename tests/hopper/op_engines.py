"""What an op's text and its meaning tell engines and barriers, in the words of PTX."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_texts import APART, INPUTS, OpText
from xdsl.ir import SSAValue

from tawa.base.layout import LANES
from tawa.base.types import byte_size, f32
from tawa.hopper.dialect.matrix import Wgmma
from tawa.hopper.dialect.types import FragType
from tawa.simulate.interpret.actor import HopperActor
from tawa.simulate.ptx.machine import Machine, Note


def compare_calls(
    text: OpText, machine: Machine, calls: list[tuple[Any, ...]], actor: HopperActor
) -> str:
    """What is wrong with what engines and barriers are told, or nothing."""
    told = [_told(note) for note in machine.notes if note.opcode[:2] not in SILENT]
    asked = [
        instruction for call in calls for instruction in _instructions(text, machine, actor, call)
    ]
    if told != asked:
        return f"the engines are told {told}, and should be {asked}"
    return ""


def _told(note: Note) -> tuple[Any, ...]:
    """An instruction's opcode, and its operands if all threads give the same."""
    if note.opcode[:2] == ("wgmma", "mma_async"):
        return "wgmma", [operand.tolist() for operand in note.operands]
    if note.opcode[:3] in COPIES:
        chosen = [operand[note.threads].tolist() for operand in note.operands]
        return ".".join(note.opcode), chosen
    for operand in note.operands:
        if not note.threads.all() or (operand != operand[0]).any():
            return ".".join(note.opcode), "differs between threads"
    hints = note.opcode[-1] == "L2::cache_hint"
    opcode = note.opcode[: len(note.opcode) - hints]
    return ".".join(opcode), *(int(o[0]) for o in note.operands[: len(note.operands) - hints])


def _instructions(
    text: OpText, machine: Machine, actor: HopperActor, call: tuple[Any, ...]
) -> list[tuple[Any, ...]]:
    """The instructions of a call of the simulated machine."""
    if call[0] == "copy_async":
        return _copies(*call[1:])
    return MEETINGS.get(call[0]) or [_asked(text, machine, actor, *call)]


def _copies(
    to: np.ndarray, at: np.ndarray, what: tuple[Any, int], wanted: np.ndarray, by: np.ndarray
) -> list[tuple[Any, ...]]:
    """One instruction for each copy of a thread: where to, from where, its bytes, and how many."""
    size = byte_size(what[0]) * what[1]
    opcode = f"cp.async.{'cg' if size == 16 else 'ca'}.shared.global"
    found: list[tuple[Any, ...]] = []
    for i in range(to.shape[1]):
        chosen = by[:, i]
        counts = np.where(wanted[chosen, i], size, 0)
        sizes = np.full(len(counts), size)
        parts = (to[chosen, i], at[chosen, i], sizes, counts)
        found.append((opcode, [part.tolist() for part in parts]))
    return found


def _asked(
    text: OpText, machine: Machine, actor: HopperActor, name: str, *given: Any
) -> tuple[Any, ...]:
    """The same of a call of the simulated machine."""
    if name == "wgmma":
        return "wgmma", _matrix_operands(text, machine, actor, given[0])
    bulk = "cp.async.bulk"
    if name in ("tma_load", "tma_store"):
        map_, coordinates, tile = given[:3]
        box = [id(map_), *(int(c) % (1 << 32) for c in coordinates[::-1])]
        tensor = f"{bulk}.tensor.{len(coordinates)}d"
        if name == "tma_store":
            return f"{tensor}.global.shared::cta.bulk_group", *box, tile
        head = f"{tensor}.shared::cluster.global.mbarrier::complete_tx::bytes"
        barrier, ctas = given[3:]
        if ctas is None:
            return head, tile, *box, barrier
        return f"{head}.multicast::cluster", tile, *box, barrier, ctas
    if name == "mbarrier_arrive" and given[1] is not None:
        return "mbarrier.arrive.shared::cluster.b64", given[0] | (given[1] + 1) << 24
    if name == "named_barrier" and given[1] == LANES and given[2]:
        return "bar.warp.sync", (1 << 64) - 1
    if name == "named_barrier":
        return "bar.sync" if given[2] else "bar.arrive", *given[:2]
    return WORDS[name], *(number for number in given if number is not None)


MEETINGS: dict[str, list[tuple[Any, ...]]] = {
    "cta_sync": [("bar.sync", 0)],
    "cluster_sync": [("barrier.cluster.arrive.aligned",), ("barrier.cluster.wait.aligned",)],
}

COPIES = (("cp", "async", "cg"), ("cp", "async", "ca"))
"""Instructions whose operands are each thread's own."""

SILENT = (("prefetch", "tensormap"), ("fence", "acq_rel"))
"""Instructions that mean nothing where memory is one and every access is in order."""

WORDS = {
    "bulk_commit": "cp.async.bulk.commit_group",
    "bulk_wait_read": "cp.async.bulk.wait_group.read",
    "mbarrier_init": "mbarrier.init.shared::cta.b64",
    "mbarrier_expect": "mbarrier.arrive.expect_tx.shared::cta.b64",
    "mbarrier_arrive": "mbarrier.arrive.shared::cta.b64",
    "copy_arrive": "cp.async.mbarrier.arrive.noinc.shared::cta.b64",
    "mbarrier_wait": "mbarrier.try_wait.parity.shared::cta.b64",
    "bulk_wait": "cp.async.bulk.wait_group",
    "fence_proxy_global": "fence.proxy.async.global",
    "fence_proxy_async": "fence.proxy.async.shared::cta",
    "fence_barrier_init": "fence.mbarrier_init.release.cluster",
    "wgmma_fence": "wgmma.fence.sync.aligned",
    "wgmma_commit": "wgmma.commit_group.sync.aligned",
    "wgmma_wait": "wgmma.wait_group.sync.aligned",
}
"""Instructions whose operands are those of the simulated machine's method."""


def _matrix_operands(
    text: OpText, machine: Machine, actor: HopperActor, op: Wgmma
) -> list[list[int]]:
    """The operands of a matrix instruction: registers, descriptors, immediate numbers."""

    def registers(value: SSAValue, first: int, count: int) -> list[list[int]]:
        at = INPUTS + text.inputs.index(value) * APART
        data = next(r.data for r in machine.regions if r.first == at)
        return data.view(np.uint32).reshape(actor.threads, -1)[:, first : first + count].T.tolist()

    def everywhere(number: int) -> list[int]:
        return [number % (1 << 64)] * actor.threads

    found = registers(op.accumulator, op.first_register.value.data, op.n.value.data // 2)
    if isinstance(op.a.type, FragType):
        found += registers(op.a, op.a_offset.value.data * byte_size(op.a_type) // 4, 4)
    else:
        found.append(everywhere(int(actor.value(op.a)) + op.a_offset.value.data))
    found.append(everywhere(int(actor.value(op.b)) + op.b_offset.value.data))
    found.append(everywhere(op.accumulate is None or bool(actor.value(op.accumulate))))
    if isinstance(op.accumulator.type, FragType) and op.accumulator.type.element_type == f32:
        found += [everywhere(1), everywhere(1)]
    if byte_size(op.a_type) == 2:
        transposed = [op.transpose_a, op.transpose_b][isinstance(op.a.type, FragType) :]
        found += [everywhere(flag is not None) for flag in transposed]
    return found
