"""Rings of arefs: which loads fill a slot together, and what the slot holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, TensorType, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tawa.base.types import shape_of
from tawa.ir.effects import GLOBAL, ORDER, WRITE, touches
from tawa.ir.loops import users_in
from tawa.ir.walking import between, every
from tawa.partition.pointer_loads import slot_tile
from tawa.tile.dialect.ops import (
    DescLoad,
    Dot,
    Load,
    ViewLike,
)

RingLoad: TypeAlias = DescLoad | Load
"""A load that goes through a ring: by descriptor, or through pointers."""

RING = "aref.ring"
"""Attribute of a load: the number of its ring."""


def tile_of(load: RingLoad) -> TensorType[Attribute]:
    """How a load's tile lies in its slot."""
    return load.block if isinstance(load, DescLoad) else slot_tile(load)


@dataclass
class RingPlan:
    """Loads that share one ring of arefs: those of one place, which fill a slot."""

    loads: list[RingLoad] = field(default_factory=list[RingLoad])
    later: list[list[RingLoad]] = field(default_factory=list[list[RingLoad]])
    """Loads of other places that fill the same slots, in loops that follow."""

    @property
    def tiles(self) -> list[TensorType[Attribute]]:
        """The tuple of tiles of one slot."""
        return [tile_of(load) for load in self.loads]

    @property
    def kinds(self) -> list[type[Operation]]:
        """How each tile of a slot is loaded."""
        return [type(load) for load in self.loads]


def dot_uses(value: SSAValue) -> list[Dot]:
    """The dots that take the value as an operand, directly or transposed or reshaped."""
    found: list[Dot] = []
    for use in value.uses:
        op = use.operation
        if isinstance(op, Dot) and use.index < 2:
            found.append(op)
        elif isinstance(op, ViewLike):
            found += dot_uses(op.result)
    return found


def plan_rings(
    block_ops: Iterable[Operation], pointers: Sequence[Load] = (), *, together: bool = False
) -> list[RingPlan]:
    """Loads of one block that serve one dot share a ring; every other load has its own.

    Those by descriptor go through rings, and of those through pointers the given ones. If they are
    `together`, those of a loop's iteration share a ring for each way to load.
    """
    loads: list[RingLoad] = [
        op
        for op in block_ops
        if isinstance(op, DescLoad) or (isinstance(op, Load) and op in pointers)
    ]
    rings: list[RingPlan] = []
    of_dot: dict[tuple[Dot, Block | None], RingPlan] = {}
    rows = [load for load in loads if isinstance(load, Load) and _is_row(load)]
    for load in [load for load in loads if load not in rows]:
        keys = [(dot, load.parent) for dot in dot_uses(load.result)]
        joined = {id(r): r for r in (of_dot.get(key) for key in keys) if r is not None}
        ring, *others = list(joined.values()) or [RingPlan()]
        if ring not in rings:
            rings.append(ring)
        for other in others:
            ring.loads += other.loads
            rings.remove(other)
            of_dot |= {key: ring for key, r in of_dot.items() if r is other}
        ring.loads.append(load)
        of_dot |= dict.fromkeys(keys, ring)
    for row in rows:
        _beside(row, loads, rings)
    return _of_turns(rings) if together else rings


def _is_row(load: Load) -> bool:
    return len(shape_of(load.result.type)) == 1


def _beside(row: Load, loads: Sequence[RingLoad], rings: list[RingPlan]) -> None:
    """Let a row fill the slots of the tile that threads copy in its place: the last before it."""
    at = loads.index(row)
    order = [*reversed(loads[:at]), *loads[at:]]
    near = [op for op in order if isinstance(op, Load) and op.parent is row.parent]
    ring = next((r for op in near for r in rings if op in r.loads), None)
    if ring is None:
        ring = RingPlan()
        rings.append(ring)
    ring.loads.append(row)


def _of_turns(rings: Sequence[RingPlan]) -> list[RingPlan]:
    """The rings, those that an iteration of one loop fills in one way made one."""
    found: dict[tuple[object, ...], RingPlan] = {}
    for ring in rings:
        place = ring.loads[0].parent
        looped = place is not None and isinstance(place.parent_op(), scf.ForOp)
        key = (place, *dict.fromkeys(ring.kinds)) if looped else (id(ring),)
        found.setdefault(key, RingPlan()).loads += ring.loads
    return list(found.values())


