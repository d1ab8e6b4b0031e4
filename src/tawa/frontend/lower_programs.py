"""Meanings of program indices, assertions, prints and promises."""

from __future__ import annotations

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import IntegerAttr

from tawa import language as tl
from tawa.base.elementwise import Map
from tawa.frontend.arithmetic import condition, constant_int
from tawa.frontend.calls import FunctionCompiler
from tawa.frontend.conversion import fail
from tawa.frontend.errors import BadArgument, NotConstant, StaticAssertion, UnsupportedSyntax
from tawa.frontend.registry import lowers
from tawa.frontend.values import Tensor, Value, describe, is_runtime
from tawa.language.dtypes import int32
from tawa.language.extra import cuda
from tawa.tile import ops

ORDERINGS = {
    "cmpi_sgt": (0, 1, 1),
    "cmpi_sge": (0, 1, 0),
    "cmpi_slt": (1, 0, 1),
    "cmpi_sle": (1, 0, 0),
}
"""Of a comparison: which operand is the larger one, which the smaller, and by how much at least."""


def _axis(f: FunctionCompiler, axis: Value, name: str) -> int:
    number = constant_int(f.b, axis, f"the axis of `{name}`")
    if number not in (0, 1, 2):
        raise fail(f.b, BadArgument, f"`{name}` of axis {number}", expected="axis 0, 1 or 2")
    return number


@lowers(tl.program_id)
def program_id(f: FunctionCompiler, axis: Value) -> Tensor:
    """`tl.program_id`."""
    return Tensor(f.b.add(ops.ProgramId(_axis(f, axis, "tl.program_id"))).result, int32)


@lowers(tl.num_programs)
def num_programs(f: FunctionCompiler, axis: Value) -> Tensor:
    """`tl.num_programs`."""
    return Tensor(f.b.add(ops.NumPrograms(_axis(f, axis, "tl.num_programs"))).result, int32)


@lowers(tl.range, tl.static_range)
def range_outside_for(f: FunctionCompiler, **_: Value) -> None:
    """Ranges are for `for` statements."""
    raise fail(
        f.b,
        UnsupportedSyntax,
        "a range stands in a `for` statement only",
        expected="for i in tl.range(n)",
    )


@lowers(tl.static_assert)
def static_assert(f: FunctionCompiler, cond: Value, msg: Value) -> None:
    """`tl.static_assert`."""
    if is_runtime(cond):
        raise fail(
            f.b,
            NotConstant,
            "`tl.static_assert` needs a compile-time condition",
            found=describe(cond),
            hint="use `tl.device_assert`",
        )
    if not cond:
        raise fail(f.b, StaticAssertion, str(msg) or "a static assertion does not hold")


@lowers(tl.static_print)
def static_print(f: FunctionCompiler, values: Value, sep: Value, end: Value, file: Value) -> None:
    """`tl.static_print`."""
    del f, file
    print(*(describe(v) if is_runtime(v) else v for v in values), sep=sep, end=end)


@lowers(tl.device_assert)
def device_assert(f: FunctionCompiler, cond: Value, msg: Value, mask: Value) -> None:
    """`tl.device_assert`: where `mask` holds."""
    test = condition(f.b, cond, "tl.device_assert")
    if mask is not None:
        test = f.operate("|", test, f.operate("==", mask, False))
    f.b.add(ops.Assert(test.ssa, str(msg) or "assertion failed"))


@lowers(tl.device_print)
def device_print(f: FunctionCompiler, prefix: Value, args: Value, hex: Value) -> None:
    """`tl.device_print`."""
    del hex
    text = [str(prefix), *(str(v) for v in args if not isinstance(v, Tensor))]
    f.b.add(ops.Print(" ".join(text).strip(), [v.ssa for v in args if isinstance(v, Tensor)]))


@lowers(tl.debug_barrier)
def debug_barrier(f: FunctionCompiler) -> None:
    """`tl.debug_barrier`."""
    f.b.add(ops.Barrier())


@lowers(tl.multiple_of, tl.max_contiguous, tl.max_constancy)
def promise(f: FunctionCompiler, input: Value, values: Value) -> Value:
    """Promises about values are accepted; nothing relies on them."""
    del f, values
    return input


@lowers(tl.assume)
def assume(f: FunctionCompiler, cond: Value) -> None:
    """`tl.assume`: a lower bound of an integer is kept, anything else is accepted and ignored."""
    if not isinstance(cond, Tensor) or not isinstance(cond.ssa.owner, Map):
        return
    compare = cond.ssa.owner
    if compare.function.data not in ORDERINGS:
        return
    larger, smaller, more = ORDERINGS[compare.function.data]
    value, bound = compare.arguments[larger], compare.arguments[smaller].owner
    if isinstance(bound, ConstantOp) and isinstance(bound.value, IntegerAttr):
        f.b.promise_at_least(value, bound.value.value.data + more)


@lowers(cuda.gdc_wait, cuda.gdc_launch_dependents)
def dependent_launch(f: FunctionCompiler) -> None:
    """Launches depend on nothing, so there is nothing to wait for."""
    del f
