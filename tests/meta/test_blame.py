"""`scripts/blame_kernels.py` finds the commits that change kernels, and asks about few of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
import blame_kernels
import kernel_changes

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

    monkeypatch.setattr(blame_kernels, "hashes", hashes)
    monkeypatch.setattr(blame_kernels, "kept", known.__getitem__)
    found = blame_kernels.blame(HISTORY, None, 1)
    assert {(s.kernel, HISTORY[s.last]) for s in found} == {
        ("gemm once", "commit11"), ("suite once", "commit11"), ("gemm twice", "commit12"),
        ("gemm twice", "commit30"), ("suite last", "commit32"),
    }  # fmt: skip
    assert all(s.last - s.first == 1 for s in found)
    assert set(blame_kernels.blamed_before(HISTORY, None)) == set(found)
    asked = sum(len(found) for found in known.values())
    assert asked <= 2 * len(TEXTS) + 5 * 6, "halving asks of each change about 5 commits"


def test_names_are_put_together():
    assert blame_kernels.grouped(["gemm a", "suite b", "suite c"]) == "gemm: a; suite: b, c"


def test_what_is_known_is_told_where_halving_stopped(monkeypatch: pytest.MonkeyPatch):
    known = {HISTORY[at]: {n: text(at) for n, text in TEXTS.items()} for at in (0, 16, 32)}
    monkeypatch.setattr(blame_kernels, "kept", lambda commit: known.get(commit, {}))
    monkeypatch.setattr(blame_kernels, "subject", str.upper)
    monkeypatch.setattr(blame_kernels, "logged", lambda _commit: [])
    stretches = blame_kernels.blamed_before(HISTORY, ["gemm twice", "suite last"])
    first, second = blame_kernels.rows(HISTORY, stretches)
    assert first["kernels"] == ["gemm twice"]
    assert list(first["commits"]) == HISTORY[1:17]
    assert second["kernels"] == ["gemm twice", "suite last"]


def test_code_is_what_is_left_without_words():
    plain = 'def f(x):\n    """A."""\n    return x  # b\n'
    assert blame_kernels.code(plain) == blame_kernels.code(
        plain.replace("A.", "B.").replace("b", "c")
    )
    assert blame_kernels.code(plain) != blame_kernels.code(plain.replace("return x", "return -x"))


def test_the_page_has_the_table_as_it_is():
    """`python scripts/kernel_changes.py --write` writes it."""
    assert kernel_changes.drawn() in kernel_changes.PAGE.read_text()


def test_a_change_without_a_reason_is_named():
    row = {"commits": {"abcdef01": "Do"}, "logged": {"abcdef01": []}, "kernels": ["gemm a"]}
    found = {"kernels": 2, "changes": [row]}
    with pytest.raises(ValueError, match="no reason for one of abcdef01"):
        kernel_changes.table(found, {}, "")
    drawn = kernel_changes.table(found, {"abcdef01": "speed"}, "")
    assert drawn.splitlines()[-1] == "| abcdef01 | Do | speed | gemm a |  |"


def test_what_happened_since_stands_behind_what_is_known():
    known = {"from": "a", "to": "b", "kernels": 2, "changes": [{"commits": {"b": "B"}}]}
    found = blame_kernels.extended(known, "c", [{"commits": {"c": "C"}}])
    assert [*found["changes"][0]["commits"], *found["changes"][1]["commits"]] == ["b", "c"]
    assert (found["from"], found["to"], known["to"]) == ("a", "c", "b")
