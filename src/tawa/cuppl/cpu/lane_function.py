"""LLVM IR of one function for eight lanes: scalars where they agree, vectors where they differ.

Control that differs between lanes is made straight (see `lowering/divergence.py`): a block of a
region runs if any lane is to, and what it sets is set in those lanes only.
"""

from __future__ import annotations

from collections.abc import Callable

from tawa.cuppl.core.ir import (
    CONTEXT_FIELDS,
    Alloc,
    Block,
    Branch,
    Call,
    Const,
    Copy,
    Fail,
    Function,
    Get,
    Instruction,
    Jump,
    Load,
    Op,
    Reg,
    Return,
    Set,
    Store,
    Switch,
    Table,
    Terminator,
    Type,
)
from tawa.cuppl.core.scalars import SCALARS
from tawa.cuppl.cpu.lane_text import (
    DIVISIONS,
    MASK,
    TYPES,
    VECTORS,
    WIDTH,
    WORDS,
    LaneText,
    lane_type,
)
from tawa.cuppl.cpu.llvm import FIELD, WORD, literal, register_name, table_name
from tawa.cuppl.lowering.dataflow import in_memory
from tawa.cuppl.lowering.divergence import Divergence, Flags, Region

__all__ = ["LaneFunction"]

_FIELD = {name: index for index, name in enumerate(CONTEXT_FIELDS)}
_STATE = ("ctx", "weight", "spare", "draw", "lost")
"""Pointers that each function gets: to the context, to vectors of its fields and of lost lanes."""


def _light(block: Block) -> bool:
    """Whether a block may as well run for no lane at all."""
    return (
        len(block.instructions) <= 4
        and isinstance(block.terminator, Jump)
        and all(
            isinstance(item, Const | Copy) or (isinstance(item, Op) and item.name not in DIVISIONS)
            for item in block.instructions
        )
    )


