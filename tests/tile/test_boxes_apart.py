"""Programs on a larger tile that do to each box what they do to that box alone: compared with that."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Operation, SSAValue

from tawa.base.numerics import Array
from tawa.ir.elementwise import Map
from tawa.tile.analysis.boxes_apart import EQUAL, Apart, check_apart
from tawa.tile.dialect.ops import (
    ArgReduce,
    Broadcast,
    Dot,
    ExpandDims,
    Reduce,
    Repeat,
    Reshape,
    Scan,
    Splat,
    Trans,
)  # fmt: skip

Shape = tuple[int, ...]
Build = Callable[[Sequence[SSAValue]], Operation]


def tile(shape: Shape) -> SSAValue:
    return Made(result_types=[TensorType(f32, shape) if shape else f32]).results[0]


def doubled(shape: Shape, dim: int) -> Shape:
    return tuple(n * (1 + (d == dim)) for d, n in enumerate(shape))


def said(small: Operation, large: Operation) -> bool:
    """What the analysis says of two programs of one op each."""
    try:
        check_apart(ModuleOp([small]), ModuleOp([large]))
    except Apart:
        return False
    return True


def value_of(op: Operation, arrays: Sequence[Array]) -> Array:
    if isinstance(op, Map):
        return arrays[0] + arrays[1]
    found = op.evaluate(*arrays)
    return found[1] if isinstance(op, ArgReduce) else found


def true_of(
    small: Operation, large: Operation, given: Sequence[int], shapes: Sequence[Shape]
) -> bool:
    """Whether the whole result is made of those of two boxes, or equal to both, whatever they hold."""
    random = np.random.default_rng(0)
    whole = [random.integers(-9, 9, doubled(s, d)).astype(np.float32) + random.permutation(
        int(np.prod(doubled(s, d)))).reshape(doubled(s, d)).astype(np.float32)
        for s, d in zip(shapes, given, strict=True)]  # fmt: skip
    parts = [
        [a if d == EQUAL else np.split(a, 2, d)[n] for a, d in zip(whole, given, strict=True)]
        for n in (0, 1)
    ]
    one, two = (value_of(small, part) for part in parts)
    found = value_of(large, whole)
    if one.shape == found.shape:
        return bool((one == found).all() and (two == found).all())
    axes = [d for d in range(one.ndim) if one.shape[d] != found.shape[d]]
    joined = np.concatenate([one, two], axes[0]) if len(axes) == 1 else np.zeros(0)
    return joined.shape == found.shape and bool((joined == found).all())


def by(make: Callable[..., Operation], *more: object) -> Build:
    return lambda values: make(*values, *more)


OPS: dict[str, tuple[list[Shape], Build, Build]] = {}
"""By name: shapes of a box's operands, the op of a box, and the op of two."""


def add(name: str, shapes: list[Shape], small: Build, large: Build | None = None) -> None:
    OPS[name] = shapes, small, large or small


add("sum", [(4, 6), (4, 6)], lambda v: Map("addf", v))
add("sum of vectors", [(8,), (8,)], lambda v: Map("addf", v))
for axis, perm in ((0, (1, 0)), (1, (0, 1))):
    add(f"turned {perm}", [(4, 6)], by(Trans, perm))
    add(f"one more dimension {axis}", [(4, 6)], by(ExpandDims, axis))
    add(f"sums along {axis}", [(4, 6)], by(Reduce, axis, "addf"))
    add(f"places along {axis}", [(4, 6)], by(ArgReduce, axis, "argmax"))
    add(f"running along {axis}", [(4, 6)], by(Scan, axis, "addf"))
add("turned three", [(2, 4, 6)], by(Trans, (2, 0, 1)))
add("one more at the end", [(4, 6)], by(ExpandDims, 2))
for name, shape in (("rows", (8, 6)), ("columns", (4, 12)), ("both", (8, 12))):
    add(f"rows repeated, {name}", [(1, 6)], by(Broadcast, (4, 6)), by(Broadcast, shape))
    add(f"columns repeated, {name}", [(4, 1)], by(Broadcast, (4, 6)), by(Broadcast, shape))
    add(f"a number everywhere, {name}", [()], by(Splat, (4, 6)), by(Splat, shape))
    if name != "both":
        add(f"other rows and columns, {name}", [(24,)], by(Reshape, (4, 6)), by(Reshape, shape))
        add(f"rows in groups, {name}", [(2, 2, 6)], by(Reshape, (4, 6)), by(Reshape, shape))
for name, flat in (("twice", 48), ("once", 24)):
    add(f"all in a row, {name}", [(4, 6)], by(Reshape, (24,)), by(Reshape, (flat,)))
add("product", [(4, 2), (2, 6), (4, 6)], by(Dot))
add("products", [(2, 4, 2), (2, 2, 6), (2, 4, 6)], by(Dot))
add("repeated rows", [(4, 6)], by(Repeat, 0, 2))


MISSED = {
    ("other rows and columns, rows", (0,)), ("rows in groups, rows", (0,)),
    ("all in a row, twice", (0,)),
}  # fmt: skip
"""What is so, and not said: boxes that a reshape puts one behind the other."""


def cases() -> list[tuple[str, tuple[int, ...]]]:
    """Each op, and the dimension along which each operand is made of two boxes."""
    return [
        (name, given)
        for name, (shapes, _, _) in OPS.items()
        for given in itertools.product(*((EQUAL, *range(len(s))) for s in shapes))
    ]


@pytest.mark.parametrize("name", OPS)
def test_what_is_said_is_so(name: str) -> None:
    """Where boxes are said to be apart they are, and most that are so are said to be."""
    shapes, make_small, make_large = OPS[name]
    tried = 0
    for given in (given for other, given in cases() if other == name):
        whole = [tile(doubled(s, d)) for s, d in zip(shapes, given, strict=True)]
        small = make_small([tile(s) for s in shapes])
        try:
            large = make_large(whole)
            large.verify()
        except Exception:
            continue
        tried += 1
        true = true_of(small, large, given, shapes)
        found = said(small, large)
        assert found <= true, given
        if (name, given) not in MISSED and type(small) is not Repeat:
            assert found == true, given
    assert tried
