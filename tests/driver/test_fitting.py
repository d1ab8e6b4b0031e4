"""Kernels fitted to launches: for which sizes, by what candidates, and which variants there are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tawa.base.options import Options
from tawa.driver import fitting
from tawa.driver.choice.profile import Sizes
from tawa.driver.fitting import Fitting


def fit(
    groups: int | None = 1, asked: dict[str, Any] | None = None, names: Any = ("x", "n", "m")
) -> Any:
    """A kernel of an array and two numbers, whose program has so many groups that multiply."""
    made = Fitting(None, {"x": "*f16", "n": "i32", "m": "i32"}, {}, Options(), asked or {},  # type: ignore[arg-type]
                   names, lambda options: ("compiled", options.num_stages))  # type: ignore[arg-type,return-value]  # fmt: skip
    profile = None if groups is None else SimpleNamespace(groups=groups)
    made.__dict__["_profile"] = profile
    return made


@pytest.mark.parametrize(
    ("grid", "named", "found"),
    [
        (None, {"x": 0, "n": 5, "m": 6}, None),
        ((3, 2), {"x": 0, "n": 5, "m": 6}, Sizes((3, 2, 1), (("n", 6), ("m", 6)))),
        (lambda named: (named["n"],), {"x": 0, "n": 5, "m": 6}, Sizes((5, 1, 1), (("n", 6), ("m", 6)))),
        ((3,), {"x": 0, "n": True, "m": 6}, Sizes((3, 1, 1), (("m", 6),))),
        ((3,), {"x": 0, "n": 1.5, "m": None}, Sizes((3, 1, 1), ())),
    ],
)  # fmt: skip
def test_sizes_of_a_launch(grid: Any, named: dict[str, Any], found: Sizes | None) -> None:
    """The grid, and whole numbers that are no constants, rounded."""
    made = fit()
    if named["x"] == 0:
        named["x"] = "an array"
    assert made.sizes(grid, named) == found
    made.types.pop("m")
    if found is not None:
        assert "m" not in dict(made.sizes(grid, named).numbers)


@pytest.mark.parametrize(
    ("groups", "asked", "varies"),
    [(1, {}, True), (2, {}, True), (0, {}, False), (None, {}, False)],
)
def test_what_may_vary(groups: int | None, asked: dict[str, Any], varies: bool) -> None:
    """Kernels with products whose options are open."""
    made = fit(groups, asked)
    assert made.may_vary is varies
    sizes = Sizes((4, 1, 1), (("n", 6),))
    if not varies:
        assert made.rank(sizes) is None
        assert made.fitted(sizes).compiled == ("compiled", Options().num_stages)
        assert made.variants(made.fitted(sizes), sizes, lambda compiled: None, bool) is None


def test_options_that_are_given_are_demands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "is_open", lambda asked: not asked)
    assert fit(1, {}).may_vary
    assert not fit(1, {"consumers": 2}).may_vary


def test_candidates_are_ranked_for_the_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for: list[Any] = []

    def ranking(profile: Any, sizes: Any, asked: Any, chip: Any) -> str:
        asked_for.append((profile.groups, sizes, chip.name))
        return f"ranked {sizes.grid}"

    monkeypatch.setattr(fitting, "ranking", ranking)
    monkeypatch.setattr(
        fitting, "fitted", lambda ranked, compile_: (ranked, compile_((("num_stages", 3),)))
    )
    made = fit(2)
    sizes = Sizes((4, 1, 1), (("n", 6), ("m", 8)))
    assert made.fitted(None).compiled == ("compiled", Options().num_stages)
    assert asked_for == []
    made.__dict__["_refusals"] = SimpleNamespace(
        compiled=lambda options, compile_: compile_(options)
    )
    assert made.fitted(sizes) == ("ranked (4, 1, 1)", ("compiled", 3))
    assert asked_for == [(2, sizes, fitting.chip(Options().chip).name)]
    assert made._compiled(()) == ("compiled", Options().num_stages)
    first = SimpleNamespace(compiled="first", options=(("num_stages", 3),))
    assert made.variants(first, None, len, bool) is None
    found = made.variants(first, sizes, lambda compiled: f"launch of {compiled}", bool)
    assert (found.names, found.places) == (("n", "m"), (1, 2))
    assert found.current.compiled == "first"
    assert found.found == {first.options: found.current}
    assert found.rank(sizes) == "ranked (4, 1, 1)"
    loaded = found.load((("num_stages", 2),))
    assert (loaded.compiled, loaded.launch) == (("compiled", 2), "launch of ('compiled', 2)")
