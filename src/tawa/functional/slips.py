"""Syntax errors for a reader: what was met, what could have stood there in words, what to do.

A `Slip` is a mistake that is known by the text around the place where the parser stopped. A
language adds its own to `SLIPS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from lark import Token, UnexpectedCharacters, UnexpectedInput
from lark.exceptions import UnexpectedToken

from tawa.base.source import Span
from tawa.functional.errors import ProgramSyntaxError

KEYWORDS = (
    "def", "import", "data", "val", "let", "letrec", "and", "in", "fn", "if", "then", "else",
    "match", "with", "end", "true", "false",
)  # fmt: skip
"""Words that can't be names."""

CLOSING = {"(": ")", "[": "]", "{": "}"}
END = "$END"

GROUPS: tuple[tuple[set[str], str, frozenset[str]], ...] = (
    ({"FN"}, "an expression", frozenset(
        "FN IF LET LETREC MATCH NAME UPPER QUALIFIED INTEGER FLOAT STRING LPAR LSQB TRUE FALSE "
        "MINUS NOT".split())),
    ({"NOT"}, "an expression", frozenset(
        "NAME UPPER QUALIFIED INTEGER FLOAT STRING LPAR LSQB TRUE FALSE MINUS NOT".split())),
    ({"TYPE_VARIABLE"}, "a type", frozenset("TYPE_VARIABLE NAME UPPER LPAR".split())),
    ({"UNDERSCORE", "TRUE"}, "a pattern", frozenset(
        "UNDERSCORE NAME UPPER INTEGER FLOAT STRING LPAR TRUE FALSE MINUS".split())),
    ({"UNDERSCORE"}, "a size", frozenset(
        "UNDERSCORE NAME UPPER INTEGER LPAR MINUS".split())),
    ({"QUALIFIED"}, "an argument", frozenset(
        "NAME UPPER QUALIFIED INTEGER FLOAT STRING LPAR LSQB TRUE FALSE LBRACE".split())),
    ({END}, "the next definition, or the end of the text", frozenset(
        ["DEF", "DATA", "IMPORT", "VAL", END])),
)  # fmt: skip
"""Terminals that begin one thing: those that tell, what it is, all of them."""

OPERATORS = frozenset(
    "OR AND COMPARE APPEND PLUS MINUS TIMES POWER PROJECT POINTWISE_SUM POINTWISE_PRODUCT "
    "MATRIX_PRODUCT NOT".split()
)

NAMES = {
    "NAME": "a name", "UPPER": "a capitalised name", "QUALIFIED": "a qualified name",
    "INTEGER": "a number", "FLOAT": "a number", "STRING": "a string",
    "TYPE_VARIABLE": "a type variable", END: "the end of the text",
}  # fmt: skip


@dataclass(frozen=True)
class Slip:
    """A frequent mistake: `before` matches the text up to the place, `at` the text from there."""

    before: str
    at: str
    hint: str

    def fits(self, before: str, at: str) -> bool:
        """Whether this is what happened."""
        return bool(re.search(rf"(?:{self.before})\Z", before) and re.match(self.at, at))


SLIPS = (
    Slip(r"\b(and|or|not)\s*", r"", "write `&&`, `||` and `not x`"),
    Slip(r"", r"(and|or)\b", "write `&&` for and, `||` for or"),
    Slip(r"\band\s[^=\n]*", r"in\b", "write `&&` for and, `||` for or"),
    Slip(r"\blet\b[^=\n;]*=[^=\n;]*\S\s*", r"=(?![=>])", "values are compared by `==`"),
    Slip(r"\([^=\n()]*", r"=(?![=>])", "values are compared by `==`"),
    Slip(r"", r";", "there are no semicolons: write `let name = value in`"),
    Slip(r"\blambda\b[^\n]*", r":", "a function is written `fn x -> value`"),
    Slip(r"", r"=>", "write `->`"),
    Slip(r"\breturn\s*", r"", "a definition's value is its last expression, without `return`"),
    Slip(r"\bdef\s+\w+\s*\([^\n]*\)\s*", r":", "a definition is written `def name x y = value`"),
    Slip(r"\bdef\s+\w+[^=\n]*", r"->", "a result's type follows a colon: `def f x : t = value`"),
    Slip(r"\bdef\s+\w+[^=\n(]*", r",", "spaces stand between parameters: `def f x y = value`"),
    Slip(r"\bdef\s+", r"[A-Z]", "names of functions begin with a small letter"),
    Slip(r"(\A|\n)", r"let\b", "a file holds definitions, `def name = value`; `let` needs an `in`"),
    Slip(r"\bfor\s+\w+\s+", r"in\b", "there are no statements: a loop is a function, as `map`"),
    Slip(
        r"(\A|\n)", r"(class|for|while|return|from|async|with)\b",
        "a file holds definitions: `def name x = value`",
    ),
    Slip(r"(\A|\n)", r"[a-z_]\w*", "a definition begins with `def`: `def name x = value`"),
    Slip(r"", r"\^", "the power is `**`"),
    Slip(r"", r"\?", "a choice is written `if condition then one else other`"),
    Slip(r"[-+*/%<>&|@]\s*", r"fn\b", "put a function in parentheses: `(fn x -> value)`"),
    Slip(r",\s*", r"\)", "leave out the last comma"),
    Slip(
        r"(==|!=|<|>|<=|>=)[^\n]*", r"(==|!=|<=|>=|<|>)",
        "comparisons don't chain: write `a < b && b < c`",
    ),
    Slip(r"", r"'", "strings stand in double quotes"),
    Slip(r"", r"\{", "braces don't group: write `( )`"),
)  # fmt: skip
"""Mistakes in every language; the first that fits counts."""


