"""The event graph: which step of a program has to wait for which.

Each step (a copy, a call, a loop) is an event. It comes after the nearest steps before it that
touch the same elements, where one of the two writes. In a loop in order, what an iteration does
also comes after what the one before did: that is marked `previous`. The events of a parallel loop
are an array, with a place for each iteration and the processor that runs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tawa.tasks.graph.ir import (
    Call,
    Copy,
    Loop,
    Node,
    Scope,
    TaskProgram,
    accesses,
    call_text,
    copy_text,
)
from tawa.tasks.language.sizes import names, plain
from tawa.tasks.language.tensors import Tensor, may_meet


@dataclass(frozen=True, eq=False)
class Event:
    """A step: its number, what it does, where, and what it comes after."""

    number: int
    text: str
    depth: int
    axes: tuple[str, ...]
    """Index and processor of each parallel loop around it."""
    after: tuple[int, ...]
    previous: tuple[int, ...]
    """Events of the iteration before that it comes after."""

    def __str__(self) -> str:
        axes = f"[{', '.join(self.axes)}]" if self.axes else ""
        after = [f"e{n}" for n in self.after] + [f"previous e{n}" for n in self.previous]
        waits = f" after {', '.join(after)}" if after else ""
        return f"{'  ' * self.depth}e{self.number}{axes} = {self.text}{waits}"


def event_graph(program: TaskProgram) -> list[Event]:
    """The events of a program, in its order."""
    return _Events().of([program.root])


class _Events:
    def __init__(self) -> None:
        self.found: list[Event] = []
        self.numbers: dict[int, int] = {}

    def of(self, nodes: Sequence[Node]) -> list[Event]:
        self._list(nodes, 0, (), None)
        return self.found

    def _list(
        self, nodes: Sequence[Node], depth: int, axes: tuple[str, ...], ordered: Loop | None
    ) -> None:
        for place, node in enumerate(nodes):
            number = len(self.found)
            self.numbers[id(node)] = number
            after = tuple(self.numbers[id(n)] for n in nearest(nodes[:place], node))
            self.found.append(Event(number, _text(node), depth, axes, after, ()))
            if isinstance(node, Loop | Scope):
                inside = axes
                if isinstance(node, Loop) and node.parallel:
                    processor = _below(node)
                    inside += tuple(f"{index} {processor}" for index in node.indices)
                serial = node if isinstance(node, Loop) and not node.parallel else None
                self._list(node.body, depth + 1, inside, serial)
        if ordered is not None:
            self._previous(nodes, ordered)

    def _previous(self, nodes: Sequence[Node], loop: Loop) -> None:
        for node in nodes:
            before = [n for n in nodes if conflict(n, node, loop)]
            number = self.numbers[id(node)]
            event = self.found[number]
            last = nearest(before, node, loop)
            found = tuple(self.numbers[id(n)] for n in last)
            self.found[number] = Event(
                number, event.text, event.depth, event.axes, event.after, found
            )


def nearest(before: Sequence[Node], node: Node, loop: Loop | None = None) -> list[Node]:
    """The steps that a step waits for, without those that others of them wait for."""
    found: list[Node] = []
    behind: set[int] = set()
    for place in reversed(range(len(before))):
        earlier = before[place]
        if id(earlier) in behind or not conflict(earlier, node, loop):
            continue
        found.insert(0, earlier)
        waiting = [earlier]
        while waiting:
            one = waiting.pop()
            at = before.index(one)
            for still in before[:at]:
                if id(still) not in behind and conflict(still, one):
                    behind.add(id(still))
                    waiting.append(still)
    return found


def conflict(earlier: Node, later: Node, loop: Loop | None = None) -> bool:
    """Whether two steps touch the same elements, and one writes. `loop`: in its next iteration."""
    return any(
        (w1 or w2) and _may_meet(one, other, loop)
        for one, w1 in accesses(earlier)
        for other, w2 in accesses(later)
    )


def _may_meet(one: Tensor, other: Tensor, loop: Loop | None) -> bool:
    if one.buffer is not other.buffer:
        return False
    varying = {n for view in (one, other) for o in view.origin for n in names(o)}
    if loop is not None and varying & {*loop.indices}:
        return True
    return may_meet(one, other)


def _below(loop: Loop) -> str:
    """The processor that a parallel loop's launches run on."""
    for node in loop.body:
        if isinstance(node, Scope):
            return node.instance.processor
    return loop.instance.processor


def _text(node: Node) -> str:
    if isinstance(node, Copy):
        return copy_text(node)
    if isinstance(node, Call):
        return call_text(node)
    if isinstance(node, Loop):
        bounds = ", ".join(plain(extent) for extent in node.extents)
        kind = "pfor" if node.parallel else "for"
        return f"{kind} {', '.join(node.indices)} in {bounds}"
    return f"{node.instance.record.name} on {node.instance.processor}"


def text(events: Sequence[Event]) -> str:
    """The graph, an event a line."""
    return "".join(f"{event}\n" for event in events)


def svg(events: Sequence[Event]) -> str:
    """The graph as a picture: steps from top to bottom, arrows to what waits."""
    return "".join(_svg_lines(events))


def _svg_lines(events: Sequence[Event]) -> Iterator[str]:
    row, indent, left = 26, 18, 90
    width = left + 40 + max((len(e.text) * 7 + e.depth * indent for e in events), default=0)
    height = row * len(events) + 12
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="monospace" font-size="12">\n'
    )
    yield (
        '<defs><marker id="tip" markerWidth="7" markerHeight="7" refX="6" refY="3" orient="auto">'
        '<path d="M0,0 L6,3 L0,6 z" fill="#456"/></marker></defs>\n'
    )
    for event in events:
        x, y = left + event.depth * indent, 6 + row * event.number
        label = event.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        yield (
            f'<g><rect x="{x}" y="{y}" width="{len(event.text) * 7 + 30}" height="{row - 6}" '
            f'rx="4" fill="#eef3f8" stroke="#456"/>'
            f'<text x="{x + 6}" y="{y + 14}">e{event.number} {label}</text></g>\n'
        )
        for others, style in ((event.after, ""), (event.previous, ' stroke-dasharray="3 3"')):
            for other in others:
                y0, y1 = 16 + row * other, y + 10
                bend = left - 12 - 6 * (abs(event.number - other) % 12)
                yield (
                    f'<path d="M{x},{y0} C{bend},{y0} {bend},{y1} {x},{y1}" fill="none" '
                    f'stroke="#456"{style} marker-end="url(#tip)"/>\n'
                )
    yield "</svg>\n"
