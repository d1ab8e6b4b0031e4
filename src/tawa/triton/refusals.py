"""Errors of ours that are Triton's too: programs that catch Triton's catch what Tawa refuses."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from tawa.base.errors import TawaError


def as_triton(error: Exception) -> Exception:
    """The same error, from now on also one of Triton's class for what cannot be compiled.

    Its cause says what is wrong without the place, as that of Triton's error does.
    """
    if isinstance(error, TawaError):
        error.__class__ = _both(type(error))
        if error.__cause__ is None:
            error.__cause__ = ValueError(error.message)
    return error


@cache
def _both(own: type[TawaError]) -> type[TawaError]:
    """A class of errors that is one of ours and the one of Triton's that says the same."""
    name = "OutOfResources" if own.__name__ == "SharedMemoryExceeded" else "CompilationError"
    theirs: Any = getattr(import_module("triton"), name, None)
    if theirs is None or issubclass(own, theirs):
        return own
    kept = {"__module__": own.__module__, "__doc__": own.__doc__, "__reduce__": own.__reduce__}
    return type(own.__name__, (own, theirs), kept, group=True)
