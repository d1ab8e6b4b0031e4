"""Functions of compile-time values, usable in ordinary Python and in kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tawa.language.dtypes import dtype, dtype_named, unwrap


class ConstexprFunction:
    """A Python function of compile-time values that kernels may call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __repr__(self) -> str:
        return f"<constexpr function {self.__name__}>"

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """The function's value; `constexpr` arguments are unwrapped."""
        plain = {name: unwrap(value) for name, value in keywords.items()}
        return self.function(*(unwrap(value) for value in args), **plain)


def constexpr_function(function: Callable[..., Any]) -> ConstexprFunction:
    """Let kernels call `function` while they are compiled."""
    return ConstexprFunction(function)


def must_use_result(function: Any, why: str | bool = True) -> Any:
    """A decorator: a call whose result is not used is an error. Given a text, the error says it."""
    if isinstance(function, str):
        return partial(must_use_result, why=function)
    function._must_use_result = why
    return function


@constexpr_function
def cdiv(x: int, y: int) -> int:
    """`x / y` rounded up."""
    return -(-x // y)


@constexpr_function
def next_power_of_2(n: int) -> int:
    """The least power of two that is not below `n`; 1 for `n` below 2."""
    return 1 << max(0, n - 1).bit_length()


@constexpr_function
def get_int_dtype(bitwidth: int, signed: bool) -> dtype:
    """The integer type of a width; `int1` of width 1, whatever its sign."""
    return dtype_named(f"{'i' if signed else 'u'}{bitwidth}")


def aggregate(cls: type) -> type:
    """Triton's `_aggregate`: a class of values in kernels. It can be declared, and not used."""
    return cls
