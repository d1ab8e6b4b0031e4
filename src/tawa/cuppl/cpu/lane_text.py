"""Pieces of LLVM IR for eight lanes: types, masks, and registers that are numbers or vectors."""

from __future__ import annotations

import re

from tawa.cuppl.core.ir import Function, Reg, Type
from tawa.cuppl.core.scalars import SCALARS
from tawa.cuppl.lowering.divergence import Divergence
from tawa.cuppl.numeric.philox import GROUP

__all__ = [
    "DIVISIONS", "HEADER", "MASK", "TYPES", "VECTORS", "WIDTH", "WORDS", "LaneText", "lane_type"
]  # fmt: skip

WIDTH = GROUP
"""Lanes."""

TYPES = {Type.F64: "double", Type.I64: "i64", Type.BOOL: "i1", Type.REF: "i64"}
MASK = f"<{WIDTH} x i1>"
WORDS = f"<{WIDTH} x i64>"


def lane_type(type_: Type, varies: bool) -> str:
    """The LLVM type of a register."""
    return f"<{WIDTH} x {TYPES[type_]}>" if varies else TYPES[type_]


def _header() -> str:
    lines: list[str] = []
    for kind, scalar, vector in (
        ("f64", "double", f"<{WIDTH} x double>"),
        ("i64", "i64", f"<{WIDTH} x i64>"),
    ):
        for suffix, type_ in ((kind, scalar), (f"v{WIDTH}{kind}", vector)):
            if kind == "f64":
                for name in ("sqrt", "floor", "fabs"):
                    lines.append(f"declare {type_} @llvm.{name}.{suffix}({type_})")
                lines.append(f"declare {type_} @llvm.fma.{suffix}({type_}, {type_}, {type_})")
            else:
                lines.append(f"declare {type_} @llvm.fshl.{suffix}({type_}, {type_}, {type_})")
        pointers = f"<{WIDTH} x ptr>"
        lines.append(
            f"declare {vector} @llvm.masked.gather.v{WIDTH}{kind}.v{WIDTH}p0"
            f"({pointers}, {MASK}, {vector})"
        )
    lines.append(f"declare i64 @llvm.vector.reduce.smin.v{WIDTH}i64({WORDS})")
    lines.append("declare i64 @llvm.fptosi.sat.i64.f64(double)")
    lines.append(f"declare {WORDS} @llvm.fptosi.sat.v{WIDTH}i64.v{WIDTH}f64(<{WIDTH} x double>)")
    lines += [
        '!0 = !{!"memory"}',
        '!1 = !{!"field of the context", !0}',
        '!2 = !{!"word", !0}',
        "!3 = !{!1, !1, i64 0}",
        "!4 = !{!2, !2, i64 0}",
    ]
    return "\n".join(lines)


HEADER = _header()
"""What the texts of all functions refer to."""

_NUMBER = re.compile(r"(?<=[ (])(-?\d+(?:\.\d+)?|true)(?=[,)]|$)")


def _on_vectors(template: str) -> str:
    """An operation's text on vectors in place of numbers."""
    lines: list[str] = []
    for line in template.splitlines():
        line = re.sub(r"\b(f64|i64)(?=[.(])", rf"v{WIDTH}\1", line)
        line = re.sub(r"(?<=[ (])(double|i64|i1)(?= )", rf"<{WIDTH} x \1>", line)
        *_, kind = ["", *re.findall(rf"<{WIDTH} x (\w+)>", line)]
        line = _NUMBER.sub(rf"splat ({kind} \1)", line)
        lines.append(re.sub(r"(?<=to )(double|i64|i1)$", rf"<{WIDTH} x \1>", line))
    return "\n".join(lines)


DIVISIONS = ("divi", "modi")
"""They stop the processor where a divisor is 0, be it of a lane that is not here."""

VECTORS = {name: _on_vectors(scalar.llvm) for name, scalar in SCALARS.items()}
"""The operations of `scalars.py` on vectors."""


