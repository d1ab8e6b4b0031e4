"""Windows of tiles begin where their first element lies; texts take every register once."""

from __future__ import annotations

import re
from typing import Any, cast

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32, i8, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import SSAValue

from tawa.base.layout import REPLICA, Layout, Mode, accumulator
from tawa.hopper.dialect.assembly import InlineAssembly
from tawa.hopper.dialect.fragment import ReduceRegisters
from tawa.hopper.dialect.lanes import ShuffleAlong
from tawa.hopper.dialect.memory import Subtile
from tawa.hopper.dialect.text import Writer
from tawa.hopper.dialect.types import FragType, TileType
from tawa.hopper.passes.roundings import SeparateRoundings
from tawa.ir.elementwise import Map
from tawa.ir.scalars.assembly import Assembly


@pytest.mark.parametrize(
    "tile",
    [
        TileType.of(64, 256, f16, 128), TileType.of(64, 256, i8, 64), TileType.of(8, 64, f32, 32),
        TileType.of(12, 96, f16, 64, 16), TileType.of(64, 128, f16, 0), TileType.of(1, 96, f32, 0),
    ],
    ids=str,
)  # fmt: skip
def test_a_window_begins_at_its_first_element(tile: TileType) -> None:
    rows, columns = tile.extents
    step = 8 if tile.rows.data == 1 else tile.panel_columns
    source, row = Made(result_types=[tile]).results[0], Made(result_types=[i32]).results[0]
    for column in range(0, columns, step):
        window = Subtile(source, row, column, rows, step)
        window.verify()
        assert window.offset == int(tile.offsets(np.array(0), np.array(column)))


def sum_of(layout: Layout) -> tuple[list[list[int]], str]:
    """The registers of each row, and the text that adds them up."""
    operand = Made(result_types=[FragType.of(f32, layout)]).results[0]
    op, w = ReduceRegisters(operand, 1, "addf"), Writer()
    w.define(operand)
    op.cuda(w)
    return op.sources(), "\n".join(w.lines)


def chains_of(terms: int) -> int:
    """Four where there are enough, which four divides, else two, or one."""
    return 1 if terms <= 8 else 4 if terms % 4 == 0 else 2 if terms % 2 == 0 else 1


