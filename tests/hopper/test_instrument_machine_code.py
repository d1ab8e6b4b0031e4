"""What timestamps cost in machine code: instructions of a loop's turn, registers, nothing else."""

from __future__ import annotations

import tawa.language as tl
from tawa.driver.compiled import Compiled
from tawa.kernels.gemm import Configuration, configuration, gemm
from tawa.runtime.sass import Loop, SassFunction, disassemble

A_POINT, A_RECORD = 2, 7
"""Instructions of a point (clock, store), and of a record besides: room, tag, advance, a move."""

A_TILE = 60
"""Instructions outside the loops of a role's turns: of each tile, and of the role."""


def compiled(config: Configuration, *, timeline: bool) -> Compiled:
    """The library's GEMM, both operands contiguous along K."""
    m, n, k = config.block_m, config.block_n, config.block_k
    return gemm.compile(
        *(f"desc<f16,{m}x{k}>", f"desc<f16,{n}x{k}>", f"desc<f16,{m}x{n}>"),
        *("i32:16", "i32:16", "i32:16"),
        TRANSPOSE_A=False,
        TRANSPOSE_B=True,
        BLOCK_M=m,
        BLOCK_N=n,
        BLOCK_K=k,
        GROUP_M=config.group_m,
        ACCUMULATOR=tl.float32,
        timeline=timeline,
        **config.options,
    )


def inner_loop(function: SassFunction, opcode: str) -> Loop:
    """The smallest loop with two of an instruction (the assembler makes loops around copies)."""
    found = [loop for loop in function.loops if sum(i.is_a(opcode) for i in loop.body) > 1]
    return min(found, key=lambda loop: len(loop.body))


def check_cost(config: Configuration) -> None:
    plain, recording = (compiled(config, timeline=flag) for flag in (False, True))
    assert recording.findings == plain.findings == ()
    usages = [c.assembled.functions[0] for c in (plain, recording)]
    assert usages[1].registers <= usages[0].registers
    codes = [next(iter(disassemble(c.cubin).values())) for c in (plain, recording)]
    for opcode, role in (("HGMMA", "math"), ("UTMALDG", "load")):
        before, after = (inner_loop(code, opcode) for code in codes)
        points = sum("SR_CLOCKLO" in i.text for i in after.body)
        added = len(after.body) - len(before.body)
        assert points == 2, role
        assert added <= A_POINT * points + A_RECORD, role
        assert not any(i.is_a("LDL") or i.is_a("STL") for i in after.body)
        clocks = [number for number, i in enumerate(after.body) if "SR_CLOCKLO" in i.text]
        products = [number for number, i in enumerate(after.body) if i.is_a("HGMMA")]
        assert not any(products[0] < at < products[-1] for at in clocks if products)
    longest = [max(len(loop.body) for loop in code.loops) for code in codes]
    turns = [len(inner_loop(code, "HGMMA").body) for code in codes]
    assert longest[1] - turns[1] <= longest[0] - turns[0] + A_TILE


def test_large_k():
    """256 x 200 tiles: the loading role has 24 registers."""
    check_cost(configuration(8192, 8192, 8192))


def test_small_k():
    """Consumers that take turns."""
    check_cost(configuration(8192, 8192, 512))
