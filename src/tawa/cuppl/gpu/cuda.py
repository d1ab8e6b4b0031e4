"""Core to CUDA C++: one function a function, one local variable a register, one line or two an op.

The text is plain C++ apart from the qualifiers and atomics, so that a host compiler can check it
too. Functions that may fail return their status; results come back through references, or as the
value of a function that can't fail and has one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

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
)
from tawa.cuppl.core.scalars import SCALARS
from tawa.cuppl.cpu.llvm import HEAP_FULL, table_name, tables
from tawa.cuppl.lowering.dataflow import defined

__all__ = ["PRELUDE", "TYPE_NAMES", "FunctionText", "Texts", "called_in_programs", "emit_cuda"]

TYPE_NAMES = {Type.F64: "double", Type.I64: "i64", Type.BOOL: "bool", Type.REF: "i64"}
"""How each type of register is spelled."""

OUTLINED = 80
"""Functions of more instructions are not inlined, nor are natives that ask not to be: compiling
would take too long."""

CALLED = "_called"
"""What the names of such versions end with."""

WORTH_A_CALL = 24
"""Functions of numbers alone that are inlined, and of so many instructions, are called from where
code is long already: in programs, and in what is inlined there."""

_FIELDS = "\n".join(f"  {TYPE_NAMES[t]} {name};" for name, t in CONTEXT_FIELDS.items())

PRELUDE = f"""\
typedef long long i64;
typedef unsigned long long u64;

struct Context {{
{_FIELDS}
}};

