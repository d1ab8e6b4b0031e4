"""From text to the syntax tree.

A `Parser` is built from the base grammar, a language's additions to it (lark's `%extend` and
`%override`) and a `TreeBuilder` that has a method for each rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from lark import Token, Tree, UnexpectedInput
from lark.lexer import PatternStr

from tawa.base.source import forget_source, remember_source
from tawa.functional import syntax as s
from tawa.functional.builder import CoreBuilder, TreeBuilder
from tawa.functional.errors import ProgramSyntaxError
from tawa.functional.kept import Shelf, kept_parser, kept_tables
from tawa.functional.slips import Slip, syntax_error
from tawa.functional.tables import Tables, Unexpected

BASE_GRAMMAR = Path(__file__).with_name("grammar.lark").read_text()


class Parser:
    """Parses a language: the base grammar with `additions`, into the tree that `builder` makes."""

    def __init__(
        self,
        additions: str = "",
        builder: type[TreeBuilder] = CoreBuilder,
        shelf: Shelf | None = None,
        slips: tuple[Slip, ...] = (),
    ) -> None:
        self._builder = builder
        self._slips = slips
        self._comments: list[Token] = []
        options = {
            "parser": "lalr",
            "start": ["start", "expression", "type"],
            "propagate_positions": True,
            "maybe_placeholders": True,
        }
        callbacks: dict[str, Callable[[Token], None]] = {"COMMENT": self._comments.append}
        grammar = BASE_GRAMMAR + "\n" + additions
        self._lark = cache(lambda: kept_parser(shelf, grammar, options, callbacks))
        self._tables = Tables(kept_tables(shelf, grammar, options, self._lark), callbacks)

    def module(self, text: str, file: str) -> s.Module:
        """Parse a whole module. Raises ProgramSyntaxError."""
        self._comments.clear()
        declarations = self._parse(text, file, "start")
        lines = text.splitlines()
        comments = tuple(
            s.Comment(str(token), token.line or 1, _starts_line(lines, token))
            for token in self._comments
        )
        by_line = {comment.line: comment.text for comment in comments if comment.own_line}
        documented = tuple(_with_doc(declaration, by_line) for declaration in declarations)
        return s.Module(file, documented, comments)

    def expression(self, text: str, file: str = "<expression>") -> s.Expression:
        """Parse one expression. Raises ProgramSyntaxError."""
        return self._parse(text, file, "expression")

    def type(self, text: str, file: str = "<type>") -> s.TypeSyntax:
        """Parse one type. Raises ProgramSyntaxError."""
        return self._parse(text, file, "type")

    def _parse(self, text: str, file: str, start: str) -> Any:
        remember_program(file, text)
        try:
            return self._tables.parse(text, start, self._builder(file))
        except (Unexpected, ProgramSyntaxError):
            self._comments.clear()
        return self._parse_by_lark(text, file, start)

    def _parse_by_lark(self, text: str, file: str, start: str) -> Any:
        """The same by lark, which says what it expected where it stops."""
        try:
            tree: Tree[Any] = self._lark().parse(text, start=start)  # pyright: ignore[reportUnknownMemberType]
        except UnexpectedInput as error:
            raise syntax_error(error, text, file, self._slips, self._shown) from None
        return self._builder(file).build(tree)

    def _shown(self, terminal: str) -> str:
        """A keyword or sign as it is written."""
        found = self._lark().get_terminal(terminal).pattern
        return found.value if isinstance(found, PatternStr) else terminal.lower()


def remember_program(file: str, text: str) -> None:
    """Let errors show the lines of a text that is not (or not in this form) a file on disk."""
    if not Path(file).is_file() or Path(file).read_text() != text:
        remember_source(file, text)
    else:
        forget_source(file)  # what an editor had not saved yet


def _starts_line(lines: list[str], token: Token) -> bool:
    return not lines[(token.line or 1) - 1][: (token.column or 1) - 1].strip()


def _with_doc(declaration: s.Declaration, by_line: dict[int, str]) -> s.Declaration:
    """Attach the `##` comment lines that stand right above a declaration as its doc."""
    if not isinstance(declaration, (s.Definition, s.Signature, s.Datatype)):
        return declaration
    lines: list[str] = []
    line = declaration.span.line - 1
    while by_line.get(line, "").startswith("##"):
        lines.append(by_line[line].removeprefix("##").strip())
        line -= 1
    return replace(declaration, doc="\n".join(reversed(lines)))
