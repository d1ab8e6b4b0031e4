"""Executes PTX for some threads at once, on NumPy: one array element a thread.

Threads that branch apart run their own ways until they meet (`order`). Instructions of the engines
(copies, barriers, matrix products) are only noted, with their operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tawa.base.numerics import Array, decode, encode, round_to, storage_dtype
from tawa.base.types import bf16, f16, f32, i8
from tawa.simulate.ptx.arithmetic import (
    ARITHMETIC,
    UNKNOWN,
    Unsupported,
    convert,
    dtype_of,
    saturated,
    unsigned,
)
from tawa.simulate.ptx.order import ranks
from tawa.simulate.ptx.program import Instruction, Kernel, split

SHARED, LOCAL, CONSTANTS, PARAMETERS = 1 << 56, 1 << 57, 1 << 58, 3 << 57
"""Where generic addresses of these memories begin."""

ENGINES = ("cp", "mbarrier", "bar", "barrier", "fence", "wgmma", "prefetch", "setmaxnreg")
STEPS = 2_000_000
"""Instructions that a run may take."""


class BadAccess(Exception):
    """A thread accesses memory that is not there, or at an address that is not a multiple."""


@dataclass
class Region:
    """Memory from an address on; `written` says which bytes were stored to."""

    first: int
    data: Array
    written: Array = field(init=False)

    def __post_init__(self) -> None:
        self.written = np.zeros(len(self.data), bool)


@dataclass
class Note:
    """An instruction of an engine: which threads ran it, and what it was given, as raw bits."""

    opcode: tuple[str, ...]
    operands: list[Array]
    threads: Array


class Machine:
    """The threads of one run of a kernel.

    `special` are registers such as `%tid.x`, `regions` the memory behind global addresses, `shared`
    the CTA's shared memory (which is changed in place).
    """

    def __init__(
        self,
        kernel: Kernel,
        parameters: Sequence[int],
        special: dict[str, Array],
        regions: Sequence[Region],
        shared: Region,
    ) -> None:
        self.kernel, self.special, self.shared = kernel, special, shared
        self.threads = len(special["%tid.x"])
        self.registers: dict[str, Array] = {}
        self.notes: list[Note] = []
        self.regions = list(regions)
        self.symbols: dict[str, int] = {"shared_memory": 0}
        at = CONSTANTS
        for name, data in kernel.arrays.items():
            local = name.startswith("__local_depot")
            self.symbols[name] = LOCAL if local else at
            if local:
                self.depot = np.zeros((self.threads, len(data)), np.uint8)
            else:
                self.regions.append(Region(at, np.frombuffer(data, np.uint8).copy()))
                at += -(-len(data) // 256) * 256 + 256
        at = PARAMETERS
        for (name, size), value in zip(kernel.parameters.items(), parameters, strict=True):
            whole = (value % (1 << 8 * size)).to_bytes(size, "little")
            self.symbols[name] = at
            self.regions.append(Region(at, np.frombuffer(whole, np.uint8).copy()))
            at += -(-size // 256) * 256

    def run(self) -> None:
        """Run all threads to their ends."""
        waiting, order = {0: np.ones(self.threads, bool)}, ranks(self.kernel)
        for _ in range(STEPS):
            if not waiting:
                return
            at = min(waiting, key=order.__getitem__)
            mask = waiting.pop(at)
            if at == len(self.kernel.code):
                continue
            instruction = self.kernel.code[at]
            active = mask
            if instruction.guard is not None:
                name, negated = instruction.guard
                active = mask & (self.raw(name, 1) ^ negated)
            gone = np.zeros(self.threads, bool)
            if instruction.opcode[0] in ("ret", "exit"):
                gone = active
            elif instruction.opcode[0] == "bra":
                gone = active
                target = self.kernel.target(instruction.operands[0], instruction.scope)
                self._join(waiting, target, active)
            elif active.any():
                self._step(instruction, active)
            self._join(waiting, at + 1, mask & ~gone)
        raise BadAccess(f"{self.kernel.name} does not end")

    @staticmethod
    def _join(waiting: dict[int, Array], at: int, mask: Array) -> None:
        if mask.any():
            waiting[at] = waiting[at] | mask if at in waiting else mask

    # --- registers --------------------------------------------------------------------------------

    def raw(self, operand: str, bits: int) -> Array:
        """The low bits of an operand, unsigned (or bool)."""
        found = self._operand(operand, bits)
        if bits == 1:
            return found.astype(bool)
        return found.astype(unsigned(bits))

    def _operand(self, operand: str, bits: int) -> Array:
        if operand in self.special:
            return self.special[operand]
        if operand in self.registers:
            return self.registers[operand]
        if operand[0] == "%" or not (operand[0].isdigit() or operand[0] == "-"):
            if operand in self.symbols:
                return np.full(self.threads, self.symbols[operand], np.uint64)
            # What was never written has no meaning: an operand that nobody reads.
            return np.zeros(self.threads, unsigned(max(8, self.kernel.width(operand))))
        return np.full(self.threads, _number(operand) % (1 << max(bits, 8)), unsigned(max(bits, 8)))

    def value(self, operand: str, kind: str) -> Array:
        """An operand as numbers of a PTX type."""
        dtype = dtype_of(kind)
        return self.raw(operand, 1 if kind == "pred" else 8 * dtype.itemsize).view(dtype)

    def write(self, register: str, values: Array, mask: Array) -> None:
        """Set a register in some threads; signed numbers are widened with their sign."""
        if register == "_":
            return
        width = self.kernel.width(register)
        if width == 1:
            new = values.astype(bool)
        else:
            if values.dtype.kind == "f":
                values = values.view(unsigned(8 * values.dtype.itemsize))
            new = values.astype(unsigned(width))
        old = self.registers.get(register)
        if old is not None and not mask.all():
            new = np.where(mask, new, old)
        self.registers[register] = new

    # --- instructions -----------------------------------------------------------------------------

    def _step(self, instruction: Instruction, mask: Array) -> None:
        base, operands = instruction.opcode[0], instruction.operands
        if not UNKNOWN.isdisjoint(instruction.opcode):
            raise Unsupported(instruction.text)
        if base in ARITHMETIC:
            kind, function = ARITHMETIC[base](instruction.opcode)
            function = saturated(instruction.opcode, function)
            sources = [self.value(o, k) for o, k in zip(operands[1:], kind, strict=False)]
            with np.errstate(all="ignore"):
                self.write(operands[0], function(*sources), mask)
        elif base in STEPS_OF:
            STEPS_OF[base](self, instruction, mask)
        elif base in ENGINES:
            self._note(instruction, mask)
        else:
            raise Unsupported(instruction.text)

    def _note(self, instruction: Instruction, mask: Array) -> None:
        words = " ".join(instruction.operands).translate(str.maketrans("{}[],", "     ")).split()
        if "try_wait" in instruction.opcode:  # it succeeds at once
            self.write(words.pop(0), np.ones(self.threads, bool), mask)
        found = [self._whole(word) for word in words if word != "_"]
        self.notes.append(Note(instruction.opcode, found, mask))

    def _whole(self, word: str) -> Array:
        bits = 64
        if word[0] == "%" or word[0].isalpha():
            bits = 64 if word in self.symbols else self.kernel.width(word)
        return self.raw(word, bits)

    # --- memory -----------------------------------------------------------------------------------

    def address(self, operand: str) -> Array:
        """Each thread's address in brackets."""
        name, _, offset = operand.strip("[]").partition("+")
        return self.raw(name.strip(), 64).astype(np.int64) + (_number(offset) if offset else 0)

    def load(self, at: Array, size: int, space: str, mask: Array) -> Array:
        """`[thread, byte]`."""
        data = np.zeros((self.threads, size), np.uint8)
        for region, first, threads in self._regions(at, size, space, mask):
            where = (at[threads] - first)[:, None] + np.arange(size)
            if region is None:
                data[threads] = self.depot[np.flatnonzero(threads)[:, None], where]
            else:
                data[threads] = region.data[where]
        return data

    def store(self, at: Array, data: Array, space: str, mask: Array) -> None:
        """Write `data[thread, byte]`; of equal addresses the last thread's wins."""
        for region, first, threads in self._regions(at, data.shape[1], space, mask):
            where = (at[threads] - first)[:, None] + np.arange(int(data.shape[1]))
            if region is None:
                self.depot[np.flatnonzero(threads)[:, None], where] = data[threads]
            else:
                region.data[where] = data[threads]
                region.written[where] = True

    def _regions(
        self, at: Array, size: int, space: str, mask: Array
    ) -> Iterator[tuple[Region | None, int, Array]]:
        """The memories accessed, where each begins, by whom; None is the threads' own."""
        if (at[mask] % size).any():
            raise BadAccess(f"{size} bytes at an address that is not a multiple")
        left = mask
        while left.any():
            low = int(at[left].min())
            region, first, end = self._at(low, space)
            inside = left & (at >= low) & (at + size <= end)
            if not inside.any():
                raise BadAccess(f"{size} bytes at {low:#x}")
            yield region, first, inside
            left = left & ~inside

    def _at(self, address: int, space: str) -> tuple[Region | None, int, int]:
        """The memory at an address, where it begins and ends."""
        if space == "local" or LOCAL <= address < CONSTANTS:
            first = LOCAL if address >= LOCAL else 0
            return None, first, first + self.depot.shape[1]
        if space == "shared" or SHARED <= address < LOCAL:
            first = SHARED if address >= SHARED else 0
            return self.shared, first, first + len(self.shared.data)
        for region in self.regions:
            if region.first <= address < region.first + len(region.data):
                return region, region.first, region.first + len(region.data)
        raise BadAccess(f"address {address:#x}")


