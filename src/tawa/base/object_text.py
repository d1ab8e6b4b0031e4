"""Objects as JSON that can construct nothing but instances of classes that the reader names.

What is kept on disk for other processes is read back by this module. A text holds data alone: no
code is found or run because of it, no class is looked up by import, and no method of an object is
called, not even a constructor. A text that is not one of these is refused with `Unreadable`.

    values      null, true, 5, 0.5, "text"      themselves
                [7]                             number 7 of the objects
    objects     ["l", values...]                list
                ["t", values...]                tuple
                ["d", key, value, ...]          dict
                ["s", values...]                set
                ["f", values...]                frozenset
                ["e", 2, "NAME"]                member of the enumeration that is class number 2
                ["c", 2]                        class number 2 itself
                [3, values...]                  instance of class number 3, with its fields

Objects stand behind those that they hold, so one pass makes them all; what holds itself, through a
field, a list or a dict, is there before it is filled. Sharing is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache
from importlib import import_module
from types import MemberDescriptorType
from typing import Any, cast

__all__ = ["Classes", "Unreadable", "Unwritable", "classes_of", "object_of", "text_of"]

FORMAT = 1
ATOMS = (bool, int, float, str)
SEQUENCES: dict[type, str] = {list: "l", tuple: "t", set: "s", frozenset: "f"}

Classes = Mapping[str, type[object]]
"""The classes that a text may name, by the names that it uses."""


class Unwritable(Exception):
    """An object is of a class that texts may not name, or contains itself where it must not."""


class Unreadable(Exception):
    """A text is not what `text_of` writes for these classes."""


def classes_of(*modules: str) -> dict[str, type[object]]:
    """The classes that some modules define."""
    return {
        f"{name}.{value.__qualname__}": value
        for name in modules
        for value in vars(import_module(name)).values()
        if isinstance(value, type) and value.__module__ == name
    }


def text_of(root: Any, classes: Classes) -> bytes:
    """The text of an object and all that it holds. Raises Unwritable."""
    return _Writer(classes).text(root)


def object_of(text: bytes, classes: Classes) -> Any:
    """The object that a text was made of. Raises Unreadable."""
    try:
        return _read(json.loads(text), classes)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise Unreadable(str(error)) from error


class _Writer:
    def __init__(self, classes: Classes) -> None:
        self.names = {kind: name for name, kind in classes.items()}
        self.kinds: dict[tuple[type, tuple[str, ...]], int] = {}
        self.numbers: dict[int, int] = {}
        self.objects: list[list[Any]] = []
        self.holding: list[Any] = []
        """What was numbered: an object's identity is its own only while it lives."""

    def text(self, root: Any) -> bytes:
        """The text of an object."""
        value = self._value(root)
        if value is None and root is not None:
            self._write(root)
            value = self._value(root)
        kinds = [[self.names[kind], *fields] for kind, fields in self.kinds]
        found = [FORMAT, kinds, self.objects, value]
        return json.dumps(found, separators=(",", ":")).encode()

    def _value(self, item: Any) -> Any:
        """How an object is named in another; None for one that has no number yet."""
        if item is None or type(item) in ATOMS:
            return item
        number = self.numbers.get(id(item))
        return None if number is None else [number]

    def _write(self, root: Any) -> None:
        """Number an object after what it holds, without recursion: trees may be deep."""
        inside: set[int] = set()
        stack: list[tuple[Any, Iterator[Any] | None]] = [(root, None)]
        while stack:
            item, rest = stack[-1]
            if rest is None:
                if id(item) in self.numbers or id(item) in inside:
                    stack.pop()
                    continue
                inside.add(id(item))
                rest = iter(self._held(item))
                stack[-1] = item, rest
            following = next((x for x in rest if self._is_new(x, inside)), None)
            if following is not None:
                stack.append((following, None))
                continue
            stack.pop()
            self._number(item)
        self._fill()

    def _is_new(self, item: Any, inside: set[int]) -> bool:
        if item is None or type(item) in ATOMS or id(item) in self.numbers:
            return False
        if id(item) in inside and type(item) in (tuple, frozenset):
            raise Unwritable("a tuple or frozenset that holds itself")
        return id(item) not in inside

    def _number(self, item: Any) -> None:
        self.numbers[id(item)] = len(self.objects)
        self.holding.append(item)
        self.objects.append([])

    def _fill(self) -> None:
        for number, item in enumerate(self.holding):
            if not self.objects[number]:
                self.objects[number] = self._row(item)

    def _held(self, item: Any) -> list[Any]:
        """What an object holds."""
        kind = _class_of(item)
        if kind in SEQUENCES:
            return list(item)
        if kind is dict:
            return [x for pair in cast("dict[Any, Any]", item).items() for x in pair]
        if isinstance(item, type | Enum):
            return []
        self._require(kind)
        return [value for _, value in _state(item)]

    def _row(self, item: Any) -> list[Any]:
        kind = _class_of(item)
        if isinstance(item, type):
            return ["c", self._kind(item, ())]
        if isinstance(item, Enum):
            return ["e", self._kind(kind, ()), item.name]
        values = [self._value(x) for x in self._held(item)]
        if kind in SEQUENCES:
            return [SEQUENCES[kind], *values]
        if kind is dict:
            return ["d", *values]
        return [self._kind(kind, tuple(name for name, _ in _state(item))), *values]

    def _kind(self, kind: type, fields: tuple[str, ...]) -> int:
        self._require(kind)
        return self.kinds.setdefault((kind, fields), len(self.kinds))

    def _require(self, kind: type) -> None:
        if kind not in self.names:
            raise Unwritable(f"an object of {kind.__module__}.{kind.__qualname__}")


