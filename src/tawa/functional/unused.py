"""Names that a program gives to values and never uses: what a checker says besides errors."""

from __future__ import annotations

from collections.abc import Iterator

from tawa.functional import syntax as s

__all__ = ["unused_names"]


def unused_names(definition: s.Definition) -> list[s.NamePattern]:
    """The names that a definition binds and never mentions, in their order.

    Names that begin with `_`, and those with annotations, which may be there for the sizes that
    they name, are not among them.
    """
    bound: list[s.NamePattern] = []
    mentioned: set[str] = set()
    for node in _nodes(definition):
        if isinstance(node, s.Name):
            mentioned.add(node.name)
        elif isinstance(node, s.NamePattern) and not node.name.startswith("_"):
            bound.append(node)
    return [name for name in bound if name.name not in mentioned]


def _nodes(start: s.Node) -> Iterator[s.Node]:
    """All nodes, outer ones first, without annotated patterns."""
    stack = [start]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, s.AnnotatedPattern):
            stack.extend(list(s.children(node))[::-1])
