"""Runs a module of the aref level: warp groups as coroutines, arefs as three-state slots.

Each program instance (CTA) is run by itself: its warp groups (one actor a team) take turns, each
until it must wait. A slot is empty, full or borrowed; dots are asynchronous and read their views
when they are waited for, the latest moment. Values of tiles mean what they mean at the tile level.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from tawa.aref import ops
from tawa.base.errors import TawaError
from tawa.base.numerics import Array, value_dtype
from tawa.base.spans import span_of
from tawa.base.target import SM90A
from tawa.base.types import element_of, shape_of
from tawa.simulate import errors
from tawa.simulate.memory import Memory
from tawa.simulate.tile import Program, argument_value
from tawa.tile.arithmetic import dot
from tawa.tile.ops import DescLoad

Steps = Iterator[Callable[[], bool]]
"""An actor yields what it waits for."""

Running = Generator[Callable[[], bool], None, list[Any]]
"""Steps that end with values."""


@dataclass
class Slot:
    """One aref of a ring."""

    tiles: list[Array | None]
    filled: int = 0
    """Puts that have completed."""
    returned: int = 0
    """Returns by consumers."""


@dataclass(eq=False)
class Ring:
    """A ring of arefs; every consumer role gets and returns each slot."""

    label: str
    slots: list[Slot]
    consumers: int
    alone: bool
    """One team makes all puts, so that each has the next number."""
    puts: int = 0
    """Puts entered so far."""

    def place(self, use: int) -> str:
        """What messages call the slot of the `use`-th put."""
        return f"slot {use % len(self.slots)} of `{self.label}`"


@dataclass(eq=False)
class Token:
    """A critical region: the `use`-th put of a ring, or the get of it."""

    ring: Ring
    use: int
    put: bool
    open: bool = True
    loads: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])

    @property
    def slot(self) -> Slot:
        """The slot."""
        return self.ring.slots[self.use % len(self.ring.slots)]

    @property
    def turn(self) -> int:
        """How often the slot was used before."""
        return self.use // len(self.ring.slots)


@dataclass(frozen=True)
class View:
    """A tile in a slot (or a staged one), as `shape` makes it of the stored one."""

    token: Token | None
    index: int
    shape: Callable[[Array], Array]
    staged: Array | None = None


@dataclass(eq=False)
class Dot:
    """A dot in flight; its value is known once it was waited for."""

    compute: Callable[[], Array]
    reads: list[Token]
    value: Array | None = None


def _same(tile: Array) -> Array:
    return tile


class ArefActor(Program):
    """One team of a warp-group region."""

    def __init__(self, cta: Cta, name: str, role: str, team: int, teams: int) -> None:
        super().__init__(cta.memory, cta.index, cta.grid)
        self.cta, self.name, self.role, self.team, self.teams = cta, name, role, team, teams
        self.dots: list[Dot] = []
        self.loops: list[tuple[str, int]] = []
        self.op: Operation | None = None
        self.values.update(cta.values)

    # --- messages ---------------------------------------------------------------------------------

    def doing(self) -> str:
        """Who does what."""
        at = ", ".join(f"{name} = {value}" for name, value in self.loops) or "outside loops"
        return f"{self.name} ({at}): {self.op.name if self.op else 'start'}"

    def fail(self, error: type[TawaError], message: str, **parts: Any) -> NoReturn:
        """Raise, pointing at the current op."""
        raise error(message, span=span_of(self.op), **parts).with_note(f"by {self.doing()}")

    # --- control flow -----------------------------------------------------------------------------

    def steps(self, block: Block, arguments: Sequence[Any]) -> Running:
        """Run a block; the generator's value is the operands of its terminator."""
        self.values.update(zip(block.args, arguments, strict=True))
        for op in block.ops:
            self.op = op
            if isinstance(op, scf.YieldOp | scf.ConditionOp | ReturnOp):
                return [self.values[v] for v in op.operands]
            if isinstance(op, scf.ForOp | scf.IfOp | scf.WhileOp):
                yield from self._control(op)
            elif type(op) in ACTIONS:
                yield from ACTIONS[type(op)](self, op) or ()
            else:
                for operand in op.operands:
                    self.known(operand)
                self.run_op(op)
        return []

    def _control(self, op: scf.ForOp | scf.IfOp | scf.WhileOp) -> Steps:
        if isinstance(op, scf.ForOp):
            values = yield from self._for(op)
        elif isinstance(op, scf.IfOp):
            region = op.true_region if bool(self.values[op.cond]) else op.false_region
            values: list[Any] = []
            if region.blocks:
                values = yield from self.steps(region.block, [])
        else:
            values = yield from self._while(op)
        self.values.update(zip(op.results, values, strict=True))

    def _for(self, op: scf.ForOp) -> Running:
        lower, upper, step = (int(self.values[v]) for v in (op.lb, op.ub, op.step))
        carried = [self.values[v] for v in op.iter_args]
        index = op.body.block.args[0]
        self.loops.append((index.name_hint or "iteration", lower))
        for i in range(lower, upper, step):
            self.loops[-1] = (self.loops[-1][0], i)
            number = np.asarray(i, value_dtype(index.type))
            carried = yield from self.steps(op.body.block, [number, *carried])
        self.loops.pop()
        return carried

    def _while(self, op: scf.WhileOp) -> Running:
        carried = [self.values[v] for v in op.arguments]
        while True:
            proceed, *carried = yield from self.steps(op.before_region.block, carried)
            if not proceed:
                return carried
            carried = yield from self.steps(op.after_region.block, carried)

    # --- values -----------------------------------------------------------------------------------

    def known(self, name: SSAValue) -> Any:
        """A value for reading; a dot's must have been waited for."""
        value = self.values[name]
        if isinstance(value, Dot):
            if value.value is None:
                self.fail(
                    errors.AccumulatorInFlight,
                    f"`{name.name_hint or 'a dot'}` is read while its dot is in flight",
                    expected="a `dot_wait` that leaves it not pending",
                    found=f"{len(self.dots)} dots in flight",
                    hint="wait with fewer dots pending before the read",
                )
            value = self.values[name] = value.value
        return value

    def tile(self, view: View) -> Array:
        """What a view shows now."""
        if view.staged is not None:
            return view.shape(view.staged)
        token = view.token
        assert token is not None
        if not token.open or token.put:
            self.fail(
                errors.OutsideCriticalRegion,
                f"a view of {token.ring.place(token.use)} is read outside its critical region",
                expected="reads between `get_enter` and `consumed`",
                found="a slot that has been returned" if not token.put else "a slot being filled",
                hint="return the slot after its last reader",
            )
        stored = token.slot.tiles[view.index]
        assert stored is not None
        return view.shape(stored)

    def finish_dots(self, pending: int) -> None:
        """Complete all but the newest dots."""
        while len(self.dots) > pending:
            first = self.dots.pop(0)
            first.value = first.compute()


