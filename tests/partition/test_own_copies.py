"""Which loads a kernel of one role copies into rings itself, and where they come to stand."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp

import tawa
import tawa.language as tl
from tawa.base.options import Options
from tawa.frontend import JITFunction, PointerArg, lower_to_tile, specialize_number
from tawa.ir.decisions.decision import Decisions
from tawa.ir.walking import all_of
from tawa.partition.bulk_copies import BulkCopies
from tawa.partition.own_copies import LEAST_SHARE, own_copies
from tawa.tile.dialect.ops import Dot, Load
from tawa.tile.passes.simplify import simplify


@tawa.jit
def start(c, t, place, total, HOW: tl.constexpr, K: tl.constexpr):
    """Where an iteration's columns of the first operand begin."""
    far = t * K
    if HOW == "carried":
        far = place
    elif HOW == "read":
        far = tl.load(c + t).to(tl.int32) * K
    elif HOW == "read and written":
        far = tl.load(c + t).to(tl.int32) * K
        tl.store(c + t + 1, 1.0)
    elif HOW == "of the product":
        far = tl.sum(tl.sum(total, 0), 0).to(tl.int32) * K
    elif HOW == "chosen":
        if t % 2 == 0:
            far = t * K
        else:
            far = 2 * t * K
    return far


@tawa.jit
def multiplied(x, y, total, HOW: tl.constexpr):
    if HOW == "computed":
        total = tl.dot((x * 2).to(tl.float16), y, total)
    elif HOW == "no product":
        total += tl.sum(x) + tl.sum(y)
    else:
        total = tl.dot(x, y, total)
    return total


def product(a, b, c, n, HOW: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, o, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    place = 0
    for t in range(n):
        rows = m[:, None]
        if HOW == "rows that are read":
            rows = tl.load(c + m).to(tl.int32)[:, None]
        far = start(c, t, place, total, HOW, K)
        x = tl.load(a + rows * 1024 + far + k[None, :])
        y = tl.load(b + (t * K + k[:, None]) * N + o[None, :])
        if HOW == "stored":
            tl.store(a + t, 1.0)
        total = multiplied(x, y, total, HOW)
        place = place + K
    tl.store(c + m[:, None] * N + o[None, :], total)


def lowered(how: str, size: int = 32, element: Any = tl.float16) -> func.FuncOp:
    kinds = [PointerArg(element, 16), PointerArg(element, 16), PointerArg(tl.float32, 16),
             specialize_number(1 << 20)]  # fmt: skip
    fixed = {"HOW": how, "M": size, "N": size, "K": size}
    module = lower_to_tile(JITFunction(product), kinds, fixed)
    simplify(module)
    return next(op for op in module.ops if isinstance(op, func.FuncOp))


def found(kernel: func.FuncOp, **options: Any) -> list[Load]:
    return own_copies(kernel, Options(num_warps=1, **options))


@pytest.mark.parametrize(
    ("how", "count"),
    [("plain", 2), ("carried", 2), ("read", 2), ("read and written", 1), ("of the product", 1),
     ("stored", 1), ("computed", 2), ("no product", 0), ("chosen", 1), ("rows that are read", 1)],
)  # fmt: skip
def test_loads_whose_addresses_are_known_ahead(how: str, count: int) -> None:
    """From the counter, what is carried, and memory that the loop does not write."""
    assert len(found(lowered(how))) == count


@pytest.mark.parametrize(
    ("options", "count"),
    [({"num_stages": 2}, 2), ({"num_stages": 1}, 0), ({"num_stages": 4}, 2), ({"cluster": 2}, 0)],
)
def test_options_under_which_none_is_copied(options: dict[str, Any], count: int) -> None:
    assert len(found(lowered("plain"), **options)) == count


@pytest.mark.parametrize(
    ("size", "element"), [(32, tl.float16), (64, tl.float16), (128, tl.float16)]
)
def test_a_slot_takes_a_share_of_shared_memory(size: int, element: Any) -> None:
    taken = 2 * size * size * element.primitive_bitwidth // 8
    room = Options().machine.shared_bytes // LEAST_SHARE
    assert len(found(lowered("plain", size, element))) == (2 if taken <= room else 0)


def test_they_stand_first_with_what_they_need() -> None:
    kernel = lowered("carried")
    loads = found(kernel)
    (loop,) = all_of(kernel, scf.ForOp)
    ops = list(loop.body.block.ops)
    last = max(ops.index(load) for load in loads)
    dot = next(i for i, op in enumerate(ops) if isinstance(op, Dot))
    assert last < dot
    needed = set(loads)
    work = list(loads)
    while work:
        for value in work.pop().operands:
            owner = value.owner
            if owner in ops and owner not in needed:
                needed.add(owner)
                work.append(owner)
    assert set(ops[: last + 1]) == needed, "nothing else stands before them"
    kernel.verify()


@pytest.mark.parametrize(
    ("options", "boxes"),
    [({}, 2), ({"specialize": False}, 0), ({"cluster": 2}, 0), ({"bulk_copies": False}, 0),
     ({"bulk_copies": True}, 2)],
)  # fmt: skip
def test_options_under_which_the_copy_engine_copies_boxes(
    options: dict[str, Any], boxes: int
) -> None:
    kernel = lowered("plain", 64)
    module = kernel.parent_op()
    assert isinstance(module, ModuleOp)
    BulkCopies(Options(**options), Decisions()).apply(module)
    assert sum(load.desc is not None for load in all_of(kernel, Load)) == boxes
