"""Eight particles at once: LLVM IR of a program over vectors.

Programs whose control is the same for all particles, but for short detours, need not run one
particle after the other: what varies is kept in vectors of eight. A lane whose run fails, or whose
weight becomes 0, is *lost*: it takes part no more. One that failed runs again alone, from its
beginning, which finds the same draws and says what is wrong. What can't be done together
(`Unsuitable`) makes the whole program run alone.

The bits of all results are those of `llvm.py`: each operation is the same, on more numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from tawa.cuppl.core.ir import CONTEXT_FIELDS, Call, Function, Program, Table, Type
from tawa.cuppl.cpu.lane_function import LaneFunction
from tawa.cuppl.cpu.lane_text import HEADER, MASK, WIDTH, WORDS, lane_type
from tawa.cuppl.cpu.llvm import stores_results, table_text
from tawa.cuppl.cpu.units import worth_copying
from tawa.cuppl.lowering.divergence import Divergence, Flags, Unsuitable, analyse, varies
from tawa.cuppl.lowering.frames import SEGMENT
from tawa.cuppl.natives.control import NOBODY
from tawa.cuppl.natives.rows import TOP_OUT, WEIGHTS
from tawa.cuppl.translation.registry import NATIVES, OUTLINED

__all__ = ["LaneUnit", "lanes_units"]

MOST_INSTRUCTIONS = 3000
"""Of all functions together: longer programs would take too long to compile twice."""

LONG = 40
"""Instructions, with what is compiled into it, from which a native is a unit of its own."""

Key = tuple[str, Flags, bool]


def lanes_units(program: Program, main: str, fields: frozenset[str]) -> list[LaneUnit]:
    """The units that define `run_lanes`: the first is the program's own, natives follow.

    If `main` is a segment, they define `run_segment`. None of them if lanes can't run the program.
    `fields` of the context differ between lanes.
    """
    lanes = _Lanes(program, fields)
    root: Key = (main, (False,) * len(program.functions[main].params), False)
    try:
        found = lanes.look(root)
    except Unsuitable:
        return []
    if main == SEGMENT and any(found.results):
        return []
    return lanes.units(root)


@dataclass(slots=True)
class LaneUnit:
    """What is compiled together. A native's text is the same in every program: it has a name."""

    name: str
    text: Callable[[], str]


