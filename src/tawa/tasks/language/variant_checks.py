"""What the source of a variant must not do: leaves launch nothing, inner variants touch no data."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tawa.base.source import Span
from tawa.driver.jit import Kernel
from tawa.tasks.language.errors import (
    LeafLaunches,
    LoopCarriesValue,
    PrivilegeViolation,
    SignatureMismatch,
)
from tawa.tasks.language.privileges import Privilege

PLAIN_FACTS = "shape", "dtype"
"""What a leaf may ask of an argument that it only writes."""


def check_leaf(function: Kernel, privileges: Mapping[str, Privilege]) -> None:
    """Raises `LeafLaunches`, or `PrivilegeViolation` where what is only written is read.

    Raises `SignatureMismatch` for a leaf that returns other values than its task writes.
    """
    tree = function.source.tree
    _check_returns(function, [name for name, own in privileges.items() if own.writes])
    asked = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in PLAIN_FACTS
    }
    for node in _names(tree):
        if _stands_for_launching(function, node.id):
            raise LeafLaunches(
                f"the leaf `{function.__name__}` uses `{node.id}`",
                span=_span(function, node),
                expected="tile-language code alone",
                found=f"`{node.id}` of tawa.tasks",
                hint="launch from an inner variant, and let it launch this leaf",
            )
        privilege = privileges.get(node.id)
        if privilege is None or privilege.sees or id(node) in asked:
            continue
        if isinstance(node.ctx, ast.Load) and not _assigned_before(tree, node):
            raise PrivilegeViolation(
                f"the leaf `{function.__name__}` reads `{node.id}`",
                span=_span(function, node),
                expected=f"`{node.id}` used for its shape and dtype only: its privilege is "
                f"{privilege}",
                found=f"its elements are read in `{ast.unparse(node)}`",
                hint="return what is combined into it"
                if privilege.operator
                else "return the new value, made of the others; or declare READ_WRITE",
            )


def _check_returns(function: Kernel, written: Sequence[str]) -> None:
    """Raises `SignatureMismatch` for a leaf without a value to return, or with too many or few."""
    tree = function.source.tree
    returns = [node for node in ast.walk(tree) if isinstance(node, ast.Return)]
    for one in returns:
        values = len(one.value.elts) if isinstance(one.value, ast.Tuple) else len(written)
        if one.value is not None and values == len(written):
            continue
        raise _other_values(function, one, written, values if one.value else 0)
    if not returns:
        raise _other_values(function, tree.body[-1], written, 0)


def _other_values(
    function: Kernel, place: ast.stmt, written: Sequence[str], count: int
) -> SignatureMismatch:
    return SignatureMismatch(
        f"the leaf `{function.__name__}` does not return what its task writes",
        span=_span(function, place),
        expected=f"return {', '.join(f'the new {name}' for name in written)}",
        found=f"{count} values" if count else "no value",
        hint="a leaf returns new tiles; it does not assign to its arguments",
    )


def check_inner(function: Kernel, privileges: Mapping[str, Privilege]) -> None:
    """Raises `LoopCarriesValue`: an inner loop's body is traced once, for all iterations."""
    tree = function.source.tree
    for loop in ast.walk(tree):
        if not isinstance(loop, ast.For) or not _is_task_loop(function, loop.iter):
            continue
        inside = {id(node) for part in loop.body for node in ast.walk(part)}
        stored = {
            node.id: node
            for part in loop.body
            for node in _names(part)
            if not isinstance(node.ctx, ast.Load)
        }
        for node in _names(tree):
            if id(node) in inside or node.id not in stored:
                continue
            if isinstance(node.ctx, ast.Load) and node.lineno < loop.lineno:
                continue
            if _is_of_other_loop(tree, loop, node):
                continue
            raise LoopCarriesValue(
                f"`{node.id}` is assigned in a loop's body and lives outside of it",
                span=_span(function, stored[node.id]),
                expected="a name of the body's own: the body is one for all iterations",
                found=f"`{node.id}` is also used in line {_span(function, node).line}",
                hint="compute it from the loop's index, or unroll the loop with `range`",
            )


def _is_of_other_loop(tree: ast.FunctionDef, loop: ast.For, node: ast.Name) -> bool:
    """Whether a name is one of another loop's own, which gives it a value before it is used."""
    for other in ast.walk(tree):
        if not isinstance(other, ast.For) or any(n is loop for n in ast.walk(other)):
            continue
        own = [n for n in _names(other) if n.id == node.id]
        if any(n is node for n in own):
            first = min(own, key=lambda n: (n.lineno, isinstance(n.ctx, ast.Store), n.col_offset))
            return isinstance(first.ctx, ast.Store)
    return False


def has_parallel_loop(function: Kernel) -> bool:
    """Whether a variant's text has a `prange`."""
    return any(
        isinstance(loop, ast.For) and _is_task_loop(function, loop.iter, ("prange",))
        for loop in ast.walk(function.source.tree)
    )


def _names(tree: ast.AST) -> Iterator[ast.Name]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Name))


def _assigned_before(tree: ast.FunctionDef, node: ast.Name) -> bool:
    """Whether a plain assignment at the function's top gives the name another value before."""
    for statement in tree.body:
        if statement.end_lineno is not None and statement.end_lineno >= node.lineno:
            return False
        if isinstance(statement, ast.Assign):
            targets = [t for target in statement.targets for t in _names(target)]
            if any(target.id == node.id for target in targets):
                return True
    return False


def _stands_for_launching(function: Kernel, name: str) -> bool:
    found: Any = function.namespace.get(name)
    return getattr(found, "__module__", "") == "tawa.tasks.language.running" or (
        type(found).__module__ == "tawa.tasks.language.task"
    )


def _is_task_loop(
    function: Kernel, node: ast.expr, loops: tuple[str, ...] = ("srange", "prange")
) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    found: Any = function.namespace.get(name, name)
    return name in loops or getattr(found, "__name__", "") in loops


def _span(function: Kernel, node: ast.expr | ast.stmt) -> Span:
    source = function.source
    return Span.of_node(node, source.file, first_line=source.first_line, indent=source.indent)
