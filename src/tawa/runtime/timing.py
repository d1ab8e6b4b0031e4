"""Times work on the device: events around each execution, a cold L2 cache, contenders in turn.

The clock of a busy GPU follows its power limit, so a contender is first run unmeasured until the
clock has settled (the soak), contenders take turns (A B, then B A), and medians are compared
within one run only.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tawa.runtime import driver

FLUSH_BYTES = 256 * 2**20
"""Written before each execution, to push everything else out of the L2 cache."""

BATCH = 64
"""Executions in flight before the host waits."""

Work = Callable[[], Any]


@dataclass(frozen=True)
class Timing:
    """Times of single executions, in milliseconds."""

    times: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median, in milliseconds."""
        return statistics.median(self.times)

    def quantile(self, q: float) -> float:
        """The `q` quantile (0 to 1), in milliseconds."""
        ordered = sorted(self.times)
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


@dataclass
class Stopwatch:
    """Times executions on one stream of one device.

    `flush` writes `FLUSH_BYTES` before each execution; without it, repeated executions find their
    data in the cache. `before` is called, untimed, before each execution.
    """

    device: int = 0
    stream: int = 0
    flush: bool = True
    before: Work | None = None
    _events: list[tuple[Any, Any]] = field(default_factory=list[tuple[Any, Any]])

    def times(self, work: Work, count: int) -> list[float]:
        """Milliseconds of each of `count` executions, in order."""
        times: list[float] = []
        while len(times) < count:
            times.extend(self._batch(work, min(BATCH, count - len(times))))
        return times

    def times_for(self, work: Work, seconds: float) -> list[float]:
        """Milliseconds of as many executions as fit into about `seconds`, at least three."""
        start = time.perf_counter()
        times = self._batch(work, 3)
        each = (time.perf_counter() - start) / 3
        while (left := seconds - (time.perf_counter() - start)) > 0:
            times.extend(self._batch(work, max(1, min(BATCH, int(left / max(each, 1e-6))))))
        return times

    def _batch(self, work: Work, count: int) -> list[float]:
        with driver.on_device(self.device):
            return self._run(work, count)

    def _run(self, work: Work, count: int) -> list[float]:
        module = driver.bindings()
        events = self._event_pairs(count)
        buffer = _flush_buffer(self.device) if self.flush else None
        for start, end in events:
            if self.before is not None:
                self.before()
            if buffer is not None:
                module.cuMemsetD8Async(buffer, 0, FLUSH_BYTES, self.stream)
            module.cuEventRecord(start, self.stream)
            work()
            module.cuEventRecord(end, self.stream)
        driver.checked("cuEventSynchronize", events[-1][1])
        return [driver.checked("cuEventElapsedTime", start, end) for start, end in events]

    def _event_pairs(self, count: int) -> list[tuple[Any, Any]]:
        while len(self._events) < count:
            pair = driver.checked("cuEventCreate", 0), driver.checked("cuEventCreate", 0)
            self._events.append(pair)
        return self._events[:count]


def do_bench(
    work: Work, warmup: float = 25, rep: float = 100, *, device: int = 0, stream: int = 0
) -> float:
    """Median milliseconds of `work`, after `warmup` and over `rep` milliseconds of executions.

    Measures what Triton's `do_bench(return_mode="median")` measures.
    """
    watch = Stopwatch(device, stream)
    watch.times_for(work, warmup / 1e3)
    return Timing(tuple(watch.times_for(work, rep / 1e3))).median


def interleaved(
    contenders: Mapping[str, Work],
    *,
    rounds: int = 2,
    soak: float = 0.3,
    window: float = 0.3,
    watch: Stopwatch | None = None,
    on_turn: Callable[[str], None] | None = None,
) -> dict[str, Timing]:
    """Time contenders in turn, forward and backward: each soaks, then is measured.

    `soak` and `window` are seconds for each contender and round; `on_turn` is told whose turn it
    is when its measurement starts.
    """
    watch = watch or Stopwatch()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for name in _turns(list(contenders), rounds):
        if soak:
            watch.times_for(contenders[name], soak)
        if on_turn is not None:
            on_turn(name)
        times[name].extend(watch.times_for(contenders[name], window))
    return {name: Timing(tuple(found)) for name, found in times.items()}


def host_microseconds(
    work: Work, synchronize: Work, *, launches: int = 100, repeats: int = 30
) -> Timing:
    """Host time of one call of `work`, in microseconds (each entry the mean of a burst).

    A burst is short enough that the driver's queue never fills, and the device is idle before it.
    """
    times: list[float] = []
    for _ in range(repeats):
        synchronize()
        start = time.perf_counter()
        for _ in range(launches):
            work()
        times.append((time.perf_counter() - start) / launches * 1e6)
    synchronize()
    return Timing(tuple(times))


def _turns(names: list[str], rounds: int) -> Iterator[str]:
    for number in range(rounds):
        yield from names if number % 2 == 0 else reversed(names)


@cache
def _flush_buffer(device: int) -> Any:
    with driver.on_device(device):
        return driver.checked("cuMemAlloc", FLUSH_BYTES)
