"""Expansion of a modulo schedule: a loop becomes prologue, steady state and epilogue.

In turn T of the new loop an op of stage s runs for iteration T - s of the old one. What a turn
needs of earlier turns is carried by the new loop; the first turns (prologue) and the last
(epilogue) are copies of the ops whose iterations exist. If the old loop is too short to fill the
pipeline, it runs as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from tawa.base.elementwise import Map
from tawa.base.loops import integer_constant, terminator

Key = tuple[SSAValue, int]
"""A value of the old body, and its iteration: relative to the turn, or counted from the start."""


@dataclass(frozen=True)
class Schedule:
    """Ops of a loop body in the order of a turn, with the stage of each."""

    order: Sequence[Operation]
    stage: Mapping[Operation, int]

    @property
    def stages(self) -> int:
        """Number of stages."""
        return 1 + max(self.stage.values())


@dataclass
class _Expansion:
    """One loop under expansion; `into` is where ops are appended."""

    loop: scf.ForOp
    schedule: Schedule
    into: Block
    done: dict[Key, SSAValue] = field(default_factory=dict[Key, SSAValue])
    carried: dict[Key, BlockArgument] = field(default_factory=dict[Key, BlockArgument])
    inits: list[SSAValue] = field(default_factory=list[SSAValue])

    @property
    def body(self) -> Block:
        """The old body."""
        return self.loop.body.block

    def add(self, op: Operation) -> SSAValue:
        """Append an op; returns its first result."""
        self.into.add_op(op)
        return op.results[0]

    def passed(self, argument: BlockArgument) -> SSAValue:
        """What the old body passes on to the argument's next value."""
        return terminator(self.body).operands[argument.index - 1]

    def inside(self, value: SSAValue) -> bool:
        """Whether the old body defines the value."""
        owner = value.owner
        return owner is self.body if isinstance(value, BlockArgument) else owner.parent is self.body

    def index(self, base: SSAValue, offset: int) -> SSAValue:
        """The loop counter `offset` iterations after `base`."""
        if offset == 0:
            return base
        count = self.add(integer_constant(offset, base.type))
        return self.add(Map("addi", [base, self.add(Map("muli", [count, self.loop.step]))]))

    def copy(
        self, op: Operation, iteration: int, find: Callable[[SSAValue, int], SSAValue]
    ) -> None:
        """Append a copy of an op for an iteration; `find` gives its operands."""
        mapping = {v: find(v, iteration) for v in _inputs(op)}
        new = op.clone(mapping)
        self.into.add_op(new)
        for old, made in zip(op.results, new.results, strict=True):
            self.done[old, iteration] = made

    # --- prologue: iterations counted from the start ----------------------------------------------

    def start(self, value: SSAValue, iteration: int) -> SSAValue:
        """A value of one of the first iterations."""
        if not self.inside(value):
            return value
        if isinstance(value, BlockArgument):
            if value.index == 0:
                return self.index(self.loop.lb, iteration)
            if iteration == 0:
                return self.loop.iter_args[value.index - 1]
            return self.start(self.passed(value), iteration - 1)
        return self.done[value, iteration]

    def prologue(self) -> None:
        """The turns before the pipeline is full."""
        for turn in range(self.schedule.stages - 1):
            for op in self.schedule.order:
                iteration = turn - self.schedule.stage[op]
                if iteration >= 0:
                    self.copy(op, iteration, self.start)

    # --- steady state: iterations relative to the turn --------------------------------------------

    def steady(self, value: SSAValue, iteration: int) -> SSAValue:
        """A value in the steady state: made in this turn, or carried from earlier ones."""
        if not self.inside(value):
            return value
        if isinstance(value, BlockArgument):
            if value.index == 0:
                return self.index(self.counter, iteration)
            before = self.passed(value)
            if (before, iteration - 1) in self.done:
                return self.done[before, iteration - 1]
            return self.carry(value, iteration)
        if (value, iteration) in self.done:
            return self.done[value, iteration]
        return self.carry(value, iteration)

    def carry(self, value: SSAValue, iteration: int) -> SSAValue:
        """A new value of the new loop, for `value` at an iteration relative to the turn."""
        key = (value, iteration)
        if key not in self.carried:
            argument = self.into.insert_arg(value.type, len(self.into.args))
            argument.name_hint = value.name_hint
            self.carried[key] = argument
            self.inits.append(self.first[key] if key in self.first else self._init(key))
        return self.carried[key]

    def _init(self, key: Key) -> SSAValue:
        value, iteration = key
        here, self.into = self.into, self.before
        done, self.done = self.done, self.started
        found = self.start(value, self.schedule.stages - 1 + iteration)
        self.into, self.done = here, done
        return found

    counter: SSAValue = field(init=False)
    before: Block = field(init=False)
    started: dict[Key, SSAValue] = field(init=False)
    first: dict[Key, SSAValue] = field(default_factory=dict[Key, SSAValue])

    def steady_state(self, bounds: tuple[SSAValue, SSAValue]) -> scf.ForOp:
        """The new loop; afterwards `done` holds its results, relative to the turn after."""
        self.before, self.started, self.done = self.into, self.done, {}
        block = Block(arg_types=[self.loop.lb.type])
        self.counter = block.args[0]
        self.counter.name_hint = self.body.args[0].name_hint
        self.into = block
        for op in self.schedule.order:
            self.copy(op, -self.schedule.stage[op], self.steady)
        passed: list[SSAValue] = []
        keys = 0
        while keys < len(self.carried):
            value, iteration = list(self.carried)[keys]
            if isinstance(value, BlockArgument):
                passed.append(self.steady(self.passed(value), iteration))
            else:
                passed.append(self.steady(value, iteration + 1))
            keys += 1
        block.add_op(scf.YieldOp(*passed))
        self.into = self.before
        loop = scf.ForOp(bounds[0], bounds[1], self.loop.step, self.inits, block)
        loop.attributes |= self.loop.attributes
        self.into.add_op(loop)
        self.done = dict(zip(self.carried, loop.results, strict=True))
        for key, result in self.done.items():
            result.name_hint = key[0].name_hint
        return loop

    # --- epilogue: iterations relative to the one after the last ----------------------------------

    def end(self, value: SSAValue, iteration: int) -> SSAValue:
        """A value of one of the last iterations."""
        if not self.inside(value):
            return value
        if (value, iteration) in self.done:
            return self.done[value, iteration]
        assert isinstance(value, BlockArgument), "an epilogue needs only what turns carry"
        if value.index == 0:
            return self.index(self.last, iteration)
        return self.end(self.passed(value), iteration - 1)

    last: SSAValue = field(init=False)

    def epilogue(self, end: SSAValue) -> list[SSAValue]:
        """The turns after the last full one; returns the old loop's results."""
        self.last = end
        for turn in range(self.schedule.stages - 1):
            for op in self.schedule.order:
                if self.schedule.stage[op] > turn:
                    self.copy(op, turn - self.schedule.stage[op], self.end)
        return [self.end(a, 0) for a in self.body.args[1:]]


