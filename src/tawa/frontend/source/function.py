"""A kernel as a value: its Python function, source, parameters and globals."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from tawa.base.decorated import inner
from tawa.base.errors import TawaError
from tawa.language import dtypes
from tawa.language.annotations import Declaration, declaration_of


class NoSource(TawaError):
    """The Python source of a kernel can't be read."""

    explanation = (
        "A kernel is compiled from its source text, as it is when the function is decorated. It "
        "must be a `def` in a file (or in code that `linecache` knows, such as a notebook's), not "
        "a lambda, a function made by `exec`, or one that another decorator has wrapped."
    )
    example = """
import tawa

names = {}
exec("def scale(x): pass", names)
tawa.jit(names["scale"]).compile("*f32")
"""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel."""

    name: str
    is_constexpr: bool
    annotation: Any = field(default=None, compare=False)
    default: Any = inspect.Parameter.empty

    @property
    def has_default(self) -> bool:
        """Whether a launch may leave it out."""
        return self.default is not inspect.Parameter.empty

    @cached_property
    def declared(self) -> Declaration:
        """What the annotation says about the arguments."""
        none = self.annotation is inspect.Parameter.empty or self.is_constexpr
        return Declaration() if none else declaration_of(self.annotation)


@dataclass(frozen=True)
class Source:
    """A function's text as written: the file, where it starts, and its syntax tree."""

    file: str
    first_line: int
    indent: int
    text: str
    tree: ast.FunctionDef
    is_ascii: bool


class JITFunction:
    """A Python function in the tile language.

    Accepts a plain function, another `JITFunction`, or anything that has the function as `.fn`
    (such as `triton.JITFunction`, or an autotuner around one).
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        do_not_specialize: tuple[str | int, ...] = (),
        do_not_specialize_on_alignment: tuple[str | int, ...] = (),
    ) -> None:
        self.fn: Callable[..., Any] = python_function(fn)
        self._text = taken_text(fn)
        self.do_not_specialize = do_not_specialize
        self.do_not_specialize_on_alignment = do_not_specialize_on_alignment
        self.__name__: str = self.fn.__name__
        self.__doc__ = self.fn.__doc__
        self.__module__ = self.fn.__module__

    def __repr__(self) -> str:
        return f"<kernel {self.__module__}.{self.__name__}>"

    @property
    def signature(self) -> inspect.Signature:
        """The Python signature, with the default values of now."""
        fn: Any = self.fn
        defaults = fn.__defaults__, fn.__kwdefaults__
        known = self._signature
        if known is None or known[0] is not defaults[0] or known[1] is not defaults[1]:
            known = self._signature = *defaults, inspect.signature(fn)
        return known[2]

    _signature: tuple[Any, Any, inspect.Signature] | None = None

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """All parameters in order."""
        return tuple(
            Parameter(p.name, is_constexpr_annotation(p.annotation), p.annotation, p.default)
            for p in self.signature.parameters.values()
        )

    @property
    def arg_names(self) -> list[str]:
        """Names of all parameters in order."""
        return [p.name for p in self.parameters]

    @property
    def constexpr_names(self) -> tuple[str, ...]:
        """Names of the parameters annotated `tl.constexpr`."""
        return tuple(p.name for p in self.parameters if p.is_constexpr)

    @cached_property
    def source(self) -> Source:
        """The function's text when it was decorated, and its syntax tree; raises `NoSource`."""
        taken, fn = self._text, self.fn
        if hasattr(fn, "__wrapped__"):
            raise NoSource(
                f"`{self.__name__}` is wrapped by another decorator",
                found=f"a function of {fn.__code__.co_filename}, line {fn.__code__.co_firstlineno}",
                hint="put `@tawa.jit` right above the `def`",
            )
        lines = inspect.getblock(list(taken.lines[taken.first_line - 1 :])) if taken.lines else []
        text = textwrap.dedent("".join(lines))
        try:
            module = ast.parse(text)
        except SyntaxError as error:
            raise NoSource(f"the source of `{self.__name__}` can't be read: {error}") from error
        if not lines:
            raise NoSource(
                f"the source of `{self.__name__}` can't be read",
                found=f"no text of {fn.__code__.co_filename}",
                hint="write the function into a file and import it",
            )
        indent = len(lines[0]) - len(lines[0].lstrip())
        for node in module.body:
            if isinstance(node, ast.FunctionDef):
                if not _fits(node, fn.__code__):
                    raise NoSource(
                        f"the file of `{self.__name__}` was changed while it was imported",
                        found=f"`def {node.name}` in line {taken.first_line}",
                        hint="import it again",
                    )
                file = fn.__code__.co_filename
                return Source(file, taken.first_line, indent, text, node, text.isascii())
        raise NoSource(
            f"`{self.__name__}` is not a `def`",
            expected="a function that a file defines by `def`",
            found=f"`{self.__name__}` of {fn.__code__.co_filename}",
            hint="write the function in a file, as `def NAME(...)`",
        )

    @cached_property
    def namespace(self) -> Mapping[str, Any]:
        """The names that the function sees around it: globals and closure variables, as of now."""
        return Namespace(self.fn)


