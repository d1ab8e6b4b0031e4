"""Kinds of launch arguments: what compiling depends on, apart from what it does not.

A kernel is compiled once for each tuple of `Kind`s. Kinds are unique objects, compared by
identity, so that looking a launch up costs little.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, eq=False)
class Kind:
    """What compiling needs to know of one argument.

    - `type`: `*f16` (array), `desc<f16,128x64>`, `i32`, `i64`, `u64`, `f32`, `i1`, or `none`.
    - `divisible`: an address or integer that is a multiple of 16.
    - `one`: an integer that is 1.
    - `device`: where an array or descriptor lies (`HOST` for the CPU); None for scalars.
    - `library`: whose current stream a launch uses: `torch`, `cupy`, or none.
    """

    type: str
    divisible: bool = False
    one: bool = False
    device: int | None = None
    library: str = ""

    @property
    def text(self) -> str:
        """The kind as the compiler's cache key shows it, without its place."""
        return self.type + (":16" if self.divisible else "") + (":1" if self.one else "")


@cache
def kind_of(
    type: str,
    divisible: bool = False,
    one: bool = False,
    device: int | None = None,
    library: str = "",
) -> Kind:
    """The one `Kind` with these properties."""
    return Kind(type, divisible, one, device, library)
