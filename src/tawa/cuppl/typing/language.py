"""CuPPL as a language on the shared functional core: syntax, type classes, built-ins, library."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from lark.tree import Meta

from tawa.base.import_closure import source_digest
from tawa.base.object_text import classes_of
from tawa.base.source import Span
from tawa.cuppl.typing.items import Item, ItemPrinter
from tawa.cuppl.typing.prelude import HIDDEN, MEMO_TABLE, MEMO_WITH, PRELUDE
from tawa.functional import syntax as s
from tawa.functional.builder import CoreBuilder
from tawa.functional.errors import ProgramSyntaxError, TypesDisagree
from tawa.functional.infer import Inference
from tawa.functional.kept import Shelf, kept_object
from tawa.functional.language import CheckedModule, Language
from tawa.functional.parser import Parser, remember_program
from tawa.functional.slips import Slip
from tawa.functional.solver import Clash, Solver, Violation
from tawa.functional.terms import Among, Con, Constraint, Origin, Scheme, Term, Variable
from tawa.runtime.cache import default_cache

__all__ = ["Cuppl", "Input", "checked_program", "cuppl_language", "is_worth_keeping"]

LIBRARY = Path(__file__).with_name("library.ppl")
KEPT = (
    "tawa.base.source", "tawa.functional.syntax", "tawa.functional.terms",
    "tawa.functional.language", "tawa.cuppl.typing.items", __name__,
)  # fmt: skip
"""Modules that define the classes of trees, types and checked programs."""
LONGEST_KEPT = 1 << 17
"""Characters of the longest program of which checked and lowered forms are kept."""
TYPES = ("List", "Option")
"""The types that the library makes."""

NUMBERS = ("int", "float")
MATRIX = Con("matrix")
CLASSES = {"num": NUMBERS, "column": ("matrix", "vector")}
"""The classes of types that a signature may ask for."""
DEFAULTS = {"num": Con("int"), "column": MATRIX}
BOOL = Con("bool")


UNIT = Con("tuple", ())
CELL_BY_CELL = (
    "`a @ b` is the product of matrices; `matrix_map2 (fn x y -> x + y) a b` goes cell by cell"
)
BEFORE_SEMICOLON = "only `()` can stand before a `;`: drop a value with `let _ = ... in`"
CONVERSIONS = {
    ("List", "vector"): "`list_of_vector v` makes a list of a vector",
    ("vector", "List"): "`vector_of_list l` makes a vector of a list",
}
TIGHTER = "arguments such as `x + y` and `-1` need parentheses: `f (x + y) (-1)`"
"""What to do where an operator met a function: it binds less than what stands beside it."""

EXPECTED = {
    "dist": "a distribution comes first, and is made by a function: `observe (normal 0 1) x`",
    "->": "a function comes first: `map f v`, `fold f start v`",
}
"""What to do where such a thing is wanted and something else is found."""

FOREIGN = {
    **dict.fromkeys(("gaussian", "Gaussian", "Normal", "norm"), "it is called `normal mean sd`"),
    **dict.fromkeys(("Infer", "infer", "Enumerate", "enumerate", "query"),
                    "a program is one query; nested ones are written with `reset` and `shift`"),
    **dict.fromkeys(("uniformDraw", "randomChoice", "choice"),
                    "`v.[sample (uniform_int 0 (length v - 1))]` is one element of a vector"),
    **dict.fromkeys(("randomInteger", "randint", "discrete_uniform"),
                    "it is called `uniform_int low high`, both included"),
    **dict.fromkeys(("expectation", "marginal"), "take it of the posterior: `posterior.mean(...)`"),
    **dict.fromkeys(("while", "for"), "loops are functions: `iter`, `fold`, `range_fold`"),
    **dict.fromkeys(("delta", "Delta", "dirac"), "a value that is certain needs no distribution"),
    **dict.fromkeys(("weight", "score", "potential"), "it is called `factor w`, with a log weight"),
    "lognormal": "it is called `log_normal mean sd`",
}  # fmt: skip
"""Names of WebPPL, Pyro, Stan and others."""


class Input(s.Signature):
    """`input name : type`: a value that is given when the program is run."""

    __slots__ = ()


class Sequence(s.Let):
    """`first; rest`, in a program that is to be printed."""

    __slots__ = ()


class Builder(CoreBuilder):
    """The tree of CuPPL's own rules."""

    def input_(self, meta: Meta, children: list[Any]) -> Input:
        """`input name : type`."""
        name, type_ = children
        return Input(str(name), type_, span=self.span(meta))

    def sequence(self, meta: Meta, children: list[Any]) -> s.Let:
        """`first; rest`, which is `let () = first in rest`."""
        first, rest = children
        unit = s.TuplePattern((), span=first.span)
        binding = s.Binding(unit, (), None, first, span=first.span)
        return s.Let((binding,), rest, False, span=self.span(meta))

    def recursive_value(self, meta: Meta, children: list[Any]) -> s.Let:
        """`letrec f = fn x -> ... in body`, or `letrec f = mem (...) in body`."""
        name, value, body = children
        pattern = s.NamePattern(str(name), span=self.token_span(name))
        span = self.span(meta)
        if isinstance(value, s.Lambda):
            binding = s.Binding(pattern, value.parameters, None, value.body, span=value.span)
            return s.Let((binding,), body, True, span=span)
        if not (
            isinstance(value, s.Apply)
            and isinstance(value.function, s.Name)
            and value.function.name == "mem"
        ):
            raise _not_a_function(str(name), value.span)
        return _recursive_memo(pattern, value, body, span)


