"""Measured timelines: the records that kernels write about themselves, brought back as intervals.

    with tawa.Timeline() as timeline:
        kernel[grid](...)
    timeline.save("trace.json")

Inside the block kernels are compiled with timestamps (the option `timeline`, a part of the cache
key). A recorder is the first thread of a warp group (`tawa.hopper.dialect.trace`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tawa.base.errors import TawaError
from tawa.base.timeline import DETAILS, perfetto
from tawa.base.user_frames import entries
from tawa.machine.chips import SM_90A
from tawa.runtime.launch import grid_sizes
from tawa.runtime.recorded import Launch, aligned
from tawa.runtime.tracebuffer import TraceBuffer

MOST_CTAS = 4096
"""CTAs of a launch that can be recorded."""

LIMIT = 16
"""Launches that one timeline keeps: each may hold tens of megabytes of device memory."""


class BadTimeline(TawaError):
    """A timeline was asked for with sizes that it can't have."""

    explanation = (
        "`tawa.Timeline(ctas=N, kilobytes=K, detail=D)` records the first N CTAs of a launch, in "
        "K KiB of device memory for each warp group. N is from 1 to 4096, K a power of two from 4 "
        "to 4096. D is `coarse` (few points: a kernel stays as fast as without), `fine` (a point "
        "at every wait and issue) or `tiles` (no points in iterations of inner loops)."
    )
    example = """
import tawa

tawa.Timeline(kilobytes=100)
"""


class TimelineEmpty(TawaError):
    """A timeline has no launches, or not the one that was asked for."""

    explanation = (
        "A timeline holds the launches that were made inside its block, the last one of each "
        "kernel and grid: `with tawa.Timeline() as timeline: kernel[grid](...)`."
    )
    example = """
import tawa

with tawa.Timeline() as timeline:
    pass
timeline.save("trace.json")
"""


class NoTimeline(TawaError):
    """A kernel that writes timestamps was launched where nobody takes them."""

    explanation = (
        "The option `timeline=True` makes a kernel that writes timestamps. To launch one, use a "
        "block `with tawa.Timeline() as timeline:`, which sets the option by itself."
    )
    example = """
import numpy as np
import tawa


@tawa.jit
def nothing(x):
    pass


nothing[(1,)](np.zeros(4, np.float32), timeline=True)
"""


Reader = Callable[[], Launch]


