"""The read-eval-print loop that languages share.

A line is an expression or declarations; `:help` lists the commands. Declarations accumulate into
one module, so later lines see them. What an expression's value is, a language says in `show`.
"""

from __future__ import annotations

from collections.abc import Callable

from tawa.base.errors import TawaError
from tawa.functional.language import CheckedModule, Language

HELP = """an expression        show its type and value
def, data, import    add to the session (a later definition replaces an earlier one)
:type EXPRESSION     show its type only
:show                the definitions so far
:reset               forget them
:quit                leave"""

KEYWORDS = ("def", "data", "import", "val")


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
            ":show": lambda: "\n".join(self._declarations.values()),
            ":reset": self._reset,
            ":type": lambda: self._expression(rest, False),
        }
        try:
            if command in answers:
                return answers[command]()
            if command.startswith(":"):
                return f"there is no command {command}\n{HELP}"
            if command.partition("{")[0] in KEYWORDS:
                return self._declare(line)
            return self._expression(line, True)
        except TawaError as error:
            return error.render()

    def _reset(self) -> str:
        self._declarations.clear()
        return ""

    def _text(self) -> str:
        return "\n".join(self._declarations.values())

    def _declare(self, line: str) -> str:
        parsed = self._language.parse(line, "<input>")
        names = [getattr(d, "name", getattr(d, "module", "")) for d in parsed.declarations]
        before = dict(self._declarations)
        for name in names:
            self._declarations.pop(name, None)
        self._declarations[names[0] if names else line] = line
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
        checked = self._language.check(f"{self._text()}\ndef it = {text}", "<session>")
        type_ = checked.inference.printer().scheme(checked.schemes["it"])
        value = self._evaluate(checked, "it") if valued else None
        return f": {type_}" if value is None else f"{value}\n: {type_}"

    def run(self, read: Callable[[str], str], write: Callable[[str], None]) -> None:
        """Answer lines until `:quit` or the end of the input."""
        while True:
            try:
                answer = self.feed(read(f"{self._language.name}> "))
            except EOFError:
                return
            if answer is None:
                return
            if answer:
                write(answer)
