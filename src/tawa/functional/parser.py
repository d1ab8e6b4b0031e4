"""From text to the syntax tree.

A `Parser` is built from the base grammar, a language's additions to it (lark's `%extend` and
`%override`) and a `TreeBuilder` that has a method for each rule.
"""

from __future__ import annotations

import linecache
from dataclasses import replace
from pathlib import Path
from typing import Any

from lark import Token, Tree, UnexpectedCharacters, UnexpectedInput
from lark.exceptions import UnexpectedToken

from tawa.base.source import Span
from tawa.functional import syntax as s
from tawa.functional.builder import CoreBuilder, TreeBuilder
from tawa.functional.errors import ProgramSyntaxError
from tawa.functional.kept import Store, kept_parser

BASE_GRAMMAR = Path(__file__).with_name("grammar.lark").read_text()

FRIENDLY = {
    "NAME": "a name", "UPPER": "a capitalised name", "QUALIFIED": "a qualified name",
    "INTEGER": "a number", "FLOAT": "a number", "STRING": "a string", "LPAR": "`(`",
    "RPAR": "`)`", "LSQB": "`[`", "RSQB": "`]`", "EQUAL": "`=`", "COMMA": "`,`", "COLON": "`:`",
    "TYPE_VARIABLE": "a type variable", "OR": "an operator", "AND": "an operator",
    "COMPARE": "an operator", "APPEND": "an operator", "PLUS": "an operator",
    "MINUS": "an operator", "TIMES": "an operator", "POWER": "an operator",
    "PROJECT": "an operator", "NOT": "`!`", "VBAR": "`|`", "$END": "the end of the text",
    "__ANON_0": "`->`", "UNDERSCORE": "`_`", "LBRACE": "`{`", "RBRACE": "`}`",
}  # fmt: skip


class Parser:
    """Parses a language: the base grammar with `additions`, into the tree that `builder` makes."""

    def __init__(
        self,
        additions: str = "",
        builder: type[TreeBuilder] = CoreBuilder,
        store: Store | None = None,
    ) -> None:
        self._builder = builder
        self._comments: list[Token] = []
        options = {
            "parser": "lalr",
            "start": ["start", "expression", "type"],
            "propagate_positions": True,
            "maybe_placeholders": True,
        }
        callbacks = {"COMMENT": self._comments.append}
        self._lark = kept_parser(store, BASE_GRAMMAR + "\n" + additions, options, callbacks)

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
        remember_source(file, text)
        try:
            tree: Tree[Any] = self._lark.parse(text, start=start)  # pyright: ignore[reportUnknownMemberType]
        except UnexpectedInput as error:
            raise _syntax_error(error, text, file) from None
        return self._builder(file).build(tree)


def remember_source(file: str, text: str) -> None:
    """Let errors show the lines of a text that is not (or not in this form) a file on disk."""
    if not Path(file).is_file() or Path(file).read_text() != text:
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)


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


def _syntax_error(error: UnexpectedInput, text: str, file: str) -> ProgramSyntaxError:
    """The error for what lark met."""
    facts: dict[str, Any] = vars(error)
    token = facts.get("token")
    if isinstance(token, Token) and token.type != "$END":
        line, column = token.line or 1, (token.column or 1) - 1
        found = f"`{token}`"
        span = Span(file, line, column, line, column + max(1, len(token)))
    elif isinstance(error, UnexpectedCharacters):
        found = f"the character {facts['char']!r}"
        span = Span(file, error.line, error.column - 1)
    else:
        lines = text.rstrip().splitlines() or [""]
        found = "the end of the text"
        span = Span(file, len(lines), len(lines[-1]))
    names: set[str] = set(facts.get("expected") or facts.get("allowed") or ())
    if isinstance(error, UnexpectedToken):
        names = error.accepts or names
    expected = sorted({FRIENDLY.get(name, f"`{name.lower()}`") for name in names})
    return ProgramSyntaxError(
        f"unexpected {found}", span=span, expected=", ".join(expected) or None, found=found
    )
