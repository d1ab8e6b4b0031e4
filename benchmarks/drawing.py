"""Plots as SVG text, for a light or a dark page; the same data gives the same bytes.

Three forms: `strips` (a row a group, a dot a case, on a logarithmic scale), `curves` (panels of
lines) and `bars` (one a step).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 760
ROW = 26
"""Height of a row of strips and bars, in pixels."""

MARKS = ("circle", "diamond", "square", "triangle")
"""Series differ in shape as well as in colour."""


@dataclass(frozen=True)
class Theme:
    """The colours of a page."""

    text: str
    muted: str
    grid: str
    series: tuple[str, ...]


THEMES = {
    "light": Theme("#1f2328", "#59636e", "#d1d9e0", ("#0969da", "#bc4c00", "#1a7f37", "#8250df")),
    "dark": Theme("#f0f6fc", "#9198a1", "#3d444d", ("#4493f8", "#f0883e", "#3fb950", "#ab7df8")),
}


@dataclass(frozen=True)
class Strips:
    """Ratios of cases in groups: what a dot says stands in `says`, under the axis."""

    title: str
    says: str
    groups: dict[str, dict[str, list[float]]]
    """Of each group, in order, and each series: the ratios."""

    @property
    def series(self) -> list[str]:
        """The names of the series, in the order of their first use."""
        return list(dict.fromkeys(name for group in self.groups.values() for name in group))


@dataclass(frozen=True)
class Curves:
    """Panels with lines through points (x, y); x is on a logarithmic scale of base two."""

    title: str
    says: str
    across: str
    panels: dict[str, dict[str, list[tuple[float, float]]]]


@dataclass(frozen=True)
class Bars:
    """Panels of bars with their values, and a line across at `mark`, if there is one."""

    title: str
    unit: str
    panels: dict[str, list[tuple[str, float]]]
    mark: tuple[str, float] | None = None


Plot = Strips | Curves | Bars


def draw(plot: Plot, theme: str) -> str:
    """The SVG file of a plot."""
    colours = THEMES[theme]
    if isinstance(plot, Strips):
        body, height = strips(plot, colours)
    elif isinstance(plot, Curves):
        body, height = curves(plot, colours)
    else:
        body, height = bars(plot, colours)
    font = "font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' role='img' "
        f"font-size='13' {font}>\n<title>{escape(plot.title)}</title>\n"
    )
    title = text(0, 18, plot.title, colours.text, weight=600, size=15)
    return head + "\n".join([title, *body]) + "\n</svg>\n"


def strips(plot: Strips, theme: Theme) -> tuple[list[str], int]:
    """Dots of each case, a row a group, and a tick at each geometric mean."""
    left, top = indent(plot.groups), 56
    right = WIDTH - 30 - 30 * len(plot.series)
    values = [v for group in plot.groups.values() for found in group.values() for v in found]
    low, high = min(0.95, *values) / 1.04, max(1.05, *values) * 1.04
    bottom = top + ROW * len(plot.groups)

    def across(value: float) -> float:
        return left + (right - left) * math.log(value / low) / math.log(high / low)

    out = legend(plot.series, 42, theme)
    for tick in ticks(low, high):
        colour = theme.muted if tick == 1 else theme.grid
        out.append(line(across(tick), top - 4, across(tick), bottom, colour))
        out.append(text(across(tick), bottom + 16, f"{tick:g}", theme.muted, anchor="middle"))
    for row, (name, group) in enumerate(plot.groups.items()):
        middle = top + ROW * row + ROW / 2
        out.append(text(left - 12, middle + 4, name, theme.text, anchor="end"))
        means: list[str] = []
        for series, found in group.items():
            index = plot.series.index(series)
            colour, at = theme.series[index], middle + 5 * (index - (len(plot.series) - 1) / 2)
            out += [mark(MARKS[index], across(v), at, colour, 0.55) for v in found]
            mean = geometric_mean(found)
            out.append(line(across(mean), at - 7, across(mean), at + 7, colour, 2.5))
            means.append(f"{mean:.2f}")
        out.append(text(WIDTH, middle + 4, ", ".join(means), theme.muted, anchor="end", size=11))
    out.append(text(left, bottom + 36, plot.says, theme.muted))
    return out, bottom + 44


def curves(plot: Curves, theme: Theme) -> tuple[list[str], int]:
    """Panels side by side, two in a row, all on one scale."""
    names = list(dict.fromkeys(name for lines in plot.panels.values() for name in lines))
    points = [p for lines in plot.panels.values() for found in lines.values() for p in found]
    highest = max(y for _, y in points)
    step = next(s for s in (50, 100, 200, 500, 1000) if highest / s <= 6)
    columns = sorted({x for x, _ in points})
    out, wide, tall = legend(names, 42, theme), WIDTH / 2, 210
    for index, (title, lines) in enumerate(plot.panels.items()):
        left, top = 40 + wide * (index % 2), 74 + (tall + 62) * (index // 2)

        def at(x: float, y: float, left: float = left, top: float = top) -> tuple[float, float]:
            share = math.log(x / columns[0]) / math.log(columns[-1] / columns[0])
            return left + share * (wide - 70), top + tall * (1 - y / (highest * 1.05))

        out.append(text(left, top - 8, title, theme.text, weight=600))
        for value in range(0, int(highest) + 1, step):
            (x0, y), (x1, _) = at(columns[0], value), at(columns[-1], value)
            out.append(line(x0, y, x1, y, theme.grid))
            out.append(text(x0 - 6, y + 4, str(value), theme.muted, anchor="end", size=11))
        for x in columns:
            place = at(x, 0)
            out.append(text(place[0], place[1] + 16, short(x), theme.muted, "middle", size=11))
        for name, found in lines.items():
            series = names.index(name)
            colour = theme.series[series]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*p) for p in found))
            out.append(f"<polyline points='{path}' fill='none' stroke='{colour}'/>")
            out += [mark(MARKS[series], *at(*p), colour, 1.0) for p in found]
    rows = (len(plot.panels) + 1) // 2
    height = 74 + (tall + 62) * rows - 10
    out.append(text(0, height - 6, f"{plot.says}; across: {plot.across}", theme.muted))
    return out, height


def bars(plot: Bars, theme: Theme) -> tuple[list[str], int]:
    """Bars below each other, with their values."""
    left = indent(name for panel in plot.panels.values() for name, _ in panel)
    right, top = WIDTH - 60, 34
    highest = max(value for panel in plot.panels.values() for _, value in panel)
    scale = (right - left) / max(highest, plot.mark[1] if plot.mark else 0)
    out: list[str] = []
    for title, panel in plot.panels.items():
        if title:
            out.append(text(0, top + 16, title, theme.text, weight=600))
            top += ROW
        for name, value in panel:
            out.append(text(left - 10, top + 17, name, theme.text, anchor="end"))
            colour = theme.series[0]
            out.append(f"<rect x='{left}' y='{top + 4}' width='{value * scale:.1f}' height='18' "
                       f"fill='{colour}'/>")  # fmt: skip
            shown = f"{value:.0f}" if value >= 100 else f"{value:.1f}"
            out.append(text(left + value * scale + 6, top + 17, shown, theme.text))
            top += ROW
        top += 6
    if plot.mark:
        name, value = plot.mark
        out.append(line(left + value * scale, 34, left + value * scale, top, theme.series[1], 2))
        out.append(text(left + value * scale - 4, top + 14, name, theme.series[1], anchor="end"))
    out.append(text(0, top + 14, plot.unit, theme.muted))
    return out, top + 22


def indent(names: Iterable[str]) -> int:
    """Where a plot begins beside the names of its rows."""
    return 20 + round(7.2 * max(map(len, names)))


def legend(names: Sequence[str], at: float, theme: Theme) -> list[str]:
    """The names of the series with their marks, if there are several."""
    if len(names) < 2:
        return []
    out: list[str] = []
    left = 6.0
    for index, name in enumerate(names):
        out.append(mark(MARKS[index], left, at - 4, theme.series[index], 1.0))
        out.append(text(left + 10, at, name, theme.text))
        left += 30 + 7.2 * len(name)
    return out


def text(x: float, y: float, words: str, colour: str, anchor: str = "start", weight: int = 400,
         size: int = 13) -> str:  # fmt: skip
    """A text element; attributes that are the document's own are left out."""
    more = "" if anchor == "start" else f" text-anchor='{anchor}'"
    more += "" if weight == 400 else f" font-weight='{weight}'"
    more += "" if size == 13 else f" font-size='{size}'"
    return f"<text x='{x:.1f}' y='{y:.1f}' fill='{colour}'{more}>{escape(words)}</text>"


