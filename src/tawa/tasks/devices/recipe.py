"""What a call does on several devices, as a list: made once for calls whose arrays lie alike.

Arrays stand in it by their number: first those of the call, then those that the call makes. So a
call that follows puts its own arrays in, and runs no variant of the node again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tawa.tasks.devices.held import Event


@dataclass(frozen=True, eq=False)
class Region:
    """A part of an array: the array's number, the part's shape, and what cuts it out."""

    array: int
    shape: tuple[int, ...]
    cuts: tuple[tuple[slice | int, ...], ...] = ()

    def __getitem__(self, cut: tuple[slice | int, ...]) -> Region:
        """A part of the part. Slices are within it; an integer takes its dimension away."""
        pairs = list(zip(cut, self.shape, strict=True))
        if all(isinstance(c, slice) and c.indices(n)[:2] == (0, n) for c, n in pairs):
            return self
        sizes = [len(range(*c.indices(n))) for c, n in pairs if isinstance(c, slice)]
        return Region(self.array, tuple(sizes), (*self.cuts, cut))

    def places(self, whole: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """From where to where it goes in each dimension of its array, which is so large."""
        found, left = [(0, size) for size in whole], list(range(len(whole)))
        for cut in self.cuts:
            for d, c in zip(left, cut, strict=True):
                low, high = found[d]
                start, stop = (c, c + 1) if isinstance(c, int) else c.indices(high - low)[:2]
                found[d] = low + start, low + stop
            left = [d for d, c in zip(left, cut, strict=True) if isinstance(c, slice)]
        return tuple(found)

    def of(self, pool: Sequence[Any]) -> Any:
        """The part, of the arrays of a call."""
        found = pool[self.array]
        for cut in self.cuts:
            found = found[cut]
        return found


@dataclass(frozen=True)
class Make:
    """An array that a call makes on a device."""

    device: int
    shape: tuple[int, ...]
    dtype: Any
    zero: bool


@dataclass(frozen=True, eq=False)
class Work:
    """A launch on a device, or a copy to it; what is copied stands in `given`: source, target."""

    number: int
    device: int
    text: str
    after: tuple[int, ...]
    given: tuple[Any, ...]
    writes: tuple[bool, ...]
    """Of what is given, what it writes."""
    call: Callable[[Sequence[Any]], Any] | None = None

    @property
    def copies(self) -> bool:
        """Whether it is a copy."""
        return self.call is None

    @property
    def stream(self) -> str:
        """Where it is done, in order."""
        return f"copies to {self.device}" if self.copies else f"device {self.device}"

    def arguments(self, pool: Sequence[Any]) -> list[Any]:
        """What it is given in a call."""
        return [arg.of(pool) if isinstance(arg, Region) else arg for arg in self.given]

    def __str__(self) -> str:
        waits = f" after {', '.join(f'e{n}' for n in self.after)}" if self.after else ""
        return f"e{self.number} on {self.stream}: {self.text}{waits}"


@dataclass(eq=False)
class Recipe:
    """The arrays that a call makes, and its work in the order in which it is given."""

    shapes: list[tuple[int, ...]]
    """Of the arrays that the call brings."""
    makes: list[Make] = field(default_factory=list[Make])
    works: list[Work] = field(default_factory=list[Work])

    def empty(self, device: int, shape: Sequence[int], dtype: Any, *, zero: bool) -> Region:
        """A new array, of zeros or of anything."""
        self.makes.append(Make(device, tuple(shape), dtype, zero))
        return Region(len(self.shapes) + len(self.makes) - 1, tuple(shape))

    def copy(
        self, source: Any, target: Any, devices: tuple[int, int], after: Sequence[Event], what: str
    ) -> Event:
        """A copy from a device to another."""
        text = f"copy {what} from device {devices[0]} to device {devices[1]}"
        return self._add(devices[1], text, after, (source, target), (False, True))

    def launch(
        self,
        device: int,
        after: Sequence[Event],
        text: str,
        given: Sequence[Any],
        writes: Sequence[bool],
        call: Callable[[Sequence[Any]], Any],
    ) -> Event:
        """A launch of kernels."""
        return self._add(device, text, after, tuple(given), tuple(writes), call)

    def _add(
        self, device: int, text: str, after: Sequence[Event], given: Any, writes: Any,
        call: Any = None,
    ) -> Event:  # fmt: skip
        number, waits = len(self.works), tuple(sorted({*after}))
        self.works.append(Work(number, device, text, waits, given, writes, call))
        return number

    @cached_property
    def waits(self) -> list[tuple[int, ...]]:
        """For each work, those of other streams that it has to wait for.

        Its own stream is in order, and what one of them waits for need not be waited for again.
        """
        found: list[tuple[int, ...]] = []
        behind: list[dict[str, int]] = []
        for work in self.works:
            known, waits = self._own(behind, work), list[int]()
            for number in sorted(work.after, reverse=True):
                if known.get(self.works[number].stream, -1) < number:
                    waits.append(number)
                    self._join(known, behind, number)
            found.append(tuple(waits))
            behind.append(known)
        return found

    @cached_property
    def behind(self) -> list[dict[str, int]]:
        """For each work, the last one of each stream that is done before it begins, by `waits`."""
        found: list[dict[str, int]] = []
        for work, waits in zip(self.works, self.waits, strict=True):
            known = self._own(found, work)
            for number in waits:
                self._join(known, found, number)
            found.append(known)
        return found

    def _own(self, behind: list[dict[str, int]], work: Work) -> dict[str, int]:
        """What is done when the work before it in its stream is."""
        before = [w.number for w in self.works[: work.number] if w.stream == work.stream]
        return {**behind[before[-1]], work.stream: before[-1]} if before else {}

    def _join(self, known: dict[str, int], behind: list[dict[str, int]], number: int) -> None:
        """Add what is done when a work is."""
        for stream, done in {**behind[number], self.works[number].stream: number}.items():
            known[stream] = max(known.get(stream, -1), done)

    @cached_property
    def waited(self) -> frozenset[int]:
        """The works whose ends others wait for."""
        return frozenset(number for waits in self.waits for number in waits)