def _not_a_function(name: str, span: Span) -> ProgramSyntaxError:
    return ProgramSyntaxError(
        f"`{name}` can't be defined by itself: it is not a function", span=span,
        expected="`letrec f x = ...`, `letrec f = fn x -> ...` or `letrec f = mem (...)`",
    )  # fmt: skip


def _recursive_memo(
    pattern: s.NamePattern, value: s.Apply, body: s.Expression, span: Span
) -> s.Let:
    """`let table = new in letrec plain x = (let f = ... in value) x in let f = ... in body`.

    In both places `f` is `plain` with its results remembered in the table.
    """
    at = value.function.span
    table, plain, argument = (f"{pattern.name}'{n}" for n in ("table", "plain", "argument"))

    def name(text: str) -> s.Name:
        return s.Name(text, span=at)

    def bound(text: str) -> s.NamePattern:
        return s.NamePattern(text, span=at)

    def apply(function: s.Expression, given: s.Expression) -> s.Apply:
        return s.Apply(function, given, span=at)

    def with_table(inside: s.Expression) -> s.Let:
        remembering = apply(apply(name(MEMO_WITH), name(table)), name(plain))
        own = s.NamePattern(pattern.name, span=pattern.span)
        binding = s.Binding(own, (), None, remembering, span=at)
        return s.Let((binding,), inside, False, span=at)

    inner = apply(with_table(value.argument), name(argument))
    unit = s.Tuple((), span=at)
    first = s.Binding(bound(table), (), None, apply(name(MEMO_TABLE), unit), span=at)
    function = s.Binding(bound(plain), (bound(argument),), None, inner, span=value.span)
    recursive = s.Let((function,), with_table(body), True, span=span)
    return s.Let((first,), recursive, False, span=span)


class LayoutBuilder(Builder):
    """The tree of a program as it is written, for printing it."""

    def sequence(self, meta: Meta, children: list[Any]) -> Sequence:
        """`first; rest`."""
        let = super().sequence(meta, children)
        return Sequence(let.bindings, let.body, False, span=let.span)

    def recursive_value(self, meta: Meta, children: list[Any]) -> s.Let:
        """`letrec name = value in body`."""
        name, value, body = children
        pattern = s.NamePattern(str(name), span=self.token_span(name))
        binding = s.Binding(pattern, (), None, value, span=value.span)
        return s.Let((binding,), body, True, span=self.span(meta))


