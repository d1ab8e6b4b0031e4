"""LLVM IR of natives that put eight words of eight rows side by side, and back.

They transpose a block of 8 x 8 words by three rounds of shuffles: one instruction for two words,
where one word after the other takes four.
"""

from __future__ import annotations

from tawa.cuppl.core.builder import FunctionBuilder
from tawa.cuppl.core.ir import Function, Return, Type
from tawa.cuppl.cpu.lane_text import WIDTH, WORDS

__all__ = ["TRANSPOSING", "transposing_stubs", "transposing_text"]

TRANSPOSING = ("gather_block", "scatter_block", "expect_rows")
_ROUNDS = (
    (1, (0, 8, 2, 10, 4, 12, 6, 14), (1, 9, 3, 11, 5, 13, 7, 15)),
    (2, (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15)),
    (4, (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15)),
)
"""How far the two rows of a shuffle lie apart, and which words go to the first and the second."""


def transposing_stubs() -> list[Function]:
    """What the natives look like to those that call them."""
    stubs: list[Function] = []
    for name in TRANSPOSING:
        b = FunctionBuilder(name, (Type.I64,) * 3, ())
        b.end(Return(()))
        stubs.append(b.finish())
    return stubs


def transposing_text() -> str:
    """The module that defines them."""
    functions = [_function("gather_block", True), _function("scatter_block", False), _expect()]
    return "\n".join(line for lines in functions for line in lines)


def _expect() -> list[str]:
    """Of (address of numbers of rows, start of the rows, bytes of a row): load them soon."""
    lines = [
        "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)",
        'define void @"cuppl.expect_rows"(ptr %ctx, i64 %numbers, i64 %rows, i64 %width) {',
        "  %list = inttoptr i64 %numbers to ptr",
    ]
    for k in range(WIDTH):
        lines += [
            f"  %entry{k} = getelementptr i64, ptr %list, i64 {k}",
            f"  %number{k} = load i64, ptr %entry{k}, align 8",
            f"  %distance{k} = mul i64 %number{k}, %width",
            f"  %at{k} = add i64 %rows, %distance{k}",
            f"  %row{k} = inttoptr i64 %at{k} to ptr",
            f"  %next{k} = getelementptr i8, ptr %row{k}, i64 64",
            f"  call void @llvm.prefetch.p0(ptr %row{k}, i32 0, i32 3, i32 1)",
            f"  call void @llvm.prefetch.p0(ptr %next{k}, i32 0, i32 3, i32 1)",
        ]
    return [*lines, "  ret void", "}"]


def _function(name: str, gather: bool) -> list[str]:
    """Of (addresses of rows, where words lie side by side, bytes from there and in each row)."""
    lines = [
        f'define void @"cuppl.{name}"(ptr %ctx, i64 %rows, i64 %stacks, i64 %block) nounwind {{',
        "  %list = inttoptr i64 %rows to ptr",
        f"  %distance = mul i64 %block, {WIDTH}",
        "  %start = add i64 %stacks, %distance",
        "  %together = inttoptr i64 %start to ptr",
    ]
    for k in range(WIDTH):
        lines += [
            f"  %entry{k} = getelementptr i64, ptr %list, i64 {k}",
            f"  %row{k} = load i64, ptr %entry{k}, align 8",
            f"  %at{k} = add i64 %row{k}, %block",
            f"  %apart{k} = inttoptr i64 %at{k} to ptr",
            f"  %side{k} = getelementptr {WORDS}, ptr %together, i64 {k}",
        ]
    source, target = ("apart", "side") if gather else ("side", "apart")
    lines += [f"  %v0.{k} = load {WORDS}, ptr %{source}{k}, align 8" for k in range(WIDTH)]
    for turn, (apart, first, second) in enumerate(_ROUNDS):
        for k in range(WIDTH):
            if k & apart == 0:
                for to, chosen in ((k, first), (k + apart, second)):
                    mask = ", ".join(f"i32 {c}" for c in chosen)
                    lines.append(
                        f"  %v{turn + 1}.{to} = shufflevector {WORDS} %v{turn}.{k}, "
                        f"{WORDS} %v{turn}.{k + apart}, <{WIDTH} x i32> <{mask}>"
                    )
    lines += [f"  store {WORDS} %v3.{k}, ptr %{target}{k}, align 8" for k in range(WIDTH)]
    return [*lines, "  ret void", "}"]
