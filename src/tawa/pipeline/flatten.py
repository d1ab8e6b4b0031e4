"""The loop over tiles of a persistent kernel is flattened into the pipelined loop inside it.

The epilogue of one tile's pipeline and the prologue of the next tile's become one iteration, so
that the next tile's first products run under the last ones of this tile:

    prologue of the first tile
    while true:
        steady state of this tile
        if there is no next tile: break
        epilogue of this tile, with the prologue of the next; what follows the loop in this tile
    epilogue of the last tile; what follows the loop in it

Where the next tile lies (divisions, mostly) is computed a tile ahead, while products run: nothing
waits for it then.

A tile without any iteration would leave the pipeline with nothing to drain, so this needs to be
known not to happen (`tl.assume` can say it).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith, scf
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from tawa.aref.analysis.ranges import runs
from tawa.aref.dialect.ops import Consumed, GetEnter, ViewRead, Views
from tawa.aref.passes.last_iteration_peeling import LEFT_OUT, ring_of
from tawa.base.types import shape_of
from tawa.ir.effects import is_pure
from tawa.ir.elementwise import Map
from tawa.ir.walking import every
from tawa.machine.chips import SM_90A
from tawa.pipeline.dependence_graph import NO_DEPTHS, is_lazy, readers_of
from tawa.pipeline.expand import Expansion, Key, Schedule
from tawa.tile.dialect.ops import (
    Dot,
    Reshape,
    Trans,
)

LARGE = SM_90A.tile_elements
"""Elements of a tile whose registers matter."""

Values = dict[SSAValue, SSAValue]


PASSED_ON = 3
"""Slots of a ring at a tile's end: one whose products are in flight, one that is left out, and the
next tile's first."""


def obstacle(
    loop: scf.ForOp, schedule: Schedule, depths: Mapping[SSAValue, int] = NO_DEPTHS
) -> str | None:
    """Why a pipelined loop stays inside the loop around it; None if it need not.

    `depths` are the slots of rings.
    """
    outer = loop.parent_op()
    if not isinstance(outer, scf.ForOp) or outer.iter_args:
        return "no loop over tiles is around it"
    if schedule.stages != 2:
        return f"its pipeline has {schedule.stages} stages"
    body = outer.body.block
    others = (op for op in body.ops if op is not loop)
    if any(isinstance(inner, Dot) for op in others for inner in every(op)):
        return "a tile has other matrix products"
    rings = {op.ref for op in every(loop) if isinstance(op, GetEnter)}
    apart = (op for op in body.ops if op is not loop and LEFT_OUT not in op.attributes)
    outside = (inner for op in apart for inner in every(op))
    if any(isinstance(op, GetEnter) and op.ref in rings for op in outside):
        return "its slots come from a ring that the rest of a tile reads too"
    left_out = {ring_of(op) for op in body.ops if LEFT_OUT in op.attributes}
    for ref in left_out & _held(loop, schedule):
        if depths.get(ref, PASSED_ON) < PASSED_ON:
            return f"{depths[ref]} slots of a ring leave none for the next tile"
    late = _fresh_accumulators(loop, schedule)
    made = {result for op in late for result in op.results}
    first = (op for op in schedule.order if schedule.stage[op] == 0 and op not in late)
    if any(_used(op) & made for op in first):
        return "a product reads what is made of the accumulators"
    if not runs(loop):
        return "it may not run at all; `tl.assume(n > 0)` promises that it does"
    return None


def _held(loop: scf.ForOp, schedule: Schedule) -> set[SSAValue]:
    """Rings of which an iteration still holds a slot of the iteration before."""
    returns = [op for op in loop.body.block.ops if isinstance(op, Consumed)]
    gets = {op: op.token.owner for op in returns if isinstance(op.token.owner, GetEnter)}
    stage = schedule.stage
    return {op.ref for op, get in gets.items() if stage[op] > stage[get]}


