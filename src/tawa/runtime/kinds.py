"""Kinds of launch arguments: what compiling depends on, apart from what it does not.

A kernel is compiled once for each tuple of `Kind`s. Kinds are unique objects, compared by
identity, so that looking a launch up costs little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tawa.base.exact import exact


@dataclass(frozen=True, eq=False)
class Kind:
    """What compiling needs to know of one argument.

    - `type`: `*f16` (array), `desc<f16,128x64>`, `i32`, `i64`, `u64`, `f32`, `i1`, `none`, or
      `constant` of a part of a tuple that is compiled in.
    - `divisible`: an address or integer that is a multiple of 16.
    - `one`: an integer that is 1.
    - `unit`: an integer of a declared type that is 1; it keeps its type, and is passed.
    - `positive`: a float that is an ordinary positive number (`arguments.SMALLEST` to `LARGEST`).
    - `device`: where an array or descriptor lies (`HOST` for the CPU); None for scalars.
    - `library`: whose current stream a launch uses: `torch`, `cupy`, or none.
    - `constant`: the value of a `constant`.
    """

    type: str
    divisible: bool = False
    one: bool = False
    device: int | None = None
    library: str = ""
    constant: Any = None
    positive: bool = False
    unit: bool = False

    @property
    def is_fixed(self) -> bool:
        """Whether kernels are compiled for the value: 1, None or a constant."""
        return self.one or self.type in ("none", "constant")

    @property
    def value(self) -> Any:
        """The value that kernels are compiled for."""
        return 1 if self.one else self.constant

    @property
    def text(self) -> str:
        """The kind as the compiler's cache key shows it, without its place."""
        marks = (
            (":16", self.divisible),
            (":1", self.one),
            (":+", self.positive),
            (":=1", self.unit),
        )
        return self.type + "".join(mark for mark, holds in marks if holds)


def kind_of(
    type: str,
    divisible: bool = False,
    one: bool = False,
    device: int | None = None,
    library: str = "",
    positive: bool = False,
    unit: bool = False,
) -> Kind:
    """The one `Kind` with these properties, however they are given."""
    return _kind(type, divisible, one, device, library, None, positive, unit)


_kind = cache(Kind)


def constant_kind(value: Any) -> Kind:
    """The kind of a constant."""
    key = value.__class__, exact(value)
    kind = _CONSTANTS.get(key)
    if kind is None:
        kind = _CONSTANTS.setdefault(key, Kind("constant", constant=value))
    return kind


_CONSTANTS: dict[Any, Kind] = {}


@dataclass(frozen=True, eq=False)
class TupleKind:
    """The kinds of a tuple's parts, and the parts' names if they have some.

    Parts are arguments of their own, called `x.0`, `x.1.0`; `x.0_size` if its name is `size`.
    """

    parts: tuple[Kind | TupleKind, ...]
    fields: tuple[str, ...] = ()

    def named(self) -> Iterator[tuple[str, Kind | TupleKind]]:
        """The parts with what stands for each behind the tuple's name."""
        for number, part in enumerate(self.parts):
            yield f"{number}_{self.fields[number]}" if self.fields else str(number), part


@cache
def tuple_kind(parts: tuple[Kind | TupleKind, ...], fields: tuple[str, ...] = ()) -> TupleKind:
    """The one kind of tuples with these parts, called `fields` if they have names."""
    return TupleKind(parts, fields)


def spread(kinds: Mapping[str, Kind | TupleKind]) -> dict[str, Kind]:
    """The kinds of arguments by name, with those of tuples' parts in the tuples' places."""
    found: dict[str, Kind] = {}
    for name, kind in kinds.items():
        if isinstance(kind, Kind):
            found[name] = kind
        else:
            found |= spread({f"{name}.{place}": part for place, part in kind.named()})
    return found


def fields_of(value: Any) -> tuple[str, ...]:
    """The names of a tuple's parts; empty where they have none."""
    return getattr(value, "_fields", ())


def parts_of(values: Sequence[Any]) -> Iterator[Any]:
    """What a launch passes, in the order of `spread`."""
    for value in values:
        if isinstance(value, tuple):
            yield from parts_of(value)  # pyright: ignore[reportUnknownArgumentType]
        else:
            yield value


def part_named(name: str, values: Mapping[str, Any]) -> Any:
    """The argument, or the part of one, of a name that `spread` gives."""
    first, *places = name.split(".")
    value = values[first]
    for place in places:
        value = value[int(place.partition("_")[0])]
    return value
