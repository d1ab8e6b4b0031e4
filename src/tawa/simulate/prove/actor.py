"""An actor of a launch that is not known: the simulator's own rules, on numbers with unknowns.

It walks through the code of `code.py`. Barriers, clocks and shared memory are those of
`simulate.interpret`, so every rule that is checked in a recorded run is checked here; copies land
at once, which is one of the schedules. Data is not computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from tawa.base.numerics import Array, value_dtype
from tawa.base.types import byte_size, element_of
from tawa.hopper.dialect.core import HopperOp
from tawa.hopper.dialect.gather import SharedGather
from tawa.hopper.dialect.machine import Steps
from tawa.hopper.dialect.matrix import Wgmma
from tawa.hopper.dialect.memory import TmaLoad, TmaStore
from tawa.hopper.dialect.structure import BlockId, NumBlocks, PlanEntry, Role
from tawa.hopper.dialect.sync import ClusterSync, NamedBarrierSync, barrier_address
from tawa.hopper.dialect.types import FragType, TileType
from tawa.ir.elementwise import Map
from tawa.simulate.interpret import errors
from tawa.simulate.interpret.actor import HopperActor
from tawa.simulate.interpret.barriers import Mbarrier, NamedBarrier, Passed, Waiter
from tawa.simulate.interpret.clocks import TIMED, region
from tawa.simulate.interpret.cta import Cta
from tawa.simulate.interpret.global_memory import TensorMap
from tawa.simulate.interpret.machine import SWITCH, Machine, Warps
from tawa.simulate.interpret.registers import Registers
from tawa.simulate.prove.code import (
    ANY_ROW,
    Instruction,
    Strides,
    arrivals,
    axes,
    communicates,
    live_values,
    loops_begun,
    still_to_come,
)
from tawa.simulate.prove.functions import loaded
from tawa.simulate.prove.op_kinds import ACCESSES, PLACES, STEPS
from tawa.simulate.prove.path import Loop, NotProvable, Path, Undecided
from tawa.simulate.prove.turns import NotFree, computed, refuse_turns
from tawa.simulate.prove.unknowns import (
    Number,
    Sum,
    applied,
    is_condition,
    of_the_launch,
    plus,
    positive,
    scaled,
    term,
)
from tawa.simulate.prove.wheels import Wheels

ROUNDS = 2
"""Phases of a new mbarrier that are taken to be over: an even number."""
SHORT = 32
"""Iterations of a loop, if it can have no more, that are told apart to its end."""


class Access(NamedTuple):
    """One warp's access of shared memory, as `ACCESSES` make them."""

    note: str
    where: Any
    row: int