class Namespace(Mapping[str, Any]):
    """The globals and closure variables of a function, read when they are asked for.

    A global that is annotated `tl.constexpr` is one, whatever was assigned to it.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.globals: dict[str, Any] = fn.__globals__
        names, cells = fn.__code__.co_freevars, fn.__closure__ or ()
        self.cells = dict(zip(names, cells, strict=True))

    def __getitem__(self, name: str) -> Any:
        """The value of a name; KeyError if it has none."""
        if name in self.cells:
            try:
                return self.cells[name].cell_contents
            except ValueError:
                raise KeyError(name) from None
        value = self.globals[name]
        annotation = self.globals.get("__annotations__", {}).get(name)
        if annotation is not None and is_constexpr_annotation(annotation):
            return dtypes.constexpr(dtypes.unwrap(value))
        return value

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter({**self.globals, **self.cells})

    def __len__(self) -> int:
        return len({**self.globals, **self.cells})


@dataclass(frozen=True)
class Text:
    """The lines of a function's file when it was decorated, and where the function starts."""

    code: types.CodeType
    lines: Sequence[str]
    first_line: int


TAKEN = "__tawa_text__"


def taken_text(fn: Any) -> Text:
    """The text of a function as it was when it was first decorated.

    Only the file's lines are taken now, which all its functions share; they are cut and parsed
    when the function is compiled.
    """
    inner = python_function(fn)
    known = inner.__dict__.get(TAKEN)
    if known is not None and known.code is inner.__code__:
        return known
    code = inner.__code__
    text = _recorded_text(fn, code)
    if text is None:
        linecache.checkcache(code.co_filename)
        nameless = code.co_filename == "<string>"  # all texts that `exec` runs are called so
        lines = [] if nameless else linecache.getlines(code.co_filename, inner.__globals__)
        text = Text(code, lines, code.co_firstlineno)
    inner.__dict__[TAKEN] = text
    return text


def _recorded_text(fn: Any, code: types.CodeType) -> Text | None:
    """What Triton took when it decorated a function."""
    while not inspect.isfunction(fn):
        lines, first = getattr(fn, "raw_src", None), getattr(fn, "starting_line_number", None)
        if isinstance(lines, list) and isinstance(first, int):
            before = ["\n"] * (first - 1)
            return Text(code, before + cast("list[str]", lines), first)
        fn = fn.fn
    return None


def _fits(node: ast.FunctionDef, code: types.CodeType) -> bool:
    """Whether a `def` is the one that a code object was made of, as far as its head shows."""
    arguments = node.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    # In a class, `__x` is called `_Class__x`.
    return node.name == code.co_name and all(map(str.endswith, own, names))


def python_function(fn: Any) -> Callable[..., Any]:
    """The Python function inside `fn`, through any number of `.fn` (jit, autotune, heuristics)."""
    while not inspect.isfunction(fn):
        inner = getattr(fn, "fn", None)
        if inner is None:
            raise NoSource(
                f"{_shortly(fn)} can't be a kernel",
                expected="a function that a file defines by `def`",
                found="a class" if inspect.isclass(fn) else f"a value of type {type(fn).__name__}",
                hint="write what it computes as `def NAME(...)`, and decorate that",
            )
        fn = inner
    return fn


def _shortly(value: Any) -> str:
    """A value's name, or the start of what it prints as."""
    name = getattr(value, "__name__", None)
    return f"`{name or repr(value)[:60]}`"


def jit_function(value: Any) -> JITFunction:
    """A function that kernels may call, with the text that it was decorated with."""
    return value if isinstance(value, JITFunction) else JITFunction(value)


def is_jit_function(value: Any) -> bool:
    """Whether kernels may call `value`: ours or Triton's jitted functions, by shape."""
    return inner(value) is not None


def is_constexpr_annotation(annotation: Any) -> bool:
    """Whether an annotation is `tl.constexpr` (ours, Triton's, or as text)."""
    if annotation is dtypes.constexpr:
        return True
    if isinstance(annotation, str):
        return annotation.split(".")[-1].strip("'\" ") == "constexpr"
    return getattr(annotation, "__name__", "") == "constexpr"
