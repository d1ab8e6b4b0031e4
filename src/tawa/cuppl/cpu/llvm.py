"""Core to LLVM IR text: one function a function, one line or a few an op.

A register that is set more than once, or read in another block than the one that sets it, is a
slot of memory (LLVM promotes them).

The only target of this file is text; `engine.py` compiles and runs it. A function that may fail
returns its status as the first member of its result.
"""

from __future__ import annotations

import hashlib
import platform
import struct
import sys
from functools import cache

from tawa.cuppl.core.ir import (
    CONTEXT_FIELDS,
    Alloc,
    AtomicAdd,
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
    Pause,
    Program,
    Reg,
    Return,
    Set,
    Store,
    Switch,
    Table,
    Terminator,
    Type,
    Wake,
)
from tawa.cuppl.core.scalars import SCALARS
from tawa.cuppl.cpu.units import Unit, copied_functions
from tawa.cuppl.lowering.dataflow import in_memory

__all__ = ["emit_llvm", "emit_unit"]

_TYPES = {Type.F64: "double", Type.I64: "i64", Type.BOOL: "i1", Type.REF: "i64"}
_FIELD = {name: index for index, name in enumerate(CONTEXT_FIELDS)}
_CONTEXT = f"ptr align 8 noalias nocapture writable dereferenceable({8 * len(CONTEXT_FIELDS)})"
"""A context is one thread's alone, so a field may stay in a register over a loop."""

MEETING = 32
"""Failures that share their code. LLVM's time grows with the square of it."""

HEAP_FULL = 1
"""Status of an allocation that found no room."""

_INTRINSICS = """
declare double @llvm.sqrt.f64(double)
declare double @llvm.fma.f64(double, double, double)
declare double @llvm.floor.f64(double)
declare double @llvm.fabs.f64(double)
declare i64 @llvm.fptosi.sat.i64.f64(double)
declare i64 @llvm.fshl.i64(i64, i64, i64)
declare i32 @sched_yield()
declare i64 @syscall(i64, ...)
!0 = !{!"memory"}
!1 = !{!"field of the context", !0}
!2 = !{!"word", !0}
!3 = !{!1, !1, i64 0}
!4 = !{!2, !2, i64 0}
"""
FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine() if sys.platform == "linux" else "")
"""The number of Linux's system call for threads that sleep until a word changes."""

_SYSTEM_CALL = (
    "call i64 (i64, ...) @syscall(i64 {}, ptr {}, i64 {}, i64 {}, ptr null, ptr null, i64 0)"
)
FIELD, WORD = ", !tbaa !3", ", !tbaa !4"
"""What an access is of: no word of a heap, a stack or a table is a field of the context."""


def emit_llvm(program: Program, exported: dict[str, str] | None = None) -> str:
    """LLVM IR of a whole program.

    `exported` maps function names to the symbol they get with the C calling convention
    (`void symbol(i64* context, i64* arguments, i64* results)`: words in, words out; the status
    is in the context).
    """
    whole = Unit(list(program.functions.values()), frozenset())
    return emit_unit(program, whole, exported or {})


def emit_unit(program: Program, unit: Unit, exported: dict[str, str]) -> str:
    """LLVM IR of a part of a program; other parts of it are declared."""
    part = Program({f.name: f for f in unit.functions})
    own = part.functions.keys()
    called = {c for f in unit.functions for c in f.callees()}
    parts = [_INTRINSICS]
    parts.extend(table_text(values) for values in tables(part))
    parts.extend(_declaration(program.functions[n]) for n in sorted(called - own))
    copied = copied_functions(part)
    for function in unit.functions:
        emitter = _FunctionEmitter(function, program, function.name in unit.public)
        parts.append(emitter.text(function.name in copied))
    parts.extend(
        _export(program.functions[n], symbol) for n, symbol in exported.items() if n in own
    )
    return "\n".join(parts)


def tables(program: Program) -> list[tuple[float, ...]]:
    """The constant tables that a program reads, each once."""
    found: dict[tuple[float, ...], None] = {}
    for function in program.functions.values():
        for block in function.blocks.values():
            for item in block.instructions:
                if isinstance(item, Table):
                    found[item.values] = None
    return list(found)


def table_name(values: tuple[float, ...]) -> str:
    """Name of a table: a digest of its content."""
    return _name_of(struct.pack(f"<{len(values)}d", *values))


