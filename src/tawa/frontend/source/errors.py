"""What the front end may say about a kernel."""

from __future__ import annotations

from tawa.base.errors import TawaError

_HEAD = """\
import tawa
import tawa.language as tl


@tawa.jit
"""


def _kernel(body: str, *arguments: str) -> str:
    """A small program that compiles a kernel for arguments in signature notation."""
    types = ", ".join(f'"{a}"' for a in arguments)
    return f"{_HEAD}{body}\n\n\nkernel.compile({types})\n"


class KernelError(TawaError, group=True):
    """Base of what is wrong with a kernel's source."""


class UnsupportedSyntax(KernelError):
    """A kernel uses a Python construct that the tile language does not have."""

    explanation = (
        "Kernels are a subset of Python: assignments, `if`, `for` over `range`, `tl.range` or "
        "`tl.static_range`, `while`, `break`, `continue`, `return`, `assert`, calls, arithmetic, "
        "comparisons, subscripts with `None` and `:`, `[f(x) for x in values]` of tuples. `try`, "
        "`lambda`, other comprehensions, chained comparisons, nested `def` and classes are not "
        "part of it."
    )
    example = _kernel("def kernel(n):\n    try:\n        x = n\n    finally:\n        x = 1", "i32")


class UndefinedName(KernelError):
    """A name has no value at this point."""

    explanation = (
        "A name must be assigned on every path that leads to its use. If a variable is first "
        "assigned in one side of a run-time `if`, or in a loop's body, it has no value "
        "afterwards. Assign it before."
    )
    example = _kernel("def kernel(n):\n    x = n + oops", "i32")


class UnusedResult(KernelError):
    """A call that only gives a value stands as a statement."""

    explanation = (
        "`tl.advance` gives a moved pointer and leaves its argument where it was, so a call whose "
        "result is not used does nothing. `triton.must_use_result` declares other functions so."
    )
    example = _kernel(
        "def kernel(x):\n"
        "    p = tl.make_block_ptr(x, (64,), (1,), (0,), (16,), (0,))\n    tl.advance(p, (16,))",
        "*f32",
    )


class UnusableGlobal(KernelError):
    """A kernel uses a global value that it may not use."""

    explanation = (
        "Kernels may use global functions, modules, dtypes and `tl.constexpr` objects. A plain "
        "number could change after compiling without the kernel noticing; declare it as "
        "`NAME = tl.constexpr(value)`. An array is passed to the kernel, as an argument."
    )
    example = "SIZE = 64\n\n" + _kernel("def kernel(n):\n    x = n + SIZE", "i32")


class WrongArguments(KernelError):
    """A call's arguments do not fit the function's signature."""

    explanation = "The message shows the function's signature; compare the call with it."
    example = _kernel("def kernel(n):\n    x = tl.arange(0, 16, 2)", "i32")


class NotCallable(KernelError):
    """A kernel calls something that it can't call."""

    explanation = (
        "Kernels call functions of `tawa.language` and functions decorated with `@tawa.jit`; of "
        "Python's builtins `min max int float bool len range isinstance abs print` are known."
    )
    example = _kernel("def kernel(n):\n    x = tl.math(n)", "i32")


class UnknownAttribute(KernelError):
    """A value or module has no attribute of this name."""

    explanation = "The message lists what the value has."
    example = _kernel("def kernel(n):\n    x = tl.frobnicate(n)", "i32")


class NotConstant(KernelError):
    """A compile-time value is needed, but this is known only when the kernel runs."""

    explanation = (
        "Shapes, axes, dtypes and bounds of `tl.static_range` must be known when the kernel is "
        "compiled: literals, `tl.constexpr` parameters, and variables annotated "
        "`NAME: tl.constexpr = ...`. A plain assignment makes a run-time value even of a constant."
    )
    example = _kernel("def kernel(n):\n    x = tl.zeros((n,), tl.float32)", "i32")


