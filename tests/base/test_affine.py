"""Sums of which two are told apart, against every value that they can have."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, SSAValue

from tawa.ir.affine import MOST_TERMS, Affine, Part, affine, apart
from tawa.ir.elementwise import Map
from tawa.ir.loops import integer_constant


class Values:
    """Scalars of a block, to compute with."""

    def __init__(self, count: int = 3) -> None:
        self.block = Block(arg_types=[i32] * count)

    def number(self, value: int) -> SSAValue:
        op = integer_constant(value, i32)
        self.block.add_op(op)
        return op.result

    def __call__(self, function: str, *operands: SSAValue) -> SSAValue:
        op = Map(function, operands)
        self.block.add_op(op)
        return op.result


def test_a_sum_is_told_from_its_arithmetic() -> None:
    v = Values()
    a, b, c = v.block.args
    value = v("subi", v("muli", v("addi", a, b), v.number(3)), v("muli", b, c))
    found = affine(v("addi", value, v.number(5)))
    assert found == Affine(5, {(a,): 3, (b,): 3, tuple(sorted((b, c), key=id)): -1})
    assert affine(v("divsi", a, b)) is not None  # a value of its own


@pytest.mark.parametrize("seed", range(30))
def test_it_never_tells_apart_what_meets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(40):
        sums: list[Affine] = []
        reached: list[set[int]] = []
        for _ in range(2):
            parts = [
                Part(int(rng.integers(-12, 13)), int(low := rng.integers(-2, 3)), int(low + n))
                for n in rng.integers(0, 5, rng.integers(0, 4))
            ]
            constant = int(rng.integers(-30, 30))
            sums.append(Affine(constant, parts=tuple(parts)))
            ranges = [[p.factor * n for n in range(p.low or 0, (p.high or 0) + 1)] for p in parts]
            reached.append({constant + sum(choice) for choice in product(*ranges)})
        low, high = sorted(int(n) for n in rng.integers(-6, 7, 2))
        near = any(low <= b - a <= high for a in reached[0] for b in reached[1])
        assert apart(*sums, low, high) is not near


def test_loops_that_go_on() -> None:
    v = Values()
    n, m, _ = v.block.args
    body = Block(arg_types=[i32])
    loop = scf.ForOp(v.number(0), n, v.number(2), [], body)
    v.block.add_op(loop)
    inner = Values(0)
    inner.block = body
    counter = body.args[0]
    start = affine(inner("addi", inner("muli", counter, v.number(32)), m))
    other = affine(inner("addi", inner("muli", counter, n), m))
    assert start is not None
    assert other is not None
    assert not apart(start, start, -63, 63)
    assert apart(start, start, -63, 63, [loop])  # 64 further on, at least
    assert not apart(start, start, -64, 64, [loop])
    assert not apart(other, other, 0, 0, [loop])  # n may be 0
    assert not apart(start, Affine(0, {(m,): 1}), 0, 0)


def test_a_counter_of_known_bounds() -> None:
    v = Values()
    body = Block(arg_types=[i32])
    v.block.add_op(scf.ForOp(v.number(0), v.number(8), v.number(1), [], body))
    counter = affine(body.args[0])
    assert counter is not None
    assert apart(counter, Affine(8), 0, 0)
    assert not apart(counter, Affine(7), 0, 0)


@pytest.mark.parametrize("parts", [0, 1, 5])
def test_long_sums_are_not_followed(parts: int) -> None:
    """Terms and parts count together."""
    block = Block(arg_types=[i32] * (MOST_TERMS + 1))
    for terms in range(MOST_TERMS + 2 - parts):
        value = integer_constant(7, i32).result
        for argument in block.args[: terms + parts]:
            value = Map("addi", [value, argument]).result
        known = set(block.args[:parts])

        def leaf(found: SSAValue, known: set[SSAValue] = known) -> Affine | None:
            return Affine(parts=(Part(1, 0, 3),)) if found in known else None

        found = affine(value, leaf)
        assert (found is None) is (terms + parts > MOST_TERMS)
        assert found is None or (len(found.terms), len(found.parts)) == (terms, parts)
