"""Insert timestamps into a kernel: between what its roles wait for, issue and compute.

A role's program is cut into segments, runs of points that are always passed one after the other;
loops, branches and roles begin new ones. Points lie before and after each wait and each issue of
asynchronous work. Two of them with nothing but addresses between them are one, none lies inside a
group of matrix instructions, and no register of a tile is touched. The table of what lies between
the points becomes part of the kernel's spec.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp, StringAttr, i32, i64
from xdsl.ir import Block, Operation, SSAValue

from tawa.base.errors import TawaError
from tawa.base.kernel_spec import TIMELINE_FIELDS, KernelSpec, TimelineParam
from tawa.base.spans import span_of
from tawa.base.timeline import DETAILS, Activity, TimelineTable
from tawa.hopper.dialect.copies import CopyArrive, CopyAsync
from tawa.hopper.dialect.fragment import ReduceRegisters
from tawa.hopper.dialect.matrix import Wgmma, WgmmaCommit, WgmmaFence, WgmmaWait
from tawa.hopper.dialect.memory import BulkCommit, BulkWait, BulkWaitRead, TmaLoad, TmaStore
from tawa.hopper.dialect.structure import OneThread, Role
from tawa.hopper.dialect.sync import (
    ClusterSync,
    CtaSync,
    MbarrierWait,
    NamedBarrierArrive,
    NamedBarrierSync,
)
from tawa.hopper.dialect.trace import (
    MOST_POINTS,
    RecordBegin,
    RecordEnd,
    Timestamp,
    TraceBegin,
    TraceEnd,
)
from tawa.hopper.dialect.types import FragType
from tawa.hopper.recording.detail import Place, Plan, thinned
from tawa.hopper.recording.recorder_registers import shift_registers, threads_of
from tawa.ir.effects import GLOBAL, is_terminator, touches
from tawa.ir.elementwise import Map
from tawa.ir.traits import is_free
from tawa.machine.costs import Costs
from tawa.machine.instructions import HALF_RATE, SPECIAL

KINDS: dict[type[Operation], str] = {
    MbarrierWait: "barrier wait",
    WgmmaWait: "wgmma wait",
    BulkWaitRead: "store wait",
    BulkWait: "store wait",
    NamedBarrierSync: "meeting",
    CtaSync: "meeting",
    ClusterSync: "meeting",
    NamedBarrierArrive: "arrival",
    TmaLoad: "copy issue",
    CopyAsync: "copy issue",
    CopyArrive: "copy issue",
    TmaStore: "store issue",
    BulkCommit: "store issue",
    WgmmaFence: "wgmma issue",
    Wgmma: "wgmma issue",
    WgmmaCommit: "wgmma issue",
}
"""What is worth a place on the timeline."""

RUNS = ("copy issue", "store issue")
"""Kinds of which several in a row are one activity."""

MOVES = ("copy", "fill", "rearrange", "pack_operand")
"""Functions that are mostly renamings of registers."""

NESTED = (scf.ForOp, scf.WhileOp, scf.IfOp, OneThread)
LOOPS = (scf.ForOp, scf.WhileOp)
NAMED_WORK = 3
"""Functions that the name of ordinary code mentions."""


CROWD = 3
"""Computing warp groups beside which the points of inner loops cost more than 3% (attention of 192
query rows: 3.1 to 3.7%)."""
CROWDED = (
    "recorded as 'tiles': three warp groups compute exponentials at once, and points in their "
    "inner loops would cost 3 to 4%; ask for detail='fine' to have them"
)


class NotInstrumentable(TawaError):
    """A timeline was asked of CUDA text that was written by hand."""

    explanation = (
        "Timestamps are inserted at the hopper level. A kernel that starts from a `.cu` file, or "
        "whose `.cu` stage is replaced, has none: start from its `.hopper` file, or leave the "
        "option `timeline` out."
    )
    example = """
import tawa
from tawa.driver.compiler import compile_kernel


@tawa.jit
def nothing(x):
    pass


