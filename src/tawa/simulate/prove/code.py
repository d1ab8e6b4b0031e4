"""A kernel's communication as flat code, one list of instructions for each actor.

Only what shared memory and barriers depend on is kept: ops with effects on them, the control flow
around those, and the scalars that decide about either. Registers and global memory are left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from xdsl.dialects import func, scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tawa.base.kernel_spec import KernelSpec
from tawa.hopper.dialect.matrix import Wgmma
from tawa.hopper.dialect.memory import TmaLoad, TmaStore
from tawa.hopper.dialect.structure import Barriers, BlockId, OneThread, Role, SharedWarpGroup
from tawa.hopper.dialect.sync import MbarrierInit, MbarrierWait
from tawa.hopper.dialect.types import BarrierType, FragType, TensorMapType
from tawa.ir.effects import (
    BARRIER,
    COPYING,
    MEETING,
    PHASE,
    PRODUCTS,
    PROXY,
    SHARED,
    effects_of,
    is_terminator,
)
from tawa.ir.elementwise import Map
from tawa.simulate.prove.functions import Steady
from tawa.simulate.prove.unknowns import COMPARISONS

COMMUNICATION = (SHARED, BARRIER, PHASE, MEETING, COPYING, PRODUCTS, PROXY)

ANY_ROW = -1
"""Stands for all rows of mbarriers, where it is not known which."""

Part = TypeVar("Part", bound=Hashable)
"""What steps may have of their own."""

Moves = tuple[tuple[SSAValue, SSAValue], ...]


class Instruction(NamedTuple):
    """One step: `target` is where a branch goes, `moves` are values given to names at once."""

    kind: str
    """`op`, `role`, `narrow`, `widen`, `enter`, `test`, `next`, `leave` (loops), `branch`, `jump`,
    `while`, `move`, or `function` (a loop that only computes: names, and what they are made of)."""
    op: Operation
    target: int = -1
    moves: Moves = ()


@dataclass
class Slice:
    """What of a kernel communication depends on."""

    kernel: func.FuncOp
    spec: KernelSpec
    ops: set[Operation] = field(default_factory=set[Operation])
    values: set[SSAValue] = field(default_factory=set[SSAValue])
    places: set[SSAValue] = field(default_factory=set[SSAValue])
    """The values that say where in shared memory, or at which barrier, something is done: those
    that only conditions and trip counts depend on are not among them."""

    def __post_init__(self) -> None:
        self.steady = Steady(self.kernel, self.spec)
        self._todo: list[SSAValue] = []
        for op in self.kernel.walk():
            if communicates(op):
                self._keep(op)
        while self._todo:
            self._need(self._todo.pop())
        self._todo = [value for op in self.ops if communicates(op) for value in operands_of(op)]
        while self._todo:
            self._place(self._todo.pop())

    def _keep(self, op: Operation) -> None:
        """An op, and what it stands in."""
        if op in self.ops:
            return
        self.ops.add(op)
        self._todo += operands_of(op)
        parent = op.parent_op()
        if parent is not None and parent is not self.kernel:
            self._keep(parent)

    def _need(self, value: SSAValue) -> None:
        if value in self.values or isinstance(value.type, FragType):
            return
        self.values.add(value)
        owner = value.owner
        if isinstance(owner, Block):
            self._todo += _sources_of_argument(owner, value)
        else:
            self._keep(owner)
            self._todo += _sources_of_result(owner, value)

    def _place(self, value: SSAValue) -> None:
        """A value that a place is computed from, and what that is computed from."""
        owner = value.owner
        if value in self.places or value not in self.values:
            return
        self.places.add(value)
        if isinstance(owner, Block):
            self._todo += _sources_of_argument(owner, value)
        elif owner.regions:
            self._todo += _sources_of_result(owner, value)
        elif not isinstance(owner, Map) or owner.function.data not in COMPARISONS:
            self._todo += operands_of(owner)


def running_sums(kept: Slice) -> set[SSAValue]:
    """What loops carry and add something to in each iteration, as offsets of pointers are."""
    found: set[SSAValue] = set()
    for loop in kept.ops:
        if isinstance(loop, scf.ForOp):
            carried = zip(loop.body.block.args[1:], _last(loop.body.block).operands, strict=True)
            found |= {name for name, value in carried if name in kept.values and _adds(value, name)}
    return found


def _adds(value: SSAValue, to: SSAValue) -> bool:
    op = value.owner
    return isinstance(op, Map) and op.function.data in ("addi", "subi") and to in op.arguments


def communicates(op: Operation) -> bool:
    """Whether an op by itself does something to shared memory or barriers, or may."""
    if op.regions or isinstance(op, func.ReturnOp):
        return False
    if is_terminator(op):
        return False
    found = effects_of(op)
    return found is None or any(effect.resource in COMMUNICATION for effect in found)


def operands_of(op: Operation) -> list[SSAValue]:
    """The scalars and places that an op's communication depends on."""
    if isinstance(op, scf.ForOp):
        return [op.lb, op.ub, op.step]
    if isinstance(op, scf.IfOp):
        return [op.cond]
    if isinstance(op, scf.WhileOp):
        return [_last(op.before_region.block).operands[0]]
    found: Sequence[SSAValue | None] = op.operands
    if isinstance(op, TmaLoad):
        found = op.tile, op.barrier, op.slot, op.ctas
    elif isinstance(op, TmaStore):
        found = (op.tile,)
    elif isinstance(op, Wgmma):
        found = op.a, op.b
    left_out = FragType | TensorMapType
    return [value for value in found if value is not None and not isinstance(value.type, left_out)]


