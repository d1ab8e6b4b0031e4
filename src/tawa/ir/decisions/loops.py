"""What became of loops: their schedules, where they end, what runs ahead in them."""

from __future__ import annotations

from dataclasses import dataclass

from tawa.base.source import Span
from tawa.ir.decisions.decision import Decision, Record


@dataclass(frozen=True)
class ComputedWhereStored(Decision):
    """What only some programs store is computed by those alone."""

    op: str
    by = "partial-dead-code"

    @property
    def sentence(self) -> str:
        """What."""
        return f"computed only where it is stored ({self.place(self.op)})"


@dataclass(frozen=True)
class IterationsBatched(Decision):
    """Several iterations of a loop are one, whose loads come first."""

    count: int
    by = "batched-loads"

    @property
    def sentence(self) -> str:
        """How many."""
        return f"{self.count} iterations at a time, their loads first"


@dataclass(frozen=True)
class MasksLeftOut(Decision):
    """A loop is split: where masks hold for whole tiles, they are left out."""

    masks: int
    by = "split-loops"

    @property
    def sentence(self) -> str:
        """How many."""
        return f"split where masks hold for whole tiles: {self.masks} left out there"


@dataclass(frozen=True)
class MasksGuarded(Decision):
    """A loop that stays whole masks tiles only in iterations that have something to mask."""

    choices: int
    by = "guard-masks"

    @property
    def sentence(self) -> str:
        """How many."""
        return f"tiles are masked only at edges: {self.choices} behind a branch"


class _OfPeeling(Decision):
    by = "last-iteration-peeling"


@dataclass(frozen=True)
class GroupsEndTogether(_OfPeeling):
    """All groups of a team run all iterations of a loop."""

    why: str

    @property
    def sentence(self) -> str:
        """Which loop, and why."""
        return f"all groups make all iterations of {self.place('loop')}: {self.why}"


@dataclass(frozen=True)
class GroupsEndApart(_OfPeeling):
    """Groups end a loop where their own rows do."""

    @property
    def sentence(self) -> str:
        """Which loop."""
        return f"groups leave {self.place('loop')} after their own rows' last iteration"


@dataclass(frozen=True)
class OwnRowsMasked(Decision):
    """A branch that masks a tile asks for a group's own rows."""

    by = "own-masks"

    @property
    def sentence(self) -> str:
        """Which branch."""
        return f"groups mask their own rows alone at {self.place('a branch')}"


class _OfSchedule(Decision):
    by = "schedule"
    takes_registers = True


@dataclass(frozen=True)
class LoopKeepsOrder(_OfSchedule):
    """A loop has no dependence graph to schedule: it keeps the order of the source."""

    why: str

    @property
    def sentence(self) -> str:
        """Which loop, and why."""
        return f"the loop at {self.place('loop')} keeps its order: {self.why}"


@dataclass(frozen=True)
class NoSchedule(_OfSchedule):
    """The solver found no schedule of a loop within its registers."""

    @property
    def sentence(self) -> str:
        """Which loop."""
        return f"the loop at {self.place('loop')} keeps its order: no schedule found"


@dataclass(frozen=True)
class Usage(Record):
    """Cycles that a resource works in an iteration."""

    resource: str
    cycles: int


@dataclass(frozen=True)
class ScheduledOp(Record):
    """Where a costly op starts in the schedule; `unit` is what it keeps busy, and how long."""

    start: int
    stage: int
    op: str
    unit: str
    cycles: int
    line: int | None


@dataclass(frozen=True)
class LoopScheduled(_OfSchedule):
    """A loop's modulo schedule."""

    interval: int
    """Cycles from an iteration's start to the next one's."""
    bound: str
    """What does not let it be shorter."""
    joined: bool
    """Whether the loop runs on from tile to tile."""
    usages: tuple[Usage, ...]
    ops: tuple[ScheduledOp, ...]
    places: tuple[tuple[int, int], ...]
    """Start and stage of every node of the dependence graph."""

    @property
    def sentence(self) -> str:
        """Two tables: what each resource works in an iteration, and the costly ops."""
        where = self.place("loop")
        lines = [
            f"the loop at {where} has an initiation interval of {self.interval} cycles, "
            f"bound by {self.bound}"
        ]
        lines.append("  cycles  share  resource")
        for usage in self.usages:
            share = usage.cycles / self.interval
            lines.append(f"  {usage.cycles:6}  {share:5.0%}  {usage.resource}")
        lines.append("   start  stage  op                takes")
        for op in self.ops:
            line = f", line {op.line}" if op.line is not None else ""
            takes = f"{op.unit} {op.cycles}{line}"
            lines.append(f"  {op.start:6}  {op.stage:5}  {op.op:16}  {takes}")
        return "\n".join(lines)


@dataclass(frozen=True)
class LoopJoined(_OfSchedule):
    """A scheduled loop runs on from tile to tile."""

    @property
    def sentence(self) -> str:
        """Which loop."""
        return f"the loop at {self.place('loop')} runs on from tile to tile"


@dataclass(frozen=True)
class LoopNotJoined(_OfSchedule):
    """A scheduled loop fills and drains its pipeline for every tile."""

    why: str

    @property
    def sentence(self) -> str:
        """Which loop, and why."""
        return f"the loop at {self.place('loop')} is not joined across tiles: {self.why}"


@dataclass(frozen=True)
class ProductsInFlight(Decision):
    """How many iterations' products a loop leaves in flight."""

    iterations: int
    by = "async-dots"

    @property
    def sentence(self) -> str:
        """How many, where."""
        where = self.place("loop")
        return f"{self.iterations} iteration(s) of matrix products in flight ({where})"


@dataclass(frozen=True)
class LoadedIntoRegistersAhead(Decision):
    """Tiles of the next iteration are loaded into registers during this one's products."""

    tiles: int
    by = "register-prefetch"
    takes_registers = True

    @property
    def sentence(self) -> str:
        """How many, where."""
        return f"{self.tiles} tile(s) are loaded an iteration ahead ({self.place('loop')})"


@dataclass(frozen=True)
class OperandResident(Decision):
    """A product's operand is read before the loop."""

    by = "resident-operands"

    @property
    def sentence(self) -> str:
        """Which product's."""
        return f"an operand stays in registers through the loop ({self.place('a product')})"


@dataclass(frozen=True)
class TilesInTurns(Decision):
    """Teams take turns on the tiles of a persistent loop."""

    teams: int
    by = "ping-pong"

    @property
    def sentence(self) -> str:
        """How many."""
        return f"{self.teams} consumers take turns on the tiles of the loop"


@dataclass(frozen=True)
class IterationsInSlices(Decision):
    """Teams share the iterations of a loop that adds up products."""

    teams: int
    by = "slices"

    @property
    def sentence(self) -> str:
        """How many, where."""
        return f"{self.teams} teams share the iterations of a loop ({self.place('loop')})"


@dataclass(frozen=True)
class ProductsInTurns(Decision):
    """The groups of a team issue their products in turns."""

    loops: tuple[Span | None, ...]
    by = "named-barrier-ping-pong"

    @property
    def sentence(self) -> str:
        """In which loops."""
        where = ", ".join(str(span or "loop") for span in self.loops)
        return f"consumers take turns on the products of {where}"
