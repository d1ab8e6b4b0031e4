"""Ways out of a block of statements: `return`, `break` and `continue`.

Kernels have structured control flow, so a way out at run time is a flag: what follows on the path
that goes on moves into its side of the `if`, and a loop with a `break` asks its flag in every
iteration.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tawa.base.spans import Span
from tawa.frontend.values.values import Value


@dataclass(frozen=True)
class Returned:
    """A path of control flow ended with `return`."""

    value: Value
    span: Span | None


@dataclass(frozen=True)
class Left:
    """A path of control flow ended its iteration of a loop, and with `broken` the loop."""

    broken: bool


def going(depth: int) -> str:
    """The hidden variable that says whether the loop of this depth has further iterations."""
    return f"loop {depth} goes on"


def staying(depth: int) -> str:
    """The hidden variable that says whether this depth's loop goes on with its iteration."""
    return f"turn of loop {depth} goes on"


def contains_return(statements: Sequence[ast.stmt]) -> bool:
    """Whether a `return` is among the statements, outside of loops (where it is an error)."""
    return any(isinstance(node, ast.Return) for node in _outside_of_loops(statements))


def may_leave(statements: Sequence[ast.stmt]) -> bool:
    """Whether the statements have a `break` or `continue` of the loop around them."""
    return any(isinstance(node, ast.Break | ast.Continue) for node in _outside_of_loops(statements))


def may_break(statements: Sequence[ast.stmt]) -> bool:
    """Whether the statements have a `break` of the loop around them."""
    return any(isinstance(node, ast.Break) for node in _outside_of_loops(statements))


def always_leaves(statements: Sequence[ast.stmt]) -> bool:
    """Whether each path through the statements ends with `break` or `continue`."""
    return any(
        isinstance(s, ast.Break | ast.Continue)
        or (isinstance(s, ast.If) and always_leaves(s.body) and always_leaves(s.orelse))
        for s in statements
    )


def _outside_of_loops(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in statements:
        yield statement
        if isinstance(statement, ast.If):
            yield from _outside_of_loops(statement.body)
            yield from _outside_of_loops(statement.orelse)
