"""aref -> hopper: one kernel with roles, shared memory, barriers and tensor maps."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import DenseArrayBase, FunctionType, ModuleOp, StringAttr, i64
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue

from tawa.aref.analysis.layouts import Layouts
from tawa.aref.analysis.registers import (
    BESIDE_ACCUMULATORS,
    Sharing,
    accumulator_registers,
    blocks_in_flight,
)
from tawa.aref.dialect import ops as aref
from tawa.aref.passes.warp_products import multiplies_by_warps
from tawa.base.errors import TawaError
from tawa.base.options import Options
from tawa.base.spans import span_of
from tawa.base.types import shape_of, words_of
from tawa.codegen.assembly import ASSEMBLY
from tawa.codegen.atomics import ATOMICS
from tawa.codegen.channels import CHANNELS
from tawa.codegen.combining import COMBINING
from tawa.codegen.control import CONTROL
from tawa.codegen.debugging import DEBUGGING
from tawa.codegen.gathers import GATHERS
from tawa.codegen.group_lowering import GroupLowering
from tawa.codegen.joining import JOINING
from tawa.codegen.kernel_lowering import KernelLowering, LoweredRing
from tawa.codegen.matrix import MATRIX
from tawa.codegen.memory_order import Meet, order_accesses
from tawa.codegen.scans import SCANS
from tawa.codegen.shared_memory import SharedMemory, tile_for
from tawa.codegen.stores import STORES
from tawa.codegen.tensors import TENSORS
from tawa.hopper.dialect.core import number
from tawa.hopper.dialect.matrix import Wgmma
from tawa.hopper.dialect.memory import BulkWaitRead
from tawa.hopper.dialect.structure import OneThread, PrefetchTensorMap, Role, SharedWarpGroup
from tawa.hopper.dialect.sync import (
    ClusterSync,
    CtaSync,
    FenceBarrierInit,
    GridRelease,
    GridWait,
    MbarrierInit,
)
from tawa.hopper.dialect.types import TensorMapType
from tawa.hopper.dialect.warp_matrix import WarpProduct
from tawa.ir.boxes import REGULAR
from tawa.ir.contracts import Contract
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.memory import MemoryLaidOut, Part, RegistersShared
from tawa.ir.kernels import AT_LEAST, RELEASES, argument_names
from tawa.ir.properties import AREF_LEVEL, AT_LEVEL, LAID_OUT, LOWERED, TIDY
from tawa.ir.scalars.cpp_names import entry_name
from tawa.ir.walking import all_of, every, has
from tawa.machine.chips import SM_90A
from tawa.tile.analysis.alias import ALIKE, APART, pairs
from tawa.tile.analysis.axis_info import AxisAnalysis
from tawa.tile.dialect.ops import DescStore

TABLE: dict[type[Operation], Callable[..., None]] = {
    **CONTROL,
    **CHANNELS,
    **TENSORS,
    **ATOMICS,
    **COMBINING,
    **SCANS,
    **JOINING,
    **GATHERS,
    **ASSEMBLY,
    **DEBUGGING,
    **MATRIX,
    **STORES,
}
"""Lowering of every op that a warp group may hold."""


class RegistersExceeded(TawaError):
    """The accumulators need more registers than a thread has."""

    explanation = (
        "A consumer thread holds its share of every accumulator in registers (at most 255, fewer "
        "with several consumers). Use smaller blocks or more consumer warp groups."
    )
    example = """
import tawa
import tawa.language as tl


@tawa.jit
def gemm(a, b, c, K, M: tl.constexpr, N: tl.constexpr):
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
    c.store([0, 0], acc.to(tl.float16))


