"""What memory descriptors reach that the host makes of pointer arguments."""

from __future__ import annotations

import pytest
from xdsl.dialects import func

import tawa
import tawa.language as tl
from tawa.base.types import DescType
from tawa.tile.analysis.alias import origins


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
