"""A timeline as a still picture: rectangles and texts, written as SVG or drawn as PNG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from io import BytesIO
from typing import Any

from tawa.base.errors import TawaError
from tawa.cli.report.timeline import Bar, Timeline

COLOURS = {
    "work": "#7b6bb5",
    "wait": "#d7dbdf",
    "copy": "#2f86c9",
    "tensor": "#d9822b",
    "store": "#3c9a62",
}
NAMES = {
    "copy": "copy in",
    "tensor": "matrix products",
    "work": "ordinary code",
    "store": "store",
    "wait": "wait",
}
INK, DIM, GRID, PAPER = "#1c2126", "#66707a", "#e8eaeb", "#ffffff"

LEFT, RIGHT, TOP, ROW, GAP = 130, 20, 74, 20, 7
SCALE = 2
"""Pixels of a PNG for each unit of the picture."""


class PillowMissing(TawaError):
    """Pictures as PNG need Pillow, which is not installed."""

    explanation = (
        "A PNG is drawn with Pillow, an optional requirement: `pip install 'tawa[pictures]'`. "
        "SVG and Perfetto's JSON need nothing."
    )


@dataclass(frozen=True)
class Box:
    """A filled rectangle, with a text that viewers show where they can."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    title: str = ""


@dataclass(frozen=True)
class Text:
    """A line of text; `y` is its baseline, `anchor` start, middle or end."""

    x: float
    y: float
    text: str
    fill: str = DIM
    size: int = 12
    anchor: str = "start"


@dataclass(frozen=True)
class Picture:
    """Boxes in the order they are drawn, then texts."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    texts: tuple[Text, ...]


def picture(title: str, timelines: Sequence[Timeline], width: int = 1400) -> Picture:
    """The timelines above each other, on one axis in microseconds.

    The unit is written `us`, since not every font has the Greek letter.
    """
    end = max((t.cycles / t.clock_ghz / 1e3 for t in timelines), default=1.0) or 1.0
    boxes: list[Box] = []
    texts = [Text(16, 26, title, INK, 16), *_legend(boxes)]
    y = TOP
    for timeline in timelines:
        if len(timelines) > 1 or timeline.note:
            texts.append(Text(16, y + 14, f"{timeline.title} {timeline.note}".strip(), INK, 13))
            y += ROW
        for lane in timeline.lanes:
            texts.append(Text(LEFT - 10, y + 13, _fit(lane.name, LEFT - 20), anchor="end"))
            for bar in lane.bars:
                _draw(bar, y, timeline.clock_ghz, end, width, boxes, texts)
            y += lane.rows * ROW + GAP
    axis = list(_axis(end, width, y))
    grid = [part for part in axis if isinstance(part, Box)]
    labels = [part for part in axis if isinstance(part, Text)]
    return Picture(width, y + 14, tuple(grid + boxes), tuple(texts + labels))


def _legend(boxes: list[Box]) -> Iterator[Text]:
    x = 16.0
    for kind, name in NAMES.items():
        boxes.append(Box(x, 37, 10, 10, COLOURS[kind]))
        yield Text(x + 15, 46, name)
        x += 32 + 6.6 * len(name)


def _axis(end: float, width: int, bottom: float) -> Iterator[Box | Text]:
    power = 10.0 ** math.floor(math.log10(end / 8))
    step = next(n * power for n in (1, 2, 5, 10) if end / (n * power) <= 12)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    for number in range(int(end / step + 1e-9) + 1):
        x = _x(number * step, end, width)
        yield Box(x, TOP - 4, 1, bottom - TOP + 4, GRID)
        yield Text(x, TOP - 7, f"{number * step:.{digits}f} us", size=11, anchor="middle")


def _x(micro: float, end: float, width: int) -> float:
    return LEFT + micro / end * (width - LEFT - RIGHT)


def _draw(
    bar: Bar, y: float, clock: float, end: float, width: int, boxes: list[Box], texts: list[Text]
) -> None:
    left, right = (_x(t / clock / 1e3, end, width) for t in (bar.start, bar.end))
    top = y + bar.row * ROW
    parts = (bar.name, bar.iteration, bar.slot, *(f"line {n}" for _, n in bar.places[:1]))
    took = f"{bar.end - bar.start:.0f} cycles from {bar.start:.0f}"
    title = ", ".join(filter(None, (*parts, took)))
    boxes.append(Box(left, top, max(0.6, right - left - 0.7), ROW - 3, COLOURS[bar.kind], title))
    label = _fit(" ".join(filter(None, (bar.name, bar.slot))), right - left - 8)
    if label:
        fill = DIM if bar.kind == "wait" else PAPER
        texts.append(Text(left + 4, top + 12.5, label, fill, 11))


def _fit(text: str, room: float) -> str:
    """As much of a text as fits, by the width of an average letter."""
    most = int(room / 6.2)
    if len(text) <= most:
        return text
    return text[: most - 1] + "…" if most > 2 else ""


def svg(found: Picture) -> str:
    """The picture as an SVG document."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {found.width} {found.height}" '
        f'width="{found.width}" height="{found.height}" '
        'font-family="system-ui, Segoe UI, Roboto, DejaVu Sans, sans-serif">',
        f'<rect width="{found.width}" height="{found.height}" fill="{PAPER}"/>',
    ]
    for box in found.boxes:
        title = f"<title>{escape(box.title)}</title>" if box.title else ""
        parts.append(
            f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
            f'height="{box.height:.1f}" fill="{box.fill}">{title}</rect>'
        )
    for text in found.texts:
        parts.append(
            f'<text x="{text.x:.1f}" y="{text.y:.1f}" fill="{text.fill}" '
            f'font-size="{text.size}" text-anchor="{text.anchor}">{escape(text.text)}</text>'
        )
    return "\n".join([*parts, "</svg>\n"])


def png(found: Picture) -> bytes:
    """The picture as a PNG. Raises `PillowMissing`."""
    try:
        image_module: Any = import_module("PIL.Image")
        draw_module: Any = import_module("PIL.ImageDraw")
        font_module: Any = import_module("PIL.ImageFont")
    except ImportError as error:
        raise PillowMissing(
            "a PNG needs Pillow",
            found=str(error),
            hint="pip install 'tawa[pictures]', or write .svg or .json",
        ) from error
    image = image_module.new("RGB", (found.width * SCALE, found.height * SCALE), PAPER)
    draw = draw_module.Draw(image)
    for box in found.boxes:
        right, bottom = box.x + box.width, box.y + box.height
        corners = [box.x, box.y, max(box.x + 0.5, right - 0.5), bottom - 0.5]
        draw.rectangle([round(c * SCALE) for c in corners], fill=box.fill)
    anchors = {"start": "ls", "middle": "ms", "end": "rs"}
    for text in found.texts:
        font = font_module.load_default(text.size * SCALE)
        place = (text.x * SCALE, text.y * SCALE)
        draw.text(place, text.text, fill=text.fill, font=font, anchor=anchors[text.anchor])
    out = BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()