class TileShapeMismatch(KernelError):
    """Shapes do not fit together."""

    explanation = (
        "Operands of element-by-element functions are broadcast. Missing leading dimensions and "
        "dimensions of size 1 grow to the other's size; all others must be equal."
    )
    example = _kernel("def kernel(n):\n    x = tl.arange(0, 16) + tl.arange(0, 32)", "i32")


class TypeMismatch(KernelError):
    """An operation is not defined for these types."""

    explanation = "The message says which types are allowed. Convert with `x.to(tl.float32)`."
    example = _kernel("def kernel(n):\n    x = n & 1.5", "i32")


class LoopTypeChange(KernelError):
    """A variable has one type before a loop and another at the end of its body."""

    explanation = (
        "A variable that a loop changes keeps one type and shape. Give it the type that it will "
        "have before the loop, as in `acc = tl.zeros((M, N), tl.float32)`, or convert at the end "
        "of the body."
    )
    example = _kernel(
        "def kernel(n):\n    x = 0\n    for i in range(n):\n        x = x + 1.5", "i32"
    )


class BranchTypeMismatch(KernelError):
    """The two sides of a run-time `if` give a variable different types."""

    explanation = (
        "After an `if` whose condition is known only at run time, a variable has one type. "
        "Convert one of the sides."
    )
    example = _kernel(
        "def kernel(n):\n    if n > 1:\n        x = 1\n    else:\n        x = 1.5\n    y = x", "i32"
    )


class MisplacedReturn(KernelError):
    """A `return` stands where it is not allowed."""

    explanation = "A function may return early inside an `if`, but not from inside a loop."
    example = _kernel("def kernel(n):\n    for i in range(n):\n        return", "i32")


class ConstantReassigned(KernelError):
    """A variable that is declared constant is assigned again where it would change."""

    explanation = (
        "`NAME: tl.constexpr = ...` declares a compile-time value; it can't be changed by a loop. "
        "Parameters that are compile-time values (constexpr, None, or an integer argument that "
        "equals 1) can't either: assign to another name."
    )
    example = _kernel(
        "def kernel(n):\n    c: tl.constexpr = 1\n    for i in range(n):\n        c = c + 1", "i32"
    )


class Recursion(KernelError):
    """A jitted function calls itself."""

    explanation = "Calls are inlined, so no function may call itself, directly or not."
    example = _kernel("def kernel(n):\n    kernel(n - 1)", "i32")


class StaticAssertion(KernelError):
    """A `tl.static_assert` does not hold."""

    explanation = "The kernel's author demands this of the compile-time values; see the message."
    example = _kernel('def kernel(n):\n    tl.static_assert(1 > 2, "one is less")', "i32")


class OutOfRange(KernelError):
    """A compile-time number does not fit the type that it is needed in."""

    explanation = "Convert the run-time value to a wider type, or write a smaller number."
    example = _kernel("def kernel(n):\n    x = n.to(tl.int8) + 1000", "i32")


class BadArgument(KernelError):
    """An argument's value is not one that the function takes."""

    explanation = "The message says which values are allowed."
    example = _kernel("def kernel(n):\n    x = tl.program_id(7)", "i32")


class NotSupported(KernelError):
    """A kernel uses a part of Triton's language that this compiler doesn't have yet."""

    explanation = "The message names what is supported in its place."
    example = _kernel("def kernel(n):\n    x = tl.zeros((16,), tl.float8e4b15)", "i32")


class LaunchMismatch(KernelError):
    """The arguments given to compile a kernel for do not match its parameters."""

    explanation = (
        "Each parameter is either a compile-time value, given by name, or has an argument type; "
        "the types come in the order of the parameters that are left."
    )
    example = """
from tawa.frontend import lower_to_tile, parse_argument


def kernel(n, m):
    x = n + m


lower_to_tile(kernel, [parse_argument("i32")], {})
"""
