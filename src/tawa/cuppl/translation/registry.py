"""The functions that are marked as natives, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = [
    "EXTERNAL",
    "INLINED",
    "NATIVES",
    "OUTLINED",
    "VECTORISED",
    "external",
    "inlined",
    "native",
    "outlined",
    "vectorised",
]

Fn = TypeVar("Fn", bound=Callable[..., object])

NATIVES: dict[str, Callable[..., object]] = {}
"""Every native, by name."""

EXTERNAL: set[str] = set()
"""Those that the compiled program defines."""


OUTLINED: set[str] = set()
"""Those that are better called than inlined."""


def outlined(function: Fn) -> Fn:
    """Say of a native that it is rarely called, and long: it should not be inlined on a CPU."""
    OUTLINED.add(function.__name__)
    return function


VECTORISED: set[str] = set()
"""Those with loops that LLVM should make vector instructions of."""


def vectorised(function: Fn) -> Fn:
    """Say of a native that it is worth LLVM's whole optimiser, which takes five times as long."""
    VECTORISED.add(function.__name__)
    return function


INLINED: set[str] = set()
"""Those that are inlined however long they are."""


def inlined(function: Fn) -> Fn:
    """Say of a native that it should be inlined wherever it is called."""
    INLINED.add(function.__name__)
    return function


def external(function: Fn) -> Fn:
    """Declare a function of the compiled program that natives may call.

    It is defined only in the program; in plain Python it can't be called.
    """
    NATIVES[function.__name__] = function
    EXTERNAL.add(function.__name__)
    return function


def native(function: Fn) -> Fn:
    """Register a function for translation; it stays callable as Python.

    Raises ValueError if another native has its name.
    """
    name = function.__name__
    if name in NATIVES:
        raise ValueError(f"native {name} is defined twice")
    NATIVES[name] = function
    return function
