"""What an attempt with less room leaves out, of the passes over roles."""

from __future__ import annotations

from typing import Any

import pytest

from tawa.base.attempts import ATTEMPTS, NO_SLACK, Slack
from tawa.base.options import Options
from tawa.driver.pipeline import roles
from tawa.ir.decisions.decision import Decisions

ROOMY = {"conversions", "register-prefetch", "resident-operands"}


def enabled(slack: Slack) -> set[str]:
    steps: list[Any] = roles(Options(), Decisions(), slack)
    return {step.name for step in steps if getattr(step, "enabled", False)}


@pytest.mark.parametrize(
    ("slack", "expected"),
    [
        (NO_SLACK, ROOMY), (Slack(stages=3), ROOMY), (Slack(stages=1), set()),
        (Slack(stages=0), set()), (Slack(registers=8), set()), (Slack(bytes=1024), ROOMY),
        (Slack(narrow=True), ROOMY), (Slack(registers=8, stages=1), set()),
    ],
)  # fmt: skip
def test_passes_that_take_registers_need_room(slack: Slack, expected: set[str]):
    assert enabled(slack) == expected


def test_the_first_attempt_has_room_and_the_last_has_none():
    assert enabled(ATTEMPTS[0]) == ROOMY
    assert not enabled(ATTEMPTS[-1])


def test_an_attempt_tells_what_it_leaves_free():
    assert str(NO_SLACK) == "0 registers to spare, 2 stages"
    whole = Slack(registers=16, stages=1, narrow=True, joined=False)
    assert (
        str(whole) == "16 registers to spare, 1 stages, few registers for loads, tiles one by one"
    )
