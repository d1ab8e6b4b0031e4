"""Random programs on tiles of one to four dimensions: a seed gives the source, the options, the arrays.

Each tile is made of tiles before it: reshaped, permuted, joined and split, reduced and scanned along
any axis, also by functions of the program's own, sorted, gathered, counted, multiplied, written to memory and read
back in another shape; through loops and branches. All numbers are small integers, so that results
are compared exactly.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import sequential
from memory_programs import Nest, lines, one_less
from sequential import Pointer

ELEMENTS = ("int32", "int32", "float32", "float32", "float16", "int8", "int64")
SIZES = (1, 2, 2, 4, 4, 8, 8, 16, 16, 32, 64, 128, 24)
MOST = 4096
"""Elements of a tile."""

HELPERS = """@tawa.jit
def small(x):
    return tl.minimum(tl.maximum(x, -8), 7)


@tawa.jit
def plus(x, y):
    return x + y


@tawa.jit
def later_larger(x, i, y, j):
    second = (y > x) | ((y == x) & (j > i))
    return tl.where(second, y, x), tl.where(second, j, i)


@tawa.jit
def then(a, b, c, d):
    return (a * c) & 7, (c * b + d) & 7


@tawa.jit
def last(x, y):
    return y


@tawa.jit
def twice(x):
    return x * 2, x + 1