def _class_of(item: object) -> type[object]:
    return type(item)


def _state(item: Any) -> list[tuple[str, Any]]:
    """The fields that an instance has, those in slots first."""
    kind = _class_of(item)
    slots = ((name, getattr(item, name)) for name in _slots(kind) if hasattr(item, name))
    return [*slots, *getattr(item, "__dict__", {}).items()]


@cache
def _slots(kind: type) -> dict[str, Callable[[Any, Any], None]]:
    """The slots of a class and its bases, each with what fills it."""
    return {
        name: member.__set__
        for base in reversed(kind.__mro__)
        for name, member in vars(base).items()
        if isinstance(member, MemberDescriptorType)
    }


def _read(data: Any, classes: Classes) -> Any:
    version, kinds, rows, root = data
    if version != FORMAT:
        raise Unreadable(f"format {version}")
    named: Named = [(classes[name], fields) for name, *fields in kinds]
    made = [_shell(row, named) for row in rows]
    fillers = [_filler(kind, fields) for kind, fields in named]
    for number, row in enumerate(rows):
        tag, *values = row
        if tag == "e" or tag == "c":
            continue
        values = [made[x[0]] if type(x) is list else x for x in values]
        match tag:
            case "l":
                made[number].extend(values)
            case "t":
                made[number] = tuple(values)
            case "d":
                made[number].update(zip(values[::2], values[1::2], strict=True))
            case "s":
                made[number].update(values)
            case "f":
                made[number] = frozenset(values)
            case _:
                fillers[tag](made[number], values)
    return made[root[0]] if type(root) is list else root


_EMPTY: dict[Any, Callable[[], Any]] = {"l": list, "d": dict, "s": set, "t": tuple, "f": frozenset}


Named = list[tuple[type[object], list[str]]]
"""The classes of a text, each with the fields that it has of them."""


def _shell(row: list[Any], named: Named) -> Any:
    """An object before it is filled."""
    tag = row[0]
    make = _EMPTY.get(tag)
    if make is not None:
        return make()
    number: int = row[1] if tag in ("e", "c") else tag
    kind = named[number][0]
    if tag == "c":
        return kind
    if issubclass(kind, Enum):
        return kind.__members__[row[2]]
    return object.__new__(kind)


def _filler(kind: type, fields: list[str]) -> Callable[[Any, list[Any]], None]:
    """Gives an instance its fields. Slots are filled and the rest put beside them, nothing run."""
    slots = _slots(kind)
    setters = [slots[name] for name in fields if name in slots]
    beside = [name for name in fields if name not in slots]
    count = len(setters)

    def fill(item: Any, values: list[Any]) -> None:
        if len(values) != len(fields):
            raise Unreadable("an object with too many fields, or too few")
        for setter, value in zip(setters, values, strict=False):
            setter(item, value)
        if beside:
            item.__dict__.update(zip(beside, values[count:], strict=True))

    return fill
