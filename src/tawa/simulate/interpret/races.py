"""Which accesses of global memory nothing orders: vector clocks over the programs of a launch.

Programs of one grid run in any order. Two accesses of one element by different programs, at least
one of them a write, must be ordered by an atomic operation that releases and one, or a volatile
load, that acquires what it wrote; or both must be atomic themselves. Where no program acquires
anything, what is found does not depend on the order in which the simulator runs them; where some
do, the order decides who acquires from whom. A clock maps programs to times; a time passes when its
program releases.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from tawa.base.errors import Note, TawaError
from tawa.base.numerics import Array
from tawa.simulate.interpret.memory import Access, Buffer

READ, STRONG_READ, WRITE, ATOMIC = "read", "volatile read", "write", "atomic update"

CONFLICTS = {
    READ: (WRITE, ATOMIC),
    STRONG_READ: (WRITE,),
    WRITE: (READ, STRONG_READ, WRITE, ATOMIC),
    ATOMIC: (READ, WRITE),
}
"""Which earlier accesses by other programs an access must be ordered after."""

REMEMBERED = 16
"""Programs that an element remembers as its readers, or as who updated it, where none is ordered
before another; further ones are counted in `Watch.forgotten`."""

Clock: TypeAlias = dict[int, int]
"""Times by program; one that is missing has not been seen."""


class RaceBetweenPrograms(TawaError):
    """Two programs access one element of memory, one of them writes, and nothing orders them."""

    explanation = (
        "Programs of one grid run at the same time, in any order. If two touch the same element "
        "and one of them writes it, the result depends on which comes first. There are three ways "
        "out. Give each program elements of its own (mask the tail, check offsets). Or combine by "
        "an atomic operation. Or order the two: after the first access comes an atomic operation "
        "that releases (`acq_rel` is the default), and before the second one whose result is used, "
        "or a volatile load. "
        'Atomics with `sem="relaxed"` order nothing, and `scope="cta"` reaches one program only.'
    )
    example = """
import numpy as np
import tawa
import tawa.language as tl
from tawa.simulate.check.memory import check_memory


@tawa.jit
def total(x, out, N: tl.constexpr):
    values = tl.load(x + tl.program_id(0) * N + tl.arange(0, N))
    tl.store(out, tl.load(out) + tl.sum(values))


module = total.compile("*f32", "*f32", 16).module("tile")
check_memory(module, (4,), [np.ones(64, np.float32), np.zeros(1, np.float32)])
"""


class NeverWritten(TawaError):
    """A program reads an element that nobody has written."""

    explanation = (
        "The array was made by `numpy.empty`, and neither the host nor an earlier access of the "
        "launch has written the element. On a device it is whatever was there before. Make the "
        "array with `zeros`, write the element first, or mask the load."
    )
    example = """
import numpy as np
import tawa
import tawa.language as tl
from tawa.simulate.check.memory import check_memory


@tawa.jit
def accumulate(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(out + at) + tl.load(x + at))


module = accumulate.compile("*f32", "*f32", 16).module("tile")
out = np.empty(16, np.float32)
check_memory(module, (1,), [np.ones(16, np.float32), out], unwritten=[None, np.ones(64, bool)])
"""


class _Earlier(NamedTuple):
    """An access that an element remembers."""

    granule: int
    kind: str
    access: Access


class _Plane:
    """One access of each granule: by which program, when, and its number; -1 for none."""

    def __init__(self, granules: int) -> None:
        self.who = np.full(granules, -1, np.int32)
        self.time = np.zeros(granules, np.int32)
        self.record = np.zeros(granules, np.int32)

    def note(self, where: Array, program: int, time: int, record: int) -> None:
        self.who[where], self.time[where], self.record[where] = program, time, record


@dataclass
class _Region:
    """Memory that overlapping arguments share, from the host's address `first` on."""

    first: int
    granules: int
    planes: dict[str, list[_Plane]] = field(default_factory=dict[str, list[_Plane]])
    unwritten: Array | None = None


