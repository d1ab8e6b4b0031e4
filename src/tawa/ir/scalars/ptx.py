"""A small interpreter of PTX: what inline assembly means in the simulator.

It knows the instructions of arithmetic, bits and conversions that kernels write inline (PTX ISA,
chapter 9.7). Registers hold bits (uint64), one array entry for each execution; a `.reg` line, an
operand `$i` or a first use makes one. Anything else is an `UnknownInstruction`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from time import perf_counter_ns
from typing import Any

import numpy as np

from tawa.base.errors import TawaError
from tawa.base.numerics import Array, decode, encode, flush, round_to, to_integers
from tawa.base.types import NAMES, is_float
from tawa.ir.scalars.table import FUNCTIONS


class UnknownInstruction(TawaError):
    """Inline assembly has an instruction that the simulator does not know."""

    explanation = (
        "Inline assembly goes to the GPU's assembler as it is. The simulator interprets the "
        "instructions that compute: arithmetic, logic, shifts, comparisons and conversions. Others "
        "(memory, special registers, warp-wide ones) run on a GPU only."
    )
    example = """
import numpy as np
import tawa
import tawa.language as tl


@tawa.jit
def clock(y):
    tl.store(y, tl.inline_asm_elementwise("mov.u32 $0, %clock;", "=r", [], tl.int32, False, 1))


clock[(1,)](np.zeros(1, np.int32))
"""


_TYPES = {
    "b8": "i8", "s8": "i8", "u8": "i8", "b16": "i16", "s16": "i16", "u16": "i16", "b32": "i32",
    "s32": "i32", "u32": "i32", "b64": "i64", "s64": "i64", "u64": "i64", "f16": "f16",
    "bf16": "bf16", "f32": "f32", "f64": "f64", "pred": "i1", "e4m3": "e4m3", "e5m2": "e5m2",
}  # fmt: skip
_WIDTHS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "f16": 16, "bf16": 16, "f32": 32,
           "f64": 64, "e4m3": 8, "e5m2": 8}  # fmt: skip

_FLOAT = {
    "add": "addf", "sub": "subf", "mul": "mulf", "fma": "fma", "mad": "fma", "div": "divf",
    "min": "minnumf", "max": "maxnumf", "abs": "absf", "neg": "negf",
    "lg2": "log2", "sqrt": "sqrt", "rsqrt": "rsqrt", "sin": "sin", "cos": "cos", "tanh": "tanh",
}  # fmt: skip
"""Instructions on floats that are scalar functions of the same meaning."""
_ONE_FLOAT = {"rcp": np.reciprocal, "ex2": np.exp2}
"""Those that keep denormals, where the scalar functions don't."""


def _unsigned(value: Array, width: int) -> Array:
    return value & np.uint64((1 << width) - 1)


def _signed(value: Array, width: int) -> Array:
    shift = np.uint64(64 - width)
    return (value << shift).view(np.int64) >> np.int64(64 - width)


def _value(bits: Array, name: str) -> Array:
    """Bits as values of a type: signed integers, or floats."""
    width = _WIDTHS[name]
    if not is_float(NAMES[name]):
        return _signed(bits, width)
    stored = _unsigned(bits, width).astype(f"uint{width}")
    if name in ("f16", "f32", "f64"):
        return stored.view(f"float{width}")
    return np.asarray(decode(stored, NAMES[name]))


def _bits(value: Array, name: str) -> Array:
    """Values of a type as bits."""
    width = _WIDTHS[name]
    if not is_float(NAMES[name]):
        return _unsigned(np.asarray(value).astype(np.int64).view(np.uint64), width)
    rounded = encode(round_to(np.asarray(value), NAMES[name]), NAMES[name])
    return np.ascontiguousarray(rounded).view(f"uint{width}").astype(np.uint64)


def _shift(name: str, value: Array, count: Array, kind: str) -> Array:
    """Shifts, where a count of the width or more gives zeros (or signs)."""
    width = _WIDTHS[_TYPES[kind]]
    most = np.minimum(_unsigned(count, 32), np.uint64(width))
    if name == "shl":
        return np.where(most < 64, value << np.minimum(most, np.uint64(63)), np.uint64(0))
    if kind[0] == "s":
        moved = _signed(value, width) >> np.minimum(most, np.uint64(63)).view(np.int64)
        return moved.view(np.uint64)
    whole = _unsigned(value, width)
    return np.where(most < 64, whole >> np.minimum(most, np.uint64(63)), np.uint64(0))


def _lop3(a: Array, b: Array, c: Array, table: Array) -> Array:
    """Any function of three bits, as a table of eight."""
    chosen = int(np.ravel(table)[0])
    total = np.zeros_like(a)
    for row in range(8):
        if chosen >> row & 1:
            sides = [x if row >> (2 - i) & 1 else ~x for i, x in enumerate((a, b, c))]
            total = total | (sides[0] & sides[1] & sides[2])
    return total