def _follows(first: RingLoad, second: RingLoad) -> bool:
    """Whether the loads lie in two loops of which one follows the other."""
    one, other = first.parent_op(), second.parent_op()
    if not isinstance(one, scf.ForOp) or not isinstance(other, scf.ForOp):
        return False
    return one is not other and one.parent is other.parent


def share_rings(rings: Sequence[RingPlan]) -> list[RingPlan]:
    """Loops that follow each other load tiles of the same types through the same rings.

    Every slot of a loop is returned by its end, so all its rings' memory serves the next loop, and
    the next loop's first tiles are loaded while this one still computes.
    """
    found: list[RingPlan] = []
    for ring in rings:
        place = ring.loads[0]
        for earlier in found:
            places = [earlier.loads[0], *(loads[0] for loads in earlier.later)]
            same = earlier.tiles == ring.tiles and earlier.kinds == ring.kinds
            if same and all(_follows(p, place) for p in places):
                earlier.later.append(ring.loads)
                break
        else:
            found.append(ring)
    return found


def needed_before(loads: Sequence[RingLoad]) -> bool:
    """Whether an op needs one of a slot's tiles before the last of them is loaded."""
    last = latest(loads)
    home = last.parent
    assert home is not None
    end = home.get_operation_index(last)
    users = (op for load in loads for op in users_in(load.result, home))
    return any(home.get_operation_index(op) <= end for op in users)


def stored_between(loads: Sequence[RingLoad]) -> bool:
    """Whether the program writes, or orders accesses, between a slot's loads: they are not one."""
    inside = between(first(loads), latest(loads))
    ops = [op for outer in inside for op in every(outer)]
    return any(touches(op, GLOBAL, WRITE) or touches(op, ORDER) for op in ops)


def apart(rings: Sequence[RingPlan]) -> list[RingPlan]:
    """The rings of one role, which fills a slot and waits for it in turn: all tiles at once."""
    found: list[RingPlan] = []
    for ring in rings:
        apart = needed_before(ring.loads) or stored_between(ring.loads)
        found += [RingPlan([load]) for load in ring.loads] if apart else [ring]
    return found


def unlabel(kernel_ops: Iterable[Operation]) -> None:
    """Forget an earlier plan."""
    for op in kernel_ops:
        op.attributes.pop(RING, None)


def label(rings: Sequence[RingPlan]) -> None:
    """Note each load's place in its ring, for copies of the program."""
    for r, ring in enumerate(rings):
        for p, loads in enumerate([ring.loads, *ring.later]):
            for t, load in enumerate(loads):
                for key, number in (("ring", r), ("place", p), ("tile", t)):
                    load.attributes[f"aref.{key}"] = IntegerAttr(number, i32)


def labelled(block: Block) -> list[tuple[int, list[RingLoad]]]:
    """The loads of a copy of the program by ring and place, in the ring's order of tiles."""
    found: dict[tuple[int, int], list[RingLoad]] = {}
    for op in every(block):
        if isinstance(op, DescLoad | Load) and RING in op.attributes:
            found.setdefault((_label_of(op, "ring"), _label_of(op, "place")), []).append(op)
    return [
        (ring, sorted(loads, key=lambda op: _label_of(op, "tile")))
        for (ring, _), loads in found.items()
    ]


def _label_of(load: RingLoad, key: str) -> int:
    number = load.attributes[f"aref.{key}"]
    assert isinstance(number, IntegerAttr)
    return number.value.data


def latest(ops: Sequence[Operation]) -> Operation:
    """The last of ops of one block."""
    block = ops[0].parent
    assert block is not None
    return max(ops, key=lambda op: block.get_operation_index(op))


def first(ops: Sequence[Operation]) -> Operation:
    """The first of ops of one block."""
    block = ops[0].parent
    assert block is not None
    return min(ops, key=lambda op: block.get_operation_index(op))
