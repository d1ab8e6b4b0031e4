"""The parts of a report's page that are tables and small pictures, as HTML."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, cast

from tawa.cli.report.model import Predicted, Report
from tawa.cli.report.side_by_side import table
from tawa.cli.report.timeline import Timeline, shares
from tawa.cli.report.work import Bounds, Limit
from tawa.driver.inspection.occupancy import Buffer, Occupancy
from tawa.driver.prediction.explanation import LEAST_SHOWN, causes_text, line_times, where
from tawa.simulate.timing.lines import busiest

KIB = 1024

_PLACE = re.compile(r"(?:[^\s():]*/)?([\w.-]+\.py):(\d+)(?::\d+)?")


def headline(report: Report) -> str:
    """The kernel's name, and what it is launched with."""
    what = ", ".join(f"{name} {text}" for name, text in _arguments(report))
    return (
        f'<h1>{escape(report.compiled.name)}</h1><p class="launch" title="{escape(what)}">'
        f"{escape(report.file)} · {escape(what)}</p>"
    )


def facts(report: Report) -> str:
    """The numbers that matter most."""
    found = "".join(
        f'<div class="fact"><dt>{escape(label)}</dt><dd>{value}<small>{escape(note)}</small></dd>'
        "</div>"
        for label, value, note in fact_rows(report)
    )
    return f'<dl class="facts">{found}</dl>'


def _arguments(report: Report) -> list[tuple[str, str]]:
    """Names and types of the run-time arguments; of a launch, with the arrays' sizes."""
    if report.launch is None:
        return list(report.types.items())
    values = report.launch.arguments
    names = report.compiled.spec.arguments
    return [(name, _value(report.types.get(name, ""), values[name])) for name in names]


def _value(type_: str, value: Any) -> str:
    shape = getattr(value, "shape", None)
    if not isinstance(shape, tuple | list):
        return f"= {value}"
    element = re.match(r"(?:desc<|\*)(\w+)", type_)
    sizes = ", ".join(str(n) for n in cast("tuple[int, ...]", shape))
    return f"{element[1] if element else ''}[{sizes}]"


def fact_rows(report: Report) -> Iterable[tuple[str, str, str]]:
    """Label, value (as HTML) and note of each of the numbers that matter most."""
    taken = report.occupancy
    if report.predicted is not None:
        prediction, found = report.predicted.prediction, report.predicted.bounds
        kernel, launch = prediction.kernel_seconds, prediction.seconds
        note = f"at {prediction.clock_ghz:.3f} GHz, launch {(launch - kernel) * 1e6:.0f} µs more"
        yield "predicted kernel time", f"{kernel * 1e6:.2f} µs", note
        if found.flops_per_second:
            share = found.flops_per_second / found.peak
            note = f"{share:.0%} of {found.peak / 1e12:.0f} TFLOP/s"
            yield "matrix products", f"{found.flops_per_second / 1e12:.3g} TFLOP/s", note
        first = found.limits[0]
        yield "bound by", escape(found.bound), f"{first.name} busy {first.share:.0%}"
    roles = " + ".join(f"{r.name} {r.warps * r.teams}" for r in taken.roles) or "one role"
    yield "roles, warps", escape(roles), f"{taken.threads} threads a CTA"
    depths = sorted({b.slots for b in taken.buffers if "arrivals" in b.what}, reverse=True)
    if depths:
        in_flight = "" if report.in_flight is None else f", P = {report.in_flight}"
        value = "D = " + ", ".join(map(str, depths)) + in_flight
        yield "pipeline", value, "slots a ring, products in flight"
    share = taken.shared_bytes / taken.shared_available
    note = f"{share:.0%} of {taken.shared_available // KIB} KiB"
    yield "shared memory", f"{taken.shared_bytes / KIB:.1f} KiB", note
    note = f"limited by {taken.limited_by}"
    yield "CTAs a multiprocessor", str(taken.ctas), note


