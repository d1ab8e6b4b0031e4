"""Which numbers the host computes before a launch, and as which expressions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import (
    FloatAttr,
    FunctionType,
    IntegerAttr,
    TensorType,
    f16,
    f32,
    i1,
    i16,
    i32,
    i64,
)
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, SSAValue

import tawa
import tawa.language as tl
from tawa.base.types import DescType, PtrType
from tawa.ir.elementwise import Map
from tawa.simulate.interpret import hopper
from tawa.tile.analysis.host_expressions import (
    HOST,
    LONGEST,
    host_base,
    host_expression,
    size_expression,
)
from tawa.tile.dialect.ops import DescSize, MakeDesc

TYPES = (i32, i32, PtrType(f32), DescType(TensorType(f16, (8, 16))), i64)


def arguments() -> list[SSAValue]:
    """Of a kernel: two numbers, a pointer, a descriptor, a long number."""
    kernel = func.FuncOp("k", FunctionType.from_lists(TYPES, []))
    return list(kernel.body.block.args)


def number(value: int, kind: Any = i32) -> SSAValue:
    return arith.ConstantOp(IntegerAttr(value, kind)).result


def of(function: str, *values: SSAValue, kind: Any = None) -> SSAValue:
    return Map(function, values, kind).results[0]


def unknown(kind: Any = i32) -> SSAValue:
    return Made(result_types=[kind]).results[0]


def test_arguments_and_numbers():
    m, n, *_ = arguments()
    assert host_expression(m) == ("arg", 0)
    assert host_expression(n) == ("arg", 1)
    assert host_expression(number(7)) == 7
    assert host_expression(arith.ConstantOp(FloatAttr(1.0, f32)).result) is None
    assert host_expression(unknown()) is None


@pytest.mark.parametrize("function", HOST)
def test_functions_that_the_host_has(function: str):
    m, *_ = arguments()
    assert host_expression(of(function, m, number(3))) == (HOST[function], ("arg", 0), 3)
    assert host_expression(of(function, number(3), m)) == (HOST[function], 3, ("arg", 0))
    assert host_expression(of(function, unknown(), m)) is None
    assert host_expression(of(function, m, unknown())) is None


@pytest.mark.parametrize("function", ["remsi", "andi", "xori", "cmpi_eq"])
def test_functions_that_it_has_not(function: str):
    m, n, *_ = arguments()
    assert host_expression(of(function, m, n)) is None


@pytest.mark.parametrize(("function", "kind"), [("extsi", i64), ("extui", i64), ("trunci", i16)])
def test_widths_make_no_difference(function: str, kind: Any):
    m, *_ = arguments()
    assert host_expression(of(function, m, kind=kind)) == ("arg", 0)
    assert host_expression(of(function, unknown(), kind=kind)) is None


def test_numbers_of_loops_and_blocks_are_not_the_launch_s():
    body = Block(arg_types=[i32])
    scf.ForOp(number(0), number(4), number(1), [], body)
    assert host_expression(body.args[0]) is None
    assert host_base(Block(arg_types=[PtrType(f32)]).args[0]) is None


@pytest.mark.parametrize("stride", [False, True])
def test_sizes_of_descriptors(stride: bool):
    m, n, pointer, desc, long = arguments()
    made = MakeDesc(pointer, [m, of("muli", n, number(2))], [long, number(1, i64)], [8, 16])
    passed = [size_expression(DescSize(desc, axis, stride=stride)) for axis in (0, 1)]
    assert passed == [("stride" if stride else "dim", 3, axis) for axis in (0, 1)]
    found = [size_expression(DescSize(made.result, axis, stride=stride)) for axis in (0, 1)]
    assert found == ([("arg", 4), 1] if stride else [("arg", 0), ("mul", ("arg", 1), 2)])
    values = [DescSize(made.result, axis, stride=stride).result for axis in (0, 1)]
    assert [host_expression(value) for value in values] == found
    assert size_expression(DescSize(unknown(TYPES[3]), 0, stride=stride)) is None


def test_what_is_too_long_is_left_to_the_kernel():
    """Of a chain each operation counts; of sums of what was there before, as often as written."""
    m, n, pointer, *_ = arguments()
    value = m
    for _ in range(LONGEST):
        value = of("addi", value, n)
    assert host_expression(value) is not None
    assert host_expression(of("addi", value, n)) is None
    assert host_expression(of("extsi", value, kind=i64)) is not None
    seven = arith.ConstantOp(IntegerAttr(7, i32)).result
    chain = seven  # constants are no operations
    for _ in range(LONGEST):
        chain = of("addi", chain, seven)
    assert host_expression(chain) is not None
    assert host_expression(of("addi", chain, seven)) is None
    doubled = m
    for _ in range(7):  # 127
        doubled = of("addi", doubled, doubled)
    assert host_expression(doubled) is not None
    assert host_expression(of("addi", doubled, doubled)) is None
    made = MakeDesc(pointer, [value, n], [number(1, i64)] * 2, [8, 16])
    size = DescSize(made.result, 0)
    assert size_expression(size) is not None
    assert host_expression(of("addi", size.result, n)) is None


def test_where_pointers_start():
    m, n, pointer, *_ = arguments()
    moved = of("addptr", pointer, m, kind=PtrType(f32))
    twice = of("addptr", moved, of("addi", n, number(1)), kind=PtrType(f32))
    assert host_base(pointer) == (2, 0)
    assert host_base(moved) == (2, ("arg", 0))
    assert host_base(twice) == (2, ("add", ("arg", 0), ("add", ("arg", 1), 1)))
    assert host_base(of("addptr", pointer, unknown(), kind=PtrType(f32))) is None
    assert host_base(of("addptr", unknown(PtrType(f32)), m, kind=PtrType(f32))) is None
    assert host_base(of("select", unknown(i1), pointer, pointer, kind=PtrType(f32))) is None
    assert host_base(unknown(PtrType(f32))) is None


@tawa.jit
def shifted(x, y, n):
    desc = tl.make_tensor_descriptor(x + (n - 5) // 2 + 8, [64], [1], [16])
    tl.store(y + tl.arange(0, 16), desc.load([0]))


@pytest.mark.parametrize("n", [2, 3, 4, 9])
def test_quotients_are_rounded_on_the_host_as_in_kernels(n: int):
    """Towards zero: -3 // 2 is -1."""
    x, found = np.arange(128, dtype=np.float32), np.zeros((2, 16), np.float32)
    shifted[(1,)](x, found[0], n)
    module = shifted.compile(x, found[1], n).module("hopper")
    hopper.run(module, (1,), [x, found[1], n])
    assert found[0, 0] == int((n - 5) / 2) + 8
    np.testing.assert_array_equal(*found)