def _fresh_accumulators(loop: scf.ForOp, schedule: Schedule) -> set[Operation]:
    """Ops of the first stage that work on what products accumulate into.

    The registers of the old tile's accumulators are free only when that tile is finished.
    """
    found: set[Operation] = set()
    tiles = {a for a in loop.body.block.args if math.prod(shape_of(a.type)) >= LARGE}
    for op in schedule.order:
        if schedule.stage[op] == 0 and not isinstance(op, Dot) and _used(op) & tiles:
            found.add(op)
            tiles |= set(op.results)
    return found


def _used(op: Operation) -> set[SSAValue]:
    return {v for inner in every(op) for v in inner.operands}


@dataclass
class _Flattening:
    """The two loops, and what is carried from one iteration of the outer one to the next."""

    loop: scf.ForOp
    schedule: Schedule
    keys: list[Key] = field(default_factory=list[Key])
    """What the steady state carries, under the keys of `Expansion`."""

    def __post_init__(self) -> None:
        outer = self.loop.parent_op()
        assert isinstance(outer, scf.ForOp)
        self.outer = outer
        ops = list(outer.body.block.ops)
        place = ops.index(self.loop)
        self.before, self.after = ops[:place], ops[place + 1 : -1]
        self.left_out = {ring_of(op): op for op in self.after if LEFT_OUT in op.attributes}
        """Loops that return the slots of iterations that were left out, by ring."""
        self.returns = self._returns()
        self.scalars = self._scalars()
        self.ahead = self._ahead()
        self.base = self._base()

    @property
    def index(self) -> SSAValue:
        """The outer loop's counter."""
        return self.outer.body.block.args[0]

    # --- what one tile computes before its loop, as later parts see it ----------------------------

    def _scalars(self) -> list[Operation]:
        """Ops before the inner loop that compute scalars from the tile's index alone."""
        made: set[SSAValue] = {self.index}
        mine = {r for op in self.before for r in op.results}
        found: list[Operation] = []
        for op in self.before:
            again = is_pure(op) and not isinstance(op, scf.ForOp | scf.WhileOp)
            scalar = again and not any(shape_of(v.type) for v in (*op.results, *op.operands))
            inputs = (v for inner in every(op) for v in inner.operands)
            if scalar and all(v in made or v not in mine for v in inputs):
                found.append(op)
                made |= set(op.results)
        return found

    def _ahead(self) -> list[SSAValue]:
        """Scalars that something else needs: they are carried for the next tile."""
        own = set(self.scalars)
        others = (op for op in (*self.before, self.loop, *self.after) if op not in own)
        used = {v for op in others for inner in every(op) for v in inner.operands}
        made = (op for op in self.scalars if not isinstance(op, arith.ConstantOp))
        return [r for op in made for r in op.results if r in used]

    def place(self, index: SSAValue, into: Block) -> Values:
        """Append the computation of where a tile lies; returns what `ahead` names."""
        values: Values = {self.index: index}
        for op in self.scalars:
            values |= _cloned(op, values, into)
        return {v: values[v] for v in self.ahead}

    def _base(self) -> list[SSAValue]:
        """Values made before the inner loop that are carried; the rest is made of them again."""
        mine = {r for op in self.before for r in op.results}
        found: dict[SSAValue, None] = {}
        work = [v for op in (self.loop, *self.after) for i in every(op) for v in i.operands]
        seen: set[SSAValue] = set()
        while work:
            value = work.pop()
            if value in seen or value not in mine:
                continue
            seen.add(value)
            if again := _made_again(value):
                work += [again.token] if isinstance(again, GetEnter) else again.operands
            else:
                found[value] = None
        return list(found)

    def remake(self, into: Block, known: Values) -> Values:
        """Append what is made again of the carried values; returns all values of the tile."""
        values = dict(known)
        for op in self.before:
            if any(r in values for r in op.results) and not isinstance(op, GetEnter):
                continue
            if isinstance(op, GetEnter):
                if op.token in values:
                    views = Views(op.ref, values[op.token])
                    into.add_op(views)
                    values |= dict(zip(op.views, views.views, strict=True))
            elif _made_again(op.results[0] if op.results else None) is op:
                if all(v in values or not self._own(v) for v in op.operands):
                    values |= _cloned(op, values, into)
        return values

    def _own(self, value: SSAValue) -> bool:
        """Whether a tile computes the value before its loop."""
        owner = value.owner
        return value is self.index or (isinstance(owner, Operation) and owner in self.before)

    def start(self, index: SSAValue, placed: Mapping[SSAValue, SSAValue], into: Block) -> Values:
        """Append what a tile, placed before, does before its loop; returns its values."""
        values: Values = {self.index: index, **placed}
        for op in self.before:
            if op not in self.scalars or isinstance(op, arith.ConstantOp):
                values |= _cloned(op, values, into)
        return values

    def finish(
        self, results: list[SSAValue], values: Values, into: Block, *, released: bool = False
    ) -> None:
        """Append what a tile does after its loop, less the returns of slots if they are done."""
        values = values | dict(zip(self.loop.results, results, strict=True))
        done = {*self.returns, *self.left_out.values()} if released else set[Operation]()
        for op in self.after:
            if op not in done:
                values |= _cloned(op, values, into)

    def _returns(self) -> list[Operation]:
        """The returns of slots whose readers all ran in the steady state, and are done."""
        drained = {op for op, stage in self.schedule.stage.items() if stage > 0} | set(self.after)
        found: list[Operation] = []
        for op in self.after:
            if isinstance(op, Consumed) and isinstance(op.token.owner, GetEnter):
                if not drained.intersection(readers_of(op.token.owner)):
                    found.append(op)
        return found

    def _release(self, old: Expansion, into: Block) -> None:
        """Append the returns of a tile's slots that nothing reads any more."""
        for op in self.returns:
            _cloned(op, dict(old.outside), into)
        for op, stage in self.schedule.stage.items():
            if isinstance(op, GetEnter) and stage == 0:
                self._leave_out(op, old, into)

    def _leave_out(self, last: Operation, old: Expansion, into: Block) -> None:
        """Append what returns the slots of a ring after the last one that the tile reads."""
        if isinstance(last, GetEnter) and last.ref in self.left_out:
            _cloned(self.left_out[last.ref], dict(old.outside), into)

    # --- the parts --------------------------------------------------------------------------------

    def run(self) -> None:
        """Replace the outer loop."""
        place = self.outer.parent
        assert place is not None
        some = Map("cmpi_slt", [self.outer.lb, self.outer.ub])
        then = Block()
        steady, leave = self._steady()
        values = self.start(self.outer.lb, self.place(self.outer.lb, then), then)
        first = Expansion(self.loop, self.schedule, then, values)
        first.prologue()
        second = self.place(first.add(Map("addi", [self.outer.lb, self.outer.step])), then)
        inits = [self.outer.lb, *second.values(), *(values[v] for v in self.base)]
        inits += map(first.filled, self.keys)
        boundary = self._boundary(leave)
        types = [a.type for a in leave]
        tiles = scf.WhileOp(inits, types, Region(steady), Region(boundary))
        tiles.attributes |= self.outer.attributes
        then.add_op(tiles)
        last = self._draining(list(tiles.results), then)
        self.finish(last.epilogue(), dict(last.outside), then)
        then.add_op(scf.YieldOp())
        place.insert_ops_before([some, scf.IfOp(some.result, [], Region(then))], self.outer)
        self.outer.detach()
        self.outer.drop_all_references()
        self.outer.erase(safe_erase=False)

    def _steady(self) -> tuple[Block, Sequence[SSAValue]]:
        """The steady state of a tile, up to the question whether there is a next."""
        tile = [self.index, *self.ahead, *self.base]
        block = Block(arg_types=[v.type for v in tile])
        _name(block.args, tile)
        values = self.remake(block, self._known(block.args))

        def first(key: Key) -> SSAValue:
            self.keys.append(key)
            argument = block.insert_arg(key[0].type, len(block.args))
            argument.name_hint = key[0].name_hint
            return argument

        work = Expansion(self.loop, self.schedule, block, values, first=first)
        begin = work.index(work.seen(self.loop.lb), self.schedule.stages - 1)
        steady = work.steady_state((begin, work.seen(self.loop.ub)))
        following = work.add(Map("addi", [block.args[0], self.outer.step]))
        more = work.add(Map("cmpi_slt", [following, self.outer.ub]))
        leave = [*block.args[: len(tile)], *steady.results]
        block.add_op(scf.ConditionOp(more, *leave))
        return block, leave

    def _known(self, carried: Sequence[SSAValue]) -> Values:
        """This tile's values among those carried: index, next tile's place, base, keys."""
        base = carried[1 + len(self.ahead) :]
        return {self.index: carried[0], **dict(zip(self.base, base, strict=False))}

    def _draining(self, leave: Sequence[SSAValue], into: Block) -> Expansion:
        """A tile whose steady state is over."""
        values = self.remake(into, self._known(leave))
        keys = leave[1 + len(self.ahead) + len(self.base) :]
        done = dict(zip(self.keys, keys, strict=True))
        return Expansion(self.loop, self.schedule, into, values, done=done)

    def _boundary(self, leave: Sequence[SSAValue]) -> Block:
        """The end of a tile with the start of the next."""
        block = Block(arg_types=[v.type for v in leave])
        _name(block.args, leave)
        old = self._draining(list(block.args), block)
        index = old.add(Map("addi", [block.args[0], self.outer.step]))
        placed = dict(zip(self.ahead, block.args[1:], strict=False))
        # Before the next tile's slots are waited for: they may be the same ones.
        self._release(old, block)
        values = self.start(index, placed, block)
        new = Expansion(self.loop, self.schedule, block, values)
        old.count()
        late = _fresh_accumulators(self.loop, self.schedule)
        products = [op for op in self.schedule.order if isinstance(op, Dot)]
        following: Values = {}
        for op in self.schedule.order:
            old.drain(op, 0)
            if self.schedule.stage[op] > 0:
                self._leave_out(op, old, block)
            if op not in late:
                new.fill(op, 0)
            if op is products[-1]:
                after = new.add(Map("addi", [index, self.outer.step]))
                following = self.place(after, block)
        self.finish(old.results(), dict(old.outside), block, released=True)
        for op in self.schedule.order:
            if op in late:
                new.fill(op, 0)
        passed = [index, *following.values(), *(values[v] for v in self.base)]
        block.add_op(scf.YieldOp(*passed, *map(new.filled, self.keys)))
        return block


def _made_again(value: SSAValue | None) -> Operation | None:
    """The op that makes a value cheaply of others: a lazy tile, a constant, a view of a slot."""
    op = value.owner if value is not None else None
    if isinstance(op, ViewRead | arith.ConstantOp):
        return op
    if isinstance(op, GetEnter):
        return op if value is not op.token else None
    if isinstance(op, Trans | Reshape):
        return op if _made_again(op.value) is not None else None
    if isinstance(op, Operation) and value is not None and is_lazy(value):
        return op
    return None


def _cloned(op: Operation, values: Values, into: Block) -> Values:
    """Append a copy of an op; returns its results by the old ones."""
    new = op.clone({v: values[v] for i in every(op) for v in i.operands if v in values})
    into.add_op(new)
    return dict(zip(op.results, new.results, strict=True))


def _name(values: tuple[BlockArgument, ...], like: Sequence[SSAValue]) -> None:
    for value, old in zip(values, like, strict=True):
        value.name_hint = old.name_hint


def flatten(loop: scf.ForOp, schedule: Schedule) -> None:
    """Pipeline a loop across the iterations of the loop around it; `obstacle` must be None."""
    _Flattening(loop, schedule).run()
