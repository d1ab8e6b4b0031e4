"""Which binding each name of a module means, and which names can be used at a place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tawa.base.source import Span
from tawa.functional import syntax as s
from tawa.functional.language import CheckedModule

Binder = "s.Definition | s.NamePattern | s.Signature"
Scope = dict[str, "s.Node"]
Position = tuple[int, int]
"""A line from 1, and a column from 0."""


@dataclass(frozen=True)
class Occurrence:
    """A name at a place, and what binds it: None for built-in names."""

    name: str
    span: Span
    binder: s.Node | None


@dataclass
class Scopes:
    """All occurrences of a module's names, and what is bound in each part of it."""

    occurrences: list[Occurrence] = field(default_factory=list[Occurrence])
    parts: list[tuple[Span, Scope]] = field(default_factory=list[tuple[Span, Scope]])
    top: Scope = field(default_factory=dict[str, "s.Node"])
    """What is bound everywhere."""

    def at(self, position: Position) -> Occurrence | None:
        """The name at a position, its end included."""
        for found in self.occurrences:
            span = found.span
            if (span.line, span.column) <= position <= (span.end_line, span.end_column):
                return found
        return None

    def same(self, as_: Occurrence) -> list[Occurrence]:
        """All occurrences of a bound name, its binding among them."""
        return [o for o in self.occurrences if o.binder is as_.binder and o.name == as_.name]

    def visible(self, position: Position) -> Scope:
        """The names that are bound at a position."""
        found = self.top
        for span, scope in self.parts:  # inner parts come later
            if (span.line, span.column) <= position <= (span.end_line, span.end_column):
                found = scope
        return found


def binder_span(binder: s.Node) -> Span:
    """Where a binder has its name."""
    return binder.name_span if isinstance(binder, s.Definition) else binder.span


def scopes_of(module: CheckedModule) -> Scopes:
    """The scopes of a module."""
    scopes = Scopes()
    top = scopes.top
    for declaration in module.syntax.declarations:
        if isinstance(declaration, s.Import):
            top.update(_imported(module, declaration))
    top.update((definition.name, definition) for definition in module.syntax.definitions())
    for definition in module.syntax.definitions():
        scopes.occurrences.append(Occurrence(definition.name, definition.name_span, definition))
        inner = _bound(scopes, top, definition.parameters)
        scopes.parts.append((definition.span, inner))
        _walk(scopes, definition.body, inner)
    return scopes


def _imported(module: CheckedModule, declaration: s.Import) -> Iterator[tuple[str, s.Node]]:
    theirs = {d.name: d for d in module.imports[declaration.module].syntax.definitions()}
    for name in declaration.names or theirs:
        if name in theirs:
            prefix = "" if declaration.names is not None else f"{declaration.module}."
            yield prefix + name, theirs[name]


def _bound(scopes: Scopes, scope: Scope, patterns: tuple[s.Pattern, ...]) -> Scope:
    """A scope with the names that patterns bind."""
    names = [name for pattern in patterns for name in s.bound_names(pattern)]
    scopes.occurrences += [Occurrence(name.name, name.span, name) for name in names]
    return {**scope, **{name.name: name for name in names}}


def _walk(scopes: Scopes, node: s.Node, scope: Scope) -> None:
    match node:
        case s.Name(name):
            scopes.occurrences.append(Occurrence(name, node.span, scope.get(name)))
        case s.Lambda(parameters, body):
            inner = _bound(scopes, scope, parameters)
            scopes.parts.append((body.span, inner))
            _walk(scopes, body, inner)
        case s.Let(bindings, body):
            inner = _bound(scopes, scope, tuple(binding.pattern for binding in bindings))
            for binding in bindings:
                outer = inner if node.recursive else scope
                within = _bound(scopes, outer, binding.parameters)
                scopes.parts.append((binding.value.span, within))
                _walk(scopes, binding.value, within)
            scopes.parts.append((body.span, inner))
            _walk(scopes, body, inner)
        case s.Case(pattern, body):
            inner = _bound(scopes, scope, (pattern,))
            scopes.parts.append((body.span, inner))
            _walk(scopes, body, inner)
        case _:
            for child in s.children(node):
                _walk(scopes, child, scope)