@pytest.mark.parametrize("columns", [8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 104, 128, 256])
def test_sums_of_scattered_registers(columns: int) -> None:
    """Each term once; those of a chain follow each other."""
    sources, text = sum_of(accumulator((64, columns), 4))
    count = chains_of(columns // 4)
    for terms, line in zip(sources, text.splitlines()[1:], strict=True):
        assert len(terms) == columns // 4
        read = [int(n) for n in re.findall(r"\[(\d+)\]", line.partition(" = ")[2])]
        assert read == [t for c in range(count) for t in terms[c::count]]


@pytest.mark.parametrize("terms", [1, 2, 7, 8, 9, 10, 11, 12, 14, 16, 18, 20, 32, 63])
@pytest.mark.parametrize("rows", [1, 2])
def test_sums_of_neighbours(terms: int, rows: int) -> None:
    """What the loop of several chains reads, step by step: each term once."""
    reg = (Mode(terms, 1, 1), Mode(rows, 0, 32))
    layout = Layout((32 * rows, terms), reg, (Mode(32, 0, 1),), (Mode(1, REPLICA, 0),))
    sources, text = sum_of(layout)
    if terms <= 8:
        assert "for" not in text
        return
    blocks = text.split("f32 part[")[1:]
    for own, block in zip(sources, blocks, strict=True):
        before, loop = block.split("#pragma")
        read = [int(n) for n in re.findall(r"v\w*\[(\d+)\]", before)]
        begin, end, step = map(int, re.findall(r"i = (\d+); i < (\d+); i \+= (\d+)", loop)[0])
        assert len(read) == begin == step == chains_of(terms)
        added = re.findall(r"v\w*\[(\d+) \+ \(i \+ (\d+)\) \* (\d+)\]", loop)
        for i in range(begin, end, step):
            read += [int(first) + (i + int(c)) * int(stride) for first, c, stride in added]
        assert sorted(read) == own
        last = re.findall(r"= (.*);", loop)[-1]
        assert re.findall(r"part\[(\d+)\]", last) == [str(c) for c in range(step)]


@pytest.mark.parametrize("pack", [1, 2, 4])
@pytest.mark.parametrize("registers", [1, 2, 3, 4, 6, 7, 8])
def test_assembly_of_several_registers(registers: int, pack: int) -> None:
    """Each register is taken once and none beyond the last; tests only where one could be."""
    layout = Layout((32, registers), (Mode(registers, 1, 1),), (Mode(32, 0, 1),),
                    (Mode(1, REPLICA, 0),))  # fmt: skip
    operand = Made(result_types=[FragType.of(i8, layout)]).results[0]
    assembly = Assembly("not.b32 $0, $1;", "=r,r", pack)
    op, w = InlineAssembly(assembly, [operand], [i8], layout, effect=False), Writer()
    w.define(operand)
    op.cuda(w)
    text = "\n".join(w.lines)
    name = re.findall(r"(\w+)\[\d+\];", text)[0]
    given = re.findall(r"put_bits\(\w+, \w+\[min\(i \+ (\d+), (\d+)\)\], (\d+)\)", text)
    assert given == [(str(k), str(registers - 1), str(k)) for k in range(pack)]
    taken = re.findall(rf"(if \(i \+ \d+ < \d+\) )?{name}\[i \+ (\d+)\] = ", text)
    assert f"for (int i = 0; i < {registers}; i += {pack})" in text
    tests = {f"if (i + {k} < {registers}) " if registers % pack else "" for k in range(pack)}
    assert {test for test, _ in taken} == tests
    written = [i + int(k) for i in range(0, registers, pack) for test, k in taken
               if not test or i + int(k) < registers]  # fmt: skip
    assert written == list(range(registers))


@pytest.mark.parametrize("function", ["mulf", "addf", "muli"])
def test_only_products_of_floats_are_rounded_by_themselves(function: str) -> None:
    kind = i32 if function == "muli" else f32
    value = Made(result_types=[kind]).results[0]
    module = ModuleOp([made := Map(function, [value, value])])
    SeparateRoundings().apply(module)
    assert made.function.data == ("mulf_rn" if function == "mulf" else function)


class Lanes:
    """Two warps' registers: each holds the number of its thread."""

    def __init__(self) -> None:
        self.registers = np.arange(64)[:, None] * np.array([1, 100])

    def fragment(self, value: SSAValue) -> np.ndarray:
        return self.registers

    def new_fragment(self, value: SSAValue, registers: np.ndarray) -> None:
        self.registers = registers


@pytest.mark.parametrize("distance", [-3, -1, 1, 2])
@pytest.mark.parametrize(("below", "extent"), [(1, 32), (1, 4), (2, 8), (4, 8), (8, 2), (16, 2)])
def test_lanes_further_along_a_digit(below: int, extent: int, distance: int) -> None:
    """Each digit of the lane's number alone changes, and stops at its ends."""
    layout = Layout((64, 2), (Mode(2, 1, 1),), (Mode(32, 0, 1),), (Mode(2, 0, 32),))
    operand = Made(result_types=[FragType.of(i32, layout)]).results[0]
    op, m = ShuffleAlong(operand, below, extent, distance), Lanes()
    op.verify()
    op.run(cast(Any, m))
    for thread, (got, _) in enumerate(m.registers.tolist()):
        digit = thread // below % extent
        wanted = min(max(digit - distance, 0), extent - 1)
        assert got == thread + (wanted - digit) * below
    assert (m.registers[:, 1] == 100 * m.registers[:, 0]).all()
