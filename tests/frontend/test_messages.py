"""What typical mistakes look like: the whole text of the message."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

import tawa.language as tl
from tawa.base.errors import TawaError
from tawa.frontend import lower_to_tile, parse_argument

# name -> (signature, kernel, text). `^^^` in the text stands where the carets must.
MISTAKES = {
    "inner sizes of dot": (
        "*f16",
        "x = tl.zeros((64, 32), tl.float16)\nacc = tl.dot(x, x)",
        """\
error[TileShapeMismatch]: `tl.dot` of [64, 32] and [64, 32]
  --> 3:11
   |
 3 |     acc = tl.dot(x, x)
   |           ^^^^^^^^^^^^
  expected: 32 rows in the second operand
  found: 64 rows
  help: transpose an operand with `.T`""",
    ),
    "types of dot": (
        "*f16",
        "x = tl.zeros((64, 64), tl.float16)\nacc = tl.dot(x, x.to(tl.float32))",
        """\
error[TypeMismatch]: the operands of `tl.dot` have different types
  --> 3:11
   |
 3 |     acc = tl.dot(x, x.to(tl.float32))
   |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  expected: one type, or two fp8 types
  found: fp16 and fp32
  help: convert one, as in `.to(tl.float16)`""",
    ),
    "accumulator of dot": (
        "*f16",
        "x = tl.zeros((64, 64), tl.float16)\nacc = tl.dot(x, x, tl.zeros((32, 64), tl.float32))",
        """\
error[TileShapeMismatch]: the accumulator of `tl.dot` does not fit
  --> 3:11
   |
 3 |     acc = tl.dot(x, x, tl.zeros((32, 64), tl.float32))
   |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  expected: fp32[64, 64]
  found: fp32[32, 64]
  help: begin with `tl.zeros` of that shape and type, or leave the accumulator out""",
    ),
    "limit of dot's partial sums": (
        "*f16",
        "x = tl.zeros((64, 64), tl.float8e5)\nacc = tl.dot(x, x, max_num_imprecise_acc=128)",
        """\
error[BadArgument]: `max_num_imprecise_acc` of `tl.dot` is beyond what one product sums
  --> 3:11
   |
 3 |     acc = tl.dot(x, x, max_num_imprecise_acc=128)
   |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  expected: at most 64, the columns of the first operand
  found: 128
  help: leave it out""",
    ),
    "undefined name": (
        "i32",
        "y = a + blocksize",
        """\
error[UndefinedName]: `blocksize` is not defined
  --> 2:13
   |
 2 |     y = a + blocksize
   |             ^^^^^^^^^
  expected: a variable or parameter (a) or a global
  found: `blocksize`
  help: give it a value before, or make it a parameter""",
    ),
    "shape that is no constant": (
        "i32",
        "x = tl.zeros((a, 4), tl.float32)",
        """\
error[NotConstant]: a size in a shape must be known when the kernel is compiled
  --> 2:9
   |
 2 |     x = tl.zeros((a, 4), tl.float32)
   |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  expected: a compile-time integer
  found: a run-time int32
  help: make it a `tl.constexpr` parameter, or assign it as `NAME: tl.constexpr = ...`""",
    ),
    "assignment loses the constant": (
        "i32",
        "n = 64\nx = tl.arange(0, n)",
        """\
error[NotConstant]: the end of `tl.arange` must be known when the kernel is compiled
  --> 3:9
   |
 3 |     x = tl.arange(0, n)
   |         ^^^^^^^^^^^^^^^
  expected: a compile-time integer
  found: a run-time int32
  help: make it a `tl.constexpr` parameter, or assign it as `NAME: tl.constexpr = ...`""",
    ),
    "type change in a loop": (
        "i32",
        "acc = 0\nfor i in range(a):\n    acc += 0.5",
        """\
error[LoopTypeChange]: `acc` changes its type in a loop
  --> 4:9
   |
 4 |         acc += 0.5
   |         ^^^
  expected: int32, as before the loop
  found: fp32
  help: give it its final type before the loop, or convert with `.to(...)`
  note: `acc` gets its value before the loop here
  --> 2:5
 2 |     acc = 0
   |     ^^^""",
    ),
    "del": (
        "i32",
        "for i in range(a):\n    x = i\n    del x",
        """\
error[UnsupportedSyntax]: `del` is not supported
  --> 4:9
   |
 4 |         del x
   |         ^^^^^
  expected: assignments, `if`, `for`, `while`, `return`, `break`, `continue`, `assert`, `pass`, expressions
  found: `del x`
  help: leave the variable alone""",
    ),
    "types that depend on the way": (
        "i32",
        "for i in range(a):\n    x = 1\n    if i > 3:\n        if i > 5:\n            break\n"
        "        x = 0.5\n    y = x + 1",
        """\