"""
"""`then` and `last` are associative, but their operands can not change places."""


@dataclass(frozen=True)
class Kind:
    """A tile's sizes and its elements' type."""

    shape: tuple[int, ...]
    element: str

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def whole(self) -> bool:
        """Whether its elements are integers."""
        return self.element.startswith("int")


@dataclass
class Program:
    """A source, how it is compiled, and what it is called with."""

    seed: int
    body: list[Any]
    options: dict[str, Any]
    turns: int
    programs: int
    shown: int

    names = ("x", "z", "g", "o")
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
        head = "def kernel(x, z, g, o, n):"
        return f"import tawa\nimport tawa.language as tl\n\n\n{HELPERS}@tawa.jit\n{head}\n{text}\n"

    def memories(self) -> tuple[np.ndarray, ...]:
        """Numbers to load, memory to write and read, counts, and what is shown."""
        numbers = np.random.default_rng(self.seed)
        x = numbers.integers(-8, 8, 2 * MOST).astype(np.int32)
        z = np.zeros(self.programs * MOST, np.float32)
        return x, z, np.zeros(64, np.int32), np.full(self.programs * self.shown, 77, np.float32)

    def arguments(self, memories: tuple[np.ndarray, ...]) -> dict[str, Any]:
        """What a launch is called with."""
        return dict(zip(self.names, memories, strict=True)) | {"n": self.turns}

    def expected(self) -> list[np.ndarray]:
        """The memories after the program, as Python and NumPy run it."""
        memories = self.memories()
        named = {k: Pointer(m, 0) for k, m in zip(self.names, memories, strict=True)}
        sequential.run(self.source, self.grid, {**named, "n": self.turns})
        return list(memories)


class _Writer:
    """Writes one program's statements."""

    def __init__(self, seed: int, most: int) -> None:
        self.random = random.Random(f"shapes {seed}")
        self.seed = seed
        self.left = self.random.randint(3, most)
        self.kinds: dict[str, Kind] = {}
        self.loops: list[str] = []
        self.count = 0

    def program(self) -> Program:
        """The whole program."""
        body: list[Any] = ["pid = tl.program_id(0)", "s = pid + n"]
        for _ in range(self.random.randint(1, 3)):
            body += self._loaded(self._shape())
        body += self._several(2)
        shown: list[Any] = []
        at = 0
        for name in self.random.sample(list(self.kinds), min(4, len(self.kinds))):
            shown += self._shown(name, at)
            at += self.kinds[name].size
        body += [line.replace("ALL", str(at)) for line in shown]
        warps = self.random.choice([1, 2, 4, 4, 8, 16])
        turns, programs = self.random.choice([0, 1, 2, 3]), self.random.choice([1, 1, 2])
        return Program(self.seed, body, {"num_warps": warps}, turns, programs, at)

    def _shape(self) -> tuple[int, ...]:
        while True:
            rank = self.random.choice([1, 2, 2, 2, 3, 3, 4])
            shape = tuple(self.random.choice(SIZES) for _ in range(rank))
            if 8 <= math.prod(shape) <= MOST and (rank > 1 or shape[0] >= 16):
                return shape

    def _new(self, kind: Kind) -> str:
        self.count += 1
        name = f"v{self.count}"
        self.kinds[name] = kind
        return name

    # --- memory -----------------------------------------------------------------------------------

    def _places(self, shape: tuple[int, ...], order: list[int]) -> str:
        """Addresses of a tile, one element after another, dimensions in an order."""
        strides, step = dict[int, int](), 1
        for axis in reversed(order):
            strides[axis] = step
            step *= shape[axis]
        terms: list[str] = []
        for axis, size in enumerate(shape):
            at = ", ".join(":" if a == axis else "None" for a in range(len(shape)))
            index = "tl.zeros((1,), tl.int32)" if size == 1 else f"{self._arange(size)}"
            terms.append(f"{index}[{at}] * {strides[axis]}" if len(shape) > 1 else index)
        return " + ".join(terms)

    def _arange(self, size: int) -> str:
        if size in (2, 4) or size % 8 == 0 or size == 1:
            return f"tl.arange(0, {size})"
        raise ValueError(size)

    def _order(self, shape: tuple[int, ...]) -> list[int]:
        order = list(range(len(shape)))
        if self.random.random() < 0.3:
            self.random.shuffle(order)
        return order

    def _loaded(self, shape: tuple[int, ...]) -> list[Any]:
        element = self.random.choice(ELEMENTS)
        places = self._places(shape, self._order(shape))
        start = self.random.choice([0, 0, 3, MOST // 2])
        mask = ""
        if self.random.random() < 0.25:
            mask = f", mask=({places}) < {self.random.randint(1, math.prod(shape))}, other=1"
        name = self._new(Kind(shape, element))
        return [f"{name} = tl.load(x + {start} + pid * 8 + {places}{mask}).to(tl.{element})"]

    def _shown(self, name: str, at: int) -> list[Any]:
        shape = self.kinds[name].shape
        places = self._places(shape, self._order(shape))
        return [f"tl.store(o + pid * ALL + {at} + {places}, {name}.to(tl.float32))"]

    def _written(self) -> list[Any]:
        """A tile through memory, into another shape."""
        old = self._pick()
        kind = self.kinds[old]
        shape = self._same_size(kind.size)
        out = f"tl.store(z + pid * {MOST} + {self._places(kind.shape, self._order(kind.shape))}, {old}.to(tl.float32))"
        back = f"tl.load(z + pid * {MOST} + {self._places(shape, self._order(shape))})"
        name = self._new(Kind(shape, kind.element))
        return [out, f"{name} = {back}.to(tl.{kind.element})"]

    def _looked_up(self) -> list[Any]:
        old = self._pick(lambda k: k.whole)
        kind = self.kinds[old]
        name = self._new(Kind(kind.shape, "int32"))
        mask = self.random.choice(["", f", mask={old} > 0", f", mask={old} > -3, other=5"])
        other = "" if "other" in mask or not mask else ", other=0"
        return [
            f"{name} = tl.load(x + (({old}).to(tl.int32) + 8) * {self.random.choice([1, 5, 16])}{mask}{other})"
        ]

    def _counted(self) -> list[Any]:
        old = self._pick(lambda k: k.whole)
        value = self.random.choice(["1", f"small({old}).to(tl.int32)"])
        if value == "1":
            value = f"({old} * 0 + 1).to(tl.int32)"
        return [
            f"tl.atomic_add(g + (({old}).to(tl.int32) & 31), {value}, mask={old} > {self.random.choice([-9, 0])})"
        ]

    # --- values -----------------------------------------------------------------------------------

    def _pick(self, wanted: Callable[[Kind], bool] = lambda _: True) -> str:
        found = [name for name, kind in self.kinds.items() if wanted(kind)]
        if not found:
            raise LookupError
        return self.random.choice(found[-6:] if self.random.random() < 0.7 else found)

    def _same_size(self, size: int) -> tuple[int, ...]:
        """A shape of so many elements."""
        odd = 9 if size % 9 == 0 else 3 if size % 3 == 0 else 1
        twos = (size // odd).bit_length() - 1
        rank = self.random.randint(1, 4)
        shape = [1] * rank
        for _ in range(twos):
            shape[self.random.randrange(rank)] *= 2
        if odd == 9:
            return (size,)
        if odd > 1:
            fitting = [a for a in range(rank) if shape[a] % 8 == 0]
            if not fitting:
                return (size,)
            shape[self.random.choice(fitting)] *= 3
        return tuple(shape)

    def _made(self) -> list[Any]:
        """A new tile of old ones."""
        forms = [
            self._elementwise, self._elementwise, self._elementwise, self._reshaped, self._reshaped, self._permuted,
            self._permuted, self._joined, self._split, self._reduced, self._reduced, self._reduced, self._scanned,
            self._scanned, self._sorted, self._gathered, self._broadcast, self._broadcast, self._product, self._histogram,
            self._sliced, self._written, self._looked_up, self._counted, self._chosen, self._pair_reduced,
            self._flipped, self._cat, self._typed, self._rounded, self._packed, self._products,
            self._where_is,
        ]  # fmt: skip
        while True:
            try:
                return self.random.choice(forms)()
            except LookupError:
                continue

    def _elementwise(self) -> list[Any]:
        old = self._pick()
        kind = self.kinds[old]
        other = self._pick(lambda k: k == kind)
        forms = [f"small({old} + {other})", f"small({old} * {other})", f"tl.maximum({old}, {other})",
                 f"small({old} - s)", f"tl.where({old} > {other}, {old}, {other} * 0)", f"-{old}",
                 f"small({old} * 3 - {other})", f"tl.abs({old})",
                 f"small(twice({old})[0] - twice({other})[1])"]  # fmt: skip
        if kind.whole:
            forms += [
                f"{old} & 3",
                f"{old} ^ ({other} & 1)",
                f"({old} & 7) % 3",
                f"({old} & 7) // 2",
                f"{old} >> 1",
            ]
        if kind.shape == (1,) * len(kind.shape):
            raise LookupError
        text = self.random.choice(forms)
        return [f"{self._new(kind)} = ({text}).to(tl.{kind.element})"]

    def _typed(self) -> list[Any]:
        old = self._pick()
        element = self.random.choice(ELEMENTS)
        return [
            f"{self._new(Kind(self.kinds[old].shape, element))} = small({old}).to(tl.{element})"
        ]

    def _rounded(self) -> list[Any]:
        """Through a type that has all of these numbers."""
        old = self._pick()
        kind = self.kinds[old]
        through = self.random.choice(["float8e4nv", "float8e5", "bfloat16", "float16", "int8"])
        value = f"small({old}).to(tl.float32).to(tl.{through}).to(tl.float32)"
        return [f"{self._new(kind)} = {value}.to(tl.{kind.element})"]

    def _packed(self) -> list[Any]:
        """Two halves of a byte, and the signed numbers that they are."""
        old = self._pick(lambda k: k.whole)
        kind = self.kinds[old]
        other = self._pick(lambda k: k == kind)
        both = f"(({old} & 15) | (({other} & 15) << 4)).to(tl.int8)"
        first, second = (self._new(Kind(kind.shape, "int8")) for _ in range(2))
        name = f"both{self.count}"
        return [f"{name} = {both}", f"{first} = (({name} << 4).to(tl.int8) >> 4).to(tl.int8)",
                f"{second} = ({name} >> 4).to(tl.int8)"]  # fmt: skip

    def _products(self) -> list[Any]:
        """Several products at once."""
        left = self._pick(lambda k: len(k.shape) == 3 and min(k.shape[1:]) >= 16)
        many, rows, inner = self.kinds[left].shape
        right = self._pick(
            lambda k: len(k.shape) == 3 and k.shape[:2] == (many, inner) and k.shape[2] >= 16
        )
        columns = self.kinds[right].shape[2]
        if many * rows * columns > MOST:
            raise LookupError
        value = f"tl.dot(small({left}).to(tl.float16), small({right}).to(tl.float16))"
        return [f"{self._new(Kind((many, rows, columns), 'float32'))} = small({value})"]

    def _where_is(self) -> list[Any]:
        """An extreme and where it is, of equal ones the first."""
        old = self._pick(lambda k: len(k.shape) > 1)
        kind = self.kinds[old]
        axis = self.random.randrange(len(kind.shape))
        shape = tuple(n for a, n in enumerate(kind.shape) if a != axis)
        how = self.random.choice(["max", "min"])
        first, second = (
            self._new(kind if not shape else Kind(shape, kind.element)),
            self._new(Kind(shape, "int32")),
        )
        return [f"{first}, {second} = tl.{how}({old}, {axis}, return_indices=True)"]

    def _reshaped(self) -> list[Any]:
        old = self._pick()
        kind = self.kinds[old]
        shape = self._same_size(kind.size)
        return [f"{self._new(Kind(shape, kind.element))} = tl.reshape({old}, {list(shape)})"]

    def _permuted(self) -> list[Any]:
        old = self._pick(lambda k: len(k.shape) > 1)
        kind = self.kinds[old]
        order = list(range(len(kind.shape)))
        self.random.shuffle(order)
        new = Kind(tuple(kind.shape[a] for a in order), kind.element)
        return [f"{self._new(new)} = tl.permute({old}, {order})"]

    def _joined(self) -> list[Any]:
        old = self._pick(lambda k: k.size * 2 <= MOST and len(k.shape) < 4)
        kind = self.kinds[old]
        other = self._pick(lambda k: k == kind)
        if self.random.random() < 0.3:
            shape = (*kind.shape[:-1], kind.shape[-1] * 2)
            return [f"{self._new(Kind(shape, kind.element))} = tl.interleave({old}, {other})"]
        return [f"{self._new(Kind((*kind.shape, 2), kind.element))} = tl.join({old}, {other})"]

    def _cat(self) -> list[Any]:
        old = self._pick(lambda k: k.size * 2 <= MOST)
        kind = self.kinds[old]
        other = self._pick(lambda k: k == kind)
        axis = self.random.randrange(len(kind.shape))
        shape = tuple(n * 2 if a == axis else n for a, n in enumerate(kind.shape))
        return [f"{self._new(Kind(shape, kind.element))} = tl.cat({old}, {other}, dim={axis})"]

    def _split(self) -> list[Any]:
        old = self._pick(lambda k: len(k.shape) > 1 and k.shape[-1] == 2)
        kind = Kind(self.kinds[old].shape[:-1], self.kinds[old].element)
        first, second = self._new(kind), self._new(kind)
        return [f"{first}, {second} = tl.split({old})"]

    def _reduced(self) -> list[Any]:
        old = self._pick(lambda k: len(k.shape) > 1)
        kind = self.kinds[old]
        axis = self.random.randrange(len(kind.shape))
        shape = tuple(n for a, n in enumerate(kind.shape) if a != axis)
        keep = self.random.random() < 0.25
        if keep:
            shape = tuple(1 if a == axis else n for a, n in enumerate(kind.shape))
        how = self.random.choice(
            ["sum", "max", "min", "argmax", "argmin", "sum", "reduce"] + ["xor_sum"] * kind.whole
        )
        element = "int32" if how.startswith("arg") else kind.element
        kept = ", keep_dims=True" if keep else ""
        value = f"tl.{how}({old}, {axis}{kept})"
        if how == "sum" and kind.element == "float16":
            value = f"tl.sum({old}.to(tl.float32), {axis}{kept})"
        if how == "reduce":
            value = f"tl.reduce({old}.to(tl.float32), {axis}, plus{kept})"
        return [f"{self._new(Kind(shape, element))} = small({value}).to(tl.{element})"]

    def _pair_reduced(self) -> list[Any]:
        old = self._pick(lambda k: len(k.shape) > 1)
        kind = self.kinds[old]
        axis = self.random.randrange(len(kind.shape))
        shape = tuple(n for a, n in enumerate(kind.shape) if a != axis)
        others = [n for n, k in self.kinds.items() if k.shape == kind.shape and k.whole]
        if not others:
            raise LookupError
        first, second = self._new(Kind(shape, kind.element)), self._new(Kind(shape, "int32"))
        pair = f"({old}, {self.random.choice(others)}.to(tl.int32))"
        return [f"{first}, {second} = tl.reduce({pair}, {axis}, later_larger)"]

    def _scanned(self) -> list[Any]:
        old = self._pick()
        kind = self.kinds[old]
        axis = self.random.randrange(len(kind.shape))
        back = self.random.choice(["", "", ", reverse=True"])
        form = self.random.choice(["cumsum", "then", "last", "plus"])
        whole = f"({old}.to(tl.int32) & 7)"
        name = self._new(Kind(kind.shape, "int32"))
        if form == "cumsum":
            return [f"{name} = tl.cumsum({whole}, {axis}{back}) & 15"]
        if form == "then":
            other = self._pick(lambda k: k.shape == kind.shape)
            if other == name:
                other = old
            second = f"({other}.to(tl.int32) & 7)"
            unused = self._new(Kind(kind.shape, "int32"))
            return [
                f"{unused}, {name} = tl.associative_scan(({whole}, {second}), {axis}, then{back})"
            ]
        return [f"{name} = tl.associative_scan({whole}, {axis}, {form}{back}) & 15"]

    def _sorted(self) -> list[Any]:
        old = self._pick(lambda k: k.shape[-1] in (2, 4, 8, 16, 32, 64) and k.element != "int8")
        kind = self.kinds[old]
        if self.random.random() < 0.3 and kind.shape[-1] > 2:
            few = kind.shape[-1] // 2
            return [
                f"{self._new(Kind((*kind.shape[:-1], few), kind.element))} = tl.topk({old}, {few})"
            ]
        down = self.random.choice(["", ", descending=True"])
        return [f"{self._new(kind)} = tl.sort({old}{down})"]

    def _flipped(self) -> list[Any]:
        old = self._pick()
        kind = self.kinds[old]
        axis = self.random.choice(
            [a for a, n in enumerate(kind.shape) if n & (n - 1) == 0] or [None]
        )
        if axis is None:
            raise LookupError
        return [f"{self._new(kind)} = tl.flip({old}, {axis})"]

    def _gathered(self) -> list[Any]:
        old = self._pick()
        kind = self.kinds[old]
        axis = self.random.randrange(len(kind.shape))
        index = self._pick(
            lambda k: (
                k.whole
                and len(k.shape) == len(kind.shape)
                and all(
                    a == axis or n == m
                    for a, (n, m) in enumerate(zip(k.shape, kind.shape, strict=True))
                )
            )
        )
        size = kind.shape[axis]
        if size & (size - 1):
            size = 8
        place = f"({index}.to(tl.int32) & {size - 1})"
        return [
            f"{self._new(Kind(self.kinds[index].shape, kind.element))} = tl.gather({old}, {place}, {axis})"
        ]

    def _broadcast(self) -> list[Any]:
        old = self._pick(lambda k: len(k.shape) < 4)
        kind = self.kinds[old]
        axis = self.random.randint(0, len(kind.shape))
        fitting = [n for n in SIZES if n * kind.size <= MOST]
        if not fitting:
            raise LookupError
        size = self.random.choice(fitting)
        shape = (*kind.shape[:axis], size, *kind.shape[axis:])
        at = ", ".join(["None" if a == axis else ":" for a in range(len(shape))])
        name = self._new(Kind(shape, kind.element))
        form = self.random.choice(["to", "to", "sum"])
        if form == "to" or size == 1:
            return [f"{name} = tl.broadcast_to({old}[{at}], {list(shape)})"]
        across = ", ".join([":" if a == axis else "None" for a in range(len(shape))])
        return [
            f"{name} = small({old}[{at}] - {self._arange(size)}[{across}]).to(tl.{kind.element})"
        ]

    def _sliced(self) -> list[Any]:
        old = self._pick(lambda k: len(k.shape) == 2 and min(k.shape) >= 4)
        kind = self.kinds[old]
        rows, columns = kind.shape[0] // 2, kind.shape[1] // 2
        if rows & (rows - 1) or columns & (columns - 1):
            raise LookupError
        at = self.random.choice(
            [f"[{rows}, 0]", f"[0, {columns}]", f"[(s & 1) * {rows}, {columns}]"]
        )
        return [
            f"{self._new(Kind((rows, columns), kind.element))} = tl.extract_slice({old}, {at}, [{rows}, {columns}])"
        ]

    def _product(self) -> list[Any]:
        left = self._pick(lambda k: len(k.shape) == 2 and min(k.shape) >= 16)
        rows, inner = self.kinds[left].shape
        right = self._pick(lambda k: len(k.shape) == 2 and k.shape[0] == inner and k.shape[1] >= 8)
        columns = self.kinds[right].shape[1]
        if rows * columns > MOST:
            raise LookupError
        element = self.random.choice(["float16", "float32", "float16", "int8"])
        out = "int32" if element == "int8" else "float32"
        if element == "int8" and inner < 32:
            raise LookupError
        value = f"tl.dot(small({left}).to(tl.{element}), small({right}).to(tl.{element}))"
        return [f"{self._new(Kind((rows, columns), out))} = small({value})"]

    def _histogram(self) -> list[Any]:
        old = self._pick(lambda k: len(k.shape) == 1 and k.whole)
        bins = self.random.choice([8, 16, 32])
        mask = self.random.choice(["", f", mask={old} > 0"])
        value = f"tl.histogram({old}.to(tl.int32) & 7, {bins}{mask})"
        return [f"{self._new(Kind((bins,), 'int32'))} = small({value})"]

    def _chosen(self) -> list[Any]:
        old = self._pick()
        kind = self.kinds[old]
        other = self._pick(lambda k: k == kind)
        return [f"{self._new(kind)} = {old} if s > 1 else {other}"]

    # --- statements -------------------------------------------------------------------------------

    def _several(self, depth: int) -> list[Any]:
        found: list[Any] = []
        for _ in range(self.random.randint(2, 6)):
            if self.left > 0:
                self.left -= 1
                found += self._statement(depth)
        return found

    def _statement(self, depth: int) -> list[Any]:
        kind = self.random.random()
        if depth and kind < 0.15:
            return self._nest(depth)
        return self._made()

    def _nest(self, depth: int) -> list[Any]:
        """A loop or a branch that changes a tile: what it makes besides is not seen behind it."""
        known = dict(self.kinds)
        name = f"i{len(self.loops)}"
        head = self.random.choice([f"for {name} in range(n)", f"for {name} in tl.static_range(2)",
                                   "if s > 1", f"for {name} in range(3)", "if pid == 0"])  # fmt: skip
        self.loops.append(name)
        body = self._several(depth - 1)
        self.loops.pop()
        made = {n: k for n, k in self.kinds.items() if n not in known}
        changed: list[str] = []
        for new, kind in made.items():
            same = [n for n, k in known.items() if k == kind]
            if same:
                changed.append(f"{self.random.choice(same)} = {new}")
        self.kinds = known
        return [Nest(f"{head}:", [*body, *changed])]


def program(seed: int, most: int = 12) -> Program:
    """The program of a seed, of at most so many statements."""
    return _Writer(seed, most).program()
