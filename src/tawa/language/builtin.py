"""What a name of the tile language is: its signature and its documentation.

Nothing here computes. A `Builtin` is given its meaning by the front end, and a `Composite` is a
Python function in the tile language itself, which the front end inlines. Calling either outside a
kernel is an error.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from tawa.base.errors import TawaError
from tawa.base.user_frames import entry

Function = TypeVar("Function", bound=Callable[..., Any])


class OutsideKernel(TawaError):
    """A function of the tile language was called by ordinary Python code."""

    explanation = (
        "The functions of `tawa.language` describe what a kernel does; they have no meaning in "
        "ordinary Python. Call them inside a function decorated with `@tawa.jit`."
    )
    example = "import tawa.language as tl\ntl.zeros((4,), tl.float32)\n"


class LanguageFunction:
    """A function of the language: name, signature, documentation, and whether it is a method."""

    def __init__(self, function: Callable[..., Any], *, method: bool) -> None:
        self.function = function
        self.name: str = function.__name__
        self.signature = inspect.signature(function)
        self.is_method = method
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__wrapped__ = function

    def __repr__(self) -> str:
        needed = [p.name for p in self.signature.parameters.values() if p.default is p.empty]
        more = ["..."] if len(needed) < len(self.signature.parameters) else []
        return f"<tl.{self.name}({', '.join([*needed, *more])})>"

    @entry
    def __call__(self, *args: Any, **keywords: Any) -> NoReturn:
        """Raise `OutsideKernel`: there is no meaning in ordinary Python."""
        raise OutsideKernel(
            f"`tl.{self.name}` was called outside a kernel",
            expected="a call in a kernel",
            found="a call by ordinary Python code",
            hint="call it in a function decorated with `@tawa.jit`",
        )


class Builtin(LanguageFunction):
    """A function whose meaning the front end gives."""


class Composite(LanguageFunction):
    """A function written in the tile language; calls are inlined.

    Called with compile-time values only, it gives a compile-time value.
    """


def builtin(function: Function) -> Function:
    """Declare a function that the front end gives a meaning."""
    return Builtin(function, method=False)  # type: ignore[return-value]  # called in kernels only


def method(function: Function) -> Function:
    """Declare a builtin that is a method of tensors too: `x.sum()` is `tl.sum(x)`."""
    return Builtin(function, method=True)  # type: ignore[return-value]  # called in kernels only


def composite(function: Function) -> Function:
    """Declare a function of the language that is written in the language."""
    return Composite(function, method=False)  # type: ignore[return-value]  # called in kernels only


def composite_method(function: Function) -> Function:
    """Declare a composite that is a method of tensors too."""
    return Composite(function, method=True)  # type: ignore[return-value]  # called in kernels only
