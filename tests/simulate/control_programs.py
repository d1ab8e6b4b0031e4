"""Random programs of control flow: a seed gives the source, the options, the arrays.

Numbers of several types, tiles, pointers, tiles of pointers, descriptors and tuples are carried by
loops in loops, chosen by branches, handed to helpers that return at several places, and come back from
atomics of every kind. Programs wait for each other by flags and take turns by a lock. All numbers
are small integers, so that results are compared exactly.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import sequential
from memory_programs import Nest, lines, one_less
from sequential import Descriptor, Pointer

import tawa

WORDS = 16384
"""Elements of the array that pointers walk through."""
SPACE = 64
"""Elements of each kind of atomic, and of each program."""
SLOTS = 16
"""Kinds of atomics, at most."""

ARRAYS: dict[str, Any] = {
    "ai": np.int32, "al": np.int64, "af": np.float32, "ah": np.float16, "ad": np.float64,
}  # fmt: skip
"""Of atomics, by their elements."""
TYPES = {"ai": "int32", "al": "int64", "af": "float32", "ah": "float16", "ad": "float64"}
WHOLE = ("add", "max", "min", "and", "or", "xor")
UPDATES = {"ai": WHOLE, "al": WHOLE, "af": ("add", "max", "min"), "ah": ("add",), "ad": ("add",)}

HELPERS = """@tawa.jit
def small(x):
    return tl.minimum(tl.maximum(x, -8), 7)


@tawa.jit
def early(x, y, s):
    if s > 2:
        return x, s - 1
    if s < 1:
        z = y
        for k in range(s + 2):
            z = small(z + k)
        return z, s + 1
    return small(x - y), s


@tawa.jit
def pick(p, q, s):
    if s % 2 == 0:
        return p
    return q + 3


@tawa.jit
def turned(pair):
    return pair[1], pair[0]


@tawa.jit
def first_of(d, e, s, at):
    if s > 1:
        return d.load([at, 0])
    else:
        return e.load([at, 0])


@tawa.jit
def search(p, s):
    k = s * 0
    while k < 5:
        if tl.load(p + k) > s:
            break
        k += 1
    if k == 5:
        return s & 3
    return k


@tawa.jit
def then(a, b, c, d):
    return (a * c) & 7, (c * b + d) & 7


@tawa.jit
def update(box, s):
    a, (b, t) = box
    if s > 1:
        a = small(a + b)
        t = (t + s) & 3
    return a, (b, t)