def syntax_error(
    error: UnexpectedInput, text: str, file: str, slips: Iterable[Slip], shown: Callable[[str], str]
) -> ProgramSyntaxError:
    """The error for what lark met. `shown` gives a terminal as it is written."""
    facts: dict[str, Any] = vars(error)
    token = facts.get("token")
    at: int = len(text.rstrip())
    if isinstance(token, Token) and token.type != END:
        at = int(token.start_pos or 0)
        found = f"`{token}`"
        span = _span(text, file, at, len(token))
    elif isinstance(error, UnexpectedCharacters):
        at = int(facts["pos_in_stream"] or 0)
        found = f"the character {facts['char']!r}"
        span = _span(text, file, at, 1)
    else:
        found = "the end of the text"
        lines = text.rstrip().splitlines() or [""]
        span = Span(file, len(lines), len(lines[-1]))
    names: set[str] = set(facts.get("expected") or ())
    if isinstance(error, UnexpectedToken):
        names = error.accepts or names
    raised = ProgramSyntaxError(
        f"unexpected {found.removeprefix('the ')}", span=span, found=found,
        expected=in_words(names, shown),
        hint=_hint(text, at, found, names, (*slips, *SLIPS)),
    )  # fmt: skip
    opened = _unclosed(text, at) if names & {"RPAR", "RSQB", "RBRACE"} else None
    if opened is not None:
        raised.with_note(f"this `{text[opened]}` is not closed", _span(text, file, opened, 1))
    return raised


def in_words(names: set[str], shown: Callable[[str], str]) -> str | None:
    """What could have stood there: kinds of things, then signs and words."""
    rest = set(names)
    found: list[str] = []
    for marks, words, members in GROUPS:
        if marks <= rest:
            found.append(words)
            rest -= members
    if rest & OPERATORS:
        found.append("an operator")
        rest -= OPERATORS
    found += sorted({NAMES.get(name) or f"`{shown(name)}`" for name in rest})
    return ", ".join(dict.fromkeys(found)) or None


def _hint(text: str, at: int, found: str, names: set[str], slips: tuple[Slip, ...]) -> str | None:
    ended = found == "the end of the text"
    word = re.match(r"\w+", text[at:])
    known = (slip.hint for slip in slips if not ended and slip.fits(text[:at], text[at:]))
    slip = next(known, None)
    plain = (
        word is not None
        and word[0] not in ("and", "let")
        and not (slip and word[0] in ("in", "true"))
    )
    if word and plain and word[0] in KEYWORDS and "NAME" in names:
        return f"`{word[0]}` is a keyword: choose another name"
    if slip is not None:
        return slip
    needed = {
        "IN": "`let name = value` needs `in` and what it is for",
        "THEN": "write `if condition then one else other`",
        "ELSE": "an `if` has an `else`: both give a value",
        "END": "a `match` ends with `end`",
    }
    return next((hint for name, hint in needed.items() if name in names), None)


def _span(text: str, file: str, at: int, length: int) -> Span:
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1)
    return Span(file, line, column, line, column + max(1, length))


def _unclosed(text: str, end: int) -> int | None:
    """Where the innermost bracket that is open at a place stands."""
    open_: list[int] = []
    for found in re.finditer(r'#[^\n]*|"(?:\\.|[^"\\\n])*"|[()\[\]{}]', text[:end]):
        sign = found[0]
        if sign in CLOSING:
            open_.append(found.start())
        elif sign in CLOSING.values() and open_ and CLOSING[text[open_[-1]]] == sign:
            open_.pop()
    return open_[-1] if open_ else None
