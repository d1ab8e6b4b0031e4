"""Sums of which two are told apart, against every value that they can have."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, SSAValue

from tawa.ir.affine import MOST_CASES, MOST_TERMS, Affine, Part, affine, apart
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


FAR = 100
"""As good as no bound for the numbers below."""


def reached(parts: tuple[Part, ...]) -> set[int]:
    """What parts may add up to, where what is not bounded goes on for long."""
    ranges = [
        [p.factor * n for n in range(-FAR if p.low is None else p.low,
                                     (FAR if p.high is None else p.high) + 1)]
        for p in parts
    ]  # fmt: skip
    return {sum(choice) for choice in product(*ranges)}


UNBOUNDED = [
    (Part(8, 1, None),), (Part(8, None, -1),), (Part(-8, 1, None),), (Part(8, None, None),),
    (Part(64, 1, None), Part(1, 0, 15)), (Part(64, 1, None), Part(1, -15, 0)),
    (Part(64, None, -1), Part(1, 0, 15)), (Part(64, None, -1), Part(1, -15, 15)),
    (Part(64, 1, None), Part(1, 0, None)), (Part(64, None, -1), Part(1, None, 0)),
    (Part(16, 0, 3), Part(1, 0, None)), (Part(16, 0, 3), Part(1, None, 0)),
    (Part(0, 0, 3), Part(16, 1, None)), (Part(16, 1, None), Part(16, 1, 2)),
    (Part(32, 0, None), Part(32, 0, 0), Part(1, 0, 7)),
]  # fmt: skip


@pytest.mark.parametrize("parts", UNBOUNDED)
def test_parts_without_bounds(parts: tuple[Part, ...]) -> None:
    """What goes on in both directions is given up; all else is told to the number."""
    whole = reached(parts)
    for low in range(-80, 81):
        for high in (low, low + 1, low + 7):
            near = any(low <= n <= high for n in whole)
            assert apart(Affine(), Affine(parts=parts), low, high) is not near, (low, high)


def test_what_may_be_anything_is_near() -> None:
    """Parts of which the smaller goes on for ever in both directions."""
    parts = (Part(64, 1, None), Part(1, None, None))
    assert not apart(Affine(), Affine(parts=parts), 3, 3)
    for up in (Part(1, None, 15), Part(1, 0, None)):
        both = (Part(64, None, None), up)
        assert not apart(Affine(), Affine(parts=both), 3, 3)


@pytest.mark.parametrize(("cases", "told"), [(MOST_CASES + 1, True), (MOST_CASES + 2, False)])
def test_how_many_cases_are_tried(cases: int, told: bool) -> None:
    """Multiples of four less even numbers are never odd; `cases` of the first may come near."""
    parts = (Part(4, None, None), Part(2, -2 * cases, 0))
    assert apart(Affine(), Affine(parts=parts), 1, 1) is told
    shifted = (Part(4, None, None), Part(2, -2 * cases - 1000, -1000))
    assert apart(Affine(), Affine(parts=shifted), 1, 1) is told


def counting(first: object, last: object, step: object, at: int = 0) -> tuple[Values, SSAValue]:
    """A loop with bounds that are numbers or arguments, and its counter."""
    v, body = Values(), Block(arg_types=[i32])
    bounds = [v.number(n) if isinstance(n, int) else v.block.args[at] for n in (first, last, step)]
    v.block.add_op(scf.ForOp(*bounds, [], body))
    return v, body.args[0]


@pytest.mark.parametrize(
    ("bounds", "inside", "outside"),
    [((0, 8, 1), [0, 7], [-1, 8]), ((2, 8, 3), [2, 7], [1, 8]), ((5, 5, 1), [5], [4, 6]),
     ((5, 3, 1), [5], [4, 6]), ((0, 8, 0), [-1, 8], []), ((8, 0, -1), [-1, 9], []),
     ((0, None, 1), [8], []), ((None, 8, 1), [-1], []), ((0, 8, None), [8], []),
     ((-4, 4, 2), [-4, 3], [-5, 4])],
)  # fmt: skip
def test_which_numbers_a_counter_may_be(
    bounds: tuple[object, object, object], inside: list[int], outside: list[int]
) -> None:
    _, counter = counting(*bounds)
    for place, far in [*((n, False) for n in inside), *((n, True) for n in outside)]:
        for one, other in ((affine(counter), Affine(place)), (Affine(place), affine(counter))):
            assert one is not None
            assert other is not None
            assert apart(one, other, 0, 0) is far, place


def test_a_counter_times_a_value_may_be_anything() -> None:
    _, counter = counting(0, 8, 1)
    other = Values().block.args[0]
    product_of_both = Affine(0, {tuple(sorted((counter, other), key=id)): 1})
    assert not apart(product_of_both, Affine(100), 0, 0)
    assert apart(Affine(0, {(counter,): 1}), Affine(100), 0, 0)


def test_bounds_that_are_long_sums_are_not_known() -> None:
    long = Block(arg_types=[i32] * (MOST_TERMS + 1))
    total = long.args[0]
    for argument in long.args[1:]:
        total = Map("addi", [total, argument]).result
    body = Block(arg_types=[i32])
    scf.ForOp(total, total, integer_constant(1, i32).result, [], body)
    assert not apart(Affine(0, {(body.args[0],): 1}), Affine(100), 0, 0)


def test_loops_in_loops_that_go_on() -> None:
    """Of two counters only that of the outermost loop that went on is later for sure."""
    _, counter = counting(0, 8, 1)
    outer = counter.owner.parent_op()
    assert isinstance(counter.owner, Block)
    body = Block(arg_types=[i32])
    bounds = [integer_constant(n, i32) for n in (0, 8, 1)]
    inner = scf.ForOp(*bounds, [], body)
    counter.owner.add_ops([*bounds, inner])
    assert outer is not None
    both = Affine(0, {(counter,): 64, (body.args[0],): 8})
    assert apart(both, both, 0, 7, [inner])
    assert apart(both, both, -7, 0, [outer]), "64 further on, and at most 56 back"
    assert not apart(both, both, 8, 8, [outer])
    assert not apart(both, both, 8, 8, [inner])
    wide = Affine(0, {(counter,): 64, (body.args[0],): 16})
    assert not apart(wide, wide, 0, 0, [outer])
