"""Which function of the front end gives a builtin of the language its meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tawa.language.builtin import Builtin

LOWERINGS: dict[Builtin, Callable[..., Any]] = {}
"""Builtin -> `lowering(compiler, **arguments)`, the arguments named as in its signature."""


def lowers(*builtins: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give builtins their meaning."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for builtin in builtins:
            assert isinstance(builtin, Builtin)
            LOWERINGS[builtin] = function
        return function

    return register