@entries
@dataclass
class Timeline:
    """Records the launches in its block: the last one of each kernel and grid.

    - `ctas`: how many CTAs of a launch are recorded, the first ones; by default all of a persistent
      kernel's, and one for each multiprocessor of others.
    - `kilobytes`: device memory for each warp group of them, a power of two; 4 KiB hold about 400
      iterations of a loop with 2 points. What does not fit is not recorded, and `missing` says so.
    - `detail`: `"coarse"` keeps a few points of each loop's iteration and each tile. `"fine"` keeps
      one at every wait and issue, which lengthens short loops. `"tiles"` keeps none in inner loops.
      Where the points would make a kernel spill there are fewer, and `missing` says so.

    Launches of NumPy arrays get the simulator's times. A launch is read (and waited for) when it is
    first asked for. Raises `BadTimeline`.
    """

    ctas: int | None = None
    kilobytes: int = 64
    detail: str = "coarse"
    _readers: dict[Any, Reader] = field(default_factory=dict[Any, Reader], repr=False)
    _buffers: dict[Any, TraceBuffer] = field(default_factory=dict[Any, TraceBuffer], repr=False)
    _tokens: list[Token[Timeline | None]] = field(
        default_factory=list["Token[Timeline | None]"], repr=False
    )
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        """Check the sizes and the detail."""
        size, power = self.kilobytes, self.kilobytes & (self.kilobytes - 1) == 0
        few = self.ctas is None or 1 <= self.ctas <= MOST_CTAS
        if not (few and 4 <= size <= 4096 and power):
            raise BadTimeline(
                "a timeline can't have these sizes",
                expected="ctas from 1 to 4096, kilobytes a power of two from 4 to 4096",
                found=f"ctas={self.ctas}, kilobytes={self.kilobytes}",
            )
        if self.detail not in DETAILS:
            raise BadTimeline(
                "a timeline has no such detail",
                expected=" or ".join(map(repr, DETAILS)),
                found=repr(self.detail),
            )

    def __enter__(self) -> Timeline:
        """From now on the launches of this thread are recorded."""
        self._tokens.append(ACTIVE.set(self))
        return self

    def __exit__(self, *_error: object) -> None:
        """Record no more."""
        ACTIVE.reset(self._tokens.pop())

    # --- what launches say ------------------------------------------------------------------------

    def record(self, launcher: Any, grid: Any, values: Sequence[Any], stream: int) -> None:
        """Launch a kernel that writes timestamps, and keep where it writes them."""
        key = launcher, repr(grid)
        with self._lock:
            buffer = self._buffers.get(key)
            if buffer is None:
                self._make_room()
                recorders = len(launcher.spec.timeline.recorders)
                ctas = self.ctas or _recorded_ctas(launcher, grid)
                buffer = TraceBuffer(launcher.device, ctas, recorders, 1024 * self.kilobytes)
                self._buffers[key] = buffer
                self._readers[key] = _reader(launcher.spec, grid, buffer)
                buffer.clear(stream)
            launcher.timeline[:] = buffer.parameters
            launcher(grid, values, stream)
            buffer.written(stream)

    def add(self, launch: Launch) -> None:
        """Keep a launch whose times are known, such as a simulated one."""
        with self._lock:
            key = launch.kernel, launch.grid, launch.table
            self._readers.pop(key, None)
            self._make_room()
            self._readers[key] = lambda: launch

    def _make_room(self) -> None:
        while len(self._readers) >= LIMIT:
            oldest = next(iter(self._readers))
            del self._readers[oldest]
            if oldest in self._buffers:
                self._buffers.pop(oldest).free()

    # --- what was recorded ------------------------------------------------------------------------

    @property
    def launches(self) -> list[Launch]:
        """What was recorded, oldest first. Raises `DriverFailure` if a kernel failed."""
        return [read() for read in self._readers.values()]

    @property
    def launch(self) -> Launch:
        """The last of them. Raises `TimelineEmpty`."""
        if not self._readers:
            raise TimelineEmpty(
                "nothing was recorded",
                expected="a launch inside the timeline's block",
                hint="with tawa.Timeline() as timeline: kernel[grid](...)",
            )
        return list(self._readers.values())[-1]()

    def save(self, path: str | Path, ctas: Sequence[int] | None = None) -> Path:
        """Write the last launch for ui.perfetto.dev: some of its CTAs (by default all)."""
        launch, path = self.launch, Path(path)
        title = f"{launch.kernel} ({'simulated' if launch.simulated else 'measured'})"
        path.write_text(perfetto(launch.intervals(ctas), launch.clock_ghz, title))
        return path

    def render(self) -> str:
        """Every launch as text."""
        return "\n\n".join(launch.render() for launch in self.launches)


ACTIVE: ContextVar[Timeline | None] = ContextVar("tawa-timeline", default=None)
"""The timeline whose block the thread is in."""


def active() -> Timeline:
    """The timeline whose block the thread is in. Raises `NoTimeline`."""
    found = ACTIVE.get()
    if found is None:
        raise NoTimeline(
            "a kernel with the option `timeline` was launched outside a timeline's block",
            expected="with tawa.Timeline() as timeline: kernel[grid](...)",
            found="timeline=True",
            hint="leave the option out: the block sets it",
        )
    return found


def _recorded_ctas(launcher: Any, grid: Any) -> int:
    """How many CTAs of a launch are recorded by default."""
    ctas = launcher.ctas(grid)
    most = MOST_CTAS if launcher.spec.grid == "persistent" else SM_90A.multiprocessors
    return max(1, min(ctas, most))


def _reader(spec: Any, grid: Any, buffer: TraceBuffer) -> Reader:
    sizes = grid_sizes(grid)
    last: list[tuple[Any, Launch]] = []

    def read() -> Launch:
        regions = buffer.read()
        if not last or last[0][0] is not regions:
            clock, tracks, step = aligned(regions, spec.timeline)
            found = Launch(spec.entry, sizes, spec.timeline, tracks, clock, step_ns=step)
            last[:] = [(regions, found)]
        return last[0][1]

    return read
