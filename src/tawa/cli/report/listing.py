"""Text whose lines know what they come from: the user's source and a module of one level."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.printer import Printer

from tawa.base.spans import LOC, Span, source_line, span_of

Place = tuple[str, int]
"""A file and a line of it, counted from 1."""

HIDDEN = (LOC, "tawa.spec")
"""Attributes that a listing leaves out: what it shows by links, and what the launcher reads."""


@dataclass(frozen=True)
class Line:
    """One line of a listing.

    `label` is what stands in the margin, `places` are the lines of source that the line comes
    from, and `op` is the number of the op it shows, in the order of a walk through the module.
    """

    text: str
    label: str = ""
    places: tuple[Place, ...] = ()
    op: int | None = None
    folded: bool = False


class _LinePrinter(Printer):
    """A printer that notes on which lines each op begins and ends."""

    def __init__(self, stream: StringIO) -> None:
        super().__init__(stream)
        self.spans: list[tuple[Operation, int, int]] = []

    def print_op(self, op: Operation) -> None:
        """Print one op, with all that is in it."""
        begin = self._current_line
        super().print_op(op)
        self.spans.append((op, begin, self._current_line))


def module_listing(module: ModuleOp) -> list[Line]:
    """A module's text without source locations; each line knows the op that it begins or ends."""
    shown = module.clone()
    numbers: dict[Operation, int] = {}
    places: dict[int, tuple[Place, ...]] = {}
    for number, (op, copy) in enumerate(zip(module.walk(), shown.walk(), strict=True)):
        numbers[copy] = number
        if LOC in op.attributes:
            places[number] = places_of(span_of(op))
        for name in HIDDEN:
            copy.attributes.pop(name, None)
    stream = StringIO()
    printer = _LinePrinter(stream)
    printer.print_op(shown)
    owners: dict[int, int] = {}
    for op, begin, end in printer.spans:  # what is inside an op comes before it
        owners[begin] = numbers[op]
        owners.setdefault(end, numbers[op])
    return [
        Line(text, str(at + 1), places.get(owners.get(at, -1), ()), owners.get(at))
        for at, text in enumerate(stream.getvalue().splitlines())
    ]


def places_of(span: Span | None) -> tuple[Place, ...]:
    """The lines that a span covers; of a statement with a body, those before its body."""
    if span is None:
        return ()
    last = span.end_line
    if last > span.line:
        last = min(last, _headers(span.file).get(span.line, last))
    return tuple((span.file, line) for line in range(span.line, last + 1))


@cache
def _headers(file: str) -> dict[int, int]:
    """The last line of the head of each compound statement, by its first line."""
    found: dict[int, int] = {}
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.FunctionDef):
            found[node.lineno] = node.lineno
        elif isinstance(node, ast.For | ast.While | ast.If | ast.With):
            found[node.lineno] = max(node.lineno, node.body[0].lineno - 1)
    return found


@cache
def _tree(file: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:  # code that was typed at a prompt, or not Python
        return ast.Module([], [])


def source_listing(kernel: Place, places: Iterable[Place]) -> list[Line]:
    """The functions of the user's source that ops come from, the kernel's own file first.

    `kernel` is where the kernel is defined. Functions keep their files' line numbers; a line with
    the file's name stands before each file, an empty one between functions.
    """
    wanted: dict[str, set[int]] = {kernel[0]: {kernel[1]}}
    for file, line in places:
        wanted.setdefault(file, set()).add(line)
    found: list[Line] = []
    for file, lines in wanted.items():
        found.append(Line(Path(file).name, folded=True))
        for number, (first, last) in enumerate(_functions(file, lines)):
            if number:
                found.append(Line(""))
            for line in range(first, last + 1):
                text = source_line(file, line) or ""
                found.append(Line(text, str(line), ((file, line),)))
    return found


def _functions(file: str, lines: set[int]) -> Iterator[tuple[int, int]]:
    """First and last lines of the outermost functions that contain any of `lines`."""
    rest = set(lines)
    for node in _tree(file).body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        inside = {line for line in rest if first <= line <= (node.end_lineno or node.lineno)}
        if inside:
            rest -= inside
            yield first, node.end_lineno or node.lineno
    for line in sorted(rest):
        yield line, line
