"""`scripts/blame_kernels.py` finds the commits that change kernels, and asks about few of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
import blame_kernels

HISTORY = [f"commit{i:02}" for i in range(33)]
TEXTS = {
    "suite same": lambda _at: "a",
    "suite once": lambda at: "a" if at < 11 else "b",
    "gemm twice": lambda at: "a" if at < 12 else "b" if at < 30 else "c",
    "suite last": lambda at: "a" if at < 32 else "b",
    "gemm once": lambda at: "a" if at < 11 else "b",
}


def test_each_change_is_found(monkeypatch: pytest.MonkeyPatch):
    known: dict[str, dict[str, str]] = {commit: {} for commit in HISTORY}

    def hashes(commit: str, kernels: list[str] | None, _jobs: int) -> dict[str, str]:
        asked = TEXTS if kernels is None else kernels
        known[commit] |= {name: TEXTS[name](HISTORY.index(commit)) for name in asked}
        return known[commit]

    monkeypatch.setattr(blame_kernels, "commits", lambda _start, _end: HISTORY)
    monkeypatch.setattr(blame_kernels, "hashes", hashes)
    monkeypatch.setattr(blame_kernels, "kept", known.__getitem__)
    changed, count = blame_kernels.blame("from", "to", 1)
    assert count == len(TEXTS)
    assert changed == {
        "commit11": ["gemm once", "suite once"],
        "commit12": ["gemm twice"],
        "commit30": ["gemm twice"],
        "commit32": ["suite last"],
    }
    asked = sum(len(found) for found in known.values())
    assert asked <= 2 * len(TEXTS) + 5 * 6, "halving asks of each change about 5 commits"


def test_names_are_put_together():
    assert blame_kernels.grouped(["gemm a", "suite b", "suite c"]) == "gemm: a; suite: b, c"
