"""A language: its grammar, its built-ins, its inference, and how its modules are found.

`core()` is the bare language of this package, with integer arithmetic, for tests and documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tawa.base.source import Span
from tawa.functional import syntax as s
from tawa.functional.builder import CoreBuilder, TreeBuilder
from tawa.functional.errors import (
    DuplicateName,
    ImportCycle,
    ImportNotFound,
    NotAProgram,
    ProgramNotFound,
    ProgramSyntaxError,
)
from tawa.functional.infer import Inference
from tawa.functional.kept import Shelf, kept_object
from tawa.functional.parser import Parser
from tawa.functional.recursion import deep, uncollected
from tawa.functional.slips import Slip
from tawa.functional.solver import Solver
from tawa.functional.terms import Scheme

CORE_PRELUDE = """
val (+) : int -> int -> int
val (-) : int -> int -> int
val (*) : int -> int -> int
val (==) : 'a -> 'a -> bool
val (<) : int -> int -> bool
val negate : int -> int
val not : bool -> bool
"""


@dataclass(frozen=True, repr=False)
class CheckedModule:
    """A module whose types are known, with those that it imports."""

    syntax: s.Module
    schemes: dict[str, Scheme]
    """What the module defines."""
    inference: Inference
    """The types of its expressions, and how its names were instantiated."""
    imports: dict[str, CheckedModule]


class Language:
    """What the parts of a language are; derive from it and set the class attributes."""

    name = "core"
    extension = ".ml"
    """Of the files that `import` looks for."""

    additions = ""
    """Grammar added to the base grammar."""

    slips: tuple[Slip, ...] = ()
    """Frequent mistakes in the language's own syntax."""

    builder: type[TreeBuilder] = CoreBuilder
    inference: type[Inference] = Inference
    solver: type[Solver] = Solver
    prelude = CORE_PRELUDE
    """Signatures (`val`) of the built-ins, in the language itself."""

    def __init__(self) -> None:
        shelf = self.shelf()
        self.parser = Parser(self.additions, self.builder, shelf, self.slips)
        parts = [self.name, self.additions, self.prelude]
        self.built_ins: dict[str, Scheme] = kept_object(shelf, parts, self._read_prelude)

    def shelf(self) -> Shelf | None:
        """Where parse tables and built-ins are kept for other processes; None: nowhere."""
        return None

    @cached_property
    def prelude_module(self) -> s.Module:
        """The tree of the prelude."""
        return self.parser.module(self.prelude, f"<{self.name} prelude>")

    def _read_prelude(self) -> dict[str, Scheme]:
        return self.inference(self.solver(), {}).module(self.prelude_module)

    def parse(self, text: str, file: str = "<string>") -> s.Module:
        """The tree of a module. Raises ProgramSyntaxError."""
        return self.parser.module(text, file)

    def check(self, text: str, file: str = "<string>") -> CheckedModule:
        """Parse and infer a module and what it imports. Raises FunctionalError."""
        return self.check_module(self.parse(text, file))

    def check_file(self, path: Path) -> CheckedModule:
        """Parse and infer the module in a file and what it imports. Raises FunctionalError."""
        return self.check(read_source(path), str(path))

    def check_module(self, module: s.Module) -> CheckedModule:
        """Infer a module that is already parsed. Raises FunctionalError."""
        with deep(), uncollected():
            return self._check(module, Path(module.file).parent, ())

    def library_of(self, module: s.Module) -> CheckedModule | None:
        """What a module may use without importing it, resolved where it was written."""
        del module
        return None

    def _check(self, module: s.Module, folder: Path, inside: tuple[Path, ...]) -> CheckedModule:
        environment = dict(self.built_ins)
        library = self.library_of(module)
        if library is not None:
            environment.update(exported(library))
        imports: dict[str, CheckedModule] = {}
        for declaration in module.declarations:
            if isinstance(declaration, s.Import):
                imported = self._import(declaration, folder, inside)
                imports[declaration.module] = imported
                environment.update(_imported_names(declaration, imported))
        inference = self.inference(self.solver(), environment)
        known: dict[str, s.Datatype] = {}
        for imported in (library, *imports.values()):
            for datatype in imported.inference.datatypes.values() if imported else ():
                _refuse_other(known.setdefault(datatype.name, datatype), datatype, module)
                inference.include_datatype(datatype)
        schemes = inference.module(module)
        return CheckedModule(module, schemes, inference, imports)

    def _import(
        self, declaration: s.Import, folder: Path, inside: tuple[Path, ...]
    ) -> CheckedModule:
        path = (folder / declaration.module).with_suffix(self.extension)
        if path in inside:
            names = " -> ".join(p.stem for p in (*inside[inside.index(path) :], path))
            raise ImportCycle(f"modules import each other: {names}", span=declaration.span)
        if not path.is_file():
            raise ImportNotFound(
                f"there is no module `{declaration.module}`", span=declaration.span,
                expected=f"a file {path}",
            )  # fmt: skip
        module = self.parse(read_source(path), str(path))
        return self._check(module, folder, (*inside, path))


def exported(library: CheckedModule) -> dict[str, Scheme]:
    """What a library offers: names that end with a prime are its own."""
    return {name: scheme for name, scheme in library.schemes.items() if not name.endswith("'")}


def _refuse_other(known: s.Datatype, datatype: s.Datatype, module: s.Module) -> None:
    """Raise DuplicateName if two modules that a third one uses make types of one name."""
    if known.span == datatype.span or s.structure(known) == s.structure(datatype):
        return
    imports = [d for d in module.declarations if isinstance(d, s.Import)]
    raise DuplicateName(
        f"modules that are imported here make different types `{datatype.name}`",
        span=imports[-1].span, hint="rename one of them",
    ).with_note("one", known.span).with_note("the other", datatype.span)  # fmt: skip


def require_text(source: object) -> str:
    """What is given as a program, if it is text. Raises NotAProgram, or ProgramSyntaxError."""
    if isinstance(source, str):
        try:
            source.encode()
        except UnicodeEncodeError as error:
            found = f"character {error.start} is {source[error.start]!r}"
            raise ProgramSyntaxError("a program is Unicode text", found=found) from None
        return source
    raise NotAProgram(
        "a program is text",
        expected="a string with its text",
        found=f"a value of type {type(source).__name__}",
        hint="a program in a file is loaded by the file's path",
    )


def read_source(path: Path) -> str:
    """The text of a source file. Raises ProgramNotFound, or ProgramSyntaxError for other text."""
    if not path.is_file():
        raise ProgramNotFound(
            f"there is no file {path}",
            expected="the path of a program",
            found=str(path),
            hint=None if path.is_absolute() else "paths are from where the process was started",
        )
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProgramSyntaxError(f"{path} is not UTF-8 text: {error.reason}") from None


def _imported_names(declaration: s.Import, imported: CheckedModule) -> dict[str, Scheme]:
    schemes = imported.schemes
    if declaration.names is None:
        constructors = imported.inference.constructors
        qualified = {f"{declaration.module}.{n}": scheme for n, scheme in schemes.items()}
        return qualified | {n: schemes[n] for n in constructors if n in schemes}
    for name in declaration.names:
        if name not in schemes:
            raise ImportNotFound(
                f"`{declaration.module}` defines no `{name}`", span=_span(declaration)
            )
    return {name: schemes[name] for name in declaration.names}


def _span(declaration: s.Import) -> Span:
    return declaration.span


@cache
def core() -> Language:
    """The bare language."""
    return Language()
