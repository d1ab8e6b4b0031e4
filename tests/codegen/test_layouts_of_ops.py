"""Which thread gets which elements: of scans, atomics and exchanges; and who prints."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.base.layout import LANES, REPLICA, Layout, Mode
from tawa.codegen.exchanges import wavefronts
from tawa.codegen.scans import LONGEST, spread
from tawa.hopper.dialect.atomic import GlobalAtomic
from tawa.hopper.dialect.debug import Print
from tawa.hopper.dialect.fragment import layout_of
from tawa.hopper.dialect.structure import OneThread

SHAPES = [((1024,), 0), ((8192,), 0), ((32,), 0), ((4, 2), 1), ((64, 64), 0), ((64, 64), 1),
          ((2, 4096), 1), ((4096, 2), 0), ((2, 256), 1), ((16, 512), 1), ((4, 8, 16), 1)]  # fmt: skip


@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
def test_a_thread_scans_neighbours(shape: tuple[int, ...], axis: int, warps: int):
    found = spread(shape, axis, warps)
    assert found.layout.verify() is None
    assert found.layout.warps == warps
    assert found.chunk * found.lanes * found.warps == shape[axis]
    # Few elements in a thread, unless there are no more lanes for them.
    assert found.chunk <= LONGEST or found.below == 1
    along = found.layout.coordinates[:, :: found.layout.registers // found.chunk, axis]
    assert (np.diff(along, axis=1) == 1).all(), "a thread's elements follow each other"
    assert (along[:, 0] % found.chunk == 0).all()


def lanes_of(*modes: Mode, registers: tuple[Mode, ...] = ()) -> Layout:
    """One warp's part of a tile of rows."""
    parts = (*registers, *modes)
    rows, columns = (math.prod(m.extent for m in parts if m.dim == dim) for dim in (0, 1))
    return Layout((rows, columns), registers, modes, (Mode(1, REPLICA, 0),))


WARP = {
    "a row of words": (lanes_of(Mode(32, 1, 1)), 4, 1),
    "a row of halves": (lanes_of(Mode(32, 1, 1)), 2, 1),
    "a row of bytes": (lanes_of(Mode(32, 1, 1)), 1, 1),
    "a row of doubles": (lanes_of(Mode(32, 1, 1)), 8, 2),
    "four words each": (lanes_of(Mode(32, 1, 4), registers=(Mode(4, 1, 1),)), 4, 4),
    "two words each": (lanes_of(Mode(32, 1, 2), registers=(Mode(2, 1, 1),)), 4, 2),
    "eight halves each": (lanes_of(Mode(32, 1, 8), registers=(Mode(8, 1, 1),)), 2, 4),
    "rows of 32 words": (lanes_of(Mode(32, 0, 1), registers=(Mode(32, 1, 1),)), 4, 8 * 32),
    "four rows": (lanes_of(Mode(8, 1, 1), Mode(4, 0, 1)), 4, 1),
    "two registers apart": (lanes_of(Mode(32, 1, 1), registers=(Mode(2, 0, 1),)), 4, 2),
}


@pytest.mark.parametrize("name", WARP)
def test_how_often_a_warp_takes_the_banks(name: str):
    layout, size, expected = WARP[name]
    assert layout.coordinates.shape[0] == LANES
    assert wavefronts(layout, size) == expected


@tawa.jit
def largest(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.atomic_max(out + at, tl.load(x + at))


@tawa.jit
def counted(x, out, N: tl.constexpr):
    tl.atomic_max(out + tl.arange(0, N), 3)


@tawa.jit
def exchanged(x, out, N: tl.constexpr):
    tl.atomic_cas(out + tl.arange(0, N), 0, 1)


@pytest.mark.parametrize("kernel", [largest, counted, exchanged], ids=lambda k: k.__name__)
def test_lanes_side_by_side_combine_neighbours(kernel: tawa.Kernel):
    """One access of the warp touches the fewest lines."""
    module = kernel.compile("*i32", "*i32", 1024).module("hopper")
    (op,) = [op for op in module.walk() if isinstance(op, GlobalAtomic)]
    where = layout_of(op.value).coordinates[:LANES, :, 0]
    assert (np.diff(where, axis=0) == 1).all()


@tawa.jit
def added(x, out, N: tl.constexpr):
    tl.atomic_add(out + tl.arange(0, N), tl.load(x + tl.arange(0, N)))


@pytest.mark.parametrize(("element", "together"), [("f32", 4), ("bf16", 8), ("f64", 1), ("i32", 1)])
def test_neighbours_are_added_together_where_an_instruction_does(element: str, together: int):
    module = added.compile(f"*{element}:16", f"*{element}:16", 1024).module("hopper")
    (op,) = [op for op in module.walk() if isinstance(op, GlobalAtomic)]
    assert op.vector.value.data == together
    where = layout_of(op.value).coordinates[:, :together, 0]
    assert (np.diff(where, axis=1) == 1).all()


@tawa.jit
def says(x, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at)
    tl.device_print("begins")
    tl.device_print("sum and all", tl.sum(v, 0), v)
    tl.store(x + at, v)


def test_a_message_alone_is_said_by_one_thread():
    module = says.compile("*f32", 128).module("hopper")
    found = [op for op in module.walk() if isinstance(op, Print)]
    assert [(op.prefix.data, op.value is None) for op in found] == [
        ("begins", True), ("sum and all", False), ("sum and all", False)]  # fmt: skip
    assert [isinstance(op.parent_op(), OneThread) for op in found] == [True, False, False]
