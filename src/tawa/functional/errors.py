"""What can be wrong with a functional program, whichever of the languages it is in."""

from __future__ import annotations

from tawa.base.errors import TawaError


class FunctionalError(TawaError, group=True):
    """Base of the errors of Axon and CuPPL programs."""


class ProgramSyntaxError(FunctionalError):
    """The text is not a program of the language."""

    explanation = (
        "The parser met a word or sign that can't stand where it stands. The message lists what "
        "could have stood there. A frequent cause is a missing `in` after `let`, or a missing "
        "`end` after `match`."
    )
    example = "from tawa.functional.language import core\ncore().parse('def f x = x +')"


class UnboundName(FunctionalError):
    """A name is used that nothing defines."""

    explanation = "Names are bound by `def`, `let`, `fn`, patterns and `import`."
    example = "from tawa.functional.language import core\ncore().check('def f x = y')"


class DuplicateName(FunctionalError):
    """A module defines a name twice, or a pattern binds one twice."""

    explanation = "Each name is defined once in a module, and bound once in a pattern."
    example = "from tawa.functional.language import core\ncore().check('def f (x, x) = x')"


class UnknownType(FunctionalError):
    """A type is named that doesn't exist, or has another number of arguments."""

    explanation = "Type names are those of the language and those that `data` declares."
    example = "from tawa.functional.language import core\ncore().check('def f (x: quux) = x')"


class UnknownConstructor(FunctionalError):
    """A pattern names a constructor that no datatype has."""

    explanation = "Constructors begin with a capital letter and are declared by `data`."
    example = (
        "from tawa.functional.language import core\n"
        "core().check('def f x = match x with Leaf -> 1 end')"
    )


class TypesDisagree(FunctionalError):
    """Two types that have to be one type are not."""

    explanation = (
        "The error points at the place where the types meet and names both. Types are inferred, "
        "so the wrong one of the two may have been fixed earlier: the notes say where."
    )
    example = "from tawa.functional.language import core\ncore().check('def f x = 1 + true')"


class InfiniteType(FunctionalError):
    """A type would have to contain itself."""

    explanation = "This happens when a function is applied to itself, or returns itself."
    example = "from tawa.functional.language import core\ncore().check('def f x = x x')"


class NotATuple(FunctionalError):
    """`e.0` needs the type of `e` to be known as a tuple that is long enough."""

    explanation = "Take the tuple apart with a pattern, or annotate it."
    example = "from tawa.functional.language import core\ncore().check('def f x = x.0')"


class UncoveredCase(FunctionalError):
    """A `match` has no case for some value, or a case that can never be reached."""

    explanation = "Add the case that the message names, or a last case `_`."
    example = (
        "from tawa.functional.language import core\n"
        "core().check('def f x = match x with true -> 1 end')"
    )


class ProgramTooDeep(FunctionalError):
    """An expression is nested too deeply, or a recursion doesn't end."""

    explanation = (
        "Some thousand nested parentheses are fine, as are `let` chains of any length. A recursion "
        "without an end that is run meets this error too."
    )
    example = "from tawa import axon\naxon.load('def f x = f x')['f'](1.0)"


class ImportNotFound(FunctionalError):
    """An imported module, or a name in it, doesn't exist."""

    explanation = "`import m` looks for a file `m` with the language's extension beside this one."
    example = "from tawa.functional.language import core\ncore().check('import nowhere')"


class ProgramNotFound(FunctionalError):
    """The file of a program doesn't exist."""

    explanation = "Paths are from the folder that the process was started in."
    example = """
from pathlib import Path

from tawa.functional.language import core

core().check_file(Path("nowhere.ml"))
"""


class NotAProgram(FunctionalError):
    """A program is given by something that is neither text nor a path."""

    explanation = "A program is the text itself, or a file with that text, given by its path."
    example = """
from tawa.functional.language import require_text

require_text(None)
"""


class ImportCycle(FunctionalError):
    """Modules import each other in a circle."""

    explanation = "Move what they share into a module of its own."
    example = """
from pathlib import Path
from tawa.functional.language import core

Path("one.ml").write_text("import two")
Path("two.ml").write_text("import one")
core().check_file(Path("one.ml"))
"""
