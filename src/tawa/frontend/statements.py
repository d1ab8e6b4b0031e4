"""Compiling statements: assignments, run-time and compile-time control flow."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import scf
from xdsl.ir import Block, Region, SSAValue

from tawa import language
from tawa.base.spans import Span
from tawa.frontend import conversion
from tawa.frontend.advice import SYNTAX
from tawa.frontend.builder import hint, name_values
from tawa.frontend.conversion import fail
from tawa.frontend.errors import (
    BranchTypeMismatch,
    ConstantReassigned,
    LoopTypeChange,
    MisplacedReturn,
    NotConstant,
    UnsupportedSyntax,
)
from tawa.frontend.expressions import Expressions
from tawa.frontend.loops import ForLoop, loop_of
from tawa.frontend.operators import SYMBOLS
from tawa.frontend.scope import Binding, Scope
from tawa.frontend.values import (
    Tensor,
    Undefined,
    Value,
    describe,
    flatten,
    is_number,
    is_runtime,
    is_tuple,
    rebuild,
    same_type,
)
from tawa.tile.ops import RowEnds

STATEMENTS = "assignments, `if`, `for`, `while`, `return`, `assert`, `pass`, expressions"


@dataclass(frozen=True)
class Returned:
    """A path of control flow ended with `return`."""

    value: Value
    span: Span | None


class Statements(Expressions):
    """Compiles the statements of one function."""

    loop_depth = 0

    def run(self, statements: Sequence[ast.stmt]) -> Returned | None:
        """Compile statements in order; tells whether, and with what, they return."""
        for index, statement in enumerate(statements):
            rest = statements[index + 1 :]
            if isinstance(statement, ast.If):
                done, result = self.run_if(statement, rest)
                if done:
                    return result
            elif isinstance(statement, ast.Return):
                return self.run_return(statement)
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
                    hint=_HINTS.get(name) or SYNTAX.get(name),
                )
            method(statement)

    # --- simple statements ----------------------------------------------------------------------

    def do_Pass(self, node: ast.Pass) -> None:
        """Nothing."""

    def do_Expr(self, node: ast.Expr) -> None:
        """A call for its effect, or a docstring."""
        if not isinstance(node.value, ast.Constant):
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
        """`x: tl.constexpr = y` keeps `y` a compile-time value; other annotations are ignored."""
        if node.value is None:
            return
        value = self.eval(node.value)
        constant = _annotation_name(node.annotation) == "constexpr"
        if constant and is_runtime(value):
            raise fail(
                self.b,
                NotConstant,
                "a `tl.constexpr` variable needs a compile-time value",
                found=describe(value),
            )
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

    def decay(self, value: Value) -> Value:
        """What a plain assignment makes of a value: numbers become run-time scalars."""
        if is_tuple(value):
            return tuple(self.decay(item) for item in value)
        return conversion.to_tensor(self.b, value) if is_number(value) else value

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

    # --- if -------------------------------------------------------------------------------------

    def run_if(self, node: ast.If, rest: Sequence[ast.stmt]) -> tuple[bool, Returned | None]:
        """An `if`. The first result says whether `rest` has been compiled as part of it."""
        test = self.eval(node.test)
        if not is_runtime(test):
            taken = node.body if test else node.orelse
            if _contains_return(taken):
                return True, self.run([*taken, *rest])
            return False, self.run(taken)
        with self.b.at(self.span_of(node.test)):
            chosen = self.truth(test, "the condition of an `if`", "reduce it, or use `tl.where`")
        with self.b.at(self.span_of(node)):
            if _contains_return([node]):
                return True, self._if_with_return(node, chosen, rest)
            self._plain_if(node, chosen)
        return False, None

    def _side(self, statements: Sequence[ast.stmt]) -> tuple[Block, Scope, Returned | None]:
        """Compile one side of an `if` into a block of its own, in a scope of its own."""
        outer, self.scope = self.scope, self.scope.copy()
        try:
            with self.b.inside(Block()) as block:
                result = self.run(statements)
            return block, self.scope, result
        finally:
            self.scope = outer

    def _plain_if(self, node: ast.If, chosen: Tensor) -> None:
        then_block, then_scope, _ = self._side(node.body)
        else_block, else_scope, _ = self._side(node.orelse)
        merged: list[tuple[str, Binding, Binding]] = []
        for name in _changed(self.scope, then_scope, else_scope):
            then, other = then_scope.get(name), else_scope.get(name)
            if not (then_scope.is_defined(name) and else_scope.is_defined(name)):
                present = then if then_scope.is_defined(name) else other
                span = present.span if present else None
                self.scope.undefine(name, "is assigned on one side of an `if` only", span)
            elif same_type(then.value, other.value):  # type: ignore[union-attr]  # both are defined
                merged.append((name, then, other))  # type: ignore[arg-type]  # both are defined
            else:
                self._conflict(name, then, other)  # type: ignore[arg-type]  # both are defined
        self._merge(chosen, (then_block, else_block), merged, node)

    def _conflict(self, name: str, then: Binding, other: Binding) -> None:
        error = BranchTypeMismatch(
            f"`{name}` gets different types on the two sides of an `if`",
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
        node: ast.If,
    ) -> None:
        then_values = [v for _, then, _ in merged for v in flatten(then.value)]
        else_values = [v for _, _, other in merged for v in flatten(other.value)]
        blocks[0].add_op(scf.YieldOp(*then_values))
        blocks[1].add_op(scf.YieldOp(*else_values))
        needed = bool(node.orelse) or bool(then_values)
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
        sides = [self._side([*body, *rest]) for body in (node.body, node.orelse)]
        values: list[Value] = []
        for block, _, result in sides:
            with self.b.inside(block):
                values.append(self.decay(result.value if result else None))
        if not same_type(*values):
            raise fail(
                self.b,
                BranchTypeMismatch,
                "the paths of this `if` return different types",
                found=f"{describe(values[0])} and {describe(values[1])}",
            )
        yielded = [list(flatten(value)) for value in values]
        for (block, _, _), ssas in zip(sides, yielded, strict=True):
            block.add_op(scf.YieldOp(*ssas))
        then, other = (Region(block) for block, _, _ in sides)
        op = self.b.add(scf.IfOp(chosen.ssa, [v.type for v in yielded[0]], then, other))
        return Returned(rebuild(values[0], iter(op.results)), self.b.span)

    # --- loops ----------------------------------------------------------------------------------

    def do_For(self, node: ast.For) -> None:
        """`for` over `range`, `tl.range` or `tl.static_range`."""
        if node.orelse:
            raise fail(self.b, UnsupportedSyntax, "`else` of a loop is not supported")
        if not isinstance(node.target, ast.Name):
            raise fail(
                self.b, UnsupportedSyntax, "a loop has one counter", expected="for i in range(n)"
            )
        loop = loop_of(self, node.iter)
        with self._in_loop():
            if isinstance(loop, ForLoop):
                self._run_time_for(node, node.target.id, loop)
            else:
                self._unrolled(node, node.target.id, loop)

    def _in_loop(self) -> _Depth:
        return _Depth(self)

    def _unrolled(self, node: ast.For, name: str, counters: Sequence[int]) -> None:
        for counter in counters:
            self.scope.set(name, counter, self.span_of(node.target), constant=True)
            self.run(node.body)
        self.scope.undefine(name, "counts a loop that is over", self.span_of(node.target))

    def _run_time_for(self, node: ast.For, name: str, loop: ForLoop) -> None:
        carried = self._carried(node.body, {name})
        starts = [v for _, binding in carried for v in flatten(binding.value)]
        lower, upper, step = loop.bounds(self.b)
        block = Block(arg_types=[lower.ssa.type, *(v.type for v in starts)])
        outer, self.scope = self.scope, self.scope.copy()
        with self.b.inside(block):
            hint(block.args[0], name)
            counter = loop.counter(self.b, Tensor(block.args[0], lower.dtype))
            self.scope.set(name, counter, self.span_of(node.target))
            if loop.row_ends is not None:
                self.b.add(RowEnds(loop.row_ends.ssa))
            self._enter(carried, iter(block.args[1:]))
            self.run(node.body)
            ends = self._leave(carried, outer)
            self.b.add(scf.YieldOp(*ends))
        inner, self.scope = self.scope, outer
        op = scf.ForOp(lower.ssa, upper.ssa, step.ssa, starts, block)
        op.attributes |= loop.attributes
        self._after(carried, iter(self.b.add(op).results), inner, {name})

    def do_While(self, node: ast.While) -> None:
        """`while`."""
        if node.orelse:
            raise fail(self.b, UnsupportedSyntax, "`else` of a loop is not supported")
        with self._in_loop():
            self._while(node)

    def _while(self, node: ast.While) -> None:
        carried = self._carried(node.body, set())
        starts = [v for _, binding in carried for v in flatten(binding.value)]
        types = [v.type for v in starts]
        before, after = Block(arg_types=types), Block(arg_types=types)
        outer, self.scope = self.scope, self.scope.copy()
        with self.b.inside(before):
            self._enter(carried, iter(before.args))
            test = self.eval(node.test)
            if not is_runtime(test):
                if not test:
                    self.scope = outer
                    return
                raise fail(
                    self.b,
                    UnsupportedSyntax,
                    "this loop never ends",
                    hint="its condition must depend on a variable that it changes",
                )
            chosen = self.truth(test, "the condition of `while`", "reduce it first")
            self.b.add(scf.ConditionOp(chosen.ssa, *before.args))
        with self.b.inside(after):
            self._enter(carried, iter(after.args))
            self.run(node.body)
            self.b.add(scf.YieldOp(*self._leave(carried, outer)))
        inner, self.scope = self.scope, outer
        op = self.b.add(scf.WhileOp(starts, types, Region(before), Region(after)))
        self._after(carried, iter(op.results), inner, set())

    def _carried(self, body: Sequence[ast.stmt], own: set[str]) -> list[tuple[str, Binding]]:
        """The run-time variables that exist before a loop and are assigned in its body."""
        names = dict.fromkeys(_assigned(body))
        bindings = [(n, self.scope.get(n)) for n in names if n not in own]
        return [(n, b) for n, b in bindings if b is not None and is_runtime(b.value)]

    def _enter(self, carried: list[tuple[str, Binding]], arguments: Iterator[SSAValue]) -> None:
        for name, binding in carried:
            value = rebuild(binding.value, arguments)
            name_values(list(flatten(value)), name)
            self.scope.set(name, value, binding.span)

    def _leave(self, carried: list[tuple[str, Binding]], outer: Scope) -> list[SSAValue]:
        """The values for the next iteration; every variable must have kept its type."""
        for name, before in carried:
            now = self.scope.get(name)
            assert now is not None
            if isinstance(now.value, Undefined) or not same_type(before.value, now.value):
                self._changed_type(name, before, now)
        for name, before in outer.bindings.items():
            now = self.scope.get(name)
            if now is None or now is before or is_runtime(before.value):
                continue
            if is_number(before.value) or before.constant:
                error = ConstantReassigned(
                    f"`{name}` is a compile-time value and is assigned in a loop",
                    span=now.span,
                    found=f"{describe(before.value)} before the loop",
                    hint="assign to another name",
                )
                raise error
            if not isinstance(before.value, Undefined) and not same_type(before.value, now.value):
                self._changed_type(name, before, now)
        return [v for name, _ in carried for v in flatten(self.scope.bindings[name].value)]

    def _changed_type(self, name: str, before: Binding, now: Binding) -> None:
        found = "no value" if isinstance(now.value, Undefined) else describe(now.value)
        error = LoopTypeChange(
            f"`{name}` changes its type in a loop",
            span=now.span,
            expected=f"{describe(before.value)}, as before the loop",
            found=found,
            hint="give it its final type before the loop, or convert with `.to(...)`",
        )
        raise error.with_note(f"`{name}` gets its value before the loop here", before.span)

    def _after(
        self,
        carried: list[tuple[str, Binding]],
        results: Iterator[SSAValue],
        inner: Scope,
        own: set[str],
    ) -> None:
        for name, before in carried:
            value = rebuild(before.value, results)
            name_values(list(flatten(value)), name)
            self.scope.set(name, value, inner.bindings[name].span)
        for name, binding in inner.bindings.items():
            if name in own:
                self.scope.undefine(name, "counts a loop that is over", binding.span)
            elif name not in self.scope.bindings:
                self.scope.undefine(name, "is assigned only inside the loop here", binding.span)


class _Depth:
    """Counts the loops around a statement."""

    def __init__(self, compiler: Statements) -> None:
        self.compiler = compiler

    def __enter__(self) -> None:
        self.compiler.loop_depth += 1

    def __exit__(self, *_: object) -> None:
        self.compiler.loop_depth -= 1


_WORDS = {
    "Break": "break", "Continue": "continue", "Try": "try", "With": "with", "Raise": "raise",
    "FunctionDef": "def", "ClassDef": "class", "Global": "global", "Nonlocal": "nonlocal",
    "Import": "import", "ImportFrom": "import", "Delete": "del", "Match": "match",
}  # fmt: skip
_HINTS = {
    "Break": "use `while` with a condition",
    "Continue": "put the rest of the body into an `if`",
    "FunctionDef": "define the function outside and decorate it with `@tawa.jit`",
    "Raise": "use `tl.device_assert` or `tl.static_assert`",
}


def _annotation_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.split(".")[-1]
    return node.id if isinstance(node, ast.Name) else ""


def _contains_return(statements: Sequence[ast.stmt]) -> bool:
    """Whether a `return` is among the statements, outside of loops (where it is an error)."""
    for statement in statements:
        if isinstance(statement, ast.Return):
            return True
        if isinstance(statement, ast.If) and (
            _contains_return(statement.body) or _contains_return(statement.orelse)
        ):
            return True
    return False


def _assigned(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Names that statements assign, in the order of the text."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _changed(before: Scope, *after: Scope) -> list[str]:
    """Names whose binding differs between a scope and one of its copies."""
    names: dict[str, Any] = {}
    for scope in after:
        for name, binding in scope.bindings.items():
            if before.get(name) is not binding:
                names[name] = None
    return list(names)
