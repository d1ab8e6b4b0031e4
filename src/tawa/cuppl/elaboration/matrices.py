"""Elaboration of matrices: their sizes and their elements, row by row, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tawa.base.source import Span
from tawa.cuppl.core.ir import Reg, Type
from tawa.cuppl.elaboration.elaborator import Elaborator, parameters
from tawa.cuppl.elaboration.values import Dyn, Value
from tawa.cuppl.typing.failures import INDEX, USER
from tawa.functional.terms import Con, Term

__all__ = ["MATRIX_BUILTINS"]

INT, FLOAT, MATRIX = Con("int"), Con("float"), Con("matrix")
Rule = Callable[[Elaborator, Con, Sequence[Value], Span], Value]


def _refuse(e: Elaborator, condition: Reg, span: Span, text: str) -> None:
    """Stop with an error where sizes do not fit."""
    e.b.fail_if(condition, USER, e.shared.site(span, text))


def _matrix_of(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    b, (kinds, result) = e.b, parameters(type_, 3)
    rows, columns, cells = (e.single(a, k) for a, k in zip(args, kinds, strict=True))
    zero = b.const(0)
    none = b.op("or", b.op("lti", rows, zero), b.op("lti", columns, zero))
    length = b.load(cells, 1, Type.I64)
    other = b.op("nei", b.op("muli", rows, columns), length)
    wrong = b.op("or", b.op("or", none, other), b.op("mul_overflows", rows, columns))
    _refuse(e, wrong, span, "a matrix needs as many elements as rows times columns")
    return Dyn(result, (rows, columns, cells))


def _part(index: int) -> Rule:
    """One of the sizes, or the elements."""

    def rule(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
        del span
        return Dyn(parameters(type_, 1)[1], (e.regs(args[0], MATRIX)[index],))

    return rule


def _entry(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    del type_
    b = e.b
    rows, columns, cells = e.regs(args[0], MATRIX)
    i, j = (e.single(a, INT) for a in args[1:])
    zero = b.const(0)
    low = b.op("or", b.op("lti", i, zero), b.op("lti", j, zero))
    high = b.op("or", b.op("gei", i, rows), b.op("gei", j, columns))
    b.fail_if(b.op("or", low, high), INDEX, e.shared.site(span))
    return e.element(cells, b.op("addi", b.op("muli", i, columns), j), FLOAT)


def _transpose(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    del type_, span
    rows, columns, cells = e.regs(args[0], MATRIX)
    (turned,) = e.b.call("transpose", [cells, rows, columns], [Type.REF])
    return Dyn(MATRIX, (columns, rows, turned))


def _is_vector(type_: Term) -> bool:
    return isinstance(type_, Con) and type_.name == "vector"


def _product(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    b, (kinds, result) = e.b, parameters(type_, 2)
    rows, inner, cells = e.regs(args[0], MATRIX)
    text = "a matrix is multiplied with what has not as many rows as it has columns"
    if _is_vector(kinds[1]):
        vector = e.single(args[1], kinds[1])
        _refuse(e, b.op("nei", inner, b.load(vector, 1, Type.I64)), span, text)
        return Dyn(result, b.call("matrix_vector", [cells, vector, rows], [Type.REF]))
    other, columns, more = e.regs(args[1], MATRIX)
    _refuse(e, b.op("nei", inner, other), span, text)
    (out,) = b.call("matrix_product", [cells, more, rows, inner, columns], [Type.REF])
    return Dyn(result, (rows, columns, out))


def _cholesky(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
    del type_
    rows, columns, cells = e.regs(args[0], MATRIX)
    _square(e, rows, columns, span)
    return Dyn(MATRIX, (rows, columns, *e.b.call("cholesky", [cells, rows], [Type.REF])))


def _square(e: Elaborator, rows: Reg, columns: Reg, span: Span) -> None:
    _refuse(e, e.b.op("nei", rows, columns), span, "this needs as many rows as columns")


def _solve(lower: bool) -> Rule:
    """The solution of a triangular system, for a vector or for each column of a matrix."""

    def rule(e: Elaborator, type_: Con, args: Sequence[Value], span: Span) -> Value:
        b, (kinds, result) = e.b, parameters(type_, 2)
        rows, columns, cells = e.regs(args[0], MATRIX)
        _square(e, rows, columns, span)
        text = "the right side of a triangular system has not as many rows as the left side"
        if _is_vector(kinds[1]):
            vector = e.single(args[1], kinds[1])
            _refuse(e, b.op("nei", rows, b.load(vector, 1, Type.I64)), span, text)
            name = "solve_lower" if lower else "solve_upper"
            return Dyn(result, b.call(name, [cells, vector, b.const(0)], [Type.REF]))
        other, width, more = e.regs(args[1], MATRIX)
        _refuse(e, b.op("nei", rows, other), span, text)
        below = b.const(lower, Type.BOOL)
        (out,) = b.call("solve_columns", [cells, more, width, below], [Type.REF])
        return Dyn(result, (rows, width, out))

    return rule


MATRIX_BUILTINS = {
    "matrix_of": (3, _matrix_of),
    "rows": (1, _part(0)),
    "columns": (1, _part(1)),
    "entries": (1, _part(2)),
    "entry": (3, _entry),
    "@": (2, _product),
    "transpose": (1, _transpose),
    "cholesky_factor": (1, _cholesky),
    "solve_lower": (2, _solve(True)),
    "solve_upper": (2, _solve(False)),
}
"""Name -> (number of arguments, rule)."""
