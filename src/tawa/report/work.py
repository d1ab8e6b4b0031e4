"""What a launch has to do, and which limit of the hardware its predicted time comes near."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tawa.base.target import Target
from tawa.base.types import byte_size
from tawa.hopper.ops.global_memory import GlobalLoad, GlobalStore
from tawa.hopper.ops.matrix import Wgmma
from tawa.hopper.types import FragType
from tawa.simulate import Prediction
from tawa.simulate.costs import costs_on
from tawa.simulate.hopper import Cluster, RoundRobin, prepared, run_cluster
from tawa.simulate.launch import arrays_of
from tawa.simulate.machine import Event

COUNTING_SECONDS = 3.0
"""How long clusters are counted one by one before the rest is estimated from them."""

BUSY = 0.75
"""A resource that works more of the time than this is what bounds a kernel."""

RESOURCES = {
    "tensor": "tensor core",
    "copies": "copies from L2",
    "stores": "stores",
    "issue": "instruction issue",
    "special": "special functions",
    "shared": "shared memory",
}
"""The prediction's names of resources, as they are shown."""


@dataclass(frozen=True)
class Amounts:
    """Of one or more clusters: floating-point operations of matrix products, and bytes.

    `tensor_cycles` is what the products take on one multiprocessor's tensor core at its peak.
    """

    flops: float = 0.0
    tensor_cycles: float = 0.0
    copied_bytes: float = 0.0
    stored_bytes: float = 0.0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(*(a + b for a, b in zip(self._all(), other._all(), strict=True)))

    def scaled(self, factor: float) -> Amounts:
        """So many times this."""
        return Amounts(*(a * factor for a in self._all()))

    def _all(self) -> tuple[float, ...]:
        return self.flops, self.tensor_cycles, self.copied_bytes, self.stored_bytes


@dataclass(frozen=True)
class Work:
    """What a whole launch does; counted in `counted` of its `clusters`, estimated for the rest."""

    amounts: Amounts
    array_bytes: int
    """Of all arguments, once."""
    ctas: int
    clusters: int
    counted: int


def launch_work(module: ModuleOp, grid: Sequence[int], args: Sequence[Any], target: Target) -> Work:
    """Count the work of a launch without its data; control flow on loaded data sees zeros."""
    clusters = list(prepared(module, grid, args, target.multiprocessors))
    order = _spread(len(clusters))
    total, counted = Amounts(), 0
    start = time.perf_counter()
    for number in order:
        total += _cluster_work(clusters[number], target)
        counted += 1
        if time.perf_counter() - start > COUNTING_SECONDS:
            break
    sizes = sum(array.nbytes for array in arrays_of(args))
    ctas = sum(len(cluster.blocks) for cluster in clusters)
    return Work(total.scaled(len(clusters) / counted), sizes, ctas, len(clusters), counted)


def _spread(count: int) -> list[int]:
    """All numbers below `count`, any first few of them spread over the whole range."""
    bits = max(1, (count - 1).bit_length())
    reversed_ = (int(f"{i:0{bits}b}"[::-1], 2) for i in range(1 << bits))
    return [i for i in reversed_ if i < count]


def _cluster_work(cluster: Cluster, target: Target) -> Amounts:
    traces: dict[str, list[Event]] = {}
    with np.errstate(all="ignore"):
        run_cluster(cluster, RoundRobin(), traces, costs=costs_on(target))
    return sum((_event_work(e, target) for t in traces.values() for e in t), Amounts())


def _event_work(event: Event, target: Target) -> Amounts:
    if event.kind == "load":
        return Amounts(copied_bytes=cast(float, event.operands[2]))
    if event.kind == "store":
        return Amounts(stored_bytes=cast(float, event.operands[2]))
    if event.kind != "work":
        return Amounts()
    op = event.op
    if isinstance(op, Wgmma):
        size = byte_size(op.a_type)
        flops = 2.0 * target.mma_m * op.n.value.data * target.mma_k_bytes / size
        return Amounts(flops, flops / (target.tensor_flops * 2 / size))
    if isinstance(op, GlobalLoad):
        return Amounts(copied_bytes=_fragment_bytes(op))
    if isinstance(op, GlobalStore):
        return Amounts(stored_bytes=_fragment_bytes(op))
    return Amounts()


def _fragment_bytes(op: GlobalLoad | GlobalStore) -> float:
    """Bytes that a warp group's part of a fragment takes in memory."""
    values: Iterable[Any] = (*op.operands, *op.results)
    types = [v.type for v in values if v is op.value]
    type_ = types[0] if types else None
    if not isinstance(type_, FragType):
        return 0.0
    return float(byte_size(type_.element_type) * type_.layout.registers * 128)


@dataclass(frozen=True)
class Limit:
    """One limit: what it would take alone, in microseconds, and its share of the kernel's time."""

    name: str
    amount: str
    rate: str
    us: float
    share: float


@dataclass(frozen=True)
class Bounds:
    """The limits of a launch, the nearest first, and in a sentence what bounds it."""

    limits: tuple[Limit, ...]
    bound: str
    flops_per_second: float
    peak: float
    intensity: float
    """Floating-point operations a byte of the arrays."""
    memory_rate: float


def bounds(prediction: Prediction, work: Work, target: Target) -> Bounds:
    """The roofline of a predicted launch, at the prediction's clock."""
    time_us = prediction.kernel_us
    clock = prediction.clock_ghz * 1e9
    peak = target.tensor_flops * target.multiprocessors * clock
    amounts = work.amounts
    path_us = prediction.cycles * prediction.waves / prediction.clock_ghz / 1e3
    found = [
        _limit(
            "device memory",
            f"{_si(work.array_bytes, 'B')} of arrays, once",
            f"{target.memory_gbs / 1e3:.1f} TB/s",
            prediction.memory_us,
            time_us,
        )
    ]
    what = {
        "tensor": (_si(amounts.flops, "FLOP"), f"{peak / 1e12:.0f} TFLOP/s"),
        "copies": (
            f"{_si(amounts.copied_bytes, 'B')} into multiprocessors",
            f"{_si(target.copy_bytes * target.multiprocessors * clock, 'B/s')}",
        ),
        "stores": (f"{_si(amounts.stored_bytes, 'B')} out", ""),
    }
    for name, share in prediction.busy.items():
        amount, rate = what.get(name, ("", ""))
        found.append(_limit(RESOURCES.get(name, name), amount, rate, share * path_us, time_us))
    limits = tuple(sorted(found, key=lambda limit: -limit.share))
    per_byte = amounts.flops / work.array_bytes if work.array_bytes else 0.0
    achieved = amounts.flops / time_us * 1e6
    return Bounds(limits, _sentence(limits), achieved, peak, per_byte, target.memory_gbs * 1e9)


def _limit(name: str, amount: str, rate: str, us: float, time_us: float) -> Limit:
    return Limit(name, amount, rate, us, us / time_us if time_us else 0.0)


def _sentence(limits: Sequence[Limit]) -> str:
    first = limits[0]
    if first.share >= BUSY:
        return first.name
    return "latency"


def _si(value: float, unit: str) -> str:
    for limit, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"
