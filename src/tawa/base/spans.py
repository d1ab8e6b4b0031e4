"""Ranges of the user's source, and the op attribute that carries them through the IR.

A `Span` says where in the user's program something stands. The front end attaches one to every
op it makes, as the attribute `loc` of type `SpanAttr`, so that a diagnostic from any later pass
can still point at the line that the user wrote.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

LOC = "loc"
"""Name of the op attribute that holds the span."""


@dataclass(frozen=True, slots=True)
class Span:
    """A range of characters in a source file.

    Lines count from 1 and columns from 0, as in Python's `ast`; `end_column` is the column after
    the last character. Printed columns count from 1, as editors do.
    """

    file: str
    line: int
    column: int = 0
    end_line: int = 0
    end_column: int = 0

    def __post_init__(self) -> None:
        """Make a span without an end cover one character."""
        if self.end_line < self.line:
            object.__setattr__(self, "end_line", self.line)
            object.__setattr__(self, "end_column", self.column + 1)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column + 1}"

    @staticmethod
    def of_node(
        node: ast.expr | ast.stmt | ast.arg | ast.keyword,
        file: str,
        *,
        first_line: int = 1,
        indent: int = 0,
    ) -> Span:
        """The span of a node of a parsed fragment of `file`.

        `first_line` is the line of the file on which the fragment starts, and `indent` the
        number of columns that were cut from each of its lines (`textwrap.dedent`).
        """
        end_line = node.end_lineno if node.end_lineno is not None else node.lineno
        end_column = node.end_col_offset
        if end_column is None:
            end_column = node.col_offset + 1
        shift = first_line - 1
        return Span(
            file,
            node.lineno + shift,
            _character(file, node.lineno + shift, node.col_offset, indent),
            end_line + shift,
            _character(file, end_line + shift, end_column, indent),
        )

    def source_line(self, line: int | None = None) -> str | None:
        """The text of `line` (by default the span's first), or None when there is no source."""
        return source_line(self.file, self.line if line is None else line)

    def to(self, other: Span) -> Span:
        """The span from this one's start to `other`'s end."""
        return Span(self.file, self.line, self.column, other.end_line, other.end_column)


def source_line(file: str, line: int) -> str | None:
    """Line number `line` of `file` without its line break, or None when it can't be read.

    Reads through `linecache`, so code typed at a prompt or registered there is found too.
    """
    linecache.checkcache(file)
    text = linecache.getline(file, line)
    return text.rstrip("\r\n") if text else None


def _character(file: str, line: int, byte: int, indent: int) -> int:
    """The character column of a column that `ast` counts in UTF-8 bytes."""
    text = source_line(file, line)
    if text is None or text.isascii():
        return byte + indent
    encoded = text[indent:].encode()
    return indent + len(encoded[:byte].decode(errors="ignore"))


@irdl_attr_definition
class SpanAttr(ParametrizedAttribute):
    """A `Span` as an attribute: `#tawa.span<"kernel.py", 12, 4, 12, 20>`."""

    name = "tawa.span"

    file: StringAttr
    line: IntAttr
    column: IntAttr
    end_line: IntAttr
    end_column: IntAttr

    def __init__(self, span: Span) -> None:
        numbers = (span.line, span.column, span.end_line, span.end_column)
        super().__init__(StringAttr(span.file), *(IntAttr(number) for number in numbers))

    @property
    def span(self) -> Span:
        """The span that this attribute holds."""
        return Span(
            self.file.data,
            self.line.data,
            self.column.data,
            self.end_line.data,
            self.end_column.data,
        )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        """Parse `<"file", line, column, end_line, end_column>`."""
        with parser.in_angle_brackets():
            encoded = parser.parse_optional_bytes_literal()  # what non-ASCII strings lex as
            file = parser.parse_str_literal() if encoded is None else encoded.decode()
            numbers: list[Attribute] = []
            for _ in range(4):
                parser.parse_punctuation(",")
                numbers.append(IntAttr(parser.parse_integer(allow_boolean=False)))
        return [StringAttr(file), *numbers]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<"file", line, column, end_line, end_column>`."""
        span = self.span
        with printer.in_angle_brackets():
            printer.print_string_literal(span.file)
            numbers = (span.line, span.column, span.end_line, span.end_column)
            printer.print_string("".join(f", {number}" for number in numbers))


def set_span(op: Operation, span: Span | None) -> None:
    """Attach `span` to `op`; None leaves the op as it is."""
    if span is not None:
        op.attributes[LOC] = SpanAttr(span)


def span_of(op: Operation | None) -> Span | None:
    """The span of `op`, or of the nearest op around it that has one."""
    while op is not None:
        loc = op.attributes.get(LOC)
        if isinstance(loc, SpanAttr):
            return loc.span
        op = op.parent_op()
    return None


def copy_span(source: Operation, targets: Iterable[Operation]) -> None:
    """Give `source`'s span to those of `targets` that have none."""
    span = span_of(source)
    for op in targets:
        if LOC not in op.attributes:
            set_span(op, span)
