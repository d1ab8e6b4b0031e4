"""Which rings of a kernel are wheels: what their slots are chosen by, and where that can be seen.

A wheel is a ring of `depth` slots, with all barriers and tiles that one kind of cursor chooses
from: a slot and a phase, which go on by one slot after another. Where code names its slots by
cursors alone, it does not matter at which slot a wheel stands (`turning.py`). What this file finds
is a guess: whether code does so is seen when it runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from tawa.hopper.dialect.memory import Slot
from tawa.hopper.dialect.structure import Barriers, Ring
from tawa.hopper.dialect.sync import MbarrierWait
from tawa.hopper.dialect.types import BarrierType, MatrixDescType, RingType, TileType
from tawa.ir.elementwise import Map
from tawa.simulate.prove.code import Instruction, Moves, Slice, still_to_come
from tawa.simulate.prove.turns import NotFree, turn_of
from tawa.simulate.prove.unknowns import Number

Node = tuple[str, SSAValue]


@dataclass(eq=False)
class Wheel:
    """A ring's barriers and tiles, and the values that are its cursors' slots and phases."""

    number: int
    depth: int
    rows: list[int] = field(default_factory=list[int])
    """Where rows of mbarriers begin, one of each slot."""
    tiles: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Where rings of tiles begin, and the bytes from one slot to the next."""
    slots: set[SSAValue] = field(default_factory=set[SSAValue])
    phases: set[SSAValue] = field(default_factory=set[SSAValue])
    companions: dict[SSAValue, list[SSAValue]] = field(
        default_factory=dict[SSAValue, list[SSAValue]]
    )
    """For phases, the slots that belong to the same cursor."""

    def meets(self, begin: int, end: int) -> bool:
        """Whether bytes are among those of its slots."""
        return any(a < end and begin < a + self.depth * by for a, by in self.tiles)

    def slot_at(self, address: int) -> tuple[int, int, int] | None:
        """The slot that an address lies in, as its number, begin and end."""
        for base, stride in self.tiles:
            if base <= address < base + self.depth * stride:
                number = (address - base) // stride
                return number, base + number * stride, base + (number + 1) * stride
        return None

    def turned(self, address: int, by: int) -> int:
        """An address in one of the slots, where that slot is once the wheel has been turned."""
        for base, stride in self.tiles:
            if base <= address < base + self.depth * stride:
                number, rest = divmod(address - base, stride)
                return base + (number - by) % self.depth * stride + rest
        return address


@dataclass
class Uses:
    """What an op does with wheels: which operand is a slot, which a phase."""

    wheel: Wheel
    slot: SSAValue | None
    parity: SSAValue | None

    def at(self, name: SSAValue, number: Callable[[SSAValue], Number]) -> int:
        """A slot, or a parity that belongs to it, of a wheel that is free."""
        wheel, slots = self.wheel, number(self.slot) if self.slot is not None else None
        slot, phase = turn_of(slots), turn_of(number(name))
        if wheel.depth > 1 or slots != 0:
            if slot is None or slot.is_phase or slot.wheel != wheel.number:
                raise NotFree(wheel.number)
        if name is self.slot and name is not self.parity:
            return slot.position if slot is not None else 0
        if phase is None or not phase.is_phase or phase.wheel != wheel.number:
            raise NotFree(wheel.number)
        if slot is not None and (phase.position - slot.position) % wheel.depth:
            raise NotFree(wheel.number)
        return phase.position // wheel.depth


