"""Whether a kernel communicates safely in every launch: all paths, in one schedule, to a fixpoint.

A path decides every condition that shared memory and barriers depend on; actors share decisions of
equal numbers. Of each path one schedule is run, under the rules of `simulate.interpret`, which
find whatever another schedule could do (docs/protocols.md has the argument). Where nobody can go on
without a decision, the state is taken down without the iterations that have passed; both ways are
followed from each state once. If that ends and nothing was wrong, no launch can go wrong.
"""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from math import lcm
from typing import Any

import numpy as np
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp
from xdsl.ir import SSAValue

from tawa.base.errors import TawaError
from tawa.base.kernel_spec import KernelSpec, Parameter, TensorMapParam
from tawa.base.numerics import Array
from tawa.base.types import NAMES
from tawa.hopper.dialect.assembly import InlineAssembly
from tawa.hopper.dialect.copies import CopyAsync
from tawa.hopper.dialect.memory import TmaLoad
from tawa.hopper.dialect.structure import Barriers
from tawa.hopper.dialect.sync import MbarrierWait
from tawa.hopper.dialect.types import BarrierType, FragType
from tawa.ir.elementwise import Map
from tawa.ir.kernels import AT_LEAST
from tawa.machine.chips import DEFAULT
from tawa.simulate.interpret.barriers import NamedBarrier
from tawa.simulate.interpret.clocks import Components
from tawa.simulate.interpret.cta import (
    Allocation,
    allocations,
    barrier_addresses,
    granule_of,
    new_cta,
)
from tawa.simulate.interpret.global_memory import GlobalMemory
from tawa.simulate.interpret.hopper import check_exit, check_registers, warp_spans, warps_of
from tawa.simulate.interpret.launch import kernel_of, number_of, spec_of
from tawa.simulate.interpret.machine import Warps
from tawa.simulate.prove.actor import Walker
from tawa.simulate.prove.code import Instruction, Place, Slice, Writer, running_sums
from tawa.simulate.prove.facts import Facts, NeedsModulus
from tawa.simulate.prove.forget import forget, progress
from tawa.simulate.prove.instant import Box, Instant
from tawa.simulate.prove.path import NotProvable, Path, Undecided
from tawa.simulate.prove.pieces import NewRegion, PieceShadow, Regions
from tawa.simulate.prove.state import Cluster, Fill, State
from tawa.simulate.prove.turning import free, turn_back
from tawa.simulate.prove.turns import NotFree, refuse_turns
from tawa.simulate.prove.unknowns import Sum, Term, term
from tawa.simulate.prove.wheels import Wheels

STATES = 20_000
"""States after which a proof gives up."""
SECONDS = 60.0
FIRST = 0.85
"""The part of the time for the first try: with more states made alike, for clusters, or without."""
LOOK_AT_CLOCK = 16
"""States between two looks at the clock, which may take longer than a state."""
STEPS = 200_000
"""Steps of one actor between two decisions after which a proof gives up."""


@dataclass(frozen=True)
class Proof:
    """What was found of every launch."""

    proved: bool
    why: str
    """What stands in the way, if anything."""
    states: int
    seconds: float

    def render(self) -> str:
        """One line of a report."""
        if not self.proved:
            return f"not proved for every launch: {self.why}"
        return (
            "proved for every launch: no deadlock, no race of shared memory, whatever the sizes, "
            "the grid and the trip counts"
        )


