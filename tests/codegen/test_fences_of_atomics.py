"""Where threads meet and fence around atomic operations: as often as the program needs, no more."""

from __future__ import annotations

from typing import Any

import pytest
from two_levels import modules
from xdsl.ir import Operation

import tawa
import tawa.language as tl
from tawa.hopper.dialect.atomic import GlobalAtomic, MemoryFence
from tawa.hopper.dialect.sync import ORDERS_MEMORY

N = 128


@tawa.jit
def tiles(
    x, y, out, BEFORE: tl.constexpr, ORDER: tl.constexpr, USED: tl.constexpr, N: tl.constexpr
):
    i = tl.arange(0, N)
    v = i
    if BEFORE == "store":
        tl.store(x + i, i)
    elif BEFORE == "load":
        v = tl.load(x + i)
    elif BEFORE == "store in a branch":
        if tl.program_id(0) == 0:
            tl.store(x + i, i)
    old = tl.atomic_add(y + i, v, sem=ORDER)
    if USED:
        tl.store(out + i, old)
    if BEFORE == "later":
        tl.store(x + i, i)


@tawa.jit
def repeated(x, y, out, n, ORDER: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    for _ in range(n):
        tl.atomic_add(y + i, i, sem=ORDER)
        tl.store(x + i, i)


@tawa.jit
def numbers(
    x, y, out, BEFORE: tl.constexpr, ORDER: tl.constexpr, USED: tl.constexpr, N: tl.constexpr
):
    i = tl.arange(0, N)
    if BEFORE == "store":
        tl.store(x + i, i)
    elif BEFORE == "load":
        tl.store(out + i, tl.load(x + i))
    elif BEFORE == "load after":
        old = tl.atomic_add(y, 1, sem="relaxed")
    old = tl.atomic_xchg(y, 1, sem=ORDER)
    if USED:
        tl.store(out, old)


def around(kernel: Any, **constants: Any) -> tuple[list[str], list[str], list[str]]:
    """Fences and meetings for memory before the last atomic operation, its order, those after it."""
    types = ["*i32:16", "*i32:16", "*i32:16"] + (["i32"] if kernel is repeated else [])
    module = modules(kernel, *types, N=N, num_warps=4, **constants)["hopper"]
    ops: list[Operation] = list(module.walk())
    at = max(i for i, op in enumerate(ops) if isinstance(op, GlobalAtomic))

    def said(some: list[Operation]) -> list[str]:
        return [
            "fence" if isinstance(op, MemoryFence) else "meet"
            for op in some
            if isinstance(op, MemoryFence) or ORDERS_MEMORY in op.attributes
        ]

    atomic = ops[at]
    assert isinstance(atomic, GlobalAtomic)
    return said(ops[:at]), [atomic.order.data], said(ops[at + 1 :])


@pytest.mark.parametrize("order", ["relaxed", "acquire", "release", "acq_rel"])
@pytest.mark.parametrize(
    ("before", "writes"),
    [("store", True), ("load", False), ("store in a branch", True), ("nothing", False),
     ("later", False)],
)  # fmt: skip
def test_what_a_tile_of_atomics_releases(order: str, before: str, writes: bool) -> None:
    """What the program has written before; each element follows from what it was loaded with."""
    found, own, after = around(tiles, BEFORE=before, ORDER=order, USED=False)
    released = order in ("release", "acq_rel") and writes
    assert found == (["meet", "fence"] if released else [])
    assert own == ["relaxed"]
    assert "fence" not in after, "nobody looks at what it read, so nothing is acquired"


@pytest.mark.parametrize("order", ["relaxed", "acquire", "release", "acq_rel"])
def test_what_a_tile_of_atomics_acquires(order: str) -> None:
    _, own, after = around(tiles, BEFORE="nothing", ORDER=order, USED=True)
    assert own == ["relaxed"]
    assert after[:2] == (["fence", "meet"] if order in ("acquire", "acq_rel") else [])


@pytest.mark.parametrize("order", ["relaxed", "release"])
def test_what_the_iteration_before_has_written_is_released(order: str) -> None:
    found, _, _ = around(repeated, ORDER=order)
    assert found == (["meet", "fence"] if order == "release" else [])


@pytest.mark.parametrize("order", ["relaxed", "acquire", "release", "acq_rel"])
@pytest.mark.parametrize(
    ("before", "accessed"), [("store", True), ("load", True), ("nothing", False)]
)
def test_a_number_has_the_programs_order_itself(order: str, before: str, accessed: bool) -> None:
    """It may tell others that the program has read."""
    found, own, after = around(numbers, BEFORE=before, ORDER=order, USED=False)
    released = order in ("release", "acq_rel") and accessed
    assert found == (["meet"] if released else [])
    assert own == [order]
    assert "fence" not in after