class Wheels:
    """The wheels of a kernel."""

    def __init__(self, kept: Slice, granule: int) -> None:
        self.places, self.steady = kept.places, kept.steady
        self._parents: dict[Node, Node] = {}
        self._pairs: set[tuple[SSAValue, SSAValue]] = set()
        ops = [op for op in kept.kernel.walk() if op in kept.ops]
        for op in ops:
            self._use(op)
        moves = [tuple(m for m in found if not _constant(m[1])) for found in _moves(ops)]
        for name, value in (move for found in moves for move in found):
            for kind in ("slot", "phase"):
                self._join((kind, name), (kind, value))
        self._pair_up(moves)
        rings = [op for op in ops if isinstance(op, Ring)]
        self.all = [w for w in self._collected(ops, rings) if _whole(w, rings, granule)]
        for number, wheel in enumerate(self.all):
            wheel.number = number
        self.uses = {op: found for op in ops if (found := self._uses_of(op)) is not None}

    # --- components -----------------------------------------------------------------------------

    def _find(self, node: Node) -> Node:
        while (above := self._parents.get(node, node)) != node:
            self._parents[node] = self._parents.get(above, above)
            node = above
        return node

    def _join(self, a: Node, b: Node) -> None:
        for node in (a, b):
            self._parents.setdefault(node, node)
        self._parents[self._find(a)] = self._find(b)

    def _use(self, op: Operation) -> None:
        if isinstance(op, Slot):
            if not _constant(op.index):
                self._join(("slot", op.index), ("ring", op.ring))
            return
        row, slot = _row_of(op), _slot_of(op)
        if row is None or slot is None:
            return
        if not _constant(slot):
            self._join(("slot", slot), ("row", row))
        if isinstance(op, MbarrierWait):
            root = phase_of(op.parity)
            if not _constant(root):
                self._join(("phase", root), ("row", row))
                if not _constant(slot):
                    self._pairs.add((slot, root))

    def _pair_up(self, moves: list[Moves]) -> None:
        """Slots and phases that are moved together belong to the same cursor."""
        before = -1
        while before < len(self._pairs):
            before = len(self._pairs)
            for names in moves:
                given = dict(names)
                taken: dict[SSAValue, list[SSAValue]] = {}
                for name, value in names:
                    taken.setdefault(value, []).append(name)
                for slot, phase in list(self._pairs):
                    if slot in given and phase in given:
                        self._pairs.add((given[slot], given[phase]))
                    for one in taken.get(slot, ()):
                        self._pairs.update((one, other) for other in taken.get(phase, ()))

    def _collected(self, ops: list[Operation], rings: list[Ring]) -> Iterator[Wheel]:
        found: dict[Node, Wheel] = {}
        depths: dict[Node, set[int]] = {}
        for op in ops:
            if isinstance(op, Barriers):
                top, kind = self._find(("row", op.barrier)), op.barrier.type
                assert isinstance(kind, BarrierType)
                wheel = found.setdefault(top, Wheel(-1, kind.slots.data))
                wheel.rows.append(op.offset.value.data)
                depths.setdefault(top, set()).add(kind.slots.data)
        for op in rings:
            top, kind = self._find(("ring", op.ring)), op.ring.type
            assert isinstance(kind, RingType)
            if top in found:
                found[top].tiles.append((op.offset.value.data, kind.stride))
                depths[top].add(kind.slots.data)
        self._add_cursors(found)
        for top, wheel in found.items():
            if len(depths[top]) == 1 and wheel.phases and not wheel.slots & wheel.phases:
                yield wheel

    def _add_cursors(self, found: dict[Node, Wheel]) -> None:
        """Say of wheels which values are slots and phases."""
        for kind, value in list(self._parents):
            wheel = found.get(self._find((kind, value)))
            if wheel is not None and kind in ("slot", "phase"):
                (wheel.slots if kind == "slot" else wheel.phases).add(value)
        for wheel in found.values():
            for slot, phase in self._pairs:
                if phase in wheel.phases and slot in wheel.slots:
                    wheel.companions.setdefault(phase, []).append(slot)

    def drop(self, number: int) -> None:
        """Leave a wheel as it stands."""
        self.all = [w for w in self.all if w.number != number]
        self.uses = {op: uses for op, uses in self.uses.items() if uses.wheel.number != number}

    # --- uses -----------------------------------------------------------------------------------

    def _uses_of(self, op: Operation) -> Uses | None:
        if isinstance(op, Slot) and isinstance(op.ring.owner, Ring):
            base = op.ring.owner.offset.value.data
            wheel = next((w for w in self.all if any(at == base for at, _ in w.tiles)), None)
            return wheel and Uses(wheel, op.index, None)
        row = _row_of(op)
        if row is None or not isinstance(row.owner, Barriers):
            return None
        wheel = next((w for w in self.all if row.owner.offset.value.data in w.rows), None)
        parity = op.parity if isinstance(op, MbarrierWait) else None
        return wheel and Uses(wheel, _slot_of(op), parity)

    def blocked(self, code: Sequence[Instruction]) -> list[frozenset[int]]:
        """For each place in the code, the wheels of which a slot may yet be named otherwise."""
        return still_to_come(code, [frozenset(self._otherwise(step)) for step in code])

    def used(self, step: Instruction) -> Iterator[int]:
        """The wheel that a step uses a slot of."""
        uses = self.uses.get(step.op) if step.kind == "op" else None
        if uses is not None:
            yield uses.wheel.number

    def _otherwise(self, step: Instruction) -> Iterator[int]:
        uses = self.uses.get(step.op) if step.kind == "op" else None
        if uses is not None:
            wheel = uses.wheel
            if (uses.slot is None or uses.slot not in wheel.slots) and wheel.depth > 1:
                yield wheel.number
            if uses.parity is not None and phase_of(uses.parity) not in wheel.phases:
                yield wheel.number
            if uses.slot is None:
                yield wheel.number
        for name, value in step.moves:
            for wheel in self.all:
                for kind in (wheel.slots, wheel.phases):
                    if name in kind and value not in kind and not _no_slot(value, wheel):
                        yield wheel.number

    # --- accesses -------------------------------------------------------------------------------

    def check_inside(
        self, op: Operation, values: Mapping[SSAValue, object], parts: Iterable[tuple[int, int]]
    ) -> None:
        """Raise `NotFree` unless what an op accesses lies in the slots of its own places.

        `parts` are beginnings and ends in bytes; `values` has the places of slots.
        """
        extents: list[tuple[int, int]] = []
        own: list[Wheel] = []
        for place in op.operands:
            if isinstance(place.type, TileType | MatrixDescType):
                self._extent(place, values, own, extents)
        for begin, end in parts:
            met = [*own, *(w for w in self.all if w.meets(begin, end))]
            if met and not any(a <= begin and end <= b for a, b in extents):
                raise NotFree(met[0].number)

    def _extent(
        self,
        place: SSAValue,
        values: Mapping[SSAValue, object],
        own: list[Wheel],
        extents: list[tuple[int, int]],
    ) -> None:
        """Add the bytes that a place may reach, and the wheel that it is a part of."""
        slot = ring_of(place)
        uses = None if slot is None else self.uses.get(slot)
        if slot is None:
            return
        if uses is None:
            kind, ring = slot.ring.type, slot.ring.owner
            if isinstance(ring, Ring) and isinstance(kind, RingType):
                first = ring.offset.value.data
                extents.append((first, first + kind.bytes))
            return
        own.append(uses.wheel)
        address = values.get(slot.tile)
        found = uses.wheel.slot_at(address) if isinstance(address, int) else None
        if found is not None:
            extents.append(found[1:])