@dataclass(eq=False)
class Cta:
    """One program instance."""

    memory: Memory
    index: tuple[int, ...]
    grid: tuple[int, ...]
    values: dict[SSAValue, Any]
    passes: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    """Turns passed to each team of each role, minus those taken."""


# --- what the ops do ------------------------------------------------------------------------------


def _cursor(actor: ArefActor, op: ops.PutEnter | ops.GetEnter) -> int:
    return 0 if op.cursor is None else int(actor.values[op.cursor])


def _put_enter(actor: ArefActor, op: ops.PutEnter) -> Steps:
    ring: Ring = actor.values[op.ref]
    token = Token(ring, _cursor(actor, op), put=True)
    slot, turn = token.slot, token.turn
    if ring.alone and token.use != ring.puts:
        actor.fail(
            errors.SlotOutOfTurn,
            f"{ring.place(token.use)} is filled out of turn",
            expected=f"put number {ring.puts}",
            found=f"a cursor at {token.use}",
            hint="move the cursor by one for each put",
        )
    ring.puts += 1
    yield lambda: slot.returned >= turn * ring.consumers
    _open(actor, op, token)


def _get_enter(actor: ArefActor, op: ops.GetEnter) -> Steps:
    ring: Ring = actor.values[op.ref]
    token = Token(ring, _cursor(actor, op), put=False)
    slot, turn = token.slot, token.turn
    yield lambda: slot.filled > turn
    if slot.filled != turn + 1:
        actor.fail(
            errors.SlotOutOfTurn,
            f"{ring.place(token.use)} was filled again before it was got",
            expected=f"put number {token.use} in the slot",
            found=f"{slot.filled - turn - 1} puts later",
            hint="move the cursor past the puts of others (`aref.advance`)",
        )
    _open(actor, op, token)


