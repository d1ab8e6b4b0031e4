"""A figure of the machine and where it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, TypeVar

T = TypeVar("T")

Kind = Literal["documented", "measured", "published", "counted", "fitted"]
"""How a figure is known.

`documented` by NVIDIA; `measured` here, by a benchmark that names the rows; `published` by others;
`counted` in machine code; `fitted` so that a model meets a benchmark's times.
"""


@dataclass(frozen=True)
class Source:
    """Where a figure comes from: how it is known, and the page, rows or model."""

    kind: Kind
    where: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.where}"


@dataclass(frozen=True)
class Figure:
    """One figure of a chip: its name, with a dot for each part it lies in, value and source."""

    name: str
    value: object
    source: Source | None


def figure(value: T, kind: Kind, where: str) -> T:
    """The default of a dataclass's field, with its source."""
    made: Any = field(default=value, metadata={"source": Source(kind, where)})
    return made


def figures(part: Any, own: Mapping[str, Source] | None = None) -> Iterator[Figure]:
    """All figures of a part of the machine, and of the parts in it.

    `own` are sources of figures that only this chip has.
    """
    for item in fields(part):
        value = getattr(part, item.name)
        if item.metadata.get("figure", True) is False:
            continue
        if is_dataclass(value):
            for inner in figures(value):
                yield Figure(f"{item.name}.{inner.name}", inner.value, inner.source)
        else:
            source = (own or {}).get(item.name) or item.metadata.get("source")
            yield Figure(item.name, value, source)
