"""The read-eval-print loop that languages share.

A line is an expression or declarations; `:help` lists the commands. Declarations accumulate into
one module, so later lines see them. What an expression's value is, a language says in `show`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tawa.base.errors import TawaError
from tawa.functional.errors import ProgramSyntaxError
from tawa.functional.language import CheckedModule, Language

HELP = """an expression        show its type and value
def, data, import    add to the session (a later definition replaces an earlier one)
:type EXPRESSION     show its type only (:t for short)
:load FILE           add what a file defines
:show                the definitions so far
:reset               forget them
:quit                leave
A line that ends too early goes on in the next one; an empty line ends it."""

KEYWORDS = ("def", "data", "import", "val")

PROBE = "expression'"
"""What an expression is called while it is checked; nobody else is called so."""


class Repl:
    """One session. `evaluate` gives the value of a definition as text, or None for functions."""

    def __init__(
        self, language: Language, evaluate: Callable[[CheckedModule, str], str | None]
    ) -> None:
        self._language = language
        self._evaluate = evaluate
        self._declarations: dict[str, str] = {}

    def feed(self, line: str) -> str | None:
        """What the session answers to a line; None to leave. Errors are part of the answer."""
        line = line.strip()
        command, _, rest = line.partition(" ")
        if line in (":quit", ":q"):
            return None
        answers: dict[str, Callable[[], str]] = {
            "": lambda: "",
            ":help": lambda: HELP,
            ":show": self._text,
            ":reset": self._reset,
            ":type": lambda: self._expression(rest, False),
            ":t": lambda: self._expression(rest, False),
            ":load": lambda: self._load(Path(rest.strip())),
        }
        try:
            if command in answers:
                return answers[command]()
            if command.startswith(":"):
                return f"there is no command {command}\n{HELP}"
            if command.partition("{")[0] in KEYWORDS:
                return self._declare(line)
            if command == "let" and self._is_open(line):
                return self._declare(f"def {rest}")
            return self._expression(line, True)
        except TawaError as error:
            return error.render()

    def _is_open(self, text: str) -> bool:
        """Whether a text is the beginning of an expression or of declarations."""
        is_module = text.split(" ")[0].partition("{")[0] in KEYWORDS
        try:
            if is_module:
                self._language.parse(text, "<input>")
            else:
                self._language.parser.expression(text, "<input>")
        except ProgramSyntaxError as error:
            return error.found == "the end of the text"
        return False

    def _reset(self) -> str:
        self._declarations.clear()
        return ""

    def _load(self, path: Path) -> str:
        try:
            return self._declare(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            return f"{path} can't be read: {error}"

    def _text(self) -> str:
        return "\n".join(self._declarations.values())

    def _declare(self, text: str) -> str:
        parsed = self._language.parse(text, "<input>")
        lines = text.splitlines()
        before, names = dict(self._declarations), list[str]()
        for declaration in parsed.declarations:
            name = getattr(declaration, "name", getattr(declaration, "module", ""))
            span = declaration.span
            self._declarations.pop(name, None)
            self._declarations[name] = "\n".join(lines[span.line - 1 : span.end_line])
            names.append(name)
        try:
            checked = self._language.check(self._text(), "<session>")
        except TawaError:
            self._declarations = before
            raise
        printer = checked.inference.printer
        shown = (f"{n} : {printer().scheme(checked.schemes[n])}" for n in names
                 if n in checked.schemes)  # fmt: skip
        return "\n".join(shown)

    def _expression(self, text: str, valued: bool) -> str:
        self._language.parser.expression(text, "<input>")
        checked = self._language.check(f"{self._text()}\ndef {PROBE} =\n{text}", "<session>")
        type_ = checked.inference.printer().scheme(checked.schemes[PROBE])
        value = self._evaluate(checked, PROBE) if valued else None
        return f": {type_}" if value is None else f"{value}\n: {type_}"

    def run(self, read: Callable[[str], str], write: Callable[[str], None]) -> None:
        """Answer lines until `:quit` or the end of the input."""
        name = self._language.name
        while True:
            try:
                text = read(f"{name}> ")
                while self._goes_on(text):
                    more = read("." * len(name) + "> ")
                    if not more.strip():
                        break
                    text = f"{text}\n{more}"
                answer = self.feed(text)
            except EOFError:
                return
            if answer is None:
                return
            if answer:
                write(answer)

    def _goes_on(self, text: str) -> bool:
        """Whether an input needs another line. `let name = value` is a definition here."""
        if not text.strip() or text.startswith((":", "let ")):
            return False
        return self._is_open(text)