@cache
def _name_of(content: bytes) -> str:
    return f"@table.{hashlib.sha256(content).hexdigest()[:16]}"


def table_text(values: tuple[float, ...]) -> str:
    """The definition of a table."""
    words = struct.unpack(f"<{len(values)}Q", struct.pack(f"<{len(values)}d", *values))
    items = ", ".join([f"double 0x{word:016X}" for word in words])
    return f"{table_name(values)} = private constant [{len(values)} x double] [{items}]"


MOST_RESULTS = 16
"""A function with more of them stores its results where its caller says."""


def stores_results(function: Function) -> bool:
    """Whether results are words of memory, at the last argument."""
    return len(function.results) > MOST_RESULTS


def result_type(function: Function) -> str:
    """LLVM type of a function's result: nothing, one value, or a struct."""
    types = [] if stores_results(function) else [_TYPES[t] for t in function.results]
    if function.may_fail:
        types.insert(0, "i64")
    if not types:
        return "void"
    return types[0] if len(types) == 1 else "{ " + ", ".join(types) + " }"


def _signature(function: Function) -> str:
    params = [f"{_CONTEXT} %ctx"]
    params += [f"{_TYPES[p.type]} %{register_name(p)}.in" for p in function.params]
    params += ["ptr %results"] if stores_results(function) else []
    return f"{result_type(function)} @{_symbol(function.name)}({', '.join(params)})"


def _declaration(function: Function) -> str:
    params = [_CONTEXT, *(_TYPES[p.type] for p in function.params)]
    params += ["ptr"] if stores_results(function) else []
    return (
        f"declare {result_type(function)} @{_symbol(function.name)}({', '.join(params)}) nounwind"
    )


def _symbol(name: str) -> str:
    return f'"cuppl.{name}"'


def register_name(reg: Reg) -> str:
    """A register's name as LLVM spells it."""
    return f'"{reg.name}"'.replace('"', "") if reg.name.isidentifier() else f'"{reg.name}"'