def cards(report: Report) -> str:
    """Where the time goes, shared memory, registers, the schedule and the launch."""
    wide = ""
    if report.predicted is not None:
        wide = card("Where the time goes", _time(report), "wide by-limit")
        wide += card("Time by line", _lines(report.predicted, report.file), "wide by-line")
    if len(report.timelines) > 1:
        one, other = report.timelines[:2]
        times = table(one, other, (one.title, other.title))
        wide += card(f"{one.title.capitalize()} and {other.title}", times, "wide")
    left = [card(f"Actors, {t.title}", _actors(t)) for t in report.timelines]
    left.append(card("Compiled for", _compiled_for(report)))
    right = [
        card("Shared memory", _shared(report.occupancy)),
        card("Registers and occupancy", _registers(report.occupancy)),
    ]
    columns = f"<div>{''.join(left)}</div><div>{''.join(right)}</div>"
    return wide + columns + card("Schedule and remarks", _remarks(report), "wide remarks")


def card(title: str, body: str, kind: str = "") -> str:
    """A part of the page under a heading; `body` is HTML."""
    return f'<section class="card {kind}"><h2>{escape(title)}</h2>{body}</section>'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: str) -> str:
    """A table of HTML cells; columns of `numbers` (indices as digits) are set flush right."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f'<{tag} class="n">{c}</{tag}>' if str(i) in numbers else f"<{tag}>{c}</{tag}>"
            for i, c in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{cells('th', head)}</tr></thead><tbody>{body}</tbody></table>"


def _meter(share: float, kind: str = "") -> str:
    width = max(0.0, min(1.0, share)) * 100
    return f'<span class="meter {kind}"><i style="width:{width:.1f}%"></i></span>'


_METERS = {
    "tensor core": "tensor",
    "copies from L2": "copy",
    "device memory": "memory",
    "stores": "store",
}


def _time(report: Report) -> str:
    assert report.predicted is not None
    predicted = report.predicted
    prediction, work, found = predicted.prediction, predicted.work, predicted.bounds
    rows = [
        (
            escape(limit.name),
            _meter(limit.share, _METERS.get(limit.name, "work")),
            f"{limit.share:.0%}",
            f"{limit.us:.2f}",
            escape(limit.amount),
            escape(limit.rate),
        )
        for limit in found.limits
    ]
    head = ("limit", "share of the kernel's time", "", "µs alone", "work of the launch", "at most")
    waves = f"{prediction.waves:.3g} wave{'s' if prediction.waves > 1 else ''}"
    sampled = ""
    if work.counted < work.clusters:
        sampled = f" The work is counted in {work.counted} of {work.clusters} clusters."
    said = _bound_sentence(found, found.limits[0])
    text = (
        f"<p>{said} {work.ctas} CTA{'s' if work.ctas > 1 else ''} on "
        f"{report.target.multiprocessors} multiprocessors: {waves} of {prediction.cycles:.0f} "
        f"cycles. Shares are of all multiprocessors' time, as replayed CTAs are busy.{sampled}</p>"
    )
    table = text + _table(head, rows, "23")
    if not found.flops_per_second or not found.intensity:
        return table
    return f'<div class="split"><div>{table}</div>{roofline(found)}</div>'


def _lines(predicted: Predicted, file: str) -> str:
    """The lines that take most of the time of the actor that waits least for others."""
    spent = busiest(predicted.prediction.accounts)
    rows = [
        (
            escape(where(line.place, file)),
            f"<code>{escape(line.text)}</code>",
            _meter(line.share),
            f"{line.share:.0%}",
            f"{line.us:.2f}",
            escape(causes_text(line)),
        )
        for line in line_times(predicted.prediction, spent)
        if line.share >= LEAST_SHOWN
    ]
    head = ("", "line", "share of the kernel's time", "", "µs", "what it goes to")
    return (
        f"<p>What <code>{escape(spent.actor)}</code>, which waits least for others, spends on "
        "each line of the source.</p>" + _table(head, rows, "34")
    )


def _bound_sentence(found: Bounds, first: Limit) -> str:
    if found.bound == "latency":
        return (
            f"<b>Latency</b> bounds this launch: no resource works more than {first.share:.0%} of "
            "the time, so the time goes into waiting (see the actors)."
        )
    return f"<b>{escape(found.bound[:1].upper() + found.bound[1:])}</b> bounds this launch."


def roofline(found: Bounds) -> str:
    """Operations a byte against operations a second, both logarithmic, as SVG."""
    width, height, left, bottom = 300, 170, 44, 26
    ridge = found.peak / found.memory_rate
    points = (ridge, found.intensity)
    low_x = math.floor(math.log10(min(points)) - 0.5)
    high_x = math.ceil(math.log10(max(points)) + 0.5)
    high_y = math.log10(found.peak) + 0.3
    low_y = min(math.log10(found.flops_per_second) - 0.4, high_y - 3)

    def x(value: float) -> float:
        return left + (math.log10(value) - low_x) / (high_x - low_x) * (width - left - 8)

    def y(value: float) -> float:
        at = (math.log10(value) - low_y) / (high_y - low_y)
        return (height - bottom) - at * (height - bottom - 8)

    floor = 10**low_y
    start = max(10.0**low_x, floor / found.memory_rate)
    roof = (
        f"M{x(start):.1f},{y(start * found.memory_rate):.1f} L{x(ridge):.1f},{y(found.peak):.1f} "
        f"L{width - 8},{y(found.peak):.1f}"
    )
    ticks = "".join(
        f'<line class="grid" x1="{x(10.0**e):.1f}" x2="{x(10.0**e):.1f}" y1="8" '
        f'y2="{height - bottom}"/><text x="{x(10.0**e):.1f}" y="{height - bottom + 12}" '
        f'text-anchor="{"end" if e == high_x else "middle"}">{_power(e)}</text>'
        for e in range(low_x, high_x + 1)
    )
    rows = "".join(
        f'<line class="grid" x1="{left}" x2="{width - 8}" y1="{y(10.0**e):.1f}" '
        f'y2="{y(10.0**e):.1f}"/><text x="{left - 4}" y="{y(10.0**e) + 3:.1f}" '
        f'text-anchor="end">{_tera(e)}</text>'
        for e in range(math.ceil(low_y), math.floor(high_y) + 1)
    )
    at_x, at_y = x(found.intensity), y(found.flops_per_second)
    return (
        f'<figure class="roofline"><svg viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="roofline">{ticks}{rows}<path class="roof" d="{roof}"/>'
        f'<line class="gap" x1="{at_x:.1f}" x2="{at_x:.1f}" y1="{at_y:.1f}" '
        f'y2="{y(min(found.peak, found.intensity * found.memory_rate)):.1f}"/>'
        f'<circle cx="{at_x:.1f}" cy="{at_y:.1f}" r="4"/>'
        f'<text x="{(left + width) / 2:.0f}" y="{height - 2}" text-anchor="middle">FLOP a byte of '
        "device memory</text></svg><figcaption>Roofline, TFLOP/s: device memory, then the tensor "
        "cores at the stated clock; the dot is this launch.</figcaption></figure>"
    )


def _power(exponent: int) -> str:
    return f"{10**exponent:,}" if 0 <= exponent <= 4 else f"10<tspan dy='-3'>{exponent}</tspan>"


def _tera(exponent: int) -> str:
    value = 10.0 ** (exponent - 12)
    return f"{value:g}"


def _actors(timeline: Timeline) -> str:
    rows: list[Sequence[str]] = []
    for lane in timeline.lanes:
        if not lane.bars or any(bar.kind in ("copy", "tensor", "store") for bar in lane.bars):
            continue
        found = shares(lane, timeline.cycles)
        work = found.pop("work", 0.0)
        waits = sorted(found.items(), key=lambda item: -item[1])
        stack = _stack([("work", work), *(("wait", share) for _, share in waits)])
        named = ", ".join(f"{name} {share:.0%}" for name, share in waits if share >= 0.005)
        rows.append((escape(lane.name), stack, f"{work:.0%}", escape(named or "none")))
    return _table(("actor", "of the CTA's time", "works", "waits"), rows, "2")


def _stack(parts: Iterable[tuple[str, float]]) -> str:
    segments = "".join(
        f'<i class="{kind}" style="width:{share * 100:.2f}%"></i>' for kind, share in parts
    )
    return f'<span class="meter stack">{segments}</span>'


def _shared(found: Occupancy) -> str:
    """A map of the CTA's shared memory, and a table of its buffers."""
    whole = found.shared_available
    pieces = "".join(
        f'<i class="b{number % 6}" style="left:{b.offset / whole * 100:.3f}%;'
        f'width:{max(b.bytes / whole * 100, 0.25):.3f}%" title="{escape(_buffer_text(b))}">'
        + f"<u style='width:{100 / b.slots:.3f}%'></u>" * (b.slots if b.bytes > 2 * KIB else 0)
        + "</i>"
        for number, b in enumerate(found.buffers)
    )
    rows = [
        (
            f'<span class="key b{number % 6}"></span>{escape(b.name)}',
            f"{b.offset:,}",
            f"{b.bytes:,}",
            str(b.slots),
            escape(b.what),
        )
        for number, b in enumerate(found.buffers)
    ]
    free = whole - found.shared_bytes
    rows.append(("free", "", f"{free:,}", "", f"of {whole:,} bytes ({whole // KIB} KiB)"))
    return f'<div class="map" role="img" aria-label="shared memory map">{pieces}</div>' + _table(
        ("buffer", "offset", "bytes", "slots", "a slot holds"), rows, "123"
    )


