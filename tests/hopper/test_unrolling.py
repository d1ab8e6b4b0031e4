"""Loops over registers written out: the same statements, and the same machine code."""

from __future__ import annotations

import pytest

import tawa
import tawa.language as tl
from tawa.hopper.emit import emit
from tawa.hopper.unrolling import MANY, UNROLL, written_out
from tawa.runtime import sass
from tawa.runtime.nvrtc import compile_cuda


@tawa.jit
def sorted_sums(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.cumsum(tl.sort(tl.load(x + i)), 0))


def test_each_turn_becomes_a_line() -> None:
    lines = [
        "  #pragma unroll",
        "  for (int i = 0; i < 3; ++i) y[i] = f(x[i / 2], source_i[i], i);",
        "  #pragma unroll",
        "  for (int i = 0; i < 4; i += 2) round_pair(y[i], y[i + 1]);",
        "  #pragma unroll",
        "  for (int i = 0; i < 4; ++i) {",
        "    z[i] = y[i];",
        "  }",
        "  #pragma unroll 1",
        "  for (i32 v = 0; v < 20; ++v) {",
    ]
    texts, origins = written_out(lines, range(10), many=1)
    assert texts == [
        "  y[0] = f(x[0 / 2], source_i[0], 0);",
        "  y[1] = f(x[1 / 2], source_i[1], 1);",
        "  y[2] = f(x[2 / 2], source_i[2], 2);",
        "  round_pair(y[0], y[0 + 1]);",
        "  round_pair(y[2], y[2 + 1]);",
        *lines[4:],
    ]
    assert origins == [0, 0, 0, 2, 2, *range(4, 10)]
    assert written_out(lines, range(10)) == (lines, list(range(10)))


def opcodes(text: str) -> list[int]:
    (code,) = sass.disassemble(compile_cuda(text, "sm_90a").cubin).values()
    return [code.count(name) for name in ("SHFL", "LDS", "STS", "BAR", "FADD", "LDG", "STG")]


def test_the_machine_code_does_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sorted_sums.compile("*f32:16", "*f32:16", N=32).module("hopper")
    longer = emit(module)
    monkeypatch.setattr("tawa.hopper.emit.written_out", lambda *lines: lines)
    text = emit(module)
    assert text.count(UNROLL) >= MANY > longer.count(UNROLL)
    assert opcodes(longer) == opcodes(text)


def test_large_kernels_have_few_loops() -> None:
    text = emit(sorted_sums.compile("*f32:16", "*f32:16", N=1024).module("hopper"))
    assert text.count(UNROLL) < MANY


@pytest.mark.parametrize(("loops", "many", "written"), [(1, 2, False), (2, 2, True), (3, 2, True),
                                                        (0, 1, False), (1, 1, True)])  # fmt: skip
def test_so_many_loops_are_written_out(loops: int, many: int, written: bool) -> None:
    lines = ["  x();", *["#pragma unroll", "for (int i = 0; i < 2; ++i) f(i);"] * loops, "  y();"]
    texts, origins = written_out(lines, range(len(lines)), many)
    expected = ["  x();", *["f(0);", "f(1);"] * loops, "  y();"] if written else lines
    assert texts == expected
    assert len(origins) == len(texts)
    assert (origins[0], origins[-1]) == (0, len(lines) - 1)
    assert written_out(["#pragma unroll"], [1], 1) == (["#pragma unroll"], [1])
