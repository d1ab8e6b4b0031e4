"""Values of which there is one object each, as long as somebody holds it."""

from __future__ import annotations

from collections.abc import Hashable
from threading import RLock
from typing import Any, Self
from weakref import ref

_interned: dict[Hashable, _Reference] = {}
_making = RLock()
"""Held while an object is made; another may end meanwhile, in the same thread."""


class Interned:
    """What is determined by its `terms`: two of them are equal if they are the same object.

    One class derives from it.
    """

    terms: Any

    def __new__(cls, terms: Hashable) -> Self:
        """The object of these terms."""
        reference = _interned.get(terms)
        found = None if reference is None else reference()
        return cls._made(terms) if found is None else found

    @classmethod
    def _made(cls, terms: Hashable) -> Self:
        with _making:
            reference = _interned.get(terms)
            found = None if reference is None else reference()
            if found is None:
                found = object.__new__(cls)
                object.__setattr__(found, "terms", terms)
                reference = _interned[terms] = _Reference(found, _Reference.end)
                reference.terms = terms
            return found

    def __getnewargs__(self) -> tuple[object, ...]:
        return (self.terms,)


class _Reference(ref[Any]):
    """A weak reference to the object of some terms."""

    __slots__ = ("terms",)
    terms: Hashable

    def end(self, interned: dict[Hashable, Any] = _interned, making: RLock = _making) -> None:
        """Forget the object, unless another one has taken its place."""
        with making:
            if interned.get(self.terms) is self:
                del interned[self.terms]
