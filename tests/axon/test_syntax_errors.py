"""What the messages say to newcomers' syntax: the place, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.axon.syntax_slips import SLIPS

from tawa.axon.typing.language import axon
from tawa.base.errors import TawaError


def message(name: str) -> str:
    with pytest.raises(TawaError) as raised:
        axon().check(SLIPS[name], "program.ax")
    assert raised.value.span is not None
    return raised.value.render()


def test_messages(golden: Callable[[str, str], None]):
    golden("\n".join(f"# {name}\n{message(name)}" for name in SLIPS), "txt")


@pytest.mark.parametrize("name", SLIPS)
def test_a_message_is_short_and_names_no_terminals(name: str):
    text = message(name)
    assert "__anon" not in text.lower()
    expected = [line for line in text.splitlines() if line.startswith("  expected:")]
    assert all(line.count(",") < 13 for line in expected)
