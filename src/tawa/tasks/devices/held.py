"""Which device holds which box of a tensor, and the copies that bring boxes to where they are used.

A tensor has *owners*: boxes that lie apart, each an array on a device, with the truth. A device
that reads a box which it does not own gets a copy, and keeps it until somebody writes there. A task
that writes to a box that it does not own writes into an array of its own, which is then copied to
the owners; if there are none (a tensor that the program makes), it becomes one.

Nothing here waits: work is given to a `Machine`, with the events that it comes after. An array
knows, box by box, the events that wrote it last and those that have read it since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

Event: TypeAlias = Any
"""What a machine gives for work, to name what has to be done before other work."""

Box: TypeAlias = tuple[tuple[int, int], ...]
"""From where to where, in each dimension."""


class Machine(Protocol):
    """What makes arrays on devices, copies between them, and keeps order by events."""

    def empty(self, device: int, shape: Sequence[int], dtype: Any, *, zero: bool) -> Any:
        """A new array."""
        ...

    def copy(
        self, source: Any, target: Any, devices: tuple[int, int], after: Sequence[Event], what: str
    ) -> Event:
        """Copy an array to one of the same shape, once events have happened."""
        ...


@dataclass(eq=False)
class Piece:
    """A box of a tensor as an array of a device, and what was done with its parts."""

    box: Box
    device: int
    array: Any
    written: list[tuple[Box, Event]] = field(default_factory=list[tuple[Box, Event]])
    read: list[tuple[Box, Event]] = field(default_factory=list[tuple[Box, Event]])

    def holds(self, box: Box) -> bool:
        """Whether all of a box is in this one."""
        return inside(box, self.box)

    def part(self, box: Box) -> Any:
        """The part of the array that is a box of the tensor."""
        return self.array[
            tuple(slice(a - low, b - low) for (low, _), (a, b) in zip(self.box, box, strict=True))
        ]

    def narrowed(self, box: Box) -> Piece:
        """A part of it by itself, with what was done with it."""
        return Piece(box, self.device, self.part(box), [*self.written], [*self.read])

    def before_write(self, box: Box) -> list[Event]:
        """What has to be done before a box is written."""
        return [e for other, e in (*self.written, *self.read) if common_box(box, other)]

    def before_read(self, box: Box) -> list[Event]:
        """What has to be done before a box is read."""
        return [event for other, event in self.written if common_box(box, other)]

    def wrote(self, box: Box, event: Event) -> None:
        """A box was written by work that came after all that it was used for."""
        self.written = [(o, e) for o, e in self.written if not inside(o, box)]
        self.read = [(o, e) for o, e in self.read if not inside(o, box)]
        self.written.append((box, event))

    def was_read(self, box: Box, event: Event) -> None:
        """A box was read by work that came after what wrote it."""
        self.read.append((box, event))


@dataclass(eq=False)
class Held:
    """A tensor over all devices."""

    name: str
    shape: tuple[int, ...]
    dtype: Any
    owners: list[Piece]
    copies: list[Piece] = field(default_factory=list[Piece])

    def inside(self, box: Box) -> Box | None:
        """The part of a box that is in the tensor; None if none is."""
        return common_box(box, tuple((0, size) for size in self.shape))

    def on(self, machine: Machine, device: int, box: Box, *, reads: bool) -> Piece:
        """A piece on a device that holds a box, with what is in it if it is read.

        Outside of the tensor the box is zeros.
        """
        for piece in (*self.owners, *self.copies):
            if piece.device == device and piece.holds(box):
                return piece
        cut, shape = self.inside(box), [b - a for a, b in box]
        piece = Piece(box, device, machine.empty(device, shape, self.dtype, zero=cut != box))
        if not reads:
            return piece
        for owner, common in self.owning(cut):
            event = machine.copy(
                owner.part(common), piece.part(common), (owner.device, device),
                owner.before_read(common), f"{self.name}{shown(common)}",
            )  # fmt: skip
            owner.was_read(common, event)
            piece.wrote(common, event)
        self.copies.append(piece)
        return piece

    def owning(self, box: Box | None) -> Iterator[tuple[Piece, Box]]:
        """The owners of parts of a box, and these parts."""
        for owner in self.owners if box is not None else ():
            common = common_box(box, owner.box) if box is not None else None
            if common is not None:
                yield owner, common

    def written(self, machine: Machine, piece: Piece, box: Box) -> None:
        """Hand on what a device wrote to a box: to the owners, or as their like."""
        cut = self.inside(box)
        if cut is None:
            return
        owners = list(self.owning(cut)) if piece not in self.owners else []
        self.copies = [
            c for c in self.copies if c is piece or common_box(c.box, cut) is None
        ]  # fmt: skip
        if piece in self.owners:
            return
        new = rest(cut, [owner.box for owner, _ in owners])
        if new:  # of a tensor that the program makes: who writes first has it
            self.copies = [c for c in self.copies if c is not piece]
            whole = [piece.box] == new
            self.owners += [piece] if whole else [piece.narrowed(box) for box in new]
        for owner, common in owners:
            event = machine.copy(
                piece.part(common), owner.part(common), (piece.device, owner.device),
                [*piece.before_read(common), *owner.before_write(common)],
                f"{self.name}{shown(common)}",
            )  # fmt: skip
            piece.was_read(common, event)
            owner.wrote(common, event)


def common_box(one: Box, other: Box) -> Box | None:
    """What two boxes have in common; None if that is nothing."""
    both = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other, strict=True))
    return both if all(a < b for a, b in both) else None


def rest(box: Box, others: Sequence[Box]) -> list[Box]:
    """What of a box is in none of others, as boxes that lie apart."""
    found = [box]
    for other in others:
        left: list[Box] = []
        for part in found:
            common = common_box(part, other)
            if common is None:
                left.append(part)
                continue
            for d, ((a, b), (low, high)) in enumerate(zip(part, common, strict=True)):
                for cut in ((a, low), (high, b)):
                    if cut[0] < cut[1]:
                        left.append((*common[:d], cut, *part[d + 1 :]))
        found = left
    return found


def inside(one: Box, other: Box) -> bool:
    """Whether all of a box is in another."""
    return all(low <= a and b <= high for (low, high), (a, b) in zip(other, one, strict=True))


def shown(box: Box) -> str:
    """A box as text."""
    return f"[{', '.join(f'{a}:{b}' for a, b in box)}]"
