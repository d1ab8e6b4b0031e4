"""Graphs as SVG: layers from top to bottom, the type beside every edge.

An edge that passes layers has a place of its own in each (K. Sugiyama, S. Tagawa, M. Toda, "Methods
for Visual Understanding of Hierarchical System Structures", 1981), so that it runs beside the
boxes, not behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from tawa.axon.tools.graph import Graph

CHAR, LABEL_CHAR = 7.2, 6.7
HEIGHT, LINE, GAP_X, GAP_Y, MARGIN = 28, 13, 20, 30, 24
PASSING = 14.0
"""Width of the place of an edge that passes a layer."""

SWEEPS = 6
COLOURS = {
    "parameter": "#d7e8fb", "call": "#fdf3d7", "constant": "#eeeeee", "result": "#d9f2dc",
}  # fmt: skip


@dataclass(eq=False)
class Place:
    """A box, or an edge that passes: its layer, and how far it reaches left and right of `x`."""

    layer: int
    left: float = PASSING / 2
    right: float = PASSING / 2
    x: float = 0.0
    above: list[Place] = field(default_factory=list["Place"])
    below: list[Place] = field(default_factory=list["Place"])


@dataclass
class Drawing:
    """Places of boxes by node, the rows they stand in, and the way of each edge through places."""

    boxes: list[Place]
    rows: list[list[Place]]
    ways: list[list[Place]]
    labels: list[list[str]]
    """The types that leave each node."""


def depths(graph: Graph) -> list[int]:
    """The layer of each node: below its operands; what has none stands above its first reader."""
    found = [0] * len(graph.nodes)
    incoming: list[list[int]] = [[] for _ in graph.nodes]
    outgoing: list[list[int]] = [[] for _ in graph.nodes]
    for edge in graph.edges:
        incoming[edge.target].append(edge.source)
        outgoing[edge.source].append(edge.target)
    for node in graph.nodes:
        found[node.id] = max((found[source] + 1 for source in incoming[node.id]), default=0)
    for node in reversed(graph.nodes):
        if not incoming[node.id] and outgoing[node.id]:
            found[node.id] = min(found[target] for target in outgoing[node.id]) - 1
    return found


def arranged(graph: Graph) -> Drawing:
    """All places, with their x."""
    labels: list[list[str]] = [[] for _ in graph.nodes]
    for edge in graph.edges:
        if edge.type and edge.type not in labels[edge.source]:
            labels[edge.source].append(edge.type)
    layers = depths(graph)
    boxes: list[Place] = []
    rows: list[list[Place]] = [[] for _ in range(max(layers, default=-1) + 1)]
    for node in graph.nodes:
        half = max(24.0, CHAR * (len(node.label) + 2) / 2)
        label = max((len(text) for text in labels[node.id]), default=0) * LABEL_CHAR + 8
        boxes.append(Place(layers[node.id], half, max(half, label)))
        rows[layers[node.id]].append(boxes[-1])
    passing: dict[tuple[int, int], Place] = {}
    ways: list[list[Place]] = []
    for edge in graph.edges:
        way = [boxes[edge.source]]
        for layer in range(layers[edge.source] + 1, layers[edge.target]):
            place = passing.get((edge.source, layer))
            if place is None:
                place = passing[edge.source, layer] = Place(layer)
                rows[layer].append(place)
            way.append(place)
        ways.append([*way, boxes[edge.target]])
    for way in ways:
        for upper, lower in pairwise(way):
            if lower not in upper.below:
                upper.below.append(lower)
                lower.above.append(upper)
    _order(rows)
    _straighten(rows)
    return Drawing(boxes, rows, ways, labels)


def _order(rows: list[list[Place]]) -> None:
    """Order each row by the mean place of its neighbours, downwards and upwards in turn."""
    for row in rows:
        for number, place in enumerate(row):
            place.x = float(number)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            row.sort(key=lambda p: _mean(p.above if down else p.below, p.x))
            for number, place in enumerate(row):
                place.x = number - (len(row) - 1) / 2


def _straighten(rows: list[list[Place]]) -> None:
    """Put each place as near to its neighbours as those beside it allow."""
    for row in rows:
        _spread(row, [place.x * 100 for place in row])
    for sweep in range(SWEEPS + 1):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            _spread(row, [_mean(p.above if down else p.below, p.x) for p in row])
    leftmost = min((place.x - place.left for row in rows for place in row), default=0.0)
    for row in rows:
        for place in row:
            place.x += MARGIN - leftmost


def _spread(row: list[Place], wanted: Sequence[float]) -> None:
    """Places at least a gap apart, on average where they are wanted."""
    at = float("-inf")
    for place, goal in zip(row, wanted, strict=True):
        place.x = max(goal, at + place.left)
        at = place.x + place.right + GAP_X
    shift = sum(goal - place.x for place, goal in zip(row, wanted, strict=True)) / len(row)
    for place in row:
        place.x += shift


def _mean(places: Sequence[Place], default: float) -> float:
    return sum(place.x for place in places) / len(places) if places else default


def svg(graph: Graph) -> str:
    """The graph as an SVG document."""
    drawing = arranged(graph)
    tops: list[float] = []
    bottom = float(MARGIN)
    lines = [1] * len(drawing.rows)
    for node in graph.nodes:
        layer = drawing.boxes[node.id].layer
        lines[layer] = max(lines[layer], len(drawing.labels[node.id]))
    for count in lines:
        tops.append(bottom)
        bottom += HEIGHT + LINE * count + GAP_Y
    places = [place for row in drawing.rows for place in row]
    total = max((place.x + place.right for place in places), default=0.0) + MARGIN
    height = bottom - GAP_Y - LINE + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {total:.0f} {height:.0f}" font-family="monospace" font-size="12">',
        f"<title>{escape(graph.title)}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    stems = {id(p): LINE * len(t) + 4 for p, t in zip(drawing.boxes, drawing.labels, strict=True)}
    parts += dict.fromkeys(_way(way, tops, stems[id(way[0])]) for way in drawing.ways)
    for node, place in zip(graph.nodes, drawing.boxes, strict=True):
        parts.append(_box(node.label, COLOURS[node.kind], place, tops[place.layer]))
    for place, texts in zip(drawing.boxes, drawing.labels, strict=True):
        parts += [_label(t, place, tops[place.layer], n) for n, t in enumerate(texts)]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _way(way: list[Place], tops: list[float], stem: float) -> str:
    """An edge: straight past labels and the boxes of a layer, curves between layers."""
    first = way[0]
    y = tops[first.layer] + HEIGHT
    text = f"M{first.x:.1f},{y:.1f} V{y + stem:.1f}"
    y += stem
    for upper, lower in pairwise(way):
        end = tops[lower.layer]
        middle = (y + end) / 2
        text += f" C{upper.x:.1f},{middle:.1f} {lower.x:.1f},{middle:.1f} {lower.x:.1f},{end:.1f}"
        if lower is not way[-1]:
            y = end + HEIGHT
            text += f" V{y:.1f}"
    return f'<path d="{text}" fill="none" stroke="#888"/>'


def _box(label: str, colour: str, place: Place, top: float) -> str:
    return (
        f'<rect x="{place.x - place.left:.1f}" y="{top:.1f}" width="{2 * place.left:.1f}" '
        f'height="{HEIGHT}" rx="6" fill="{colour}" stroke="#666"/>'
        f'<text x="{place.x:.1f}" y="{top + 18:.1f}" text-anchor="middle">{escape(label)}</text>'
    )


def _label(text: str, place: Place, top: float, line: int) -> str:
    """A type, below the box it leaves, with a white rim where edges cross it."""
    return (
        f'<text x="{place.x + 5:.1f}" y="{top + HEIGHT + LINE * (line + 1):.1f}" fill="#134a8e" '
        f'font-size="11" stroke="white" stroke-width="3" paint-order="stroke">'
        f"{escape(text)}</text>"
    )