@dataclass
class Watch:
    """Looks at every access of a launch's global memory; raises at the first that is wrong.

    `granule` is the size in bytes of the narrowest access. Raises `RaceBetweenPrograms` and
    `NeverWritten`.
    """

    granule: int = 1
    accesses: int = 0
    """Loads, stores and atomic operations that were looked at."""
    elements: int = 0
    """Elements that they touched, all together."""
    atomics: int = 0
    """Atomic operations and volatile loads among them."""
    handovers: int = 0
    """Acquisitions of what another program had released."""
    forgotten: int = 0
    """Accesses that some element could not remember beside `REMEMBERED` others."""

    @property
    def uncovered(self) -> int:
        """Forgotten accesses that a conflict may hide in.

        Where nobody acquired anything, each program conflicts with all others that an element
        remembers, so those that it forgot would show nothing more.
        """
        return self.forgotten if self.handovers else 0

    def __post_init__(self) -> None:
        self._regions: list[_Region] = []
        self._clocks: dict[tuple[int, ...], tuple[int, Clock]] = {}
        self._released: dict[int, Clock] = {}
        self._records: list[Access] = []
        self._numbers: dict[tuple[object, ...], int] = {}

    def begin(self, buffers: list[Buffer], unwritten: dict[int, Array]) -> None:
        """Take a launch's memory; `unwritten` has the bytes of some buffers nobody has written."""
        ends: list[int] = []
        for buffer in sorted(buffers, key=_host):
            first, end = _host(buffer), _host(buffer) + len(buffer.data)
            if self._regions and first < ends[-1]:
                ends[-1] = max(end, ends[-1])
            else:
                self._regions.append(_Region(first, 0))
                ends.append(end)
        for region, end in zip(self._regions, ends, strict=True):
            region.granules = -(-(end - region.first) // self.granule)
        for number, missing in unwritten.items():
            region, base = self._place(buffers[number])
            if region.unwritten is None:
                region.unwritten = np.zeros(region.granules, bool)
            whole = len(missing) // self.granule * self.granule
            parts = missing[:whole].reshape(-1, self.granule)
            region.unwritten[base : base + len(parts)] |= np.all(parts, axis=1)

    def read(self, buffer: Buffer, offsets: Array, size: int, access: Access) -> None:
        """Bytes `offsets` of a buffer, `size` from each, are read."""
        region, where = self._granules(buffer, offsets, size)
        self._count(access, offsets)
        program, clock = self._clock(access)
        if access.acquires:
            self._acquire(program, clock, region, where)
        if region.unwritten is not None and region.unwritten[where].any():
            self._never_written(buffer, region, where, access)
        self._look(buffer, region, where, access, _reading(access))

    def write(self, buffer: Buffer, offsets: Array, size: int, access: Access) -> None:
        """Bytes `offsets` of a buffer, `size` from each, are written."""
        region, where = self._granules(buffer, offsets, size)
        self._count(access, offsets)
        program, clock = self._clock(access)
        self._look(buffer, region, where, access, ATOMIC if access.atomic else WRITE)
        if region.unwritten is not None:
            region.unwritten[where] = False
        self._release(program, clock, region, where, access)

    def _granules(self, buffer: Buffer, offsets: Array, size: int) -> tuple[_Region, Array]:
        region, base = self._place(buffer)
        first = offsets.reshape(-1) // self.granule
        if size > self.granule:
            first = (first[:, None] + np.arange(size // self.granule)).reshape(-1)
        return region, first + base

    def _place(self, buffer: Buffer) -> tuple[_Region, int]:
        host = _host(buffer)
        region = next(r for r in reversed(self._regions) if r.first <= host)
        return region, (host - region.first) // self.granule

    def _count(self, access: Access, offsets: Array) -> None:
        self.accesses += 1
        self.elements += offsets.size
        self.atomics += access.atomic

    def _clock(self, access: Access) -> tuple[int, Clock]:
        if access.program not in self._clocks:
            number = len(self._clocks)
            self._clocks[access.program] = number, {number: 1}
        return self._clocks[access.program]

    def _acquire(self, program: int, clock: Clock, region: _Region, where: Array) -> None:
        for address in (region.first + where * self.granule).tolist():
            released = self._released.get(address, {})
            news = {p: t for p, t in released.items() if p != program and t > clock.get(p, 0)}
            self.handovers += bool(news)
            clock.update(news)

    def _release(
        self, program: int, clock: Clock, region: _Region, where: Array, access: Access
    ) -> None:
        """What an element hands on: an atomic update adds to it, a plain store hands on nothing."""
        if not self._released and not access.releases:
            return
        for address in (region.first + where * self.granule).tolist():
            held = self._released.get(address, {}) if access.atomic else {}
            if access.releases:
                times = {p: max(t, held.get(p, 0)) for p, t in clock.items()}
                self._released[address] = {**held, **times}
            elif not access.atomic:
                self._released.pop(address, None)
        if access.releases:
            clock[program] += 1

    def _look(
        self, buffer: Buffer, region: _Region, where: Array, access: Access, kind: str
    ) -> None:
        """Compare with what the elements remember, and be remembered."""
        program, clock = self._clock(access)
        for earlier in CONFLICTS[kind]:
            for plane in region.planes.get(earlier, ()):
                bad = self._unseen(plane, where, program, clock)
                if bad.any():
                    granule = int(where[int(bad.argmax())])
                    before = self._records[int(plane.record[granule])]
                    raise self._race(buffer, _Earlier(granule, earlier, before), kind, access)
        self._remember(region, where, access, kind)

    def _unseen(self, plane: _Plane, where: Array, program: int, clock: Clock) -> Array:
        """Which granules' accesses another program made that this one has not seen."""
        who = plane.who[where]
        others = (who >= 0) & (who != program)
        if len(clock) > 1 and others.any():
            time = plane.time[where]
            for other in np.unique(who[others]).tolist():
                if other in clock:
                    others &= (who != other) | (time > clock[other])
        return others

    def _remember(self, region: _Region, where: Array, access: Access, kind: str) -> None:
        program, clock = self._clock(access)
        record = self._record(access)
        planes = region.planes.setdefault(kind, [])
        left = where
        for plane in planes:
            free = ~self._unseen(plane, left, program, clock)
            plane.note(left[free], program, clock[program], record)
            left = left[~free]
            if not left.size:
                return
        if len(planes) == REMEMBERED:
            self.forgotten += 1
            return
        planes.append(_Plane(region.granules))
        planes[-1].note(left, program, clock[program], record)

    def _record(self, access: Access) -> int:
        key = (access.verb, access.program, access.span)
        if key not in self._numbers:
            self._numbers[key] = len(self._records)
            self._records.append(access)
        return self._numbers[key]

    def _never_written(self, buffer: Buffer, region: _Region, where: Array, access: Access) -> None:
        assert region.unwritten is not None
        first = int(where[int(region.unwritten[where].argmax())])
        element = self._element(buffer, region, first)
        raise NeverWritten(
            f"program {list(access.program)} reads element {element} of `{buffer.name}`, which "
            "nobody has written",
            span=access.span,
            expected="a value from the host, or of an earlier store of the launch",
            found=f"`{buffer.name}` as `empty` made it",
            hint="make the array with `zeros`, store before the load, or mask the load",
        )

    def _race(
        self, buffer: Buffer, earlier: _Earlier, kind: str, access: Access
    ) -> RaceBetweenPrograms:
        before = earlier.access
        element = self._element(buffer, self._place(buffer)[0], earlier.granule)
        return RaceBetweenPrograms(
            f"programs {list(before.program)} and {list(access.program)} access element {element} "
            f"of `{buffer.name}`, and nothing orders the two",
            span=access.span,
            expected="two atomic operations, or a release and an acquire between the accesses",
            found=f"{_article(kind)} by program {list(access.program)}, and "
            f"{_article(earlier.kind)} by program {list(before.program)}",
            hint="give each program elements of its own, combine them by an atomic operation, or "
            "hand them over by an atomic that releases and one that acquires",
            notes=[Note(f"the {earlier.kind} by program {list(before.program)}", before.span)],
        )

    def _element(self, buffer: Buffer, region: _Region, granule: int) -> int:
        offset = region.first + granule * self.granule - int(buffer.owner.ctypes.data)
        return offset // buffer.owner.dtype.itemsize


def _reading(access: Access) -> str:
    return STRONG_READ if access.atomic else READ


def _article(kind: str) -> str:
    return f"{'an' if kind[0] == 'a' else 'a'} {kind}"


def _host(buffer: Buffer) -> int:
    return int(buffer.data.ctypes.data)
