"""What each op of the hopper level costs one warp group: a resource and the cycles it takes of it.

A warp group has one warp on each of the multiprocessor's four schedulers, so an instruction of the
group takes one issue cycle; sources of the rates: CUDA C++ Programming Guide, arithmetic throughput
for compute capability 9.0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation, SSAValue

from tawa.base.elementwise import Map
from tawa.base.target import Target
from tawa.base.types import byte_size
from tawa.hopper.ops.fragment import Copy, Fill, Rearrange, ReduceRegisters, ShuffleXor
from tawa.hopper.ops.global_memory import GlobalLoad, GlobalStore, ScalarLoad
from tawa.hopper.ops.matrix import RoundOperand, Wgmma
from tawa.hopper.ops.memory import SharedLoad, SharedStore, Stmatrix
from tawa.hopper.ops.transpose import TransposeTile
from tawa.hopper.types import FragType

ISSUE, SPECIAL, SHARED, TENSOR, LATENCY = "issue", "special", "shared", "tensor", "latency"
"""Issue slots, the special-function units, shared memory, the tensor core; or waiting alone."""

_SPECIAL = {"exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "divf", "sigmoid"}
_SLOW = {"divsi", "divui", "remsi", "remui"}
GLOBAL_LATENCY = 600.0
"""Cycles from a load of global memory to its value."""

Cost = tuple[str, float]


def _registers(value: SSAValue) -> int:
    return value.type.layout.registers if isinstance(value.type, FragType) else 1


def _map(op: Map, _target: Target) -> Cost:
    name, count = op.function.data, _registers(op.result)
    if not isinstance(op.result.type, FragType):
        return ISSUE, 30.0 if name in _SLOW else 4.0
    if name in _SPECIAL:
        return SPECIAL, count * 8.0  # 16 results a clock and multiprocessor
    if name in _SLOW:
        return ISSUE, count * 20.0
    return ISSUE, count * 1.0


def _wgmma(op: Wgmma, target: Target) -> Cost:
    """The slower of the products and of reading the operands from shared memory."""
    n, size = op.n.value.data, byte_size(op.a_type)
    k = target.mma_k_bytes // size
    flops = 2 * target.mma_m * n * k
    rate = target.tensor_flops * (2 if size == 1 else 1) / (2 if size == 4 else 1)
    from_registers = isinstance(op.a.type, FragType)
    rows = n + (0 if from_registers else target.mma_m)
    read = rows * target.mma_k_bytes / target.shared_memory_bytes
    return TENSOR, max(flops / rate, read)


def _moved(value: SSAValue, target: Target) -> Cost:
    """Cycles of shared memory for a group's fragment."""
    assert isinstance(value.type, FragType)
    size = byte_size(value.type.element_type) * value.type.layout.registers * 128
    return SHARED, size / target.shared_memory_bytes


def _issued(pick: str, each: float, fixed: float = 0.0) -> Callable[[Any, Target], Cost]:
    """Issue cycles for each register of an op's operand or result."""
    return lambda op, _target: (ISSUE, each * _registers(getattr(op, pick)) + fixed)


def _latency(_op: Operation, _target: Target) -> Cost:
    return LATENCY, GLOBAL_LATENCY


def _transposed(op: TransposeTile, target: Target) -> Cost:
    """Cycles of shared memory for a tile that is read and written."""
    source, _ = op.tiles
    return SHARED, 2 * source.bytes / target.shared_memory_bytes


COSTS: dict[type[Operation], Callable[[Any, Target], Cost]] = {
    Map: _map,
    Wgmma: _wgmma,
    Fill: _issued("value", 1.0),
    Copy: _issued("value", 1.0),
    Rearrange: _issued("value", 1.0),
    ReduceRegisters: _issued("operand", 1.0),
    ShuffleXor: _issued("value", 4.0, 25.0),
    SharedStore: lambda op, target: _moved(op.value, target),
    SharedLoad: lambda op, target: _moved(op.value, target),
    Stmatrix: lambda op, target: _moved(op.value, target),
    TransposeTile: _transposed,
    RoundOperand: _issued("value", 3.0),
    GlobalLoad: _latency,
    ScalarLoad: _latency,
    GlobalStore: _issued("value", 1.0),
}
"""The ops that cost something of their own; barriers and engines are the replay's."""


def costs_on(target: Target) -> Callable[[Operation], Cost | None]:
    """The cost of an op on a target; None for what is free or not the warps' own work."""

    def cost(op: Operation) -> Cost | None:
        found = COSTS.get(type(op))
        return None if found is None else found(op, target)

    return cost
