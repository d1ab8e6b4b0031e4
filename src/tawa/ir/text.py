"""The text of a module, as xDSL prints it letter for letter, in about half of the time.

Every word goes through `print_string`, and most of them are types, places in the source and names
that were printed before: their text is kept, and pieces are joined once at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.printer import Printer

Kept: TypeAlias = dict[int, tuple[str, Attribute]]
"""The texts of attributes by identity, which they keep while they are here."""


class _Delimited(AbstractContextManager[None]):
    """Prints a text before what is inside, and another behind it unless that fails."""

    __slots__ = ("_end", "_printer", "_start")

    def __init__(self, printer: Printer, start: str, end: str) -> None:
        self._printer, self._start, self._end = printer, start, end

    def __enter__(self) -> None:
        self._printer.print_string(self._start)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._printer.print_string(self._end)


class TextPrinter(Printer):
    """Prints into a list; `kept` are attributes' texts that are known, to which it adds."""

    def __init__(self, kept: Kept | None = None) -> None:
        super().__init__(stream=None)
        self._pieces: list[str] = []
        self._kept: Kept = {} if kept is None else kept
        self._names: dict[int, tuple[str, SSAValue]] = {}
        """Values' names by identity, which they keep too."""
        self._types: dict[tuple[int, ...], str] = {}
        """Types of operands and results, which `_kept` keeps."""

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        """Print a text; a new line gets the indentation of now, or the one that is given."""
        if "\n" in text:
            deep = self._indent if indent is None else indent
            text = text.replace("\n", "\n" + " " * (deep * self.indent_num_spaces))
        self._pieces.append(text)

    def _print_new_line(self, indent: int | None = None, print_message: bool = True) -> None:
        deep = self._indent if indent is None else indent
        self._pieces.append("\n" + " " * (deep * self.indent_num_spaces))

    def delimited(self, start: str, end: str) -> Any:
        """What is inside, between two texts."""
        return _Delimited(self, start, end)

    def print_attribute(self, attribute: Attribute) -> None:
        """Print an attribute, or what it was printed as before."""
        found = self._kept.get(id(attribute))
        if found is None:
            pieces, self._pieces = self._pieces, []
            super().print_attribute(attribute)
            found = self._kept[id(attribute)] = "".join(self._pieces), attribute
            self._pieces = pieces
        self._pieces.append(found[0])

    def print_attr_dict(self, attr_dict: Mapping[str, Attribute]) -> None:
        """Print attributes with their names, in braces."""
        before = "{"
        for name, attribute in attr_dict.items():
            self._pieces.append(before)
            self.print_identifier_or_string_literal(name)
            if not isinstance(attribute, UnitAttr):
                self._pieces.append(" = ")
                self.print_attribute(attribute)
            before = ", "
        self._pieces.append("}" if attr_dict else "{}")

    def print_ssa_value(self, value: SSAValue) -> str:
        """Print a value's name, which it gets when it is printed first."""
        found = self._names.get(id(value))
        if found is not None:
            self._pieces.append(found[0])
            return found[0][1:]
        name = super().print_ssa_value(value)
        self._names[id(value)] = f"%{name}", value
        return name

    def print_operation_type(self, op: Operation) -> None:
        """Print the types of an op's operands and results."""
        operands = [value.type for value in op.operands]
        results = [value.type for value in op.results]
        key = *map(id, operands), 0, *map(id, results)
        found = self._types.get(key)
        if found is None:
            pieces, self._pieces = self._pieces, []
            self.print_function_type(operands, results)
            found = self._types[key] = "".join(self._pieces)
            self._pieces = pieces
        self._pieces.append(found)

    def text(self) -> str:
        """What was printed."""
        return "".join(self._pieces)


def text_of_op(op: Operation, kept: Kept | None = None) -> str:
    """What `str(op)` gives; `kept` are texts of attributes that ops printed before had, too."""
    printer = TextPrinter(kept)
    printer.print_op(op)
    return printer.text()
