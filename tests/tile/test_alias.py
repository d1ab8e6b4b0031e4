"""What memory descriptors and arguments reach, and which blocks are stored to twice."""

from __future__ import annotations

import pytest
from tests.work import calls_made
from xdsl.dialects import func
from xdsl.parser import Parser

import tawa
import tawa.language as tl
from tawa.base.options import Options
from tawa.base.types import DescType
from tawa.tile.analysis.alias import STORED_BEFORE, origins
from tawa.tile.dialect.ops import DescStore, tile_context
from tawa.tile.passes.overlaps import Overlaps
from tawa.tile.passes.same_arrays import SameArrays


@tawa.jit
def doubled(x, y, n, BLOCK: tl.constexpr):
    desc = tl.make_tensor_descriptor(x, [n, 64], [64, 1], [BLOCK, 64])
    at = tl.program_id(0) * BLOCK
    rows, columns = at + tl.arange(0, BLOCK), tl.arange(0, 64)
    tl.store(y + rows[:, None] * 64 + columns[None, :], desc.load([at, 0]) * 2)


@pytest.mark.parametrize("persistent", [None, True])
def test_a_made_descriptor_reaches_its_argument(persistent: bool | None) -> None:
    """Persistent kernels take more arguments, after those that the host makes."""
    compiled = doubled.compile("*f16:16", "*f16:16", "i32:16", 64, persistent=persistent)
    kernel = next(op for op in compiled.module("aref").walk() if isinstance(op, func.FuncOp))
    (desc,) = (a for a in kernel.args if isinstance(a.type, DescType))
    assert origins(desc) == {kernel.args[0]}
    # Asked for every access of a kernel.
    assert calls_made(lambda: origins(kernel.args[1])) < 150


ADDS, PLAIN, LARGEST = 'reduce "addf"', "", 'reduce "maxnumf"'
TILE = "tensor<16x8xf16>"


@pytest.mark.parametrize(
    ("first", "later", "waits"),
    [
        (PLAIN, PLAIN, True),
        (PLAIN, ADDS, True),
        (ADDS, PLAIN, True),
        (ADDS, LARGEST, True),
        (ADDS, ADDS, False),
        (LARGEST, LARGEST, False),
    ],
)
def test_blocks_are_combined_in_any_order_only_if_both_say_how(first, later, waits):
    source = f"""func.func @f(%d : !tawa.desc<{TILE}>, %t : {TILE}, %i : i32) {{
        tile.desc_store %d[%i, %i], %t {first} : !tawa.desc<{TILE}>, {TILE}
        tile.desc_store %d[%i, %i], %t {later} : !tawa.desc<{TILE}>, {TILE}
        func.return
    }}"""
    module = Parser(tile_context(), source).parse_module()
    Overlaps(Options()).apply(module)
    stores = [op for op in module.walk() if isinstance(op, DescStore)]
    assert [STORED_BEFORE in op.attributes for op in stores] == [False, waits]


@pytest.mark.parametrize(("other", "uses"), [("f32", 2), ("i32", 1)])
def test_an_argument_stands_for_another_of_its_type(other: str, uses: int):
    source = f"""func.func @f(%x : !tawa.ptr<f32>, %y : !tawa.ptr<{other}>) {{
        %a = tile.load %x : !tawa.ptr<f32> -> f32
        %b = tile.load %y : !tawa.ptr<{other}> -> {other}
        func.return
    }}"""
    module = Parser(tile_context(), source).parse_module()
    kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
    x, y = kernel.args
    x.name_hint, y.name_hint = "x", "y"
    SameArrays(Options(same_array=(("x", "y"),))).apply(module)
    module.verify()
    assert [len(list(argument.uses)) for argument in (x, y)] == [uses, 2 - uses]
