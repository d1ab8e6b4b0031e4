"""Frozen dataclasses that are soon pickled: what is kept for other processes has thousands."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any

__all__ = ["Frozen"]


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _remade(kind: type[Frozen], values: tuple[Any, ...]) -> Frozen:
    made = object.__new__(kind)
    for name, value in zip(_names(kind), values, strict=True):
        object.__setattr__(made, name, value)
    return made


class Frozen:
    """Base of frozen dataclasses with slots: `dataclasses` pickles those field by field."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        kind = type(self)
        return _remade, (kind, tuple([getattr(self, name) for name in _names(kind)]))
