"""Python's operators: their symbols, and what they do at compile time and at run time."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from tawa.frontend.values import arithmetic
from tawa.frontend.values.builder import Builder
from tawa.frontend.values.values import Tensor, Value

DYNAMIC: dict[str, Callable[[Builder, Value, Value], Tensor]] = {
    "+": arithmetic.add,
    "-": arithmetic.subtract,
    "*": arithmetic.multiply,
    "/": arithmetic.divide,
    "//": arithmetic.floor_divide,
    "%": arithmetic.remainder,
    **{s: lambda b, x, y, s=s: arithmetic.bitwise(b, s, x, y) for s in "&|^"},
    **{s: lambda b, x, y, s=s: arithmetic.shift(b, s, x, y) for s in ("<<", ">>")},
    **{
        s: lambda b, x, y, s=s: arithmetic.compare(b, s, x, y)
        for s in ("==", "!=", "<", "<=", ">", ">=")
    },
}
"""Operator -> how it is done at run time."""

_PYTHON: Any = operator

STATIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": _PYTHON.add, "-": _PYTHON.sub, "*": _PYTHON.mul, "/": _PYTHON.truediv,
    "//": _PYTHON.floordiv, "%": _PYTHON.mod, "**": _PYTHON.pow, "&": _PYTHON.and_,
    "|": _PYTHON.or_, "^": _PYTHON.xor, "<<": _PYTHON.lshift, ">>": _PYTHON.rshift,
    "==": _PYTHON.eq, "!=": _PYTHON.ne, "<": _PYTHON.lt, "<=": _PYTHON.le,
    ">": _PYTHON.gt, ">=": _PYTHON.ge, "is": _PYTHON.is_, "is not": _PYTHON.is_not,
}  # fmt: skip
"""Operator -> Python's meaning, for compile-time operands."""

SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<",
    ast.RShift: ">>", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">",
    ast.GtE: ">=", ast.Is: "is", ast.IsNot: "is not", ast.And: "and", ast.Or: "or",
}  # fmt: skip
