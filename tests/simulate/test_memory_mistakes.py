"""What the checker finds in how programs share memory: each mistake, and nothing in right ones."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from memory_mistakes import MISTAKES, PROGRAMS, RIGHT, Mistake

import tawa
import tawa.language as tl
from tawa.base.errors import TawaError
from tawa.simulate.check.levels import tile_arguments
from tawa.simulate.check.memory import MemoryReport, check_memory
from tawa.simulate.interpret.launch import arrays_of


def checked(
    kernel: Any, args: Sequence[Any], grid: tuple[int, ...] = (PROGRAMS,), empty: Sequence[int] = ()
) -> MemoryReport:
    module = kernel.compile(*args).module("tile")
    named = dict(zip(kernel.arg_names, args, strict=True))
    given = [named[name] for name in tile_arguments(module)]
    unwritten = [
        np.full(array.nbytes, n in empty) if n in empty else None
        for n, array in enumerate(arrays_of(given))
    ]
    return check_memory(module, grid, given, unwritten=unwritten)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.kernel.__name__)
def test_a_mistake_is_found_and_its_lines_are_named(mistake: Mistake):
    with pytest.raises(TawaError) as raised:
        checked(mistake.kernel, mistake.args(), mistake.grid, mistake.empty)
    error = raised.value
    assert type(error).__name__ == mistake.error
    lines, first = inspect.getsourcelines(mistake.kernel.fn)
    assert error.span is not None
    assert mistake.line in lines[error.span.line - first]
    if mistake.earlier:
        (note,) = error.notes
        assert note.span is not None
        assert mistake.earlier in lines[note.span.line - first]


@pytest.mark.parametrize("right", RIGHT, ids=lambda r: r[0].__name__)
def test_programs_that_are_ordered_are_left_alone(right: Any):
    kernel, args, empty = right
    report = checked(kernel, args(), empty=empty)
    assert report.watch.handovers >= PROGRAMS - 1
    assert report.watch.forgotten == 0
    assert "no conflict between programs" in report.render()


def test_arguments_that_are_one_array_share_what_is_remembered():
    x = np.zeros(64, np.float32)
    kernel = next(m.kernel for m in MISTAKES if m.kernel.__name__ == "blocks_overlap_by_one")
    with pytest.raises(TawaError, match="nothing orders the two"):
        checked(kernel, [x, x, 16])


@tawa.jit
def in_the_order_of_arrival(count, out, N: tl.constexpr):
    place = tl.atomic_add(count, 1)
    tl.store(out + place, tl.program_id(0))


@pytest.mark.parametrize("programs", [2, 3, 8])
def test_what_depends_on_the_order_of_programs_is_named(programs: int):
    out = np.zeros(8, np.int32)
    report = checked(in_the_order_of_arrival, [np.zeros(1, np.int32), out, 8], (programs,))
    assert out[:programs].tolist() == list(range(programs))
    assert report.varying == ("out",)
    assert "what `out` holds depends on who comes first" in report.render()


def test_one_program_has_one_order():
    given = [np.zeros(1, np.int32), np.zeros(8, np.int32), 8]
    report = checked(in_the_order_of_arrival, given, (1,))
    assert (report.varying, report.orders) == ((), 1)
    assert "orders of them" not in report.render()


@tawa.jit
def read_by_all(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + tl.program_id(0) * N + at, tl.load(x + at))


@tawa.jit
def read_by_all_and_written_by_the_last(x, N: tl.constexpr):
    at = tl.arange(0, N)
    values = tl.load(x + at)
    tl.store(x + at, values, mask=at < tl.program_id(0) - 39)


def test_readers_beyond_those_remembered_hide_nothing_where_nobody_synchronises():
    report = checked(read_by_all, [np.zeros(8, np.float32), np.zeros(320, np.float32), 8], (40,))
    assert report.watch.forgotten > 0
    assert "not covered: at" not in report.render()
    with pytest.raises(TawaError, match="nothing orders the two"):
        checked(read_by_all_and_written_by_the_last, [np.zeros(8, np.float32), 8], (41,))