def _last(block: Block) -> Operation:
    assert block.last_op is not None
    return block.last_op


def _sources_of_argument(block: Block, value: SSAValue) -> list[SSAValue]:
    """What a block's argument may be."""
    loop, index = block.parent_op(), block.args.index(value)  # pyright: ignore[reportArgumentType]
    if isinstance(loop, scf.ForOp):
        if index == 0:
            return []
        return [loop.iter_args[index - 1], _last(block).operands[index - 1]]
    if isinstance(loop, scf.WhileOp):
        before, after = loop.before_region.block, loop.after_region.block
        if block is before:
            return [loop.arguments[index], _last(after).operands[index]]
        return [_last(before).operands[index + 1]]
    return []


def _sources_of_result(op: Operation, value: SSAValue) -> list[SSAValue]:
    """What a structured op's result may be."""
    index = list(op.results).index(value)  # pyright: ignore[reportArgumentType]
    if isinstance(op, scf.ForOp):
        block = op.body.block
        return [op.iter_args[index], _last(block).operands[index], block.args[index + 1]]
    if isinstance(op, scf.IfOp):
        return [_last(r.block).operands[index] for r in (op.true_region, op.false_region)]
    if isinstance(op, scf.WhileOp):
        return [_last(op.before_region.block).operands[index + 1]]
    return []


@dataclass
class Place:
    """Which warps of the CTA an actor is."""

    first: int
    count: int


