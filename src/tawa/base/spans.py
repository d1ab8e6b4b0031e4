"""The op attribute that carries ranges of the user's source (`base.source`) through the IR.

A `Span` says where in the user's program something stands. The front end attaches one to every
op it makes, as the attribute `loc` of type `SpanAttr`, so that a diagnostic from any later pass
can still point at the line that the user wrote.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tawa.base.source import Span, source_line

__all__ = [
    "LOC",
    "Span",
    "SpanAttr",
    "attribute_of",
    "copy_span",
    "set_span",
    "source_line",
    "span_of",
]

LOC = "loc"
"""Name of the op attribute that holds the span."""


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
        super().__init__(_file(span.file), *map(_number, numbers))

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
            if span.file.isascii() and span.file.isprintable() and not {*'"\\'} & {*span.file}:
                printer.print_string(f'"{span.file}"')  # at once, not letter by letter
            else:
                printer.print_string_literal(span.file)
            numbers = (span.line, span.column, span.end_line, span.end_column)
            printer.print_string("".join(f", {number}" for number in numbers))


_file = lru_cache(maxsize=1 << 8)(StringAttr)
_number = lru_cache(maxsize=1 << 12)(IntAttr)
"""Parts that many places share."""


@lru_cache(maxsize=1 << 14)
def attribute_of(span: Span) -> SpanAttr:
    """The attribute that holds a span: one object for all ops of a place."""
    return SpanAttr(span)


def set_span(op: Operation, span: Span | None) -> None:
    """Attach `span` to `op`; None leaves the op as it is."""
    if span is not None:
        op.attributes[LOC] = attribute_of(span)


def span_of(op: Operation | None) -> Span | None:
    """The span of `op`, or of the nearest op around it that has one."""
    found = _attribute(op)
    return None if found is None else found.span


def _attribute(op: Operation | None) -> SpanAttr | None:
    while op is not None:
        loc = op.attributes.get(LOC)
        if isinstance(loc, SpanAttr):
            return loc
        op = op.parent_op()
    return None


def copy_span(source: Operation, targets: Iterable[Operation]) -> None:
    """Give `source`'s span to those of `targets` that have none."""
    found = _attribute(source)
    if found is not None:
        for op in targets:
            op.attributes.setdefault(LOC, found)