def float_text(value: float) -> str:
    """A double in LLVM's exact hexadecimal form."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


class _FunctionEmitter:
    """Text of one function."""

    def __init__(self, function: Function, program: Program, public: bool) -> None:
        self.function = function
        self.program = program
        self.linkage = "" if public else "internal "
        self.lines: list[str] = []
        self.count = 0
        self.allocas: list[str] = []
        self.slots: dict[Reg, str] = {}
        self.values: dict[Reg, str] = {}
        """Of registers that have no slot."""
        self.failures: list[tuple[int, int, str]] = []
        """Code and site of each failure, and the block that it is in."""

    def text(self, copied: bool) -> str:
        function = self.function
        attributes = "alwaysinline nounwind" if copied else "nounwind"
        attributes += " noinline" if function.outlined else ""
        self.lines.append(f"define {self.linkage}{_signature(function)} {attributes} {{")
        self.lines.append("entry.allocas:")
        start = len(self.lines)
        for reg in in_memory(function):
            self.allocas.append(f"  %r.{register_name(reg)} = alloca {_TYPES[reg.type]}")
            self.slots[reg] = f"%r.{register_name(reg)}"
        for reg in function.params:
            self._write(reg, f"%{register_name(reg)}.in")
        for block in function.blocks.values():
            for item in block.instructions:
                if isinstance(item, Const) and item.dst not in self.slots:
                    self.values[item.dst] = literal(item.value, item.dst.type)
        first = next(iter(function.blocks))
        self.lines.append(f"  br label %b.{first}")
        for block in function.blocks.values():
            self._block(block)
        self._fail()
        self.lines[start:start] = self.allocas
        self.lines.append("}")
        return "\n".join(self.lines)

    def _fresh(self) -> str:
        self.count += 1
        return f"%t{self.count}"

    def _emit(self, text: str) -> None:
        self.lines.append("  " + text)

    def _read(self, reg: Reg) -> str:
        slot = self.slots.get(reg)
        if slot is None:
            return self.values[reg]
        value = self._fresh()
        self._emit(f"{value} = load {_TYPES[reg.type]}, ptr {slot}")
        return value

    def _write(self, reg: Reg, value: str) -> None:
        slot = self.slots.get(reg)
        if slot is None:
            self.values[reg] = value
        else:
            self._emit(f"store {_TYPES[reg.type]} {value}, ptr {slot}")

    def _block(self, block: Block) -> None:
        self.lines.append(f"b.{block.name}:")
        for instruction in block.instructions:
            self._instruction(instruction)
        if block.terminator is None:
            raise ValueError(f"block {block.name} of {self.function.name} has no terminator")
        if isinstance(block.terminator, Fail) and not block.instructions:
            self.failures.append((block.terminator.code, block.terminator.site, block.name))
            self._emit(f"br label %failed{(len(self.failures) - 1) // MEETING}")
            return
        self._terminator(block.terminator)

    def _instruction(self, item: Instruction) -> None:
        match item:
            case Const(dst, value):
                self._write(dst, literal(value, dst.type))
            case Copy(dst, src):
                self._write(dst, self._read(src))
            case Op(dst, name, args):
                self._op(dst, name, args)
            case Call():
                self._call(item)
            case Load(dst, base, index, offset):
                self._load(dst, self._address(base, index, offset), WORD)
            case Store(base, src, index, offset):
                self._store(src, self._address(base, index, offset), WORD)
            case Get(dst, name):
                self._load(dst, self._field(name), FIELD)
            case Set(name, src):
                self._store(src, self._field(name), FIELD)
            case _:
                self._rare(item)

    def _rare(self, item: Instruction) -> None:
        match item:
            case Alloc(dst, words):
                self._alloc(dst, words)
            case AtomicAdd(dst, base, value, offset):
                address = self._address(base, None, offset)
                old = self._fresh()
                amount = self._read(value)
                self._emit(f"{old} = atomicrmw add ptr {address}, i64 {amount} seq_cst")
                self._write(dst, old)
            case Table(dst, values, index):
                address = self._fresh()
                self._emit(
                    f"{address} = getelementptr double, ptr {table_name(values)}, "
                    f"i64 {self._read(index)}"
                )
                self._load(dst, address, WORD)
            case Pause(base, value, offset):
                self._sleep(self._address(base, None, offset), self._read(value))
            case Wake(base, offset):
                self._wake(self._address(base, None, offset))
            case _:
                raise TypeError(f"{type(item).__name__} must have been lowered")

    def _sleep(self, address: str, value: str) -> None:
        if FUTEX is None:
            self._emit("call i32 @sched_yield()")
        else:
            self._emit(_SYSTEM_CALL.format(FUTEX, address, "128", value))  # wait, one process

    def _wake(self, address: str) -> None:
        if FUTEX is not None:
            self._emit(_SYSTEM_CALL.format(FUTEX, address, "129", "2147483647"))

    def _op(self, dst: Reg, name: str, args: tuple[Reg, ...]) -> None:
        values = [self._read(a) for a in args]
        result = self._fresh()
        for line in SCALARS[name].llvm.format(*values, d=result).splitlines():
            self._emit(line)
        self._write(dst, result)

    def _address(self, base: Reg, index: Reg | None, offset: int) -> str:
        address = self._fresh()
        self._emit(f"{address} = inttoptr i64 {self._read(base)} to ptr")
        if index is not None:
            moved = self._fresh()
            self._emit(f"{moved} = getelementptr i64, ptr {address}, i64 {self._read(index)}")
            address = moved
        if offset:
            moved = self._fresh()
            self._emit(f"{moved} = getelementptr i64, ptr {address}, i64 {offset}")
            address = moved
        return address

    def _field(self, name: str) -> str:
        address = self._fresh()
        self._emit(f"{address} = getelementptr i64, ptr %ctx, i64 {_FIELD[name]}")
        return address

    def _load(self, dst: Reg, address: str, kind: str) -> None:
        value = self._fresh()
        if dst.type is Type.BOOL:
            wide = self._fresh()
            self._emit(f"{wide} = load i64, ptr {address}{kind}")
            self._emit(f"{value} = trunc i64 {wide} to i1")
        else:
            self._emit(f"{value} = load {_TYPES[dst.type]}, ptr {address}{kind}")
        self._write(dst, value)

    def _store(self, src: Reg, address: str, kind: str) -> None:
        value = self._read(src)
        if src.type is Type.BOOL:
            wide = self._fresh()
            self._emit(f"{wide} = zext i1 {value} to i64")
            self._emit(f"store i64 {wide}, ptr {address}{kind}")
        else:
            self._emit(f"store {_TYPES[src.type]} {value}, ptr {address}{kind}")

    def _alloc(self, dst: Reg, words: Reg | int) -> None:
        self.count += 1
        n = self.count
        size = str(8 * words) if isinstance(words, int) else self._scaled(words)
        self._emit(f"%h{n}.p = getelementptr i64, ptr %ctx, i64 {_FIELD['heap']}")
        self._emit(f"%h{n}.e = getelementptr i64, ptr %ctx, i64 {_FIELD['heap_end']}")
        self._emit(f"%h{n}.now = load i64, ptr %h{n}.p{FIELD}")
        self._emit(f"%h{n}.end = load i64, ptr %h{n}.e{FIELD}")
        self._emit(f"%h{n}.next = add i64 %h{n}.now, {size}")
        self._emit(f"%h{n}.full = icmp ugt i64 %h{n}.next, %h{n}.end")
        self._emit(f"br i1 %h{n}.full, label %h{n}.fail, label %h{n}.room")
        self.lines.append(f"h{n}.fail:")
        self._set_status(HEAP_FULL, self.function.site)
        self._leave(str(HEAP_FULL))
        self.lines.append(f"h{n}.room:")
        self._emit(f"store i64 %h{n}.next, ptr %h{n}.p{FIELD}")
        self._write(dst, f"%h{n}.now")

    def _scaled(self, words: Reg) -> str:
        size = self._fresh()
        self._emit(f"{size} = shl i64 {self._read(words)}, 3")
        return size

    def _call(self, call: Call) -> None:
        callee = self.program.functions[call.function]
        args = ["ptr %ctx"] + [f"{_TYPES[a.type]} {self._read(a)}" for a in call.args]
        kind = result_type(callee)
        stored, place = stores_results(callee), ""
        if stored:
            place = self._fresh()
            self.allocas.append(f"  {place} = alloca i64, i64 {len(callee.results)}")
            args.append(f"ptr {place}")
        text = f"call {kind} @{_symbol(callee.name)}({', '.join(args)})"
        members: list[str] = []
        if kind == "void":
            self._emit(text)
        else:
            result = self._fresh()
            self._emit(f"{result} = {text}")
            count = 0 if stored else len(callee.results)
            members = self._members(result, kind, count + callee.may_fail)
        if callee.may_fail:
            self._check(members[0], call.on_fail)
            members = members[1:]
        if stored:
            members = self._stored(place, callee)
        for dst, member in zip(call.dsts, members, strict=True):
            self._write(dst, member)

    def _stored(self, place: str, callee: Function) -> list[str]:
        """The results that a call left in memory."""
        names: list[str] = []
        for index, type_ in enumerate(callee.results):
            address, value = self._fresh(), self._fresh()
            self._emit(f"{address} = getelementptr i64, ptr {place}, i64 {index}")
            self._emit(f"{value} = load {_TYPES[type_]}, ptr {address}")
            names.append(value)
        return names

    def _members(self, result: str, kind: str, count: int) -> list[str]:
        if count == 1:
            return [result]
        names = [self._fresh() for _ in range(count)]
        for index, name in enumerate(names):
            self._emit(f"{name} = extractvalue {kind} {result}, {index}")
        return names

    def _check(self, status: str, on_fail: str | None) -> None:
        self.count += 1
        n = self.count
        self._emit(f"%c{n} = icmp ne i64 {status}, 0")
        if on_fail is not None:
            self._emit(f"br i1 %c{n}, label %b.{on_fail}, label %c{n}.ok")
        else:
            self._emit(f"br i1 %c{n}, label %c{n}.fail, label %c{n}.ok")
            self.lines.append(f"c{n}.fail:")
            self._leave(status)
        self.lines.append(f"c{n}.ok:")

    def _set_status(self, code: int | str, site: int | str) -> None:
        for name, value in (("status", code), ("site", site)):
            self._emit(f"store i64 {value}, ptr {self._field(name)}{FIELD}")

    def _fail(self) -> None:
        """Where the failures of this function meet: their code would else be most of its own."""
        for start in range(0, len(self.failures), MEETING):
            name = f"failed{start // MEETING}"
            self.lines.append(f"{name}:")
            for part, index in (("code", 0), ("place", 1)):
                meeting = self.failures[start : start + MEETING]
                edges = ", ".join(f"[ {failure[index]}, %b.{failure[2]} ]" for failure in meeting)
                self._emit(f"%{name}.{part} = phi i64 {edges}")
            self._set_status(f"%{name}.code", f"%{name}.place")
            self._leave(f"%{name}.code")

    def _leave(self, status: str) -> None:
        """Return `status` with undefined results."""
        kind = result_type(self.function)
        if kind == "i64":
            self._emit(f"ret i64 {status}")
            return
        value = self._fresh()
        self._emit(f"{value} = insertvalue {kind} poison, i64 {status}, 0")
        self._emit(f"ret {kind} {value}")

    def _terminator(self, item: Terminator) -> None:
        match item:
            case Jump(target):
                self._emit(f"br label %b.{target}")
            case Branch(condition, then, other):
                value = self._read(condition)
                self._emit(f"br i1 {value}, label %b.{then}, label %b.{other}")
            case Switch(value, cases, default):
                arms = " ".join(f"i64 {k}, label %b.{v}" for k, v in cases.items())
                self._emit(f"switch i64 {self._read(value)}, label %b.{default} [{arms}]")
            case Return(values):
                self._return(values)
            case Fail(code, site):
                self._set_status(code, site)
                self._leave(str(code))

    def _return(self, values: tuple[Reg, ...]) -> None:
        kind = result_type(self.function)
        texts = [(_TYPES[v.type], self._read(v)) for v in values]
        if stores_results(self.function):
            for index, (kind_, value) in enumerate(texts):
                address = self._fresh()
                self._emit(f"{address} = getelementptr i64, ptr %results, i64 {index}")
                self._emit(f"store {kind_} {value}, ptr {address}")
            texts.clear()
        if self.function.may_fail:
            texts.insert(0, ("i64", "0"))
        if not texts:
            self._emit("ret void")
        elif len(texts) == 1:
            self._emit(f"ret {texts[0][0]} {texts[0][1]}")
        else:
            whole = "poison"
            for index, (kind_, value) in enumerate(texts):
                new = self._fresh()
                self._emit(f"{new} = insertvalue {kind} {whole}, {kind_} {value}, {index}")
                whole = new
            self._emit(f"ret {kind} {whole}")


def literal(value: float | int | bool, type_: Type) -> str:
    """A constant's text."""
    if type_ is Type.F64:
        return float_text(float(value))
    if type_ is Type.BOOL:
        return "true" if value else "false"
    wrapped = int(value) & 0xFFFFFFFFFFFFFFFF
    return str(wrapped - (1 << 64) if wrapped >> 63 else wrapped)


