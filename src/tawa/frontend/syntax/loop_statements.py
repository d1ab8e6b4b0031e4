"""Compiling loops: run-time and unrolled `for`, `while`, and the ways out of them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

from xdsl.dialects import scf
from xdsl.ir import Block, Region, SSAValue

from tawa.frontend.source.errors import ConstantReassigned, LoopTypeChange, UnsupportedSyntax
from tawa.frontend.syntax.expressions import Expressions
from tawa.frontend.syntax.leaving import Left, Returned, going, may_break, may_leave, staying
from tawa.frontend.syntax.loops import ForLoop, loop_of
from tawa.frontend.values import arithmetic, conversion
from tawa.frontend.values.builder import hint, name_values
from tawa.frontend.values.conversion import fail
from tawa.frontend.values.scope import Binding, Scope
from tawa.frontend.values.values import (
    Tensor,
    Undefined,
    Value,
    describe,
    flatten,
    is_number,
    is_runtime,
    rebuild,
    same_type,
)
from tawa.language.dtypes import int1
from tawa.tile.dialect.ops import RowEnds

Carried = list[tuple[str, Binding]]
Lost = Mapping[str, Binding]


class LoopStatements(Expressions):
    """Compiles the loops of one function; `Statements` completes the class."""

    loop_depth = 0

    def run(self, statements: Sequence[ast.stmt]) -> Returned | Left | None:
        """Compile statements in order."""
        raise NotImplementedError

    def choose(self, chosen: Tensor, then: Callable[[], None]) -> None:
        """Compile what happens only if a scalar is true."""
        raise NotImplementedError

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
            if not isinstance(loop, ForLoop):
                self._unrolled(node, node.target.id, loop)
                self.scope.undefine(
                    node.target.id, "counts a loop that is over", self.span_of(node.target)
                )
            elif may_break(node.body):
                self._breaking_for(node, node.target.id, loop)
            else:
                self._run_time_for(node, node.target.id, loop)

    @contextmanager
    def _in_loop(self) -> Generator[None]:
        self.loop_depth += 1
        yield
        self.loop_depth -= 1

    def iteration(self, body: Sequence[ast.stmt]) -> Left | None:
        """Compile an iteration of a loop; tells how all of its paths end, if they end early."""
        if may_leave(body):
            self._raise_flag(staying(self.loop_depth))
        ended = self.run(body)
        self.scope.bindings.pop(staying(self.loop_depth), None)
        return ended if isinstance(ended, Left) else None

    def _raise_flag(self, name: str) -> None:
        self.scope.set(name, conversion.scalar(self.b, 1, int1), None)

    def _flag(self, name: str) -> Tensor:
        binding = self.scope.get(name)
        assert binding is not None and isinstance(binding.value, Tensor)
        return binding.value

    # --- `for` ----------------------------------------------------------------------------------

    def _unrolled(self, node: ast.For, name: str, counters: Sequence[int]) -> None:
        flag = going(self.loop_depth)
        breaks = may_break(node.body)
        for place, counter in enumerate(counters):
            if breaks:
                self._raise_flag(flag)
            start = self.scope.get(flag)
            self.scope.set(name, counter, self.span_of(node.target), constant=True)
            ended = self.iteration(node.body)
            if ended and ended.broken:
                return
            if breaks and self.scope.get(flag) is not start:
                rest = counters[place + 1 :]
                self.choose(self._flag(flag), lambda rest=rest: self._unrolled(node, name, rest))
                return

    def _run_time_for(
        self, node: ast.For, name: str, loop: ForLoop, lost: Lost = MappingProxyType({})
    ) -> None:
        own = {name, *lost}
        carried = self._carried(node.body, own)
        starts = [v for _, binding in carried for v in flatten(binding.value)]
        lower, upper, step = loop.bounds(self.b)
        block = Block(arg_types=[lower.ssa.type, *(v.type for v in starts)])
        outer, self.scope = self.scope, self.scope.copy()
        with self.b.inside(block):
            self._set_counter(node, name, loop, Tensor(block.args[0], lower.dtype))
            self._enter(carried, iter(block.args[1:]), lost)
            self.iteration(node.body)
            more = self._losses(carried)
            if not more:
                self.b.add(scf.YieldOp(*self._leave(carried, outer, lost)))
        inner, self.scope = self.scope, outer
        if more:
            self._run_time_for(node, name, loop, {**lost, **more})
            return
        op = scf.ForOp(lower.ssa, upper.ssa, step.ssa, starts, block)
        op.attributes |= loop.attributes
        self._after(carried, iter(self.b.add(op).results), inner, own)

    def _set_counter(self, node: ast.For, name: str, loop: ForLoop, raw: Tensor) -> None:
        hint(raw.ssa, name)
        self.scope.set(name, loop.counter(self.b, raw), self.span_of(node.target))
        if loop.row_ends is not None:
            self.b.add(RowEnds(loop.row_ends.ssa))

    def _breaking_for(self, node: ast.For, name: str, loop: ForLoop) -> None:
        """A `for` with a `break` is a `while` over its counter and the flag that it goes on."""
        lower, upper, step = loop.bounds(self.b)
        flag, counter = going(self.loop_depth), f"counter {self.loop_depth}"
        self._raise_flag(flag)
        self.scope.set(counter, lower, self.span_of(node.target))

        def more() -> Tensor:
            within = arithmetic.compare(self.b, "<", self._flag(counter), upper)
            return arithmetic.bitwise(self.b, "&", self._flag(flag), within)

        def body() -> None:
            raw = self._flag(counter)
            self._set_counter(node, name, loop, raw)
            self.iteration(node.body)
            self.scope.set(counter, arithmetic.add(self.b, raw, step), None)

        carried = [*self._carried(node.body, {name}), *self._hidden(flag, counter)]
        self._while(carried, more, body, {name})

    def _hidden(self, *names: str) -> Carried:
        bindings = [(name, self.scope.get(name)) for name in names]
        return [(name, binding) for name, binding in bindings if binding is not None]

    # --- `while` --------------------------------------------------------------------------------

    def do_While(self, node: ast.While) -> None:
        """`while`."""
        if node.orelse:
            raise fail(self.b, UnsupportedSyntax, "`else` of a loop is not supported")
        with self._in_loop():
            if may_break(node.body):
                self._raise_flag(going(self.loop_depth))
                carried = [*self._carried(node.body, set()), *self._hidden(going(self.loop_depth))]
            else:
                carried = self._carried(node.body, set())
            self._while(
                carried, lambda: self._condition(node), lambda: self._iteration_of(node), set()
            )

    def _iteration_of(self, node: ast.While) -> None:
        self.iteration(node.body)

    def _condition(self, node: ast.While) -> Tensor | None:
        """Whether a `while` goes on, at run time; None if it never runs."""
        if not may_break(node.body):
            test = self.eval(node.test)
            if not is_runtime(test):
                if not test:
                    return None
                raise fail(
                    self.b,
                    UnsupportedSyntax,
                    "this loop never ends",
                    hint="its condition must depend on a variable that it changes",
                )
            return self.truth(test, "the condition of `while`", "reduce it first")
        flag = going(self.loop_depth)
        known = isinstance(node.test, ast.Constant)
        if known:
            return self._flag(flag) if self.eval(node.test) else None

        # After a `break` the condition is not computed again: it may load.
        def ask() -> None:
            test = self.eval(node.test)
            if is_runtime(test):
                truth = self.truth(test, "the condition of `while`", "reduce it first")
            else:
                truth = conversion.scalar(self.b, int(bool(test)), int1)
            self.scope.set(flag, truth, None)

        self.choose(self._flag(flag), ask)
        return self._flag(flag)

    def _while(
        self,
        carried: Carried,
        condition: Callable[[], Tensor | None],
        body: Callable[[], None],
        own: set[str],
        lost: Lost = MappingProxyType({}),
    ) -> None:
        carried = [(name, binding) for name, binding in carried if name not in lost]
        starts = [v for _, binding in carried for v in flatten(binding.value)]
        types = [v.type for v in starts]
        before, after = Block(arg_types=types), Block(arg_types=types)
        outer, self.scope = self.scope, self.scope.copy()
        with self.b.inside(before):
            self._enter(carried, iter(before.args), lost)
            chosen = condition()
            if chosen is None:
                self.scope = outer
                return
            self.b.add(scf.ConditionOp(chosen.ssa, *before.args))
        with self.b.inside(after):
            self._enter(carried, iter(after.args), lost)
            body()
            more = self._losses(carried)
            if not more:
                self.b.add(scf.YieldOp(*self._leave(carried, outer, lost)))
        inner, self.scope = self.scope, outer
        if more:
            self._while(carried, condition, body, own, {**lost, **more})
            return
        op = self.b.add(scf.WhileOp(starts, types, Region(before), Region(after)))
        self._after(carried, iter(op.results), inner, own | set(lost))

    # --- what loops carry -----------------------------------------------------------------------

    def _carried(self, body: Sequence[ast.stmt], own: set[str]) -> Carried:
        """The run-time variables that exist before a loop and are assigned in its body."""
        names = dict.fromkeys(_assigned(body))
        bindings = [(n, self.scope.get(n)) for n in names if n not in own]
        return [(n, b) for n, b in bindings if b is not None and is_runtime(b.value)]

    def _enter(self, carried: Carried, arguments: Iterator[SSAValue], lost: Lost) -> None:
        """Give names the values that an iteration begins with."""
        self.scope.bindings |= lost
        for name, binding in carried:
            value = rebuild(binding.value, arguments)
            name_values(list(flatten(value)), name)
            self.scope.set(name, value, binding.span)

    def _losses(self, carried: Carried) -> Lost:
        """Variables without a value at the end of a body, such as counters of its loops.

        The next iteration can't begin with them. So the body is compiled anew with names that have
        no value when it begins either.
        """
        now = {name: self.scope.bindings[name] for name, _ in carried}
        return {name: found for name, found in now.items() if isinstance(found.value, Undefined)}

    def _leave(self, carried: Carried, outer: Scope, lost: Lost) -> list[SSAValue]:
        """The values for the next iteration; every variable must have kept its type."""
        for name, before in carried:
            now = self.scope.bindings[name]
            if not same_type(before.value, now.value):
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
        self, carried: Carried, results: Iterator[SSAValue], inner: Scope, own: set[str]
    ) -> None:
        for name, before in carried:
            value: Value = rebuild(before.value, results)
            name_values(list(flatten(value)), name)
            self.scope.set(name, value, inner.bindings[name].span)
        for name, binding in inner.bindings.items():
            if name in own:
                self.scope.undefine(name, "counts a loop that is over", binding.span)
            elif name not in self.scope.bindings:
                self.scope.undefine(name, "is assigned only inside the loop here", binding.span)


def _assigned(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Names that statements assign, in the order of the text."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
