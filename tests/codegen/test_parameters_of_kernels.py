"""What a kernel is given at the hopper level, and how the host makes each of its parameters."""

from __future__ import annotations

import json
from typing import Any

import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    FunctionType,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    f16,
    f32,
    i32,
    i64,
)
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Attribute

from tawa.base.options import Options
from tawa.base.types import DescType, PlanType, PtrType
from tawa.codegen.kernel_lowering import DEFAULT_STAGING, KernelLowering
from tawa.codegen.shared_memory import SharedMemory, tile_for
from tawa.hopper.dialect.types import TensorMapType
from tawa.ir.kernels import GIVEN, MADE
from tawa.machine.chips import H200
from tawa.tile.dialect.ops import DescStore

DESC = DescType(TensorType(f16, (64, 32)))
GIVEN_TYPES: list[Attribute] = [PtrType(f16), i32, DESC, i64]
RECIPES: list[dict[str, Any]] = [
    {"base": 0, "shape": [["arg", 1]], "strides": []},
    {"value": ["mul", ["arg", 1], 2]},
    {"base": 0},
]
MADE_TYPES: list[Attribute] = [DescType(TensorType(f16, (8, 64))), i64, PtrType(f32)]
GRID: list[Attribute] = [i64, i64, i32, i32, i32]
"""Reciprocals of two sizes, and the sizes."""


def lowering(
    *more: Attribute, persistent: bool = False, made: bool = True, **options: Any
) -> KernelLowering:
    """Of a kernel with four arguments, three that the host makes, and those that are given."""
    types = [*GIVEN_TYPES, *(MADE_TYPES if made else []), *more]
    kernel = func.FuncOp("kernel", FunctionType.from_lists(types, []))
    for argument in kernel.body.block.args:
        argument.name_hint = f"a{argument.index}" if argument.index != 2 else None
    if made:
        kernel.attributes[GIVEN] = IntegerAttr(4, i64)
        kernel.attributes[MADE] = ArrayAttr([StringAttr(json.dumps(r)) for r in RECIPES])
    if persistent:
        kernel.attributes["tawa.persistent"] = UnitAttr()
    kernel.attributes["tawa.work"] = StringAttr("[1, 2]")
    return KernelLowering(kernel, Options(**options), SharedMemory(H200))


ARRAY = {"kind": "PointerParam", "arg": 0, "source": "array"}
NUMBER = {"kind": "ScalarParam", "value": ["arg", 1], "type": "i32"}


@pytest.mark.parametrize("made", [False, True])
def test_arguments_of_the_launch(made: bool) -> None:
    g = lowering(made=made)
    arguments = g.source.body.block.args
    first = [g.argument(arguments[i]) for i in (1, 0, 1, 3)]
    assert first[0] is first[2], "each once"
    assert list(g.block.args) == [first[0], first[1], first[3]], "as they are asked for"
    assert [a.name_hint for a in g.block.args] == ["a1", "a0", "a3"]
    assert g.parameters == [NUMBER, ARRAY, {"kind": "ScalarParam", "value": ["arg", 3],
                                            "type": "i64"}]  # fmt: skip
    assert g.user_arguments == 4


def test_arguments_that_the_host_makes() -> None:
    g = lowering()
    arguments = g.source.body.block.args
    g.argument(arguments[5])
    g.argument(arguments[6])
    assert g.parameters == [
        {"kind": "ScalarParam", "value": ["mul", ["arg", 1], 2], "type": "i64"},
        {"kind": "PointerParam", "arg": 0, "source": "descriptor"},
    ]


def test_sizes_of_the_grid_come_last() -> None:
    g = lowering(*GRID, persistent=True)
    for argument in g.source.body.block.args:
        if not isinstance(argument.type, DescType):
            g.argument(argument)
    assert g.parameters[:2] == [ARRAY, NUMBER]
    assert g.parameters[-5:] == [
        {"kind": "ReciprocalParam", "axis": 0}, {"kind": "ReciprocalParam", "axis": 1},
        *({"kind": "GridParam", "axis": axis} for axis in range(3)),
    ]  # fmt: skip
    assert [p["kind"] for p in g.parameters[2:-5]] == ["ScalarParam"] * 2 + ["PointerParam"]
    plain = lowering(persistent=False, made=False)
    for argument in plain.source.body.block.args:
        if not isinstance(argument.type, DescType):
            plain.argument(argument)
    assert [p["kind"] for p in plain.parameters] == ["PointerParam", "ScalarParam", "ScalarParam"]


def test_a_plan_of_the_work() -> None:
    g = lowering(PlanType(), made=False)
    g.argument(g.source.body.block.args[-1])
    assert g.parameters == [{"kind": "PlanParam", "steps": [1, 2]}]


def test_maps_of_descriptors() -> None:
    """One for each box and swizzle; what is stored through is told, whoever asks first."""
    g = lowering()
    given, made = (g.source.body.block.args[i] for i in (2, 4))
    one = g.tensor_map(given, (64, 32), 64)
    assert g.tensor_map(given, (64, 32), 64) is one
    assert one.type == TensorMapType()
    other = g.tensor_map(given, (32, 32), 64, stored=True)
    third = g.tensor_map(given, (64, 32), 32)
    assert len({one, other, third}) == 3
    hoisted = g.tensor_map(made, (8, 64), 128)
    assert [a.name_hint for a in (one, hoisted)] == ["desc_map", "a4_map"]
    plain = {"kind": "TensorMapParam", "arg": 2, "element_type": "f16", "box": [64, 32],
             "block_shape": [64, 32], "swizzle": 64}  # fmt: skip
    assert g.parameters == [
        plain, {**plain, "box": [32, 32], "stored": True}, {**plain, "swizzle": 32},
        {**plain, "arg": 4, "box": [8, 64], "block_shape": [8, 64], "swizzle": 128, **RECIPES[0],
         "source": "array"},
    ]  # fmt: skip
    assert g.tensor_map(given, (64, 32), 64, stored=True) is one
    assert g.parameters[0] == {**plain, "stored": True}


def test_how_many_staging_buffers() -> None:
    assert lowering().staging == DEFAULT_STAGING
    assert lowering(staging=1).staging == 1
    assert lowering(staging=3).staging == 3


def storing(g: KernelLowering, *kinds: Attribute) -> KernelLowering:
    """The same, where the kernel stores blocks of some types."""
    desc = g.source.body.block.args[2]
    for kind in kinds:
        value, at = Made(result_types=[kind]), Made(result_types=[i32])
        store = DescStore(desc, [at.results[0]] * 2, value.results[0])
        g.source.body.block.add_ops([value, at, store])
    return g


HALVES, FLOATS = TensorType(f16, (64, 32)), TensorType(f32, (64, 32))


@pytest.mark.parametrize(
    ("kinds", "slots", "again", "alone"),
    [((HALVES,), 2, 2, True), ((HALVES, HALVES), 2, 2, True), ((HALVES, FLOATS), 2, 2, False),
     ((HALVES,), 3, 2, False)],
)  # fmt: skip
def test_stores_of_one_kind_know_who_reads_their_buffer(
    kinds: tuple[Attribute, ...], slots: int, again: int, alone: bool
) -> None:
    g = storing(lowering(), *kinds)
    tile = tile_for((64, 32), f16)
    first, _ = g.staging_ring(tile, slots)
    second, said = g.staging_ring(tile, again)
    assert first is second, "one ring for each shape"
    assert said is alone
    assert len(g.declarations) == 1
