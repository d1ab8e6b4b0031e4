"""What an op of the hopper level takes of a multiprocessor's pipes, for one warp group.

A warp group has one warp on each of the four schedulers, so an instruction of the group is one
instruction of each scheduler. Ops are counted as the instructions that ptxas makes of them: a
multiplication that feeds one addition is part of it, conversions to 16 bits take two values at
once, and what only renames registers (broadcasts, windows, constants) takes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation, SSAValue

from tawa.base.types import byte_size
from tawa.hopper.dialect.fragment import (
    Anchored,
    Copy,
    ReduceRegisters,
    ShuffleXor,
    VoteAny,
    ZeroUnless,
)
from tawa.hopper.dialect.global_memory import GlobalLoad, GlobalStore, ScalarLoad
from tawa.hopper.dialect.lane_reduction import ReduceLanes
from tawa.hopper.dialect.lanes import ShuffleFrom
from tawa.hopper.dialect.ldmatrix import MATRIX_ROWS, ROW_BYTES
from tawa.hopper.dialect.matrix import RoundOperand, Wgmma
from tawa.hopper.dialect.memory import SharedLoad, SharedStore, Stmatrix
from tawa.hopper.dialect.sync import FenceProxyAsync
from tawa.hopper.dialect.transpose import TransposeTile
from tawa.hopper.dialect.types import FragType
from tawa.hopper.dialect.warp_matrix import WarpProduct
from tawa.ir.elementwise import Map
from tawa.machine.chips import Chip
from tawa.machine.costs import COMPOUND, DIVISIONS
from tawa.machine.instructions import HALF_RATE, SPECIAL


@dataclass(frozen=True)
class Work:
    """Cycles of one scheduler's issue slot, half-rate pipe and special-function unit.

    `shared` are cycles of the multiprocessor's shared memory; `latency` is waited for on top.
    `chain` are those of index arithmetic, whose ops wait for each other beside everything else.
    """

    issue: float = 0.0
    alu: float = 0.0
    special: float = 0.0
    shared: float = 0.0
    latency: float = 0.0
    chain: float = 0.0
    ordered: bool = False
    """What follows depends on it: nothing overlaps across."""

    def alone(self, stretch: float) -> tuple[float, tuple[float, ...]]:
        """How long it takes alone, and what part of each pipe it then takes."""
        cycles = self.issue, self.alu, self.special, self.shared
        code = max(cycles[:3]) * stretch
        alone = max(max(code, self.shared) + self.latency, self.chain, 1.0)
        return alone, tuple(c / alone for c in cycles)

    @property
    def cycles(self) -> float:
        """What it takes of the busiest pipe, and what is waited for."""
        return max(self.issue, self.alu, self.special, self.shared) + self.latency

    def __add__(self, other: Work) -> Work:
        return Work(
            self.issue + other.issue,
            self.alu + other.alu,
            self.special + other.special,
            self.shared + other.shared,
            self.latency + other.latency,
            max(self.chain, other.chain),
            self.ordered or other.ordered,
        )


NO_WORK = Work()


def registers(value: SSAValue) -> int:
    """Registers of a thread that hold a fragment; 1 for a scalar."""
    return value.type.layout.registers if isinstance(value.type, FragType) else 1


def _map(op: Map, target: Chip) -> Work:
    name, count = op.function.data, _computed(op)
    costs = target.costs
    if _fused(op):
        return NO_WORK
    if name in DIVISIONS:
        return Work(issue=float(count * DIVISIONS[name]))
    if name in SPECIAL:
        instructions, special = COMPOUND.get(name, (1, 1))
        return Work(float(count * instructions), special=float(count * special * costs.special))
    if name == "truncf" and count % 2 == 0 and _is_pair(op):
        count //= 2
    alu = count * costs.half_rate if name in HALF_RATE or name.startswith("cmp") else 0
    return Work(float(count), float(alu))


def _computed(op: Map) -> int:
    """Registers of the result that are computed: those that others are known from, if any are."""
    users = [use.operation for use in op.result.uses]
    if len(users) == 1 and isinstance(users[0], Anchored):
        return len(set(users[0].anchors))
    return registers(op.result)


def moves(values: Sequence[SSAValue], target: Chip) -> Work:
    """Copying fragments to other registers: loops that begin with values of the loop around."""
    words = sum(
        v.type.layout.registers * byte_size(v.type.element_type) / 4
        for v in values
        if isinstance(v.type, FragType)
    )
    return Work(words, alu=words * target.costs.half_rate)


def _is_pair(op: Map) -> bool:
    """Whether a conversion makes 16-bit values, which one instruction makes two of."""
    operands, result = op.element_types
    return byte_size(result) == 2 and byte_size(operands[0]) == 4


def _fused(op: Map) -> bool:
    """Whether a product is part of the one addition or subtraction that uses it."""
    if op.function.data != "mulf":
        return False
    users = [use.operation for use in op.result.uses]
    if len(users) != 1 or not isinstance(users[0], Map):
        return False
    other = users[0]
    return other.function.data in ("addf", "subf") and registers(other.result) == registers(
        op.result
    )


def _reduce(op: ReduceRegisters, target: Chip) -> Work:
    count = registers(op.operand) - registers(op.value)
    alu = count * target.costs.half_rate if op.kind.data in HALF_RATE else 0
    return Work(float(count), float(alu))


def _shuffle(op: ShuffleXor | ShuffleFrom, target: Chip) -> Work:
    count = registers(op.value)
    return Work(float(count), latency=target.costs.shuffle, ordered=True)


def _lanes(op: ReduceLanes, target: Chip) -> Work:
    instructions = 1 if op.kind.data.endswith("i") else 7  # floats become integers, and back
    return Work(float(instructions * registers(op.value)), latency=target.costs.shuffle)


def _moved(pick: str, access: int) -> Callable[[Any, Chip], Work]:
    """A fragment through shared memory, `access` bytes of a thread at a time."""

    def work(op: Any, target: Chip) -> Work:
        value = getattr(op, pick)
        assert isinstance(value.type, FragType)
        size = byte_size(value.type.element_type) * value.type.layout.registers
        cycles = size * 128 / target.shared_memory_bytes
        return Work(float(3 * -(-size // access)), shared=cycles, latency=20.0)

    return work


def _memory(pick: str) -> Callable[[Any, Chip], Work]:
    def work(op: Any, target: Chip) -> Work:
        count = registers(getattr(op, pick))
        return Work(float(count), latency=float(target.copy_latency), ordered=True)

    return work


def _each(pick: str, each: float, fixed: float = 0.0) -> Callable[[Any, Chip], Work]:
    return lambda op, _target: Work(each * registers(getattr(op, pick)) + fixed)


def _transpose(op: TransposeTile, target: Chip) -> Work:
    """Blocks through `ldmatrix` and `stmatrix`, or elements one by one (instructions counted)."""
    source, _ = op.tiles
    shared, shares = 2 * source.bytes / target.shared_memory_bytes, op.shares
    if shares is None:
        each = source.bytes / byte_size(source.element_type) / (32 * op.warps.value.data)
        return Work(4.0 * each, shared=shared, latency=each)
    blocks = shares.group_steps * shares.block_steps
    return Work(
        9.0 * blocks,
        shared=shared,
        latency=target.timing.fetch_latency * blocks / op.in_flight.value.data,
    )


def _round(op: RoundOperand, target: Chip) -> Work:
    """A conversion of two values for each word, or two and a permute."""
    words = registers(op.value)
    if byte_size(op.element) == 2:
        return Work(words, words * target.costs.half_rate)
    return Work(3.0 * words, 2.0 * words * target.costs.half_rate)


def _warp_product(op: WarpProduct, target: Chip) -> Work:
    """Fetches of a warp's operands and its matrix instructions, or scalar ones.

    What is not fetched by `ldmatrix` comes element by element, with an address each, or as vectors.
    """
    product, layout, timing = op.product, op.layout, target.timing
    if product.way == "scalar":
        accesses = op.scalar_accesses
        return Work(
            timing.element_fetch * accesses + layout.registers * product.inner,
            shared=4 * accesses,
            latency=timing.fetch_latency,
        )
    per_fetch = 4 * ROW_BYTES * MATRIX_ROWS / target.shared_memory_bytes
    issue = shared = 0.0
    for side, fetch in enumerate(op.fetches):
        if isinstance((op.a, op.b)[side].type, FragType):
            continue  # words of what threads hold
        if fetch is None:
            elements = product.operand(layout.warps, side).registers
            issue, shared = issue + timing.element_fetch * elements, shared + 4 * elements
            continue
        iterations = fetch.batches * (product.inner // (product.step * op.steps))
        matrices = fetch.blocks * fetch.registers
        issue += iterations * (len(fetch.together()) + matrices * (fetch.words - 1))
        shared += iterations * matrices * per_fetch
    along = product.inner // product.step
    count = op.instructions // op.steps * along * (3 if product.way == "three" else 1)
    depth = count / (op.instructions // op.steps) / op.chains
    multiplied = max(count * timing.warp_matrix, depth * timing.warp_matrix_latency)
    issue += count
    waited = max(0.0, multiplied - max(issue, shared))
    return Work(issue, shared=shared, latency=timing.fetch_latency + waited, ordered=True)


WORKS: dict[type[Operation], Callable[[Any, Chip], Work]] = {
    Map: _map,
    Copy: _each("value", 1.0),
    ReduceRegisters: _reduce,
    ShuffleXor: _shuffle,
    ShuffleFrom: _shuffle,
    ReduceLanes: _lanes,
    VoteAny: lambda _op, target: Work(2.0, latency=target.costs.shuffle, ordered=True),
    ZeroUnless: lambda _op, _target: Work(4.0),
    SharedStore: _moved("value", 16),
    SharedLoad: _moved("value", 16),
    Stmatrix: _moved("value", 16),
    TransposeTile: _transpose,
    RoundOperand: _round,
    WarpProduct: _warp_product,
    FenceProxyAsync: lambda _op, target: Work(1.0, latency=target.costs.fence, ordered=True),
    GlobalLoad: _memory("value"),
    ScalarLoad: _memory("value"),
    GlobalStore: _each("value", 2.0),
}
"""What each op takes; those that are not named take nothing."""


def work_of(op: Operation, target: Chip) -> Work | None:
    """What an op takes, or None."""
    found = WORKS.get(type(op))
    return None if found is None else found(op, target)


def matrix_cycles(op: Wgmma, target: Chip) -> float:
    """Cycles of the tensor core for one matrix instruction.

    The slower of the products and of reading the operands from shared memory.
    """
    rows = op.n.value.data + (0 if isinstance(op.a.type, FragType) else target.mma_m)
    read = rows * target.mma_k_bytes / target.shared_memory_bytes
    return max(product_cycles(op, target), read)


def product_cycles(op: Wgmma, target: Chip) -> float:
    """Cycles of one matrix instruction's products."""
    size = byte_size(op.a_type)
    rate = target.tensor_flops * (2 if size == 1 else 1) / (2 if size == 4 else 1)
    return 2 * target.mma_m * op.n.value.data * (target.mma_k_bytes // size) / rate
