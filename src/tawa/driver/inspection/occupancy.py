"""What one CTA takes of a multiprocessor: shared memory, registers, threads."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp

from tawa.hopper.dialect.structure import ALIAS, Barriers, Ring, Role, SharedWarpGroup
from tawa.hopper.dialect.types import BarrierType, RingType
from tawa.machine.chips import Chip
from tawa.runtime.compile_log import FunctionUsage


@dataclass(frozen=True)
class Buffer:
    """Bytes of a CTA's shared memory; `slots` equal parts of it follow each other."""

    name: str
    offset: int
    bytes: int
    slots: int
    what: str
    shared_with: str = ""


@dataclass(frozen=True)
class RoleUse:
    """Warps of one role; `registers` a thread."""

    name: str
    warps: int
    teams: int
    registers: int
    single: bool
    raised: bool
    """Whether the role asks for another count than the launch's."""


@dataclass(frozen=True)
class Occupancy:
    """What a CTA takes, and how many fit a multiprocessor; `limits` are by resource."""

    threads: int
    entry_registers: int
    shared_bytes: int
    shared_available: int
    cluster: int
    buffers: tuple[Buffer, ...]
    roles: tuple[RoleUse, ...]
    limits: dict[str, int]
    register_file: int

    @property
    def ctas(self) -> int:
        """CTAs that one multiprocessor holds at a time."""
        return min(self.limits.values())

    @property
    def limited_by(self) -> str:
        """The resource that allows the fewest."""
        return min(self.limits, key=lambda name: self.limits[name])

    @property
    def registers_in_use(self) -> int:
        """Registers of all threads after the roles have set their counts."""
        return sum(32 * r.warps * r.teams * r.registers for r in self.roles)


def occupancy(module: ModuleOp, usage: FunctionUsage, target: Chip) -> Occupancy:
    """The occupancy of a module of the hopper level; `usage` is what the assembler reports."""
    kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
    threads, shared, cluster = (
        _number(kernel, key) for key in ("threads", "shared_bytes", "cluster")
    )
    return Occupancy(
        threads,
        usage.registers,
        shared,
        target.shared_bytes,
        cluster,
        _buffers(kernel),
        _roles(kernel, threads, usage.registers),
        _limits(threads, usage.registers, shared, target),
        target.registers,
    )


def _number(kernel: func.FuncOp, key: str) -> int:
    value = kernel.attributes[f"hopper.{key}"]
    assert isinstance(value, IntegerAttr)
    return value.value.data


def _buffers(kernel: func.FuncOp) -> tuple[Buffer, ...]:
    """Rings and barriers by their offsets; areas that several rings share are shown once."""
    found: list[Buffer] = []
    for op in kernel.walk():
        if isinstance(op, Ring) and ALIAS not in op.attributes:
            ring = op.ring.type
            assert isinstance(ring, RingType)
            tile = ring.tile
            what = f"{tile.rows.data} x {tile.columns.data} {tile.element_type}"
            if tile.swizzle.data:
                what += f", swizzle {tile.swizzle.data}"
            name = op.ring.name_hint or "tile"
            found.append(Buffer(name, op.offset.value.data, ring.bytes, ring.slots.data, what))
        elif isinstance(op, Barriers):
            barrier = op.barrier.type
            assert isinstance(barrier, BarrierType)
            slots = barrier.slots.data
            name, what = op.barrier.name_hint or "mbarrier", f"arrivals {op.arrivals.value.data}"
            found.append(Buffer(name, op.offset.value.data, 8 * slots, slots, what))
    return tuple(sorted(found, key=lambda b: b.offset))


def _roles(kernel: func.FuncOp, threads: int, entry: int) -> tuple[RoleUse, ...]:
    roles = [op for op in kernel.walk() if isinstance(op, Role)]
    found = [
        RoleUse(
            role.role.data,
            role.warps.value.data,
            role.teams.value.data,
            _registers(role, entry),
            role.single is not None,
            _set_by(role).registers is not None,
        )
        for role in roles
    ]
    rest = threads // 32 - sum(r.warps * r.teams for r in found)
    if rest > 0:
        found.append(RoleUse("no role", rest, 1, entry, False, False))
    return tuple(found)


def _set_by(role: Role) -> Role | SharedWarpGroup:
    """What sets a role's registers: itself, or the warp group that it shares."""
    parent = role.parent_op()
    return parent if isinstance(parent, SharedWarpGroup) else role


def _registers(role: Role, entry: int) -> int:
    """Registers of each thread of a role."""
    registers = _set_by(role).registers
    return registers.value.data if registers else entry


def _limits(threads: int, registers: int, shared: int, target: Chip) -> dict[str, int]:
    lanes, unit = target.lanes, target.register_unit
    warps = -(-threads // lanes)
    per_warp = -(-lanes * max(registers, 1) // unit) * unit
    return {
        "shared memory": target.ctas_with(shared),
        "registers": target.registers // (per_warp * warps),
        "threads": target.threads // (lanes * warps),
        "CTAs": target.ctas,
    }
