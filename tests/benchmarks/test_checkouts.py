"""The benchmark of checkouts beside each other: who compiles, whose turn it is, what is left out."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from checkouts import Checkout, Clock, checkout, compared, summary
from checkouts_process import Problem, Process

SPEED = {"old": 2.0, "new": 1.0}
OPTIONS = SimpleNamespace(jobs=4, rounds=2, soak=0.1, window=0.1)


class Fake:
    """A checkout's process: its executions take `SPEED`; what some cases do is said by a test."""

    def __init__(self, name: str, log: list[tuple[str, ...]], odd: dict[str, Any]) -> None:
        self.name, self.log, self.odd, self.ended = name, log, odd, False

    def ask(self, within: float, do: str, **words: Any) -> Any:
        assert within > 0
        assert not self.ended
        self.log.append((self.name, do, *map(str, words.values())))
        act = self.odd.get(f"{self.name} {do} {words.get('name')}")
        if isinstance(act, Problem):
            raise act
        if do == "times":
            return [SPEED[self.name]] * 3
        given = {"row": {"kernel": words.get("name")}, "error": 1e-4, "tolerance": 1e-3,
                 "exact": True, "sample": [1.0, 2.0], "flops": 10, "bytes": None}  # fmt: skip
        return given | (act or {})

    def end(self) -> None:
        self.ended = True
        self.log.append((self.name, "end"))


class Run:
    """Rows, without a device."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.sampler = SimpleNamespace(
            sampling=contextlib.nullcontext, turn=lambda name: None, readings=lambda name: {}
        )

    def add(self, case: dict[str, Any], impl: str, timing: Any, **more: Any) -> None:
        ms = timing and timing.median
        self.rows.append({"case": case, "impl": impl, "ms": ms, **more})


@pytest.fixture
def tried() -> Iterator[Callable[..., tuple[Any, Any, Any, Any]]]:
    """Runs cases in two checkouts; gives ratios, what is left out, rows, and what was asked."""

    def work(names: list[str], odd: dict[str, Any] | None = None, seconds: float = 1e3) -> Any:
        log: list[tuple[str, ...]] = []
        both = [
            Checkout(name, Path(), lambda name=name: Fake(name, log, odd or {})) for name in SPEED
        ]
        run = Run()
        ratios, left = compared(run, both, names, Clock(seconds), OPTIONS)
        return ratios, left, run.rows, log

    return work


def test_everything_is_compiled_before_anything_is_timed(tried: Any) -> None:
    *_, log = tried(["a", "b"])
    first = next(i for i, asked in enumerate(log) if asked[1] == "open")
    compiled = {asked for asked in log[:first] if asked[1] == "compile"}
    assert compiled == {(c, "compile", n) for c in SPEED for n in "ab"}
    assert not any(asked[1] == "compile" for asked in log[first:])


def test_checkouts_take_turns_soaked_and_measured_forward_and_backward(tried: Any) -> None:
    *_, log = tried(["a"])
    turns = [asked[0] for asked in log if asked[1] == "times"]
    assert turns == ["old", "old", "new", "new", "new", "new", "old", "old"]


def test_rows_have_the_ratio_to_the_first_checkout_and_their_own_commit(tried: Any) -> None:
    ratios, left, rows, _ = tried(["a"])
    assert ratios == {"a": {"old": 1.0, "new": 2.0}}
    assert not left.why
    assert [(r["commit"], r["ms"], r["ratio"]) for r in rows] == [("old", 2, 1), ("new", 1, 2)]


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        ({"old compile a": Problem("old", "no module conv")}, {"old": "no module conv"}),
        ({"new open a": Problem("new", "took over 60 s", over=True)}, {"new": "took over 60 s"}),
        ({"new open a": {"error": 0.5}}, {"new": "wrong: 5.0e-01"}),
        ({"new open a": {"error": float("nan")}}, {"new": "wrong: nan"}),
        ({"new open a": {"sample": [1.0, 2.1]}}, {"new": "not what the first checkout gives"}),
        (
            {f"{c} open a": {"exact": False, "sample": s}
             for c, s in (("old", [1.0]), ("new", [1.0, 2.0]))},
            {"new": "wrong: inf"},
        ),
    ],
)  # fmt: skip
def test_a_case_that_one_checkout_has_not_is_left_out_and_named(
    tried: Any, odd: dict[str, Any], why: dict[str, str]
) -> None:
    ratios, left, rows, _ = tried(["a", "b"], odd)
    assert list(ratios) == ["b"]
    assert left.why == {"a": why}
    assert {r["error_text"] for r in rows if r["ms"] is None} == set(why.values())
    assert f"left out: a: {next(iter(why))}" in summary(ratios, left)


def test_another_process_takes_the_place_of_one_that_hangs(tried: Any) -> None:
    odd = {"new open a": Problem("new", "took over 60 s", over=True)}
    *_, log = tried(["a", "b"], odd)
    timing = log[log.index(("new", "open", "a")) :]
    assert timing.index(("new", "end")) < timing.index(("new", "open", "b"))


def test_no_case_is_begun_without_time_for_it(tried: Any) -> None:
    ratios, left, *_ = tried(["a"], seconds=3)
    assert not ratios
    assert left.why == {"a": {"all": "no time was left"}}


def test_the_summary_names_what_differs(tried: Any) -> None:
    ratios, left, *_ = tried(["a", "b"])
    text = summary(ratios | {"c": {"old": 1.0, "new": 1.01}}, left)
    assert "3 cases, geometric mean 1.593x, least 1.010x (c), most 2.000x (a)" in text
    assert "2.000x b" in text
    assert "1.010x c" not in text


ECHO = """
import json, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    if asked["do"] == "hang":
        time.sleep(60)
    if asked["do"] == "end":
        break
    print(json.dumps({"found": asked} if asked["do"] == "say" else {"problem": "no"}), flush=True)
