"""Scalar functions written once, in a small part of Python, and used three ways.

A function marked `@native` runs as ordinary Python (the reference), and is translated to the core,
from which both back ends make their text. The part of Python it may use: parameters and results
annotated `float`, `int`, `bool`, `FloatVector`, `IntVector` (vectors of the language), `Floats`,
`Ints` (raw arrays) and `Context`; assignment, `if`, `while`, `for ... in range` (or
`apart`), `break`, `continue`, `return`; arithmetic, comparison, `and`/`or`/`not`, conditional
expressions; calls of other natives and of the primitives in `numeric/primitives.py`; module
constants.

Integers are 64-bit and wrap; a native must not rely on larger ones.
"""

from __future__ import annotations

from tawa.cuppl.core.ir import Function, Program
from tawa.cuppl.translation.kept_natives import kept_native, note_native
from tawa.cuppl.translation.registry import (
    EXTERNAL,
    INLINED,
    NATIVES,
    OUTLINED,
    VECTORISED,
    external,
    inlined,
    native,
    outlined,
    vectorised,
)
from tawa.cuppl.translation.translator import Translator

__all__ = [
    "EXTERNAL", "NATIVES", "VECTORISED", "external", "inlined", "link", "native", "outlined",
    "translate", "vectorised",
]  # fmt: skip

_translated: dict[str, Function] = {}


def link(program: Program) -> None:
    """Add the natives that a program calls, and those that they call."""
    pending = sorted({c for f in program.functions.values() for c in f.callees()})
    while pending:
        name = pending.pop()
        if name in EXTERNAL and name not in program.functions:
            raise KeyError(f"the program must define {name}")
        if name not in program.functions:
            function = translate(name)
            program.add(function)
            pending.extend(function.callees())


def translate(name: str) -> Function:
    """The core of a native (translated once a process)."""
    if name not in _translated:
        if name not in NATIVES:
            raise KeyError(f"no native is called {name}")
        _translated[name] = kept_native(name) or _translate_now(name)
    return _translated[name]


def _translate_now(name: str) -> Function:
    function = Translator(name, NATIVES[name]).run()
    function.outlined = name in OUTLINED
    function.inline = name in INLINED or (function.inline and not function.outlined)
    note_native(function)
    return function