@dataclass
class _Proving:
    """A kernel, and the states of one of its clusters."""

    kernel: func.FuncOp
    spec: KernelSpec
    kept: Slice
    wheels: Wheels
    regions: Regions
    deadline: float
    period: int
    """Iterations that are forgotten at once, and what numbers are split by."""
    alike: bool
    """Whether states are made alike by asking for more (`Cluster.alike`)."""
    joined: bool
    """Whether it is all one how a slot is filled (`Cluster.fills`)."""
    cluster: Cluster = field(init=False)
    seen: dict[Hashable, Array] = field(default_factory=dict[Hashable, Array])
    """The states by all but their clocks; of those, what is seen at least on every path there."""
    todo: dict[Hashable, tuple[State, Term]] = field(
        default_factory=dict[Hashable, tuple[State, Term]]
    )
    """States to go on from, with the condition to be decided."""
    visits: int = 0
    steps: int = 0
    """Steps that actors have taken."""

    def __post_init__(self) -> None:
        kernel = self.kernel
        threads, shared, ctas = (
            number_of(kernel, key) for key in ("threads", "shared_bytes", "cluster")
        )
        check_registers(kernel, threads, DEFAULT.divided(self.spec.ctas_per_sm))
        spans = warp_spans(kernel, threads // 32)
        found = allocations(kernel, shared)
        components = Components()
        warps = [[warps_of(components, span, f"CTA {rank} " if ctas > 1 else "") for span in spans]
                 for rank in range(ctas)]  # fmt: skip
        barriers = [
            {at: components.add(label) for at, label in barrier_addresses(found)}
            for _ in range(ctas)
        ]
        codes = [Writer(self.kept, Place(w.first, w.count)).code for w in warps[0]]
        waits = [[_waits(components, w, code, barriers[rank])
                  for w, code in zip(warps[rank], codes, strict=True)]
                 for rank in range(ctas)]  # fmt: skip
        meetings = {(-1, 0): components.add("the meeting of the cluster")}
        for rank in range(ctas):
            meetings |= {(rank, n): components.add(f"named barrier {n}") for n in range(16)}
        fills = self._fills(components, ctas) if self.joined else []
        clock = components.clock
        meeting = NamedBarrier("the meeting of the cluster", clock(), clock())
        machine = Instant(GlobalMemory(), (1, 1, 1), threads, components, meeting)
        actors: list[Walker] = []
        given = self._parameters()
        path = Path(Facts(modulus=self.period), {}, self.period)
        for value, least in _promised(kernel):
            path.facts.restrict(given[value], (least, None))
        granule = granule_of(kernel)
        unnamed = _offsets(self.kept, self.wheels) if self.joined else frozenset[SSAValue]()
        for rank in range(ctas):
            block = (rank, 0, 0)
            cta = new_cta(rank, block, shared, found, components, barriers[rank], granule)
            cta.shadow = PieceShadow(shared, components, granule, self.regions)
            machine.ctas.append(cta)
            new = [Walker(machine, cta, w) for w in warps[rank]]
            for actor, code, own in zip(new, codes, waits[rank], strict=True):
                actor.meetings, actor.waits = meetings, own
                actor.follow(code, given, path, self.wheels)
                actor.unnamed = unnamed
            actors += new
        for actor in actors:
            actor.everyone = actors
        rows = {own[at]: row for own in barriers for at, row in _rows(found).items()}
        self.cluster = Cluster(machine, actors, meetings, _waiters(actors), rows, self.alike, fills)

    def _fills(self, components: Components, ctas: int) -> list[Fill]:
        """The slots of all rings."""
        return [
            Fill(rank, wheel.number, number, slot, base + slot * stride, base + (slot + 1) * stride,
                 components.add(f"what fills slot {slot} at {base}"))
            for rank in range(ctas)
            for wheel in self.wheels.all
            for number, (base, stride) in enumerate(wheel.tiles)
            for slot in range(wheel.depth)
        ]  # fmt: skip

    def _parameters(self) -> dict[SSAValue, Any]:
        """The kernel's parameters: equal ones are equal unknowns."""
        given: dict[SSAValue, Any] = {}
        for value, parameter in zip(self.kernel.args, self.spec.parameters, strict=True):
            if isinstance(parameter, TensorMapParam):
                given[value] = _box(parameter)
            else:
                given[value] = term(*_named(parameter))
        return given

    # --- one path -------------------------------------------------------------------------------

    def run(self) -> None:
        """Follow every path; raises for whatever is wrong, or not covered."""
        self._after(self.cluster.actors[0].path)
        for number in itertools.count():
            if not self.todo:
                return
            if number % LOOK_AT_CLOCK == 0 and time.process_time() > self.deadline:
                raise NotProvable("the time for the proof is over (`--seconds` allows more)")
            if len(self.seen) > STATES:
                raise NotProvable(f"there are more than {STATES} states")
            if self.regions.is_settled(self.visits):
                return
            key = next(iter(self.todo))
            state, condition = self.todo.pop(key)
            state = state._replace(clocks=self.seen[key])
            for holds in (True, False):
                path = state.path.copy()
                if path.facts.assume(condition, holds):
                    self.cluster.set(state._replace(path=path))
                    self._after(path, condition)

    def _after(self, path: Path, decided: Term | None = None) -> None:
        """Go on until nobody can, and note the state if it shows something new."""
        self.steps = 0
        if not self._has_more(path):
            return
        idle = self.steps == 0
        while True:
            if not forget(self.cluster.actors, path):
                return
            free(list(self.cluster.actors), path, self.wheels.all)
            turn_back(self.cluster, path, self.wheels.all)
            state = self.cluster.take(path)
            # What is asked for is asked again after the numbers have been named anew.
            self.steps = 0
            asked = self._go_on()
            if asked is None:
                return
            if not self.steps:
                break
            idle = False  # what was put in decided something
        if decided and idle and path.facts.decided(decided) is None:
            # To come back to a state from which nobody has taken a step would show nothing.
            raise NotProvable("what was decided is forgotten before anybody goes on")
        key = state.key()
        clocks = self.seen.get(key)
        self.visits += 1
        self.regions.note(self.visits)
        if clocks is None:
            self.seen[key] = state.clocks
        elif (clocks <= state.clocks).all():
            return
        else:
            self.seen[key] = np.minimum(clocks, state.clocks)
        self.todo[key] = state, asked

    def _has_more(self, path: Path) -> bool:
        """Let actors take their steps; False at the end of all, and where no launch comes."""
        try:
            return self._go_on() is not None
        except (NotProvable, TawaError):
            if path.facts.impossible():
                return False
            raise

    def _go_on(self) -> Term | None:
        """Let actors take their steps; gives what has to be decided, None at the end of all."""
        actors = self.cluster.actors
        moved = True
        asked: list[tuple[Undecided, Walker]] = []
        while moved:
            moved, asked = False, []
            for actor in actors:
                try:
                    moved |= self._walk(actor)
                except Undecided as undecided:
                    refuse_turns(Sum(0, ((undecided.condition, 1),)))
                    asked.append((undecided, actor))
        if asked:
            return _first(asked)
        waiting = [actor for actor in actors if not actor.over]
        if waiting:
            raise NotProvable(f"nobody can go on: {waiting[0].doing()} waits for ever")
        for actor in actors:
            actor.ended()
        check_exit(self.cluster.machine, actors)
        return None

    def _walk(self, actor: Walker) -> bool:
        """Take an actor's steps until it has to wait; whether it took any."""
        for count in range(STEPS):
            if actor.over or not actor.step():
                return count > 0
            self.steps += 1
        raise NotProvable("an actor goes on for ever without a decision")


def _first(asked: Sequence[tuple[Undecided, Walker]]) -> Term:
    """What is decided first: for those who are behind, so that none runs far ahead of others."""
    early = [undecided for undecided, _ in asked if undecided.early]
    if early:
        return early[-1].condition
    undecided, _ = min(asked, key=lambda one: progress(one[1].loops_open))
    return undecided.condition


def _waits(
    components: Components, warps: Warps, code: Sequence[Instruction], barriers: dict[int, int]
) -> dict[int, list[int]]:
    """For the mbarriers that an actor waits at, a clock component of each of its warps' waits.

    The slots of a row have them in common: what is known of a ring's waits says nothing of others.
    """
    found: dict[int, list[int]] = {}
    owners = {step.op.barrier.owner for step in code if isinstance(step.op, MbarrierWait)}
    rows = {row.offset.value.data: row for row in owners if isinstance(row, Barriers)}
    for first, row in sorted(rows.items()):
        kind = row.barrier.type
        assert isinstance(kind, BarrierType)
        own = [components.add(f"waits of {warps.name} at {first}") for _ in range(warps.count)]
        found |= {barriers[first + 8 * slot]: own for slot in range(kind.slots.data)}
    return found


def _rows(found: Sequence[Allocation]) -> dict[int, int]:
    """Where the row of each mbarrier begins."""
    rows = [a for a in found if isinstance(a.op, Barriers)]
    return {at: row.first for row in rows for at in range(row.first, row.last, 8)}


def _waiters(actors: Sequence[Walker]) -> dict[int, set[int]]:
    """Who waits at each mbarrier: the barrier's clock component, those of first warps' waits."""
    found: dict[int, set[int]] = defaultdict(set)
    for actor in actors:
        for barrier, own in actor.waits.items():
            found[barrier].add(own[0])
    return found


def _box(parameter: TensorMapParam) -> Box:
    box = tuple(parameter.box)
    element = NAMES[parameter.element_type]
    return Box(0, element, box, box, box, parameter.swizzle, parameter.fill)


def _promised(kernel: func.FuncOp) -> list[tuple[SSAValue, int]]:
    """Parameters that reach a number in every launch, as the user says."""
    known = kernel.attributes.get(AT_LEAST)
    numbers = [int(n) for n in known.get_values()] if isinstance(known, DenseArrayBase) else []
    return [(kernel.args[n], least) for n, least in zip(numbers[::2], numbers[1::2], strict=True)]


def _named(parameter: Parameter) -> tuple[str, str]:
    return "parameter", repr(parameter)


def _period(kernel: func.FuncOp) -> int:
    """Iterations after which what loops compute from their indices by division comes again."""
    divisors = [1]
    for loop in kernel.walk():
        if isinstance(loop, scf.ForOp):
            divisors += _divisors(loop.body.block.args[0])
    return lcm(*divisors)


def _divisors(index: SSAValue) -> list[int]:
    found: list[int] = []
    for use in index.uses:
        op = use.operation
        if not isinstance(op, Map) or isinstance(op.result.type, FragType):
            continue
        if op.function.data in ("addi", "subi"):
            found += _divisors(op.result)
        elif op.function.data in ("remsi", "divsi") and use.index == 0:
            by = op.arguments[1].owner
            constant = by.value if isinstance(by, arith.ConstantOp) else None
            if isinstance(constant, IntegerAttr):
                # A quotient's parity is told by twice as many.
                found.append(2 * abs(constant.value.data) or 1)
    return found


def prove(module: ModuleOp, seconds: float = SECONDS) -> Proof:
    """Whether a hopper module's kernel communicates safely in every launch.

    Shared memory and barriers: no deadlock, no race, no phase that a schedule could change, for all
    sizes, grids and trip counts, given that other programs go on and that integers do not overflow.
    """
    begin, start = time.perf_counter(), time.process_time()
    why, states = "", 0
    several = number_of(kernel_of(module), "cluster") > 1  # whose states multiply
    for alike, until in ((several, FIRST * seconds), (not several, seconds)):
        joined = alike == several and _filled_in_two_ways(kernel_of(module))
        why, states = _tried(module, start + until, alike, joined)
        if not why:
            break
    return Proof(not why, why, states, time.perf_counter() - begin)


def _filled_in_two_ways(kernel: func.FuncOp) -> bool:
    """Whether both threads and the copy engine fill tiles."""
    ops = list(kernel.walk())
    return any(isinstance(op, CopyAsync) for op in ops) and any(
        isinstance(op, TmaLoad) for op in ops
    )


def _tried(module: ModuleOp, deadline: float, alike: bool, joined: bool) -> tuple[str, int]:
    """What stands in the way of a proof, if anything, and how many states were visited."""
    kernel = kernel_of(module)
    proving: _Proving | None = None
    why = ""
    try:
        _refuse(kernel)
        with np.errstate(all="ignore"):
            shared = number_of(kernel, "shared_bytes")
            spec = spec_of(module, kernel)
            granule, kept = granule_of(kernel), Slice(kernel, spec)
            wheels = Wheels(kept, granule)
            regions = Regions(-(-shared // granule), granule, wheels)
            period = _period(kernel)
            while True:
                proving = _Proving(
                    kernel, spec, kept, wheels, regions, deadline, period, alike, joined
                )
                collecting = regions.open
                try:
                    proving.run()
                except NewRegion:
                    if not regions.reopen():
                        _cut(regions, wheels)
                    continue
                except NotFree as stands:
                    wheels.drop(stands.wheel)
                    continue
                except NeedsModulus as needs:
                    period = lcm(period, needs.modulus)
                    continue
                if not collecting:
                    break
                _cut(regions, wheels)
    except NotProvable as found:
        why = str(found)
    except TawaError as found:
        why = f"{type(found).__name__}: {found.message}"
    return why, len(proving.seen) if proving is not None else 0


def _offsets(kept: Slice, wheels: Wheels) -> frozenset[SSAValue]:
    """Running sums that choose no slot."""
    cursors = {value for wheel in wheels.all for value in (*wheel.slots, *wheel.phases)}
    return frozenset(running_sums(kept) - cursors)


def _cut(regions: Regions, wheels: Wheels) -> None:
    """Cut shared memory into pieces; wheels whose slots are not cut alike stay as they stand."""
    regions.cut()
    for number, turned in list(regions.turns.items()):
        if turned is None:
            wheels.drop(number)


def _refuse(kernel: func.FuncOp) -> None:
    """Raise for what no proof covers."""
    for op in kernel.walk():
        if isinstance(op, InlineAssembly) and op.effect is not None:
            raise NotProvable("assembly that the user writes may do anything")
