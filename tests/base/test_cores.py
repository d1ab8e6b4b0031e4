"""Cores that a process may use, and those of them that nothing else uses."""

from __future__ import annotations

import os

import pytest

from tawa.base import cores


@pytest.mark.parametrize(
    ("there", "own", "load", "free"),
    [(16, 16, 0.2, 16), (16, 16, 9.6, 6), (16, 16, 40.0, 1), (64, 8, 50.0, 8), (64, 8, 60.0, 4)],
)
def test_what_others_use_is_not_free(
    monkeypatch: pytest.MonkeyPatch, there: int, own: int, load: float, free: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: there)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(own)), raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0), raising=False)
    assert (cores.cores(), cores.free_cores()) == (own, free)


def test_where_nothing_counts_the_load_all_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "getloadavg", raising=False)
    assert cores.free_cores() == cores.cores()