@dataclass(slots=True)
class _Lanes:
    """A program's functions, for each way in which they are called."""

    program: Program
    fields: frozenset[str]
    found: dict[Key, Divergence | None] = field(default_factory=dict[Key, Divergence | None])
    """None while a function is looked at: it calls itself if it is met again."""
    size: int = 0
    called: dict[Key, list[Key]] = field(default_factory=dict[Key, list[Key]])
    lengths: dict[Key, int] = field(default_factory=dict[Key, int])

    def look(self, key: Key) -> Divergence:
        """What varies in a function. Raises Unsuitable."""
        if key not in self.found:
            self.found[key] = None
            name, flags, some = key
            function = self.program.functions[name]
            self.size += function.size()
            if stores_results(function):
                raise Unsuitable("many results")
            if self.size > MOST_INSTRUCTIONS:
                raise Unsuitable("too long")
            stacks = function.params[0] if name == SEGMENT else None
            self.found[key] = analyse(function, flags, some, self.fields, self.results, stacks)
        found = self.found[key]
        if found is None:
            raise Unsuitable("recursion")
        return found

    def results(self, call: Call, flags: Flags, partial: bool) -> Flags:
        """Which results of a call vary."""
        return self.look((call.function, flags, partial)).results

    def callees(self, key: Key) -> list[Key]:
        """What a function calls, and how; once for each call."""
        if key not in self.called:
            self.called[key] = self.calls(key)
        return self.called[key]

    def calls(self, key: Key) -> list[Key]:
        """What is found in a function's text."""
        name, _, some = key
        found = self.look(key)
        inside = {b for region in found.regions.values() for b in region.blocks}
        ways = [(n, some) for n in found.together] + [(n, True) for n in sorted(inside)]
        return [
            (item.function, varies(found, item.args), part)
            for block, part in ways
            for item in self.program.functions[name].blocks[block].instructions
            if isinstance(item, Call)
        ]

    def length(self, key: Key) -> int:
        """Instructions of a function and of what is compiled into it."""
        if key not in self.lengths:
            called = [k for k in set(self.callees(key)) if not self.apart(k)]
            own = self.program.functions[key[0]].size()
            self.lengths[key] = own + sum(self.length(k) for k in called)
        return self.lengths[key]

    def apart(self, key: Key) -> bool:
        """Whether a function is a unit of its own."""
        name = key[0]
        return name in NATIVES and (name in OUTLINED or self.length(key) > LONG)

    def units(self, main: Key) -> list[LaneUnit]:
        """The program's own functions, and the natives that are apart."""
        roots: list[Key] = [main]
        found: list[LaneUnit] = []
        for root in roots:  # which grows meanwhile
            inside, outside = self.closure(root)
            roots += [key for key in outside if key not in roots]
            name = self.symbol(root) if found else ""
            found.append(LaneUnit(name, partial(self.text, root, inside, outside)))
        return found

    def closure(self, root: Key) -> tuple[list[Key], list[Key]]:
        """The functions that a unit defines, and those that it declares."""
        inside, outside = [root], list[Key]()
        for key in inside:  # which grows meanwhile
            for called in self.callees(key):
                place = outside if self.apart(called) else inside
                if called not in place:
                    place.append(called)
        return inside, outside

    def text(self, root: Key, inside: list[Key], outside: list[Key]) -> str:
        """The text of a unit."""
        tables: dict[tuple[float, ...], None] = {}
        parts: list[str] = []
        if root[0] not in NATIVES:
            main = self.program.functions[root[0]]
            flags = self.look(root).results
            entry = _segment_entry if main.name == SEGMENT else _entry
            parts.append(entry(main, self.symbol(root), flags))
        sizes = {key: self.program.functions[key[0]].size() for key in inside}
        copied = worth_copying(sizes, {key: self.callees(key) for key in inside}, kept={root})
        for key in inside:
            function = self.program.functions[key[0]]
            text = self.writer(key).text(self.symbol(key), key is root, key in copied)
            parts.append(text)
            tables.update(dict.fromkeys(_tables(function)))
        parts += [self.writer(key).declaration(self.symbol(key)) for key in outside]
        return "\n".join([HEADER, *(table_text(t) for t in tables), *parts])

    def writer(self, key: Key) -> LaneFunction:
        """What writes a function."""
        name, flags, some = key

        def callee(call: Call, given: Flags, part: bool) -> tuple[str, Flags]:
            other = (call.function, given, part)
            return self.symbol(other), self.look(other).results

        return LaneFunction(self.program.functions[name], self.look(key), flags, some, callee)

    def symbol(self, key: Key) -> str:
        """The name of a function for one way of calling it."""
        name, flags, some = key
        kinds = "".join("v" if flag else "s" for flag in flags)
        how = "apart" if "draw" in self.fields else "together"
        return f'@"{how}.{name}.{kinds}{".some" if some else ""}"'


def _tables(function: Function) -> list[tuple[float, ...]]:
    items = (item for block in function.blocks.values() for item in block.instructions)
    return [item.values for item in items if isinstance(item, Table)]


_FIELDS = (
    f"  %weight = alloca {lane_type(Type.F64, True)}",
    f"  %spare = alloca {WORDS}",
    f"  %draw = alloca {WORDS}",
    f"  %lost = alloca {MASK}",
    f"  store {WORDS} zeroinitializer, ptr %draw",
    f"  store {MASK} zeroinitializer, ptr %lost",
)
"""What each lane has of its own."""