tile = "desc<f16,{}x{}>".format
gemm.compile(tile(256, 64), tile(256, 64), tile(256, 256), "i32", 256, 256, consumers=1)
"""


@dataclass(frozen=True)
class LowerToHopper:
    """aref -> hopper."""

    options: Options
    decided: Decisions
    narrow: bool = False
    """Whether the loading role keeps the fewest registers, because an attempt spilled."""
    spare: int = 0
    """Registers more for a role that copies through pointers, because an attempt spilled."""
    name: ClassVar[str] = "lower-to-hopper"
    contract: ClassVar[Contract] = Contract(
        requires=AT_LEVEL["aref"],
        establishes=(LOWERED, LAID_OUT),
        invalidates=(*AREF_LEVEL, TIDY),
    )

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The hopper module of an aref module with one kernel."""
        source = next(op for op in module.ops if isinstance(op, func.FuncOp))
        target = self.options.machine
        kernel = KernelLowering(source, self.options, SharedMemory(target))
        groups = [op for op in source.body.block.ops if isinstance(op, aref.WarpGroup)]
        kernel.only_group = len(groups) == 1
        created = [op for op in source.body.block.ops if isinstance(op, aref.Create)]
        setup = self._rings(kernel, created, groups)
        roles, threads, meet = self._roles(kernel, groups)
        assert threads <= SM_90A.lanes * SM_90A.cta_warps, f"{threads} threads"
        maps = [a for a in kernel.block.args if isinstance(a.type, TensorMapType)]
        kernel.block.add_ops(kernel.declarations)
        first = Block(
            [*setup, *([FenceBarrierInit()] if setup else []), *map(PrefetchTensorMap, maps)]
        )
        if setup or maps:
            kernel.block.add_op(OneThread("cta", Region(first)))
            kernel.block.add_op(ClusterSync() if self.options.cluster > 1 else CtaSync())
        if self.options.launch_pdl:
            kernel.block.add_op(GridWait())
        if RELEASES in source.attributes:
            kernel.block.add_op(GridRelease())
        kernel.block.add_ops(roles)
        if self.options.cluster > 1:
            # No CTA may leave while the other may still write to it or arrive at its barriers.
            kernel.block.add_op(ClusterSync())
        kernel.block.add_op(func.ReturnOp())
        inputs = [a.type for a in kernel.block.args]
        new = func.FuncOp(
            entry_name(source.sym_name.data),
            FunctionType.from_lists(inputs, []),
            Region(kernel.block),
        )
        self._describe(new, kernel, threads)
        order_accesses(new, source, kernel.parameters, meet)
        return ModuleOp([new])

    def _describe(self, new: func.FuncOp, kernel: KernelLowering, threads: int) -> None:
        total = kernel.memory.finish(span_of(kernel.source))
        user = argument_names(kernel.source)[: kernel.user_arguments]
        spec: dict[str, object] = {
            "entry": entry_name(kernel.source.sym_name.data),
            "threads": threads,
            "shared_bytes": total,
            "parameters": kernel.parameters,
            "arguments": user,
            "cluster": [self.options.cluster, 1, 1],
            "grid": "persistent" if kernel.persistent else "plain",
            "ctas_per_sm": self.options.ctas_per_sm,
        }
        if self.options.launch_cooperative_grid:
            spec["cooperative"] = True
        if self.options.launch_pdl:
            spec["early"] = True
        apart = [[user[i], user[j]] for i, j in pairs(kernel.source, APART)]
        if apart:
            spec["apart"] = apart
        if alike := pairs(kernel.source, ALIKE):
            spec["alike"] = [[user[n] for n in numbers] for numbers in alike]
        if self.options.same_array:
            spec["same"] = self.options.same_array
        new.attributes |= {
            "hopper.threads": number(threads),
            "hopper.shared_bytes": number(total),
            "hopper.cluster": number(self.options.cluster),
            "hopper.ctas_per_sm": number(self.options.ctas_per_sm),
            "tawa.spec": StringAttr(json.dumps(spec)),
        }
        if promised := kernel.promised:
            new.attributes[AT_LEAST] = DenseArrayBase.from_list(i64, promised)
        if self.options.maxnreg is not None:
            new.attributes["hopper.maxnreg"] = number(self.options.maxnreg)
        parts = tuple(Part(name, size) for name, size in kernel.memory.parts)
        span = span_of(kernel.source)
        self.decided.add(MemoryLaidOut(total, parts, threads, span=span))

    def _rings(
        self, kernel: KernelLowering, created: list[aref.Create], groups: list[aref.WarpGroup]
    ) -> list[Operation]:
        """Tiles and barriers of every ring; returns the ops that initialise the barriers."""
        setup: list[Operation] = []
        copying = {
            op.ref: SM_90A.lanes * group.warps.value.data
            for group in groups
            for op in every(group)
            if isinstance(op, aref.CopyInto)
        }
        readers = {
            op.ref: group
            for group in groups
            for op in every(group)
            if isinstance(op, aref.GetEnter)
        }
        for create in created:
            assert isinstance(create.ref.type, aref.RefType)
            depth, stem = create.ref.type.depth.data, create.ref.name_hint or "ring"
            tiles: list[SSAValue] = []
            size = 0
            for tensor in create.ref.type.tiles:
                tile = tile_for(tuple(tensor.get_shape()), tensor.element_type)
                ring = kernel.memory.ring(f"{stem}_{len(tiles)}", depth, tile)
                kernel.declarations.append(ring)
                tiles.append(ring.ring)
                size += tile.filled
            reader = readers[create.ref]
            multicast = create.multicast is not None
            arrivals = max(1, reader.warps.value.data // SM_90A.group_warps) * (
                self.options.cluster if multicast else 1
            )
            copied, boxed, fills = self._fills(create, copying.get(create.ref, 0))
            full = kernel.memory.barriers(f"{stem}_full", fills, depth)
            empty = kernel.memory.barriers(f"{stem}_empty", arrivals, depth)
            kernel.declarations += [full, empty]
            setup += [MbarrierInit(full.barrier, fills), MbarrierInit(empty.barrier, arrivals)]
            kernel.rings[create.ref] = LoweredRing(
                tiles, full.barrier, empty.barrier, size, multicast, copied, boxed
            )
        return setup

    @staticmethod
    def _fills(create: aref.Create, threads: int) -> tuple[frozenset[int], frozenset[int], int]:
        """The tiles of a slot that threads copy, those that may be boxes, and arrivals when full.

        Every one of the `threads` that copy arrives, and one that hands copies to the TMA engine:
        all that only it copies together, and each of the boxes.
        """
        users = (use.operation for use in create.ref.uses)
        copies = [op for op in users if isinstance(op, aref.CopyInto)]
        if not copies:
            return frozenset(), frozenset(), 1
        copied, boxed = set[int](), set[int]()
        for copy in copies:
            enter = copy.token.owner
            assert isinstance(enter, aref.PutEnter)
            index = enter.views.index(copy.view)
            copied.add(index)
            boxed |= {index} if copy.box else set()
        assert isinstance(create.ref.type, aref.RefType)
        beside = len(copied) < len(create.ref.type.tiles.data)
        return frozenset(copied), frozenset(boxed), threads + beside + len(boxed)

    def _roles(
        self, kernel: KernelLowering, groups: list[aref.WarpGroup]
    ) -> tuple[list[Operation], int, dict[Role, Meet]]:
        """The roles, computing ones first (their warps are the lowest), and the CTA's threads.

        Also how the teams of each role meet.
        """
        axes = AxisAnalysis()
        computing = [g for g in groups if g.computes]
        moving = [g for g in groups if g.moves is not None]
        loading = [g for g in groups if g.loads]
        warps = sum(g.warps.value.data * g.teams.value.data for g in computing)
        specialised = len(computing) < len(groups)
        needs = sharing(groups)
        split = needs.split(self.options.machine, self.narrow, self.spare)
        if needs.addresses and split.producer is not None and split.consumer is not None:
            shared = RegistersShared(split.producer, split.consumer, span=span_of(kernel.source))
            self.decided.add(shared)
        limit = split.limit if specialised else SM_90A.max_registers
        self._check_registers(kernel, max(map(_held_together, computing), default=0), limit)
        if split.producer is not None:
            kernel.in_flight = blocks_in_flight(split.producer)
        roles: list[Role] = []
        meet: dict[Role, Meet] = {}
        first, barrier = 0, 1
        for group in [*computing, *moving, *loading]:
            lowering = GroupLowering(kernel, group, Layouts(group, axes), barrier, TABLE)
            barrier = lowering.next_barrier()
            block = Block()
            lowering.run(block)
            if has(group, DescStore):
                # Shared memory must outlive the copies that read it.
                block.add_op(OneThread("group", Region(Block([BulkWaitRead(0)]))))
            single = group.single is not None
            count = group.warps.value.data
            teams = group.teams.value.data
            converts = group.converts is not None
            registers = split.producer if group.loads else split.consumer
            registers = split.converter if converts else registers
            if moving and not group.computes:
                count, registers = (1 if single else count), None
            # Products' descriptors and addresses are computed from a warp-uniform number.
            multiplies = any(isinstance(op, Wgmma | WarpProduct) for op in every(block))
            whole = len(groups) == teams == 1 and not single and not multiplies
            roles.append(
                Role(group.role.data, first, count, teams, Region(block), single=single,
                     gives=group.copies is not None or converts, whole=whole,
                     registers=registers if specialised else None)
            )  # fmt: skip
            meet[roles[-1]] = lowering.meeting
            first += count * teams
        if not moving:
            return [*roles], 32 * first, meet
        count = len(computing)
        shared = SharedWarpGroup(warps, split.producer, roles[count:])
        return [*roles[:count], shared], 32 * (warps + shared.WARPS), meet

    def _check_registers(self, kernel: KernelLowering, accumulators: int, limit: int) -> None:
        room = limit - BESIDE_ACCUMULATORS
        if accumulators > room:
            raise RegistersExceeded(
                "the accumulators do not fit in registers",
                span=span_of(kernel.source),
                expected=f"at most {room} registers a thread",
                found=f"{accumulators} registers a thread",
                hint="use smaller blocks or more consumers",
            )


