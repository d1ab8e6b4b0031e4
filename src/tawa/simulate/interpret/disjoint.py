"""Whether accesses keep what `tl.assume_disjoint` promises: nothing is written that meets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.func import FuncOp

from tawa.base.errors import Note, TawaError
from tawa.base.numerics import Array
from tawa.ir.kernels import argument_names, disjoint_pairs, made_by_host
from tawa.simulate.interpret.memory import Access, Buffer, Watching


class NotDisjoint(TawaError):
    """Two arguments that `tl.assume_disjoint` names meet in memory."""

    explanation = (
        "`tl.assume_disjoint(x, y)` promises that no byte is written through one of the arguments "
        "and accessed through another, by whatever programs of the launch. The compiler then moves "
        "loads through one before stores through the other, and launches do not compare the two "
        "arrays. On a GPU a broken promise gives results that depend on who comes first. The "
        "simulator compares the bytes that are accessed. Leave the promise out: arrays that "
        "overlap are found by the launch, and the kernel is compiled for them."
    )
    example = """
import numpy as np
import tawa
import tawa.language as tl


@tawa.jit
def shifted(x, y, N: tl.constexpr):
    tl.assume_disjoint(x, y)
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at) + 1)


both = np.zeros(24, np.float32)
shifted[(1,)](both, both[8:], 16)
"""


@dataclass
class _Side:
    """The accesses through one of two arguments, in the bytes that both arrays have."""

    name: str
    read: Array
    written: Array
    """The number of an access, of each byte; -1 for none."""


@dataclass
class _Pair:
    """Two arguments, and the bytes from the host's address `first` on that both arrays have."""

    first: int
    sides: dict[str, _Side]


@dataclass
class Promises:
    """Looks at accesses through arguments that are promised to be apart, and lets another look."""

    kernel: FuncOp
    other: Watching | None
    _accesses: list[Access] = field(default_factory=list[Access])

    def __post_init__(self) -> None:
        names = argument_names(self.kernel)
        given, recipes = made_by_host(self.kernel)
        self._of: dict[str, str] = {}
        for number, recipe in enumerate(recipes):
            made: Any = recipe.get("arg", recipe.get("base"))
            if isinstance(made, int):
                self._of[names[given + number]] = names[made]
        self._pairs: list[_Pair] = []

    def begin(self, buffers: Sequence[Buffer]) -> None:
        """Take a launch's memory."""
        for names in disjoint_pairs(self.kernel):
            for one in buffers:
                for another in buffers:
                    if (self._name(one), self._name(another)) == names:
                        self._pair(one, another)

    def _name(self, buffer: Buffer) -> str:
        return self._of.get(buffer.name, buffer.name)

    def _pair(self, one: Buffer, other: Buffer) -> None:
        first = max(_host(one), _host(other))
        last = min(_host(one) + len(one.data), _host(other) + len(other.data))
        if first < last:
            sides = {
                b.name: _Side(self._name(b), *(np.full(last - first, -1) for _ in range(2)))
                for b in (one, other)
            }
            self._pairs.append(_Pair(first, sides))

    def read(self, buffer: Buffer, offsets: Array, size: int, access: Access) -> None:
        """Bytes `offsets` of a buffer, `size` from each, are read."""
        if self.other is not None:
            self.other.read(buffer, offsets, size, access)
        self._look(buffer, offsets, size, access, writes=False)

    def write(self, buffer: Buffer, offsets: Array, size: int, access: Access) -> None:
        """Bytes `offsets` of a buffer, `size` from each, are written."""
        if self.other is not None:
            self.other.write(buffer, offsets, size, access)
        self._look(buffer, offsets, size, access, writes=True)

    def _look(
        self, buffer: Buffer, offsets: Array, size: int, access: Access, *, writes: bool
    ) -> None:
        for pair in self._pairs:
            own = pair.sides.get(buffer.name)
            if own is None:
                continue
            (another,) = (side for name, side in pair.sides.items() if name != buffer.name)
            at = (offsets.reshape(-1, 1) + np.arange(size)).reshape(-1) + _host(buffer) - pair.first
            at = at[(at >= 0) & (at < len(own.read))]
            for kind, met in (("written", another.written), ("read", another.read)):
                found = met[at] >= 0
                if found.any() and (writes or kind == "written"):
                    before = self._accesses[int(met[at][found][0])]
                    raise self._broken(
                        own, another, access, before, "written" if writes else "read", kind
                    )
            (own.written if writes else own.read)[at] = len(self._accesses)
        self._accesses.append(access)

    def _broken(
        self, own: _Side, another: _Side, access: Access, before: Access, now: str, then: str
    ) -> NotDisjoint:
        return NotDisjoint(
            f"`{own.name}` and `{another.name}` are promised to be disjoint, and meet",
            span=access.span,
            expected="no byte that is written through one and accessed through the other",
            found=f"a byte {now} through `{own.name}` by program {list(access.program)}, and "
            f"{then} through `{another.name}` by program {list(before.program)}",
            hint="leave `tl.assume_disjoint` out: launches find out which arrays overlap",
            notes=[Note(f"the access through `{another.name}`", before.span)],
        )


def _host(buffer: Buffer) -> int:
    return int(buffer.data.ctypes.data)