def _prmt(a: Array, b: Array, selector: Array) -> Array:
    """Four bytes of eight, by the nibbles of a selector; bit 3 of one spreads the sign."""
    both = _unsigned(a, 32) | (b << np.uint64(32))
    total = np.zeros_like(a)
    for i in range(4):
        nibble = (selector >> np.uint64(4 * i)) & np.uint64(15)
        byte = (both >> ((nibble & np.uint64(7)) * np.uint64(8))) & np.uint64(255)
        sign = np.where(byte >> np.uint64(7) == 1, np.uint64(255), np.uint64(0))
        total |= np.where(nibble & np.uint64(8) != 0, sign, byte) << np.uint64(8 * i)
    return total


def _funnel(modifiers: Sequence[str], low: Array, high: Array, count: Array) -> Array:
    """32 bits of the 64 of two registers, shifted: the upper ones to the left, else the lower."""
    whole = _unsigned(low, 32) | (_unsigned(high, 32) << np.uint64(32))
    wraps = "wrap" in modifiers
    n = count & np.uint64(31) if wraps else np.minimum(_unsigned(count, 32), np.uint64(32))
    return whole >> (n if "r" in modifiers else np.uint64(32) - n)


def _product(modifiers: Sequence[str], kind: str, a: Array, b: Array) -> Array:
    """The product of all bits of two registers of up to 32, or its upper half."""
    width = _WIDTHS[_TYPES[kind]]
    if kind[0] == "s":
        whole = (_signed(a, width) * _signed(b, width)).view(np.uint64)
    else:
        whole = _unsigned(a, width) * _unsigned(b, width)
    return whole if "wide" in modifiers else whole >> np.uint64(width)


def _extract(value: Array, start: Array, length: Array, kind: str) -> Array:
    """A field of bits, its sign extended for signed types."""
    width = _WIDTHS[_TYPES[kind]]
    start, length = start & np.uint64(255), length & np.uint64(255)
    moved = _shift("shr", value, start, kind)
    keep = np.minimum(length, np.uint64(width))
    mask = np.where(keep >= 64, ~np.uint64(0), (np.uint64(1) << (keep & np.uint64(63))) - 1)
    found = moved & mask
    if kind[0] == "s":
        top = np.where(keep > 0, (found >> (np.maximum(keep, 1) - 1).astype(np.uint64)) & 1, 0)
        found = np.where(top == 1, found | ~mask, found)
    return found


_INTEGER: dict[str, Callable[..., Array]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "mad": lambda a, b, c: a * b + c,
    "neg": lambda a: ~a + np.uint64(1),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a: ~a,
    "mov": lambda a: a,
    "lop3": _lop3,
    "prmt": _prmt,
}
"""Instructions on integers, on 64 bits: the result's width is cut off after."""

_SPECIAL: dict[str, Callable[[], int]] = {"%globaltimer": perf_counter_ns, "%smid": lambda: 0}
"""Special registers: nanoseconds, and the multiprocessor, of which the simulator has one."""

COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": lambda a, b: (a != b) & (a == a) & (b == b), "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "lo": np.less,
    "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
    "equ": lambda a, b: ~((a < b) | (a > b)), "neu": np.not_equal,
    "ltu": lambda a, b: ~(a >= b), "leu": lambda a, b: ~(a > b), "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b), "num": lambda a, b: (a == a) & (b == b),
    "nan": lambda a, b: (a != a) | (b != b),
}  # fmt: skip
"""Those that end in `u` hold where an operand is no number, the others do not."""


@dataclass(frozen=True)
class _Statement:
    guard: str | None
    name: str
    modifiers: tuple[str, ...]
    operands: tuple[str, ...]