def _number(text: str) -> int:
    """An integer, or the bits of a floating-point constant."""
    text = text.strip().rstrip("U")
    if text[:2].lower() in ("0f", "0d"):
        return int(text[2:], 16)
    return int(text, 0)


def _load(m: Machine, i: Instruction, mask: Array) -> None:
    kind = i.opcode[-1]
    size = dtype_of(kind).itemsize
    targets = split(i.operands[0].strip("{}"))
    name = i.operands[1].strip("[]").partition("+")[0].strip()
    if "param" in i.opcode and name[0] != "%" and name not in m.symbols:
        m.write(targets[0], np.zeros(m.threads, dtype_of(kind)), mask)  # what a function returned
        return
    at = m.address(i.operands[1])
    data = m.load(at, size * len(targets), _space(i), mask)
    for number, target in enumerate(targets):
        part = np.ascontiguousarray(data[:, number * size : (number + 1) * size])
        m.write(target, part.view(dtype_of(kind))[:, 0], mask)


def _store(m: Machine, i: Instruction, mask: Array) -> None:
    if "param" in i.opcode:
        return  # what a function is given
    kind = i.opcode[-1]
    size = dtype_of(kind).itemsize
    values = [m.raw(name, 8 * size) for name in split(i.operands[1].strip("{}"))]
    data = np.stack(values, axis=1).view(np.uint8).reshape(m.threads, -1)
    m.store(m.address(i.operands[0]), data, _space(i), mask)


