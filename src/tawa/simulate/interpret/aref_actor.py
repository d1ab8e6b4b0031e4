"""An actor of the aref level: its values, its dots in flight, its way through control flow."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from tawa.base.errors import TawaError
from tawa.base.numerics import Array, value_dtype
from tawa.base.spans import span_of
from tawa.simulate.interpret import errors
from tawa.simulate.interpret.memory import Memory
from tawa.simulate.interpret.spinning import Spinning
from tawa.simulate.interpret.tile import Program

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
    """Returns by consumers: with multicast two each, to the CTAs that wait for them."""
    freed: int = 0
    """Returns by consumers of this CTA, however they are sent."""
    parts: dict[tuple[int, int], dict[int, Array]] = field(
        default_factory=dict[tuple[int, int], "dict[int, Array]"]
    )
    """Of each iteration and tile, the parts that CTAs of the cluster have multicast."""
    shared: dict[int, frozenset[int]] = field(default_factory=dict[int, "frozenset[int]"])
    """Of each iteration that is published, the tiles that come as parts."""


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
    rank: int = 0
    """The CTA in its cluster."""
    peer: Ring | None = None
    """With multicast: the same ring in the cluster's other CTA."""

    @property
    def needed(self) -> int:
        """Returns before a slot is empty again."""
        return self.consumers * (2 if self.peer is not None else 1)

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
    shared: set[int] = field(default_factory=set[int])
    """Tiles that the cluster's CTAs load together."""

    @property
    def slot(self) -> Slot:
        """The slot."""
        return self.ring.slots[self.use % len(self.ring.slots)]

    @property
    def generation(self) -> int:
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


def unchanged(tile: Array) -> Array:
    """The stored tile as it is."""
    return tile


class ArefActor(Program):
    """One team of a warp-group region."""

    def __init__(self, cta: Cta, name: str, role: str, team: int, teams: int) -> None:
        super().__init__(cta.memory, cta.index, cta.grid)
        self.cta, self.role, self.team, self.teams = cta, role, team, teams
        self.name = f"{cta.name}{name}"
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
            elif type(op) in self.cta.actions:
                yield from self.cta.actions[type(op)](self, op) or ()
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
        spinning = Spinning(op, self.index, self.memory)
        while True:
            yield from spinning.iteration(carried)
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
    actions: Mapping[type[Operation], Callable[..., Steps | None]]
    """What the ops of the level do."""
    name: str = ""
    """What messages put before its actors' names, in a cluster."""
    passes: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    """Iterations passed to each team of each role, minus those taken."""