def _export(function: Function, symbol: str) -> str:
    """A C function that unpacks words, calls and packs words."""
    lines = [f'define void @"{symbol}"(ptr %ctx, ptr %in, ptr %out) {{']
    args = ["ptr %ctx"]
    for index, param in enumerate(function.params):
        lines.append(f"  %p{index} = getelementptr i64, ptr %in, i64 {index}")
        wide = "double" if param.type is Type.F64 else "i64"
        lines.append(f"  %w{index} = load {wide}, ptr %p{index}")
        if param.type is Type.BOOL:
            lines.append(f"  %a{index} = trunc i64 %w{index} to i1")
        args.append(f"{_TYPES[param.type]} %{'a' if param.type is Type.BOOL else 'w'}{index}")
    kind = result_type(function)
    call = f"call {kind} @{_symbol(function.name)}({', '.join(args)})"
    lines.append(f"  {call}" if kind == "void" else f"  %all = {call}")
    offset = int(function.may_fail)
    single = len(function.results) + offset == 1
    for index, type_ in enumerate(function.results):
        value = "%all" if single else f"%m{index}"
        if not single:
            lines.append(f"  {value} = extractvalue {kind} %all, {index + offset}")
        if type_ is Type.BOOL:
            lines.append(f"  %x{index} = zext i1 {value} to i64")
            value = f"%x{index}"
        wide = "double" if type_ is Type.F64 else "i64"
        lines.append(f"  %o{index} = getelementptr i64, ptr %out, i64 {index}")
        lines.append(f"  store {wide} {value}, ptr %o{index}")
    lines += ["  ret void", "}"]
    return "\n".join(lines)
