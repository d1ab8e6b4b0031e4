"""How the prelude's operators are expressed in primitive nodes: one rule each.

A rule takes the tape, the arguments as nodes, and the static arguments by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Rule = Callable[..., Any]

RULES: dict[str, Rule] = {}
"""The rule of each operator, by its name in the prelude."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule."""

    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return register
