"""Whether the cases of a `match` cover all values, and each can be reached.

The usefulness algorithm of L. Maranget, "Warnings for pattern matching" (JFP 2007).
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.functional import syntax as s
from tawa.functional.errors import UncoveredCase


@dataclass(frozen=True, slots=True)
class Head:
    """The outermost part of a pattern: a constructor, `tuple`, or a literal."""

    name: object
    arity: int
    siblings: tuple[tuple[str, int], ...] | None
    """All constructors of the type, with their arities; None if there are endlessly many."""


Row = list[s.Pattern]


def check_coverage(match: s.Match, constructors: dict[str, s.Datatype]) -> None:
    """Raise UncoveredCase when a value fits no case of `match`, or a case fits no value."""
    rows: list[Row] = []
    for case in match.cases:
        if _useful(rows, [case.pattern], constructors) is None:
            raise UncoveredCase("this case can never be reached", span=case.pattern.span)
        rows.append([case.pattern])
    missing = _useful(rows, [s.WildcardPattern(span=match.span)], constructors)
    if missing is not None:
        text = missing[0]
        raise UncoveredCase(
            f"no case fits `{text}`", span=match.span,
            expected=f"a case for `{text}`", hint=f"add `| {text} -> ...`",
        )  # fmt: skip


def _useful(rows: list[Row], row: Row, known: dict[str, s.Datatype]) -> list[str] | None:
    """An example of values that `row` fits and no row of `rows` does, or None."""
    if not row:
        return None if rows else []
    first = _bare(row[0])
    head = _head(first, known)
    if head is not None:
        return _useful_with(head, rows, row, known)
    heads = [h for h in (_head(_bare(other[0]), known) for other in rows) if h is not None]
    present = {h.name for h in heads}
    every = heads[0].siblings if heads else None
    if every is not None and all(name in present for name, _ in every):
        for name, arity in every:
            found = _useful_with(Head(name, arity, every), rows, row, known)
            if found is not None:
                return found
        return None
    rest = [other[1:] for other in rows if _head(_bare(other[0]), known) is None]
    found = _useful(rest, row[1:], known)
    return None if found is None else [_example(every, present), *found]


def _useful_with(
    head: Head, rows: list[Row], row: Row, known: dict[str, s.Datatype]
) -> list[str] | None:
    rest = [r for r in (_specialised(other, head, known) for other in rows) if r is not None]
    mine = _specialised(row, head, known)
    found = None if mine is None else _useful(rest, mine, known)
    if found is None:
        return None
    arguments, others = found[: head.arity], found[head.arity :]
    return [_shown(head, arguments), *others]


def _specialised(row: Row, head: Head, known: dict[str, s.Datatype]) -> Row | None:
    first = _bare(row[0])
    own = _head(first, known)
    if own is None:
        wild: list[s.Pattern] = [s.WildcardPattern(span=first.span)] * head.arity
        return wild + row[1:]
    if own.name != head.name:
        return None
    return _arguments(first) + row[1:]


def _bare(pattern: s.Pattern) -> s.Pattern:
    while isinstance(pattern, s.AnnotatedPattern):
        pattern = pattern.pattern
    return pattern


def _head(pattern: s.Pattern, known: dict[str, s.Datatype]) -> Head | None:
    match pattern:
        case s.TuplePattern(items):
            return Head("tuple", len(items), (("tuple", len(items)),))
        case s.LiteralPattern(bool() as value):
            return Head(str(value).lower(), 0, (("true", 0), ("false", 0)))
        case s.LiteralPattern(value):
            return Head(value, 0, None)
        case s.ConstructorPattern(name):
            siblings = tuple((c.name, int(bool(c.fields))) for c in known[name].constructors)
            return Head(name, dict(siblings)[name], siblings)
        case _:
            return None


def _arguments(pattern: s.Pattern) -> Row:
    match pattern:
        case s.TuplePattern(items):
            return list(items)
        case s.ConstructorPattern(_, argument) if argument is not None:
            return [argument]
        case _:
            return []


def _example(every: tuple[tuple[str, int], ...] | None, present: set[object]) -> str:
    for name, arity in every or ():
        if name not in present:
            return f"{name} _" if arity else name
    return "_"


def _shown(head: Head, arguments: list[str]) -> str:
    if head.name == "tuple":
        return f"({', '.join(arguments)})"
    return " ".join([str(head.name), *arguments])
