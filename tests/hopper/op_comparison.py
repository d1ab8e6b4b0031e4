"""Each op of a kernel by its CUDA text and by its meaning, with the inputs of a simulated run.

While the simulator runs the whole kernel, every op is executed both ways: by its `run`, and by its
text, which `ptx_machine` executes. Results, stores and what the engines are told have to agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from op_engines import compare_calls
from op_results import compare_memory, compare_results
from op_texts import APART, INPUTS, OUTPUTS, STRUCTURE, OpText, ptx_of, text_of, written
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import Pure

from tawa.base.numerics import encode, value_dtype
from tawa.base.types import PlanType, byte_size
from tawa.hopper.dialect import HopperOp
from tawa.hopper.dialect.memory import Slot
from tawa.hopper.dialect.structure import OneThread, Role
from tawa.hopper.dialect.text import c_type
from tawa.hopper.dialect.types import FragType, TensorMapType
from tawa.ir.elementwise import Map
from tawa.simulate.interpret.actor import HopperActor
from tawa.simulate.ptx.arithmetic import Unsupported
from tawa.simulate.ptx.machine import BadAccess, Machine, Region

VISITS = 2
"""Executions of an op that are compared, in each place of a CTA."""


class TextDiffers(AssertionError):
    """An op's text computes something else than its meaning."""


CALLS = (
    "tma_load", "tma_store", "bulk_commit", "bulk_wait_read", "bulk_wait", "mbarrier_init", "mbarrier_expect",
    "mbarrier_arrive", "mbarrier_wait", "named_barrier", "cta_sync", "cluster_sync",
    "copy_async", "copy_arrive", "fence_proxy_async", "fence_proxy_global", "fence_barrier_init", "wgmma_fence", "wgmma", "wgmma_commit", "wgmma_wait",
)  # fmt: skip