def sharing(groups: Sequence[aref.WarpGroup]) -> Sharing:
    """What the roles of a CTA need of its registers."""
    computing = [g for g in groups if g.computes and g.converts is None]
    copying = [g for g in groups if g.copies is not None]
    converting = [g for g in groups if g.converts is not None]
    warps = sum(g.warps.value.data * g.teams.value.data for g in computing)
    # Products of few rows leave registers over: several CTAs are to share them.
    by_warps = bool(computing) and all(map(multiplies_by_warps, computing))
    return Sharing(
        warps if len(computing) < len(groups) and not by_warps else 0,
        max(map(_accumulators, computing), default=0),
        sum(g.warps.value.data for g in copying),
        max(map(_addresses, copying), default=0),
        sum(g.warps.value.data for g in converting),
        max(map(_converted, converting), default=0),
        all(op.desc is not None for group in copying for op in all_of(group, aref.CopyInto)),
    )


def _converted(group: aref.WarpGroup) -> int:
    """Elements of operands that a thread of a converting role makes at a time."""
    stores = all_of(group, aref.StoreInto)
    threads = SM_90A.lanes * group.warps.value.data
    return max((math.prod(shape_of(op.value.type)) // threads for op in stores), default=0)


def _addresses(group: aref.WarpGroup) -> int:
    """Addresses that a copying role's thread has at hand in an iteration of its innermost loop."""
    layouts = Layouts(group, AxisAnalysis())
    found: dict[Block | None, int] = {}
    for op in every(group):
        if isinstance(op, aref.CopyInto) and REGULAR not in op.attributes:
            layout, count = layouts.copied(op)
            found[op.parent] = found.get(op.parent, 0) + layout.registers // count
    return max(found.values(), default=0)


def _goes_on(op: aref.DotIssue) -> bool:
    """Whether a product adds to what another product of its block has left in registers."""
    value = op.accumulator
    while isinstance(value.owner, aref.DotWait) and isinstance(value, OpResult):
        value = value.owner.operands[value.index]
    return isinstance(value.owner, aref.DotIssue) and value.owner.parent is op.parent


def _held_together(group: aref.WarpGroup) -> int:
    """Registers a thread needs at least: for what a block's loop carries, and one product more."""
    carried: dict[Block, list[int]] = {}
    others: dict[Block, int] = {}
    for op in every(group):
        if isinstance(op, aref.DotIssue) and not _goes_on(op) and (block := op.parent) is not None:
            size = words_of(op.result.type)
            if isinstance(op.accumulator, BlockArgument) and op.accumulator.owner is block:
                carried.setdefault(block, []).append(size)
            else:
                others[block] = max(others.get(block, 0), size)
    blocks = {*carried, *others}
    warps = group.warps.value.data
    sizes = ([*carried.get(block, []), others.get(block, 0)] for block in blocks)
    return max((accumulator_registers(held, warps) for held in sizes), default=0)


def _accumulators(group: aref.WarpGroup) -> int:
    """Registers a thread of the group needs for the accumulators of one block's products."""
    sizes: dict[Block | None, list[int]] = {}
    for op in every(group):
        if isinstance(op, aref.DotIssue) and not _goes_on(op):
            sizes.setdefault(op.parent, []).append(words_of(op.result.type))
    warps = group.warps.value.data
    found = [0]
    for block, parts in sizes.items():
        # Straight-line products follow each other; those of a loop's body are there together.
        looped = block is not None and isinstance(block.parent_op(), scf.ForOp)
        found.append(accumulator_registers(parts if looped else [max(parts)], warps))
    return max(found)
