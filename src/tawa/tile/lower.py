"""Partition (tile -> aref): who loads, who computes, and the arefs between them.

After the paper's task-aware partition: every role gets a copy of the whole program in which only
what its own effects need survives. The loading role's effects are descriptor loads into arefs, the
computing role's are everything else; address arithmetic and control flow that both need are thereby
duplicated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tawa.aref import ops as aref
from tawa.base.errors import TawaError
from tawa.base.loops import prune, users_in
from tawa.base.options import Options
from tawa.base.remarks import Remarks
from tawa.base.spans import copy_span, span_of
from tawa.base.types import element_of, shape_of
from tawa.tile.in_place import check_in_place
from tawa.tile.multicast import ClusterNotPossible, mark_shared
from tawa.tile.obstacles import producer_obstacle, written_arguments
from tawa.tile.ops import (
    AsmEffect,
    Assert,
    AtomicCas,
    AtomicRmw,
    Barrier,
    DescLoad,
    DescStore,
    Dot,
    Print,
    Reshape,
    Store,
    Trans,
)
from tawa.tile.persistent import make_persistent

EFFECTS = (Store, DescStore, AtomicRmw, AtomicCas, Barrier, Assert, Print, AsmEffect)
"""Ops that the computing role does for their effect."""

PUTS = (aref.PutEnter, aref.LoadInto, aref.PutExit)
GETS = (aref.GetEnter, aref.Consumed)
VIEWS = (Trans, Reshape)
"""Ops whose result may be a view of their operand."""


class NotSpecialisable(TawaError):
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


class ConsumersNotPossible(TawaError):
    """The consumer warp groups asked for cannot share this kernel's tiles."""

    explanation = (
        "Consumers that share a tile take rows (or columns) of it in blocks of 64 (or 8), so the "
        "first dimension of every matrix product must be a multiple of 64 times the number of "
        "consumers. "
        "Ping-pong consumers need a loop over tiles: the kernel's own, or `persistent=True`."
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


@dataclass
class RingPlan:
    """Descriptor loads that share one ring of arefs: those of one place, which fill a slot."""

    loads: list[DescLoad] = field(default_factory=list[DescLoad])
    later: list[list[DescLoad]] = field(default_factory=list[list[DescLoad]])
    """Loads of other places that fill the same slots, in loops that follow."""

    @property
    def tiles(self) -> list[TensorType[Attribute]]:
        """The tuple of tiles of one slot."""
        return [load.block for load in self.loads]


def dot_uses(value: SSAValue) -> list[Dot]:
    """The dots that take the value as an operand, directly or transposed or reshaped."""
    found: list[Dot] = []
    for use in value.uses:
        op = use.operation
        if isinstance(op, Dot) and use.index < 2:
            found.append(op)
        elif isinstance(op, Trans | Reshape):
            found += dot_uses(op.result)
    return found


def plan_rings(block_ops: Iterable[Operation]) -> list[RingPlan]:
    """Loads of one block that serve one dot share a ring; every other load has its own."""
    loads = [op for op in block_ops if isinstance(op, DescLoad)]
    rings: list[RingPlan] = []
    of_dot: dict[tuple[Dot, Block | None], RingPlan] = {}
    for load in loads:
        keys = [(dot, load.parent) for dot in dot_uses(load.result)]
        joined = {id(r): r for r in (of_dot.get(key) for key in keys) if r is not None}
        ring, *others = list(joined.values()) or [RingPlan()]
        if ring not in rings:
            rings.append(ring)
        for other in others:
            ring.loads += other.loads
            rings.remove(other)
            of_dot |= {key: ring for key, r in of_dot.items() if r is other}
        ring.loads.append(load)
        of_dot |= dict.fromkeys(keys, ring)
    return rings


def _follows(first: DescLoad, second: DescLoad) -> bool:
    """Whether the loads lie in two loops of which one follows the other."""
    one, other = first.parent_op(), second.parent_op()
    if not isinstance(one, scf.ForOp) or not isinstance(other, scf.ForOp):
        return False
    return one is not other and one.parent is other.parent


def share_rings(rings: Sequence[RingPlan]) -> list[RingPlan]:
    """Loops that follow each other load tiles of the same types through the same rings.

    Every slot of a loop is returned by its end, so all its rings' memory serves the next loop, and
    the next loop's first tiles are loaded while this one still computes.
    """
    found: list[RingPlan] = []
    for ring in rings:
        place = ring.loads[0]
        for earlier in found:
            places = [earlier.loads[0], *(loads[0] for loads in earlier.later)]
            if earlier.tiles == ring.tiles and all(_follows(p, place) for p in places):
                earlier.later.append(ring.loads)
                break
        else:
            found.append(ring)
    return found


def _needed_before(loads: Sequence[DescLoad]) -> bool:
    """Whether an op needs one of a slot's tiles before the last of them is loaded."""
    last = _latest(loads)
    home = last.parent
    assert home is not None
    end = home.get_operation_index(last)
    users = (op for load in loads for op in users_in(load.result, home))
    return any(home.get_operation_index(op) <= end for op in users)


def _apart(rings: Sequence[RingPlan]) -> list[RingPlan]:
    """The rings of one role, which fills a slot and waits for it in turn: all tiles at once."""
    found: list[RingPlan] = []
    for ring in rings:
        apart = _needed_before(ring.loads)
        found += [RingPlan([load]) for load in ring.loads] if apart else [ring]
    return found


def _label(rings: Sequence[RingPlan]) -> None:
    for r, ring in enumerate(rings):
        for p, loads in enumerate([ring.loads, *ring.later]):
            for t, load in enumerate(loads):
                for key, number in (("ring", r), ("place", p), ("tile", t)):
                    load.attributes[f"aref.{key}"] = IntegerAttr(number, i32)


def _labelled(block: Block) -> list[tuple[int, list[DescLoad]]]:
    """The loads of a copy of the program by ring and place, in the ring's order of tiles."""
    found: dict[tuple[int, int], list[DescLoad]] = {}
    for op in block.walk():
        if isinstance(op, DescLoad):
            found.setdefault((_label_of(op, "ring"), _label_of(op, "place")), []).append(op)
    return [
        (ring, sorted(loads, key=lambda op: _label_of(op, "tile")))
        for (ring, _), loads in found.items()
    ]


def _label_of(load: DescLoad, key: str) -> int:
    number = load.attributes[f"aref.{key}"]
    assert isinstance(number, IntegerAttr)
    return number.value.data


def _latest(ops: Sequence[Operation]) -> Operation:
    block = ops[0].parent
    assert block is not None
    return max(ops, key=lambda op: block.get_operation_index(op))


def _first(ops: Sequence[Operation]) -> Operation:
    block = ops[0].parent
    assert block is not None
    return min(ops, key=lambda op: block.get_operation_index(op))


def _agreements(block: Block) -> dict[int, Sequence[SSAValue]]:
    """The flags of every ring that a cluster may share: any of its loads, then each."""
    found = [op for op in block.walk() if isinstance(op, aref.Agree)]
    return {op.ring.value.data: op.flags for op in found}


def _put_all(block: Block, refs: Sequence[SSAValue]) -> None:
    """Replace loads by puts; the loads stay for whoever still needs their value."""
    shared = _agreements(block)
    for ring, loads in _labelled(block):
        last, ref = _latest(loads), refs[ring]
        home = last.parent
        assert home is not None
        enter = aref.PutEnter(ref)
        enter.token.name_hint = "slot"
        new: list[Operation] = [enter]
        flags: Sequence[SSAValue | None] = shared.get(ring, [None] * (len(loads) + 1))
        for load, view, flag in zip(loads, enter.views, flags[1:], strict=True):
            view.name_hint = load.result.name_hint
            place = load.desc, load.coordinates, view, ref, enter.token
            new.append(aref.LoadInto(*place, flag, load.eviction))
            copy_span(load, new[-1:])
        new.append(aref.PutExit(ref, enter.token, "tma"))
        copy_span(last, [enter, new[-1]])
        home.insert_ops_before(new, last)


def _last_user(values: Iterable[SSAValue], home: Block) -> Operation:
    """The last op of `home` that uses any of the values, or a view of them."""
    users: list[Operation] = []
    work = list(values)
    while work:
        value = work.pop()
        users += users_in(value, home)
        work += [u.operation.results[0] for u in value.uses if isinstance(u.operation, VIEWS)]
    return _latest(users)


def _get_all(block: Block, refs: Sequence[SSAValue]) -> None:
    """Replace loads by gets; a slot is returned after the last use of its tiles."""
    shared = _agreements(block)
    for ring, loads in _labelled(block):
        ref = refs[ring]
        place = _first(loads) if _needed_before(loads) else _latest(loads)
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
        home.insert_op_after(done, _last_user(used, home) if used else enter)


def copy_body(kernel: func.FuncOp, arguments: Sequence[SSAValue]) -> Region:
    """A copy of a kernel's body as a region without arguments or terminator."""
    body = kernel.body.clone()
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
    remarks: Remarks
    name: ClassVar[str] = "partition"

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The aref module of a tile module with one kernel."""
        kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
        check_in_place(kernel)
        if self.options.persistent:
            work = make_persistent(kernel, self.options.deal)
            if work is not None:
                how = "as their loops tell" if work.differs else "as equal: no loop tells otherwise"
                self.remarks.say(self.name, f"programs are dealt evenly, {how}")
        rings = plan_rings(kernel.walk())
        shared: set[int] = set()
        if self.options.cluster != 1:
            turns = bool(self.options.ping_pong)
            loads = [r.loads for r in rings]
            shared = mark_shared(kernel, loads, self.options.cluster, turns=turns)
        else:
            rings = share_rings(rings)
        _label(rings)
        new = func.FuncOp(
            kernel.sym_name.data,
            kernel.function_type,
            Region(Block(arg_types=kernel.function_type.inputs.data)),
        )
        new.attributes |= kernel.attributes
        if kernel.arg_attrs is not None:
            new.properties["arg_attrs"] = kernel.arg_attrs
        block = new.body.block
        for old, argument in zip(kernel.args, block.args, strict=True):
            argument.name_hint = old.name_hint
        created = _create(rings, shared)
        refs = [c.ref for c in created]
        producer = self._producer(kernel, block.args, refs) if rings else None
        if producer is None:
            if shared:
                raise ClusterNotPossible(
                    "a cluster shares what a loading role loads, and this kernel has none",
                    span=span_of(kernel),
                    hint="leave `specialize` unset, or `cluster` at 1",
                )
            rings = share_rings(_apart(plan_rings(kernel.walk())))
            _label(rings)
            created = _create(rings, shared)
            groups = [self._one_role(kernel, block.args, [c.ref for c in created])]
        else:
            groups = [producer, self._consumers(kernel, block.args, refs)]
        block.add_ops([*created, *groups, func.ReturnOp()])
        return ModuleOp([new])

    def _producer(
        self, kernel: func.FuncOp, arguments: Sequence[SSAValue], refs: Sequence[SSAValue]
    ) -> aref.WarpGroup | None:
        """The loading role; None, with a remark, where there is to be none."""
        if self.options.specialize is False:
            self.remarks.say(self.name, "one role, as the option `specialize=False` asks")
            return None
        body = copy_body(kernel, arguments)
        _put_all(body.block, refs)
        prune(body.block, lambda op: isinstance(op, PUTS))
        indices = written_arguments(kernel)
        written = [arguments[i] if i is not None else None for i in indices]
        obstacle = producer_obstacle(body.block, written)
        if obstacle is None:
            return aref.WarpGroup("load", 4, 1, body, single=True)
        self._decline(*obstacle)
        return None

    def _decline(self, why: str, op: Operation) -> None:
        if self.options.specialize:
            raise NotSpecialisable(
                f"this kernel cannot be specialised: {why}",
                span=span_of(op),
                expected="coordinates computed from program ids, arguments and loop counters",
                found="coordinates that need a tile",
                hint="leave `specialize` unset to run it in one role",
            )
        self.remarks.say(self.name, f"not specialised: {why} ({span_of(op) or op.name})")

    def _one_role(
        self, kernel: func.FuncOp, arguments: Sequence[SSAValue], refs: Sequence[SSAValue]
    ) -> aref.WarpGroup:
        """One warp group region that does everything, loads included."""
        if not refs:
            if self.options.specialize:
                raise NotSpecialisable(
                    "this kernel cannot be specialised: it loads nothing through a descriptor",
                    span=span_of(kernel),
                    expected="loads through tensor descriptors",
                    found="pointer loads only",
                    hint="make a descriptor with tl.make_tensor_descriptor, "
                    "or leave `specialize` unset",
                )
            self.remarks.say(self.name, "not specialised: nothing is loaded through a descriptor")
        body = copy_body(kernel, arguments)
        _put_all(body.block, refs)
        _get_all(body.block, refs)
        effects = (*EFFECTS, *PUTS, *GETS)
        prune(body.block, lambda op: isinstance(op, effects))
        return aref.WarpGroup("main", self.options.num_warps, 1, body)

    def _consumers(
        self, kernel: func.FuncOp, arguments: Sequence[SSAValue], refs: Sequence[SSAValue]
    ) -> aref.WarpGroup:
        """The computing role, its teams and warps chosen."""
        body = copy_body(kernel, arguments)
        _get_all(body.block, refs)
        effects = (*EFFECTS, *GETS)
        prune(body.block, lambda op: isinstance(op, effects))
        warps, teams = self._shape(kernel)
        self.remarks.say(
            self.name,
            f"one loading thread and {teams} team{'s' if teams > 1 else ''} of {warps // 4} "
            f"consumer warp group{'s' if warps > 4 else ''}",
        )
        return aref.WarpGroup("math", warps, teams, body)

    def _shape(self, kernel: func.FuncOp) -> tuple[int, int]:
        """Warps of a team and number of teams."""
        # Other products are done by warps, however many there are.
        dots = [
            op for op in kernel.walk()
            if isinstance(op, Dot) and shape_of(op.result.type)[-2] % 64 == 0
        ]  # fmt: skip
        asked = self.options.consumers
        if not dots:
            return 4 * (asked or max(1, self.options.num_warps // 4)), 1
        rows = min(shape_of(d.result.type)[-2] for d in dots)
        if self.options.ping_pong:
            self._require_rows(dots, 1)
            return 4, asked or 2
        groups = asked or (2 if rows % 128 == 0 else 1)
        self._require_rows(dots, groups)
        return 4 * groups, 1

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