class NumberSolver(Solver):
    """A number that nothing determines is an `int`, and a factor of a matrix a matrix."""

    _columns = False
    """Whether anything has waited to be the factor of a matrix."""

    def default(self, constraint: Constraint) -> bool:
        """Decide an undetermined `num`."""
        if isinstance(constraint, Among) and constraint.label in DEFAULTS:
            self.equate(constraint.term, DEFAULTS[constraint.label], constraint.origin)
            return True
        return False

    def attempt(self, constraint: Constraint) -> bool:
        """Decide a class; a vector that a matrix is multiplied with has floats."""
        if isinstance(constraint, Item):
            return self._item(constraint)
        if not isinstance(constraint, Among):
            return super().attempt(constraint)
        term = self.prune(constraint.term)
        if isinstance(term, Variable):
            self._columns |= constraint.label == "column"
            self._refuse_both(term, constraint)
            return False
        decided = super().attempt(constraint)
        if constraint.label == "column" and isinstance(term, Con) and term.name == "vector":
            self.equate(term.arguments[0], Con("float"), constraint.origin)
        return decided

    def _item(self, item: Item) -> bool:
        """The type of an item, once that of the tuple is known. Raises Violation."""
        subject = self.prune(item.subject)
        if not isinstance(subject, Con):
            return False
        fault = item.fault(subject)
        if fault is not None:
            raise Violation(item, fault)
        self.equate(item.result, subject.arguments[item.index], item.origin)
        return True

    def _refuse_both(self, variable: Variable, constraint: Among) -> None:
        """Raise Violation where something has to be of two classes that have no type in common."""
        for key in self._watchers.get(variable, ()) if self._columns else ():
            other = self._parked.get(key)
            if isinstance(other, Among) and not set(other.names) & set(constraint.names):
                column = min(other, constraint, key=lambda among: among.label)
                reason = f"a number is not `{column.label}` ({', '.join(column.names)})"
                raise Violation(column, reason)


