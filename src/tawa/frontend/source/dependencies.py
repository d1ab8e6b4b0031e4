"""What a kernel's meaning depends on: its own text, and that of everything it names."""

from __future__ import annotations

import types
from typing import Any

from tawa.frontend.source.function import JITFunction, is_jit_function


def dependency_text(fn: JITFunction) -> str:
    """A text that changes whenever the kernel, a function it calls or a global it reads changes."""
    parts: list[str] = []
    seen: set[int] = set()
    _visit(fn, parts, seen)
    return "\n".join(parts)


def _visit(fn: JITFunction, parts: list[str], seen: set[int]) -> None:
    if id(fn.fn) in seen:
        return
    seen.add(id(fn.fn))
    source = fn.source
    parts.append(f"{source.file}:{source.first_line}\n{source.text}")
    namespace = fn.namespace
    for name in _names(fn.fn.__code__):
        if name in namespace:
            _value(name, namespace[name], parts, seen)


def _names(code: types.CodeType) -> list[str]:
    return sorted({*code.co_names, *code.co_freevars})


def _value(name: str, value: Any, parts: list[str], seen: set[int]) -> None:
    if is_jit_function(value):
        _visit(value if isinstance(value, JITFunction) else JITFunction(value), parts, seen)
    elif isinstance(value, types.ModuleType):
        parts.append(f"{name} = module {value.__name__}")
    else:
        parts.append(f"{name} = {getattr(value, 'value', value)!r}")
