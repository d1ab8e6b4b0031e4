"""What all of Tawa's errors have in common.

One class stands for one message. An error points into the user's source, says what was expected
and what was found, and what to do about it. Every class explains itself with a text and, where it
can, a small program that raises it; the error index (`docs/errors.md`) and `tawa explain` print
these.

    class InnerSizeMismatch(TawaError):
        \"\"\"The two operands of a dot product don't share their inner size.\"\"\"

        explanation = "`tl.dot(a, b)` multiplies an (M, K) tile by a (K, N) tile. ..."
        example = "..."

    raise InnerSizeMismatch(
        "`dot` of a 64x32 tile by a 64x16 tile",
        span=span, expected="K = 32 rows in `b`", found="64 rows", hint="transpose `a`",
    )
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from tawa.base.source import Span  # keeps xDSL out of what only raises errors

MAX_LINES = 3
"""A longer range is shown by its first line only."""

MAX_CHARACTERS = 100
"""So much is shown of what Python prints of a value."""


@dataclass(frozen=True, slots=True)
class Note:
    """A further remark of an error, with its own place in the source if it has one."""

    text: str
    span: Span | None = None


class TawaError(Exception):
    """Base of all of Tawa's errors.

    `message` says what is wrong, in one line. `span` is the place in the user's source, `expected`
    and `found` name the two sides of the conflict, `hint` says what to do, and `notes` add
    remarks, each with a place of its own if it has one. All but the message may be missing.

    A class that only groups others is declared with `group=True`; every other subclass sets
    `explanation` (Markdown: what the message means and what to do about it) and, unless it can't
    be provoked by a small program, `example`: Python source that raises the error.
    `example_needs` names what the example can't run without ("gpu").
    """

    explanation: ClassVar[str] = ""
    example: ClassVar[str] = ""
    example_needs: ClassVar[str] = ""
    registry: ClassVar[dict[str, type[TawaError]]] = {}
    clashes: ClassVar[list[tuple[type[TawaError], type[TawaError]]]] = []
    """Classes of one package that share a name; a test of the whole package forbids them."""

    def __init_subclass__(cls, *, group: bool = False) -> None:
        super().__init_subclass__()
        if group:
            return
        known = TawaError.registry.setdefault(cls.__name__, cls)
        if known.__module__ == cls.__module__:
            TawaError.registry[cls.__name__] = cls  # its module was imported again
        elif _package(known) == _package(cls):
            TawaError.clashes.append((known, cls))

    def __init__(
        self,
        message: str,
        *,
        span: Span | None = None,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
        notes: Iterable[Note | str] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.expected = expected
        self.found = found
        self.hint = hint
        self.notes = [Note(note) if isinstance(note, str) else note for note in notes]

    def with_note(self, text: str, span: Span | None = None) -> Self:
        """Add a remark and return the error."""
        self.notes.append(Note(text, span))
        return self

    @property
    def error_message(self) -> str:
        """The message, under the name that Triton's errors give theirs."""
        return self.message

    def __str__(self) -> str:
        return "\n".join([self.message, *self._body()])

    def render(self) -> str:
        """The whole text for a terminal: `error[Name]: message` and the lines below it."""
        return f"error[{type(self).__name__}]: {self}"

    def _render_traceback_(self) -> list[str]:
        """What IPython prints for the error: as Python does, since it shows its own source."""
        import traceback

        first = self.__traceback__  # IPython's own frame
        below = None if first is None else first.tb_next
        return "".join(traceback.format_exception(type(self), self, below)).splitlines()

    def _body(self) -> Iterator[str]:
        shown: set[tuple[str, int]] = set()
        if self.span is not None:
            yield from excerpt(self.span)
            shown.add((self.span.file, self.span.line))
        for label, text in (
            ("expected", self.expected),
            ("found", self.found),
            ("help", self.hint),
        ):
            if text is not None:
                yield _labelled(label, text)
        for note in self.notes:
            span = note.span
            if span is not None and (span.file, span.line) in shown and span.line == span.end_line:
                place = f"line {span.line}, column {span.column + 1}"
                yield _labelled("note", f"{note.text} ({place}: `{span.text()}`)")
                continue
            yield _labelled("note", note.text)
            if span is not None:
                place, _, *lines = (*excerpt(span), "")  # without the line above the source
                yield from (place, *lines[:-1])
                shown.add((span.file, span.line))


def _package(cls: type) -> str:
    return cls.__module__.partition(".")[0]


def excerpt(span: Span) -> list[str]:
    """The lines that show `span`: its place, and its source with carets under the range.

    Only the place when the source can't be read.
    """
    place = f"  --> {_shown_path(span.file)}:{span.line}:{span.column + 1}"
    last = span.end_line if span.end_line < span.line + MAX_LINES else span.line
    numbered = [(number, span.source_line(number)) for number in range(span.line, last + 1)]
    sources = [(number, text) for number, text in numbered if text is not None]
    if not sources:
        return [place]
    width = len(str(sources[-1][0]))
    lines = [place, f" {' ' * width} |"]
    for number, text in sources:
        start = span.column if number == span.line else len(text) - len(text.lstrip())
        end = span.end_column if number == span.end_line else len(text)
        lines.append(f" {number:>{width}} | {text}")
        lines.append(f" {' ' * width} | {_carets(text, start, end)}")
    if span.end_line > last:
        lines.append(f" {'.' * width} | (to line {span.end_line})")
    return lines


def _carets(text: str, start: int, end: int) -> str:
    """A line with carets below `text[start:end]`, at least one."""
    start = min(start, len(text))
    lead = "".join("\t" if char == "\t" else " " * _columns(char) for char in text[:start])
    return lead + "^" * max(1, sum(_columns(char) for char in text[start:end]))


def _columns(char: str) -> int:
    """How many terminal columns a character takes."""
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _shown_path(file: str) -> str:
    """A path relative to the working directory where that is shorter and goes down only."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def _labelled(label: str, text: str) -> str:
    """`  label: text`, with the text's further lines aligned below its first."""
    indent = " " * (len(label) + 4)
    return f"  {label}: " + text.replace("\n", "\n" + indent)


def in_short(value: object) -> str:
    """What Python prints of a value, on one line and cut where it is long."""
    text = repr(value)
    text = " ".join(text.split()) if "\n" in text else text
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}..."


def explain(name: str) -> str | None:
    """The explanation and example of the error class `name`, as Markdown; None if unknown.

    Knows the classes whose modules have been imported.
    """
    cls = TawaError.registry.get(name)
    if cls is None:
        return None
    parts = [f"## {name}", cleandoc(cls.__doc__ or ""), cls.explanation.strip()]
    if cls.example:
        parts.append(f"```python\n{cls.example.strip()}\n```")
    return "\n\n".join(part for part in parts if part)