class ProbabilisticInference(Inference):
    """Inference with `num` literals and the types of distributions and prompts."""

    printer = ItemPrinter
    foreign = FOREIGN
    _own_mem = False
    """Whether the module has a `mem` of its own."""

    type_arity = {
        "int": 0,
        "float": 0,
        "bool": 0,
        "string": 0,
        "vector": 1,
        "dist": 1,
        "prompt": 1,
        "matrix": 0,
    }

    def condition(self, condition: s.Condition) -> None:
        """`where num 'a`, and `where column 'a` of what a matrix may be multiplied with."""
        if not (isinstance(condition, s.ClassCondition) and condition.name in CLASSES):
            super().condition(condition)
            return
        name = condition.name
        origin = Origin(condition.span, name)
        with self.explained():
            term = self.read_type(condition.type)
            self.solver.require(Among(term, name, CLASSES[name], origin))

    def literal(self, literal: s.Literal) -> Term:
        """An integer literal is any number; other literals have one type."""
        if isinstance(literal.value, bool):
            return BOOL
        if isinstance(literal.value, int):
            if literal.value >= 1 << 63:
                raise ProgramSyntaxError(
                    "an integer this large can't be represented", span=literal.span,
                    expected="at most 9223372036854775807", hint="write a float: add `.0`",
                )  # fmt: skip
            term = self.solver.fresh()
            self._number(term, Origin(literal.span, "number"))
            return term
        if literal.value == math.inf:
            raise ProgramSyntaxError(
                "a number this large can't be represented", span=literal.span,
                expected="at most 1.7976931348623157e308", hint="without end it is `infinity`",
            )  # fmt: skip
        return super().literal(literal)

    def module(self, module: s.Module) -> dict[str, Scheme]:
        """The schemes of what a module defines."""
        self._own_mem = any(d.name == "mem" for d in module.definitions())
        return super().module(module)

    def name(self, name: s.Name) -> Term:
        """A use of a name; `letrec f = mem (...)` needs the built-in `mem`."""
        if name.name == MEMO_WITH and (self._own_mem or len(self._scope["mem"]) > 1):
            raise _not_a_function("mem", name.span)
        return super().name(name)

    def clash_error(self, clash: Clash) -> Exception:
        """Say also what to do where numbers, or the value before a `;`, have the wrong type."""
        error = super().clash_error(clash)
        if not isinstance(error, TypesDisagree):
            return error
        if isinstance(clash, Violation) and isinstance(clash.constraint, Among):
            found = self.solver.resolve(clash.constraint.term)
            error.expected = " or ".join(f"`{name}`" for name in clash.constraint.names)
            error.found = self.printer().type(found)
            applied = isinstance(found, Con) and found.name == "->"
            error.hint = BEFORE_SEMICOLON if found == UNIT else TIGHTER if applied else None
            error.hint = CELL_BY_CELL if found == MATRIX else error.hint
            return error
        wanted, found = (self.solver.resolve(t) for t in clash.whole)
        error.hint = _advice(wanted, found)
        return error

    def item_of_unknown(self, expression: s.Project, subject: Variable) -> Term:
        """The type of an item of a parameter: callers say what tuple it is."""
        result = self.solver.fresh()
        origin = Origin(expression.subject.span, f"`.{expression.index}`")
        with self.explained():
            self.solver.require(Item(subject, expression.index, result, origin))
        return result

    def _number(self, term: Term, origin: Origin) -> None:
        with self.explained():
            self.solver.require(Among(term, "num", NUMBERS, origin))


def _advice(wanted: Term, found: Term) -> str | None:
    """What to do about a value of one type where another is wanted."""
    if (wanted, found) in ((Con("float"), Con("int")), (Con("int"), Con("float"))):
        return "`float n` makes a float of an int, `floor x` and `truncate x` an int of a float"
    want, have = (term.name if isinstance(term, Con) else "" for term in (wanted, found))
    if (want, have) == ("vector", "tuple"):
        return "a vector is written in brackets: `[a, b]`"
    if want == "tuple" and have and wanted != UNIT:
        return "a pair is one argument: `f (a, b)`"
    if have == "->" and _given_all(found) == want:
        return "an argument is missing: with fewer, it is still a function"
    if wanted == UNIT:
        return BEFORE_SEMICOLON
    if isinstance(found, Con) and have == "vector" and found.arguments == (wanted,):
        return "`iter (fn x -> ...) v` does something for each element, `map` makes a vector of it"
    return CONVERSIONS.get((want, have)) or EXPECTED.get(want)


def _given_all(function: Term) -> str:
    """The name of the type of what a function gives once it has all its arguments."""
    while isinstance(function, Con) and function.name == "->":
        function = function.arguments[-1]
    return function.name if isinstance(function, Con) else ""


