"""Variables that a loop's body ends without: the next iteration can't begin with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tawa.frontend.source.errors import UndefinedName

TEXT = """
def kernel(out, n, LEAVE: tl.constexpr):
    at = tl.program_id(0)
    total = 0
    OUTER:
        BODY
    tl.store(out, total)
"""
BODIES = {
    "a counter": "for at in range(3):\n            total += at",
    "of a loop that is left": (
        "for at in range(n):\n            if at == LEAVE:\n                break\n"
        "            total += at"
    ),
    "of an unrolled loop": "for at in tl.static_range(4):\n            total += at",
    "set before": (
        "at = turn * 2\n        while at > 0:\n            at -= 1\n            total += 1\n"
        "        for at in range(2):\n            total += at"
    ),
    "on one side": (
        "if turn > 1:\n            for at in range(3):\n                total += at + 1\n"
        "        total += 1"
    ),
    "two loops": (
        "for at in range(2):\n            for at in range(n):\n                total += at"
    ),
    "set again": "for at in range(3):\n            total += at\n        at = total + 1",
}
LOOPS = {
    "for": "for turn in range(n)", "left": "for turn in range(n + 1)",
    "while": "turn = -1\n    while turn < n - 1",
}  # fmt: skip


@pytest.mark.parametrize("outer", LOOPS)
@pytest.mark.parametrize("body", BODIES)
def test_as_in_python(launch: Any, define: Any, body: str, outer: str) -> None:
    first = {"while": "turn += 1\n        ", "left": "if turn == n:\n            break\n        "}
    text = TEXT.replace("OUTER", LOOPS[outer]).replace("BODY", first.get(outer, "") + BODIES[body])
    for n in (0, 1, 5):
        out, told = np.zeros(1, np.int32), list[int]()
        launch(define(text), (1,), out, n, LEAVE=3)
        run: dict[str, Any] = {"tl": Python(told)}
        exec(text, run)
        run["kernel"](out, n, 3)
        assert [int(out[0])] == told


class Python:
    """What stands for the language where the kernel runs as a Python function."""

    constexpr = int
    static_range = range

    def __init__(self, told: list[int]) -> None:
        self.told = told

    def program_id(self, axis: int) -> int:
        """The first program."""
        return axis

    def store(self, out: Any, value: int) -> None:
        """Keep what is stored."""
        self.told.append(value)


READ_FIRST = """
def kernel(out, n, LEAVE: tl.constexpr):
    at = n * 2
    total = 0
    for _ in range(n):
        total += at
        for at in range(3):
            total += at
    tl.store(out, total)
"""


def test_what_is_read_before_has_no_value(launch: Any, define: Any) -> None:
    with pytest.raises(UndefinedName, match="counts a loop that is over"):
        launch(define(READ_FIRST), (1,), np.zeros(1, np.int32), 3, LEAVE=0)


def test_a_loop_that_is_left_out_keeps_the_variable(launch: Any, define: Any) -> None:
    text = READ_FIRST.replace("for at in range(3):", "if LEAVE:\n          for at in range(3):")
    text = text.replace("            total += at\n    tl", "             total += at\n    tl")
    out = np.zeros(1, np.int32)
    launch(define(text), (1,), out, 3, LEAVE=0)
    assert out[0] == 18