class Writer:
    """Writes the code of one actor."""

    def __init__(self, kept: Slice, place: Place) -> None:
        self.kept, self.place = kept, place
        self.first_thread = 0
        self.code: list[Instruction] = []
        self.block(kept.kernel.body.block)

    def block(self, block: Block) -> None:
        """The ops of a block."""
        for op in block.ops:
            if op in self.kept.ops:
                self._op(op)

    def _op(self, op: Operation) -> None:
        if isinstance(op, Role):
            self._role(op)
        elif isinstance(op, SharedWarpGroup):
            self.block(op.body.block)
        elif isinstance(op, OneThread):
            self._one_thread(op)
        elif isinstance(op, scf.ForOp):
            self._for(op)
        elif isinstance(op, scf.IfOp):
            self._if(op)
        elif isinstance(op, scf.WhileOp):
            self._while(op)
        else:
            self.code.append(Instruction("op", op))

    def _role(self, op: Role) -> None:
        offset = self.place.first - op.first_warp.value.data
        per = op.warps.value.data
        if not 0 <= offset < per * op.teams.value.data or (op.single and offset):
            return
        self.first_thread = offset % per * 32
        self.code.append(Instruction("role", op))
        self._within(op.body.block, op, narrow=op.single is not None)

    def _one_thread(self, op: OneThread) -> None:
        holds = {
            "cta": self.place.first == 0,
            "team": self.first_thread == 0,
            "group": self.place.first % 4 == 0,
        }
        if holds[op.scope.data]:
            self._within(op.body.block, op, narrow=True)

    def _within(self, block: Block, op: Operation, narrow: bool) -> None:
        if narrow:
            self.code.append(Instruction("narrow", op))
        self.block(block)
        if narrow:
            self.code.append(Instruction("widen", op))

    def _moves(self, names: Sequence[SSAValue], values: Sequence[SSAValue]) -> Moves:
        pairs = zip(names, values, strict=True)
        return tuple((name, value) for name, value in pairs if name in self.kept.values)

    def _for(self, op: scf.ForOp) -> None:
        block = op.body.block
        given = self._given(op) if self.kept.steady.computes(op) else {}
        if given and all(given.values()):
            moves = tuple((result, value) for result, found in given.items() for value in found)
            self.code.append(Instruction("function", op, moves=moves))
            return
        self.code.append(Instruction("enter", op, moves=self._moves(block.args[1:], op.iter_args)))
        test = len(self.code)
        self.code.append(Instruction("test", op))
        self.block(block)
        moves = self._moves(block.args[1:], _last(block).operands)
        self.code.append(Instruction("next", op, test, moves))
        self.code[test] = Instruction("test", op, len(self.code))
        self.code.append(Instruction("leave", op, moves=self._moves(op.results, block.args[1:])))

    def _given(self, op: scf.ForOp) -> dict[SSAValue, list[SSAValue]]:
        """What the results of a loop that only computes depend on."""
        steady = self.kept.steady
        kept = [(n, result) for n, result in enumerate(op.results) if result in self.kept.values]
        return {result: steady.function(op, n)[1] for n, result in kept}

    def _if(self, op: scf.IfOp) -> None:
        at = len(self.code)
        self.code.append(Instruction("branch", op))
        self._arm(op, op.true_region.blocks)
        end = len(self.code)
        self.code.append(Instruction("jump", op))
        self.code[at] = Instruction("branch", op, len(self.code))
        self._arm(op, op.false_region.blocks)
        self.code[end] = Instruction("jump", op, len(self.code))

    def _arm(self, op: scf.IfOp, blocks: Sequence[Block]) -> None:
        for block in blocks:
            self.block(block)
            moves = self._moves(op.results, _last(block).operands) if op.results else ()
            if moves:
                self.code.append(Instruction("move", op, moves=moves))

    def _while(self, op: scf.WhileOp) -> None:
        before, after = op.before_region.block, op.after_region.block
        self.code.append(Instruction("move", op, moves=self._moves(before.args, op.arguments)))
        start = len(self.code)
        self.block(before)
        passed = _last(before).operands[1:]
        self.code.append(Instruction("move", op, moves=self._moves(op.results, passed)))
        test = len(self.code)
        self.code.append(Instruction("while", op))
        self.code.append(Instruction("move", op, moves=self._moves(after.args, passed)))
        self.block(after)
        again = self._moves(before.args, _last(after).operands)
        self.code.append(Instruction("move", op, moves=again))
        self.code.append(Instruction("jump", op, start))
        self.code[test] = Instruction("while", op, len(self.code))


def _uses(step: Instruction) -> Iterator[SSAValue]:
    """The values that an instruction takes."""
    yield from (value for _, value in step.moves)
    if step.kind in ("op", "enter", "branch", "while"):
        yield from operands_of(step.op)


