"""What a pass decided, as data that others can ask for; remarks are printed from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from importlib import import_module
from typing import Any, ClassVar, TypeVar, cast

from tawa.base.attempts import Slack
from tawa.base.source import Span

RECORDS: dict[str, type[Any]] = {"Span": Span, "Slack": Slack}
"""Classes whose values JSON can hold, by name."""


class Record:
    """A frozen dataclass of texts, numbers and other records."""

    def __init_subclass__(cls) -> None:
        RECORDS[cls.__name__] = cls


@dataclass(frozen=True)
class Decision(Record):
    """One choice: who made it, its numbers and its reason as fields, and the user's line.

    Who needs to know a choice looks for its class; nobody reads the sentence but the user.
    """

    by: ClassVar[str]
    """The pass, or the part of the compiler, that decided."""
    takes_registers: ClassVar[bool] = False
    """Whether it takes registers, so that another attempt decides otherwise if they are short."""
    span: Span | None = field(default=None, kw_only=True)
    """Where in the user's source."""

    @property
    def sentence(self) -> str:
        """What was decided, for a reader."""
        raise NotImplementedError

    def place(self, otherwise: str) -> str:
        """The span as text, or what stands for it where there is none."""
        return str(self.span or otherwise)

    def __str__(self) -> str:
        return f"{self.by}: {self.sentence}"


D = TypeVar("D", bound=Decision)


@dataclass
class Decisions:
    """The decisions of one compilation, in order; passes add to them."""

    made: list[Decision] = field(default_factory=list[Decision])

    def add(self, decision: Decision) -> None:
        """Add one."""
        self.made.append(decision)

    def merge(self, others: Iterable[Decision]) -> None:
        """Add those of others that were not made before."""
        self.made += [d for d in dict.fromkeys(others) if d not in self.made]

    def of(self, kind: type[D]) -> tuple[D, ...]:
        """The decisions of one class."""
        return of_kind(self.made, kind)

    def __str__(self) -> str:
        return "\n".join(remarks(self.made))


def of_kind(decisions: Iterable[Decision], kind: type[D]) -> tuple[D, ...]:
    """The decisions of one class, in order."""
    return tuple(d for d in decisions if isinstance(d, kind))


def remarks(decisions: Iterable[Decision]) -> tuple[str, ...]:
    """Decisions as lines for a reader; lines that say the same stand once."""
    return tuple(dict.fromkeys(map(str, decisions)))


def to_json(decisions: Sequence[Decision]) -> list[Any]:
    """Decisions as what JSON can hold."""
    return [_plain(d) for d in decisions]


def from_json(found: Sequence[Any]) -> tuple[Decision, ...]:
    """What `to_json` was given. `KeyError` for a class that is not known any more."""
    for module in ("assembling", "choice", "loops", "memory", "roles"):  # they name the classes
        import_module(f"tawa.ir.decisions.{module}")
    return tuple(map(_record, found))


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        kind = type(value).__name__
        assert RECORDS[kind] is type(value)
        return {"is": kind} | {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    return list(map(_plain, cast(Any, value))) if isinstance(value, tuple) else value


def _record(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_record, cast(Any, value)))
    if isinstance(value, dict):
        given = {name: _record(part) for name, part in cast(Any, value).items()}
        return RECORDS[given.pop("is")](**given)
    return value
