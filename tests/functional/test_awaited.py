"""Inference of long vectors takes time in proportion to their length."""

from __future__ import annotations

from pathlib import Path

import pytest

from tawa import cuppl
from tawa.cuppl.typing.language import NumberSolver


def attempts(items: int, monkeypatch: pytest.MonkeyPatch) -> int:
    count = 0
    plain = NumberSolver.attempt

    def counted(self: NumberSolver, constraint: object) -> bool:
        nonlocal count
        count += 1
        return plain(self, constraint)  # pyright: ignore

    with monkeypatch.context() as patch:
        patch.setattr(NumberSolver, "attempt", counted)
        cuppl.model(f"def main () = sum [{', '.join(map(str, range(items)))}]")
    return count


def test_each_item_of_a_vector_is_looked_at_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAWA_CACHE_DIR", str(tmp_path))  # what is kept is not inferred again
    few, many = attempts(301, monkeypatch), attempts(603, monkeypatch)
    assert many < 2.5 * few
    assert many < 10 * 603