"""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    found = Process("it", [sys.executable, "-c", ECHO], os.environ, tmp_path / "log")
    yield found
    found.end()


def test_a_process_answers(process: Process) -> None:
    assert process.ask(10, "say", what="x") == {"do": "say", "what": "x"}
    with pytest.raises(Problem, match="no") as refused:
        process.ask(10, "refuse")
    assert not refused.value.over
    assert process.ask(10, "say")


def test_a_process_that_ends_or_hangs_is_over(process: Process) -> None:
    with pytest.raises(Problem, match=r"hang took over 0 s") as hung:
        process.ask(0.05, "hang")
    assert hung.value.over
    process.end()
    with pytest.raises(Problem, match=r"ended with -9 in say") as ended:
        process.ask(10, "say")
    assert ended.value.over
    assert ended.value.whose == "it"


def test_a_process_has_its_own_checkout_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the paths of this process have of another checkout does not come in between."""
    for name in ("this/src/tawa", "packages"):
        (tmp_path / name).mkdir(parents=True)
    there = os.pathsep.join(str(tmp_path / name) for name in ("this/src", "packages"))
    monkeypatch.setenv("PYTHONPATH", there)
    seen: list[Any] = []
    monkeypatch.setattr("checkouts.Process", lambda *given: seen.append(given))
    other = tmp_path / "other"
    other.mkdir()
    made = checkout(other, tmp_path, "cpu")
    made.start()
    paths = [f"{other}/src", f"{other}/tests/workloads", str(tmp_path / "packages")]
    assert seen[0][2]["PYTHONPATH"].split(os.pathsep) == paths
    assert made.name == "other"
    assert seen[0][2]["TAWA_CACHE_DIR"] == str(tmp_path / "cache-other")


def test_cases_take_the_benchmarks_not_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have an `attention`, and a checkout's own tests put its examples first."""
    pytest.importorskip("torch")
    from checkouts_cases import benchmark

    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    monkeypatch.delitem(sys.modules, "attention", raising=False)
    case = benchmark("attention").Case(64, 1024, False)
    assert case.row["heads"] == 16 * 32
