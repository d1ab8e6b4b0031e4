"""Which candidates no measurement speaks for: they are shown, and not taken."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tawa.driver.choice.choose import unproven


def loop(*, turned: int = 0, **holds: bool) -> Any:
    """What is asked of a loop."""
    named = {name: holds.get(name, False) for name in ("makes", "feeds", "gathers")}
    return SimpleNamespace(**named, body=SimpleNamespace(turned=turned))


PLAIN, MAKES, TURNED, FEEDS = loop(), loop(makes=True), loop(turned=64), loop(feeds=True)
GATHERS = loop(gathers=True)


@pytest.mark.parametrize(
    ("loops", "options", "found"),
    [
        ([PLAIN], {}, False), ([PLAIN], {"persistent": True}, False),
        ([PLAIN], {"consumers": 1}, True), ([], {"consumers": 1}, True),
        ([MAKES], {"consumers": 1}, False), ([TURNED], {"consumers": 1}, False),
        ([FEEDS], {"consumers": 1}, False), ([PLAIN, MAKES], {"consumers": 1}, False),
        ([MAKES], {"consumers": 1, "num_stages": 3}, True),
        ([MAKES], {"consumers": 1, "persistent": True}, True),
        ([FEEDS], {"consumers": 1, "ctas_per_sm": 2}, True),
        ([PLAIN], {"ctas_per_sm": 2}, True), ([MAKES], {"ctas_per_sm": 2}, True),
        ([GATHERS], {"consumers": 1}, True), ([GATHERS], {"ctas_per_sm": 2}, False),
        ([GATHERS], {"consumers": 1, "persistent": True}, True),
        ([FEEDS], {"ctas_per_sm": 2}, False), ([FEEDS], {"ctas_per_sm": 2, "num_stages": 2}, False),
    ],
)  # fmt: skip
def test_what_measurements_speak_for(loops: list[Any], options: dict[str, Any], found: bool):
    profile: Any = SimpleNamespace(loops=loops)
    prediction: Any = SimpleNamespace(candidate=SimpleNamespace(options=tuple(options.items())))
    assert unproven(profile, prediction) is found