error[UndefinedName]: `x` has no value here
  --> 8:13
   |
 8 |         y = x + 1
   |             ^
  help: give it a value before
  note: `x` has different types on the paths that lead here
  --> 3:9
 3 |         x = 1
   |         ^""",
    ),
    "unknown function of tl": (
        "i32",
        "x = tl.arrange(0, 4)",
        """\
error[UnknownAttribute]: module `tawa.language` has no `arrange`
  --> 2:9
   |
 2 |     x = tl.arrange(0, 4)
   |         ^^^^^^^^^^
  expected: `arange` or `range` or `static_range`
  found: `arrange`
  help: did you mean `arange`?""",
    ),
    "mask of another shape": (
        "*f32",
        "i = tl.arange(0, 16)\nx = tl.load(a + i, mask=tl.arange(0, 8) < 4)",
        """\
error[TileShapeMismatch]: shapes [16] and [8] do not fit together
  --> 3:9
   |
 3 |     x = tl.load(a + i, mask=tl.arange(0, 8) < 4)
   |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  expected: equal sizes, or 1, in each dimension
  found: 8 and 16 in dimension 0
  help: add dimensions with `x[:, None]` or `x[None, :]`""",
    ),
    "mask of integers": (
        "*f32",
        "i = tl.arange(0, 16)\nx = tl.load(a + i, mask=i)",
        """\
error[TypeMismatch]: the mask of `tl.load` must be of bools
  --> 3:9
   |
 3 |     x = tl.load(a + i, mask=i)
   |         ^^^^^^^^^^^^^^^^^^^^^^
  expected: int1
  found: int32[16]
  help: compare first, as in `mask != 0`""",
    ),
    "other without mask": (
        "*f32",
        "x = tl.load(a, other=0.0)",
        """\
error[BadArgument]: `other` without a mask has no meaning
  --> 2:9
   |
 2 |     x = tl.load(a, other=0.0)
   |         ^^^^^^^^^^^^^^^^^^^^^
  help: give a mask, or leave `other` out""",
    ),
    "load of a number": (
        "i32",
        "x = tl.load(a)",
        """\
error[TypeMismatch]: `tl.load` needs a pointer
  --> 2:9
   |
 2 |     x = tl.load(a)
   |         ^^^^^^^^^^
  expected: a pointer or pointers
  found: int32
  help: pass the array itself as an argument, and add offsets to it""",
    ),
    "load of a descriptor": (
        "desc<f16, 64x64>",
        "x = tl.load(a)",
        """\
error[TypeMismatch]: `tl.load` needs a pointer
  --> 2:9
   |
 2 |     x = tl.load(a)
   |         ^^^^^^^^^^
  expected: a pointer or pointers
  found: descriptor of fp16[64, 64]
  help: use `desc.load(offsets)`""",
    ),
    "offsets of a descriptor": (
        "desc<f16, 64x64>",
        "x = a.load([0])",
        """\
error[TileShapeMismatch]: a descriptor of fp16[64, 64] takes 2 offsets
  --> 2:9
   |
 2 |     x = a.load([0])
   |         ^^^^^^^^^^^
  found: 1 offsets""",
    ),
    "block of another shape": (
        "desc<f16, 64x64>",
        "a.store([0, 0], tl.zeros((64, 32), tl.float32))",
        """\
error[TileShapeMismatch]: `store` of a fp16[64, 32]
  --> 2:5
   |
 2 |     a.store([0, 0], tl.zeros((64, 32), tl.float32))
   |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  expected: a block [64, 64]
  found: [64, 32]""",
    ),
    "store of a tensor to one address": (
        "*f32",
        "tl.store(a, tl.zeros((4,), tl.float32))",
        """\
error[TileShapeMismatch]: `tl.store` of a value with a shape to a scalar pointer
  --> 2:5
   |
 2 |     tl.store(a, tl.zeros((4,), tl.float32))
   |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  expected: a tensor of pointers
  found: a value fp32[4]
  help: add offsets to the pointer, as in `ptr + tl.arange(0, N)`""",
    ),
    "length of arange": (
        "i32",
        "x = tl.arange(0, 100)",
        """\
