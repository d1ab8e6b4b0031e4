"""Values of which there is one object each, and what is found out of them once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import RLock
from typing import Any, ClassVar, Generic, Self, TypeVar, overload
from weakref import ref

T = TypeVar("T")

_making = RLock()
"""Held while an object takes another's place; another may end meanwhile, in the same thread."""


class Interned:
    """What its fields determine: two of them are equal if they are the same object.

    There is one as long as somebody holds it. The fields are those that `__match_args__` names.
    """

    __match_args__: ClassVar[tuple[str, ...]] = ()
    _objects: ClassVar[dict[Hashable, _Reference]]
    """The objects of this class, by their values."""

    def __init_subclass__(cls) -> None:
        cls._objects = {}

    def __new__(cls, *values: Hashable) -> Self:
        """The object of these values."""
        objects = cls._objects
        reference = objects.get(values)
        if reference is not None and (found := reference()) is not None:
            return found
        made = object.__new__(cls)
        state = made.__dict__
        for name, value in zip(cls.__match_args__, values, strict=True):
            state[name] = value
        made.prepare()
        reference = _Reference(made, _Reference.end)
        reference.values, reference.objects = values, objects
        first = objects.setdefault(values, reference)
        if first is reference:
            return made
        with _making:  # another thread was faster, or one that ended is not forgotten yet
            found = objects.setdefault(values, reference)()
            if found is None:
                objects[values] = reference
            return made if found is None else found

    def prepare(self) -> None:
        """Find out what is asked of every object."""

    def __getnewargs__(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__match_args__)


class _Reference(ref[Any]):
    """A weak reference to the object of some values."""

    __slots__ = ("objects", "values")
    values: Hashable
    objects: dict[Hashable, _Reference]

    def end(self, making: RLock = _making) -> None:
        """Forget the object, unless another one has taken its place."""
        with making:
            if self.objects.get(self.values) is self:
                del self.objects[self.values]


class once(Generic[T]):
    """A property that is computed when it is first asked for, and kept.

    `functools.cached_property` takes a lock for that up to Python 3.11, which costs more than what
    is computed here.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object, owner: type) -> Self | T:
        """The value; the instance has it as an attribute from now on."""
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.compute(instance)
        return value
