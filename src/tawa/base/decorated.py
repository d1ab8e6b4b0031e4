"""What decorators leave behind: tables that they enter functions in, and objects around functions.

Objects are Tawa's and Triton's, known by their shape.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Generic, TypeVar

K = TypeVar("K")
F = TypeVar("F")


class Registering(Generic[K]):
    """A decorator that enters what it decorates in a table, under each name that it is given."""

    def __init__(self, table: dict[K, Any]) -> None:
        self.table = table

    def __call__(self, *names: K) -> Callable[[F], F]:
        """The decorator for these names; a function keeps its type."""

        def register(function: F) -> F:
            for name in names:
                self.table[name] = function
            return function

        return register


def computed_while_compiling(value: Any) -> Any:
    """The Python function that `triton.constexpr_function` decorated; None for anything else."""
    kind: Any = value.__class__
    theirs = kind.__name__ == "ConstexprFunction" and kind.__module__.startswith("triton.")
    return value.fn if theirs else None


def inner(value: Any) -> Any:
    """What a decorator's object is around, its `fn`; None if `value` is no such object."""
    found = None if inspect.isclass(value) else getattr(value, "fn", None)
    return found if callable(found) else None


def layers(value: Any) -> list[Any]:
    """The objects around a Python function, outermost first; empty if `value` is none."""
    found: list[Any] = []
    while (within := inner(value)) is not None:
        found.append(value)
        value = within
    return found