error[BadArgument]: `tl.arange(0, 100)` has length 100
  --> 2:9
   |
 2 |     x = tl.arange(0, 100)
   |         ^^^^^^^^^^^^^^^^^
  expected: a power of two, or a multiple of 8
  found: 100
  help: take a longer range and mask what is too much""",
    ),
    "plain global": (
        "i32",
        "x = a + WIDTH",
        """\
error[UnusableGlobal]: the global variable `WIDTH` is a plain int
  --> 2:13
   |
 2 |     x = a + WIDTH
   |             ^^^^^
  expected: a `tl.constexpr` object
  help: declare it as `WIDTH = tl.constexpr(64)`""",
    ),
    "plain function": (
        "i32",
        "x = plain(a)",
        """\
error[NotCallable]: `plain` is a plain Python function
  --> 2:9
   |
 2 |     x = plain(a)
   |         ^^^^^^^^
  expected: a function decorated with `@tawa.jit`
  help: decorate it; or with `tl.constexpr_function` if it only computes compile-time values""",
    ),
    "arguments of a builtin": (
        "i32",
        "x = tl.where(a > 0, 1)",
        """\
error[WrongArguments]: call of `where`: missing a required argument: 'y'
  --> 2:9
   |
 2 |     x = tl.where(a > 0, 1)
   |         ^^^^^^^^^^^^^^^^^^
  expected: where(condition, x, y)
  found: int1, constexpr 1
  help: pass each parameter once, by position or by name""",
    ),
    "floor division of floats": (
        "f32",
        "x = a // 2",
        """\
error[TypeMismatch]: `//` is defined for integers only
  --> 2:9
   |
 2 |     x = a // 2
   |         ^^^^^^
  found: fp32
  help: use `tl.floor(x / y)`""",
    ),
    "signedness": (
        "u32",
        "x = a // tl.program_id(0)",
        """\
error[TypeMismatch]: Cannot use `//` of uint32 and int32 because they have different signedness
  --> 2:9
   |
 2 |     x = a // tl.program_id(0)
   |         ^^^^^^^^^^^^^^^^^^^^^
  expected: integers of one signedness
  found: uint32 and int32
  help: convert one of them, as in `x.to(tl.int32)`""",
    ),
    "number out of range": (
        "u8",
        "x = a + -1",
        """\
error[OutOfRange]: the number -1 is out of range of uint8
  --> 2:9
   |
 2 |     x = a + -1
   |         ^^^^^^
  expected: 0 to 255
  help: convert the other operand first""",
    ),
    "exp of a half": (
        "f16",
        "x = tl.exp(a)",
        """\
error[TypeMismatch]: `tl.exp` is defined for float32 and float64
  --> 2:9
   |
 2 |     x = tl.exp(a)
   |         ^^^^^^^^^
  found: fp16
  help: convert with `.to(tl.float32)`""",
    ),
    "if on a tensor": (
        "i32",
        "x = tl.arange(0, 8)\nif x > 3:\n    x = x + 1",
        """\
error[TypeMismatch]: the condition of an `if` must be a scalar
  --> 3:8
   |
 3 |     if x > 3:
   |        ^^^^^
  expected: one truth value, known when compiled or not
  found: int1[8]
  help: reduce it, or use `tl.where`""",
    ),
    "value of one side only": (
        "i32",
        "if a > 3:\n    x = 1\ny = x + 1",
        """\
error[UndefinedName]: `x` has no value here
  --> 4:9
   |
 4 |     y = x + 1
   |         ^
  help: give it a value before
  note: `x` is assigned on one side of an `if` only
  --> 3:9
 3 |         x = 1
   |         ^""",
    ),
    "value of a loop's body": (
        "i32",
        "for i in range(a):\n    x = i\ny = x + 1",
        """\
error[UndefinedName]: `x` has no value here
  --> 4:9
   |
 4 |     y = x + 1
   |         ^
  help: give it a value before
  note: `x` is assigned only inside the loop here
  --> 3:9
 3 |         x = i
   |         ^""",
    ),
    "chained comparison": (
        "i32",
        "x = 0 < a < 3",
        """\
error[UnsupportedSyntax]: chained comparisons are not supported
  --> 2:9
   |
 2 |     x = 0 < a < 3
   |         ^^^^^^^^^
  help: write `(a < b) & (b < c)`""",
    ),
    "element of a tensor": (
        "i32",
        "x = tl.arange(0, 8)[a]",
        """\
error[UnsupportedSyntax]: unsupported tensor index: only `None` and `:` are taken
  --> 2:9
   |
 2 |     x = tl.arange(0, 8)[a]
   |         ^^^^^^^^^^^^^^^^^^
  expected: as in `x[:, None]`
  found: `a`
  help: load the elements that you need, or reduce""",
    ),
    "pointer plus float": (
        "*f32",
        "x = tl.load(a + 1.5)",
        """\