def _buffer_text(b: Buffer) -> str:
    return f"{b.name}: {b.bytes:,} bytes at {b.offset:,}, {b.slots} slots of {b.what}"


def _registers(found: Occupancy) -> str:
    pool = found.register_file
    segments = "".join(
        f'<i class="b{number % 6}" style="width:{r.warps * r.teams * 32 * r.registers / pool:.3%}"'
        f' title="{escape(r.name)}"></i>'
        for number, r in enumerate(found.roles)
    )
    rows = [
        (
            f'<span class="key b{number % 6}"></span>{escape(r.name)}',
            str(r.warps * r.teams),
            f"{r.registers}" + ("" if r.raised else " (launch)"),
            f"{r.warps * r.teams * 32 * r.registers:,}",
            "one thread" if r.single else (f"{r.teams} teams" if r.teams > 1 else ""),
        )
        for number, r in enumerate(found.roles)
    ]
    limits = ", ".join(f"{name} {count}" for name, count in found.limits.items())
    return (
        f'<div class="map registers">{segments}</div>'
        + _table(("role", "warps", "registers a thread", "registers", ""), rows, "123")
        + f"<p>{found.registers_in_use:,} of {pool:,} registers; {found.entry_registers} a thread "
        f"at entry. A multiprocessor holds {found.ctas} CTA{'s' if found.ctas > 1 else ''} "
        f"(by resource: {escape(limits)}).</p>"
    )


