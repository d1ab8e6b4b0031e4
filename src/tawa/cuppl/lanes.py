"""Eight particles at once: LLVM IR of a program over vectors.

Programs whose control is the same for all particles, but for short detours, need not run one
particle after the other: what varies is kept in vectors of eight. A lane whose run fails, or ends
early, is *lost*: it takes part no more, and its particle runs again alone, from its beginning,
which finds the same draws and says what is wrong. What can't be done together (`Unsuitable`) makes
the whole program run alone.

The bits of all results are those of `llvm.py`: each operation is the same, on more numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .ir import CONTEXT_FIELDS, Call, Function, Program, Table, Type
from .lane_function import LaneFunction
from .lane_text import HEADER, MASK, WIDTH, lane_type
from .llvm import table_text
from .lowering.divergence import Divergence, Flags, Unsuitable, analyse

__all__ = ["lanes_text"]

MOST_INSTRUCTIONS = 3000
"""Of all functions together: longer programs would take too long to compile twice."""

Key = tuple[str, Flags, bool]


def lanes_text(program: Program, main: str) -> str | None:
    """LLVM IR that defines `run_lanes`, or None if lanes can't run the program."""
    lanes = _Lanes(program)
    try:
        return lanes.text(main)
    except Unsuitable:
        return None


@dataclass(slots=True)
class _Lanes:
    """A program's functions, for each way in which they are called."""

    program: Program
    found: dict[Key, Divergence | None] = field(default_factory=dict[Key, Divergence | None])
    """None while a function is looked at: it calls itself if it is met again."""
    wanted: list[Key] = field(default_factory=list[Key])
    """What calls that are emitted need."""
    size: int = 0

    def look(self, key: Key) -> Divergence:
        """What varies in a function. Raises Unsuitable."""
        if key not in self.found:
            self.found[key] = None
            name, flags, partial = key
            function = self.program.functions[name]
            self.size += sum(len(b.instructions) for b in function.blocks.values())
            if self.size > MOST_INSTRUCTIONS:
                raise Unsuitable("too long")
            self.found[key] = analyse(function, flags, partial, self.results)
        found = self.found[key]
        if found is None:
            raise Unsuitable("recursion")
        return found

    def results(self, call: Call, flags: Flags, partial: bool) -> Flags:
        """Which results of a call vary."""
        return self.look((call.function, flags, partial)).results

    def callee(self, call: Call, flags: Flags, partial: bool) -> tuple[str, Flags]:
        """The symbol to call, and which results vary."""
        key = (call.function, flags, partial)
        if key not in self.wanted:
            self.wanted.append(key)
        return f'@"lanes.{self.wanted.index(key)}.{call.function}"', self.look(key).results

    def text(self, main: str) -> str:
        """All that `run_lanes` needs."""
        symbol, results = self.callee(Call((), main, ()), (), False)
        parts = [_entry(self.program.functions[main], symbol, results)]
        tables: dict[tuple[float, ...], None] = {}
        for number, key in enumerate(self.wanted):  # which grows meanwhile
            name, flags, partial = key
            function = self.program.functions[name]
            emitter = LaneFunction(function, self.look(key), flags, partial, self.callee)
            parts.append(emitter.text(f'@"lanes.{number}.{name}"'))
            tables.update(dict.fromkeys(_tables(function)))
        return "\n".join([HEADER, *(table_text(t) for t in tables), *parts])


def _tables(function: Function) -> list[tuple[float, ...]]:
    items = (item for block in function.blocks.values() for item in block.instructions)
    return [item.values for item in items if isinstance(item, Table)]


def _entry(main: Function, symbol: str, flags: Flags) -> str:
    """`run_lanes`: a run of all lanes, whose results and weights are stored but for lost ones."""
    number, whole = lane_type(Type.F64, True), lane_type(Type.I64, True)
    types = [lane_type(t, flag) for t, flag in zip(main.results, flags, strict=True)]
    kind = "{ " + ", ".join(["i1", *types]) + " }"
    lines = [
        'define i64 @"cuppl.run_lanes"(ptr %ctx, i64 %out, i64 %stride, i64 %logw) {',
        f"  %weight = alloca {number}",
        f"  %spare = alloca {whole}",
        f"  %lost = alloca {MASK}",
        f"  store {number} zeroinitializer, ptr %weight",
        f"  store {MASK} zeroinitializer, ptr %lost",
        f"  %all = call {kind} {symbol}(ptr %ctx, ptr %weight, ptr %spare, ptr %lost, "
        f"{MASK} splat (i1 true))",
        f"  %stopped = extractvalue {kind} %all, 0",
        "  br i1 %stopped, label %done, label %store",
        "store:",
        f"  %field = getelementptr i64, ptr %ctx, i64 {list(CONTEXT_FIELDS).index('particle')}",
        "  %first = load i64, ptr %field",
        "  %bytes = shl i64 %first, 3",
        "  %rows = add i64 %out, %bytes",
        f"  %l = load {MASK}, ptr %lost",
    ]
    for row, (type_, flag) in enumerate(zip(main.results, flags, strict=True)):
        lines += _row(row, type_, flag, kind)
    lines += [
        f"  %w = load {number}, ptr %weight",
        f"  %kept = select {MASK} %l, {number} splat (double 0x7FF8000000000000), {number} %w",
        "  %own = add i64 %logw, %bytes",
        "  %where = inttoptr i64 %own to ptr",
        f"  store {number} %kept, ptr %where, align 8",
        "  br label %done",
        "done:",
        "  ret i64 0",
        "}",
    ]
    return "\n".join(lines)


def _row(row: int, type_: Type, varies: bool, kind: str) -> list[str]:
    """Store one result of all lanes."""
    wide, one = lane_type(type_, True), lane_type(type_, False)
    lines = [f"  %v{row} = extractvalue {kind} %all, {row + 1}"]
    value = f"%v{row}"
    if not varies:
        lines += [
            f"  %i{row} = insertelement {wide} poison, {one} {value}, i64 0",
            f"  %s{row} = shufflevector {wide} %i{row}, {wide} poison, "
            f"<{WIDTH} x i32> zeroinitializer",
        ]
        value = f"%s{row}"
    if type_ is Type.BOOL:
        wide = lane_type(Type.I64, True)
        lines.append(f"  %x{row} = zext {MASK} {value} to {wide}")
        value = f"%x{row}"
    return [
        *lines,
        f"  %k{row} = select {MASK} %l, {wide} zeroinitializer, {wide} {value}",
        f"  %n{row} = mul i64 %stride, {8 * row}",
        f"  %a{row} = add i64 %rows, %n{row}",
        f"  %p{row} = inttoptr i64 %a{row} to ptr",
        f"  store {wide} %k{row}, ptr %p{row}, align 8",
    ]
