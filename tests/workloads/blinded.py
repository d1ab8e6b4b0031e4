"""Compilation without any text: printing is an error, and users get no remarks and no stages."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer

from tawa.driver import compilation
from tawa.ir.decisions import decision


def refuse(*_given: object, **_more: object) -> str:
    """Instead of printing."""
    raise AssertionError("a choice is made by what is printed")


@contextmanager
def blinded() -> Generator[None]:
    """Nothing inside can be chosen by what is printed."""
    changes: list[tuple[object, str, Callable[..., object]]] = [
        (Printer, "print_op", refuse),
        (ModuleOp, "__str__", refuse),
        (decision.Decision, "__str__", refuse),
        (decision, "remarks", lambda _made: ()),
        (compilation, "text_of", lambda stage, _kept=None: stage if isinstance(stage, str) else ""),
    ]
    with ExitStack() as poisoned:
        for where, name, instead in changes:
            poisoned.enter_context(patch.object(where, name, instead))
        yield