def _statements(text: str) -> list[_Statement]:
    """The instructions of a text; declarations and braces of blocks only make names."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
    found: list[_Statement] = []
    for raw in re.split(r";", text):
        line = re.sub(r"^[\s{}]+", "", raw.strip())
        line = line if "{" in line else line.rstrip("} \n\t")
        if not line or line.startswith(".reg"):
            continue
        guard, rest = re.match(r"(?:@(!?[\w%$.]+)\s+)?(.*)", line, flags=re.S).groups()  # pyright: ignore
        head, _, tail = rest.partition(" ")
        name, *modifiers = head.strip().split(".")
        pieces = re.findall(r"\{[^}]*\}|[^,{}]+", tail)
        operands = tuple(p.strip() for p in pieces if p.strip())
        found.append(_Statement(guard, name, tuple(modifiers), operands))
    return found


@dataclass
class _Machine:
    """Registers of all executions."""

    count: int
    text: str
    registers: dict[str, Array] = field(default_factory=dict[str, Array])

    def unknown(self, what: str) -> UnknownInstruction:
        return UnknownInstruction(
            f"the simulator does not know `{what}`",
            found=" ".join(self.text.split())[:200],
            hint="run this kernel on a GPU, or use a function of the language",
        )

    def read(self, operand: str, kind: str = "b32") -> Array:
        """Bits of a register or a number."""
        operand = operand.strip()
        negative = operand.startswith("!")
        operand = operand.lstrip("!")
        if operand in self.registers:
            found = self.registers[operand]
            return np.where(found & 1 == 1, np.uint64(0), np.uint64(1)) if negative else found
        if operand in _SPECIAL:
            return np.full(self.count, _SPECIAL[operand](), np.uint64)
        return np.full(self.count, self._number(operand, kind), np.uint64)

    def _number(self, text: str, kind: str) -> np.uint64:
        if re.fullmatch(r"0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}", text):
            return np.uint64(int(text[2:], 16))
        try:
            if is_float(NAMES[_TYPES.get(kind, "i32")]):
                return np.uint64(_bits(np.asarray([float(text)]), _TYPES[kind])[0])
            return np.uint64(int(text.rstrip("uU"), 0) & (1 << 64) - 1)
        except ValueError:
            raise self.unknown(text) from None

    def write(self, operand: str, bits: Array, guard: Array | None) -> None:
        old = self.registers.get(operand)
        if guard is not None and old is not None:
            bits = np.where(guard, bits, old)
        self.registers[operand] = np.asarray(bits, np.uint64)

    def step(self, s: _Statement) -> None:
        """Run one instruction."""
        guard = None if s.guard is None else self.read(s.guard) & np.uint64(1) == 1
        kind = next((m for m in reversed(s.modifiers) if m in _TYPES or m[:-2] in _TYPES), "b32")
        target, *sources = s.operands
        if s.name == "mov" and (target[0] == "{" or sources[0][0] == "{"):
            self._packed_move(target, sources[0], _WIDTHS[_TYPES[kind]], guard)
            return
        self.write(target, self._result(s, kind, sources), guard)

    def _packed_move(self, target: str, source: str, width: int, guard: Array | None) -> None:
        if target[0] == "{":
            names = [n.strip() for n in target[1:-1].split(",")]
            part, whole = width // len(names), self.read(source)
            for i, name in enumerate(names):
                self.write(name, _unsigned(whole >> np.uint64(part * i), part), guard)
            return
        names = [n.strip() for n in source[1:-1].split(",")]
        part = width // len(names)
        parts = [_unsigned(self.read(n), part) << np.uint64(part * i) for i, n in enumerate(names)]
        self.write(target, reduce(np.bitwise_or, parts), guard)

    def _result(self, s: _Statement, kind: str, sources: Sequence[str]) -> Array:
        if s.name == "cvt":
            return self._convert(s.modifiers, sources)
        if kind.endswith("x2") and kind[:-2] in _TYPES:
            return self._pairs(s, kind[:-2], sources)
        values = [self.read(x, kind) for x in sources]
        name = _TYPES[kind]
        width = _WIDTHS[name]
        if s.name == "setp":
            a, b = (_compared(v, kind) for v in values[:2])
            way = next((m for m in s.modifiers if m in COMPARISONS), None)
            if way is None:
                raise self.unknown(".".join((s.name, *s.modifiers)))
            return COMPARISONS[way](a, b).astype(np.uint64)
        if s.name == "selp":
            return np.where(values[2] & np.uint64(1) == 1, values[0], values[1])
        if is_float(NAMES[name]) and s.name != "mov":
            return self._float(s, name, values)
        if s.name in ("mul", "mad") and "wide" in s.modifiers and width < 64:
            wide = _product(s.modifiers, kind, values[0], values[1])
            added = wide + values[2] if s.name == "mad" else wide
            return _unsigned(added, 2 * width)
        return _unsigned(self._integer(s, kind, values), width)

    def _float(self, s: _Statement, name: str, values: Sequence[Array]) -> Array:
        flushed = flush if "ftz" in s.modifiers else np.asarray
        operands = [flushed(_value(v, name)) for v in values]
        if s.name in _ONE_FLOAT:
            return _bits(flushed(_ONE_FLOAT[s.name](operands[0])), name)
        if s.name not in _FLOAT:
            raise self.unknown(".".join((s.name, *s.modifiers)))
        type_ = NAMES[name]
        found = FUNCTIONS[_FLOAT[s.name]].evaluate([type_] * len(operands), type_, *operands)
        found = flushed(found)
        if "sat" in s.modifiers:
            found = np.clip(np.nan_to_num(found), 0, 1)
        if "relu" in s.modifiers:
            found = np.maximum(found, 0)
        return _bits(found, name)

    def _pairs(self, s: _Statement, name: str, sources: Sequence[str]) -> Array:
        """Two 16-bit values a register, each by itself."""
        words = [self.read(x) for x in sources]
        halves = [
            self._float(s, name, [_unsigned(w >> np.uint64(16 * i), 16) for w in words])
            for i in range(2)
        ]
        return halves[0] | halves[1] << np.uint64(16)

    def _integer(self, s: _Statement, kind: str, values: Sequence[Array]) -> Array:
        width = _WIDTHS[_TYPES[kind]]
        if s.name in ("shl", "shr"):
            return _shift(s.name, values[0], values[1], kind)
        if s.name == "bfe":
            return _extract(values[0], values[1], values[2], kind)
        if s.name in ("min", "max"):
            a, b = (_compared(v, kind) for v in values)
            return np.where((a < b) == (s.name == "min"), values[0], values[1])
        if s.name == "abs":
            return np.abs(_signed(values[0], width)).view(np.uint64)
        if s.name == "popc":
            return np.bitwise_count(_unsigned(values[0], width)).astype(np.uint64)  # pyright: ignore
        if s.name == "shf":
            return _funnel(s.modifiers, *values)
        if s.name == "mul" and "hi" in s.modifiers and width < 64:
            return _product(s.modifiers, kind, values[0], values[1])
        if s.name in ("mul", "mad") and {"hi", "wide"} & set(s.modifiers):
            raise self.unknown(".".join((s.name, *s.modifiers)))
        if s.name not in _INTEGER:
            raise self.unknown(".".join((s.name, *s.modifiers)))
        return _INTEGER[s.name](*values)

    def _convert(self, modifiers: Sequence[str], sources: Sequence[str]) -> Array:
        types = [m for m in modifiers if m in _TYPES or m == "tf32" or m[:-2] in _TYPES]
        target, source = types[0], types[-1]
        values = [self.read(x, source) for x in sources]
        if target == "tf32":
            return (values[0] + np.uint64(0x1000)) & np.uint64(0xFFFFE000)
        if target.endswith("x2") or source.endswith("x2"):
            return self._convert_pairs(target, source, values)
        found = (
            _compared(values[0], source) if source[0] == "u" else _value(values[0], _TYPES[source])
        )
        if is_float(NAMES[_TYPES[source]]) and not is_float(NAMES[_TYPES[target]]):
            way = next((m for m in modifiers if m in ("rni", "rzi", "rmi", "rpi")), "rzi")
            rounded = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[way]
            kind = np.dtype(f"{target[0].replace('s', 'i')}{_WIDTHS[_TYPES[target]] // 8}")
            found = to_integers(rounded(found), kind)
        elif "rz" in modifiers:
            return _towards_zero(found, _TYPES[target])
        return _bits(found, _TYPES[target])

    def _convert_pairs(self, target: str, source: str, values: Sequence[Array]) -> Array:
        to, of = _TYPES[target.removesuffix("x2")], _TYPES[source.removesuffix("x2")]
        if source.endswith("x2"):
            part = _WIDTHS[of]
            values = [_unsigned(values[0] >> np.uint64(part * i), part) for i in (1, 0)]
        high, low = (_bits(_value(v, of), to) for v in values)
        return low | high << np.uint64(_WIDTHS[to])


def _towards_zero(value: Array, name: str) -> Array:
    """Bits of the value of a smaller type that is nearest in the direction of zero."""
    bits = _bits(value, name)
    away = np.abs(_value(bits, name).astype(np.float64)) > np.abs(value.astype(np.float64))
    return np.where(away, bits - np.uint64(1), bits)


def _compared(bits: Array, kind: str) -> Array:
    """What comparisons of a type see."""
    name = _TYPES[kind]
    if kind[0] in "ub" and name != "bf16":
        return _unsigned(bits, _WIDTHS[name])
    return _value(bits, name)


def evaluate(text: str, inputs: Sequence[Array], outputs: int) -> list[Array]:
    """Run assembly: `$0` ... are `outputs` results and then the inputs, as bits (uint64).

    Raises UnknownInstruction.
    """
    count = len(inputs[0]) if inputs else 1
    machine = _Machine(count, text)
    zero = np.zeros(count, np.uint64)
    values: list[Any] = [*([zero] * outputs), *inputs]
    machine.registers.update({f"${i}": np.asarray(v, np.uint64) for i, v in enumerate(values)})
    with np.errstate(all="ignore"):
        for statement in _statements(text.replace("$$", "$")):
            machine.step(statement)
    return [machine.registers[f"${i}"] for i in range(outputs)]