@dataclass
class Comparison:
    """Ops of one module by text and meaning; `seen` counts the executions compared, by op."""

    texts: dict[Operation, OpText] = field(default_factory=dict[Operation, OpText])
    seen: Counter[str] = field(default_factory=Counter[str])
    unsupported: Counter[str] = field(default_factory=Counter[str])
    visits: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    known: dict[str, OpText] = field(default_factory=dict[str, OpText])
    """By text, of all modules."""
    random: Random = field(default_factory=lambda: Random(0))
    planted: tuple[str, str] | None = None
    """A piece of text, and what is put in its place."""

    def add(self, module: ModuleOp) -> None:
        """Compile the texts of a module's ops that were not seen before."""
        new: list[OpText] = []
        self.texts.clear()
        for op in module.walk():
            if not written(op) and not isinstance(op, Role | OneThread):
                continue
            found = text_of(op, "NAME")
            known = self.known.get(found.text)
            if known is None:
                known = self.known[found.text] = found
                found.name = f"op{len(self.known)}"
                found.text = found.text.replace("NAME", found.name, 1)
                new.append(found)
            self.texts[op] = OpText(
                known.name, known.text, {}, found.inputs, found.outputs, known.kernel
            )
        if new:
            ptx_of(new, self.planted)
        compiled = {text.name: text.kernel for text in self.known.values()}
        for text in self.texts.values():
            text.kernel = compiled[text.name]

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Compare all that simulated actors do."""
        before = HopperActor.block_ops
        outer = self

        def block_ops(actor: HopperActor, block: Block) -> Iterator[Any]:
            outer.enter(actor, block.parent_op())
            for op in block.ops:
                actor.op = op
                yield from outer.execute(actor, op)

        HopperActor.block_ops = block_ops  # pyright: ignore
        try:
            yield
        finally:
            HopperActor.block_ops = before

    def enter(self, actor: HopperActor, op: Operation | None) -> None:
        """Compare who runs the region of a role, or of one thread."""
        text = self.texts.get(op) if isinstance(op, Role | OneThread) else None
        if text is None or op is None or self.visits[text.name, actor.warps.first] >= VISITS:
            return
        self.visits[text.name, actor.warps.first] += 1
        self.seen[op.name] += 1
        threads = 32 * actor.warps.count
        machine = executed(text, actor, op, threads)
        (out,) = (r for r in machine.regions if r.first == OUTPUTS)
        reached, value = out.written.reshape(-1, 4).all(axis=1), out.data.view(np.int32)
        expected = actor.team * 65536 + actor.first_thread + np.arange(threads)
        if reached.sum() != actor.threads or (value != expected)[: actor.threads].any():
            found = [divmod(int(v), 65536) for v in value[reached]]
            raise TextDiffers(f"{op.name} of {actor.name}: run by team and thread {found[:4]}...")

    def execute(self, actor: HopperActor, op: Operation) -> Iterator[Any]:
        """Run an op as the simulator does; compare it with its text, the first times."""
        text = None if isinstance(op, STRUCTURE) else self.texts.get(op)
        once = text is not None and op.results  # what stores or tells engines, in each place
        key = (f"{op.name} {text.name}" if text and once else str(id(op)), actor.warps.first)
        self.visits[key] += 1
        run = op.run if isinstance(op, HopperOp) else lambda m: actor.builtin[type(op)](m, op)
        if text is None or self.visits[key] > VISITS:
            yield from run(actor) or ()
            return
        try:
            machine = executed(text, actor, op)
        except BadAccess as reason:
            raise TextDiffers(
                f"{op.name} in {actor.doing()}: {reason}\n{op}\n{text.text}"
            ) from None
        except Unsupported as reason:
            self.unsupported[f"{op.name}: {reason}"] += 1
            yield from run(actor) or ()
            return
        problem = self.shaken(text, actor, op)
        before = actor.cta.shared.copy()
        kept = [a.bytes.copy() for a in actor.machine.memory.allocations]
        calls: list[tuple[Any, ...]] = []
        with _listening(actor, calls):
            steps = run(actor)
            waited = False
            for step in steps or ():
                waited = True
                yield step
        problem = problem or compare_results(text, machine, actor, op)
        problem = problem or compare_calls(text, machine, calls, actor)
        if not waited and not problem:
            problem = compare_memory(machine, actor, before, kept)
        self.seen[op.name if not isinstance(op, Map) else f"map {op.function.data}"] += 1
        if problem:
            raise TextDiffers(f"{op.name} in {actor.doing()}: {problem}\n{op}\n{text.text}")

    def shaken(self, text: OpText, actor: HopperActor, op: Operation) -> str:
        """What is wrong for any scalars: addresses and index arithmetic of later turns."""
        kinds = [c_type(value.type) for value in (*text.inputs, *op.results)]
        if not op.has_trait(Pure) or not {"i1", "i32", "u32", "i64", "u64"}.issuperset(kinds):
            return ""
        if any(isinstance(v.type, FragType) for v in (*text.inputs, *op.results)):
            return ""
        if isinstance(op, Map) and op.function.data.startswith("sh"):
            return ""  # a shift by more than there are bits means nothing
        kept = dict(actor.values)
        numbers = range(op.ring.type.slots.data) if isinstance(op, Slot) else range(1, 1000)
        for value, kind in zip(text.inputs, kinds, strict=False):
            number = self.random.choice(numbers)
            addresses = kind in ("u32", "u64")
            actor.values[value] = (
                1024 * (number % 128) if addresses else np.asarray(number, value_dtype(value.type))
            )
        machine = executed(text, actor, op)
        run = op.run if isinstance(op, HopperOp) else lambda m: actor.builtin[type(op)](m, op)
        for _ in run(actor) or ():
            pass
        problem = compare_results(text, machine, actor, op)
        actor.values = kept
        return problem


@contextmanager
def _listening(actor: HopperActor, calls: list[tuple[Any, ...]]) -> Iterator[None]:
    """Note what an actor asks of engines and barriers."""

    def listener(name: str) -> Any:
        method = getattr(actor, name)

        def heard(*given: Any, **named: Any) -> Any:
            calls.append((name, *given, *named.values()))
            return method(*given, **named)

        return heard

    before = {name: actor.__dict__.get(name) for name in CALLS}
    actor.__dict__.update({name: listener(name) for name in CALLS})
    try:
        yield
    finally:
        for name, method in before.items():
            if method is None:
                del actor.__dict__[name]
            else:
                actor.__dict__[name] = method


# --- by text --------------------------------------------------------------------------------------


def executed(
    text: OpText, actor: HopperActor, op: Operation, threads: int | None = None
) -> Machine:
    """Run an op's text on an actor's values; memory is copied."""
    assert text.kernel is not None
    threads = threads or actor.threads
    first = 32 * actor.warps.first
    special = {"%tid.x": first + np.arange(threads, dtype=np.uint32)}
    for axis, block, grid in zip("xyz", actor.block, actor.grid, strict=True):
        special[f"%ctaid.{axis}"] = np.full(threads, block, np.uint32)
        special[f"%nctaid.{axis}"] = np.full(threads, grid, np.uint32)
    special["%cluster_ctarank"] = np.full(threads, actor.rank, np.uint32)
    parameters = [first, actor.first_thread // 32, actor.team]
    allocations = actor.machine.memory.allocations
    regions = [Region(a.first, a.bytes.copy()) for a in allocations]
    for number, value in enumerate(text.inputs):
        parameters.append(_given(actor, value, INPUTS + number * APART, regions))
    for number, value in enumerate(text.outputs):
        at, size = OUTPUTS + number * APART, _bytes(value) * actor.threads
        regions.append(Region(at, np.full(size, 0xA5, np.uint8)))
        parameters.append(at)
    if isinstance(op, Role | OneThread):
        regions.append(Region(OUTPUTS, np.zeros(4 * threads, np.uint8)))
        parameters.append(OUTPUTS)
    shared = Region(0, actor.cta.shared.copy())
    machine = Machine(text.kernel, parameters, special, regions, shared)
    machine.run()
    return machine


def _bytes(value: SSAValue) -> int:
    """Of a value in one thread."""
    if isinstance(value.type, FragType):
        return byte_size(value.type.element_type) * value.type.layout.registers
    return {"u32": 4, "u64": 8}.get(c_type(value.type)) or byte_size(value.type)


def _given(actor: HopperActor, value: SSAValue, at: int, regions: list[Region]) -> int:
    """A parameter: a scalar's bits, or where a fragment lies."""
    if isinstance(value.type, FragType):
        data = encode(actor.registers(value).data, value.type.element_type)
        regions.append(Region(at, np.ascontiguousarray(data).view(np.uint8).reshape(-1)))
        return at
    if isinstance(value.type, TensorMapType):
        return id(actor.value(value))
    if isinstance(value.type, PlanType):
        entries = np.asarray(actor.value(value), np.uint16)
        regions.append(Region(at, entries.view(np.uint8).reshape(-1).copy()))
        return at
    found = actor.value(value)
    if c_type(value.type) in ("u32", "u64"):
        return int(found)
    stored = np.asarray(encode(np.asarray(found), value.type)).reshape(1)
    return int.from_bytes(np.ascontiguousarray(stored).tobytes(), "little")
