"""One CTA: its shared memory with its allocations, its barriers, its actors' names."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects import func
from xdsl.ir import Operation, SSAValue

from tawa.base.numerics import Array
from tawa.base.spans import span_of
from tawa.base.types import byte_size, element_of
from tawa.hopper.dialect.gather import SharedGather
from tawa.hopper.dialect.memory import SharedLoad, SharedStore, access_bytes
from tawa.hopper.dialect.structure import Barriers, Ring
from tawa.hopper.dialect.types import BarrierType, FragType, RingType, TileType
from tawa.simulate.interpret import errors
from tawa.simulate.interpret.barriers import Mbarrier, NamedBarrier
from tawa.simulate.interpret.clocks import WORD, Components, Shadow

ALIAS = "hopper.alias"
"""Attribute of a ring that takes another's place deliberately."""


@dataclass(frozen=True)
class Allocation:
    """Bytes `first` to `last` of shared memory, in slots of `slot_bytes`."""

    label: str
    first: int
    last: int
    slot_bytes: int
    op: Operation

    @property
    def slots(self) -> int:
        """How many slots."""
        return (self.last - self.first) // self.slot_bytes


def label_of(value: SSAValue) -> str:
    """How messages call a value."""
    return value.name_hint or "unnamed"


def allocations(kernel: func.FuncOp, shared_bytes: int) -> list[Allocation]:
    """Every ring and row of mbarriers, checked against each other; by address."""
    found: list[Allocation] = []
    for op in kernel.walk():
        if isinstance(op, Ring):
            assert isinstance(op.ring.type, RingType)
            first, size = op.offset.value.data, op.ring.type.stride
            _check_alignment(op, first, op.ring.type.tile.alignment)
            last = first + op.ring.type.bytes
            found.append(Allocation(label_of(op.ring), first, last, size, op))
        elif isinstance(op, Barriers):
            assert isinstance(op.barrier.type, BarrierType)
            first, slots = op.offset.value.data, op.barrier.type.slots.data
            _check_alignment(op, first, 8)
            found.append(Allocation(label_of(op.barrier), first, first + 8 * slots, 8, op))
    found.sort(key=lambda a: a.first)
    _check_overlap(found, shared_bytes)
    return found


def _check_alignment(op: Operation, first: int, alignment: int) -> None:
    if first % alignment:
        raise errors.Misaligned(
            f"an allocation of shared memory starts at byte {first}",
            span=span_of(op),
            expected=f"a multiple of {alignment}",
            found=f"{first} = {first // alignment} x {alignment} + {first % alignment}",
            hint="round the offset up",
        )


def _check_overlap(found: list[Allocation], shared_bytes: int) -> None:
    own = [a for a in found if ALIAS not in a.op.attributes]
    for a, b in itertools.pairwise(own):
        if b.first < a.last:
            raise errors.SharedMemoryOverlap(
                f"`{a.label}` and `{b.label}` overlap in shared memory",
                span=span_of(b.op),
                expected=f"`{b.label}` from byte {a.last} on",
                found=f"`{a.label}` at {a.first} to {a.last}, `{b.label}` at {b.first} to {b.last}",
                hint="give each allocation its own bytes",
            )
    for a in found:
        if a.last > shared_bytes:
            raise errors.SharedMemoryOverlap(
                f"`{a.label}` leaves the CTA's shared memory",
                span=span_of(a.op),
                expected=f"at most {shared_bytes} bytes, as the kernel asks for",
                found=f"bytes {a.first} to {a.last}",
                hint="raise hopper.shared_bytes, or use fewer slots",
            )


@dataclass
class Cta:
    """One CTA while it runs."""

    rank: int
    block: tuple[int, int, int]
    shared: Array
    shadow: Shadow
    allocations: list[Allocation]
    components: Components
    barrier_components: dict[int, int]
    mbarriers: dict[int, Mbarrier] = field(default_factory=dict[int, Mbarrier])
    named: dict[int, NamedBarrier] = field(default_factory=dict[int, NamedBarrier])
    remote: list[tuple[int, int, Operation | None, str]] = field(
        default_factory=list[tuple[int, int, "Operation | None", str]]
    )
    """Component, time, op and text of what other CTAs did to this one's shared memory."""

    def place(self, address: int) -> str:
        """What lies at a byte address, for messages."""
        for a in self.allocations:
            if a.first <= address < a.last:
                slot = (address - a.first) // a.slot_bytes
                return f"slot {slot} of `{a.label}`" if a.slots > 1 else f"`{a.label}`"
        return f"byte {address} of shared memory"

    def granule_place(self, granule: int) -> str:
        """What lies at a granule."""
        return self.place(granule * self.shadow.granule)

    def named_barrier(self, number: int) -> NamedBarrier:
        """The hardware barrier of this number."""
        if number not in self.named:
            label = "the meeting of the CTA" if number == 0 else f"named barrier {number}"
            clock = self.components.clock
            self.named[number] = NamedBarrier(label, clock(), clock())
        return self.named[number]


def granule_of(kernel: func.FuncOp) -> int:
    """Bytes of shared memory that every access of the kernel takes whole or not at all.

    Engines, `stmatrix` and barriers access whole words; ordinary code may take single elements.
    """
    granule = WORD
    for op in kernel.walk():
        if isinstance(op, SharedLoad | SharedStore):
            frag, tile = op.value.type, op.tile.type
            assert isinstance(frag, FragType)
            assert isinstance(tile, TileType)
            granule = min(granule, access_bytes(frag, tile))
        elif isinstance(op, SharedGather):
            granule = min(granule, byte_size(element_of(op.value.type)))
    return granule


def barrier_addresses(found: list[Allocation]) -> list[tuple[int, str]]:
    """Address and label of every mbarrier."""
    rows = [a for a in found if isinstance(a.op, Barriers)]
    return [
        (at, f"`{a.label}`" if a.slots == 1 else f"slot {(at - a.first) // 8} of `{a.label}`")
        for a in rows
        for at in range(a.first, a.last, 8)
    ]


def new_cta(
    rank: int,
    block: tuple[int, int, int],
    shared_bytes: int,
    found: list[Allocation],
    components: Components,
    barrier_components: dict[int, int],
    granule: int,
) -> Cta:
    """A CTA with poisoned shared memory; all components must be known."""
    shared = np.full(shared_bytes + 128, 0xFF, np.uint8)  # NaN in every float type
    shadow = Shadow(shared_bytes, components, granule)
    return Cta(rank, block, shared, shadow, found, components, barrier_components)
