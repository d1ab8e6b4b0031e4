"""Tiles that straight-line code loads one after the other share the slots of one ring.

Each load of a kernel has a ring of its own. An unrolled loop may have more of them than shared
memory holds. Rings whose tiles have one type become one ring. For this each tile has to be returned
before the next one is taken, and no role may then wait for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Attribute, Block, Operation

from tawa.aref.dialect.ops import Consumed, Create, GetEnter, PutEnter, PutExit, WarpGroup
from tawa.base.spans import span_of
from tawa.ir.contracts import Contract
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.memory import SlotsShared
from tawa.ir.properties import ASYNCHRONOUS, FINAL_RINGS, OPEN_SLOTS
from tawa.ir.walking import all_of

SEQUENCE = "sequence"
"""An attribute of rings that several loads of one block fill."""

TURNS = 2
"""Of a loop, that are followed: in the second, all slots have been used."""


@dataclass(frozen=True)
class Tile:
    """A ring with one put and one get, and where in their blocks these begin and end."""

    create: Create
    put: PutEnter
    get: GetEnter
    consumed: Consumed
    kind: tuple[Attribute, ...]
    """What of its ops says how others wait for it."""

    @property
    def blocks(self) -> tuple[Block | None, Block | None]:
        """Those of the put and of the get."""
        return self.put.parent, self.get.parent


@dataclass(frozen=True)
class SharedSlots:
    """Join rings of tiles that come one after the other, where memory is short (`enabled`)."""

    decided: Decisions
    enabled: bool
    name: ClassVar[str] = "shared-slots"
    contract: ClassVar[Contract] = Contract(requires=(FINAL_RINGS, ASYNCHRONOUS, OPEN_SLOTS))

    def apply(self, module: ModuleOp) -> None:
        """Give each sequence of tiles one ring."""
        groups = all_of(module, WarpGroup)
        if not self.enabled or len(groups) > 2 or any(g.teams.value.data > 1 for g in groups):
            return
        alone = [tile for op in all_of(module, Create) if (tile := _tile(op)) is not None]
        rings = {tile.create: tile.create for tile in alone}
        for tiles in _alike(alone):
            for run in _runs(tiles):
                joined = {**rings, **{tile.create: run[0].create for tile in run}}
                if len(run) > 1 and _goes_on(module, alone, joined, run):
                    rings = joined
                    self._join(run)

    def _join(self, run: Sequence[Tile]) -> None:
        first = run[0].create
        for tile in run[1:]:
            tile.create.ref.replace_all_uses_with(first.ref)
            tile.create.detach()
            tile.create.erase()
        first.attributes[SEQUENCE] = UnitAttr()
        self.decided.add(SlotsShared(len(run), span=span_of(run[0].put)))


def _tile(create: Create) -> Tile | None:
    """A ring that one load fills, and one role empties once it has read the tile."""
    users = [use.operation for use in create.ref.uses]
    found = [
        [op for op in users if isinstance(op, kind)] for kind in (PutEnter, GetEnter, Consumed)
    ]
    exits = [op for op in users if isinstance(op, PutExit)]
    if create.multicast or create.interleaved or [len(x) for x in (*found, exits)] != [1] * 4:
        return None
    (put,), (get,), (consumed,) = found
    assert isinstance(put, PutEnter) and isinstance(get, GetEnter)
    assert isinstance(consumed, Consumed)
    straight = consumed.parent is get.parent and exits[0].parent is put.parent
    if not straight or consumed.token is not get.token or consumed.shared is not None:
        return None
    kind = create.ref.type, exits[0].completion, consumed.completion
    return Tile(create, put, get, consumed, kind)


def _alike(tiles: Sequence[Tile]) -> Iterator[list[Tile]]:
    """Tiles of one type whose puts are in one block, and whose gets are."""
    keys = dict.fromkeys((tile.kind, *tile.blocks) for tile in tiles)
    for key in keys:
        yield [tile for tile in tiles if (tile.kind, *tile.blocks) == key]


def _runs(tiles: Sequence[Tile]) -> list[list[Tile]]:
    """Tiles in the order of their puts; each of a run is taken when the one before is returned."""
    puts = sorted(tiles, key=lambda tile: _place(tile.put))
    runs: list[list[Tile]] = []
    for tile in puts:
        for run in runs:
            if _place(run[-1].consumed) < _place(tile.get):
                run.append(tile)
                break
        else:
            runs.append([tile])
    return runs


def _place(op: Operation) -> int:
    assert op.parent is not None
    return op.parent.get_operation_index(op)


Step: TypeAlias = tuple[str, object]
"""`put`, `get` or `end` of a tile's ring; or `meet`, for what both roles do at the same time."""