asked = nothing.request("*f32", timeline=True)
compile_kernel(nothing, asked.types, asked.constants, asked.options, start=("cu", ""))
"""


@dataclass(frozen=True)
class Instrument:
    """Make a kernel record its timeline, in one of `DETAILS`.

    A recorder keeps two registers. With `shift_registers`, roles of one thread give theirs to the
    others, as far as whole steps of the register file allow.
    """

    shift_registers: bool = False
    detail: str = "coarse"
    notes: tuple[str, ...] = ()
    spare_crowds: bool = False
    """Leave out the points of inner loops where many warp groups compute."""
    name: str = "instrument"

    @staticmethod
    def attempts(asked: bool | str) -> Iterator[Instrument]:
        """Ways to record, most points first; the next one is for where the assembler spills."""
        detail = asked if isinstance(asked, str) else "coarse"
        for found in DETAILS[DETAILS.index(detail) :]:
            note = f"recorded as {found!r}: with the points of {detail!r} the assembler spills"
            notes = () if found == detail else (note,)
            spare = found == detail == "coarse"
            yield Instrument(detail=found, notes=notes, spare_crowds=spare)
            yield Instrument(shift_registers=True, detail=found, notes=notes, spare_crowds=spare)

    def apply(self, module: ModuleOp) -> None:
        """Change the module's only kernel, and its spec."""
        kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
        block = kernel.body.block
        launch: list[SSAValue] = []
        for name, type_ in zip(TIMELINE_FIELDS, (i64, i32, i32), strict=True):
            launch.append(block.insert_arg(type_, len(block.args)))
            launch[-1].name_hint = f"timeline_{name}"
        kernel.update_function_type()
        roles = [op for op in kernel.walk() if isinstance(op, Role)]
        recorders = [name for role in roles for name in recorders_of(role)]
        detail, notes = self.detail, self.notes
        if self.spare_crowds and sum(map(_computing_groups, roles)) >= CROWD:
            detail, notes = "tiles", (*notes, CROWDED)
        plans = [thinned(RolePlan(role).segments, detail) for role in roles]
        segments = tuple(plan.segment for planned in plans for plan in planned)
        table = TimelineTable(tuple(recorders), segments, detail, notes)
        first = number = 0
        for role, planned in zip(roles, plans, strict=True):
            _insert(role, planned, (number, table.tag_bits), launch, (first, len(recorders)))
            number += len(planned)
            first += len(recorders_of(role))
        _describe(kernel, table)
        if self.shift_registers:
            shift_registers(kernel, roles)


def _computing_groups(role: Role) -> int:
    """Warp groups of a role whose inner loops have exponentials and such beside products."""
    busy = any(isinstance(op, Map) and op.function.data in SPECIAL and is_inner(op)
               for op in role.walk())  # fmt: skip
    products = any(isinstance(op, Wgmma) and is_inner(op) for op in role.walk())
    return threads_of(role) // 128 if busy and products else 0


def disturbed(spec: KernelSpec, findings: Sequence[str]) -> KernelSpec:
    """The spec of a kernel that recording makes spill at any detail: its timeline says so."""
    assert spec.timeline is not None
    note = f"the times are disturbed, since recording makes the kernel spill ({findings[-1]})"
    return replace(spec, timeline=replace(spec.timeline, notes=(*spec.timeline.notes, note)))


def _describe(kernel: func.FuncOp, table: TimelineTable) -> None:
    """Tell the run time of the new parameters, and what the records mean."""
    text = kernel.attributes.get("tawa.spec")
    if not isinstance(text, StringAttr):
        return
    spec = KernelSpec.from_json(text.data)
    more = tuple(TimelineParam(name) for name in TIMELINE_FIELDS)
    spec = replace(spec, parameters=(*spec.parameters, *more), timeline=table)
    kernel.attributes["tawa.spec"] = StringAttr(spec.to_json())