def line(x0: float, y0: float, x1: float, y1: float, colour: str, width: float = 1) -> str:
    """A straight line."""
    ends = f"x1='{x0:.1f}' y1='{y0:.1f}' x2='{x1:.1f}' y2='{y1:.1f}'"
    return f"<line {ends} stroke='{colour}' stroke-width='{width:g}'/>"


def mark(shape: str, x: float, y: float, colour: str, opacity: float) -> str:
    """A point of a series."""
    paint = f"fill='{colour}' fill-opacity='{opacity:g}'"
    if shape == "circle":
        return f"<circle cx='{x:.1f}' cy='{y:.1f}' r='4' {paint}/>"
    corners = {
        "diamond": ((0, -5), (5, 0), (0, 5), (-5, 0)),
        "square": ((-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5)),
        "triangle": ((0, -5), (5, 4), (-5, 4)),
    }[shape]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return f"<polygon points='{points}' {paint}/>"


def ticks(low: float, high: float) -> list[float]:
    """Round ratios between two, denser where the range is narrow."""
    wide = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
    medium = (0.5, 0.7, 1, 1.5, 2, 3, 4, 5)
    narrow = (0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.4, 1.6, 1.8, 2)
    spread = high / low
    chosen: Iterable[float] = narrow if spread < 3 else medium if spread < 12 else wide
    return [tick for tick in chosen if low < tick < high]


def short(number: float) -> str:
    """A size as it is spoken of: 16384 is 16k."""
    return f"{number / 1024:g}k" if number >= 1024 and number % 1024 == 0 else f"{number:g}"


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))
