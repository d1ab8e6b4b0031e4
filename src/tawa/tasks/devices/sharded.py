"""Tensors of which each device of a host holds a part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tawa.base.user_frames import entries, users_place
from tawa.runtime.arrays import view
from tawa.tasks.language.errors import WrongTaskArguments


@entries
class Sharded:
    """One tensor in pieces along a dimension, in order: `shards[d]` lies on device d.

    Tasks take it where they take arrays, under a mapping for several devices. NumPy arrays stand
    for devices in the simulator. Raises `WrongTaskArguments` for shards that do not fit.
    """

    def __init__(self, shards: Sequence[Any], dim: int = 0) -> None:
        if not isinstance(dim, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise WrongTaskArguments(
                f"shards lie along dimension {dim!r}",
                span=users_place(),
                expected="the number of a dimension",
                found=f"a {type(dim).__name__}",
            )
        self.shards, self.dim = tuple(shards), dim
        shapes = [view(shard).shape for shard in self.shards]
        others = {(*shape[:dim], *shape[dim + 1 :]) for shape in shapes}
        types = {view(shard).element_type for shard in self.shards}
        if not shapes or len(others) != 1 or len(types) != 1 or not 0 <= dim < len(shapes[0]):
            raise WrongTaskArguments(
                "shards of one tensor do not fit each other",
                span=users_place(),
                expected=f"arrays of one type, whose sizes differ in dimension {dim} alone",
                found=", ".join(map(str, shapes)) or "none",
            )
        whole = list(shapes[0])
        whole[dim] = sum(shape[dim] for shape in shapes)
        self.shape = tuple(whole)