def recorders_of(role: Role) -> list[str]:
    """The names of a role's recorders: its warp groups, as the simulator calls its actors."""
    warps, teams = role.warps.value.data, role.teams.value.data
    if role.single:
        return [role.role.data]
    return [
        role.role.data + (f"[{team}]" if teams > 1 else "") + (f".{group}" if warps > 4 else "")
        for team in range(teams)
        for group in range(-(-warps // 4))
    ]


@dataclass(frozen=True)
class Step:
    """A part of a block: an activity from `first` to `last`, ordinary code, or a nested region."""

    first: Operation
    last: Operation
    activity: Activity | None = None

    @property
    def nested(self) -> bool:
        """Whether it has activities in its regions."""
        return self.activity is None and isinstance(self.first, NESTED) and _has_kind(self.first)


class RolePlan:
    """Cuts the program of a role into segments."""

    def __init__(self, role: Role) -> None:
        self.role = role.role.data
        self.segments: list[Plan] = []
        self._current: Plan | None = None
        self._work: list[Operation] = []
        """Ordinary code since the last point."""
        block = role.body.block
        self._block(block, tile=False, outermost=True)
        if self._work and block.last_op is not None:
            self._start(Place(block.last_op, after=True))
            self._close()

    def _block(self, block: Block, *, tile: bool, outermost: bool) -> None:
        if tile and block.first_op is not None:
            self._start(Place(block.first_op, after=False))
            self.segments[-1].tile_begins = True
        for step in steps(block):
            if step.activity is not None:
                self._activity(step, step.activity)
            elif step.nested:
                self._nested(step.first, outermost)
            else:
                self._work.append(step.first)
        if tile and block.last_op is not None:
            self._point(Place(block.last_op, after=False))
            self.segments[-1].tile_ends = True
        self._close()

    def _nested(self, op: Operation, outermost: bool) -> None:
        self._close()
        tile = outermost and isinstance(op, LOOPS) and _has_loop(op)
        for region in op.regions:
            if region.blocks:
                body = region is op.regions[-1]
                self._block(region.block, tile=tile and body, outermost=outermost and not tile)

    def _activity(self, step: Step, activity: Activity) -> None:
        self._point(Place(step.first, after=False))
        assert self._current is not None
        self._current.add(Place(step.last, after=True), activity)
        if len(self._current.places) + 2 > MOST_POINTS:
            self._close()

    def _point(self, place: Place) -> None:
        """A point here, unless nothing was done since the last one."""
        if self._current is None:
            self._start(place)
        elif self._work or self._fresh_tile:
            self._current.add(place, self._take_work())

    @property
    def _fresh_tile(self) -> bool:
        """The tile's coordinates are computed after its first point: divisions, which take long."""
        found = self._current
        return found is not None and found.tile_begins and len(found.places) == 1

    def _start(self, place: Place) -> None:
        self._close()
        self._current = Plan(self.role, [place], is_inner(place.op), lead=self._take_work())
        self.segments.append(self._current)

    def _close(self) -> None:
        if self._current is not None:
            self._current.trail = self._take_work()
            self._current = None

    def _take_work(self) -> Activity | None:
        found, self._work = self._work, []
        return work_activity(found) if found else None


def steps(block: Block) -> Iterator[Step]:
    """The parts of a block that matter, in order."""
    ops = list(block.ops)
    at = 0
    run: Step | None = None
    while at < len(ops):
        kind = kind_of(ops[at])
        part = ops[at : _group_end(ops, at) if kind == "wgmma issue" else at + 1]
        at += len(part)
        if kind is None and not _matters(part[0]):
            continue
        step = Step(part[0], part[-1], activity_of(kind, part) if kind else None)
        joined = _join(run, step) if run else None
        if run is not None and joined is None:
            yield run
        run = joined or step
    if run is not None:
        yield run


def _group_end(ops: Sequence[Operation], at: int) -> int:
    """The index after the commit that ends the group of matrix instructions begun at `at`."""
    commits = (i for i in range(at, len(ops)) if isinstance(ops[i], WgmmaCommit))
    return next(commits, at) + 1


def _join(run: Step, step: Step) -> Step | None:
    """Two steps as one, if they are activities of a kind that comes in runs."""
    before, after = run.activity, step.activity
    if before is None or after is None or before.kind not in RUNS or after.kind != before.kind:
        return None
    names = dict.fromkeys(n for a in (before, after) if a.detail for n in a.detail.split(", "))
    return Step(run.first, step.last, replace(before, detail=", ".join(names)))


def kind_of(op: Operation) -> str | None:
    """The kind of activity that an op is, as a whole."""
    if isinstance(op, OneThread) and op.scope.data == "group":
        kinds = {KINDS[type(inner)] for inner in op.walk() if type(inner) in KINDS}
        loops = any(isinstance(inner, LOOPS) for inner in op.walk())
        return kinds.pop() if len(kinds) == 1 and not loops else None
    return KINDS.get(type(op))


def _has_kind(op: Operation) -> bool:
    return any(type(inner) in KINDS for inner in op.walk())


def _has_loop(op: Operation) -> bool:
    """Whether a loop has a loop with activities inside."""
    return any(isinstance(o, LOOPS) and o is not op and _has_kind(o) for o in op.walk())


def is_inner(op: Operation) -> bool:
    """Whether an op is in a loop that has no loop with activities inside."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, LOOPS):
        parent = parent.parent_op()
    return parent is not None and not _has_loop(parent)


def _matters(op: Operation) -> bool:
    """Whether an op or its regions have activities, or cost time: fragments, memory."""
    return any(type(o) in KINDS or _is_work(o) for o in op.walk())


def _is_work(op: Operation) -> bool:
    if is_free(op) or is_terminator(op):
        return False
    values = (*op.operands, *op.results)
    memory = not op.regions and touches(op, GLOBAL)
    return memory or any(isinstance(v.type, FragType) for v in values)


def activity_of(kind: str, ops: Sequence[Operation]) -> Activity:
    """What the ops do, with the names of the values that it is about."""
    inner = [o for op in ops for o in op.walk() if type(o) in KINDS]
    names = dict.fromkeys(name for op in inner for name in _subject(op))
    pending = next((o.pending.value.data for o in inner if isinstance(o, WgmmaWait)), 0)
    return Activity(kind, ", ".join(names), inner[0].name, _place_of(inner), pending)


def _subject(op: Operation) -> list[str]:
    """The names of the values that an activity is about."""
    match op:
        case MbarrierWait():
            found = [op.barrier.name_hint]
        case TmaLoad() | TmaStore():
            found = [(op.map.name_hint or "").removesuffix("_map")]
        case Wgmma():
            found = [op.result.name_hint]
        case WgmmaWait():
            found = [value.name_hint for value in op.results_]
        case _:
            found = []
    return [name for name in found if name]


def work_activity(ops: Sequence[Operation]) -> Activity:
    """Ordinary code, called after its functions that take most of a warp's time."""
    weights: dict[str, int] = {}
    heaviest, most = ops[0], -1
    for op in (inner for outer in ops for inner in outer.walk() if _is_work(inner)):
        name = _function(op)
        weight = max(map(_registers, (*op.operands, *op.results)), default=0) * _cycles(name)
        weights[name] = weights.get(name, 0) + weight
        if weight > most:
            heaviest, most = op, weight
    names = sorted(weights, key=lambda name: -weights[name])[:NAMED_WORK]
    return Activity("work", ", ".join(names), heaviest.name, _place_of([heaviest]))


def _function(op: Operation) -> str:
    if isinstance(op, Map):
        return op.function.data
    if isinstance(op, ReduceRegisters):
        return f"reduce {op.kind.data}"
    return op.name.removeprefix("hopper.")


def _cycles(function: str) -> int:
    """Of an instruction of a function, roughly."""
    costs = Costs()
    if function in MOVES:
        return 0
    if function in SPECIAL:
        return costs.special
    return costs.half_rate if function in HALF_RATE else costs.alu


def _registers(value: SSAValue) -> int:
    return value.type.layout.registers if isinstance(value.type, FragType) else 1


def _place_of(ops: Sequence[Operation]) -> str:
    """Where the user wrote it."""
    return next((str(span) for op in ops if (span := span_of(op)) is not None), "")


def _end_records(role: Role) -> None:
    """Put the end of each record after its last point, or after the wait that follows products.

    A matrix instruction waits until the registers of stores have been read, which takes long where
    exponentials queue for the same units; and the assembler moves stores up, before the products
    that they follow, but not before a wait.
    """
    stamps = [op for op in role.walk() if isinstance(op, Timestamp)]
    for stamp in stamps:
        points = stamp.points.value.data
        if stamp.index.value.data + 1 == points:
            end = RecordEnd(stamp.trace, stamp.open, points)
            place = _wait_after(stamp) or stamp
            assert place.parent is not None
            place.parent.insert_ops_after([end], place)


def _wait_after(stamp: Timestamp) -> Operation | None:
    """The wait after the next group of products, or their end, if no other point is before it."""
    found: Operation | None = None
    op = stamp.next_op
    while op is not None and not any(isinstance(o, Timestamp | RecordBegin) for o in op.walk()):
        if isinstance(op, WgmmaCommit):
            found = op
        if isinstance(op, WgmmaWait) and found is not None:
            return op
        op = op.next_op
    return found


def _insert(
    role: Role,
    planned: Sequence[Plan],
    tags: tuple[int, int],
    launch: Sequence[SSAValue],
    recorders: tuple[int, int],
) -> None:
    """Put the planned points into a role.

    `tags` are the number of its first segment and the bits for numbers; `recorders` the number of
    its first recorder and how many all roles have.
    """
    block = role.body.block
    groups = 1 if role.single else -(-role.warps.value.data // 4)
    first, count = recorders
    begin = TraceBegin(launch, first, groups, count, role.single is not None)
    begin.trace.name_hint, begin.open.name_hint = "trace", "trace_open"
    for segment, plan in enumerate(planned, tags[0]):
        for index, place in enumerate(plan.places):
            stamp = Timestamp(begin.trace, begin.open, segment, index, len(plan.places), tags[1])
            ops: list[Operation] = [stamp]
            if index == 0:
                ops.insert(0, RecordBegin(begin.trace, begin.open, launch[2]))
            parent = place.op.parent
            assert parent is not None
            if place.after:
                parent.insert_ops_after(ops, place.op)
            else:
                parent.insert_ops_before(ops, place.op)
    _end_records(role)
    if block.first_op is None:
        block.add_op(begin)
    else:
        block.insert_op_before(begin, block.first_op)
    block.add_op(TraceEnd(begin))
