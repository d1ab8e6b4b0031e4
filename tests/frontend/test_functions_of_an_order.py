"""libdevice's functions of an integer order, and of upper words: their types, and their text."""

from __future__ import annotations

from typing import Any

import pytest

import tawa
import tawa.language as tl
from tawa.frontend.source.errors import TypeMismatch

libdevice: Any = tl.extra.libdevice


@tawa.jit
def of_an_order(x: Any, d: Any, n: Any):
    i = tl.arange(0, 32)
    a, b, order = tl.load(x + i), tl.load(d + i), tl.load(n + i)
    tl.store(x + i, libdevice.jn(order, a) + libdevice.yn(3, a))
    tl.store(d + i, libdevice.yn(order, b) + libdevice.jn(2, b) + libdevice.rcp64h(b))


@tawa.jit
def reciprocal(x: Any):
    tl.store(x, libdevice.rcp64h(tl.load(x)))


def test_the_assembler_takes_functions_of_an_order() -> None:
    text = str(of_an_order.compile("*f32", "*f64", "*i32").stages["cu"])
    assert all(f" {name}{kind}(" in text for name in ("jn", "yn") for kind in ("", "f"))


def test_a_near_reciprocal_of_other_floats_is_refused() -> None:
    with pytest.raises(TypeMismatch, match="float64"):
        reciprocal.compile("*f32")
