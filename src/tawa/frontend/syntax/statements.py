"""Compiling statements: assignments, run-time and compile-time control flow."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xdsl.dialects import scf
from xdsl.ir import Block, Region, SSAValue

from tawa import language
from tawa.frontend.source.errors import (
    BranchTypeMismatch,
    MisplacedReturn,
    UnsupportedSyntax,
)
from tawa.frontend.syntax.leaving import (
    Left,
    Returned,
    always_leaves,
    contains_return,
    going,
    may_leave,
    staying,
)
from tawa.frontend.syntax.loop_statements import LoopStatements
from tawa.frontend.values import conversion
from tawa.frontend.values.advice import SYNTAX
from tawa.frontend.values.builder import name_values
from tawa.frontend.values.conversion import fail
from tawa.frontend.values.operators import SYMBOLS
from tawa.frontend.values.scope import Binding, Scope
from tawa.frontend.values.values import (
    Tensor,
    Value,
    describe,
    flatten,
    is_runtime,
    is_tuple,
    rebuild,
    same_type,
)
from tawa.language.dtypes import int1

_Result = Returned | Left | None

STATEMENTS = (
    "assignments, `if`, `for`, `while`, `return`, `break`, `continue`, `assert`, `pass`, "
    "expressions"
)


class Statements(LoopStatements):
    """Compiles the statements of one function."""

    def run(self, statements: Sequence[ast.stmt]) -> Returned | Left | None:
        """Compile statements in order; tells how they end if not by reaching the end."""
        for index, statement in enumerate(statements):
            rest = statements[index + 1 :]
            if isinstance(statement, ast.If):
                done, result = self.run_if(statement, rest)
                if done:
                    return result
            elif isinstance(statement, ast.Return):
                return self.run_return(statement)
            elif isinstance(statement, ast.Break | ast.Continue):
                return self.run_leave(statement)
            else:
                self.run_simple(statement)
        return None

    def run_simple(self, statement: ast.stmt) -> None:
        """A statement that can't return."""
        method = getattr(self, f"do_{type(statement).__name__}", None)
        with self.b.at(self.span_of(statement)):
            if method is None:
                name = type(statement).__name__
                raise fail(
                    self.b,
                    UnsupportedSyntax,
                    f"`{_WORDS.get(name, name)}` is not supported",
                    expected=STATEMENTS,
                    found=f"`{ast.unparse(statement).partition(chr(10))[0]}`",
                    hint=_HINTS.get(name) or SYNTAX.get(name),
                )
            method(statement)

    # --- simple statements ----------------------------------------------------------------------

    def do_Pass(self, node: ast.Pass) -> None:
        """Nothing."""

    def do_Expr(self, node: ast.Expr) -> None:
        """A call for its effect, or a docstring."""
        if isinstance(node.value, ast.Constant):
            return
        self.unused = node.value
        self.eval(node.value)

    def do_Assert(self, node: ast.Assert) -> None:
        """`assert`: at compile time if it can be decided, else a device assertion."""
        message = self.eval(node.msg) if node.msg is not None else ""
        test = self.eval(node.test)
        function = language.device_assert if is_runtime(test) else language.static_assert
        self.call(function, [test, message], {})

    def do_Assign(self, node: ast.Assign) -> None:
        """`x = y`, `a = b = c`, `a, b = c`."""
        value = self.eval(node.value)
        for target in node.targets:
            self.assign(target, value)

    def do_AnnAssign(self, node: ast.AnnAssign) -> None:
        """`x: tl.constexpr = y` keeps `y` a compile-time value, if it is one.

        Other annotations are ignored, and so is this one of a value that is known only as the
        program runs, as in Triton: where it has to be known before, its use is an error.
        """
        if node.value is None:
            return
        value = self.eval(node.value)
        constant = _annotation_name(node.annotation) == "constexpr" and not is_runtime(value)
        self.assign(node.target, value, constant=constant)

    def do_AugAssign(self, node: ast.AugAssign) -> None:
        """`x += y`."""
        if not isinstance(node.target, ast.Name):
            raise fail(self.b, UnsupportedSyntax, "only variables can be assigned to")
        load = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        value = self.operate(
            SYMBOLS.get(type(node.op), "@"), self.eval(load), self.eval(node.value)
        )
        self.assign(node.target, value)

    def assign(self, target: ast.expr, value: Value, *, constant: bool = False) -> None:
        """Give a name, or the names of a tuple, their values."""
        if isinstance(target, ast.Name):
            kept = value if constant else self.decay(value)
            name_values(list(flatten(kept)), target.id)
            self.scope.set(target.id, kept, self.span_of(target), constant=constant)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target.elts, value)
        else:
            raise fail(
                self.b,
                UnsupportedSyntax,
                "only variables can be assigned to",
                hint="tensors can't be changed in place; use `tl.where`, `tl.store`",
            )

    def _unpack(self, targets: list[ast.expr], value: Value) -> None:
        if not is_tuple(value) or len(value) != len(targets):
            found = f"{len(value)} values" if is_tuple(value) else describe(value)
            raise fail(
                self.b, UnsupportedSyntax, f"{len(targets)} values are needed here", found=found
            )
        for target, item in zip(targets, value, strict=True):
            self.assign(target, item)

    # --- return ---------------------------------------------------------------------------------

    def run_return(self, node: ast.Return) -> Returned:
        """`return`."""
        span = self.span_of(node)
        with self.b.at(span):
            if self.loop_depth:
                raise fail(
                    self.b,
                    MisplacedReturn,
                    "`return` inside a loop",
                    hint="leave the loop by its condition, and return after it",
                )
            value = None if node.value is None else self.eval(node.value)
        return Returned(value, span)

    def run_leave(self, node: ast.Break | ast.Continue) -> Left:
        """`break` or `continue`."""
        no = conversion.scalar(self.b, 0, int1)
        self.scope.set(staying(self.loop_depth), no, None)
        broken = isinstance(node, ast.Break)
        if broken:
            self.scope.set(going(self.loop_depth), no, None)
        return Left(broken)

    # --- if -------------------------------------------------------------------------------------

    def run_if(self, node: ast.If, rest: Sequence[ast.stmt]) -> tuple[bool, Returned | Left | None]:
        """An `if`. The first result says whether `rest` has been compiled as part of it."""
        test = self.eval(node.test)
        if not is_runtime(test):
            taken = node.body if test else node.orelse
            if contains_return(taken) or may_leave(taken):
                return True, self.run([*taken, *rest])
            return False, self.run(taken)
        with self.b.at(self.span_of(node.test)):
            chosen = self.truth(test, "the condition of an `if`", "reduce it, or use `tl.where`")
        with self.b.at(self.span_of(node)):
            if contains_return([node]):
                return True, self._if_with_return(node, chosen, rest)
            if may_leave([node]):
                return True, self._if_with_way_out(node, chosen, rest)
            self._branch(chosen, lambda: self.run(node.body), lambda: self.run(node.orelse))
        return False, None

    def choose(self, chosen: Tensor, then: Callable[[], None]) -> None:
        """Compile what happens only if a scalar is true."""
        self._branch(chosen, then, _nothing, lenient=True)

    def _side(self, side: Callable[[], _Result]) -> tuple[Block, Scope, _Result]:
        """Compile one side of an `if` into a block of its own, in a scope of its own."""
        outer, self.scope = self.scope, self.scope.copy()
        try:
            with self.b.inside(Block()) as block:
                result = side()
            return block, self.scope, result
        finally:
            self.scope = outer

    def _if_with_way_out(
        self, node: ast.If, chosen: Tensor, rest: Sequence[ast.stmt]
    ) -> Left | None:
        """An `if` that may end an iteration of a loop: what follows runs where it does not."""
        then, other = node.body, node.orelse
        if always_leaves(then) or always_leaves(other):
            sides = [s if always_leaves(s) else [*s, *rest] for s in (then, other)]
            ends = self._branch(
                chosen, lambda: self.run(sides[0]), lambda: self.run(sides[1]), lenient=True
            )
            both = [end for end in ends if isinstance(end, Left)]
            return Left(all(end.broken for end in both)) if len(both) == 2 else None
        self._branch(chosen, lambda: self.run(then), lambda: self.run(other), lenient=True)
        if rest:
            unfinished = self._flag(staying(self.loop_depth))
            self._branch(unfinished, lambda: self.run(rest), _nothing, lenient=True)
        return None

    def _branch(
        self,
        chosen: Tensor,
        then_side: Callable[[], _Result],
        else_side: Callable[[], _Result],
        *,
        lenient: bool = False,
    ) -> tuple[_Result, _Result]:
        """An `if` from both sides; variables that they change differently are chosen after it.

        `lenient`: a variable that has different types after the sides has no value.
        """
        then_block, then_scope, then_result = self._side(then_side)
        else_block, else_scope, else_result = self._side(else_side)
        merged: list[tuple[str, Binding, Binding]] = []
        for name in _changed(self.scope, then_scope, else_scope):
            then, other = then_scope.get(name), else_scope.get(name)
            if not (then_scope.is_defined(name) and else_scope.is_defined(name)):
                present, absent = (then, other) if then_scope.is_defined(name) else (other, then)
                reason = "is assigned on one side of an `if` only"
                if absent is not None and absent is not self.scope.get(name):
                    reason = getattr(absent.value, "reason", reason)
                self.scope.undefine(name, reason, present.span if present else None)
            elif same_type(then.value, other.value):  # type: ignore[union-attr]  # both are defined
                merged.append((name, then, other))  # type: ignore[arg-type]  # both are defined
            elif lenient:
                span = then.span  # type: ignore[union-attr]  # both are defined
                self.scope.undefine(name, "has different types on the paths that lead here", span)
            else:
                self._conflict(name, then, other)  # type: ignore[arg-type]  # both are defined
        self._merge(chosen, (then_block, else_block), merged)
        return then_result, else_result

    def _conflict(self, name: str, then: Binding, other: Binding) -> None:
        error = BranchTypeMismatch(
            f"Mismatched type for {name}: it differs between the two sides of an `if`",
            span=then.span,
            found=f"{describe(then.value)} and {describe(other.value)}",
            hint="convert one of them",
        )
        raise error.with_note(f"the other side gives `{name}` its value here", other.span)

    def _merge(
        self,
        chosen: Tensor,
        blocks: tuple[Block, Block],
        merged: list[tuple[str, Binding, Binding]],
    ) -> None:
        then_values = [v for _, then, _ in merged for v in flatten(then.value)]
        else_values = [v for _, _, other in merged for v in flatten(other.value)]
        blocks[0].add_op(scf.YieldOp(*then_values))
        blocks[1].add_op(scf.YieldOp(*else_values))
        needed = bool(then_values) or len(blocks[1].ops) > 1
        op = self.b.add(
            scf.IfOp(
                chosen.ssa,
                [v.type for v in then_values],
                Region(blocks[0]),
                Region(blocks[1]) if needed else Region(),
            )
        )
        fresh: Iterator[SSAValue] = iter(op.results)
        for name, then, _ in merged:
            value = rebuild(then.value, fresh)
            name_values(list(flatten(value)), name)
            self.scope.set(name, value, then.span, constant=then.constant)

    def _if_with_return(self, node: ast.If, chosen: Tensor, rest: Sequence[ast.stmt]) -> Returned:
        """An `if` that may return: what follows it moves into the sides that go on."""
        paths = [[*body, *rest] for body in (node.body, node.orelse)]
        sides = [self._side(lambda path=path: self.run(path)) for path in paths]
        values: list[Value] = []
        for block, _, result in sides:
            with self.b.inside(block):
                returned = result.value if isinstance(result, Returned) else None
                values.append(self.decay(returned))
        if not same_type(*values):
            raise fail(
                self.b,
                BranchTypeMismatch,
                "Inconsistent return types: the paths of this `if` return different types",
                found=f"{describe(values[0])} and {describe(values[1])}",
            )
        yielded = [list(flatten(value)) for value in values]
        for (block, _, _), ssas in zip(sides, yielded, strict=True):
            block.add_op(scf.YieldOp(*ssas))
        then, other = (Region(block) for block, _, _ in sides)
        op = self.b.add(scf.IfOp(chosen.ssa, [v.type for v in yielded[0]], then, other))
        return Returned(rebuild(values[0], iter(op.results)), self.b.span)


_WORDS = {
    "Try": "try", "With": "with", "Raise": "raise",
    "FunctionDef": "def", "ClassDef": "class", "Global": "global", "Nonlocal": "nonlocal",
    "Import": "import", "ImportFrom": "import", "Delete": "del", "Match": "match",
}  # fmt: skip
_HINTS = {
    "FunctionDef": "define the function outside and decorate it with `@tawa.jit`",
    "Raise": "use `tl.device_assert` or `tl.static_assert`",
}


def _annotation_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.split(".")[-1]
    return node.id if isinstance(node, ast.Name) else ""


def _changed(before: Scope, *after: Scope) -> list[str]:
    """Names whose binding differs between a scope and one of its copies."""
    names: dict[str, Any] = {}
    for scope in after:
        for name, binding in scope.bindings.items():
            if before.get(name) is not binding:
                names[name] = None
    return list(names)


def _nothing() -> None:
    """A side without statements."""
