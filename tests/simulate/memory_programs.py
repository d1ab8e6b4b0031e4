"""Random programs whose accesses to memory meet: a seed gives the source, the options, the arrays.

Each works on two arrays that are apart, one, shifted against each other or between each other's
columns, through pointers, block pointers and descriptors, with tiles that loops and branches carry,
and shows what it holds at its end in a third array. All numbers are small integers, so that any order
of additions gives the same and results are compared exactly.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np
import sequential
from sequential import Descriptor, Pointer

import tawa

ELEMENTS = {"int32": np.int32, "float32": np.float32, "float16": np.float16}
RELATIONS = ("apart", "one", "shifted", "columns", "half columns")
WAYS = ("pointer", "block pointer", "argument descriptor", "own descriptor")
"""How an access names its block."""

LIMIT = 4
"""What programs clamp numbers to."""

Statement = "str | Nest"


@dataclass
class Nest:
    """A statement with others in it; `after` goes behind it, at its indentation."""

    head: str
    body: list[Any]
    other: list[Any] = field(default_factory=list[Any])

    def lines(self, indent: str) -> Iterator[str]:
        yield indent + self.head
        yield from lines(self.body or ["pass"], indent + "    ")
        if self.other:
            yield indent + "else:"
            yield from lines(self.other, indent + "    ")


def lines(statements: list[Any], indent: str) -> Iterator[str]:
    """The source of statements."""
    for statement in statements:
        if isinstance(statement, Nest):
            yield from statement.lines(indent)
        else:
            yield indent + statement


def without_one(statements: list[Any]) -> Iterator[list[Any]]:
    """The statements with one left out, or a nest replaced by what is in it."""
    for at in range(len(statements) - 1, -1, -1):
        before, one, after = statements[:at], statements[at], statements[at + 1 :]
        yield before + after
        if isinstance(one, Nest):
            if not one.head.startswith("if") or one.body[:1] not in (["break"], ["continue"]):
                yield [*before, *one.body, *after]
            for body in without_one(one.body):
                yield [*before, replace(one, body=body), *after]
            for other in without_one(one.other):
                yield [*before, replace(one, other=other), *after]


class OfPrograms(Protocol):
    """A random kernel that so many programs run."""

    @property
    def body(self) -> list[Any]: ...
    @property
    def options(self) -> dict[str, Any]: ...
    @property
    def programs(self) -> int: ...


Some = TypeVar("Some", bound=OfPrograms)


def one_less(whole: Some) -> Iterator[Some]:
    """The same with one statement, nest or option less, and run by one program."""
    change: Any = replace
    for body in without_one(whole.body):
        yield change(whole, body=body)
    for name in whole.options:
        yield change(whole, options={k: v for k, v in whole.options.items() if k != name})
    if whole.programs > 1:
        yield change(whole, programs=1)


@dataclass(frozen=True)
class Shape:
    """Sizes of a program's tiles and arrays."""

    rows: int
    columns: int
    step: int
    """Rows between the blocks that statements name."""
    grid: int
    cut: tuple[int, int]
    """Rows and columns that the arrays lack for whole blocks."""
    wide: int
    """Elements from one row to the next."""
    relation: str
    element: str

    @property
    def span(self) -> int:
        """Rows of one program."""
        return 5 * self.step + 2 * self.rows

    @property
    def height(self) -> int:
        return (self.grid - 1) * self.span + 3 * self.step + self.rows - self.cut[0]

    @property
    def width(self) -> int:
        return self.columns - self.cut[1]

    @property
    def described(self) -> bool:
        """Whether descriptors can name the arrays."""
        return self.wide * np.dtype(ELEMENTS[self.element]).itemsize % 16 == 0

    @property
    def second(self) -> int:
        """Where the second array begins in the memory of the first."""
        ahead = {"shifted": self.step * self.wide, "columns": self.columns}
        return ahead.get(self.relation, {"half columns": self.columns // 2}.get(self.relation, 0))


@dataclass
class Program:
    """A source, how it is compiled, and what it is called with."""

    seed: int
    shape: Shape
    body: list[Any]
    options: dict[str, Any]
    turns: int
    constants: tuple[str, ...]
    ways: frozenset[tuple[str, str]]
    """(`load`, `store` or `atomic`, way) of its accesses."""

    names = ("x", "y", "o")
    scalars = ("height", "width", "wide", "n")

    @property
    def grid(self) -> tuple[int, ...]:
        return (self.shape.grid,)

    def smaller(self) -> Iterator[Program]:
        """The same with one statement, nest or option less."""
        for body in without_one(self.body):
            yield replace(self, body=body)
        for name in self.options:
            yield replace(self, options={k: v for k, v in self.options.items() if k != name})
        if self.shape.grid > 1:
            yield replace(self, shape=replace(self.shape, grid=1))
        if self.shape.cut != (0, 0):
            yield replace(self, shape=replace(self.shape, cut=(0, 0)))
        if self.constants:
            yield replace(self, constants=())

    @property
    def proxies(self) -> str:
        """Who accesses the arrays: threads, the copy engine or both."""
        by_engine = {"descriptor" in way for _, way in self.ways}
        return "both" if len(by_engine) > 1 else "engine" if True in by_engine else "threads"

    @property
    def source(self) -> str:
        """The kernel's Python text."""
        text = "\n".join(lines(self.body or ["pass"], "    "))
        names = [n for n in ("xd", "yd", "xw", "yw") if f"{n}" in text]
        scalars = [f"{n}: tl.constexpr" if n in self.constants else n for n in SCALARS]
        head = f"def kernel({', '.join(['x', 'y', 'o', *names, *scalars])}):"
        return f"import tawa\nimport tawa.language as tl\n\n\n@tawa.jit\n{head}\n{text}\n"

    def memories(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Flat memory of the two arrays, maybe one, and of what the program shows."""
        shape, numbers = self.shape, np.random.default_rng(self.seed)
        size = (shape.height + 4 * shape.rows + shape.step) * shape.wide + shape.columns
        kind = ELEMENTS[shape.element]
        x = numbers.integers(-3, 4, size).astype(kind)
        y = numbers.integers(-3, 4, size).astype(kind) if shape.relation == "apart" else x
        return x, y, np.full(shape.grid * SHOWN * shape.rows * shape.columns, 77, np.float32)

    def arguments(self, memories: tuple[np.ndarray, ...]) -> dict[str, Any]:
        """What a launch is called with."""
        x, y = self._views(memories)
        shape = self.shape
        named: dict[str, Any] = {"x": x, "y": y, "o": memories[2], **self._scalars()}
        for name, block in (("d", shape.rows), ("w", shape.columns)):
            for array, key in ((x, "x"), (y, "y")):
                if f"{key}{name}" in self.source:
                    named[key + name] = tawa.TensorDescriptor(
                        array, [shape.height, shape.width], [shape.wide, 1], [block, shape.columns]
                    )
        return named

    def expected(self) -> list[np.ndarray]:
        """The memories after the program, as Python and NumPy run it."""
        memories, shape = self.memories(), self.shape
        named: dict[str, Any] = {"o": Pointer(memories[2], 0), **self._scalars()}
        for key, memory, start in zip("xy", memories, (0, shape.second), strict=False):
            named[key] = base = Pointer(memory, start)
            for name, block in (("d", shape.rows), ("w", shape.columns)):
                if f"{key}{name}" in self.source:
                    sizes = [shape.height, shape.width]
                    blocks = [block, shape.columns]
                    named[key + name] = Descriptor(base, sizes, [shape.wide, 1], blocks)
        sequential.run(self.source, self.grid, named)
        return list(memories)

    def _views(self, memories: tuple[np.ndarray, ...]) -> list[np.ndarray]:
        """The two arrays; as long as pointers reach."""
        shape, views = self.shape, []
        for memory, start in zip(memories[:2], (0, shape.second), strict=True):
            size = memory.itemsize
            sizes = (shape.height + shape.step, shape.width)
            strides = (shape.wide * size, size)
            views.append(np.lib.stride_tricks.as_strided(memory[start:], sizes, strides))
        return views

    def _scalars(self) -> dict[str, int]:
        shape = self.shape
        values = (shape.height, shape.width, shape.wide, self.turns)
        return dict(zip(SCALARS, values, strict=True))


SCALARS = Program.scalars
SHOWN = 6
"""Tiles that a program shows."""


class _Writer:
    """Writes one program's statements."""

    def __init__(self, seed: int, most: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.shape = self._shape()
        element = self.shape.element
        self.work = "tl.int32" if element == "int32" else "tl.float32"
        self.own = f"tl.{element}"
        self.zero = "0" if element == "int32" else "0.0"
        self.products = element != "int32" and self.shape.rows >= 16
        self.ways: set[tuple[str, str]] = set()
        self.loops: list[str] = []
        self.left = self.random.randint(2, most)
        """Statements that may still be written."""
        self.arrays = self.random.choice(["xy", "xy", "xy", "x"])
        allowed = WAYS if self.shape.described else WAYS[:2]
        self.allowed = self.random.sample(allowed, self.random.randint(1, min(3, len(allowed))))
        self.carried_pointers = self.random.random() < 0.25
        self.atomics = self.random.random() < 0.4

    def _shape(self) -> Shape:
        pick = self.random.choice
        element = pick(list(ELEMENTS))
        tiles = [(8, 16), (16, 16), (4, 32), (32, 8)]
        if element == "float16":
            tiles += [(64, 16), (64, 16), (16, 16), pick([(128, 16), (64, 32), (64, 16)])]
        rows, columns = pick(tiles)
        relation = pick(RELATIONS)
        wide = 2 * columns if "columns" in relation else pick([columns, columns, 2 * columns])
        if relation == "apart" and self.random.random() < 0.1:
            wide = columns + 1
        cut = pick([(0, 0), (0, 0), (1, 0), (rows // 2 + 1, 3), (0, 1)])
        return Shape(
            rows, columns, pick([rows, rows, rows // 2, 1]), pick([1, 1, 2, 3]),
            cut, wide, relation, element,
        )  # fmt: skip

    def program(self) -> Program:
        """The whole program."""
        body = [*self._begin(), *self._several(2), *self._show()]
        constants = tuple(n for n in SCALARS if n != "n" and self.random.random() < 0.3)
        return Program(
            self.seed,
            self.shape,
            body,
            self._options(),
            self.random.choice([0, 1, 2, 3, 3]),
            constants,
            frozenset(self.ways),
        )

    def _options(self) -> dict[str, Any]:
        pick = self.random.choice
        found: dict[str, Any] = {"num_warps": pick([1, 2, 4, 4, 8])}
        for name, values in OPTIONS.items():
            if self.random.random() < 0.12:
                found[name] = pick(values)
        if self.shape.grid % found.get("cluster", 1) or self.random.random() < 0.5:
            found.pop("cluster", None)
        if not found.get("persistent") or "cluster" in found:
            found.pop("deal", None)
        elif self.random.random() < 0.3:
            found["ping_pong"] = True
        if not self.products:
            found.pop("alternate", None)
        if found.get("mma_depth", 0) >= found.get("num_stages", 2):
            found.pop("mma_depth")
        if "cluster" in found:
            found.pop("ctas_per_sm", None)
        return found

    def _begin(self) -> list[Any]:
        shape = self.shape
        found = [
            "pid = tl.program_id(0)",
            f"base = pid * {shape.span}",
            f"r = tl.arange(0, {shape.rows})",
            f"c = tl.arange(0, {shape.columns})",
            f"t0 = tl.zeros(({shape.rows}, {shape.columns}), {self.work})",
            f"t1 = t0 + {self.zero if self.work == 'tl.int32' else '1.0'}",
            "s = pid + 1",
        ]
        if self.carried_pointers:
            found += ["p = x", f"q = {self.arrays[-1]}"]
        if "own descriptor" in self.allowed:
            found += [
                f"{array}k = tl.make_tensor_descriptor({array}, [height, width], [wide, 1], "
                f"[{shape.rows}, {shape.columns}])"
                for array in self.arrays
            ]
        found += [f"u0 = {self._load(shape.rows)}"]
        found += [self.random.choice(["u1 = u0", f"u1 = {self._load(shape.rows)}"])]
        if self.products:
            found += [f"acc = tl.zeros(({shape.rows}, {shape.columns}), tl.float32)"]
            found += [f"w0 = {self._load(shape.columns)}", "w1 = w0"]
        return found

    def _show(self) -> list[Any]:
        shape = self.shape
        place = f"(pid * {SHOWN} + %d) * {shape.rows * shape.columns}"
        place = f"o + {place} + r[:, None] * {shape.columns} + c[None, :]"
        shown = ["t0", "t1", "u0", "u1", "t0 * 0 + s"] + ["acc"] * self.products
        return [
            f"tl.store({place % number}, ({value}).to(tl.float32))"
            for number, value in enumerate(shown)
            if number == len(shown) - 1 or self.random.random() < 0.4
        ]

    # --- accesses ---------------------------------------------------------------------------------

    def _row(self) -> str:
        """The first row of a block: a program's own, some steps on."""
        choices = ["0", "1", "2", "(n & 1)", "(s & 3)"]
        for name in self.loops:
            choices += [name, name, f"({name} + 1)", f"({name} & 1)", f"(3 - {name})"]
        return f"(base + {self.random.choice(choices)} * {self.shape.step})"

    def _array(self, way: str) -> str:
        if self.carried_pointers and way in WAYS[:2] and self.random.random() < 0.6:
            return self.random.choice("pq")
        return self.random.choice(self.arrays)

    def _way(self, kind: str, rows: int) -> str:
        allowed = list(self.allowed)
        if rows != self.shape.rows:
            allowed = [w for w in allowed if w != "own descriptor"] or ["pointer"]
        way = self.random.choice(allowed)
        self.ways.add((kind, way))
        return way

    def _pointers(self, array: str, rows: int) -> tuple[str, str]:
        """A tile of pointers into an array, and its mask."""
        across = "r" if rows == self.shape.rows else "c"
        if self.random.random() < 0.3:
            across = f"({rows - 1} - {across})"
        down = "c" if self.random.random() < 0.8 else f"({self.shape.columns - 1} - c)"
        row = f"({self._row()} + {across})[:, None]"
        mask = f"({row} < height)"
        if self.shape.cut[1] or self.random.random() < 0.1:
            mask += f" & ({down}[None, :] < width)"
        return f"{array} + {row} * wide + {down}[None, :]", mask

    def _block(self, array: str, rows: int) -> str:
        sizes = f"[{rows}, {self.shape.columns}]"
        return (
            f"tl.make_block_ptr({array}, [height, width], [wide, 1], [{self._row()}, 0], "
            f"{sizes}, [1, 0])"
        )

    def _described(self, way: str, array: str, rows: int) -> str:
        if way == "own descriptor":
            return f"{array}k"
        return f"{array}{'d' if rows == self.shape.rows else 'w'}"

    def _load(self, rows: int) -> str:
        way = self._way("load", rows)
        array = self._array(way)
        if way == "pointer":
            pointers, mask = self._pointers(array, rows)
            return f"tl.load({pointers}, mask={mask}, other={self.zero})"
        if way == "block pointer":
            block = self._block(array, rows)
            return f"tl.load({block}, boundary_check=(0, 1), padding_option='zero')"
        return f"{self._described(way, array, rows)}.load([{self._row()}, 0])"

    def _store(self) -> str:
        way = self._way("store", self.shape.rows)
        array = self._array(way)
        value = f"({self._clamped(self._tile())}).to({self.own})"
        if way == "pointer":
            pointers, mask = self._pointers(array, self.shape.rows)
            return f"tl.store({pointers}, {value}, mask={mask})"
        if way == "block pointer":
            block = self._block(array, self.shape.rows)
            return f"tl.store({block}, {value}, boundary_check=(0, 1))"
        return f"{self._described(way, array, self.shape.rows)}.store([{self._row()}, 0], {value})"

    def _atomic(self) -> str:
        self.ways.add(("atomic", "pointer"))
        pointers, mask = self._pointers(self._array("pointer"), self.shape.rows)
        one = f"tl.minimum(tl.maximum({self._work()}, -1), 1).to({self.own})"
        kind = self.random.choice(["add", "add", "met", "max" if self.own == "tl.int32" else "add"])
        if kind == "met":  # several elements of the tile at one place
            pointers = pointers.replace("c[None", "(c // 2 * 2)[None")
            return f"tl.atomic_add({pointers}, {one}, mask={mask})"
        call = f"tl.atomic_{kind}({pointers}, {one}, mask={mask})"
        return f"t0 = ({call}).to({self.work})" if self.random.random() < 0.4 else call

    def _scalar(self) -> str:
        """An access to one element."""
        array = self._array("pointer")
        place = f"{array} + {self._row()} * wide"
        if self.random.random() < 0.6:
            self.ways.add(("load", "pointer"))
            return f"s = tl.load({place}).to(tl.int32)"
        self.ways.add(("store", "pointer"))
        return f"tl.store({place}, (s & 3).to({self.own}))"

    # --- values -----------------------------------------------------------------------------------

    def _clamped(self, value: str) -> str:
        return f"tl.minimum(tl.maximum({value}, -{LIMIT}), {LIMIT})"

    def _work(self) -> str:
        return self.random.choice(["t0", "t1"])

    def _tile(self) -> str:
        """A tile in the type that work is done in."""
        choices = ["t0", "t1", f"u0.to({self.work})", f"u1.to({self.work})"]
        return self.random.choice(choices + ["acc"] * self.products)

    def _value(self) -> str:
        tile, other, axis = self._tile(), self._tile(), self.random.choice([0, 1])
        along = "[None, :]" if axis == 0 else "[:, None]"
        forms = [
            f"{tile} + {other}", f"{tile} - {other} + 1", f"tl.where({tile} > 0, {other}, {tile})",
            f"{tile} + s", f"{tile} * 2 - {other}", f"{other} + tl.sum({tile}, axis={axis}){along}",
            f"{other} - tl.max({tile}, axis={axis}){along}", f"tl.where(s > 0, {tile}, {other})",
            f"{other} + tl.sum(tl.sum({tile}, axis=1), axis=0)", f"{tile} + r[:, None] - c[None, :]",
        ]  # fmt: skip
        return self._clamped(self.random.choice(forms))

    def _product(self) -> str:
        right = self.random.choice(["w0", "w1", "w0.T"])
        left = self.random.choice(["u0", "u1", f"({self._clamped('t0')}).to({self.own})"])
        product = f"tl.dot({left}, {right}, acc)"
        return f"acc = {self._clamped(product) if self.random.random() < 0.3 else product}"

    def _move(self) -> str:
        """A statement that passes values on."""
        forms = [
            "u0 = u1", "u0, u1 = u1, u0", "t0, t1 = t1, t0", "t1 = t0",
            f"t0 = u0.to({self.work})", f"u1 = ({self._clamped('t1')}).to({self.own})",
            "u0 = tl.where(s > 0, u0, u1)",
        ]  # fmt: skip
        if self.products:
            forms += ["w0, w1 = w1, w0", "w0 = w1", "acc = tl.where(s > 0, acc, acc * 0)"]
        if self.carried_pointers:
            forms += ["p, q = q, p"] * 2 + [f"p = {self.arrays[-1]} + {self.shape.step} * wide"]
        return self.random.choice(forms)

    # --- statements -------------------------------------------------------------------------------

    def _several(self, depth: int) -> list[Any]:
        found: list[Any] = []
        for _ in range(self.random.randint(2, 4)):
            if self.left > 0:
                self.left -= 1
                found += self._statement(depth)
        return found

    def _statement(self, depth: int) -> list[Any]:
        kinds = {"load": 4, "store": 4, "value": 3, "move": 2, "scalar": 1}
        kinds["product"] = 4 * self.products
        kinds["atomic"] = 3 * self.atomics
        kinds["for"] = kinds["while"] = kinds["if"] = 0
        if depth:
            kinds |= {"for": 5 if not self.loops else 2, "while": 1, "if": 3}
        kind = self.random.choices(list(kinds), list(kinds.values()))[0]
        if kind == "load":
            raw = self.random.choice(["u0", "u1"] + ["w0", "w1"] * self.products)
            return [
                f"{raw} = {self._load(self.shape.columns if raw[0] == 'w' else self.shape.rows)}"
            ]
        if kind == "value":
            return [f"{self._work()} = {self._value()}"]
        if kind in ("for", "while", "if"):
            return {"for": self._for, "while": self._while, "if": self._if}[kind](depth)
        simple = {"store": self._store, "atomic": self._atomic, "product": self._product,
                  "move": self._move, "scalar": self._scalar}  # fmt: skip
        return [simple[kind]()]

    def _inside(self, name: str, depth: int, leaves: bool) -> list[Any]:
        self.loops.append(name)
        found = self._several(depth - 1)
        if leaves and self.random.random() < 0.2:
            way_out = self.random.choice(["break", "continue"])
            at = self.random.randint(0, len(found))
            found.insert(at, Nest(f"if {self._condition()}:", [way_out]))
        self.loops.pop()
        return found

    def _for(self, depth: int) -> list[Any]:
        name = "ij"[len(self.loops)]
        ranges = ["range(n)"] * 4 + ["range(1, n)", "range(n - 1, -1, -1)", "range(0, 4, 2)",
                  "range(s & 3)", "tl.static_range(2)"]  # fmt: skip
        chosen = self.random.choice(ranges)
        return [Nest(f"for {name} in {chosen}:", self._inside(name, depth, "static" not in chosen))]

    def _while(self, depth: int) -> list[Any]:
        name = "ij"[len(self.loops)]
        end = self.random.choice(["n", "n", "(s & 3)"])
        body = [f"{name} += 1", *self._inside(name, depth, leaves=True)]
        return [f"{name} = pid * 0", f"end{name} = {end}", Nest(f"while {name} < end{name}:", body)]

    def _if(self, depth: int) -> list[Any]:
        condition = self._condition()
        other = self._several(depth - 1) if self.random.random() < 0.5 else []
        return [Nest(f"if {condition}:", self._several(depth - 1), other)]

    def _condition(self) -> str:
        choices = ["s > 0", "n > 1", "pid == 0", f"tl.sum(tl.sum({self._work()}, 1), 0) > 0"]
        for name in self.loops:
            choices += [f"{name} % 2 == 0", f"{name} > 0"]
        return self.random.choice(choices)


OPTIONS: dict[str, tuple[Any, ...]] = {
    "num_stages": (1, 2, 3), "mma_depth": (0, 1), "consumers": (1, 2), "persistent": (True,),
    "specialize": (False, True), "staging": (1, 2), "cluster": (2,), "bulk_copies": (True,),
    "load_together": (True,), "overlap": (False,), "deal": (2,), "ctas_per_sm": (2,),
    "alternate": (True,), "enable_fp_fusion": (False,),
}  # fmt: skip


def program(seed: int, most: int = 4) -> Program:
    """The program of a seed, of at most so many statements."""
    return _Writer(seed, most).program()