def _open(actor: ArefActor, op: ops.PutEnter | ops.GetEnter, token: Token) -> None:
    actor.values[op.token] = token
    for index, view in enumerate(op.views):
        actor.values[view] = View(token, index, _same)


def _close(actor: ArefActor, token: Token, what: str) -> None:
    if not token.open:
        actor.fail(
            errors.DoubleArrive,
            f"{token.ring.place(token.use)} is {what} twice",
            expected="one `put_exit` or `consumed` for each enter",
            found="a token that was used before",
            hint="give each slot on once, on one path",
        )
    token.open = False


def _put_exit(actor: ArefActor, op: ops.PutExit) -> None:
    token: Token = actor.values[op.token]
    _close(actor, token, "published")
    for load in token.loads:
        load()
    if any(tile is None for tile in token.slot.tiles):
        actor.fail(
            errors.ReadBeforeFull,
            f"{token.ring.place(token.use)} is published before all its tiles are filled",
            expected=f"{len(token.slot.tiles)} tiles",
            found=f"{sum(tile is not None for tile in token.slot.tiles)}",
            hint="load every tile of the tuple",
        )
    token.slot.filled += 1


def _consumed(actor: ArefActor, op: ops.Consumed) -> None:
    token: Token | None = actor.values[op.token]
    if token is None:
        return
    for flying in actor.dots:
        if token in flying.reads:
            actor.fail(
                errors.OverwriteWhileBorrowed,
                f"{token.ring.place(token.use)} is returned while a dot still reads it",
                expected="a `dot_wait` that leaves the dot not pending",
                found=f"{len(actor.dots)} dots in flight",
                hint="with P dots in flight, return the slot of iteration k - P",
            )
    _close(actor, token, "returned")
    token.slot.returned += 1
    if token.slot.returned == (token.turn + 1) * token.ring.consumers:
        token.slot.tiles = [None] * len(token.slot.tiles)


def _load_into(actor: ArefActor, op: ops.LoadInto) -> None:
    view: View = actor.values[op.view]
    token: Token = actor.values[op.token]
    load = DescLoad(op.desc, list(op.coordinates))
    inner = Program(actor.memory, actor.index, actor.grid)
    inner.values = {v: actor.values[v] for v in (op.desc, *op.coordinates)}

    def copy() -> None:
        inner.run_op(load)
        token.slot.tiles[view.index] = inner.values[load.result]
        load.drop_all_references()

    token.loads.append(copy)


def _dot_issue(actor: ArefActor, op: ops.DotIssue) -> None:
    element = element_of(op.accumulator.type)
    precision = op.precision.data if op.precision else "tf32"
    keep = op.accumulate is None or bool(actor.values[op.accumulate])
    before = actor.values[op.accumulator]
    sides = [actor.values[v] if isinstance(actor.values[v], View) else actor.known(v)
             for v in (op.a, op.b)]  # fmt: skip
    if not keep:
        before = np.zeros(shape_of(op.accumulator.type), value_dtype(element))

    def compute() -> Array:
        start: Any = before.value if isinstance(before, Dot) else before
        a, b = (actor.tile(s) if isinstance(s, View) else s for s in sides)
        return dot(a, b, start, element, precision)

    reads = [s.token for s in sides if isinstance(s, View) and s.token is not None]
    flying = Dot(compute, reads)
    actor.dots.append(flying)
    actor.values[op.result] = flying


