"""Ill-shaped programs: each message names both shapes, and all places that are to blame."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from tests.axon.ill_shaped import ILL_SHAPED

from tawa.axon.typing.language import axon
from tawa.base.errors import TawaError
from tawa.functional.mismatch import neighbourhoods
from tawa.functional.solver import Clash, Entry, smallest_conflict


def message(name: str) -> str:
    with pytest.raises(TawaError) as raised:
        axon().check(ILL_SHAPED[name] + "\n", "program.ax")
    return raised.value.render() + "\n"


def test_there_are_fifty():
    assert len(ILL_SHAPED) >= 50


@pytest.mark.parametrize("name", ILL_SHAPED)
def test_message(name: str, golden: Callable[[str, str], None]):
    text = message(name)
    golden(text, "txt")
    assert len(set(re.findall(r"program\.ax:\d+:\d+", text))) >= 1
    assert re.search(r"does not fit|wrong type", text)


def test_all_but_one_name_at_least_two_places():
    single = [
        name
        for name in ILL_SHAPED
        if len(re.findall(r"program\.ax:\d+:\d+|\(line \d+, column ", message(name))) < 2
    ]
    assert single == ["argument of a function of functions"]


@pytest.mark.parametrize("name", ["chain of layers", "odd skip connection", "branches"])
def test_the_set_of_places_is_smallest(name: str):
    language = axon()
    module = language.parse(ILL_SHAPED[name], "program.ax")
    inference = language.inference(language.solver(), dict(language.built_ins))
    with pytest.raises(TawaError):
        inference.module(module)

    def fails(entries: list[Entry]) -> bool:
        return isinstance(inference.solver.replayed(entries), Clash)

    whole = neighbourhoods(inference.solver.log)[-1]
    found = smallest_conflict(whole, fails)
    assert fails(found)
    for left_out in found:
        assert not fails([entry for entry in found if entry is not left_out])
