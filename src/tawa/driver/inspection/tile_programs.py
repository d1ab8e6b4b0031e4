"""Functions at the tile level: what they mean on NumPy arrays, with nothing below compiled.

What can be known of such a program is asked here too: whether boxes of two sizes make the same
program (`check_apart`), and where what is past the end of a tensor counts (`counted`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tawa.base.options import Options
from tawa.driver.host_launch import stored
from tawa.tile.analysis.boxes_apart import Apart, check_apart
from tawa.tile.analysis.past_ends import Counted, Edges, counted

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tawa.driver.jit import Kernel

__all__ = [
    "Apart", "Counted", "Edges", "check_apart", "counted", "run_tile_module", "tile_module",
    "whole",
]  # fmt: skip


def tile_module(fn: Kernel, types: Mapping[str, str], *, copied: bool = True) -> ModuleOp:
    """A function's tile level for argument types by name.

    What descriptors address is `copied` by the copy engine, unless the program is only simulated.
    """
    from tawa.driver.compilation import Compilation
    from tawa.driver.compiler import tile_level

    return tile_level(Compilation(Options()), fn, types, {}, copied=copied)


def run_tile_module(module: ModuleOp, programs: int, values: Sequence[Any]) -> None:
    """Run so many programs, one after the other; results go into the arrays that are passed."""
    from tawa.simulate.interpret.tile import run

    run(module, (programs,), [stored(value) for value in values])


def whole(array: Any) -> Any:
    """The descriptor of a whole array (NumPy's, contiguous), as such a program takes it."""
    from tawa.simulate.interpret.tile import HostDescriptor

    return HostDescriptor.of(array)
