"""Partition (tile -> aref): who loads, who computes, and the arefs between them.

After the paper's task-aware partition: every role gets a copy of the whole program in which only
what its own effects need survives. The loading role's effects are descriptor loads into arefs, the
computing role's are everything else; address arithmetic and control flow that both need are thereby
duplicated.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import IsTerminator

from tawa.aref.analysis.registers import BESIDE_ACCUMULATORS, MOST
from tawa.aref.dialect import ops as aref
from tawa.base.options import Options, RequestUnmet
from tawa.base.spans import copy_span, span_of
from tawa.base.types import element_of, shape_of
from tawa.ir.boxes import REGULAR
from tawa.ir.contracts import Contract
from tawa.ir.copying import copied_region
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.roles import (
    CopiedAhead,
    CopiedThroughPointers,
    FewerWarps,
    LoadTogetherUnneeded,
    MoreWarps,
    NotSpecialised,
    NotThroughRing,
    ProgramsDealt,
    ProgramsNotSerialised,
    Specialised,
)
from tawa.ir.effects import FILLED, HINT, has_effect, only_on, touches
from tawa.ir.loops import prune, users_in
from tawa.ir.properties import (
    ARGUMENT_DESCRIPTORS,
    AS_PARTITIONED,
    DOTS,
    ONE_PROGRAM,
    OPEN_SLOTS,
    ROLES,
    TIDY,
    WIDE_SUMS,
)
from tawa.ir.walking import all_of, every, has
from tawa.machine.chips import SM_90A
from tawa.partition.in_place import descriptor_loads, load_after_acquire, load_after_store
from tawa.partition.multicast import ClusterNotPossible, mark_shared
from tawa.partition.obstacles import Obstacle, producer_obstacle, written_arguments
from tawa.partition.own_copies import own_copies
from tawa.partition.persistent import make_persistent
from tawa.partition.pointer_loads import (
    GROUP_WARPS,
    MOST_ADDRESS_WORK,
    TURNED,
    address_work,
    choose,
    obstacle_to_copies,
    reason_against,
    wanted_loads,
    without_room,
)
from tawa.partition.rings import (
    RingLoad,
    RingPlan,
    apart,
    first,
    label,
    labelled,
    latest,
    needed_before,
    plan_rings,
    share_rings,
    unlabel,
)
from tawa.partition.rows_beside import rows_beside
from tawa.partition.warps import carried, has_halves, warps_with_instructions, warps_with_room
from tawa.tile.analysis.alias import OUT_OF_ORDER
from tawa.tile.analysis.axis_info import AxisAnalysis
from tawa.tile.analysis.waits import waiting_loop
from tawa.tile.dialect.ops import (
    DescLoad,
    Dot,
    Load,
    Trans,
    ViewLike,
)

ROWS_FOR_WARPS = GROUP_WARPS
"""Computing warps for which rows beside operands are copied: products of two groups take as long
as a load that is an iteration ahead (fp8 with block scales: 191 us without, 281 and more with)."""


class NotSpecialisable(RequestUnmet):
    """Specialisation was asked for, and this kernel cannot be split into roles."""

    explanation = (
        "`specialize=True` asks for a warp group that loads and others that compute. That needs "
        "tiles loaded through tensor descriptors at coordinates that do not depend on the tiles "
        "themselves. Load through descriptors, or leave `specialize` unset."
    )
    example = """
import tawa
import tawa.language as tl


@tawa.jit
def scale(x, N: tl.constexpr):
    at = x + tl.arange(0, N)
    tl.store(at, tl.load(at) * 2)


