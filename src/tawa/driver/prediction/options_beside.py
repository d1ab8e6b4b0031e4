"""What else a launch may be given: one option, or one size of a tile, changed at a time.

What a launch leaves open has been chosen by the model of costs already, so only what it gives is
varied: its sizes of tiles, its warps and stages, and its demands, each left open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from tawa.base.options import Options

LEAST_TILE, LARGEST_TILE = 16, 256
MOST_WARPS = 16
WISHES = ("num_warps", "num_stages")
DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(Options)}


def options_beside(
    given: Mapping[str, Any], tiles: Mapping[str, int]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """What to try, as text and as keywords of a launch.

    `given` are the launch's own options, `tiles` the sizes of tiles that its grid goes by: these
    can be changed without changing what is computed.
    """
    for name, size in tiles.items():
        for other in (size // 2, size * 2):
            if LEAST_TILE <= other <= LARGEST_TILE:
                yield f"{name}={other}", {name: other}
    warps: int = given.get("num_warps") or Options.num_warps
    for other in (warps // 2, warps * 2):
        if 1 <= other <= MOST_WARPS:
            yield f"num_warps={other}", {"num_warps": other}
    stages = given.get("num_stages")
    for other in (stages - 1, stages + 1) if isinstance(stages, int) else ():
        if other >= 1:
            yield f"num_stages={other}", {"num_stages": other}
    for name, value in given.items():
        if name in DEFAULTS and name not in WISHES and value != DEFAULTS[name]:
            yield f"without {name}={value}", {name: DEFAULTS[name]}


def tiles_of(grid: Any, named: Mapping[str, Any], constants: Mapping[str, Any]) -> dict[str, int]:
    """The constants that a grid's function reads and that are sizes of tiles: powers of two."""
    if not callable(grid):
        return {}
    read = _Reads(named)
    grid(read)
    found = {name: constants[name] for name in read.names if name in constants}
    return {
        name: value
        for name, value in found.items()
        if type(value) is int and value >= LEAST_TILE and value & (value - 1) == 0
    }


class _Reads(dict[str, Any]):
    """Arguments by name that remember which of them were read."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        super().__init__(named)
        self.names: dict[str, None] = {}

    def __getitem__(self, name: str) -> Any:
        self.names[name] = None
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """As of any dict, remembered."""
        self.names[name] = None
        return super().get(name, default)