def _space(i: Instruction) -> str:
    return next((s for s in ("shared", "local", "global") if s in i.opcode), "")


def _move(m: Machine, i: Instruction, mask: Array) -> None:
    target, source = i.operands
    kind = i.opcode[-1]
    if target[0] == "{":
        parts = split(target.strip("{}"))
        whole, bits = m.value(source, kind), 8 * dtype_of(kind).itemsize // len(parts)
        for number, part in enumerate(parts):
            m.write(part, (whole >> whole.dtype.type(number * bits)).astype(unsigned(bits)), mask)
    elif source[0] == "{":
        parts = split(source.strip("{}"))
        bits = 8 * dtype_of(kind).itemsize // len(parts)
        values = np.stack([m.raw(part, bits) for part in parts], axis=1)
        m.write(target, values.view(dtype_of(kind))[:, 0], mask)
    else:
        m.write(target, m.value(source, kind), mask)


def _to_generic(m: Machine, i: Instruction, mask: Array) -> None:
    """`cvta.shared.u64` to a generic address, `cvta.to.shared.u64` from one."""
    value = m.raw(i.operands[1], 64)
    if "shared" in i.opcode:
        value = value - SHARED if "to" in i.opcode else value + SHARED
    m.write(i.operands[0], value, mask)


def _convert(m: Machine, i: Instruction, mask: Array) -> None:
    source = [k for k in i.opcode if k not in ("relu", "satfinite")][-1]
    width = "b16" if source.endswith("x2") and source[0] == "e" else source
    width = "b16" if source == "bf16" else width
    values = [m.value(operand, width) for operand in i.operands[1:]]
    with np.errstate(all="ignore"):
        m.write(i.operands[0], convert(i.opcode, values), mask)


