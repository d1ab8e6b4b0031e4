"""Graphs as SVG: layers from top to bottom, the type beside every edge."""

from __future__ import annotations

from html import escape

from tawa.axon.graph import Graph, GraphEdge

CHAR, HEIGHT, GAP_X, GAP_Y, MARGIN = 7.2, 28, 36, 64, 24
COLOURS = {
    "parameter": "#d7e8fb", "call": "#fdf3d7", "constant": "#eeeeee", "result": "#d9f2dc",
}  # fmt: skip


def layers(graph: Graph) -> list[list[int]]:
    """The nodes by their distance from the inputs, each layer ordered to keep edges short."""
    depth = dict.fromkeys((node.id for node in graph.nodes), 0)
    incoming: dict[int, list[int]] = {node.id: [] for node in graph.nodes}
    outgoing: dict[int, list[int]] = {node.id: [] for node in graph.nodes}
    for edge in graph.edges:
        incoming[edge.target].append(edge.source)
        outgoing[edge.source].append(edge.target)
    for node in graph.nodes:
        for source in incoming[node.id]:
            depth[node.id] = max(depth[node.id], depth[source] + 1)
    for node in reversed(graph.nodes):
        after = [depth[target] for target in outgoing[node.id]]
        if not incoming[node.id] and after:
            depth[node.id] = min(after) - 1
    found: list[list[int]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node in graph.nodes:
        found[depth[node.id]].append(node.id)
    place = {node: float(index) for layer in found for index, node in enumerate(layer)}
    for layer in found[1:]:
        layer.sort(key=lambda node: _mean([place[s] for s in incoming[node]], place[node]))
        place.update((node, float(index)) for index, node in enumerate(layer))
    return [layer for layer in found if layer]


def _mean(numbers: list[float], default: float) -> float:
    return sum(numbers) / len(numbers) if numbers else default


def svg(graph: Graph) -> str:
    """The graph as an SVG document."""
    rows = layers(graph)
    types = {edge.source: edge.type for edge in graph.edges}
    widths = {
        node.id: max(48.0, CHAR * max(len(node.label) + 2, len(types.get(node.id, "")) + 2))
        for node in graph.nodes
    }
    spans = [sum(widths[n] for n in row) + GAP_X * (len(row) - 1) for row in rows]
    total = max(spans, default=0.0) + 2 * MARGIN
    places: dict[int, tuple[float, float]] = {}
    for index, row in enumerate(rows):
        left = (total - spans[index]) / 2
        for node in row:
            places[node] = (left + widths[node] / 2, MARGIN + index * (HEIGHT + GAP_Y))
            left += widths[node] + GAP_X
    height = MARGIN * 2 + len(rows) * (HEIGHT + GAP_Y) - GAP_Y
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {total:.0f} {height:.0f}" font-family="monospace" font-size="12">',
        f"<title>{escape(graph.title)}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        *(_edge(edge, places) for edge in graph.edges),
    ]
    for node in graph.nodes:
        x, y = places[node.id]
        width = max(48.0, CHAR * (len(node.label) + 2))
        colour = COLOURS[node.kind]
        parts.append(
            f'<rect x="{x - width / 2:.1f}" y="{y:.1f}" width="{width:.1f}" height="{HEIGHT}" '
            f'rx="6" fill="{colour}" stroke="#666"/>'
            f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{escape(node.label)}</text>'
        )
    parts.extend(_labels(graph.edges, places))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _edge(edge: GraphEdge, places: dict[int, tuple[float, float]]) -> str:
    (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
    y1 += HEIGHT
    bend = max(20.0, (y2 - y1) / 2)
    return (
        f'<path d="M{x1:.1f},{y1:.1f} C{x1:.1f},{y1 + bend:.1f} {x2:.1f},{y2 - bend:.1f} '
        f'{x2:.1f},{y2:.1f}" fill="none" stroke="#888"/>'
    )


def _labels(edges: list[GraphEdge], places: dict[int, tuple[float, float]]) -> list[str]:
    """The types, one below each source for each type that leaves it."""
    seen: dict[tuple[int, str], None] = {}
    for edge in edges:
        if edge.type:
            seen[edge.source, edge.type] = None
    rank: dict[int, int] = {}
    found: list[str] = []
    for source, type_ in seen:
        x, y = places[source]
        line = rank.get(source, 0)
        rank[source] = line + 1
        found.append(
            f'<text x="{x + 4:.1f}" y="{y + HEIGHT + 14 + 13 * line:.1f}" fill="#134a8e" '
            f'font-size="11">{escape(type_)}</text>'
        )
    return found
