"""The state of lowering one kernel: what all its warp groups share."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from xdsl.dialects import func
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tawa.aref.analysis.ranges import at_least
from tawa.base.options import Options
from tawa.base.types import DescType, PlanType, PtrType, short_name
from tawa.base.warp_transpose import IN_FLIGHT
from tawa.codegen.shared_memory import SharedMemory
from tawa.hopper.dialect.structure import Ring
from tawa.hopper.dialect.types import RingType, TensorMapType, TileType
from tawa.ir.kernels import made_by_host
from tawa.ir.walking import every
from tawa.machine.chips import Chip
from tawa.tile.dialect.ops import DescStore

DEFAULT_STAGING = 2
"""Staging buffers of a warp group, where the options do not say."""


LAUNCHED = 5
"""Last arguments of a persistent kernel: the reciprocals of two sizes of the grid, its sizes."""


@dataclass(frozen=True)
class LoweredRing:
    """The hopper values of a ring of arefs."""

    tiles: list[SSAValue]
    full: SSAValue
    empty: SSAValue
    bytes: int
    multicast: bool = False
    """Both CTAs of the cluster return every slot to both."""
    copied: frozenset[int] = frozenset()
    """Tiles of a slot that threads copy; the TMA engine copies the others."""
    boxed: frozenset[int] = frozenset()
    """Those of them that the TMA engine copies where they are boxes."""


@dataclass
class KernelLowering:
    """The state of lowering one kernel: what all its warp groups share."""

    source: func.FuncOp
    options: Options
    memory: SharedMemory
    block: Block = field(default_factory=Block)
    rings: dict[SSAValue, LoweredRing] = field(default_factory=dict[SSAValue, LoweredRing])
    parameters: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    only_group: bool = True
    in_flight: int = IN_FLIGHT
    """Blocks that a warp of a moving role has in registers at a time."""
    _arguments: dict[BlockArgument, SSAValue] = field(default_factory=dict[BlockArgument, SSAValue])
    _maps: dict[tuple[BlockArgument, tuple[int, ...], int], SSAValue] = field(
        default_factory=dict[tuple[BlockArgument, tuple[int, ...], int], SSAValue]
    )
    _records: dict[tuple[BlockArgument, tuple[int, ...], int], dict[str, object]] = field(
        default_factory=dict[tuple[BlockArgument, tuple[int, ...], int], "dict[str, object]"]
    )
    _staging: dict[TileType, SSAValue] = field(default_factory=dict[TileType, SSAValue])
    _own_parts: list[Ring] = field(default_factory=list[Ring])
    """Staging buffers of which every warp group has its own rows."""
    declarations: list[Operation] = field(default_factory=list[Operation])

    @property
    def target(self) -> Chip:
        """The hardware."""
        return self.memory.target

    @property
    def staging(self) -> int:
        """Staging buffers of a warp group."""
        return self.options.staging or DEFAULT_STAGING

    @property
    def made(self) -> list[dict[str, object]]:
        """Recipes of the descriptors that the host makes."""
        return made_by_host(self.source)[1]

    def _work(self) -> list[object]:
        """The work of a program, for the launch's plan."""
        work = self.source.attributes["tawa.work"]
        assert isinstance(work, StringAttr)
        return json.loads(work.data)

    @property
    def persistent(self) -> bool:
        """Whether the kernel loops over the programs of a plain grid."""
        return "tawa.persistent" in self.source.attributes

    @property
    def user_arguments(self) -> int:
        """Arguments of the kernel as the user wrote it."""
        return made_by_host(self.source)[0]

    def argument(self, value: BlockArgument) -> SSAValue:
        """A scalar or pointer argument, added to the parameters when it is first used."""
        if value not in self._arguments:
            new = self._arguments[value] = self.block.insert_arg(value.type, len(self.block.args))
            new.name_hint = value.name_hint
            grid = value.index - (len(self.source.args) - 3)
            if self.persistent and grid >= 0:
                self.parameters.append({"kind": "GridParam", "axis": grid})
            elif self.persistent and grid >= 3 - LAUNCHED:
                axis = grid + LAUNCHED - 3
                self.parameters.append({"kind": "ReciprocalParam", "axis": axis})
            elif isinstance(value.type, PlanType):
                self.parameters.append({"kind": "PlanParam", "steps": self._work()})
            elif isinstance(value.type, PtrType):
                made = self.made[value.index - self.user_arguments :][:1]
                of_desc = value.index >= self.user_arguments
                arg = made[0]["base"] if of_desc else value.index
                source = "descriptor" if of_desc else "array"
                self.parameters.append({"kind": "PointerParam", "arg": arg, "source": source})
            else:
                made = self.made[value.index - self.user_arguments :][:1]
                source = made[0]["value"] if value.index >= self.user_arguments else None
                type_, number = short_name(value.type), source or ["arg", value.index]
                self.parameters.append({"kind": "ScalarParam", "value": number, "type": type_})
        return self._arguments[value]

    @property
    def promised(self) -> list[int]:
        """For parameters that the user promises to reach a number: which, and that number."""
        found: list[int] = []
        for value, parameter in self._arguments.items():
            least = None if isinstance(value.type, PtrType | PlanType) else at_least(value)
            if least is not None:
                assert isinstance(parameter, BlockArgument)
                found += [parameter.index, least]
        return found

    def tensor_map(
        self, desc: SSAValue, box: tuple[int, ...], swizzle: int, *, stored: bool = False
    ) -> SSAValue:
        """The tensor map of a descriptor with a box and a swizzle, a kernel parameter.

        `stored`: the kernel writes through it.
        """
        assert isinstance(desc, BlockArgument) and isinstance(desc.type, DescType)
        key = (desc, box, swizzle)
        if key not in self._maps:
            new = self._maps[key] = self.block.insert_arg(TensorMapType(), len(self.block.args))
            new.name_hint = f"{desc.name_hint or 'desc'}_map"
            record: dict[str, object] = {
                "kind": "TensorMapParam",
                "arg": desc.index,
                "element_type": short_name(desc.type.block.element_type),
                "box": list(box),
                "block_shape": list(desc.type.block.get_shape()),
                "swizzle": swizzle,
            }
            if desc.index >= self.user_arguments:
                record |= {**self.made[desc.index - self.user_arguments], "source": "array"}
            self.parameters.append(record)
            self._records[key] = record
        if stored:
            self._records[key]["stored"] = True
        return self._maps[key]

    @property
    def stores(self) -> list[DescStore]:
        """Every store through a descriptor."""
        return [op for op in every(self.source) if isinstance(op, DescStore)]

    def staging_ring(
        self, tile: TileType, slots: int, *, by_group: bool = False
    ) -> tuple[SSAValue, bool]:
        """The staging buffers of this shape, as many or more.

        Warp groups that stage 64 rows of as many bytes each do it in the same buffers, whatever the
        elements are: each has its own part, and waits for its own stores.

        The flag says whether every store goes through them in the same chunks.
        """
        stored = {op.value.type for op in self.stores}
        if tile not in self._staging or _slots(self._staging[tile]) < slots:
            others = (op for op in self._own_parts if by_group and _alike(op, tile, slots))
            other = next(others, None)
            if other is None:
                op = self.memory.ring("staging", slots, tile)
                self._own_parts += [op] if by_group else []
            else:
                op = self.memory.again(other, tile)
            self.declarations.append(op)
            self._staging[tile] = op.ring
        ring = self._staging[tile]
        return ring, len(stored) == 1 and _slots(ring) == slots


def _slots(ring: SSAValue) -> int:
    assert isinstance(ring.type, RingType)
    return ring.type.slots.data


def _alike(op: Ring, tile: TileType, slots: int) -> bool:
    """Whether a ring has as many slots of as many rows, of as many bytes, as one of `tile` has."""
    assert isinstance(op.ring.type, RingType)
    other = op.ring.type.tile
    same = (other.rows, other.bytes, other.swizzle) == (tile.rows, tile.bytes, tile.swizzle)
    return same and _slots(op.ring) == slots
