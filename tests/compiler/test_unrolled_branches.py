"""Many branches one after the other: what passes do for one does not grow with those before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.work import calls_made

import tawa
import tawa.language as tl
from tawa.base.options import Options
from tawa.codegen import lower
from tawa.driver.attempts import Attempts
from tawa.driver.compilation import Compilation
from tawa.driver.compiler import tile_level
from tawa.tile.passes.partial_dead_code import PartialDeadCode


@tawa.jit
def sums_of_some(x: Any, y: Any, n: Any, size: Any, COUNT: tl.constexpr):
    at = tl.arange(0, 128)
    for i in tl.static_range(0, COUNT):
        if i < n:
            tl.store(y + i * size, tl.sum(tl.load(x + i * size + at)))


PASSES = {lower: "order_accesses", PartialDeadCode: "apply"}
"""Where passes are found, and under which name."""


def calls_in_passes(monkeypatch: pytest.MonkeyPatch, count: int) -> list[int]:
    """The calls that each pass makes while so many branches are lowered."""
    made: dict[Any, int] = {}

    def counted(owner: Any, own: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: made.update({owner: calls_made(lambda: own(*args))})

    with monkeypatch.context() as patch:
        for owner, name in PASSES.items():
            patch.setattr(owner, name, counted(owner, getattr(owner, name)))
        types = {"x": "*f32", "y": "*f32", "n": "i32", "size": "i32"}
        work = Compilation(Options())
        module = tile_level(work, sums_of_some, types, {"COUNT": count})
        next(Attempts(work, "sums_of_some", module).candidates())
    return [made[owner] for owner in PASSES]


def test_twice_as_many_branches(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (calls_in_passes(monkeypatch, count) for count in (6, 12))
    assert [large < 2.5 * small for small, large in zip(few, many, strict=True)] == [True, True]