def _dot_wait(actor: ArefActor, op: ops.DotWait) -> None:
    actor.finish_dots(op.pending.value.data)
    for value, result in zip(op.values, op.results_, strict=True):
        found = actor.values[value]
        done = isinstance(found, Dot) and found.value is not None
        actor.values[result] = found.value if done else found


def _advance(actor: ArefActor, op: ops.Advance) -> None:
    start = 0 if op.cursor is None else int(actor.values[op.cursor])
    actor.values[op.result] = start + int(actor.values[op.count])


def _view(change: Callable[[Any, Array], Array]) -> Callable[[ArefActor, Any], None]:
    def action(actor: ArefActor, op: Any) -> None:
        view: View = actor.values[op.view]
        shape = view.shape
        new = View(view.token, view.index, lambda t: change(op, shape(t)), view.staged)
        actor.values[op.result] = new

    return action


def _zero_unless(actor: ArefActor, op: ops.ZeroUnless) -> None:
    value = np.asarray(actor.known(op.value))
    keep = bool(actor.values[op.condition])
    actor.values[op.result] = value if keep else np.zeros_like(value)


def _unset(actor: ArefActor, op: ops.Unset) -> None:
    dtype = value_dtype(element_of(op.result.type))
    poison = np.nan if dtype.kind == "f" else np.iinfo(dtype).max
    actor.values[op.result] = np.full(shape_of(op.result.type), poison, dtype)


def _turn_wait(actor: ArefActor, op: ops.TurnWait) -> Steps:
    del op
    key, passes = (actor.role, actor.team), actor.cta.passes
    yield lambda: passes.get(key, 0) > 0
    passes[key] -= 1


def _turn_pass(actor: ArefActor, op: ops.TurnPass) -> None:
    del op
    key = actor.role, (actor.team + 1) % actor.teams
    actor.cta.passes[key] = actor.cta.passes.get(key, 0) + 1


def _bind(value: Callable[[ArefActor, Any], Any]) -> Callable[[ArefActor, Any], None]:
    def action(actor: ArefActor, op: Any) -> None:
        actor.values[op.results[0]] = value(actor, op)

    return action


def _nothing(_actor: ArefActor, _op: Operation) -> None:
    """An agreement between CTAs changes nothing in one of them."""


def _staged(actor: ArefActor, op: ops.Stage) -> View:
    return View(None, 0, _same, np.asarray(actor.known(op.value)).copy())


def _number(value: int) -> Array:
    return np.asarray(value, np.int32)


ACTIONS: dict[type[Operation], Callable[..., Steps | None]] = {
    ops.PutEnter: _put_enter,
    ops.PutExit: _put_exit,
    ops.GetEnter: _get_enter,
    ops.Consumed: _consumed,
    ops.LoadInto: _load_into,
    ops.DotIssue: _dot_issue,
    ops.DotWait: _dot_wait,
    ops.Advance: _advance,
    ops.ZeroUnless: _zero_unless,
    ops.Unset: _unset,
    ops.TurnWait: _turn_wait,
    ops.TurnPass: _turn_pass,
    ops.Agree: _nothing,
    ops.Start: _bind(lambda _a, _o: 0),
    ops.NoToken: _bind(lambda _a, _o: None),
    ops.TeamIndex: _bind(lambda a, _o: _number(a.team)),
    ops.CtaIndex: _bind(lambda a, _o: _number(a.index[0])),
    ops.CtaCount: _bind(lambda a, _o: _number(a.grid[0])),
    ops.ViewTrans: _view(lambda _o, tile: tile.T),
    ops.ViewReshape: _view(lambda o, tile: tile.reshape(shape_of(o.result.type.tile))),
    ops.ViewRead: _bind(lambda a, o: a.tile(a.values[o.view]).copy()),
    ops.Stage: _bind(_staged),
}
"""What the ops of the aref level do; an op that may wait is a generator."""