def _goes_on(
    module: ModuleOp, tiles: Sequence[Tile], rings: dict[Create, Create], run: Sequence[Tile]
) -> bool:
    """Whether no role waits for ever, were each ring to have a slot: both are followed."""
    puts, gets = run[0].blocks
    assert puts is not None and gets is not None
    meetings = _meetings(module, tiles, puts, gets)
    if meetings is None:
        return False
    here = [tile for tile in tiles if tile.blocks == (puts, gets)]
    first: list[tuple[int, Step]] = [(_place(t.put), ("put", rings[t.create])) for t in here]
    second: list[tuple[int, Step]] = []
    for tile in here:
        ring = rings[tile.create]
        second += [(_place(tile.get), ("get", ring)), (_place(tile.consumed), ("end", ring))]
    first += [(_place(op), ("meet", op)) for op in meetings]
    second += [(_place(other), ("meet", op)) for op, other in meetings.items()]
    roles = [[*first, *second]] if puts is gets else [first, second]
    return _end([[step for _, step in sorted(role, key=lambda s: s[0])] * TURNS for role in roles])


def _meetings(
    module: ModuleOp, tiles: Sequence[Tile], puts: Block, gets: Block
) -> dict[Operation, Operation] | None:
    """The loops of one block that fill what those of the other empty; None if not so simple."""
    found: dict[Operation, Operation] = {}
    known = {tile.create for tile in tiles if tile.blocks == (puts, gets)}
    for create in all_of(module, Create):
        if create in known:
            continue
        filling, emptying = _around(create, PutEnter, puts), _around(create, GetEnter, gets)
        if len(filling) != len(emptying):
            return None
        for one, other in zip(filling, emptying, strict=True):
            if one is other:
                continue  # both are elsewhere, or in a loop of the only role
            if one is None or other is None or not (one.regions and other.regions):
                return None
            if found.setdefault(one, other) is not other:
                return None
    return found if len(set(found.values())) == len(found) else None


def _around(create: Create, kind: type[Operation], block: Block) -> list[Operation | None]:
    """What of a block does such an op of a ring, or has it inside: each once, in their order."""
    users = [use.operation for use in create.ref.uses if isinstance(use.operation, kind)]
    places = dict.fromkeys(block.find_ancestor_op_in_block(op) for op in users)
    inside = [op for op in places if op is not None]
    return [*([None] if None in places else []), *sorted(inside, key=_place)]


def _end(roles: list[list[Step]]) -> bool:
    """Whether all roles get to the end, where each ring has one slot."""
    full, taken = Counter[object](), Counter[object]()
    while any(roles):
        heads = [role[0] for role in roles if role]
        going = next((role for role in roles if role and _may(role[0], heads, full, taken)), None)
        if going is None:
            return False
        what, ring = going[0]
        for role in roles if what == "meet" else [going]:
            role.pop(0)
        full[ring] += {"put": 1, "get": -1}.get(what, 0)
        taken[ring] += {"get": 1, "end": -1}.get(what, 0)
    return True


def _may(step: Step, heads: Sequence[Step], full: Counter[object], taken: Counter[object]) -> bool:
    what, ring = step
    if what == "put":
        return not full[ring] and not taken[ring]
    return bool(full[ring]) if what == "get" else what == "end" or heads == [step, step]