def _row_of(op: Operation) -> SSAValue | None:
    """The row of mbarriers that an op uses one of."""
    if isinstance(op, Barriers):
        return None
    return next((v for v in op.operands if isinstance(v.type, BarrierType)), None)


def _slot_of(op: Operation) -> SSAValue | None:
    """Which of the row."""
    slot: object = getattr(op, "slot", None)
    return next((v for v in op.operands if v is slot), None)


def _moves(ops: Iterable[Operation]) -> Iterator[Moves]:
    """The values that structured ops give to names at once."""
    for op in ops:
        if not op.regions:
            continue
        blocks = [region.block for region in op.regions if region.blocks]
        lasts = [block.last_op for block in blocks if block.last_op is not None]
        match op.name:
            case "scf.for":
                names = blocks[0].args[1:]
                inits = op.operands[3:]
                yield tuple(zip(names, inits, strict=True))
                yield tuple(zip(names, lasts[0].operands, strict=True))
                yield tuple(zip(op.results, names, strict=True))
            case "scf.while":
                passed = lasts[0].operands[1:]
                yield tuple(zip(blocks[0].args, op.operands, strict=True))
                yield tuple(zip(op.results, passed, strict=True))
                yield tuple(zip(blocks[1].args, passed, strict=True))
                yield tuple(zip(blocks[0].args, lasts[1].operands, strict=True))
            case "scf.if" if op.results:
                yield from (tuple(zip(op.results, end.operands, strict=True)) for end in lasts)
            case _:
                pass


def phase_of(parity: SSAValue) -> SSAValue:
    """A cursor's phase of a parity, which may be the other one."""
    op = parity.owner
    if isinstance(op, Map) and op.function.data == "xori" and _constant(op.arguments[1]):
        return op.arguments[0]
    return parity


def _constant(value: SSAValue) -> bool:
    return isinstance(value.owner, arith.ConstantOp) and isinstance(value.owner.value, IntegerAttr)


def _no_slot(value: SSAValue, wheel: Wheel) -> bool:
    """Whether a value stands for no slot at all, as -1 does."""
    if not isinstance(value.owner, arith.ConstantOp):
        return False
    found = value.owner.value
    return isinstance(found, IntegerAttr) and not 0 <= found.value.data < max(wheel.depth, 2)


def ring_of(value: SSAValue) -> Slot | None:
    """The slot that a place in shared memory is a part of; None if it is not to be seen."""
    while not isinstance(value.owner, Slot):
        if not isinstance(value.owner, Operation):
            return None
        tiles = [v for v in value.owner.operands if isinstance(v.type, TileType)]
        if len(tiles) != 1:
            return None
        value = tiles[0]
    return value.owner


def _whole(wheel: Wheel, rings: list[Ring], granule: int) -> bool:
    """Whether no other ring has a part of its slots, and no granule lies in two of them."""
    own = [ring for ring in rings if ring.offset.value.data in {base for base, _ in wheel.tiles}]
    for base, stride in wheel.tiles:
        if base % granule or stride % granule:
            return False
        for ring in rings:
            kind, first = ring.ring.type, ring.offset.value.data
            assert isinstance(kind, RingType)
            meets = first < base + wheel.depth * stride and base < first + kind.bytes
            if meets and ring not in own:
                return False
    return all(n == 1 for n in Counter(base for base, _ in wheel.tiles).values())
