"""A kernel's variants: which of them a launch takes, and what is compiled beside the launches."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from tests.work import calls_made

from tawa.driver import variants
from tawa.driver.choice.choose import Ranking
from tawa.driver.choice.profile import Sizes
from tawa.driver.variants import MOST, Loaded, Variants

WRITTEN, TALL, WIDE, LONG = (), (("tall", 1),), (("wide", 1),), (("long", 1),)


def prediction(options: Any, microseconds: float) -> Any:
    candidate = SimpleNamespace(options=options, __str__=lambda: str(options))
    return SimpleNamespace(candidate=candidate, microseconds=microseconds, warps=4)


@dataclass
class Kernel:
    """A kernel whose candidates take what it is told, and notes what is done with it."""

    times: dict[Any, float]
    gain: float = 0.1
    apart: dict[Any, tuple[Any, ...]] = field(default_factory=dict)
    fails: Any = None
    spills: dict[Any, tuple[str, ...]] = field(default_factory=dict)
    built: list[Any] = field(default_factory=list)
    launched: list[Any] = field(default_factory=list)
    ranked: list[Sizes] = field(default_factory=list)
    captured: bool = False
    gate: threading.Event = field(default_factory=threading.Event)

    def rank(self, sizes: Sizes) -> Ranking:
        self.ranked.append(sizes)
        predictions = [prediction(options, time) for options, time in self.times.items()]
        rest = sorted(predictions[1:], key=lambda p: p.microseconds)
        better = [p for p in rest if p.microseconds < predictions[0].microseconds]
        others = [p for p in rest if p not in better]
        return Ranking(predictions[0], tuple(better), tuple(others))

    def build(self, key: Any) -> Any:
        """What a compilation gives; as written it is at hand."""
        if key != WRITTEN:
            self.gate.wait(5)
            self.built.append(key)
        if key == self.fails:
            raise ValueError("no room")
        return SimpleNamespace(findings=self.spills.get(key, ()))

    def load(self, key: Any) -> Any:
        spec = SimpleNamespace(apart=self.apart.get(key, ()))
        note = lambda grid, values, stream: self.launched.append((key, grid, values, stream))  # noqa: E731
        return Loaded(SimpleNamespace(spec=spec), note)  # pyright: ignore

    def variants(self, names: tuple[str, ...] = ("n",), places: tuple[int, ...] = (1,)) -> Variants:
        first = self.load(WRITTEN)
        return Variants(
            names, places, self.rank, self.build, self.load, lambda stream: self.captured,
            first, {WRITTEN: first}, self.gain,
        )  # fmt: skip

    @property
    def taken(self) -> Any:
        return self.launched[-1][0]


@pytest.fixture(autouse=True)
def order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tawa.driver.choice.choose._order", lambda p: p.microseconds)


def compiled(kernel: Kernel, **places: Any) -> Variants:
    """After a launch, and what it asked for."""
    made = kernel.variants(**places)
    kernel.gate.set()
    made.launch((1,), ("x", 100), 0)
    made.settle()
    return made


def test_no_launch_waits_and_the_next_takes_the_better_one():
    kernel = Kernel({WRITTEN: 10.0, TALL: 5.0})
    made = kernel.variants()
    made.launch((4,), ("x", 100), 7)
    assert kernel.launched == [(WRITTEN, (4,), ("x", 100), 7)]
    assert kernel.built == []
    kernel.gate.set()
    made.settle()
    made.launch((4,), ("x", 100), 7)
    assert kernel.built == [TALL]
    assert kernel.taken == TALL
    assert made.first.launch is not made.current.launch


@pytest.mark.parametrize(("time", "asked"), [(9.0, True), (9.01, False), (11.0, False)])
def test_a_variant_has_to_gain_enough(time: float, asked: bool):
    kernel = Kernel({WRITTEN: 10.0, TALL: time})
    compiled(kernel)
    assert kernel.built == ([TALL] if asked else [])


def test_a_size_is_ranked_once_and_looked_at_once():
    kernel = Kernel({WRITTEN: 10.0})
    made = compiled(kernel)
    made.launch((1,), ("y", 100), 0)
    assert made._last == ((1,), 100)
    made.launch((1,), ("y", 200), 0)
    made.launch((1,), ("y", 100), 0)
    made.launch([2], ("y", 100), 0)
    assert [(s.grid, s.numbers) for s in kernel.ranked] == [
        ((1, 1, 1), (("n", 128),)), ((1, 1, 1), (("n", 256),)), ((2, 1, 1), (("n", 128),))
    ]  # fmt: skip


def test_a_launch_does_no_more_while_a_variant_is_coming(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(variants, "IN_USE", 0.0)
    alone, beside = Kernel({WRITTEN: 10.0}), Kernel({WRITTEN: 10.0, TALL: 5.0})
    plain, made = alone.variants(), beside.variants()
    for variants_ in (plain, made, plain, made):
        variants_.launch((1,), ("x", 100), 0)
    again = calls_made(lambda: made.launch((1,), ("x", 100), 0))  # not asked for a second time
    assert again == calls_made(lambda: plain.launch((1,), ("x", 100), 0))
    beside.gate.set()
    made.settle()
    made.launch((1,), ("x", 100), 0)
    assert beside.built == [TALL]
    assert beside.taken == TALL


def test_what_is_tried_for_a_moment_is_not_compiled(monkeypatch: pytest.MonkeyPatch):
    """A tuner launches each of its configurations for less than `IN_USE`."""
    now = [100.0]
    monkeypatch.setattr("tawa.driver.variants.time.monotonic", lambda: now[0])
    kernel = Kernel({WRITTEN: 10.0, TALL: 5.0})
    kernel.gate.set()
    made = kernel.variants()
    for _ in range(1000):
        made.launch((1,), ("x", 100), 0)
        now[0] += variants.IN_USE / 1001
    assert kernel.built == []
    assert made._coming == {}
    now[0] = 101.0
    made.launch((1,), ("x", 100), 0)
    made.settle()
    made.launch((1,), ("x", 100), 0)
    assert kernel.built == [TALL]
    assert kernel.taken == TALL


def test_all_that_was_asked_for_is_compiled_to_measure():
    kernel = Kernel({WRITTEN: 10.0, TALL: 5.0})
    kernel.gate.set()
    made = kernel.variants()
    made.launch((1,), ("x", 100), 0)
    variants.settle()
    made.launch((1,), ("x", 100), 0)
    assert kernel.taken == TALL


def test_launches_that_take_turns_are_ranked_and_compared_once():
    kernel = Kernel({WRITTEN: 10.0, TALL: 5.0})
    made = compiled(kernel)
    for number in (100, 5000, 100):
        made.launch((1,), ("x", number), 0)
    once = calls_made(lambda: made.launch((1,), ("x", 100), 0))
    other = calls_made(lambda: made.launch((1,), ("x", 5000), 0))
    assert other <= once + 6  # a call of _turn, and the look into what was taken


def test_several_numbers_are_told_by_name_and_none_is_nothing():
    kernel = Kernel({WRITTEN: 1.0})
    kernel.variants(names=("k", "n"), places=(1, 0)).launch((1,), (64, 32), 0)
    kernel.variants(names=(), places=()).launch((1,), ("x",), 0)
    assert [s.numbers for s in kernel.ranked] == [(("k", 32), ("n", 64)), ()]


def test_captured_launches_load_nothing():
    kernel = Kernel({WRITTEN: 10.0, TALL: 5.0})
    made = compiled(kernel)
    kernel.captured = True
    made.launch((1,), ("x", 100), 0)
    assert kernel.taken == WRITTEN
    kernel.captured = False
    made.launch((1,), ("x", 100), 0)
    assert kernel.taken == TALL


def test_what_does_not_compile_is_not_asked_for_again():
    kernel = Kernel({WRITTEN: 10.0, TALL: 5.0, WIDE: 7.0}, fails=TALL)
    made = compiled(kernel)
    for _ in range(3):
        made.launch((1,), ("x", 100), 0)
        made.settle()
    assert kernel.built == [TALL, WIDE]
    assert kernel.taken == WIDE


@pytest.mark.parametrize("written", [(), ("spills",)])
def test_what_spills_is_taken_only_where_all_do(written: tuple[str, ...]):
    kernel = Kernel({WRITTEN: 10.0, TALL: 5.0}, spills={TALL: ("spills",), WRITTEN: written})
    made = compiled(kernel)
    made.launch((1,), ("x", 100), 0)
    assert kernel.taken == (TALL if written else WRITTEN)


def test_what_would_have_to_be_looked_at_is_refused():
    kernel = Kernel({WRITTEN: 10.0, TALL: 5.0}, apart={TALL: (("x", "y"),)})
    made = compiled(kernel)
    made.launch((1,), ("x", 100), 0)
    assert kernel.taken == WRITTEN
    assert made.found.keys() == {WRITTEN}
    fewer = Kernel({WRITTEN: 10.0, TALL: 5.0}, apart={WRITTEN: (("x", "y"),)})
    made = compiled(fewer)
    made.launch((1,), ("x", 100), 0)
    assert fewer.taken == TALL


def test_a_kernel_has_few_variants():
    kernel = Kernel({WRITTEN: 10.0, TALL: 8.0, WIDE: 6.0, LONG: 4.0})
    made = compiled(kernel)
    for number, fast in enumerate((TALL, WIDE, LONG)):
        kernel.times = {**dict.fromkeys(kernel.times, 10.0), fast: 1.0}
        made.launch((1,), ("x", 1000 << number), 0)
        made.settle()
        made.launch((1,), ("x", 1000 << number), 0)
    assert len(made.found) == MOST
    assert kernel.built == [LONG, TALL]


def test_the_nearest_of_those_at_hand_is_taken():
    kernel = Kernel({WRITTEN: 10.0, TALL: 5.0})
    made = compiled(kernel)
    made.launch((1,), ("x", 100), 0)
    kernel.times = {WRITTEN: 3.0, TALL: 9.0}
    made.launch((1,), ("x", 5000), 0)
    assert kernel.taken == WRITTEN
    kernel.times = {WIDE: 1.0}  # what is at hand was not looked at
    made.launch((1,), ("x", 9000), 0)
    assert kernel.taken == WRITTEN
    assert kernel.built == [TALL]


def test_few_sizes_are_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(variants, "MOST_SIZES", 2)
    kernel = Kernel({WRITTEN: 10.0})
    made = compiled(kernel)
    for number in (1000, 100, 4000, 100):
        made.launch((1,), ("x", number), 0)
    assert [s.numbers[0][1] for s in kernel.ranked] == [128, 1024, 4096, 128]