class LaneText:
    """Text of a function that is being written."""

    def __init__(self, function: Function, found: Divergence) -> None:
        self.function = function
        self.found = found
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.count = 0
        self.slots: dict[Reg, str] = {}
        self.values: dict[Reg, str] = {}
        self.constants: dict[Reg, str] = {}
        """Literals of the constants that have no slot."""
        self.live = ""
        """In a region: the lanes that its current block runs for."""

    def kind(self, reg: Reg) -> str:
        """The LLVM type of a register."""
        return lane_type(reg.type, reg in self.found.varying)

    def fresh(self) -> str:
        """A new name."""
        self.count += 1
        return f"%t{self.count}"

    def label(self, hint: str) -> str:
        """A new block's name."""
        self.count += 1
        return f"{hint}.{self.count}"

    def emit(self, text: str) -> None:
        """A line."""
        self.lines.append("  " + text)

    def value(self, text: str) -> str:
        """A new value."""
        name = self.fresh()
        self.emit(f"{name} = {text}")
        return name

    def alloca(self, name: str, kind: str) -> str:
        """A slot of memory."""
        self.allocas.append(f"  %{name} = alloca {kind}")
        return f"%{name}"

    def splat(self, value: str, type_: Type) -> str:
        """The same number in all lanes."""
        one, wide = lane_type(type_, False), lane_type(type_, True)
        first = self.value(f"insertelement {wide} poison, {one} {value}, i64 0")
        zeros = f"<{WIDTH} x i32> zeroinitializer"
        return self.value(f"shufflevector {wide} {first}, {wide} poison, {zeros}")

    def select(self, lanes: str, kind: str, new: str, old: str) -> str:
        """`new` in some lanes, `old` in the others."""
        return self.value(f"select {MASK} {lanes}, {kind} {new}, {kind} {old}")

    def without_lost(self, lanes: str) -> str:
        """Those of some lanes that are not lost."""
        lost = self.value(f"load {MASK}, ptr %lost")
        kept = self.value(f"xor {MASK} {lost}, splat (i1 true)")
        return self.value(f"and {MASK} {lanes}, {kept}")

    def lanes(self) -> str:
        """The lanes that are here."""
        return self.live or self.without_lost("%given")

    def branch_if_any(self, lanes: str, some: str, none: str) -> None:
        """Go on according to whether there are such lanes."""
        bits = self.value(f"bitcast {MASK} {lanes} to i{WIDTH}")
        any_ = self.value(f"icmp ne i{WIDTH} {bits}, 0")
        self.emit(f"br i1 {any_}, label %{some}, label %{none}")

    # Registers.

    def read(self, reg: Reg) -> str:
        """A register's value: a vector if it varies."""
        if reg in self.constants:
            text = self.constants[reg]
            return f"splat ({TYPES[reg.type]} {text})" if reg in self.found.varying else text
        slot = self.slots.get(reg)
        if slot is None:
            return self.values[reg]
        return self.value(f"load {self.kind(reg)}, ptr {slot}")

    def vector(self, reg: Reg) -> str:
        """A register's value in all lanes."""
        if reg in self.constants:
            return f"splat ({TYPES[reg.type]} {self.constants[reg]})"
        value = self.read(reg)
        return value if reg in self.found.varying else self.splat(value, reg.type)

    def write(self, reg: Reg, value: str, varies: bool) -> None:
        """Set a register, in the lanes that are here."""
        if reg in self.found.varying and not varies:
            value = self.splat(value, reg.type)
        slot = self.slots.get(reg)
        if slot is None:
            self.values[reg] = value
            return
        self.set(slot, self.kind(reg), value)

    def set(self, slot: str, kind: str, value: str) -> None:
        """Set a slot; in a region, in the lanes that are here."""
        if self.live:
            old = self.value(f"load {kind}, ptr {slot}")
            value = self.select(self.live, kind, value, old)
        self.emit(f"store {kind} {value}, ptr {slot}")
