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
    _objects: ClassVar[dict[int, Reference]]
    """The objects of this class, by the hashes of their values: long values are hashed once."""
    _end: ClassVar[Callable[[Reference], None]]
    """What is called when one of them ends."""

    def __init_subclass__(cls) -> None:
        cls._objects = {}
        cls._end = staticmethod(_forgetting(cls._objects))

    def __new__(cls, *values: Hashable) -> Self:
        """The object of these values."""
        key = hash(values)
        found = cls.known(key, values)
        if found is not None:
            return found
        made = object.__new__(cls)
        state = made.__dict__
        for name, value in zip(cls.__match_args__, values, strict=True):
            state[name] = value
        made.prepare()
        return cls.kept(key, values, made)

    @classmethod
    def known(cls, key: int, values: tuple[Hashable, ...]) -> Self | None:
        """The object of these values, of which this is the hash, if there is one."""
        entry = cls._objects.get(key)
        while entry is not None:
            if entry.values == values and (found := entry()) is not None:
                return found
            entry = entry.next
        return None

    @classmethod
    def kept(cls, key: int, values: tuple[Hashable, ...], made: Self) -> Self:
        """The new object of these values; another thread's, if that has made it first."""
        entry = Reference(made, cls._end)
        entry.values, entry.key, entry.next = values, key, None
        return made if cls._objects.setdefault(key, entry) is entry else cls.linked(made, entry)

    @classmethod
    def linked(cls, made: Self, entry: Reference) -> Self:
        """An object beside those of the same hash: another thread's, if that has made it first."""
        with _making:
            first = other = cls._objects.setdefault(entry.key, entry)
            if first is entry:
                return made
            while other is not None:
                if other.values == entry.values and (found := other()) is not None:
                    return found
                other = other.next
            entry.next, first.next = first.next, entry
            return made

    def prepare(self) -> None:
        """Find out what is asked of every object."""

    def __getnewargs__(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__match_args__)

    def __getstate__(self) -> None:
        """Nothing else is written to files: it is found out again."""


def kept_at(holder: Interned, name: str, made: T) -> T:
    """What a holder knows by a name as long as somebody holds it: this if that is nothing yet."""
    state = holder.__dict__
    reference = ref(made)
    found = state.setdefault(name, reference)()
    if found is not None:
        return found
    with _making:
        found = state[name]()
        if found is None:
            state[name] = reference
        return made if found is None else found


class Reference(ref[Any]):
    """A weak reference to the object of some values, in a list of those whose hash is the same."""

    __slots__ = ("key", "next", "values")
    key: int
    next: Reference | None
    values: tuple[Hashable, ...]


def _forgetting(objects: dict[int, Reference]) -> Callable[[Reference], None]:
    """What takes an object that ends out of its list, unless it never got into one."""

    def end(entry: Reference, making: RLock = _making) -> None:
        with making:
            first = objects.get(entry.key)
            if first is not entry:
                while first is not None and first.next is not entry:
                    first = first.next
                if first is not None:
                    first.next = entry.next
            elif entry.next is None:
                del objects[entry.key]
            else:
                objects[entry.key] = entry.next

    return end


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