# --- running --------------------------------------------------------------------------------------


def _rings(block: Block) -> dict[SSAValue, Ring]:
    groups = [op for op in block.ops if isinstance(op, ops.WarpGroup)]
    found: dict[SSAValue, Ring] = {}
    for op in block.ops:
        if isinstance(op, ops.Create):
            assert isinstance(op.ref.type, ops.RefType)
            tiles = len(op.ref.type.tiles)
            slots = [Slot([None] * tiles) for _ in range(op.ref.type.depth.data)]
            getters = [g for g in groups if _uses(g, op, ops.GetEnter)]
            putters = sum(g.teams.value.data for g in groups if _uses(g, op, ops.PutEnter))
            label = op.ref.name_hint or "aref"
            found[op.ref] = Ring(label, slots, max(1, len(getters)), putters == 1)
    return found


def _uses(group: ops.WarpGroup, ring: ops.Create, kind: type[ops.PutEnter | ops.GetEnter]) -> bool:
    return any(isinstance(op, kind) and op.ref is ring.ref for op in group.walk())


def _run_cta(block: Block, cta: Cta) -> None:
    cta.values.update(_rings(block))
    main = ArefActor(cta, "main", "main", 0, 1)
    for op in block.ops:
        if not isinstance(op, ops.Create | ops.WarpGroup | ReturnOp):
            main.run_op(op)
    cta.values.update(main.values)
    running: list[tuple[ArefActor, Iterator[Any], Callable[[], bool]]] = []
    for op in block.ops:
        if isinstance(op, ops.WarpGroup):
            teams = op.teams.value.data
            for team in range(teams):
                role = op.role.data
                name = role if teams == 1 else f"{role}[{team}]"
                actor = ArefActor(cta, name, role, team, teams)
                running.append((actor, actor.steps(op.body.block, []), lambda: True))
    while running:
        ready = next((i for i, (_, _, wait) in enumerate(running) if wait()), None)
        if ready is None:
            raise _deadlock([actor for actor, _, _ in running])
        actor, steps, _ = running.pop(ready)
        with suppress(StopIteration):
            running.insert(ready, (actor, steps, next(steps)))


def _deadlock(stuck: Sequence[ArefActor]) -> errors.Deadlock:
    return errors.Deadlock(
        f"nobody can go on: {len(stuck)} warp groups wait",
        span=span_of(stuck[0].op),
        expected="every wait to be met by a put, a return or a turn",
        found="\n".join(actor.doing() for actor in stuck),
        hint="follow who waits for whom: a return is missing, or comes too late",
    )


def run(
    module: ModuleOp,
    grid: Sequence[int],
    args: Sequence[Any],
    *,
    multiprocessors: int = SM90A.multiprocessors,
) -> None:
    """Run a module of the aref level on NumPy arrays, which it changes in place.

    `args` are those of the tile level (`simulate.tile.run`); a persistent kernel gets at most
    `multiprocessors` program instances. Raises a `ProtocolError` for the first broken rule.
    """
    kernel = next(op for op in module.body.block.ops if isinstance(op, FuncOp))
    block = kernel.body.block
    full = (*grid, 1, 1)[:3]
    memory = Memory()
    sizes = [np.asarray(n, np.int32) for n in full]
    names = [a.name_hint or f"argument {i}" for i, a in enumerate(block.args)]
    given = [
        argument_value(memory, name, parameter.type, value)
        for name, parameter, value in zip(names, block.args, args, strict=False)
    ]
    values: dict[SSAValue, Any] = dict(zip(block.args, [*given, *sizes], strict=False))
    launched = full
    if "tawa.persistent" in kernel.attributes:
        launched = (min(full[0] * full[1] * full[2], multiprocessors), 1, 1)
    with np.errstate(all="ignore"):
        for number in range(launched[0] * launched[1] * launched[2]):
            x, rest = number % launched[0], number // launched[0]
            index = (x, rest % launched[1], rest // launched[1])
            _run_cta(block, Cta(memory, index, launched, dict(values)))

