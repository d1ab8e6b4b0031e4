"""A report as one HTML file that needs nothing else: no network, no other files."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from typing import Any

from tawa.cli.report.cards import cards, facts, headline
from tawa.cli.report.code import Pane
from tawa.cli.report.difference import difference
from tawa.cli.report.listing import Place
from tawa.cli.report.model import Report
from tawa.cli.report.timeline import KINDS, Bar, Timeline

STYLES = ("page.css",)
SCRIPTS = ("code.js", "timeline.js", "page.js", "picture.js")

MARK = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Crect x='1' y='3' width='9' height='4' rx='1' fill='%232f6fdb'/%3E"
    "%3Crect x='6' y='9' width='9' height='4' rx='1' fill='%23d9822b'/%3E%3C/svg%3E"
)
"""The page's icon, so that a browser asks nobody for one."""


def html(report: Report) -> str:
    """The page of a report."""
    title = f"{report.compiled.name} · Tawa"
    data = json.dumps(_data(report), separators=(",", ":"), ensure_ascii=False)
    data = data.replace("</", "<\\/")
    script = "\n".join(_asset(name) for name in SCRIPTS)
    body = _asset("page.html")
    for name, part in (("headline", headline), ("facts", facts), ("cards", cards)):
        body = body.replace(f"<!--{name}-->", part(report))
    return _document(
        title,
        f'{body}<script type="application/json" id="data">{data}</script>\n'
        f"<script>\n{script}</script>\n",
    )


def difference_html(one: Report, other: Report, names: tuple[str, str]) -> str:
    """The page of two reports: what differs."""
    return _document(f"{names[0]} and {names[1]} · Tawa", difference(one, other, names))


def _document(title: str, body: str) -> str:
    style = "\n".join(_asset(name) for name in STYLES)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n'
        f'<link rel="icon" href="{MARK}">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}"
        f"</body>\n</html>\n"
    )


def _asset(name: str) -> str:
    return (files("tawa.cli.report") / "assets" / name).read_text("utf-8")


class _Table:
    """Values that occur often, by number."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        """The number of a value."""
        return self.numbers.setdefault(value, len(self.numbers))


def _data(report: Report) -> dict[str, Any]:
    places, strings = _Table(), _Table()
    panes = [_pane(pane, places) for pane in report.panes]
    timelines = [_timeline(t, places, strings) for t in report.timelines]
    return {
        "panes": panes,
        "timelines": timelines,
        "kinds": KINDS,
        "places": [_shown(place) for place in places.numbers],
        "strings": list(strings.numbers),
    }


def _shown(place: Place) -> list[Any]:
    file, line = place
    return [file.rsplit("/", 1)[-1], line]


def _pane(pane: Pane, places: _Table) -> dict[str, Any]:
    """Lines as `[text, label, places, op, folded]`, cut off after the last that says something."""
    lines: list[list[Any]] = []
    defaults: tuple[Any, ...] = (0, None, [], "")
    for line in pane.lines:
        numbers = [places.number(place) for place in line.places]
        row: list[Any] = [line.text, line.label, numbers, line.op, int(line.folded)]
        for nothing in defaults:
            if row[-1] != nothing:
                break
            row.pop()
        lines.append(row)
    return {"name": pane.name, "title": pane.title, "lines": lines}


def _timeline(timeline: Timeline, places: _Table, strings: _Table) -> dict[str, Any]:
    return {
        "title": timeline.title,
        "clock": timeline.clock_ghz,
        "cycles": round(timeline.cycles),
        "note": timeline.note,
        "lanes": [
            {
                "name": lane.name,
                "rows": lane.rows,
                "bars": [_bar(bar, places, strings) for bar in lane.bars],
            }
            for lane in timeline.lanes
        ],
    }


def _bar(bar: Bar, places: _Table, strings: _Table) -> list[Any]:
    """`[start, end, kind, row, name, iteration, slot, op name, op, places]`."""
    texts = (bar.name, bar.iteration, bar.slot, bar.op_name)
    return [
        round(bar.start),
        round(bar.end),
        KINDS.index(bar.kind),
        bar.row,
        *(strings.number(text) for text in texts),
        bar.op,
        [places.number(place) for place in bar.places],
    ]
