"""A kernel as a value: its Python function, source, parameters and globals."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tawa.base.errors import TawaError
from tawa.frontend.source.annotations import Declaration, declaration_of
from tawa.language import dtypes


class NoSource(TawaError):
    """The Python source of a kernel can't be read."""

    explanation = (
        "A kernel is compiled from its source text, so it must be a `def` in a file (or in code "
        "that `linecache` knows), not a lambda or a function made by `exec`."
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
        self.do_not_specialize = do_not_specialize
        self.do_not_specialize_on_alignment = do_not_specialize_on_alignment
        self.__name__: str = self.fn.__name__
        self.__doc__ = self.fn.__doc__
        self.__module__ = self.fn.__module__

    def __repr__(self) -> str:
        return f"<kernel {self.__module__}.{self.__name__}>"

    @cached_property
    def signature(self) -> inspect.Signature:
        """The Python signature."""
        return inspect.signature(self.fn)

    @cached_property
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
        """The function's text and syntax tree; raises `NoSource`."""
        try:
            lines, first = inspect.getsourcelines(self.fn)
            text = textwrap.dedent("".join(lines))
            module = ast.parse(text)
        except (OSError, TypeError, SyntaxError) as error:
            raise NoSource(f"the source of `{self.__name__}` can't be read: {error}") from error
        indent = len(lines[0]) - len(lines[0].lstrip())
        for node in module.body:
            if isinstance(node, ast.FunctionDef):
                file = self.fn.__code__.co_filename
                return Source(file, first, indent, text, node, text.isascii())
        raise NoSource(f"`{self.__name__}` is not a `def`")

    @cached_property
    def namespace(self) -> Mapping[str, Any]:
        """The names that the function sees around it: globals and closure variables.

        A global that is annotated `tl.constexpr` is one, whatever was assigned to it.
        """
        closure: Mapping[str, Any] = (
            inspect.getclosurevars(self.fn).nonlocals if self.fn.__closure__ else {}
        )
        around = self.fn.__globals__
        constants = {
            name: dtypes.constexpr(dtypes.unwrap(around[name]))
            for name, annotation in around.get("__annotations__", {}).items()
            if name in around and is_constexpr_annotation(annotation)
        }
        return {**around, **constants, **closure}


def python_function(fn: Any) -> Callable[..., Any]:
    """The Python function inside `fn`, through any number of `.fn` (jit, autotune, heuristics)."""
    while not inspect.isfunction(fn):
        inner = getattr(fn, "fn", None)
        if inner is None:
            raise TypeError(f"a Python function expected, found {fn!r}")
        fn = inner
    return fn


def is_jit_function(value: Any) -> bool:
    """Whether kernels may call `value`: ours or Triton's jitted functions, by shape."""
    if isinstance(value, JITFunction):
        return True
    inner = getattr(value, "fn", None)
    return inner is not None and not inspect.isclass(value) and callable(inner)


def is_constexpr_annotation(annotation: Any) -> bool:
    """Whether an annotation is `tl.constexpr` (ours, Triton's, or as text)."""
    if annotation is dtypes.constexpr:
        return True
    if isinstance(annotation, str):
        return annotation.split(".")[-1].strip("'\" ") == "constexpr"
    return getattr(annotation, "__name__", "") == "constexpr"
