"""Decorators' objects around Python functions: Tawa's and Triton's, known by their shape."""

from __future__ import annotations

import inspect
from typing import Any


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
