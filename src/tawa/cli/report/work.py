"""What a launch has to do, and which limit of the hardware its predicted time comes near."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from tawa.simulate import LaunchPrediction
from tawa.simulate.interpret.launch import arrays_of
from tawa.simulate.timing.code import Amounts
from tawa.simulate.timing.launch import Launch

if TYPE_CHECKING:
    from tawa.machine.chips import Chip

COUNTING_SECONDS = 3.0
"""How long clusters are counted one by one before the rest is estimated from them."""

RESOURCES = {
    "memory": "device memory",
    "tensor": "tensor core",
    "copies": "copies from L2",
    "stores": "stores",
    "issue": "instruction issue",
    "alu": "half-rate arithmetic",
    "special": "special functions",
    "shared": "shared memory",
}
"""The prediction's names of resources, as they are shown."""


@dataclass(frozen=True)
class Work:
    """What a whole launch does; counted in `counted` of its `clusters`, estimated for the rest."""

    amounts: Amounts
    array_bytes: int
    """Of all arguments, once."""
    ctas: int
    clusters: int
    counted: int


def launch_work(module: ModuleOp, grid: Sequence[int], args: Sequence[Any], target: Chip) -> Work:
    """Count the work of a launch without its data; control flow on loaded data sees zeros."""
    launch = Launch(module, grid, args, target)
    clusters = launch.ctas // launch.cluster
    total, counted = Amounts(), 0
    start = time.perf_counter()
    for number in _spread(clusters):
        for cta in range(launch.cluster):
            total = total.plus(launch.amounts(launch.block(number * launch.cluster + cta)))
        counted += 1
        if time.perf_counter() - start > COUNTING_SECONDS:
            break
    sizes = sum(array.nbytes for array in arrays_of(args))
    return Work(total.times(clusters / counted), sizes, launch.ctas, clusters, counted)


def _spread(count: int) -> list[int]:
    """All numbers below `count`, any first few of them spread over the whole range."""
    bits = max(1, (count - 1).bit_length())
    reversed_ = (int(f"{i:0{bits}b}"[::-1], 2) for i in range(1 << bits))
    return [i for i in reversed_ if i < count]


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


def bounds(prediction: LaunchPrediction, work: Work, target: Chip) -> Bounds:
    """The roofline of a predicted launch, at the prediction's clock."""
    time_us = prediction.kernel_seconds * 1e6
    clock = prediction.clock_ghz * 1e9
    peak = target.tensor_flops * target.multiprocessors * clock
    amounts = work.amounts
    stored = amounts.stored + amounts.written
    what = {
        "memory": (
            f"{_si(work.array_bytes, 'B')} of arrays, once",
            f"{target.memory_gbs / 1e3:.1f} TB/s",
        ),
        "tensor": (_si(amounts.flops, "FLOP"), f"{peak / 1e12:.0f} TFLOP/s"),
        "copies": (f"{_si(amounts.loaded, 'B')} into multiprocessors", ""),
        "stores": (f"{_si(stored, 'B')} out", f"{_si(target.l2_store_gbs * 1e9, 'B/s')}"),
    }
    limits = [
        _limit(RESOURCES.get(name, name), *what.get(name, ("", "")), share * time_us, time_us)
        for name, share in sorted(prediction.shares.items(), key=lambda item: -item[1])
    ]
    per_byte = amounts.flops / work.array_bytes if work.array_bytes else 0.0
    achieved = amounts.flops / time_us * 1e6
    bound = RESOURCES.get(prediction.bound, prediction.bound)
    return Bounds(tuple(limits), bound, achieved, peak, per_byte, target.memory_gbs * 1e9)


def _limit(name: str, amount: str, rate: str, us: float, time_us: float) -> Limit:
    return Limit(name, amount, rate, us, us / time_us if time_us else 0.0)


def _si(value: float, unit: str) -> str:
    for limit, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"