"""


@dataclass
class Program:
    """A source, how it is compiled, and what it is called with."""

    seed: int
    tile: tuple[int, int]
    body: list[Any]
    options: dict[str, Any]
    turns: int
    programs: int
    shown: int

    names = ("x", "h", "k", "c", *ARRAYS, "y", "flags", "o")
    scalars = ("n",)

    @property
    def grid(self) -> tuple[int, ...]:
        return (self.programs,)

    def smaller(self) -> Iterator[Program]:
        """The same with one statement, nest or option less."""
        yield from one_less(self)

    @property
    def source(self) -> str:
        """The kernel's Python text."""
        text = "\n".join(lines(self.body or ["pass"], "    "))
        head = f"def kernel({', '.join(self.names)}, hd, kd, n):"
        return f"import tawa\nimport tawa.language as tl\n\n\n{HELPERS}@tawa.jit\n{head}\n{text}\n"

    def memories(self) -> tuple[np.ndarray, ...]:
        """What is loaded, what atomics change, what is changed in place, flags, what is shown."""
        numbers, (rows, columns) = np.random.default_rng(self.seed), self.tile
        x = numbers.integers(-8, 8, WORDS).astype(np.float32)
        boxes = [numbers.integers(-2, 3, 8 * rows * columns).astype(np.float16) for _ in "hk"]
        c = numbers.integers(0, 4, 256).astype(np.int32)
        size = SLOTS * SPACE * self.programs
        changed = [numbers.integers(-3, 4, size).astype(kind) for kind in ARRAYS.values()]
        y = numbers.integers(-3, 4, self.programs * WORDS // 2).astype(np.float32)
        shown = np.full(self.programs * self.shown, 77, np.float32)
        return (x, *boxes, c, *changed, y, np.zeros(64, np.int32), shown)

    def arguments(self, memories: tuple[np.ndarray, ...]) -> dict[str, Any]:
        """What a launch is called with."""
        named: dict[str, Any] = dict(zip(self.names, memories, strict=True))
        (rows, columns), made = self.tile, tawa.TensorDescriptor
        for name in "hk":
            shape = [8 * rows, columns]
            named[name + "d"] = made(named[name], shape, [columns, 1], [rows, columns])
        return named | {"n": self.turns}

    def expected(self) -> list[np.ndarray]:
        """The memories after the program, as Python and NumPy run it."""
        memories = self.memories()
        named: dict[str, Any] = {
            name: Pointer(memory, 0) for name, memory in zip(self.names, memories, strict=True)
        }
        rows, columns = self.tile
        for name in "hk":
            shape = [8 * rows, columns]
            named[name + "d"] = Descriptor(named[name], shape, [columns, 1], [rows, columns])
        sequential.run(self.source, self.grid, named | {"n": self.turns})
        return list(memories)


class _Writer:
    """Writes one program's statements."""

    def __init__(self, seed: int, most: int) -> None:
        self.random = random.Random(f"control {seed}")
        self.seed = seed
        self.left = self.random.randint(4, most)
        self.tile = self.random.choice([(16, 16), (16, 32), (32, 16), (64, 16), (64, 64), (64, 32)])
        self.loops: list[str] = []
        self.begun = False
        self.slot = self.waits = 0
        self.products = self.random.random() < 0.4
        self.atomics = self.random.random() < 0.4
        self.stores = self.random.random() < 0.4
        self.pointers = self.random.random() < 0.5
        self.tuples = self.random.random() < 0.4
        self.descriptors = self.random.random() < 0.6
        self.meeting = self.random.random() < 0.25

    def program(self) -> Program:
        """The whole program."""
        body = self._begin()
        self.begun = True
        body += self._several(3)
        if self.meeting:
            body += [*self._handed_on(), *self._several(1)]
            if self.random.random() < 0.5:
                body += self._locked()
        shown = self._show()
        options: dict[str, Any] = {"num_warps": self.random.choice([1, 2, 4, 4, 8])}
        for name, values in OPTIONS.items():
            if self.random.random() < 0.15:
                options[name] = self.random.choice(values)
        if options.get("mma_depth", 0) >= options.get("num_stages", 2):
            options.pop("mma_depth")
        turns, programs = self.random.choice([0, 1, 2, 3, 5]), self.random.choice([1, 1, 2, 3])
        return Program(self.seed, self.tile, [*body, *shown], options, turns, programs, self.shown)

    # --- what there is ----------------------------------------------------------------------------

    def _begin(self) -> list[Any]:
        rows, columns = self.tile
        found = [
            "pid = tl.program_id(0)",
            f"rM = tl.arange(0, {rows})",
            f"rN = tl.arange(0, {columns})",
            "s0 = tl.load(c + pid)",
            "s1 = pid + n",
            "w0 = tl.load(c + 8 + pid).to(tl.int64)",
            "f0 = tl.load(x + pid)",
            "b0 = s0 > 1",
            f"v0 = {self._vector()}",
            "v1 = rN.to(tl.float32)" if columns <= 8 else "v1 = (rN & 7).to(tl.float32)",
            "i0 = rN & 3",
            f"t0 = {self._box()}.to(tl.float32)",
            "t1 = t0 + 1",
            f"u0 = {self._box()}",
        ]
        if self.products:
            found += [f"acc = tl.zeros(({rows}, {rows}), tl.float32)", "u1 = u0"]
        if self.pointers:
            found += ["p = x + 64", "q = x + 128 + pid", "pv = x + 256 + rN"]
        if self.descriptors:
            found += ["d = hd", "e = kd"]
        if self.tuples:
            found += ["pair = (v0, v1)", "box = (t0, (t1, s1))"]
        return found

    def _show(self) -> list[Any]:
        rows, columns = self.tile
        found, at = list[Any](), 0
        one = ["s0", "s1", "w0", "f0", "b0.to(tl.int32)"]
        across = ["v0", "v1", "i0"]
        whole = ["t0", "t1", "u0"]
        if self.tuples:
            across += ["pair[0]", "pair[1]"]
            whole += ["box[0]", "box[1][0]"]
            one += ["box[1][1]"]
        if self.pointers:
            one += ["tl.load(p)", "tl.load(q)"]
            across += ["tl.load(pv)"]
        shown: list[tuple[str, str, int]] = []
        shown += [(value, "", 1) for value in one]
        shown += [(value, " + rN", columns) for value in across]
        place = f" + rM[:, None] * {columns} + rN[None, :]"
        shown += [(value, place, rows * columns) for value in whole]
        if self.products:
            shown.append(("acc", f" + rM[:, None] * {rows} + rM[None, :]", rows * rows))
        shown = [part for part in shown if self.random.random() < 0.5 or part[0] == "s0"]
        self.shown = sum(size for _, _, size in shown)
        for value, places, size in shown:
            text = f"({value}).to(tl.float32)"
            found.append(f"tl.store(o + pid * {self.shown} + {at}{places}, {text})")
            at += size
        return found

    # --- values -----------------------------------------------------------------------------------

    def _pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def _number(self) -> str:
        """A small integer."""
        choices = ["s0", "s1", "n", "pid", "(n & 1)", "(s0 & 3)", "(s1 & 3)", "w0.to(tl.int32)"]
        return self.random.choice([*choices, *self.loops * 3])

    def _offset(self) -> str:
        return self._pick("(s0 & 7)", "(s1 & 15)", "(w0 & 7)", "((s0 + s1) & 31)", "((-s0) & 7)",
                          *(f"({name} & 15)" for name in self.loops))  # fmt: skip

    def _base(self) -> str:
        return self._pick("x", "p", "q") if self.pointers and self.begun else "x"

    def _vector(self) -> str:
        forms = [f"tl.load({self._base()} + {self._offset()} + rN)"]
        if self.loops or self.random.random() < 0.5:
            limit, other = self._offset(), self._pick("0", "1", "-3")
            forms += [
                f"tl.load({self._base()} + {self._offset()} + rN, mask=rN < {limit}, other={other}.0)"
            ]
            forms += [
                f"tl.load({self._base()} + {self._offset()} + rN * 2, mask=rN > {limit}, other=2)"
            ]
        return self.random.choice(forms)

    def _box(self) -> str:
        """A block of the arrays of halves."""
        rows, columns = self.tile
        at = f"({self._offset()} % 7) * {rows}"
        forms = [f"hd.load([{at}, 0])", f"kd.load([{at}, 0])",
                 f"tl.load(h + ({at} + rM)[:, None] * {columns} + rN[None, :])",
                 f"tl.make_tensor_descriptor(k, [{8 * rows}, {columns}], [{columns}, 1], "
                 f"[{rows}, {columns}]).load([{at}, 0])"]  # fmt: skip
        if self.descriptors and self.loops:
            forms += [f"d.load([{at}, 0])", f"e.load([{at}, 0])"] * 2
            forms += [f"first_of(d, e, s0, {at})"]
        return self.random.choice(forms)

    def _condition(self) -> str:
        choices = ["s0 > 1", "s1 == 2", "b0", "not b0", "n > 1", "pid == 0", "f0 > 0", "w0 >= 2",
                   "s0 > 0 and s1 > 1", "s0 == 0 or b0", "tl.sum(v0, 0) > 0", "tl.max(i0, 0) == 3"]  # fmt: skip
        for name in self.loops:
            choices += [f"{name} % 2 == 0", f"{name} > 1", f"{name} == s0"]
        return self.random.choice(choices)

    # --- statements -------------------------------------------------------------------------------

    def _several(self, depth: int) -> list[Any]:
        found: list[Any] = []
        for _ in range(self.random.randint(2, 5)):
            if self.left > 0:
                self.left -= 1
                found += self._statement(depth)
        return found

    def _statement(self, depth: int) -> list[Any]:
        kinds: dict[str, tuple[float, Callable[[], str]]] = {
            "scalar": (3, self._scalar), "vector": (3, self._vectors), "tile": (3, self._tiles),
            "product": (4 * self.products, self._product), "pointer": (3 * self.pointers, self._pointer),
            "tuple": (3 * self.tuples, self._tuple), "store": (3 * self.stores, self._store),
            "described": (2 * self.descriptors, self._described),
            "atomic": (4 * self.atomics, self._atomic),
        }  # fmt: skip
        weights = {name: float(weight) for name, (weight, _) in kinds.items()}
        if depth:
            weights |= {"for": 5, "while": 2, "if": 5}
        kind = self.random.choices(list(weights), list(weights.values()))[0]
        if kind in ("for", "while", "if"):
            return {"for": self._for, "while": self._while, "if": self._if}[kind](depth)
        return [kinds[kind][1]()]

    def _scalar(self) -> str:
        name = self._pick("s0", "s1", "s0", "s1", "w0", "f0", "b0")
        one, other = self._number(), self._number()
        if name == "b0":
            return f"b0 = {self._pick(f'{one} > {other}', 's0 != s1', 'f0 >= 0')}"
        if name == "f0":
            return self._pick("f0 = small(f0 + s0)", f"f0 = tl.load({self._base()} + {self._offset()})",
                              "f0 = small(tl.sum(v0, 0))", "f0 = tl.max(v1, 0) if b0 else f0")  # fmt: skip
        if name == "w0":
            return self._pick("w0 = (w0 * 5 + 3) & 3", f"w0 = ({one} & 3).to(tl.int64)",
                              "w0 = (w0 * 4294967296 + s0) % 4", "w0 = (w0 << 40 >> 39) & 3")  # fmt: skip
        forms = [f"({one} + {other}) & 3", f"({one} * 3 - {other}) & 3", "(s0 - s1) & 3",
                 f"tl.load(c + 16 + ({one} & 3) * 4)", f"search({self._base()}, s0) & 3",
                 "tl.sum(i0, 0) & 3", "tl.argmax(v0, 0) & 3",
                 f"({one} + s1 * 0 & 3).to(tl.int32) if {self._condition()} else s1",
                 f"tl.load(c + 32 + ({one} & 7), volatile=True)",
                 f"tl.minimum({one}, 3)", "(s0 % 3) + (s1 // 2 & 1)"]  # fmt: skip
        if self.random.random() < 0.2:
            return "s0, s1 = s1, s0"
        return f"{name} = ({self.random.choice(forms)}).to(tl.int32)"

    def _vectors(self) -> str:
        name, other = self._pick("v0", "v1"), self._pick("v0", "v1")
        if self.random.random() < 0.2:
            return f"i0 = ({self._pick('i0 + s0', 'i0 * 2 + 1', 'v0.to(tl.int32)', 'tl.cumsum(i0, 0)')}) & 3"
        if self.random.random() < 0.15:
            return self._pick("v0, v1 = v1, v0", "v0 = v1", "v0, s1 = early(v0, v1, s1 & 3)",
                              "_, i0 = tl.associative_scan((i0, i0 + 1), 0, then)")  # fmt: skip
        forms = [self._vector(), self._vector(), f"{name} + {other}", f"{name} - s0", f"{name} * {other}",
                 f"tl.where(i0 > 1, {name}, {other})", f"{name} + tl.sum({other}, 0)",
                 f"tl.cumsum({name}, 0)", "tl.sum(t0, 0)", f"tl.max(t1, 0) - {other}",
                 f"{name}.to(tl.int8).to(tl.float32)", f"{name}.to(tl.float8e4nv).to(tl.float32)",
                 f"small({name}).to(tl.float8e5).to(tl.float32)", f"{name}.to(tl.bfloat16).to(tl.float32)",
                 f"{name} if b0 else {other}", f"{name} + i0", f"{name} + f0"]  # fmt: skip
        return f"{name} = small({self.random.choice(forms)})"

    def _tiles(self) -> str:
        name, other = self._pick("t0", "t1"), self._pick("t0", "t1", "u0.to(tl.float32)")
        if self.random.random() < 0.3:
            return f"{self._pick('u0', 'u1') if self.products else 'u0'} = {self._box()}"
        if self.random.random() < 0.15:
            return self._pick("t0, t1 = t1, t0", "t1, s0 = early(t0, t1, s0)", "t0 = t1",
                              "u0 = small(t0).to(tl.float16)")  # fmt: skip
        forms = [f"{name} + {other}", f"{name} - {other} + s0", f"{name} + v0[None, :]",
                 f"{name} - tl.max({other}, 1)[:, None]", f"tl.where(rM[:, None] > rN[None, :], {name}, {other})",
                 f"{self._box()}.to(tl.float32) - {name}", f"{name} + {self._number()}",
                 f"tl.cumsum({name}, {self._pick('0', '1')})", f"{name} if {self._condition()} else {other}"]  # fmt: skip
        return f"{name} = small({self.random.choice(forms)})"

    def _product(self) -> str:
        one, other = self._pick("u0", "u1", self._box()), self._pick("u0", "u1", self._box())
        form = self._pick("acc = tl.dot({0}, {1}.T, acc)", "acc = small(acc) + tl.dot({0}, {1}.T)",
                          "acc += tl.dot({0}, {1}.T)", "acc = small(tl.dot({0}, {1}.T)) - acc",
                          "acc = tl.dot({0}, {1}.T, acc)", "acc = small(acc)", "u0, u1 = u1, u0")  # fmt: skip
        return form.format(one, other)

    def _pointer(self) -> str:
        return self._pick(
            "p, q = q, p", f"p = x + {self._offset()} * 4", "q = p + 1", f"p += {self._offset()}",
            "p = pick(p, q, s0)", f"q = p if {self._condition()} else q", f"pv += {self._offset()}",
            f"pv = {self._base()} + rN * 2", f"pv = tl.where(i0 > 0, pv, {self._base()} + rN)",
            "v0 = small(tl.load(pv))", "v1 = tl.load(pv, mask=i0 > 0, other=-2)",
            "f0 = tl.load(p)", "q = x + (w0 & 7) * 3",
        )  # fmt: skip

    def _tuple(self) -> str:
        return self._pick(
            "pair = turned(pair)", "pair = (pair[0], small(pair[1] + v0))", "v0, v1 = pair",
            "box = update(box, s0)", "pair = (v1, pair[0])", "box = (t1, (box[0], (s0 & 3)))",
            "t0, (t1, s1) = box", "box = (small(box[0] - t0), box[1])", "v1 = pair[0]",
            f"pair = pair if {self._condition()} else (v0, v1)",
        )  # fmt: skip

    def _described(self) -> str:
        return self._pick(
            "d, e = e, d",
            f"d = hd if {self._condition()} else kd",
            "e = d",
            "d = kd",
            "d = hd",
            f"u0 = d.load([({self._offset()} % 7) * {self.tile[0]}, 0])",
        )

    def _store(self) -> str:
        base, size = f"y + pid * {WORDS // 2}", self.tile[1]
        at = f"{base} + {self._offset()}"
        return self._pick(
            f"tl.store({at} + rN, {self._pick('v0', 'v1')})", f"v0 = small(tl.load({at} + rN))",
            f"tl.store({at} + rN, v0, mask=i0 > 0)", f"tl.store({at}, f0)",
            f"v1 = tl.load({at} + {size - 1} - rN, mask=rN > s0, other=1.0)", f"f0 = small(tl.load({at}))",
            f"tl.store({base} + 64 + (rM[:, None] * {size} + rN[None, :]), t0)",
            f"t1 = small(tl.load({base} + 64 + {self._offset()} + (rM[:, None] * {size} + rN[None, :])))",
        )  # fmt: skip

    def _atomic(self) -> str:
        """Each in memory of its own, as others' order would be seen."""
        array = self.random.choice(list(ARRAYS))
        element, slot = TYPES[array], self.slot % SLOTS
        self.slot += 1
        place = f"{array} + {slot} * {SPACE}"
        order = self._pick(
            "", "", ", sem='relaxed'", ", sem='release'", ", sem='acquire', scope='gpu'"
        )
        form = self._pick("shared", "shared", "own", "own", "one", "swap", "exchange")
        how = self.random.choice(UPDATES[array])
        if array in ("ah", "ad") and form in ("swap", "exchange", "own"):
            form = "shared"
        if array == "af" and form == "swap":
            form = "exchange"
        value = f"(small(v0)).to(tl.{element})"
        if form == "shared":  # several elements at one place, of several programs
            index = self._pick("i0", "rN // 2", "(rN & 7) + (s0 & 3)")
            mask = self._pick("", ", mask=i0 > 0", f", mask=rN < {self._offset()}")
            return f"tl.atomic_{how}({place} * {self._programs} + {index}, {value}{mask}{order})"
        place = f"{array} + ({slot} * {self._programs} + pid) * {SPACE}"
        if form == "own":
            mask = self._pick("", ", mask=i0 > 0")
            old = f"tl.atomic_{how}({place} + (rN & {SPACE - 1}), {value}{mask}{order})"
            return (
                f"v1 = small({old if not mask else f'tl.where(i0 > 0, {old}, 0)'}).to(tl.float32)"
            )
        number = f"({self._number()} & 3).to(tl.{element})"
        if form == "one":
            old = f"tl.atomic_{how}({place}, {number}{order})"
        elif form == "swap":
            old = f"tl.atomic_cas({place}, {number}, (s1 & 3).to(tl.{element}){order})"
        else:
            old = f"tl.atomic_xchg({place}, {number}{order})"
        return self._pick(
            f"s0 = ({old}).to(tl.int32) & 3", f"f0 = small({old}).to(tl.float32)", old
        )

    _programs = 3

    # --- programs that wait for each other --------------------------------------------------------

    def _handed_on(self) -> list[Any]:
        """A program waits until the one before it has handed on what it needs."""
        self.waits += 1
        way = self._pick("tl.load(flags + 8 + pid - 1, volatile=True)", "tl.atomic_add(flags + 8 + pid - 1, 0)",
                         "tl.atomic_add(flags + 8 + pid - 1, 0, sem='acquire')")  # fmt: skip
        size = WORDS // 2
        return [
            "if pid > 0:\n"
            f"        while {way} == 0:\n"
            "            pass\n"
            "        tl.debug_barrier()\n"
            f"        v0 = small(v0 + tl.load(y + (pid - 1) * {size} + {size - 64} + rN))",
            f"tl.store(y + pid * {size} + {size - 64} + rN, v0)",
            "tl.debug_barrier()",
            self._pick("tl.atomic_xchg(flags + 8 + pid, 1)", "tl.atomic_add(flags + 8 + pid, 1, sem='release')"),
        ]  # fmt: skip

    def _locked(self) -> list[Any]:
        """What programs add up under a lock."""
        return [
            "while tl.atomic_cas(flags, 0, 1) == 1:\n        pass",
            "tl.debug_barrier()",
            "tl.store(flags + 32 + (rN & 15), tl.load(flags + 32 + (rN & 15)) + 1)",
            "tl.store(flags + 1, tl.load(flags + 1) + s1)",
            "tl.debug_barrier()",
            "tl.atomic_xchg(flags, 0)",
        ]

    # --- nests ------------------------------------------------------------------------------------

    def _inside(self, name: str, depth: int, leaves: bool) -> list[Any]:
        self.loops.append(name if leaves else f"(n * 0 + {name})")
        found = self._several(depth - 1)
        if leaves and self.random.random() < 0.15:
            at = self.random.randint(0, len(found))
            found.insert(at, Nest(f"if {self._condition()}:", [self._pick("break", "continue")]))
        self.loops.pop()
        return found

    def _for(self, depth: int) -> list[Any]:
        name = "ijl"[len(self.loops)]
        wishes = self._pick("num_stages=1", "num_stages=3", "flatten=True", "warp_specialize=True",
                            "disallow_acc_multi_buffer=True", "loop_unroll_factor=2", "disable_licm=True",
                            "flatten=True, num_stages=2", "num_stages=4, loop_unroll_factor=3")  # fmt: skip
        head = self._pick("range(n & 3)", "range(3, -1, -1)", "range(n, 0, -2)", "range(0, -3)", "range(5, n)",
                          "range(s0 & 3)", "range(s0 & 3, 5, 2)", "range((w0 & 3).to(tl.int64))", "range(4, s1 & 3, -1)",
                          f"tl.range(0, s0 & 3, {wishes})", f"tl.range(n, -1, -1, {wishes})",
                          f"tl.range(n & 3, {wishes})", f"tl.range(0, 3, {wishes})", f"tl.range(0, n, 2, {wishes})",
                          "tl.static_range(2)", "tl.static_range(3, 0, -1)", "range(2)", "range(-2, s1 & 3)")  # fmt: skip
        return [Nest(f"for {name} in {head}:", self._inside(name, depth, "static" not in head))]

    def _while(self, depth: int) -> list[Any]:
        name = "ijl"[len(self.loops)]
        end, step = self._pick("(n & 3)", "s0", "tl.load(c + pid)", "w0.to(tl.int32)"), "1"
        also = self._pick("", "", " and f0 < 5", " and s1 < 3", " and not b0")
        body = [f"{name} += {step}", *self._inside(name, depth, leaves=True)]
        return [
            f"{name} = pid * 0",
            f"end{name} = {end}",
            Nest(f"while {name} < end{name}{also}:", body),
        ]

    def _if(self, depth: int) -> list[Any]:
        other = self._several(depth - 1) if self.random.random() < 0.5 else []
        return [Nest(f"if {self._condition()}:", self._several(depth - 1), other)]


OPTIONS: dict[str, tuple[Any, ...]] = {
    "num_stages": (1, 2, 3, 4), "mma_depth": (0, 1), "consumers": (1, 2), "persistent": (True,),
    "specialize": (False, True), "staging": (1, 2), "bulk_copies": (False, True), "load_together": (True,),
    "overlap": (False,), "ctas_per_sm": (2,), "alternate": (True,),
}  # fmt: skip


def program(seed: int, most: int = 14) -> Program:
    """The program of a seed, of at most so many statements."""
    return _Writer(seed, most).program()