scale.compile("*f32", 128, specialize=True)
"""


class ConsumersNotPossible(RequestUnmet):
    """The consumer warp groups asked for cannot share this kernel's tiles."""

    explanation = (
        "Consumers that share a tile take rows of it in blocks of 64, or columns in blocks of 8. "
        "So the first dimension of every matrix product must be a multiple of 64 times the number "
        "of consumers. Ping-pong consumers need a loop over tiles: the kernel's own, or "
        "`persistent=True`."
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
gemm.compile(tile(128, 64), tile(128, 64), tile(128, 128), "i32", 128, 128, consumers=3)
"""


def _agreements(block: Block) -> dict[int, Sequence[SSAValue]]:
    """The flags of every ring that a cluster may share: any of its loads, then each."""
    found = all_of(block, aref.Agree)
    return {op.ring.value.data: op.flags for op in found}


def _put_all(block: Block, refs: Sequence[SSAValue]) -> None:
    """Replace loads by puts; the loads stay for whoever still needs their value."""
    shared = _agreements(block)
    for ring, loads in labelled(block):
        last, ref = latest(loads), refs[ring]
        home = last.parent
        assert home is not None
        enter = aref.PutEnter(ref)
        enter.token.name_hint = "slot"
        new: list[Operation] = [enter]
        flags: Sequence[SSAValue | None] = shared.get(ring, [None] * (len(loads) + 1))
        for load, view, flag in zip(loads, enter.views, flags[1:], strict=True):
            view.name_hint = load.result.name_hint
            new.append(_fill(load, view, enter, flag))
            copy_span(load, new[-1:])
        copies = any(isinstance(load, Load) for load in loads)
        new.append(aref.PutExit(ref, enter.token, "copies" if copies else "tma"))
        copy_span(last, [enter, new[-1]])
        home.insert_ops_before(new, last)


def _fills(op: Operation) -> bool:
    """Whether an op is there to fill a slot."""
    return not op.regions and touches(op, FILLED)


def _fill(
    load: RingLoad, view: SSAValue, enter: aref.PutEnter, flag: SSAValue | None
) -> aref.LoadInto | aref.CopyInto:
    """The op that loads a tile into a view of the entered slot."""
    slot = enter.ref, enter.token
    if isinstance(load, Load):
        turned = TURNED in load.attributes
        copy = aref.CopyInto(load.ptr, load.mask, view, slot, turned=turned, box=load.box)
        if REGULAR in load.attributes:
            copy.attributes[REGULAR] = load.attributes[REGULAR]
        return copy
    return aref.LoadInto(load.desc, load.coordinates, view, *slot, flag, load.eviction)


def _last_user(values: Iterable[SSAValue], home: Block) -> Operation:
    """The last op of `home` that uses any of the values, or a view of them."""
    users: list[Operation] = []
    work = list(values)
    while work:
        value = work.pop()
        users += users_in(value, home)
        work += [u.operation.results[0] for u in value.uses if isinstance(u.operation, ViewLike)]
    return latest(users)


def _get_all(block: Block, refs: Sequence[SSAValue]) -> None:
    """Replace loads by gets; a slot is returned after the last use of its tiles."""
    shared = _agreements(block)
    for ring, loads in labelled(block):
        ref = refs[ring]
        place = first(loads) if needed_before(loads) else latest(loads)
        home = place.parent
        assert home is not None
        enter = aref.GetEnter(ref)
        enter.token.name_hint = "slot"
        new: list[Operation] = [enter]
        values: list[SSAValue] = []
        for load, view in zip(loads, enter.views, strict=True):
            view.name_hint = load.result.name_hint
            read = aref.ViewRead(view)
            read.result.name_hint = load.result.name_hint
            copy_span(load, [read])
            new.append(read)
            values.append(read.result)
            if TURNED in load.attributes:
                new.append(Trans(read.result, (1, 0)))
                copy_span(load, new[-1:])
                values[-1] = new[-1].results[0]
        copy_span(place, [enter])
        home.insert_ops_before(new, place)
        for load, value in zip(loads, values, strict=True):
            load.result.replace_all_uses_with(value)
            load.detach()
            load.erase()
        flags = shared.get(ring)
        done = aref.Consumed(ref, enter.token, "none", flags[0] if flags else None)
        copy_span(new[1], [done])
        used = [v for v in values if any(True for _ in v.uses)]
        last = _last_user(used, home) if used else enter
        if last.has_trait(IsTerminator):  # passed on, the tile has been read into registers
            home.insert_op_before(done, last)
        else:
            home.insert_op_after(done, last)


def _products(kernel: func.FuncOp) -> list[Dot]:
    """The products that warp groups compute: others are done by warps, however many there are."""
    found = all_of(kernel, Dot)
    return [op for op in found if shape_of(op.result.type)[-2] % 64 == 0]


def copy_body(kernel: func.FuncOp, arguments: Sequence[SSAValue]) -> Region:
    """A copy of a kernel's body as a region without arguments or terminator."""
    body = copied_region(kernel.body)
    block = body.block
    for old, new in zip(list(block.args), arguments, strict=True):
        old.replace_all_uses_with(new)
    for old in reversed(list(block.args)):
        block.erase_arg(old)
    last = block.last_op
    if isinstance(last, func.ReturnOp):
        last.detach()
        last.erase()
    return body


def _empty(kernel: func.FuncOp) -> func.FuncOp:
    """A function with a kernel's name, arguments and attributes, and nothing in it."""
    block = Block(arg_types=kernel.function_type.inputs.data)
    found = func.FuncOp(kernel.sym_name.data, kernel.function_type, Region(block))
    found.attributes |= kernel.attributes
    return found


def _create(rings: Sequence[RingPlan], shared: set[int]) -> list[aref.Create]:
    """The rings, all of one slot as yet."""
    found: list[aref.Create] = []
    for number, ring in enumerate(rings):
        create = aref.Create(1, ring.tiles, multicast=number in shared)
        create.ref.name_hint = "_".join(load.result.name_hint or "tile" for load in ring.loads)
        copy_span(ring.loads[0], [create])
        found.append(create)
    return found


@dataclass(frozen=True)
class Partition:
    """tile -> aref."""

    options: Options
    decided: Decisions
    name: ClassVar[str] = "partition"
    contract: ClassVar[Contract] = Contract(
        requires=(ONE_PROGRAM, ARGUMENT_DESCRIPTORS, WIDE_SUMS),
        establishes=(ROLES, AS_PARTITIONED, DOTS, OPEN_SLOTS),
        invalidates=(ONE_PROGRAM, TIDY),
    )

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The aref module of a tile module with one kernel."""
        kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
        after = self._late_load(kernel)
        if self.options.persistent:
            self._deal(kernel)
        pointers = self._pointer_loads(kernel)
        rings, shared = self._plan(kernel, pointers)
        new = _empty(kernel)
        if kernel.arg_attrs is not None:
            new.properties["arg_attrs"] = kernel.arg_attrs
        block = new.body.block
        for old, argument in zip(kernel.args, block.args, strict=True):
            argument.name_hint = old.name_hint
        created = _create(rings, shared)
        refs = [c.ref for c in created]
        producer = self._producer(kernel, block.args, refs, after) if rings else None
        if producer is None and pointers and after is None:
            rings, shared = self._plan(kernel, ())
            created = _create(rings, shared)
            refs = [c.ref for c in created]
            producer = self._producer(kernel, block.args, refs) if rings else None
        if producer is None:
            self._require_no_cluster(kernel, shared)
            created = _create(self._own_rings(kernel), shared)
            groups = [self._one_role(kernel, block.args, [c.ref for c in created])]
        else:
            single = producer.single is not None
            groups = [producer, self._consumers(kernel, block.args, refs, single=single)]
        block.add_ops([*created, *groups, func.ReturnOp()])
        return ModuleOp([new])

    def _deal(self, kernel: func.FuncOp) -> None:
        """Let one CTA run several programs, unless one may wait for another."""
        waits = waiting_loop(kernel)
        if waits is not None:
            self.decided.add(ProgramsNotSerialised("a loop", span=span_of(waits)))
            return
        work = make_persistent(kernel, self.options.deal)
        if work is not None:
            self.decided.add(ProgramsDealt(work.differs, span=span_of(kernel)))

    @staticmethod
    def _late_load(kernel: func.FuncOp) -> Obstacle | None:
        """A load by descriptor that has to wait for what the rest of the program does before it."""
        after = load_after_store(kernel)
        if after is not None:
            kernel.attributes[OUT_OF_ORDER] = UnitAttr()
            return "a load may read what the program has stored", after
        late = load_after_acquire(descriptor_loads(kernel), kernel)
        return None if late is None else ("a load may read what others have released", late)

    def _require_no_cluster(self, kernel: func.FuncOp, shared: set[int]) -> None:
        """One role shares nothing with a cluster, and loads nothing together."""
        if shared:
            raise ClusterNotPossible(
                "a cluster shares what a loading role loads, and this kernel has none",
                span=span_of(kernel),
                hint="leave `specialize` unset, or `cluster` at 1",
            )
        if self.options.load_together:
            self.decided.add(LoadTogetherUnneeded(span=span_of(kernel)))

    def _plan(
        self, kernel: func.FuncOp, pointers: Sequence[Load]
    ) -> tuple[list[RingPlan], set[int]]:
        """The rings, with those of `pointers`, and which of them a cluster shares."""
        rings = plan_rings(every(kernel), pointers, together=self.options.load_together)
        shared: set[int] = set()
        if self.options.cluster != 1:
            ping_pong = bool(self.options.ping_pong)
            loads = [[load for load in ring.loads if isinstance(load, DescLoad)] for ring in rings]
            shared = mark_shared(kernel, loads, self.options.cluster, ping_pong=ping_pong)
        else:
            rings = share_rings(rings)
        unlabel(every(kernel))
        label(rings)
        return rings, shared

    def _own_rings(self, kernel: func.FuncOp) -> list[RingPlan]:
        """The rings of one role: of what it loads by descriptor, and what it copies itself."""
        own = own_copies(kernel, self.options) if not self.options.specialize else []
        copied = plan_rings(own, own, together=True)
        rings = share_rings([*apart(plan_rings(every(kernel))), *copied])
        unlabel(every(kernel))
        label(rings)
        if own:
            names = tuple(load.result.name_hint or "a tile" for load in own)
            self.decided.add(CopiedAhead(names, span=span_of(own[0])))
        return rings

    def _pointer_loads(self, kernel: func.FuncOp) -> list[Load]:
        """The loads through pointers that a loading role can do; decisions say why others can't."""
        if self.options.specialize is False or self.options.cluster != 1:
            return []
        found: list[Load] = []
        axes = AxisAnalysis()
        indices = written_arguments(kernel)
        for load in wanted_loads(kernel):
            why = reason_against(load, kernel, axes, self.options.num_warps)
            if why is None and load_after_acquire([load], kernel) is not None:
                why = "it may read what others have released"
            if why is None:
                choose(load, axes)
                why = self._obstacle(kernel, load, indices)
            if why is None:
                found.append(load)
            else:
                self._left_out(load, why)
        for load in without_room(found, kernel, self.options.machine.shared_bytes):
            found.remove(load)
            self._left_out(load, "shared memory has no room for it beside the products' operands")
        found += self._rows_beside(found, kernel, indices)
        if found:
            names = tuple(load.result.name_hint or "a tile" for load in found)
            self.decided.add(CopiedThroughPointers(names, span=span_of(found[0])))
        return found

    def _rows_beside(
        self, found: Sequence[Load], kernel: func.FuncOp, indices: Collection[int | None]
    ) -> list[Load]:
        """The rows and numbers that a loading role copies beside what it copies anyway."""

        def may_copy(row: Load) -> bool:
            late = load_after_acquire([row], kernel) is not None
            if late or obstacle_to_copies(row, kernel, AxisAnalysis()):
                return False
            return self._obstacle(kernel, row, indices) is None

        if not found or self._shape(kernel)[0] > ROWS_FOR_WARPS:
            return []
        return rows_beside(found, may_copy)

    def _left_out(self, load: Load, why: str) -> None:
        name = load.result.name_hint or "a tile"
        self.decided.add(NotThroughRing(name, why, load.name, span=span_of(load)))

    def _obstacle(
        self, kernel: func.FuncOp, load: Load, indices: Collection[int | None]
    ) -> str | None:
        """Why a loading role can't compute a load's addresses; None if it can."""
        rings = plan_rings([load], [load])
        unlabel(every(kernel))
        label(rings)
        alone = _empty(kernel)  # holds the arguments that the copy uses
        block = alone.body.block
        body = copy_body(kernel, block.args)
        _put_all(body.block, [c.ref for c in _create(rings, set())])
        prune(body.block, _fills)
        arguments = [block.args[i] if i is not None else None for i in indices]
        found = producer_obstacle(body.block, arguments, tiles=True)
        return found[0] if found else None

    def _producer(
        self,
        kernel: func.FuncOp,
        arguments: Sequence[SSAValue],
        refs: Sequence[SSAValue],
        after: Obstacle | None = None,
    ) -> aref.WarpGroup | None:
        """The loading role; None where there is to be none.

        `after` is a load that can't run ahead of the program, and why.
        """
        if self.options.specialize is False:
            self.decided.add(NotSpecialised(span=span_of(kernel)))
            return None
        if after is not None:
            self._decline(*after)
            return None
        body = copy_body(kernel, arguments)
        _put_all(body.block, refs)
        prune(body.block, _fills)
        copies = has(body, aref.CopyInto)
        indices = written_arguments(kernel)
        places = [arguments[i] if i is not None else None for i in indices]
        obstacle = producer_obstacle(body.block, places, tiles=copies)
        if obstacle is None:
            busy = copies and address_work(body.block) > MOST_ADDRESS_WORK
            several = self._shape(kernel) > (GROUP_WARPS, 1)
            warps = 2 * GROUP_WARPS if busy and several else GROUP_WARPS
            if warps + math.prod(self._shape(kernel)) <= SM_90A.cta_warps:
                return aref.WarpGroup("load", warps, 1, body, single=not copies, copies=copies)
            self._decline(
                "beside its warps a CTA has no room for those of a loading role",
                kernel,
                expected=f"at most {SM_90A.cta_warps - warps} computing warps",
                found=f"{math.prod(self._shape(kernel))}",
            )
            return None
        self._decline(*obstacle)
        return None

    def _decline(
        self,
        why: str,
        op: Operation,
        *,
        expected: str = "coordinates computed from program ids, arguments and loop counters",
        found: str = "coordinates that need a tile",
    ) -> None:
        if self.options.specialize:
            raise NotSpecialisable(
                f"this kernel cannot be specialised: {why}",
                span=span_of(op),
                expected=expected,
                found=found,
                hint="leave `specialize` unset to run it in one role",
            )
        self.decided.add(NotSpecialised(why, op.name, span=span_of(op)))

    def _one_role(
        self, kernel: func.FuncOp, arguments: Sequence[SSAValue], refs: Sequence[SSAValue]
    ) -> aref.WarpGroup:
        """One warp group region that does everything, loads included."""
        body = copy_body(kernel, arguments)
        if not has(body, DescLoad):
            if self.options.specialize:
                raise NotSpecialisable(
                    "this kernel cannot be specialised: it loads nothing through a descriptor",
                    span=span_of(kernel),
                    expected="loads through tensor descriptors",
                    found="pointer loads only",
                    hint="make a descriptor with tl.make_tensor_descriptor, "
                    "or leave `specialize` unset",
                )
            self.decided.add(NotSpecialised("nothing is loaded through a descriptor"))
        _put_all(body.block, refs)
        _get_all(body.block, refs)
        prune(body.block, lambda op: has_effect(op) and not only_on(op, (HINT,)))
        asked = self.options.num_warps
        warps = warps_with_room(body, asked)
        if warps > asked:
            self.decided.add(MoreWarps(warps, asked, span=span_of(kernel)))
        elif (fewer := warps_with_instructions(body, asked, self.options.machine)) < asked:
            warps = fewer
            self.decided.add(FewerWarps(warps, asked, span=span_of(kernel)))
        return aref.WarpGroup("main", warps, 1, body)

    def _consumers(
        self,
        kernel: func.FuncOp,
        arguments: Sequence[SSAValue],
        refs: Sequence[SSAValue],
        *,
        single: bool,
    ) -> aref.WarpGroup:
        """The computing role, its teams and warps chosen; `single`: one thread loads for it."""
        body = copy_body(kernel, arguments)
        _get_all(body.block, refs)
        prune(body.block, has_effect)
        warps, teams = self._shape(kernel)
        self.decided.add(Specialised(single, teams, warps // GROUP_WARPS, span=span_of(kernel)))
        split = warps > GROUP_WARPS and self._by_columns(_products(kernel))
        return aref.WarpGroup("math", warps, teams, body, split_columns=split)

    def _shape(self, kernel: func.FuncOp) -> tuple[int, int]:
        """Warps of a team and number of teams."""
        dots = _products(kernel)
        asked = self.options.consumers
        if not dots:
            return GROUP_WARPS * (asked or max(1, self.options.num_warps // GROUP_WARPS)), 1
        if self.options.ping_pong:
            self._require_rows(dots, 1)
            return 4, asked or 2
        rows = [shape_of(d.result.type)[-2] for d in dots]
        shared = next((n for n in (2, 3) if not any(r % (64 * n) for r in rows)), 1)
        groups = asked or (2 if self._by_columns(dots) else shared)
        if not self._by_columns(dots):
            self._require_rows(dots, groups)
        return 4 * groups, 1

    def _by_columns(self, dots: Sequence[Dot]) -> bool:
        """Whether two warp groups share a product's columns: one can not hold 64 rows of them."""
        if self.options.consumers is not None or self.options.ping_pong or not dots:
            return False
        rows, columns = zip(*(shape_of(d.result.type)[-2:] for d in dots), strict=True)
        held = max(r * c for r, c in zip(rows, columns, strict=True))
        held = max(held, *carried(dots)) // SM_90A.group_threads
        even = {*rows} == {64} and all(map(has_halves, dots))
        return held > MOST - BESIDE_ACCUMULATORS and even

    def _require_rows(self, dots: Sequence[Dot], groups: int) -> None:
        consumers = f"{groups} consumer warp group{'s' if groups > 1 else ''}"
        for dot in dots:
            found = shape_of(dot.result.type)[-2]
            if found % (64 * groups):
                raise ConsumersNotPossible(
                    f"{consumers} cannot share this product",
                    span=span_of(dot),
                    expected=f"rows in a multiple of {64 * groups}",
                    found=f"{found} rows of {element_of(dot.result.type)}",
                    hint="change the block size or the option `consumers`",
                )
