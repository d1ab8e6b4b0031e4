"""What the elaboration of all functions of a program has in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tawa.base.source import Span
from tawa.cuppl.core.ir import Program
from tawa.cuppl.core.layout import Layouts
from tawa.cuppl.elaboration.values import Code, Dyn, Value
from tawa.cuppl.typing.language import LIBRARY as LIBRARY_FILE
from tawa.cuppl.typing.language import Input, cuppl_language
from tawa.functional import syntax as s
from tawa.functional.language import CheckedModule
from tawa.functional.terms import Term

if TYPE_CHECKING:
    from tawa.cuppl.elaboration.elaborator import Elaborator

__all__ = ["LIBRARY", "Elaborated", "Env", "InputSlot", "Rules", "Shared"]

Env = dict[str, Value]
LIBRARY = str(LIBRARY_FILE)
"""The file of the functions that the language offers and that are written in it."""


@dataclass(slots=True)
class InputSlot:
    """An input of the program (or a constant vector, with its value) and its first word."""

    name: str
    type: Term
    offset: int
    value: object = None


@dataclass(slots=True, repr=False)
class Elaborated:
    """A program in the core, before an inference method is chosen."""

    program: Program
    main: str
    result: Term
    layouts: Layouts
    inputs: list[InputSlot]
    sites: list[Span]
    messages: dict[int, str]
    strings: list[str]
    unused: tuple[str, ...] = ()
    """Inputs that are declared, and that nothing reads: they may be given."""
    observed: dict[int, str] = field(default_factory=dict[int, str])
    """Of a program that notes its observations: what kind of value each site observes."""


class Rules(Protocol):
    """How each form of the language is elaborated: what the elaborator itself leaves open."""

    def expression(self, e: Elaborator, node: s.Expression, env: Env) -> Value:
        """The value of an expression."""
        ...

    def bind(self, e: Elaborator, pattern: s.Pattern, value: Value, env: Env) -> None:
        """Bind the names of a pattern that always fits."""
        ...

    def register(self, shared: Shared, type_: Term, value: Value) -> int:
        """The tag of a value that becomes dynamic."""
        ...

    def call_dynamic(self, e: Elaborator, function: Dyn, argument: Value) -> Value:
        """Call a function object."""
        ...

    def call_memo(self, e: Elaborator, function: Value, argument: Value, span: Span) -> Value:
        """Call a memoised function or a continuation."""
        ...

    def call_builtin(
        self, e: Elaborator, name: str, type_: Term, arguments: Sequence[Value], span: Span
    ) -> Value:
        """Call a function of the prelude, or a constructor."""
        ...

    def arity(self, name: str) -> int:
        """How many arguments a function of the prelude takes."""
        ...


@dataclass(slots=True)
class Shared:
    """What the elaboration of all functions of a program has in common."""

    module: CheckedModule
    rules: Rules
    program: Program = field(default_factory=Program)
    layouts: Layouts = field(default_factory=Layouts)
    inputs: list[InputSlot] = field(default_factory=list[InputSlot])
    sites: list[Span] = field(default_factory=list[Span])
    messages: dict[int, str] = field(default_factory=dict[int, str])
    strings: list[str] = field(default_factory=list[str])
    globals: dict[int, Env] = field(default_factory=dict[int, Env])
    specialised: dict[tuple[object, ...], tuple[str, Term]] = field(
        default_factory=dict[tuple[object, ...], tuple[str, Term]]
    )
    functions: dict[Term, list[Value]] = field(default_factory=dict[Term, list[Value]])
    """Static values that became dynamic, by type: the tag is the position."""
    late: dict[str, Callable[[], None]] = field(default_factory=dict[str, Callable[[], None]])
    """Functions that can only be written when all code is known."""
    pending: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    codes: dict[int, Code] = field(default_factory=dict[int, Code])
    inlining: list[s.Node] = field(default_factory=list[s.Node])
    observed: dict[int, str] | None = None
    """Kinds of what is observed, by site; None where observations are not noted."""
    constant_calls: list[tuple[str, str, Span]] = field(default_factory=list[tuple[str, str, Span]])
    """Functions that constants call: (function, constant, place)."""
    constant: str = ""
    """The top-level constant that is being evaluated, if any."""
    _libraries: dict[int, CheckedModule | None] = field(
        default_factory=dict[int, "CheckedModule | None"]
    )
    _declared: dict[int, dict[str, s.Declaration]] = field(
        default_factory=dict[int, dict[str, s.Declaration]]
    )
    caller: Span | None = None
    """Where the program calls the function of the library that is being elaborated."""

    def library_of(self, module: CheckedModule) -> CheckedModule | None:
        """What a module may use without importing it."""
        if id(module) not in self._libraries:
            self._libraries[id(module)] = cuppl_language().library_of(module.syntax)
        return self._libraries[id(module)]

    def declared(self, module: CheckedModule) -> dict[str, s.Declaration]:
        """A module's declarations by the names that they make known."""
        found = self._declared.get(id(module))
        if found is None:
            found = self._declared[id(module)] = {}
            for declaration in reversed(module.syntax.declarations):
                if isinstance(declaration, s.Import):
                    found.update(dict.fromkeys(declaration.names or (), declaration))
            for declaration in module.syntax.declarations:
                if isinstance(declaration, s.Definition | Input):
                    found[declaration.name] = declaration
        return found

    def site(self, span: Span, message: str = "") -> int:
        """Number of a place in the source, for failures: in the program, not in the library."""
        self.sites.append(self.caller if self.caller and span.file == LIBRARY else span)
        if message:
            self.messages[len(self.sites) - 1] = message
        return len(self.sites) - 1

    def string(self, text: str) -> int:
        """Number of a string."""
        if text not in self.strings:
            self.strings.append(text)
        return self.strings.index(text)

    def slot(self, name: str, type_: Term, value: object = None) -> InputSlot:
        """The slot of an input or of a constant."""
        for known in self.inputs:
            if known.name == name:
                return known
        used = sum(len(self.layouts.words(i.type)) for i in self.inputs)
        self.inputs.append(InputSlot(name, type_, used, value))
        return self.inputs[-1]