def _remarks(report: Report) -> str:
    rows: list[Sequence[str]] = []
    for by, sentence in dict.fromkeys((d.by, d.sentence) for d in report.compiled.decisions):
        first, _, rest = sentence.partition("\n")
        shown = _with_places(first) + (f"<pre>{escape(rest)}</pre>" if rest else "")
        rows.append((f"<code>{escape(by)}</code>", shown))
    return _table(("pass", "what it decided"), rows, "")


def short_places(text: str) -> str:
    """Text with places in files without the folders."""
    return escape(_PLACE.sub(r"\1:\2", text))


def _with_places(text: str) -> str:
    """Text with places in files as links to their lines, without the folders."""
    return _PLACE.sub(r'<a href="#code" data-line="\1:\2">\1:\2</a>', escape(text))


def _compiled_for(report: Report) -> str:
    rows = [("target", escape(report.target.name))]
    rows += [(escape(n), f"<code>{escape(t)}</code>") for n, t in report.types.items()]
    rows += [(escape(n), f"<code>{escape(repr(v))}</code>") for n, v in report.constants.items()]
    default = type(report.options)()
    for name, value in vars(report.options).items():
        if value != getattr(default, name):
            rows.append((escape(name), f"<code>{escape(repr(value))}</code>"))
    if report.launch is not None:
        rows.append(("grid", escape(" x ".join(map(str, report.launch.grid)))))
    return _table(("name", "value"), rows, "")