error[TypeMismatch]: `+` of a pointer and fp32
  --> 2:17
   |
 2 |     x = tl.load(a + 1.5)
   |                 ^^^^^^^
  expected: an integer offset
  found: fp32""",
    ),
    "axis of a reduction": (
        "i32",
        "x = tl.sum(tl.arange(0, 8), axis=1)",
        """\
error[BadArgument]: invalid axis 1
  --> 2:9
   |
 2 |     x = tl.sum(tl.arange(0, 8), axis=1)
   |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  expected: -1 to 0""",
    ),
    "static assertion": (
        "i32",
        "tl.static_assert(16 % 3 == 0, 'BLOCK must be a multiple of 3')",
        """\
error[StaticAssertion]: BLOCK must be a multiple of 3
  --> 2:5
   |
 2 |     tl.static_assert(16 % 3 == 0, 'BLOCK must be a multiple of 3')
   |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    "lambda": (
        "i32",
        "f = lambda x: x",
        """\
error[UnsupportedSyntax]: `lambda` is not supported here
  --> 2:9
   |
 2 |     f = lambda x: x
   |         ^^^^^^^^^^^
  expected: arithmetic, comparisons, `and or not`, `a if c else b`, calls, subscripts, literals
  found: `lambda x: x`
  help: define a function with `@tawa.jit`""",
    ),
    "assignment to an element": (
        "i32",
        "x = tl.arange(0, 8)\nx[0] = 1",
        """\
error[UnsupportedSyntax]: only variables can be assigned to
  --> 3:5
   |
 3 |     x[0] = 1
   |     ^^^^^^^^
  help: tensors can't be changed in place; use `tl.where`, `tl.store`""",
    ),
    "recursion": (
        "i32",
        "x = calls_itself(a)",
        """\
error[Recursion]: `calls_itself` calls itself
  --> FILE:2:12
   |
 2 |     return calls_itself(x)
   |            ^^^^^^^^^^^^^^^
  help: use a loop
  note: in the call of `calls_itself` here
  --> 2:9
 2 |     x = calls_itself(a)
   |         ^^^^^^^^^^^^^^^""",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_message(define, name):
    signature, body, expected = MISTAKES[name]
    lines = "\n".join("    " + line for line in body.split("\n"))
    helper = define("def calls_itself(x):\n    return calls_itself(x)\n", "calls_itself")
    helper.fn.__globals__["calls_itself"] = helper
    kernel = define(f"def kernel(a):\n{lines}\n", WIDTH=64, plain=lambda x: x, calls_itself=helper)
    if "plain" in kernel.fn.__globals__:
        kernel.fn.__globals__["plain"].__name__ = "plain"
    with pytest.raises(TawaError) as caught:
        lower_to_tile(kernel, [parse_argument(signature)], {})
    file = re.escape(kernel.source.file)
    text = re.sub(rf"--> {file}:", "--> ", caught.value.render())
    text = re.sub(r"--> <kernel \d+>:", "--> FILE:", text)
    assert text == expected


LONG = {
    "vector": (np.ones(256, np.float32), "an array of float32, [256]"),
    "matrix": (np.ones((3, 4), np.int8), "an array of int8, [3, 4]"),
    "constant": (tl.constexpr(np.ones((3, 4))), "an array of float64, [3, 4]"),
    "list": (dict.fromkeys(range(500), "x"), "{0: 'x', 1: "),
    "lines": (SimpleNamespace(text=np.ones(500)), "namespace(text=array("),
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("body", ["tl.store(a + VALUE, 1.0)", "tl.arange(0, VALUE)"])
def test_a_long_value_is_shown_on_a_line(define, name, body):
    value, begin = LONG[name]
    kernel = define(f"def kernel(a):\n    {body}\n", VALUE=value)
    with pytest.raises(TawaError) as caught:
        lower_to_tile(kernel, [parse_argument("*f32")], {})
    assert caught.value.found.startswith(begin)
    assert "\n" not in caught.value.found
    assert len(caught.value.found) < 120


def test_an_array_that_a_kernel_names_is_to_be_passed(define):
    kernel = define("def kernel(a):\n    tl.store(a + VALUE, 1.0)\n", VALUE=np.ones(2))
    with pytest.raises(TawaError, match="pass the array to the kernel"):
        lower_to_tile(kernel, [parse_argument("*f32")], {})
