"""What users read of every decision, with nothing, one and several of all that it names."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from enum import Enum
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from tawa.base.source import Span
from tawa.ir import decisions
from tawa.ir.decisions.decision import Decision, Record

COUNTS = ("none", "one", "several")


def classes(base: type[Decision] = Decision) -> Iterator[type[Decision]]:
    """All that say something of their own."""
    for module in iter_modules(decisions.__path__):
        import_module(f"{decisions.__name__}.{module.name}")
    for found in base.__subclasses__():
        if found.sentence is not Decision.sentence and not found.__name__.startswith("_"):
            yield found
        yield from classes(found)


def sample(kind: Any, count: int, name: str) -> Any:
    """A value of a type: empty, with one, or with several of what it holds."""
    if get_origin(kind) in (Union, types.UnionType):
        chosen = [k for k in get_args(kind) if k is not type(None)]
        optional = len(chosen) < len(get_args(kind))
        return None if optional and not count else sample(chosen[0], count, name)
    if get_origin(kind) is Literal:
        return get_args(kind)[min(count, len(get_args(kind)) - 1)]
    if get_origin(kind) in (tuple, Sequence):
        parts = get_args(kind)
        if parts[-1] is Ellipsis:
            least = 0 if type(None) in get_args(parts[0]) else 1
            return tuple(sample(parts[0], n + least, f"{name}{n}") for n in range(count))
        return tuple(sample(part, count, name) for part in parts)
    if kind is Span:
        return Span("kernel.py", 10 + count, 1, 10 + count, 9)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return list(kind)[min(count, len(kind) - 1)]
    if isinstance(kind, type) and hasattr(kind, "__dataclass_fields__"):
        return made(kind, count)
    plain: dict[Any, Any] = {bool: count > 0, int: (0, 1, 48)[count], float: (0.0, 1.0, 2.5)[count],
                             str: f"<{name}>" if count else ""}  # fmt: skip
    return plain.get(kind)


def made(kind: type[Any], count: int) -> Any:
    hints = get_type_hints(kind)
    return kind(**{f.name: sample(hints[f.name], count, f.name) for f in fields(kind)})


@pytest.mark.parametrize("count", range(3), ids=COUNTS)
def test_sentences(count: int, golden: Callable[[str, str], None]):
    found = sorted(set(classes()), key=lambda kind: (kind.__module__, kind.__name__))
    lines = [f"{kind.__name__}\n  {made(kind, count)}" for kind in found]
    golden("\n".join(lines) + "\n", "txt")


def test_records_are_values():
    """What is compared and kept as JSON is equal if its parts are."""
    for kind in set(classes()):
        assert issubclass(kind, Record)
        one, two = made(kind, 1), made(kind, 2)
        assert one == made(kind, 1)
        assert one != two
