"""A role transposes what products read across memory, between the loads and the products."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from simulation import Arrays, Recorded, block, values

import tawa
import tawa.language as tl
from tawa.aref.dialect.ops import Create, LoadInto, RefType, TransposeInto, WarpGroup
from tawa.base.types import shape_of
from tawa.ir.decisions.roles import TransposedByRole
from tawa.simulate.interpret.aref import run


@tawa.jit
def product(a, b, c, K, BK: tl.constexpr, TURN_A: tl.constexpr, TURN_B: tl.constexpr,
            TWICE: tl.constexpr):  # fmt: skip
    """`TURN_A`, `TURN_B`: K is not contiguous; with `TWICE` ordinary code reads B, too."""
    acc = tl.zeros((64, 32), tl.float32)
    for k in range(0, K, BK):
        x = a.load([k, 0]).T if TURN_A else a.load([0, k])
        y = b.load([k, 0]) if TURN_B else b.load([0, k]).T
        acc = tl.dot(x, y, acc)
        if TWICE:
            acc += tl.sum(y.to(tl.float32), 0)[None, :]
    c.store([0, 0], acc)


def launched(element: str, turn_a: bool, turn_b: bool, twice: bool, **options: Any) -> Any:
    """The compiled kernel, whose numbers are right at this level."""
    arrays, k, step = Arrays(), 96, 32
    a = arrays.random(element, *((k, 64) if turn_a else (64, k)))
    b = arrays.random(element, *((k, 32) if turn_b else (32, k)))
    c = arrays.output("f32", 64, 32)
    x, y = values(a), values(b)
    described = [
        block(a, *((step, 64) if turn_a else (64, step))),
        block(b, *((step, 32) if turn_b else (32, step))),
        block(c, 64, 32),
    ]
    constants = {"BK": step, "TURN_A": turn_a, "TURN_B": turn_b, "TWICE": twice, **options}
    launch = Recorded(product, (1,), (*described, k), constants)
    compiled = launch.compile()
    run(compiled.module("aref"), (1,), launch.values(compiled))
    y = y if turn_b else y.T
    expected = (x.T if turn_a else x) @ y + twice * y.sum(0)
    np.testing.assert_allclose(
        c.view(np.ndarray), expected, rtol=0, atol=0.1 if element == "f32" else 1e-4
    )
    return compiled


def roles(compiled: Any) -> dict[str, WarpGroup]:
    return {op.role.data: op for op in compiled.module("aref").walk() if isinstance(op, WarpGroup)}


@pytest.mark.parametrize("element", ["e4m3", "f32", "f16"])
@pytest.mark.parametrize("turn_a", [False, True])
@pytest.mark.parametrize("turn_b", [False, True])
def test_who_transposes(element: str, turn_a: bool, turn_b: bool) -> None:
    """What is not of 16 bits, each tile by itself, into a ring of the turned shape."""
    compiled = launched(element, turn_a, turn_b, False)
    turned = 0 if element == "f16" else turn_a + turn_b
    found = roles(compiled)
    assert ("transpose" in found) is (turned > 0)
    assert len(compiled.decided(TransposedByRole)) == turned
    everything = list(compiled.module("aref").walk())
    moves = [op for op in everything if isinstance(op, TransposeInto)]
    assert len(moves) == turned
    loads = Counter(shape_of(op.desc.type.block) for op in everything if isinstance(op, LoadInto))
    a, b = ((32, 64) if turn_a else (64, 32)), (32, 32)
    assert loads == Counter([a, b])
    rings = [op.ref.type for op in everything if isinstance(op, Create)]
    shapes = Counter(tile.get_shape() for r in rings if isinstance(r, RefType) for tile in r.tiles)
    wanted = Counter([a, b])
    if turned:
        wanted += Counter([t for t, yes in (((64, 32), turn_a), ((32, 32), turn_b)) if yes])
    assert shapes == wanted
    if turned:
        assert found["transpose"].moves
        inside = [op for op in found["transpose"].walk() if isinstance(op, TransposeInto)]
        assert len(inside) == turned


def test_what_ordinary_code_reads_too_stays_as_it_is_loaded() -> None:
    compiled = launched("e4m3", True, True, True)
    assert len(compiled.decided(TransposedByRole)) == 1
    moves = [op for op in compiled.module("aref").walk() if isinstance(op, TransposeInto)]
    assert len(moves) == 1


def test_one_role_transposes_by_itself() -> None:
    assert "transpose" not in roles(launched("e4m3", True, True, False, specialize=False))
