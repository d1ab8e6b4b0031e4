"""Which definitions of a module depend on which, so that each is inferred after what it uses."""

from __future__ import annotations

from collections.abc import Iterator

from tawa.functional import syntax as s


def definition_groups(module: s.Module) -> list[list[s.Definition]]:
    """The definitions, grouped into those that call each other, callees first.

    Strongly connected components by R. Tarjan's algorithm, with a stack of its own instead of
    recursion.
    """
    definitions = {d.name: d for d in module.definitions()}
    uses = {name: _used(d, definitions) for name, d in definitions.items()}
    return [[definitions[name] for name in group] for group in _components(uses)]


def _used(definition: s.Definition, known: dict[str, s.Definition]) -> list[str]:
    return list(dict.fromkeys(n.name for n in names_in(definition) if n.name in known))


def names_in(node: s.Node) -> Iterator[s.Name]:
    """The uses of names below a node (shadowed ones too)."""
    stack: list[s.Node] = [node]
    while stack:
        top = stack.pop()
        if isinstance(top, s.Name):
            yield top
        stack.extend(s.children(top))


def _components(graph: dict[str, list[str]]) -> Iterator[list[str]]:
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    open_: list[str] = []
    on_stack: set[str] = set()
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        open_.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == index[node]:
                    yield _closed_component(node, open_, on_stack)
            elif following not in index:
                index[following] = low[following] = len(index)
                open_.append(following)
                on_stack.add(following)
                work.append((following, iter(graph[following])))
            elif following in on_stack:
                low[node] = min(low[node], index[following])


def _closed_component(node: str, open_: list[str], on_stack: set[str]) -> list[str]:
    group: list[str] = []
    while True:
        member = open_.pop()
        on_stack.discard(member)
        group.append(member)
        if member == node:
            return group[::-1]