def _whole_warps(mask: Array, i: Instruction) -> Array:
    """The first thread of each one's warp."""
    if (
        len(mask) % 32
        or (mask.reshape(-1, 32).any(axis=1) != mask.reshape(-1, 32).all(axis=1)).any()
    ):
        raise BadAccess(f"only some lanes run {i.text}")
    return np.arange(len(mask)) // 32 * 32


def _shuffle(m: Machine, i: Instruction, mask: Array) -> None:
    first = _whole_warps(mask, i)
    target, _, valid = i.operands[0].partition("|")
    lane, by = np.arange(m.threads) % 32, m.value(i.operands[2], "s32")
    source = {"bfly": lane ^ by, "idx": by & 31, "up": lane - by, "down": lane + by}[i.opcode[2]]
    inside = (source >= 0) & (source < 32)
    source = first + np.where(inside, source, lane)
    m.write(target, m.raw(i.operands[1], 32)[source], mask)
    if valid:
        m.write(valid, inside, mask)


def _elect(m: Machine, i: Instruction, mask: Array) -> None:
    _whole_warps(mask, i)
    m.write(i.operands[0].partition("|")[2], np.arange(m.threads) % 32 == 0, mask)


def _vote(m: Machine, i: Instruction, mask: Array) -> None:
    _whole_warps(mask, i)
    lanes = (m.raw(i.operands[1].lstrip("!"), 1) ^ i.operands[1].startswith("!")).reshape(-1, 32)
    if i.opcode[2] == "ballot":
        answer = (lanes.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(axis=1)
    else:
        answer = {"any": np.any, "all": np.all}[i.opcode[2]](lanes, axis=1)
    m.write(i.operands[0], np.repeat(answer, 32), mask)


def _reduce(m: Machine, i: Instruction, mask: Array) -> None:
    _whole_warps(mask, i)
    functions: dict[str, Callable[..., Any]] = {
        "max": np.max, "min": np.min, "add": np.sum,
        "and": np.bitwise_and.reduce, "or": np.bitwise_or.reduce,
        "xor": np.bitwise_xor.reduce,
    }  # fmt: skip
    lanes = m.value(i.operands[1], i.opcode[-1]).reshape(-1, 32)
    m.write(i.operands[0], np.repeat(functions[i.opcode[2]](lanes, axis=1), 32), mask)


def _matrices(m: Machine, i: Instruction, mask: Array) -> None:
    """`ldmatrix`, `stmatrix`: lane 8 j + r names row r of matrix j; a lane holds two elements."""
    first = _whole_warps(mask, i)
    loading = i.opcode[0] == "ldmatrix"
    words, place = i.operands if loading else i.operands[::-1]
    names = split(words.strip("{}"))
    at, lane = m.address(place), np.arange(m.threads) % 32
    element = np.arange(2)
    for j, name in enumerate(names):
        row, column = (lane // 4)[:, None] + 0 * element, 2 * (lane % 4)[:, None] + element
        if "trans" in i.opcode:
            row, column = column, row
        where = at[first[:, None] + 8 * j + row] + 2 * column
        if loading:
            halves = [m.load(where[:, e], 2, "shared", mask) for e in range(2)]
            word = np.ascontiguousarray(np.concatenate(halves, axis=1)).view(np.uint32)[:, 0]
            m.write(name, word, mask)
        else:
            halves = m.raw(name, 32).view(np.uint8).reshape(-1, 4)
            for e in range(2):
                m.store(where[:, e], halves[:, 2 * e : 2 * e + 2], "shared", mask)
    rows = at.reshape(-1, 32)[mask[::32], : 8 * len(names)]  # others may not have come here yet
    if (rows % 16).any():
        raise BadAccess("a matrix's row does not begin at a multiple of 16 bytes")


def _product(m: Machine, i: Instruction, mask: Array) -> None:
    """`mma.sync`: 16 x 8 results of a warp, K as the operands' sizes say (PTX ISA, fragments)."""
    first = _whole_warps(mask, i)
    kinds, size = (
        i.opcode[-4:],
        4 if i.opcode[-3] == "tf32" else 1 if i.opcode[-3][1:] == "8" else 2,
    )
    if i.opcode[3][:6] != "m16n8k" or i.opcode[-3][0] == "e":
        raise Unsupported(i.text)
    per, lanes = 4 // size, np.arange(32)
    group, within = lanes // 4, lanes % 4
    element = {"f16": f16, "bf16": bf16, "tf32": f32, "s8": i8}[kinds[1]]

    def operand(text: str) -> Array:
        """`[warp, lane, register, element]`."""
        words = np.stack([m.raw(name, 32) for name in split(text.strip("{}"))], axis=1)
        if kinds[1] == "tf32":
            words = words & np.uint32(0xFFFFE000)
        values = decode(words.view(storage_dtype(element)), element)
        return values.reshape(-1, 32, words.shape[1], per)

    wide = np.int64 if kinds[0] == "s32" else np.float64
    a_words, b_words = operand(i.operands[1]), operand(i.operands[2])
    inner = 4 * per * b_words.shape[2]
    a, b = np.zeros((len(a_words), 16, inner), wide), np.zeros((len(a_words), inner, 8), wide)
    for e in range(per):
        for r in range(a_words.shape[2]):
            column = within * per + e + r // 2 * 4 * per
            a[:, group + 8 * (r % 2), column] = a_words[:, :, r, e]
        for r in range(b_words.shape[2]):
            b[:, within * per + e + r * 4 * per, group] = b_words[:, :, r, e]
    product = a @ b
    names = zip(split(i.operands[0].strip("{}")), split(i.operands[3].strip("{}")), strict=True)
    kind = dtype_of(kinds[0])
    held = 4 // kind.itemsize  # sums of a register
    for r, (target, start) in enumerate(names):
        places = [divmod(held * r + e, 2) for e in range(held)]
        found = [product[:, group + 8 * down, 2 * within + right] for down, right in places]
        before = m.raw(start, 32)[:, None].view(kind)
        total = (np.stack(found, axis=-1).reshape(-1, held) + before).astype(kind)
        m.write(target, total.view(np.uint32)[:, 0], mask)
    del first


def _map_to_cta(m: Machine, i: Instruction, mask: Array) -> None:
    """An address of another CTA: which one, above the 24 bits of the address."""
    cta = m.raw(i.operands[2], 32) + np.uint32(1)
    m.write(i.operands[0], m.raw(i.operands[1], 32) | cta << np.uint32(24), mask)


def _update(m: Machine, i: Instruction, mask: Array) -> None:
    """`atom`, and `red` without a result: each thread in turn."""
    returns, kind = i.opcode[0] == "atom", i.opcode[-1]
    target, operands = (i.operands[0], i.operands[1:]) if returns else ("_", i.operands)
    names = split(operands[1].strip("{}"))
    targets = split(target.strip("{}")) if returns else ()
    name = next(word for word in i.opcode if word in UPDATES)
    size, at = _bytes(kind), m.address(operands[0])
    given = [m.raw(n, 8 * size).view(np.uint8).reshape(m.threads, size) for n in names]
    more = [m.raw(n, 8 * size).view(np.uint8).reshape(m.threads, size) for n in operands[2:3]]
    old = np.zeros((len(names), m.threads, size), np.uint8)
    for thread in np.flatnonzero(mask):
        one = np.zeros(m.threads, bool)
        one[thread] = True
        for number, value in enumerate(given):
            place = at + number * size
            held = m.load(place, size, _space(i), one)
            old[number, thread] = held[thread]
            words = [_numbers(w[thread], kind) for w in (held, value, *more)]
            new = np.zeros((m.threads, size), np.uint8)
            new[thread] = _stored(UPDATES[name](*words), kind)
            m.store(place, new, _space(i), one)
    for number, register in enumerate(targets):
        word = np.ascontiguousarray(old[number]).view(unsigned(8 * size))[:, 0]
        m.write(register, word, mask)


def _bytes(kind: str) -> int:
    return 2 if kind == "bf16" else dtype_of(kind).itemsize


def _numbers(raw: Array, kind: str) -> Array:
    """Bytes as numbers of a type; two halves where it says so."""
    element = {"f16x2": f16, "bf16x2": bf16, "f16": f16, "bf16": bf16}.get(kind)
    raw = np.ascontiguousarray(raw)
    return (
        raw.view(dtype_of(kind))
        if element is None
        else decode(raw.view(storage_dtype(element)), element)
    )


def _stored(values: Array, kind: str) -> Array:
    element = {"f16x2": f16, "bf16x2": bf16, "f16": f16, "bf16": bf16}.get(kind)
    if element is not None:
        values = encode(round_to(np.asarray(values, np.float32), element), element)
    else:
        values = np.asarray(values).astype(dtype_of(kind))
    return np.ascontiguousarray(values).view(np.uint8)


def _swapped(old: Array, expected: Array, new: Array) -> Array:
    return np.where(old == expected, new, old)


def _next(old: Array, limit: Array) -> Array:
    return np.where(old >= limit, 0, old + 1)


UPDATES: dict[str, Callable[..., Array]] = {
    "add": lambda a, b: a + b, "exch": lambda _, b: b, "min": np.minimum, "max": np.maximum,
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "cas": _swapped, "inc": _next,
}  # fmt: skip
"""What an atomic operation writes, of what was there and what is given."""


def _call(m: Machine, i: Instruction, mask: Array) -> None:
    """Functions of the device's system: a failed assertion, and printing, which says nothing."""
    if "__assertfail" in i.text:
        raise BadAccess(f"an assertion of {int(mask.sum())} threads does not hold")
    if "vprintf" not in i.text:
        raise Unsupported(i.text)


def _nothing(m: Machine, i: Instruction, mask: Array) -> None:
    del m, i, mask


def _trap(m: Machine, i: Instruction, mask: Array) -> None:
    raise BadAccess("the kernel traps")


STEPS_OF: dict[str, Callable[[Machine, Instruction, Array], None]] = {
    "ld": _load, "st": _store, "mov": _move, "cvta": _to_generic, "cvt": _convert,
    "shfl": _shuffle, "vote": _vote, "elect": _elect, "redux": _reduce, "ldmatrix": _matrices,
    "stmatrix": _matrices, "mapa": _map_to_cta, "mma": _product, "griddepcontrol": _nothing,
    "atom": _update, "red": _update, "call": _call, "membar": _nothing, "nanosleep": _nothing,
    "trap": _trap,
}  # fmt: skip