INLINE i64 bits_of(double x) {{ return __double_as_longlong(x); }}
INLINE double float_of_bits(i64 x) {{ return __longlong_as_double(x); }}
DEVICE i64 truncate(double x) {{
  if (x != x) return 0;
  if (x >= 9223372036854775808.0) return 0x7FFFFFFFFFFFFFFFll;
  if (x < -9223372036854775808.0) return -0x7FFFFFFFFFFFFFFFll - 1;
  return (i64)x;
}}
DEVICE i64 floor_divide(i64 a, i64 b) {{
  i64 q = a / b;
  return q - ((a % b != 0) & ((a ^ b) < 0));
}}
DEVICE i64 floor_modulo(i64 a, i64 b) {{
  i64 r = a % b;
  return r + ((r != 0) & ((r ^ b) < 0) ? b : 0);
}}
INLINE bool add_overflows(i64 a, i64 b) {{
  i64 s = (i64)((u64)a + (u64)b);
  return ((s ^ a) & (s ^ b)) < 0;
}}
INLINE bool sub_overflows(i64 a, i64 b) {{
  i64 s = (i64)((u64)a - (u64)b);
  return ((s ^ a) & (a ^ b)) < 0;
}}
INLINE bool mul_overflows(i64 a, i64 b) {{
  i64 p = (i64)((u64)a * (u64)b);
  return fabs((double)a * (double)b - (double)p) >= 4611686018427387904.0;
}}
INLINE double& float_at(i64 address) {{ return *(double*)MEMORY(address); }}
INLINE i64& int_at(i64 address) {{ return *(i64*)MEMORY(address); }}
"""
"""Types and the few operations that C++ has no operator for."""


def emit_cuda(program: Program, texts: Texts | None = None) -> str:
    """CUDA C++ of a program's functions, declarations first.

    `texts` makes the text of one where code has to be short, as it is long anyway.
    """
    functions = list(program.functions.values())
    parts = [f"TABLE double {_table(v)}[] = {{{_items(v)}}};" for v in tables(program)]
    parts += [signature(f) + ";" for f in functions]
    called = called_in_programs(program)
    parts.extend(_called(f) for f in functions if f.name in called)
    for function in functions:
        inside = called if function.inline or texts else frozenset[str]()
        inside = frozenset[str]() if function.name in called else inside
        parts.append((texts or FunctionText)(function, program, inside).text())
    return "\n".join(parts)


def called_in_programs(program: Program) -> frozenset[str]:
    """Inlined functions of numbers alone, to a float, that are worth a call."""
    sizes: dict[str, float] = {}

    def size(name: str) -> float:
        """Instructions with those of what it calls; infinite if it uses the context."""
        if name not in sizes:
            sizes[name] = math.inf  # of a recursive call
            function = program.functions[name]
            items = [item for block in function.blocks.values() for item in block.instructions]
            if function.may_fail or any(
                isinstance(i, Get | Set | Store | AtomicAdd) for i in items
            ):
                return math.inf
            sizes[name] = len(items) + sum(size(i.function) for i in items if isinstance(i, Call))
        return sizes[name]

    return frozenset(
        name
        for name, function in program.functions.items()
        if function.inline
        and function.results == (Type.F64,)
        and WORTH_A_CALL <= size(name) < math.inf
    )


def _called(function: Function) -> str:
    """A version of an inlined function that is called."""
    name = f"cuppl_{function.name}"
    head = signature(function).replace("INLINE", "OUTLINE", 1).replace(name, name + CALLED, 1)
    given = ", ".join(["ctx", *(v_(p) for p in function.params)])
    return f"{head} {{ return {name}({given}); }}"


def _table(values: tuple[float, ...]) -> str:
    return table_name(values).replace("@table.", "table_")


def _items(values: tuple[float, ...]) -> str:
    return ", ".join(float(v).hex() for v in values)


def _returns(function: Function) -> str:
    if function.may_fail:
        return "i64"
    return TYPE_NAMES[function.results[0]] if len(function.results) == 1 else "void"


def _by_reference(function: Function) -> bool:
    return function.may_fail or len(function.results) > 1


def signature(function: Function) -> str:
    """Declaration of a function."""
    params = ["Context& ctx"]
    params += [f"{TYPE_NAMES[p.type]} {v_(p)}" for p in function.params]
    if _by_reference(function):
        params += [f"{TYPE_NAMES[t]}& out{k}" for k, t in enumerate(function.results)]
    size = sum(len(b.instructions) for b in function.blocks.values())
    large = size > OUTLINED or function.outlined
    kind = "INLINE" if function.inline else "OUTLINE" if large else "DEVICE"
    return f"{kind} {_returns(function)} cuppl_{function.name}({', '.join(params)})"


def literal(value: float | int | bool, type_: Type) -> str:
    """A constant in C++."""
    if type_ is Type.BOOL:
        return "true" if value else "false"
    if type_ is Type.F64:
        number = float(value)
        if math.isfinite(number):
            return number.hex() if number else ("-0.0" if math.copysign(1, number) < 0 else "0.0")
        bits = 0x7FF8 << 48 if math.isnan(number) else (0x7FF0 if number > 0 else 0xFFF0) << 48
        return f"float_of_bits((i64){bits:#x}ull)"
    wrapped = int(value) & 0xFFFFFFFFFFFFFFFF
    return f"(i64){wrapped:#x}ull" if wrapped >> 31 else str(wrapped) + "ll"


class FunctionText:
    """Text of one function."""

    def __init__(
        self, function: Function, program: Program, called: frozenset[str] = frozenset()
    ) -> None:
        self.function = function
        self.program = program
        self.called = called
        self.lines: list[str] = []

    def text(self) -> str:
        """The whole definition."""
        function = self.function
        self.lines.append(signature(function) + " {")
        for type_, names in self.locals().items():
            self.lines.append(f"  {TYPE_NAMES[type_]} {', '.join('v_' + n for n in names)};")
        self.begin()
        for block in function.blocks.values():
            self.block(block)
        self.lines.append("}")
        return "\n".join(self.lines)

    def locals(self) -> dict[Type, list[str]]:
        """Registers that are not parameters, by type."""
        seen = {p.name for p in self.function.params}
        found: dict[Type, list[str]] = {}
        for block in self.function.blocks.values():
            for item in block.instructions:
                for reg in defined(item):
                    if reg.name not in seen:
                        seen.add(reg.name)
                        found.setdefault(reg.type, []).append(reg.name)
        return found

    def emit(self, text: str) -> None:
        """Append a line."""
        self.lines.append("  " + text)

    def goto(self, target: str) -> str:
        """A jump to a block."""
        return f"goto L_{target};"

    def failed(self) -> str:
        """What to do when a callee has failed and nobody handles it."""
        return "return ctx.status;"

    def begin(self) -> None:
        """Text before the first block."""

    def begin_block(self, block: Block) -> None:
        """Text between the label and the first instruction."""

    def block(self, block: Block) -> None:
        """A label and what follows it."""
        self.lines.append(f"L_{block.name}:;")
        self.begin_block(block)
        for item in block.instructions:
            self.instruction(item)
        assert block.terminator is not None
        self.terminator(block.terminator)

    def instruction(self, item: Instruction) -> None:
        """The text of one instruction."""
        match item:
            case Const(dst, value):
                self.emit(f"{v_(dst)} = {literal(value, dst.type)};")
            case Copy(dst, src):
                self.emit(f"{v_(dst)} = {v_(src)};")
            case Op(dst, name, args):
                text = SCALARS[name].cuda.format(*(v_(a) for a in args))
                self.emit(f"{v_(dst)} = {text};")
            case Call():
                self.call(item)
            case Get(dst, name):
                self.emit(f"{v_(dst)} = ctx.{name};")
            case Set(name, src):
                self.emit(f"ctx.{name} = {v_(src)};")
            case Alloc(dst, words):
                self.alloc(dst, words)
            case _:
                self.memory(item)

    def memory(self, item: Instruction) -> None:
        """Loads, stores, and what is rare."""
        match item:
            case Load(dst, base, index, offset):
                place = _place(base, index, offset, dst.type)
                self.emit(f"{v_(dst)} = {place}{' != 0' if dst.type is Type.BOOL else ''};")
            case Store(base, src, index, offset):
                self.emit(f"{_place(base, index, offset, src.type)} = {v_(src)};")
            case AtomicAdd(dst, base, value, offset):
                place = f"(u64*)({v_(base)} + {8 * offset})"
                self.emit(f"{v_(dst)} = (i64)atomicAdd({place}, (u64){v_(value)});")
            case Table(dst, values, index):
                self.emit(f"{v_(dst)} = {_table(values)}[{v_(index)}];")
            case Pause():
                self.emit(";")
            case _:
                raise TypeError(f"{type(item).__name__} must have been lowered")

    def alloc(self, dst: Reg, words: Reg | int) -> None:
        """Fresh words of the heap, or a failure."""
        size = f"{8 * words}" if isinstance(words, int) else f"8 * {v_(words)}"
        self.emit(f"if ((u64)(ctx.heap + {size}) > (u64)ctx.heap_end) {{")
        self.emit(f"  ctx.status = {HEAP_FULL}; ctx.site = {self.function.site};")
        self.emit(f"  {self.failed()} }}")
        self.emit(f"{v_(dst)} = ctx.heap; ctx.heap += {size};")

    def call(self, call: Call) -> None:
        """A call, and what follows if it fails."""
        callee = self.program.functions[call.function]
        args = ["ctx", *(v_(a) for a in call.args)]
        if _by_reference(callee):
            args += [v_(d) for d in call.dsts]
        name = callee.name + (CALLED if callee.name in self.called else "")
        text = f"cuppl_{name}({', '.join(args)})"
        if callee.may_fail:
            failed = self.goto(call.on_fail) if call.on_fail else self.failed()
            self.emit(f"if ({text} != 0) {failed}")
        elif _by_reference(callee) or not callee.results:
            self.emit(f"{text};")
        else:
            self.emit(f"{v_(call.dsts[0])} = {text};")

    def terminator(self, item: Terminator) -> None:
        """The end of a block."""
        match item:
            case Jump(target):
                self.emit(self.goto(target))
            case Branch(condition, then, other):
                self.emit(f"if ({v_(condition)}) {self.goto(then)} else {self.goto(other)}")
            case Switch(value, cases, default):
                arms = " ".join(f"case {k}: {self.goto(v)}" for k, v in cases.items())
                self.emit(f"switch ({v_(value)}) {{ {arms} default: {self.goto(default)} }}")
            case Return(values):
                self.give_back(values)
            case Fail(code, site):
                self.emit(f"ctx.status = {code}; ctx.site = {site}; return {code};")

    def give_back(self, values: tuple[Reg, ...]) -> None:
        """Leave with results."""
        if _by_reference(self.function):
            for index, value in enumerate(values):
                self.emit(f"out{index} = {v_(value)};")
            self.emit("return 0;" if self.function.may_fail else "return;")
        elif values:
            self.emit(f"return {v_(values[0])};")
        else:
            self.emit("return;")


Texts = Callable[[Function, Program, frozenset[str]], FunctionText]
"""What makes the text of a function, given the functions that are called and not inlined."""


def _place(base: Reg, index: Reg | None, offset: int, type_: Type) -> str:
    name = "float_at" if type_ is Type.F64 else "int_at"
    parts = [v_(base)]
    if index is not None:
        parts.append(f"8 * {v_(index)}")
    if offset:
        parts.append(str(8 * offset))
    return f"{name}({' + '.join(parts)})"


def v_(reg: Reg) -> str:
    """A register's name in C++, where it can't be a keyword."""
    return f"v_{reg.name}"