class Cuppl(Language):
    """The language."""

    name = "cuppl"
    extension = ".ppl"
    additions = """
%extend declaration: "input" NAME ":" type -> input_
%extend expression: pipe ";" expression -> sequence
%extend expression: "letrec" NAME "=" expression "in" expression -> recursive_value
%override POWER.2: "**"
%override TIMES: "//" | "*" | "/" | "%" | "@"
"""
    slips = (
        Slip(
            r"\A", r"[\w./\\-]+\.ppl\s*\Z",
            "this is a path, not a program: `cuppl.load` takes it",
        ),
        Slip(
            r"\([^()\n]*\b\w+\s+\w+\s*", r"=(?!=)",
            "arguments have no names, and stand in the order of the parameters: `normal 0 1`",
        ),
    )  # fmt: skip
    builder = Builder
    inference = ProbabilisticInference
    solver = NumberSolver
    prelude = PRELUDE

    def __init__(self) -> None:
        super().__init__()
        self._libraries: dict[frozenset[str], CheckedModule] = {}

    def shelf(self) -> Shelf:
        """The cache of compiled kernels."""
        return shelf()

    def as_written(self, text: str, file: str = "<string>") -> s.Module:
        """The tree of a program before anything in it is replaced by what it means."""
        return Parser(self.additions, LayoutBuilder, self.shelf()).module(text, file)

    def _read_prelude(self) -> dict[str, Scheme]:
        found = super()._read_prelude()
        return {HIDDEN.get(name, name): scheme for name, scheme in found.items()}

    def check_program(self, text: str, file: str = "<string>") -> CheckedModule:
        """Parse and infer a program."""
        return self.check(text, file)

    def library_of(self, module: s.Module) -> CheckedModule | None:
        """The library, checked by itself: what a program defines changes the program alone.

        Where a program makes another type of a name that the library has, the library's is called
        `Library.List`.
        """
        if module.file == str(LIBRARY):
            return None
        own = {d.name: d for d in module.declarations if isinstance(d, s.Datatype)}
        hidden = frozenset(name for name in TYPES if name in own and not self._same(own[name]))
        if hidden not in self._libraries:
            text = LIBRARY.read_text()
            parts = [self.name, self.additions, PRELUDE, str(LIBRARY), text, *sorted(hidden)]
            self._libraries[hidden] = kept_object(
                self.shelf(), parts, lambda: self.check_module(_renamed(self._library(), hidden))
            )
        return self._libraries[hidden]

    def _library(self) -> s.Module:
        return self.parse(LIBRARY.read_text(), str(LIBRARY))

    def _same(self, datatype: s.Datatype) -> bool:
        """Whether a type of a program is just what the library has."""
        library = self._library().declarations
        known = [d for d in library if isinstance(d, s.Datatype) and d.name == datatype.name]
        return any(s.structure(replace(datatype, doc=d.doc)) == s.structure(d) for d in known)


def _renamed(library: s.Module, hidden: frozenset[str]) -> s.Module:
    """The library with some of its types called otherwise."""

    def type_(syntax: s.TypeSyntax) -> s.TypeSyntax:
        if isinstance(syntax, s.NamedType) and syntax.name in hidden:
            return replace(syntax, name=f"Library.{syntax.name}")
        return syntax

    def constructor(made: s.Constructor) -> s.Constructor:
        return replace(made, fields=tuple(map(type_, made.fields)))

    def declaration(made: s.Declaration) -> s.Declaration:
        if not (isinstance(made, s.Datatype) and made.name in hidden):
            return made
        constructors = tuple(map(constructor, made.constructors))
        return replace(made, name=f"Library.{made.name}", constructors=constructors)

    return replace(library, declarations=tuple(map(declaration, library.declarations)))


def checked_program(source: str, file: str) -> CheckedModule:
    """A program with its types, from the cache if it was checked before and imports nothing."""
    if "import" in source or not is_worth_keeping(source):
        return cuppl_language().check_program(source, file)
    remember_program(file, source)
    parts = ["checked", PRELUDE, LIBRARY.read_text(), Cuppl.additions, file, source]
    return kept_object(shelf(), parts, lambda: cuppl_language().check_program(source, file))


def is_worth_keeping(source: str) -> bool:
    """Whether to keep what is made of a program: of a long one, it takes longer than to make it."""
    return len(source) <= LONGEST_KEPT


def shelf() -> Shelf:
    """Where checked programs and what the language is made of are kept: beside compiled kernels."""
    store = default_cache()
    return Shelf(store, source_digest(__name__, store=store), _classes())


@cache
def _classes() -> dict[str, type[object]]:
    return classes_of(*KEPT)


@cache
def cuppl_language() -> Cuppl:
    """The language, built once a process."""
    return Cuppl()
