"""Software pipelining of a scheduled loop: it becomes prologue, steady state and epilogue.

In kernel iteration K, an iteration of the new loop, an op of pipeline stage s runs for iteration
K - s of the old one. What a kernel iteration needs of earlier ones is carried by the new loop; the
first (prologue) and the last (epilogue) are copies of the ops whose iterations exist. If the old
loop is too short to fill the pipeline, it runs as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from tawa.aref.dialect.ops import GetEnter, ViewChange, ViewRead, Views
from tawa.ir.copying import copied
from tawa.ir.elementwise import Map
from tawa.ir.loops import integer_constant, terminator
from tawa.ir.walking import every
from tawa.pipeline.dependence_graph import stays_in_memory

Key = tuple[SSAValue, int]
"""A value of the old body, and its iteration: relative to the kernel's, or from the start."""


@dataclass(frozen=True)
class Schedule:
    """Ops of a loop body in the order of a kernel iteration, with the stage of each."""

    order: Sequence[Operation]
    stage: Mapping[Operation, int]

    @property
    def stages(self) -> int:
        """Number of stages."""
        return 1 + max(self.stage.values())


@dataclass
class Expansion:
    """One loop under expansion; `into` is where ops are appended.

    Where the loop is expanded for another iteration of a loop around it, `outside` says what stands
    for the values that it takes from outside.
    """

    loop: scf.ForOp
    schedule: Schedule
    into: Block
    outside: Mapping[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    done: dict[Key, SSAValue] = field(default_factory=dict[Key, SSAValue])
    carried: dict[Key, BlockArgument] = field(default_factory=dict[Key, BlockArgument])
    inits: list[SSAValue] = field(default_factory=list[SSAValue])
    first: Callable[[Key], SSAValue] | None = None
    """Gives what the steady state starts with, if its prologue is elsewhere."""

    @property
    def body(self) -> Block:
        """The old body."""
        return self.loop.body.block

    def seen(self, value: SSAValue) -> SSAValue:
        """What stands for a value from outside the loop."""
        return self.outside.get(value, value)

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
        return self.add(
            Map("addi", [base, self.add(Map("muli", [count, self.seen(self.loop.step)]))])
        )

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
            return self.seen(value)
        if isinstance(value, BlockArgument):
            if value.index == 0:
                return self.index(self.seen(self.loop.lb), iteration)
            if iteration == 0:
                return self.seen(self.loop.iter_args[value.index - 1])
            return self.start(self.passed(value), iteration - 1)
        return self.done[value, iteration]

    def prologue(self) -> None:
        """The kernel iterations before the pipeline is full."""
        for kernel in range(self.schedule.stages - 1):
            for op in self.schedule.order:
                self.fill(op, kernel)

    def fill(self, op: Operation, kernel: int) -> None:
        """An op in a kernel iteration of the prologue."""
        iteration = kernel - self.schedule.stage[op]
        if iteration >= 0:
            self.copy(op, iteration, self.start)

    # --- steady state: iterations relative to the kernel iteration --------------------------------

    def steady(self, value: SSAValue, iteration: int) -> SSAValue:
        """A value in the steady state: made in this iteration, or carried from earlier ones."""
        if not self.inside(value):
            return self.seen(value)
        if isinstance(value, BlockArgument):
            if value.index == 0:
                return self.index(self.counter, iteration)
            before = self.passed(value)
            if (before, iteration - 1) in self.done:
                return self.done[before, iteration - 1]
            return self.carry(value, iteration)
        if (value, iteration) in self.done:
            return self.done[value, iteration]
        return self.read_again(value, iteration, self.steady) or self.carry(value, iteration)

    def read_again(
        self, value: SSAValue, iteration: int, find: Callable[[SSAValue, int], SSAValue]
    ) -> SSAValue | None:
        """A tile in a slot of an earlier iteration: iterations carry the slot's token, not tiles.

        None for what does not stay in shared memory.
        """
        op = value.owner
        if isinstance(op, GetEnter) and value is not op.token and self.inside(op.token):
            return self._view_again(op, value, iteration, find)
        if not isinstance(op, ViewChange) and not stays_in_memory(value):
            return None
        assert isinstance(op, Operation)
        if isinstance(op, ViewRead):
            assert isinstance(op.view, OpResult)
            get = op.view.op
            if not isinstance(get, GetEnter) or not self.inside(get.token):
                return None
            source = self._view_again(get, op.view, iteration, find)
            mapping: dict[SSAValue, SSAValue] = {op.view: source}
        else:
            mapping = {v: find(v, iteration) for v in op.operands}
        new = self.done[value, iteration] = self.add(op.clone(mapping))
        new.name_hint = value.name_hint
        return new

    def _view_again(
        self,
        get: GetEnter,
        view: SSAValue,
        iteration: int,
        find: Callable[[SSAValue, int], SSAValue],
    ) -> SSAValue:
        """A view of a slot that an earlier iteration entered, from the slot's token."""
        views = Views(self.seen(get.ref), find(get.token, iteration))
        self.into.add_op(views)
        return views.views[get.views.index(view)]

    def carry(self, value: SSAValue, iteration: int) -> SSAValue:
        """A new value of the new loop, for `value` at an iteration relative to the kernel's."""
        key = (value, iteration)
        if key not in self.carried:
            argument = self.into.insert_arg(value.type, len(self.into.args))
            argument.name_hint = value.name_hint
            self.carried[key] = argument
            self.inits.append(self.first(key) if self.first else self._init(key))
        return self.carried[key]

    def filled(self, key: Key) -> SSAValue:
        """After the prologue: what the first of the steady state finds under a key."""
        value, iteration = key
        return self.start(value, self.schedule.stages - 1 + iteration)

    def _init(self, key: Key) -> SSAValue:
        here, self.into = self.into, self.before
        done, self.done = self.done, self.started
        found = self.filled(key)
        self.into, self.done = here, done
        return found

    counter: SSAValue = field(init=False)
    before: Block = field(init=False)
    started: dict[Key, SSAValue] = field(init=False)

    def steady_state(self, bounds: tuple[SSAValue, SSAValue]) -> scf.ForOp:
        """The new loop; afterwards `done` holds its results, relative to the one after."""
        self.before, self.started, self.done = self.into, self.done, {}
        block = Block(arg_types=[self.loop.lb.type])
        self.counter = block.args[0]
        self.counter.name_hint = self.body.args[0].name_hint
        self.into = block
        for op in self.schedule.order:
            self.copy(op, -self.schedule.stage[op], self.steady)
        passed: list[SSAValue] = []
        self.pass_on(passed)
        self.keep_results()
        self.pass_on(passed)
        block.add_op(scf.YieldOp(*passed))
        self.into = self.before
        loop = scf.ForOp(bounds[0], bounds[1], self.seen(self.loop.step), self.inits, block)
        loop.attributes |= self.loop.attributes
        self.into.add_op(loop)
        self.done = dict(zip(self.carried, loop.results, strict=True))
        for key, result in self.done.items():
            result.name_hint = key[0].name_hint
        return loop

    def pass_on(self, passed: list[SSAValue]) -> None:
        """Add what an iteration hands to the next, for all that is carried; that may grow."""
        while len(passed) < len(self.carried):
            value, iteration = list(self.carried)[len(passed)]
            if isinstance(value, BlockArgument):
                passed.append(self.steady(self.passed(value), iteration))
            else:
                passed.append(self.steady(value, iteration + 1))

    def keep_results(self) -> None:
        """Carry what the loop gives, but no iteration reads."""
        for argument in self.body.args[1:]:
            if not self.at_end(argument, 0):
                self.carry(self.passed(argument), -1)

    def at_end(self, value: SSAValue, iteration: int) -> bool:
        """Whether the epilogue makes a value, or has it from iterations or from outside."""
        if not self.inside(value) or (value, iteration) in self.carried:
            return True
        if iteration < -self.schedule.stages:
            return False
        if isinstance(value, BlockArgument):
            return value.index == 0 or self.at_end(self.passed(value), iteration - 1)
        assert isinstance(value, OpResult)
        return stays_in_memory(value) or iteration >= -self.schedule.stage[value.op]

    # --- epilogue: iterations relative to the one after the last ----------------------------------

    def end(self, value: SSAValue, iteration: int) -> SSAValue:
        """A value of one of the last iterations."""
        if not self.inside(value):
            return self.seen(value)
        if (value, iteration) in self.done:
            return self.done[value, iteration]
        if (again := self.read_again(value, iteration, self.end)) is not None:
            return again
        assert isinstance(value, BlockArgument), "an epilogue needs only what iterations carry"
        if value.index == 0:
            return self.index(self.last, iteration)
        return self.end(self.passed(value), iteration - 1)

    last: SSAValue = field(init=False)

    def epilogue(self) -> list[SSAValue]:
        """The kernel iterations after the last full one; returns the old loop's results."""
        self.count()
        for kernel in range(self.schedule.stages - 1):
            for op in self.schedule.order:
                self.drain(op, kernel)
        return self.results()

    def count(self) -> None:
        """Find out what the loop's counter is after the last iteration."""
        lb, ub, step = (self.seen(v) for v in (self.loop.lb, self.loop.ub, self.loop.step))
        trips = self.add(trip_count(lb, ub, step, self.add))
        self.last = self.add(Map("addi", [lb, self.add(Map("muli", [trips, step]))]))

    def drain(self, op: Operation, kernel: int) -> None:
        """An op in a kernel iteration of the epilogue."""
        if self.schedule.stage[op] > kernel:
            self.copy(op, kernel - self.schedule.stage[op], self.end)

    def results(self) -> list[SSAValue]:
        """After the epilogue: the old loop's results."""
        return [self.end(a, 0) for a in self.body.args[1:]]


def _inputs(op: Operation) -> list[SSAValue]:
    """Operands of an op and of the ops nested in it."""
    return [v for inner in every(op) for v in inner.operands]


def trip_count(
    lb: SSAValue, ub: SSAValue, step: SSAValue, add: Callable[[Operation], SSAValue]
) -> Operation:
    """How often a loop runs, if it runs at all."""
    one = add(integer_constant(1, lb.type))
    span, less = add(Map("subi", [ub, lb])), add(Map("subi", [step, one]))
    return Map("divsi", [add(Map("addi", [span, less])), step])


def expand(loop: scf.ForOp, schedule: Schedule) -> None:
    """Replace a loop by its expansion."""
    outer, ahead = loop.parent, schedule.stages - 1
    assert outer is not None
    if ahead == 0:
        _reorder(loop, schedule)
        return

    def add(op: Operation) -> SSAValue:
        assert outer is not None
        outer.insert_op_before(op, loop)
        return op.results[0]

    trips = add(trip_count(loop.lb, loop.ub, loop.step, add))
    long = add(Map("cmpi_sge", [trips, add(integer_constant(ahead, loop.lb.type))]))
    then = Block()
    work = Expansion(loop, schedule, then)
    work.prologue()
    first = work.index(loop.lb, ahead)
    work.steady_state((first, loop.ub))
    results = work.epilogue()
    used = [i for i, r in enumerate(loop.results) if any(True for _ in r.uses)]
    then.add_op(scf.YieldOp(*(results[i] for i in used)))
    _drop_unused(then)
    otherwise = Block()
    if ahead == 1:
        otherwise.add_op(scf.YieldOp(*(loop.iter_args[i] for i in used)))
    else:
        again = copied(loop)
        otherwise.add_ops([again, scf.YieldOp(*(again.results[i] for i in used))])
    types = [loop.results[i].type for i in used]
    branch = scf.IfOp(long, types, Region(then), Region(otherwise))
    outer.insert_op_before(branch, loop)
    for i, new in zip(used, branch.results, strict=True):
        old = loop.results[i]
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    loop.detach()
    loop.erase()


def _drop_unused(block: Block) -> None:
    """Erase what is computed for results that nobody reads: those of a part of the pipeline alone.

    A product among it would be issued and never waited for, and its slot returned too soon.
    """
    for op in reversed(every(block)):
        if op.results and is_trivially_dead(op):
            op.detach()
            op.erase()


def _reorder(loop: scf.ForOp, schedule: Schedule) -> None:
    """A schedule of one stage only orders the body."""
    block = loop.body.block
    last = terminator(block)
    for op in schedule.order:
        op.detach()
        block.insert_op_before(op, last)