def _gives(step: Instruction) -> Iterator[SSAValue]:
    """The values that it makes."""
    yield from (name for name, _ in step.moves)
    if step.kind in ("op", "function"):
        yield from step.op.results
    if step.kind in ("enter", "next"):
        assert isinstance(step.op, scf.ForOp)
        yield step.op.body.block.args[0]


def successors(code: Sequence[Instruction], at: int) -> list[int]:
    """Where an actor may stand after a step."""
    step = code[at]
    if step.kind in ("jump", "next"):
        return [step.target]
    return [at + 1, step.target] if step.kind in ("test", "branch", "while") else [at + 1]


def still_to_come(
    code: Sequence[Instruction], own: Sequence[frozenset[Part]], again: bool = True
) -> list[frozenset[Part]]:
    """For each place in the code (its end, too) what steps that may follow have of their own.

    Without `again`, no further than to the end of the iteration.
    """
    found = [*own, frozenset[Part]()]
    changed = True
    while changed:
        changed = False
        for at in reversed(range(len(code))):
            after = (to for to in successors(code, at) if again or to > at)
            new = own[at].union(*(found[to] for to in after))
            if new != found[at]:
                found[at], changed = new, True
    return found


def arrivals(step: Instruction) -> Iterator[int]:
    """Where the row begins at which an op arrives."""
    if step.kind != "op" or isinstance(step.op, MbarrierWait | MbarrierInit | Barriers):
        return
    for value in step.op.operands:
        if isinstance(value.type, BarrierType):
            row = value.owner
            yield row.offset.value.data if isinstance(row, Barriers) else ANY_ROW


def loops_begun(step: Instruction) -> Iterator[scf.ForOp]:
    """The loop that a step enters."""
    if step.kind == "enter":
        assert isinstance(step.op, scf.ForOp)
        yield step.op


def axes(step: Instruction) -> Iterator[int]:
    """The axes of which an op gives the CTA's index."""
    if isinstance(step.op, BlockId):
        yield step.op.axis.value.data


def live_values(code: Sequence[Instruction]) -> list[tuple[SSAValue, ...]]:
    """For each place in the code (its end, too) the values that are used from there on."""
    live: list[set[SSAValue]] = [set() for _ in range(len(code) + 1)]
    changed = True
    while changed:
        changed = False
        for at in reversed(range(len(code))):
            after = set[SSAValue]().union(*(live[to] for to in successors(code, at)))
            found = (after - set(_gives(code[at]))) | set(_uses(code[at]))
            if found != live[at]:
                live[at], changed = found, True
    order: dict[SSAValue, int] = {}
    for values in live:
        for value in values:
            order.setdefault(value, len(order))
    return [tuple(sorted(values, key=order.__getitem__)) for values in live]


class Strides:
    """The names of what a `while` goes on by: values that each turn adds something to.

    `functions` are those by which it goes on.
    """

    def __init__(self, code: Sequence[Instruction], *functions: str) -> None:
        self._functions = functions
        self._parents: dict[SSAValue, SSAValue] = {}
        code = [step for step in code if step.kind != "function"]
        for step in code:
            for name, value in step.moves:
                self._parents[self._top(name)] = self._top(value)
        found = {
            self._top(name)
            for step in code
            if isinstance(step.op, scf.WhileOp)
            for name, value in step.moves
            if self._goes_on(name, value)
        }
        names = {value for step in code for move in step.moves for value in move}
        self.names = {name for name in names if self._top(name) in found}

    def _top(self, value: SSAValue) -> SSAValue:
        while (above := self._parents.get(value, value)) != value:
            value = above
        return value

    def _goes_on(self, name: SSAValue, value: SSAValue) -> bool:
        op = value.owner
        if not isinstance(op, Map) or op.function.data not in self._functions:
            return False
        return any(self._top(given) == self._top(name) for given in op.arguments)

    def of(self, live: Sequence[SSAValue]) -> list[SSAValue]:
        """Those among live values that say where an actor is: within the loop, its own."""
        found = [value for value in live if value in self.names]
        own: list[SSAValue] = [value for value in found if isinstance(value, BlockArgument)]
        return own or found
