"""LLVM IR of natives on the eight particles of a group, of which each works on whole vectors.

`gather_block` and `scatter_block` transpose a block of 8 x 8 words by three rounds of shuffles: one
instruction for two words, where one word after the other takes four.
"""

from __future__ import annotations

from tawa.cuppl.core.builder import FunctionBuilder
from tawa.cuppl.core.ir import Function, Return, Type
from tawa.cuppl.cpu.lane_text import MASK, WIDTH, WORDS
from tawa.cuppl.natives.control import ANCESTOR_MASK, FINISHED_FLAG, TOP_MASK
from tawa.cuppl.natives.rows import ROWS, WEIGHTS

__all__ = ["GROUP_NATIVES", "group_stubs", "group_text"]

GROUP_NATIVES = {
    "gather_block": 3, "scatter_block": 3, "expect_rows": 3, "own_rows": 3, "parents_rows": 4,
    "ready_lanes": 3, "settle_lanes": 5, "going_lanes": 2,
}  # fmt: skip
"""How many words each is given, besides the context."""
RETURNING = ("ready_lanes", "settle_lanes", "going_lanes")
FLOATS = f"<{WIDTH} x double>"
_ROUNDS = (
    (1, (0, 8, 2, 10, 4, 12, 6, 14), (1, 9, 3, 11, 5, 13, 7, 15)),
    (2, (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15)),
    (4, (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15)),
)
"""How far the two rows of a shuffle lie apart, and which words go to the first and the second."""


def group_stubs() -> list[Function]:
    """What the natives look like to those that call them."""
    stubs: list[Function] = []
    for name, count in GROUP_NATIVES.items():
        returning = name in RETURNING
        b = FunctionBuilder(name, (Type.I64,) * count, (Type.I64,) * returning)
        b.end(Return((b.const(0),) if returning else ()))
        stubs.append(b.finish())
    return stubs


def group_text() -> str:
    """The module that defines them."""
    functions = [
        _transposing("gather_block", True), _transposing("scatter_block", False), _expect(),
        _rows(), _ready(), _settle(), _going(),
    ]  # fmt: skip
    return "\n".join(line for lines in functions for line in lines)


def _head(name: str, *parameters: str) -> str:
    kind = "i64" if name in RETURNING else "void"
    given = "".join(f", i64 %{p}" for p in parameters)
    return f'define {kind} @"cuppl.{name}"(ptr %ctx{given}) nounwind {{'


def _splat(name: str, value: str) -> list[str]:
    return [
        f"  %{name}.one = insertelement {WORDS} poison, i64 {value}, i64 0",
        f"  %{name} = shufflevector {WORDS} %{name}.one, {WORDS} poison, "
        f"<{WIDTH} x i32> zeroinitializer",
    ]


def _vector(name: str, place: int, kind: str = WORDS) -> list[str]:
    """Load a vector, so many words from the stacks."""
    return [*_at(name, place), f"  %{name} = load {kind}, ptr %{name}.at, align 8"]


def _at(name: str, place: int) -> list[str]:
    return [
        f"  %{name}.word = inttoptr i64 %stacks to ptr",
        f"  %{name}.at = getelementptr i64, ptr %{name}.word, i64 {place}",
    ]


def _count(name: str) -> list[str]:
    """Return a mask as bits."""
    return [
        f"  %bits = bitcast {MASK} %{name} to i{WIDTH}",
        f"  %all = zext i{WIDTH} %bits to i64",
    ]


def _rows() -> list[str]:
    """`own_rows` and `parents_rows`: note the addresses of rows."""
    numbers = ", ".join(f"i64 {k}" for k in range(WIDTH))
    ends = [
        *_splat("w", "%width"),
        *_splat("s", "%start"),
        f"  %distance = mul {WORDS} %w, %number",
        f"  %rows = add {WORDS} %s, %distance",
        *_at("out", ROWS),
        f"  store {WORDS} %rows, ptr %out.at, align 8",
        "  ret void",
        "}",
    ]
    return [
        _head("own_rows", "stacks", "start", "width"),
        f"  %number = add {WORDS} zeroinitializer, <{numbers}>",
        *ends,
        _head("parents_rows", "stacks", "parents", "start", "width"),
        "  %list = inttoptr i64 %parents to ptr",
        f"  %number = load {WORDS}, ptr %list, align 8",
        *ends,
    ]


def _ready() -> list[str]:
    """A bit for each particle whose second word is `start` and whose stack has that top."""
    return [
        _head("ready_lanes", "stacks", "start", "top"),
        *_vector("first", 0),
        *_vector("second", WIDTH),
        *_splat("s", "%start"),
        *_splat("t", "%top"),
        f"  %height = and {WORDS} %first, splat (i64 {TOP_MASK})",
        f"  %waits = icmp eq {WORDS} %second, %s",
        f"  %high = icmp eq {WORDS} %height, %t",
        f"  %good = and {MASK} %waits, %high",
        *_count("good"),
        "  ret i64 %all",
        "}",
    ]


def _settle() -> list[str]:
    """The first two words of particles that ran; returns a bit for each that is done."""
    return [
        _head("settle_lanes", "stacks", "ready", "header", "top", "following"),
        *_vector("weight", WEIGHTS, FLOATS),
        *_vector("first", 0),
        *_at("second", WIDTH),
        *_splat("h", "%header"),
        *_splat("t", "%top"),
        *_splat("f", "%following"),
        f"  %lost = fcmp oeq {FLOATS} %weight, splat (double 0xFFF0000000000000)",
        f"  %is = fcmp ord {FLOATS} %weight, %weight",
        f"  %ancestor = and {WORDS} %first, splat (i64 {ANCESTOR_MASK})",
        f"  %height = select {MASK} %lost, {WORDS} %h, {WORDS} %t",
        f"  %word = or {WORDS} %ancestor, %height",
        f"  %next = select {MASK} %lost, {WORDS} splat (i64 {FINISHED_FLAG}), {WORDS} %f",
        f"  store {WORDS} %word, ptr %first.at, align 8",
        f"  store {WORDS} %next, ptr %second.at, align 8",
        *_count("is"),
        "  %done = and i64 %all, %ready",
        "  ret i64 %done",
        "}",
    ]


def _going() -> list[str]:
    """How many of some particles are to go on."""
    return [
        "declare i64 @llvm.ctpop.i64(i64)",
        _head("going_lanes", "stacks", "done"),
        *_vector("second", WIDTH),
        f"  %on = icmp sge {WORDS} %second, zeroinitializer",
        *_count("on"),
        "  %some = and i64 %all, %done",
        "  %count = call i64 @llvm.ctpop.i64(i64 %some)",
        "  ret i64 %count",
        "}",
    ]


def _expect() -> list[str]:
    """Of (address of numbers of rows, start of the rows, bytes of a row): load them soon."""
    lines = [
        "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)",
        _head("expect_rows", "numbers", "rows", "width"),
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


def _transposing(name: str, gather: bool) -> list[str]:
    """Of (addresses of rows, where words lie side by side, bytes from there and in each row)."""
    lines = [
        _head(name, "rows", "stacks", "block"),
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
