"""Meanings of program indices, assertions, prints and promises."""

from __future__ import annotations

from itertools import combinations

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import BlockArgument, SSAValue

from tawa import language as tl
from tawa.base.types import DescType, PtrType, shape_of
from tawa.frontend.source.errors import BadArgument, NotConstant, StaticAssertion, UnsupportedSyntax
from tawa.frontend.source.registry import lowers
from tawa.frontend.syntax.calls import FunctionCompiler
from tawa.frontend.values.arithmetic import condition, constant_int
from tawa.frontend.values.conversion import fail
from tawa.frontend.values.values import Descriptor, Tensor, Value, describe, is_runtime, items_of
from tawa.ir.elementwise import Map
from tawa.ir.kernels import CONSTANT, CONTIGUOUS, MULTIPLE
from tawa.language.dtypes import int32
from tawa.language.extra import cuda
from tawa.tile.dialect import ops

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


@lowers(tl.condition)
def condition_of_while(f: FunctionCompiler, arg1: Value, disable_licm: Value) -> Value:
    """`tl.condition`."""
    del f, disable_licm  # the compiler hoists by what registers cost
    return arg1


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


def _promise(f: FunctionCompiler, input: Value, values: Value, fact: str, name: str) -> Value:
    """Note what is promised of a tensor: one number for all dimensions, or one for each."""
    if not isinstance(input, Tensor) or (not input.is_pointer and not input.dtype.is_int()):
        return input
    rank = max(1, len(input.shape))
    numbers = [constant_int(f.b, v, f"what `{name}` promises") for v in items_of(values)]
    if len(numbers) not in (1, rank) or min(numbers) < 1:
        expected = f"a positive number, or {rank} of them"
        raise fail(f.b, BadArgument, f"`{name}` of {rank} dimensions", expected=expected,
                   found=str(numbers))  # fmt: skip
    f.b.promise_runs(input.ssa, fact, numbers * rank if len(numbers) == 1 else numbers)
    return input


@lowers(tl.multiple_of)
def multiple_of(f: FunctionCompiler, input: Value, values: Value) -> Value:
    """`tl.multiple_of`."""
    return _promise(f, input, values, MULTIPLE, "tl.multiple_of")


@lowers(tl.max_contiguous)
def max_contiguous(f: FunctionCompiler, input: Value, values: Value) -> Value:
    """`tl.max_contiguous`."""
    return _promise(f, input, values, CONTIGUOUS, "tl.max_contiguous")


@lowers(tl.max_constancy)
def max_constancy(f: FunctionCompiler, input: Value, values: Value) -> Value:
    """`tl.max_constancy`."""
    return _promise(f, input, values, CONSTANT, "tl.max_constancy")


@lowers(tl.assume)
def assume(f: FunctionCompiler, cond: Value) -> None:
    """`tl.assume`: lower bounds and divisors of integers are kept, anything else is ignored."""
    if not isinstance(cond, Tensor) or not isinstance(cond.ssa.owner, Map):
        return
    compare = cond.ssa.owner
    if compare.function.data == "andi":
        for side in compare.arguments:
            assume(f, Tensor(side, cond.dtype))
        return
    if compare.function.data == "cmpi_eq":
        _assume_divisible(f, *compare.arguments)
        return
    if compare.function.data not in ORDERINGS:
        return
    larger, smaller, more = ORDERINGS[compare.function.data]
    value, bound = compare.arguments[larger], _number(compare.arguments[smaller])
    if bound is not None:
        f.b.promise_at_least(value, bound + more)


@lowers(tl.assume_disjoint)
def assume_disjoint(f: FunctionCompiler, arguments: Value) -> None:
    """`tl.assume_disjoint`: of arguments of the kernel, two or more; None reaches nothing."""
    if len(arguments) < 2:
        raise fail(f.b, BadArgument, "`tl.assume_disjoint` of fewer than two arguments",
                   expected="pointers or descriptors that the kernel is given",
                   found=str(len(arguments)))  # fmt: skip
    given = [_argument(f, value) for value in arguments if value is not None]
    for one, other in combinations(given, 2):
        if one is other:
            raise fail(f.b, BadArgument, "an argument is not disjoint from itself",
                       expected="different arguments", found="the same argument twice",
                       hint="name each argument once")  # fmt: skip
        f.b.disjoint.append((one, other))


def _argument(f: FunctionCompiler, value: Value) -> BlockArgument:
    """The kernel's argument that a value is."""
    name = value.ssa if isinstance(value, Tensor | Descriptor) else None
    argument = None if name is None else f.b.argument(name)
    if argument is None or not isinstance(argument.type, PtrType | DescType):
        raise fail(
            f.b, BadArgument, "`tl.assume_disjoint` takes arguments of the kernel",
            expected="a pointer or a descriptor as the launch gives it",
            found=describe(value) if is_runtime(value) else repr(value),
            hint="name the argument, without an offset; of a descriptor that the kernel makes, "
            "its pointer",
        )  # fmt: skip
    return argument


def _assume_divisible(f: FunctionCompiler, remainder: SSAValue, zero: SSAValue) -> None:
    """`n % 16 == 0`."""
    rest = remainder.owner
    if not isinstance(rest, Map) or rest.function.data not in ("remsi", "remui"):
        return
    value, divisor = rest.arguments
    numbers = [_number(divisor), _number(zero)]
    if numbers[1] == 0 and numbers[0] and not shape_of(value.type):
        f.b.promise_runs(value, MULTIPLE, [numbers[0]])


def _number(value: SSAValue) -> int | None:
    op = value.owner
    if isinstance(op, ConstantOp) and isinstance(op.value, IntegerAttr):
        return op.value.value.data
    return None


@lowers(cuda.gdc_wait)
def gdc_wait(f: FunctionCompiler) -> None:
    """Nothing: a kernel whose launch begins early waits before it does anything else."""
    del f


@lowers(cuda.gdc_launch_dependents)
def gdc_launch_dependents(f: FunctionCompiler) -> None:
    """The whole kernel lets the next one begin; that one waits for its end."""
    f.b.releases = True


@lowers(cuda.num_warps)
def num_warps(f: FunctionCompiler) -> int:
    """`tl.extra.cuda.num_warps`."""
    return f.b.defaults.num_warps


@lowers(cuda.num_threads)
def num_threads(f: FunctionCompiler) -> int:
    """`tl.extra.cuda.num_threads`."""
    return 32 * f.b.defaults.num_warps