class Walker(HopperActor):
    """One actor."""

    code: list[Instruction]
    live: list[tuple[SSAValue, ...]]
    strides: list[list[SSAValue]]
    """For each place in the code, the live values that a `while` goes on by."""
    changing: list[list[SSAValue]]
    """Those and the ones that it subtracts from."""
    given: dict[SSAValue, Any]
    path: Path
    wheels: Wheels
    blocked: list[frozenset[int]]
    """For each place in the code, wheels that can't be freed there (`Wheels.blocked`)."""
    rings: list[frozenset[int]]
    """For each place in the code, wheels that it may yet use."""
    arrivals: list[frozenset[int]]
    """For each place in the code, where the rows of mbarriers begin at which it may yet arrive."""
    everyone: Sequence[Walker]  # the actors of the cluster
    unnamed: frozenset[SSAValue]  # carried by loops, another unknown in each iteration
    axes: list[frozenset[int]]
    """For each place in the code, axes of which the CTA's index may yet be asked for."""
    ahead: list[frozenset[scf.ForOp]]
    """For each place in the code, the loops that it may yet begin in this iteration."""
    meetings: dict[tuple[int, int], int]
    """Clock components of named barriers, by CTA and number; the cluster's is (-1, 0)."""
    waits: dict[int, list[int]]
    """For mbarriers, by their clock components, those of each warp's waits there."""

    def __init__(self, machine: Machine, cta: Cta, warps: Warps) -> None:
        super().__init__(machine, cta, warps, {})
        self.at = 0
        self.loops_open: list[Loop] = []
        self.narrow = 0
        self.met: int | None = None
        """The generation of the meeting that it has come to and not left."""
        self.meeting: NamedBarrier | None = None
        self._ignored: SSAValue | None = None
        self._noted: list[Access] | None = None
        self._reads: list[Array | slice] | None = None
        self._accesses: dict[tuple[object, ...], list[Access]] = {}
        self._operands: dict[tuple[object, ...], list[Array | slice]] = {}
        self._placed: dict[tuple[object, ...], Any] = {}

    def follow(
        self, code: list[Instruction], given: dict[SSAValue, Any], path: Path, wheels: Wheels
    ) -> None:
        """Take the code to walk through, the kernel's parameters, and the path's decisions."""
        self.code, self.given, self.path, self.wheels = code, given, path, wheels
        self.blocked = wheels.blocked(code)
        self.rings = still_to_come(code, [frozenset(wheels.used(step)) for step in code])
        self.arrivals = still_to_come(code, [frozenset(arrivals(step)) for step in code])
        self.axes = still_to_come(code, [frozenset(axes(step)) for step in code])
        begun = [frozenset(loops_begun(step)) for step in code]
        self.ahead = still_to_come(code, begun, again=False)
        self.live = [tuple(v for v in live if v not in given) for live in live_values(code)]
        strides, changing = Strides(code, "addi"), Strides(code, "addi", "subi")
        self.strides = [strides.of(live) for live in self.live]
        self.changing = [changing.of(live) for live in self.live]
        self.values = dict(given)
        self._steps = [self._step_of(instruction) for instruction in code]

    def _step_of(self, instruction: Instruction) -> Callable[[Instruction], bool]:
        """What takes a step."""
        op = instruction.op
        if instruction.kind != "op":
            return getattr(self, f"_{instruction.kind}")
        if isinstance(op, ACCESSES):
            return self._access
        if isinstance(op, STEPS):
            return self._communicate
        if isinstance(op, Map):
            return self._map(op)
        return self._place if isinstance(op, PLACES) else self._compute

    # --- values ---------------------------------------------------------------------------------

    def value(self, name: SSAValue) -> Any:
        """A scalar or a place; a tensor map is its box."""
        if name is self._ignored:
            return 0
        if name not in self.values:
            raise NotProvable(f"`{name.name_hint or 'a value'}` is not known")
        return self.values[name]

    def number(self, name: SSAValue) -> Number:
        """A scalar, which may be unknown."""
        found = self.value(name)
        return found if isinstance(found, Sum) else int(found)

    def integer(self, name: SSAValue) -> int:
        """A scalar that the path decides; slots and phases are told apart by `turns`."""
        uses = self.wheels.uses.get(self.op) if self.path.free and self.op is not None else None
        if uses is not None and uses.wheel.number in self.path.free:
            if uses.slot is None:
                raise NotFree(uses.wheel.number)
            if name in (uses.slot, uses.parity):
                return uses.at(name, self.number)
        return self.decided(self.number(name), name.name_hint or "a number")

    def decided(self, number: Number, what: str = "a condition") -> int:
        """An integer; raises `Undecided` where a decision would make it one."""
        found = self.path.facts.simplified(number)
        if isinstance(found, int):
            return found
        refuse_turns(found)
        condition = self.path.facts.asked_for(found)
        if condition is None and is_condition(found):
            condition = ("pos", found)
        if condition is None:
            raise NotProvable(f"`{what}` depends on the launch's numbers")
        raise Undecided(condition)

    def bind(self, name: SSAValue, value: Any) -> None:
        """Give a scalar or a place."""
        if isinstance(name.type, FragType):
            return
        self.values[name] = value if isinstance(value, Sum | TensorMap) else int(value)

    def fragment(self, name: SSAValue) -> Array:
        """Registers of zeros: no place depends on them."""
        kind = name.type
        assert isinstance(kind, FragType)
        dtype = np.int64 if "ptr" in str(kind.element_type) else value_dtype(kind.element_type)
        return np.zeros((self.threads, kind.layout.registers), dtype)

    def registers(self, name: SSAValue) -> Registers:
        """Registers that nobody else has."""
        return Registers(np.zeros((1, 1)))

    def new_fragment(self, name: SSAValue, registers: Array) -> None:
        """Nothing."""

    def alias(self, name: SSAValue, of: SSAValue) -> None:
        """Nothing: only fragments are aliases."""

    # --- steps ----------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether the actor has ended."""
        return self.at == len(self.code)

    def step(self) -> bool:
        """Take one step; False if it has to wait. Raises `Undecided`."""
        instruction = self.code[self.at]
        self.op = instruction.op
        return self._steps[self.at](instruction)

    def _move(self, step: Instruction) -> bool:
        new = [self.value(value) for _, value in step.moves]
        for (name, _), value in zip(step.moves, new, strict=True):
            self.values[name] = value
        self.at += 1
        return True

    def _jump(self, step: Instruction) -> bool:
        self.at = step.target
        return True

    def _branch(self, step: Instruction) -> bool:
        assert isinstance(step.op, scf.IfOp)
        self.at = self.at + 1 if self.integer(step.op.cond) else step.target
        return True

    def _while(self, step: Instruction) -> bool:
        assert isinstance(step.op, scf.WhileOp)
        last = step.op.before_region.block.last_op
        assert last is not None
        self.at = self.at + 1 if self.integer(last.operands[0]) else step.target
        return True

    def _role(self, step: Instruction) -> bool:
        assert isinstance(step.op, Role)
        offset = self.warps.first - step.op.first_warp.value.data
        per = step.op.warps.value.data
        self.team, self.first_thread = offset // per, offset % per * 32
        self.at += 1
        return True

    def _narrow(self, step: Instruction) -> bool:
        self.narrow += 1
        self.set_threads()
        self.at += 1
        return True

    def _widen(self, step: Instruction) -> bool:
        self.narrow -= 1
        self.set_threads()
        self.at += 1
        return True

    def set_threads(self) -> None:
        """Let all threads run, or the first alone."""
        count = 1 if self.narrow else 32 * self.warps.count
        self.rows = slice(0, 1 if self.narrow else self.warps.count)
        self.active = self.threads = count

    # --- mbarriers ------------------------------------------------------------------------------

    def mbarrier_init(self, barrier: int, arrivals: int) -> None:
        """As if two rounds were over and everybody knew: phases by other names, as later ones."""
        super().mbarrier_init(barrier, arrivals)
        found = self.cta.mbarriers[barrier]
        found.phase = found.published[:, found.component] = ROUNDS
        for actor in self.everyone:
            actor.clock[:, :, found.component] = ROUNDS

    def may_arrive(self, row: int) -> bool:
        """Whether it may yet arrive at a row of mbarriers, of its own or another CTA."""
        rows = self.arrivals[self.at]
        return row in rows or ANY_ROW in rows

    def touch_remotely(self, target: Cta, what: str) -> None:
        """Another CTA's rings may not be touched once they stand still there."""
        for wheel, rank in self.path.parked:
            if rank == target.rank:
                raise NotFree(wheel)
        super().touch_remotely(target, what)

    # --- loops ----------------------------------------------------------------------------------

    def _enter(self, step: Instruction) -> bool:
        op = step.op
        assert isinstance(op, scf.ForOp)
        simple = self.path.facts.simplified
        first, end, by = (self.number(v) for v in (op.lb, op.ub, op.step))
        by = simple(by)
        if isinstance(by, int) and by <= 0:
            raise NotProvable("a loop whose step is not positive")
        loop = Loop(op, first, 0, end, by)
        left = simple(plus(end, first, -1))
        most = self.path.facts.bounds(left)[1]
        if (
            isinstance(by, int)
            and not isinstance(left, int)
            and (most is None or most > SHORT * by)
        ):
            loop = replace(loop, shift=self.path.shift(left), period=self.path.period)
        self.loops_open.append(loop)
        self.values[op.body.block.args[0]] = loop.index
        return self._move(step)

    def _test(self, step: Instruction) -> bool:
        loop = self.loops_open[-1]
        left = self.path.facts.simplified(plus(loop.end, loop.index, -1))
        goes_on = self.decided(positive(left))
        self.at = self.at + 1 if goes_on else step.target
        return True

    def _next(self, step: Instruction) -> bool:
        loop = self.loops_open[-1] = replace(self.loops_open[-1], n=self.loops_open[-1].n + 1)
        self._move(step)
        index, *carried = loop.op.body.block.args
        anew = {n: self.path.unknown("new") for n in carried if n in self.unnamed}
        self.values |= {index: loop.index, **anew}
        self.at = step.target
        return True

    def _leave(self, step: Instruction) -> bool:
        self.loops_open.pop()
        return self._move(step)

    # --- ops ------------------------------------------------------------------------------------

    def _communicate(self, step: Instruction) -> bool:
        for wait in self._steps_of(step.op):
            if wait is not SWITCH and not wait.ready():
                if isinstance(wait, Waiter):
                    wait.barrier.waiters.remove(wait)
                return False
        self.at += 1
        return True

    def _steps_of(self, op: Operation) -> Steps:
        if isinstance(op, TmaLoad):
            ctas = None if op.ctas is None else self.integer(op.ctas)
            barrier = barrier_address(self, op.barrier, op.slot)
            return self.tma_load(self.value(op.map), (), self._box_at(op), barrier, ctas)
        if isinstance(op, TmaStore):
            return self.tma_store(self.value(op.map), (), self._box_at(op))
        assert isinstance(op, HopperOp)
        return op.run(self) or iter(())

    def _box_at(self, op: TmaLoad | TmaStore) -> int:
        """Where a copy begins in shared memory."""
        tile, size = self.integer(op.tile), self.value(op.map).bytes
        self._check_inside(op, [region(tile, size, self.cta.shadow.granule)])
        return tile

    def _begins_whole(self, map_: TensorMap, coordinates: Sequence[int]) -> None:
        """Not looked at: where a copy lies in global memory is not what is proved."""

    def wgmma(self, op: Operation) -> Steps:
        """Issue one matrix instruction, which computes nothing; where its operands lie is kept."""
        assert isinstance(op, Wgmma)
        places = (self.integer(v) for v in (op.a, op.b) if not isinstance(v.type, FragType))
        key = (op, self.active, *places)
        found = self._operands.get(key)
        if found is None:
            self._ignored, self._reads = op.accumulate, []
            yield from super().wgmma(op)
            found = self._operands[key] = self._reads
            self._ignored = self._reads = None
            self._check_inside(op, found)
            self.matrix_groups[-1] = []
        group = self.matrix_committed + 1
        for where in found:
            self._note_async_read(where, self.common_clock(), self.warps.matrix, group)

    def _check_inside(self, op: Operation, regions: Sequence[Array | slice]) -> None:
        """Raise `NotFree` for an access of slots that another one of the wheel could not make."""
        ends = ((w.start, w.stop) if isinstance(w, slice) else (int(w.min()), int(w.max()) + 1)
                for w in regions)  # fmt: skip
        size = self.cta.shadow.granule
        self.wheels.check_inside(op, self.values, ((a * size, b * size) for a, b in ends))

    def _note_async_read(
        self, where: Array | slice, clock: Array, component: int, group: int
    ) -> None:
        if self._reads is not None:
            self._reads.append(where)
        else:
            super()._note_async_read(where, clock, component, group)

    # --- scalars --------------------------------------------------------------------------------

    def _map(self, op: Map) -> Callable[[Instruction], bool]:
        """A scalar function."""
        function, kind = op.function.data, str(op.result.type)
        arguments, result = tuple(op.arguments), op.result

        def step(_: Instruction) -> bool:
            values = [self.number(v) for v in arguments]
            found = computed(function, values) if self.path.free else None
            found = applied(function, kind, values) if found is None else found
            if function == "remsi" and result in self.wheels.places and of_the_launch(found):
                # Now: loops that end by themselves would tell it, and be forgotten.
                found = self._with_residue(found)
            self.values[result] = found
            self.at += 1
            return True

        return step

    def _with_residue(self, number: Number) -> Number:
        """A number after the decisions that make an integer of it, if there are some."""
        found = self.path.facts.simplified(number)
        condition = self.path.facts.asked_for(found)
        if condition is not None:
            raise Undecided(condition, early=True)
        return found

    def _place(self, step: Instruction) -> bool:
        """A place in shared memory or among the warps, which is found out once."""
        op = step.op
        key = (op, self.first_thread, *(self.integer(v) for v in op.operands))
        found = self._placed.get(key)
        if found is None:
            assert isinstance(op, HopperOp)
            op.run(self)
            found = self._placed[key] = [self.values[result] for result in op.results]
        self.values.update(zip(op.results, found, strict=True))
        self.at += 1
        return True

    def _compute(self, step: Instruction) -> bool:
        """What is known of other results."""
        op = step.op
        if isinstance(op, arith.ConstantOp):
            self.values[op.result] = _constant(op)
        elif isinstance(op, BlockId | NumBlocks):
            self.values[op.result] = self._of_grid(op)
        elif isinstance(op, PlanEntry):
            self.values[op.result] = term("op", "plan", "i32", self.number(op.index))
        elif self.wheels.steady.loads(op):
            self.values[op.results[0]] = loaded(op, self.number)
        elif communicates(op):
            raise NotProvable(f"`{op.name}` is not covered")
        else:
            for result in op.results:
                self.values[result] = self.path.unknown(str(result.type))
        self.at += 1
        return True

    def _function(self, step: Instruction) -> bool:
        """The results of a loop that only computes them."""
        self.values |= self.wheels.steady.results(step, self.number)
        self.at += 1
        return True

    def _of_grid(self, op: BlockId | NumBlocks) -> Number:
        axis, ctas = op.axis.value.data, len(self.machine.ctas)
        if isinstance(op, NumBlocks):
            return term("count", axis)
        if axis or ctas == 1:
            return term("block", axis)
        return plus(self.rank, scaled(term("block", axis), ctas))

    # --- accesses of shared memory ----------------------------------------------------------------

    def _access(self, step: Instruction) -> bool:
        """Make an op's accesses; where they lie is found out once for each place."""
        op = step.op
        assert isinstance(op, HopperOp)
        scalars = [v for v in op.operands if not isinstance(v.type, FragType)]
        key = (op, self.active, self.first_thread, *(self.integer(v) for v in scalars))
        found = self._accesses.get(key)
        if found is None:
            self._noted = []
            self._run_access(op)
            found, self._noted = self._noted, None
            self._check_inside(op, [access.where for access in found])
            self._accesses[key] = found
        for note, where, row in found:
            getattr(super(), note)(where, row)
        self.at += 1
        return True

    def _run_access(self, op: HopperOp) -> None:
        if not isinstance(op, SharedGather):
            op.run(self)
            self.copies[-1] = []
            return
        tile = op.tile.type
        assert isinstance(tile, TileType)
        size = tile.columns.data * byte_size(element_of(op.value.type))
        where = region(self.integer(op.tile), size, self.cta.shadow.granule)
        for row in range(self.rows.start, self.rows.stop):
            self._note_read(where, row)

    def _note_read(self, where: Array | slice, row: int) -> None:
        if self._noted is not None:
            self._noted.append(Access("_note_read", where, row))
        else:
            super()._note_read(where, row)

    def _note_write(self, where: Array | slice, row: int) -> None:
        if self._noted is not None:
            self._noted.append(Access("_note_write", where, row))
        else:
            super()._note_write(where, row)

    def _note_copy(self, where: Array, row: int) -> None:
        if self._noted is not None:
            self._noted.append(Access("_note_copy", where, row))
        else:
            super()._note_copy(where, row)

    # --- meetings ---------------------------------------------------------------------------------

    def _meet(
        self, where: tuple[int, int], barrier: NamedBarrier, threads: int, wait: bool
    ) -> Steps:
        """The same in two halves: a step that has to wait is tried again.

        Who comes has to be ordered after the meeting before, or this one could be taken for it.
        """
        component = self.meetings[where]
        if self.met is None:
            known = self.clock[self.rows, TIMED, component].min()
            if known < barrier.generation:
                self.fail(
                    errors.NamedBarrierMismatch,
                    f"{self.name} may come to {barrier.label} before its last meeting is over",
                    expected="a wait that orders it after the meeting before",
                    found="nothing orders the two",
                    hint="let every participant wait, or use another barrier",
                )
            generation = barrier.arrive(self.name, self.active, threads, self.release())
            if barrier.generation > generation:
                barrier.published[:, component] = barrier.generation
            if not wait:
                return
            self.met, self.meeting = generation, barrier
        if barrier.generation <= self.met:
            yield NEVER
        self.acquire(barrier.published)
        self.met = self.meeting = None

    def _note_passed(self, barrier: Mbarrier, text: str, phase: int) -> None:
        """Note a wait by a clock of waits at this ring: others have no place in their order."""
        running = range(self.rows.start, self.rows.stop)
        own = self.waits.get(barrier.component)
        if own is None:
            raise NotProvable(f"{text} waits at the barrier of another ring")
        components = tuple(own[row] for row in running)
        for row, component in zip(running, components, strict=True):
            self.clock[row, TIMED, component] += 1
        times = tuple(
            int(self.clock[row, TIMED, c]) for row, c in zip(running, components, strict=True)
        )
        barrier.passed.append(Passed(text, components, times, phase))

    def meeting_at(self) -> NamedBarrier:
        """The barrier of the meeting that its next step is."""
        op = self.code[self.at].op
        if isinstance(op, ClusterSync):
            return self.machine.meeting
        number = self.integer(op.barrier) if isinstance(op, NamedBarrierSync) else 0
        return self.cta.named_barrier(number)


class _Never:
    """What is not ready now."""

    def ready(self) -> bool:
        """Never: the step is tried again."""
        return False


NEVER = _Never()


def _constant(op: arith.ConstantOp) -> Number:
    kind = str(op.result.type)
    if not isinstance(op.value, IntegerAttr):
        return term("op", "constant", kind, str(op.value))
    number = op.value.value.data
    return number & 1 if kind == "i1" else number