class LaneFunction(LaneText):
    """Text of one function; `given` says which parameters vary.

    `partial`: not all lanes may have come here. `callee` gives the symbol of a call, and which of
    its results vary.
    """

    def __init__(
        self,
        function: Function,
        found: Divergence,
        given: Flags,
        partial: bool,
        callee: Callable[[Call, Flags, bool], tuple[str, Flags]],
    ) -> None:
        super().__init__(function, found)
        self.given = given
        self.partial = partial
        self.callee = callee

    def declaration(self, symbol: str) -> str:
        """Of a function that another unit defines."""
        given = zip(self.function.params, self.given, strict=True)
        types = ["ptr"] * len(_STATE) + [MASK, *(lane_type(p.type, f) for p, f in given)]
        return f"declare {self.result_kind()} {symbol}({', '.join(types)}) nounwind"

    def text(self, symbol: str, public: bool, copied: bool) -> str:
        """The definition; if it is `copied`, each caller gets its own."""
        function = self.function
        for reg in in_memory(function):
            self.slots[reg] = self.alloca(f"r.{register_name(reg)}", self.kind(reg))
        given = list(zip(function.params, self.given, strict=True))
        params = [f"{lane_type(p.type, f)} %{register_name(p)}.in" for p, f in given]
        for index, flag in enumerate(self.found.results):
            self.alloca(f"result.{index}", lane_type(function.results[index], flag))
        for reg, flag in given:
            self.write(reg, f"%{register_name(reg)}.in", flag)
        for block in function.blocks.values():
            for item in block.instructions:
                if isinstance(item, Const) and item.dst not in self.slots:
                    self.constants[item.dst] = literal(item.value, item.dst.type)
        self.emit(f"br label %b.{next(iter(function.blocks))}")
        for name in self.found.together:
            self.block(function.blocks[name])
        self.leave()
        state = [f"ptr noalias align 8 %{name}" for name in _STATE]
        head = f"define {'' if public else 'internal '}{self.result_kind()} {symbol}("
        head += ", ".join([*state, f"{MASK} %given", *params])
        head += ") nounwind alwaysinline {" if copied else ") nounwind {"
        return "\n".join([head, *self.allocas, *self.lines, "}"])

    def leave(self) -> None:
        """The blocks in which the function ends."""
        kind = self.result_kind()
        self.lines.append("leave:")
        whole = self.fresh()
        self.emit(f"{whole} = insertvalue {kind} poison, i1 false, 0")
        for index, flag in enumerate(self.found.results):
            type_ = lane_type(self.function.results[index], flag)
            value, new = self.fresh(), self.fresh()
            self.emit(f"{value} = load {type_}, ptr %result.{index}")
            self.emit(f"{new} = insertvalue {kind} {whole}, {type_} {value}, {index + 1}")
            whole = new
        self.emit(f"ret {kind} {whole}")
        self.lines.append("stop:")
        stopped = self.fresh()
        self.emit(f"{stopped} = insertvalue {kind} poison, i1 true, 0")
        self.emit(f"ret {kind} {stopped}")

    def result_kind(self) -> str:
        """The LLVM type of what the function returns: whether all lanes stopped, and results."""
        flags = zip(self.function.results, self.found.results, strict=True)
        return "{ " + ", ".join(["i1", *(lane_type(t, flag) for t, flag in flags)]) + " }"

    # Control.

    def block(self, block: Block) -> None:
        """A block that all lanes come to together."""
        self.lines.append(f"b.{block.name}:")
        for item in block.instructions:
            self.instruction(item, "stop")
        region = self.found.regions.get(block.name)
        if region is not None:
            self.region(block, region)
        else:
            self.terminator(block.terminator)

    def terminator(self, item: Terminator | None) -> None:
        """Control that all lanes follow."""
        match item:
            case Jump(target):
                self.emit(f"br label %b.{target}")
            case Branch(condition, then, other):
                self.emit(f"br i1 {self.read(condition)}, label %b.{then}, label %b.{other}")
            case Switch(value, cases, default):
                arms = " ".join(f"i64 {k}, label %b.{v}" for k, v in cases.items())
                self.emit(f"switch i64 {self.read(value)}, label %b.{default} [{arms}]")
            case Return(values):
                self.results(values)
                self.emit("br label %leave")
            case Fail():
                self.lose(self.lanes())
                self.emit("br label %stop")
            case None:
                raise ValueError(f"a block of {self.function.name} has no terminator")

    def lose(self, lanes: str) -> None:
        """Leave some lanes to run again alone."""
        old = self.value(f"load {MASK}, ptr %lost")
        new = self.value(f"or {MASK} {old}, {lanes}")
        self.emit(f"store {MASK} {new}, ptr %lost")

    def results(self, values: tuple[Reg, ...]) -> None:
        """What a return gives back."""
        for index, (reg, flag) in enumerate(zip(values, self.found.results, strict=True)):
            kind = lane_type(reg.type, flag)
            self.set(f"%result.{index}", kind, self.vector(reg) if flag else self.read(reg))

    def region(self, start: Block, region: Region) -> None:
        """The branch of a block that varies, and all blocks until lanes meet."""
        place = self.label("part")
        masks = {n: self.alloca(f"{place}.{n}", MASK) for n in region.blocks}
        for mask in masks.values():
            self.emit(f"store {MASK} zeroinitializer, ptr {mask}")
        self.edges(start.terminator, self.lanes(), masks)
        for index, name in enumerate(region.blocks):
            block = self.function.blocks[name]
            following = f"{place}.{index + 1}"
            self.emit(f"br label %{place}.{index}")
            self.lines.append(f"{place}.{index}:")
            self.live = self.without_lost(self.value(f"load {MASK}, ptr {masks[name]}"))
            self.emit(f"store {MASK} zeroinitializer, ptr {masks[name]}")
            if not _light(block):
                self.branch_if_any(self.live, f"{place}.run.{index}", following)
                self.lines.append(f"{place}.run.{index}:")
            for item in block.instructions:
                self.instruction(item, following)
            match block.terminator:
                case Return(values):
                    self.results(values)
                case Fail():
                    self.lose(self.live)
                case other:
                    self.edges(other, self.live, masks)
            self.live = ""
        self.emit(f"br label %{place}.{len(region.blocks)}")
        self.lines.append(f"{place}.{len(region.blocks)}:")
        if region.loops:
            self.again(place, masks)
        following = "leave" if region.join is None else f"b.{region.join}"
        self.branch_if_any(self.lanes(), following, "stop")

    def again(self, place: str, masks: dict[str, str]) -> None:
        """Run a region's blocks again if lanes went back to one."""
        waiting = f"{MASK} zeroinitializer"
        for mask in masks.values():
            going = self.value(f"load {MASK}, ptr {mask}")
            waiting = f"{MASK} " + self.value(f"or {waiting}, {going}")
        self.branch_if_any(self.without_lost(waiting.split()[-1]), f"{place}.0", f"{place}.out")
        self.lines.append(f"{place}.out:")

    def edges(self, item: Terminator | None, lanes: str, masks: dict[str, str]) -> None:
        """Tell the blocks that follow which lanes come to them."""
        for target, going in self.parted(item, lanes):
            if target in masks:
                old = self.value(f"load {MASK}, ptr {masks[target]}")
                new = self.value(f"or {MASK} {old}, {going}")
                self.emit(f"store {MASK} {new}, ptr {masks[target]}")

    def parted(self, item: Terminator | None, lanes: str) -> list[tuple[str, str]]:
        """Where a terminator sends which of some lanes. Other lanes' conditions may be poison."""
        none = f"{MASK} zeroinitializer"
        match item:
            case Jump(target):
                return [(target, lanes)]
            case Branch(condition, then, other):
                first = self.value(
                    f"select {MASK} {lanes}, {MASK} {self.vector(condition)}, {none}"
                )
                rest = self.value(f"xor {MASK} {first}, {lanes}")
                return [(then, first), (other, rest)]
            case Switch(value, cases, default):
                found, rest, number = list[tuple[str, str]](), lanes, self.vector(value)
                for key, target in cases.items():
                    same = self.value(f"icmp eq {WORDS} {number}, splat (i64 {key})")
                    going = self.value(f"select {MASK} {rest}, {MASK} {same}, {none}")
                    rest = self.value(f"xor {MASK} {going}, {rest}")
                    found.append((target, going))
                return [*found, (default, rest)]
            case _:
                raise TypeError(type(item).__name__)

    # Instructions.

    def instruction(self, item: Instruction, stop: str) -> None:
        """One instruction; control goes to `stop` if no lane is left."""
        match item:
            case Const(dst, value):
                if dst in self.slots:
                    self.write(dst, literal(value, dst.type), False)
            case Copy(dst, src):
                self.write(dst, self.read(src), src in self.found.varying)
            case Op(dst, name, args):
                self.operation(dst, name, args)
            case Call():
                self.call(item, stop)
            case Load() | Store():
                self.memory(item)
            case Get(dst, name):
                self.get(dst, name)
            case Set(name, src):
                self.put(name, src)
            case _:
                self.rare(item)

    def rare(self, item: Instruction) -> None:
        """Instructions that few functions have."""
        match item:
            case Table(dst, values, index):
                self.table(dst, values, index)
            case Alloc(dst, words):
                self.allocate(dst, words)
            case _:
                raise TypeError(f"{type(item).__name__} is not for lanes")

    def operation(self, dst: Reg, name: str, args: tuple[Reg, ...]) -> None:
        """A scalar operation, on vectors if an operand is one."""
        varies = any(a in self.found.varying for a in args)
        values = [self.vector(a) if varies else self.read(a) for a in args]
        if varies and name in DIVISIONS:
            ones = f"{WORDS} splat (i64 1)"
            values = [
                self.value(f"select {MASK} {self.lanes()}, {WORDS} {v}, {ones}") for v in values
            ]
        result = self.fresh()
        template = VECTORS[name] if varies else SCALARS[name].llvm
        for line in template.format(*values, d=result).splitlines():
            self.emit(line)
        self.write(dst, result, varies)

    def call(self, item: Call, stop: str) -> None:
        """A call, with the lanes that are here."""
        varying = self.found.varying
        flags = tuple(a in varying for a in item.args)
        symbol, results = self.callee(item, flags, self.partial or bool(self.live))
        given = [f"ptr %{n}" for n in _STATE]
        args = [*given, f"{MASK} {self.lanes()}"]
        args += [f"{self.kind(a)} {self.read(a)}" for a in item.args]
        types = [lane_type(d.type, flag) for d, flag in zip(item.dsts, results, strict=True)]
        kind = "{ " + ", ".join(["i1", *types]) + " }"
        found = self.value(f"call {kind} {symbol}({', '.join(args)})")
        stopped, on = self.value(f"extractvalue {kind} {found}, 0"), self.label("on")
        self.emit(f"br i1 {stopped}, label %{stop}, label %{on}")
        self.lines.append(f"{on}:")
        if self.live:
            self.live = self.without_lost(self.live)
        for index, (dst, flag) in enumerate(zip(item.dsts, results, strict=True)):
            self.write(dst, self.value(f"extractvalue {kind} {found}, {index + 1}"), flag)

    # Memory.

    def address(self, base: Reg, index: Reg | None, offset: int) -> str:
        """The address of a word, the same for all lanes."""
        where = self.value(f"inttoptr i64 {self.read(base)} to ptr")
        if index is not None:
            where = self.value(f"getelementptr i64, ptr {where}, i64 {self.read(index)}")
        return self.value(f"getelementptr i64, ptr {where}, i64 {offset}") if offset else where

    def load(self, dst: Reg, base: Reg, index: Reg | None, offset: int) -> None:
        """A word of memory, or one for each lane."""
        varying = self.found.varying
        if base not in varying and index not in varying:
            self.load_one(dst, self.address(base, index, offset), WORD)
            return
        word = self.vector(base)
        if index is not None:
            scaled = self.value(f"shl {WORDS} {self.vector(index)}, splat (i64 3)")
            word = self.value(f"add {WORDS} {word}, {scaled}")
        if offset:
            word = self.value(f"add {WORDS} {word}, splat (i64 {8 * offset})")
        where = self.value(f"inttoptr {WORDS} {word} to <{WIDTH} x ptr>")
        self.gather(dst, where)

    def memory(self, item: Load | Store) -> None:
        """A word of memory, perhaps of each lane's own stack."""
        own = item.base == self.found.stacks
        match item:
            case Load(dst, base, index, offset) if own:
                self.load_own(dst, self.address(base, index, offset))
            case Store(base, src, index, offset) if own:
                self.store_own(src, self.address(base, index, offset))
            case Load(dst, base, index, offset):
                self.load(dst, base, index, offset)
            case Store(base, src, index, offset):
                self.store(src, self.address(base, index, offset), WORD)

    def load_own(self, dst: Reg, where: str) -> None:
        """A word of each lane's stack. If it should be the same in all, others are lost."""
        words = self.value(f"load {WORDS}, ptr {where}, align 8{WORD}")
        if dst in self.found.varying:
            self.write(dst, self.of_words(words, dst.type, True), True)
            return
        first = self.value(f"extractelement {WORDS} {words}, i64 0")
        other = self.value(f"icmp ne {WORDS} {words}, {self.splat(first, Type.I64)}")
        self.lose(self.value(f"and {MASK} {other}, {self.lanes()}"))
        self.write(dst, self.of_words(first, dst.type, False), False)

    def of_words(self, words: str, type_: Type, varies: bool) -> str:
        """What words mean as numbers of a type."""
        source, kind = lane_type(Type.I64, varies), lane_type(type_, varies)
        if type_ is Type.F64:
            return self.value(f"bitcast {source} {words} to {kind}")
        return self.value(f"trunc {source} {words} to {kind}") if type_ is Type.BOOL else words

    def store_own(self, src: Reg, where: str) -> None:
        """A word of each lane's stack. What lost lanes store, nobody reads."""
        kind, value = lane_type(src.type, True), self.vector(src)
        if src.type is Type.BOOL:
            value, kind = self.value(f"zext {MASK} {value} to {WORDS}"), WORDS
        self.emit(f"store {kind} {value}, ptr {where}, align 8{WORD}")

    def gather(self, dst: Reg, where: str) -> None:
        """Words from an address for each lane that is here."""
        stored = Type.F64 if dst.type is Type.F64 else Type.I64
        kind, suffix = lane_type(stored, True), "f64" if stored is Type.F64 else "i64"
        value = self.value(
            f"call {kind} @llvm.masked.gather.v{WIDTH}{suffix}.v{WIDTH}p0(<{WIDTH} x ptr> align 8 "
            f"{where}, {MASK} {self.lanes()}, {kind} zeroinitializer)"
        )
        if dst.type is Type.BOOL:
            value = self.value(f"trunc {kind} {value} to {MASK}")
        self.write(dst, value, True)

    def load_one(self, dst: Reg, address: str, tag: str) -> None:
        """A word for all lanes."""
        if dst.type is Type.BOOL:
            word = self.value(f"load i64, ptr {address}{tag}")
            self.write(dst, self.value(f"trunc i64 {word} to i1"), False)
        else:
            self.write(dst, self.value(f"load {TYPES[dst.type]}, ptr {address}{tag}"), False)

    def store(self, src: Reg, address: str, tag: str) -> None:
        """Store what all lanes have."""
        value, kind = self.read(src), TYPES[src.type]
        if src.type is Type.BOOL:
            value, kind = self.value(f"zext i1 {value} to i64"), "i64"
        self.emit(f"store {kind} {value}, ptr {address}{tag}")

    def field(self, name: str) -> str:
        """The address of a field of the context."""
        return self.value(f"getelementptr i64, ptr %ctx, i64 {_FIELD[name]}")

    def get(self, dst: Reg, name: str) -> None:
        """A field of the context."""
        if name == "particle":
            first = self.value(f"load i64, ptr {self.field(name)}{FIELD}")
            numbers = ", ".join(f"i64 {k}" for k in range(WIDTH))
            own = self.value(f"add {WORDS} {self.splat(first, Type.I64)}, <{numbers}>")
            self.write(dst, own, True)
        elif name in self.found.fields:
            self.write(dst, self.value(f"load {lane_type(dst.type, True)}, ptr %{name}"), True)
        else:
            self.load_one(dst, self.field(name), FIELD)

    def put(self, name: str, src: Reg) -> None:
        """Set a field of the context."""
        if name == "fuel" and src in self.found.varying:
            self.put_least(name, src)
            return
        if name not in self.found.fields:
            self.store(src, self.field(name), FIELD)
            return
        kind, value = lane_type(src.type, True), self.vector(src)
        # A lost lane keeps its weight, by which it is known later whether it was 0.
        if self.live or self.partial or name == "weight":
            old = self.value(f"load {kind}, ptr %{name}")
            value = self.select(self.lanes(), kind, value, old)
        self.emit(f"store {kind} {value}, ptr %{name}")

    def put_least(self, name: str, src: Reg) -> None:
        """Set a field that lanes share to the least of those that are here."""
        many = f"{WORDS} splat (i64 {2**63 - 1})"
        own = self.value(f"select {MASK} {self.lanes()}, {WORDS} {self.vector(src)}, {many}")
        least = self.value(f"call i64 @llvm.vector.reduce.smin.v{WIDTH}i64({WORDS} {own})")
        self.emit(f"store i64 {least}, ptr {self.field(name)}{FIELD}")

    def table(self, dst: Reg, values: tuple[float, ...], index: Reg) -> None:
        """A number of a constant table."""
        kind = f"getelementptr double, ptr {table_name(values)}, "
        if index in self.found.varying:
            where = self.value(kind + f"{WORDS} {self.read(index)}")
            self.gather(dst, where)
        else:
            self.load_one(dst, self.value(kind + f"i64 {self.read(index)}"), WORD)

    def allocate(self, dst: Reg, words: Reg | int) -> None:
        """Heap words that all lanes share."""
        next_, end = self.field("heap"), self.field("heap_end")
        now = self.value(f"load i64, ptr {next_}{FIELD}")
        last = self.value(f"load i64, ptr {end}{FIELD}")
        size = (
            str(8 * words)
            if isinstance(words, int)
            else self.value(f"shl i64 {self.read(words)}, 3")
        )
        after = self.value(f"add i64 {now}, {size}")
        full = self.value(f"icmp ugt i64 {after}, {last}")
        none, room = self.label("full"), self.label("room")
        self.emit(f"br i1 {full}, label %{none}, label %{room}")
        self.lines.append(f"{none}:")
        self.lose(self.lanes())
        self.emit("br label %stop")
        self.lines.append(f"{room}:")
        self.emit(f"store i64 {after}, ptr {next_}{FIELD}")
        self.write(dst, now, False)