def _inputs(op: Operation) -> list[SSAValue]:
    """Operands of an op and of the ops nested in it."""
    return [v for inner in op.walk() for v in inner.operands]


def expand(loop: scf.ForOp, schedule: Schedule) -> None:
    """Replace a loop by its expansion."""
    outer, ahead = loop.parent, schedule.stages - 1
    assert outer is not None
    if ahead == 0:
        _reorder(loop, schedule)
        return
    one, filled = (integer_constant(n, loop.lb.type) for n in (1, ahead))
    span, less = Map("subi", [loop.ub, loop.lb]), Map("subi", [loop.step, one.result])
    rounded = Map("addi", [span.result, less.result])
    trips = Map("divsi", [rounded.result, loop.step])
    long = Map("cmpi_sge", [trips.result, filled.result])
    outer.insert_ops_before([one, filled, span, less, rounded, trips, long], loop)
    then = Block()
    work = _Expansion(loop, schedule, then)
    work.prologue()
    first = work.index(loop.lb, ahead)
    work.steady_state((first, loop.ub))
    end = work.add(Map("addi", [loop.lb, work.add(Map("muli", [trips.result, loop.step]))]))
    results = work.epilogue(end)
    then.add_op(scf.YieldOp(*results))
    otherwise = Block()
    if ahead == 1:
        otherwise.add_op(scf.YieldOp(*loop.iter_args))
    else:
        again = loop.clone()
        otherwise.add_ops([again, scf.YieldOp(*again.results)])
    types = [r.type for r in loop.results]
    branch = scf.IfOp(long.result, types, Region(then), Region(otherwise))
    outer.insert_op_before(branch, loop)
    for old, new in zip(loop.results, branch.results, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    loop.detach()
    loop.erase()


def _reorder(loop: scf.ForOp, schedule: Schedule) -> None:
    """A schedule of one stage only orders the body."""
    block = loop.body.block
    last = terminator(block)
    for op in schedule.order:
        op.detach()
        block.insert_op_before(op, last)
