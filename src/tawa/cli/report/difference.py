"""Two kernels, or one with other options, on one page: what differs, level by level."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from tawa.base.options import Options
from tawa.cli.report.cards import card, fact_rows, short_places
from tawa.cli.report.model import Report
from tawa.cli.report.side_by_side import table

CONTEXT = 3
"""Lines around a difference."""

NOTHING = "none"
"""What stands where one of the two says nothing."""

_MARKS = {"+": "add", "-": "del", "@": "at"}
_REGISTER = re.compile(r"\b(U?[RP])\d+\b")


def difference(one: Report, other: Report, names: tuple[str, str]) -> str:
    """The body of the page: numbers side by side, then the differences of every listing."""
    title = f"{names[0]} and {names[1]}"
    parts = [
        f'<header class="top"><h1>{escape(title)}</h1></header><main><div id="cards">',
        card("Numbers", _numbers(one, other, names), "wide numbers"),
    ]
    if one.timelines and other.timelines:
        times = table(one.timelines[0], other.timelines[0], names)
        parts.append(card("Where the first CTA's time goes, predicted", times, "wide"))
    parts += [
        card(_heading(left.title, lines), _listing(lines), "wide")
        for left, right in zip(one.panes, other.panes, strict=True)
        for lines in [list(_changed(_texts(left), _texts(right)))]
    ]
    return "".join(parts) + "</div></main><footer>Made by <b>tawa report --against</b>.</footer>"


def _numbers(one: Report, other: Report, names: tuple[str, str]) -> str:
    """What is said of both, beside each other; rows that differ are marked."""
    left, right = (dict(_said(report)) for report in (one, other))
    rows = [
        f'<tr class="{"differs" if left.get(key) != right.get(key) else "same"}">'
        f"<td>{escape(key)}</td><td>{left.get(key, NOTHING)}</td>"
        f"<td>{right.get(key, NOTHING)}</td></tr>"
        for key in _in_order(list(left), list(right))
    ]
    head = "".join(f"<th>{escape(text)}</th>" for text in ("", *names))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _in_order(left: list[str], right: list[str]) -> list[str]:
    """All names, in the order of both: what the right alone has comes behind its neighbour."""
    found = list(left)
    for before, name in zip(["", *right][:-1], right, strict=True):
        if name not in found:
            found.insert(found.index(before) + 1 if before else 0, name)
    return found


def _said(report: Report) -> Iterator[tuple[str, str]]:
    """The facts, the options and constants, and what passes decided, as HTML by name."""
    for label, value, note in fact_rows(report):
        yield label, f"{value} <small>{escape(note)}</small>"
    yield "registers a thread", str(report.compiled.n_regs)
    yield "spilled words a thread", str(report.compiled.n_spills)
    plain = vars(Options())
    for name, value in vars(report.options).items():
        if value != plain[name]:
            yield f"option {name}", escape(str(value))
    for name, value in report.constants.items():
        yield f"constant {name}", escape(str(value))
    decided: dict[str, list[str]] = {}
    for remark in report.compiled.remarks:
        who, _, what = remark.partition(": ")
        decided.setdefault(who, []).append(what)
    for who, said in decided.items():
        yield who, short_places("; ".join(said))


def _texts(pane: object) -> list[str]:
    """A listing's lines; registers without their numbers, which say little and differ a lot."""
    lines: Sequence[str] = [line.text for line in getattr(pane, "lines", ())]
    if getattr(pane, "name", "") == "sass":
        return [_REGISTER.sub(r"\1", line) for line in lines]
    return list(lines)


def _changed(one: Sequence[str], other: Sequence[str]) -> Iterator[str]:
    """The lines of a unified difference, without its head."""
    lines = difflib.unified_diff(one, other, lineterm="", n=CONTEXT)
    yield from (line for line in lines if not line.startswith(("---", "+++")))


def _heading(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return f"{title}: the same"
    less, more = (sum(line.startswith(mark) for line in lines) for mark in "-+")
    return f"{title}: {less} lines less, {more} more"


def _listing(lines: Iterable[str]) -> str:
    found = "".join(
        f'<span class="{_MARKS.get(line[:1], "")}">{escape(line)}\n</span>' for line in lines
    )
    if not found:
        return ""
    return f'<details><summary>Show</summary><pre class="diff">{found}</pre></details>'