_WEIGHTS = (
    f"  %w = load {lane_type(Type.F64, True)}, ptr %weight",
    f"  %some = fcmp une {lane_type(Type.F64, True)} %w, splat (double 0xFFF0000000000000)",
    f"  %alone = and {MASK} %l, %some",
    f"  %kept = select {MASK} %alone, {lane_type(Type.F64, True)} splat "
    f"(double 0x7FF8000000000000), {lane_type(Type.F64, True)} %w",
)
"""The weights to keep: NaN of a lane that has to run alone."""


def _segment_entry(_main: Function, symbol: str, _flags: Flags) -> str:
    """`run_segment`: all lanes from one suspension to the next.

    The row before their stacks has the weights; a lost lane's is NaN in the end, unless it became
    0. The new top is stored two rows before.
    """
    number, kind = lane_type(Type.F64, True), "{ i1, i64, i64 }"
    return "\n".join([
        'define i64 @"cuppl.run_segment"(ptr %ctx, i64 %stacks, i64 %top, i64 %limit) {',
        *_FIELDS,
        "  %first = inttoptr i64 %stacks to ptr",
        f"  %own = getelementptr i64, ptr %first, i64 {WEIGHTS}",
        f"  %new = getelementptr i64, ptr %first, i64 {TOP_OUT}",
        f"  %before = load {number}, ptr %own, align 8",
        f"  store {number} %before, ptr %weight",
        f"  %all = call {kind} {symbol}(ptr %ctx, ptr %weight, ptr %spare, ptr %draw, ptr %lost, "
        f"{MASK} splat (i1 true), i64 %stacks, i64 %top, i64 %limit)",
        f"  %l = load {MASK}, ptr %lost",
        *_WEIGHTS,
        f"  store {number} %kept, ptr %own, align 8",
        f"  %stopped = extractvalue {kind} %all, 0",
        "  br i1 %stopped, label %none, label %some_left",
        "some_left:",
        f"  %height = extractvalue {kind} %all, 2",
        "  store i64 %height, ptr %new, align 8",
        f"  %outcome = extractvalue {kind} %all, 1",
        "  ret i64 %outcome",
        "none:",
        f"  ret i64 {NOBODY}",
        "}",
    ])  # fmt: skip


def _entry(main: Function, symbol: str, flags: Flags) -> str:
    """`run_lanes`: a run of all lanes; results and weights are stored, but for lost lanes.

    A lane whose weight became 0 is lost too, but there is nothing more to find out about it.
    """
    number = lane_type(Type.F64, True)
    types = [lane_type(t, flag) for t, flag in zip(main.results, flags, strict=True)]
    kind = "{ " + ", ".join(["i1", *types]) + " }"
    lines = [
        'define i64 @"cuppl.run_lanes"(ptr %ctx, i64 %out, i64 %stride, i64 %logw) {',
        *_FIELDS,
        f"  store {number} zeroinitializer, ptr %weight",
        f"  %all = call {kind} {symbol}(ptr %ctx, ptr %weight, ptr %spare, ptr %draw, ptr %lost, "
        f"{MASK} splat (i1 true))",
        f"  %field = getelementptr i64, ptr %ctx, i64 {list(CONTEXT_FIELDS).index('particle')}",
        "  %first = load i64, ptr %field",
        "  %bytes = shl i64 %first, 3",
        "  %rows = add i64 %out, %bytes",
        f"  %l = load {MASK}, ptr %lost",
        f"  %stopped = extractvalue {kind} %all, 0",
        "  br i1 %stopped, label %weigh, label %store",
        "store:",
    ]
    for row, (type_, flag) in enumerate(zip(main.results, flags, strict=True)):
        lines += _row(row, type_, flag, kind)
    lines += [
        "  br label %weigh",
        "weigh:",
        *_WEIGHTS,
        "  %own = add i64 %logw, %bytes",
        "  %where = inttoptr i64 %own to ptr",
        f"  store {number} %kept, ptr %where, align 8",
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
