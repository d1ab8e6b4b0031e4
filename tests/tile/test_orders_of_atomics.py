"""Which atomics order other accesses: all that are not relaxed; one acquires by its result."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import f32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Operation

from tawa.base.types import PtrType
from tawa.ir.effects import ORDER, READ, WRITE, touches
from tawa.tile.dialect.ops import AtomicCas, AtomicRmw


def atomic(kind: str, order: str, *, used: bool) -> Operation:
    pointer, value = Made(result_types=[PtrType(f32), f32]).results
    if kind == "cas":
        op = AtomicCas(pointer, value, value, order=order, scope="gpu")
    else:
        op = AtomicRmw(kind, pointer, value, order=order, scope="gpu")
    if used:
        Made(operands=[op.result])
    return op


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("order", ["relaxed", "acquire", "release", "acq_rel"])
@pytest.mark.parametrize("kind", ["addf", "xchg", "cas"])
def test_what_an_atomic_orders(kind: str, order: str, used: bool):
    op = atomic(kind, order, used=used)
    assert touches(op, ORDER, READ) == (order in ("acquire", "acq_rel") and used)
    assert touches(op, ORDER, WRITE) == (order != "relaxed")
