"""Random programs around products of matrices: a seed gives the source, the options, the arrays.

Where `memory_programs` has accesses that meet, these have what kernels are made of: tiles of several
shapes and element types that come by pointers, block pointers and descriptors, also transposed or
gathered, products of them one after the other, rows of sums and extremes that a loop carries, loops in
loops and branches, helpers, tickets, and values that leave through any of them. All numbers are small integers, so that
results are compared exactly.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import sequential
from memory_programs import Nest, lines, without_one
from sequential import Descriptor, Pointer

import tawa

ELEMENTS = {"float16": np.float16, "float32": np.float32, "int8": np.int8}
DIMS = {"BM": (16, 32, 64, 64, 64, 128), "BN": (16, 32, 64, 64, 128), "BK": (16, 32, 32, 64)}
ODD = {"BM": (8, 48, 96, 192), "BN": (8, 24, 40, 80, 96), "BK": (8, 24, 48, 80)}
"""Sizes that tiles of other compilers can't have, or that fit no instruction."""
SCALARS = ("height", "width", "wide", "n", *DIMS)
INPUTS = "abd"
LIMIT = 4
"""What operands of products are clamped to."""

Kind = tuple[str, tuple[str, ...]]
"""`own` (the arrays' element), `work` (what products give) or `flag`; and the names of its sizes."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of a program's tiles and arrays."""

    dims: tuple[tuple[str, int], ...]
    element: str
    grid: tuple[int, ...]
    cut: tuple[int, int]
    """Rows and columns that the arrays lack for whole blocks."""

    @property
    def most(self) -> int:
        return 4 * max(size for _, size in self.dims)

    @property
    def height(self) -> int:
        return self.most - self.cut[0]

    @property
    def width(self) -> int:
        return self.most - self.cut[1]

    @property
    def programs(self) -> int:
        return int(np.prod(self.grid))

    @property
    def tile(self) -> int:
        """Elements that one shown tile may have."""
        return max(size for _, size in self.dims) ** 2


@dataclass
class Program:
    """A source, how it is compiled, and what it is called with."""

    seed: int
    sizes: Sizes
    body: list[Any]
    options: dict[str, Any]
    turns: int

    names = ("a", "b", "d", "y", "g", "c", "o")
    scalars = SCALARS

    @property
    def grid(self) -> tuple[int, ...]:
        return self.sizes.grid

    def smaller(self) -> Iterator[Program]:
        """The same with one statement, nest or option less."""
        for body in without_one(self.body):
            yield replace(self, body=body)
        for name in self.options:
            yield replace(self, options={k: v for k, v in self.options.items() if k != name})
        if self.sizes.programs > 1:
            yield replace(self, sizes=replace(self.sizes, grid=(1,)))
        for turns in range(self.turns):
            yield replace(self, turns=turns)
        if self.sizes.cut != (0, 0):
            yield replace(self, sizes=replace(self.sizes, cut=(0, 0)))

    @property
    def source(self) -> str:
        """The kernel's Python text."""
        text = "\n".join(lines(self.body or ["pass"], "    "))
        scalars = [f"{name}: tl.constexpr" if name in DIMS else name for name in SCALARS]
        head = f"def kernel({', '.join([*self.names, *self._described(text), *scalars])}):"
        return f"import tawa\nimport tawa.language as tl\n\n\n{HELPERS}@tawa.jit\n{head}\n{text}\n"

    def _described(self, text: str) -> dict[str, tuple[str, list[int]]]:
        """The descriptors that a text names, with their arrays and blocks."""
        sizes, found = dict(self.sizes.dims), {}
        for array, rows, columns in product((*INPUTS, "y"), DIMS, DIMS):
            name = f"{array}_{rows}_{columns}"
            if name in text:
                found[name] = (array, [sizes[rows], sizes[columns]])
        return found

    def memories(self) -> tuple[np.ndarray, ...]:
        """Flat memory of the inputs, of what is changed in place, of counts, of what is shown."""
        sizes, numbers = self.sizes, np.random.default_rng(self.seed)
        element = ELEMENTS[sizes.element]
        size = sizes.most * sizes.most
        inputs = [numbers.integers(-2, 3, size).astype(element) for _ in INPUTS]
        changed = numbers.integers(-2, 3, size * sizes.programs).astype(element)
        added = np.zeros(sizes.most, np.float32)
        counts = numbers.integers(0, 4, 64).astype(np.int32)
        shown = np.full(sizes.programs * SHOWN * sizes.tile, 77, np.float32)
        return (*inputs, changed, added, counts, shown)

    def arguments(self, memories: tuple[np.ndarray, ...]) -> dict[str, Any]:
        """What a launch is called with."""
        named: dict[str, Any] = dict(zip(self.names, memories, strict=True))
        named |= self._scalars()
        for name, (array, block) in self._described(self.source).items():
            shape = [self._rows(array), self.sizes.width]
            strides = [self.sizes.most, 1]
            named[name] = tawa.TensorDescriptor(named[array], shape, strides, block)
        return named

    def expected(self) -> list[np.ndarray]:
        """The memories after the program, as Python and NumPy run it."""
        memories = self.memories()
        named: dict[str, Any] = {
            name: Pointer(memory, 0) for name, memory in zip(self.names, memories, strict=True)
        }
        for name, (array, block) in self._described(self.source).items():
            shape = [self._rows(array), self.sizes.width]
            named[name] = Descriptor(named[array], shape, [self.sizes.most, 1], block)
        sequential.run(self.source, self.grid, named | self._scalars())
        return list(memories)

    def _rows(self, array: str) -> int:
        return self.sizes.most * self.sizes.programs if array == "y" else self.sizes.height

    def _scalars(self) -> dict[str, int]:
        sizes = self.sizes
        values = (sizes.height, sizes.width, sizes.most, self.turns)
        return dict(zip(SCALARS[:4], values, strict=True)) | dict(sizes.dims)


SHOWN = 8
"""Tiles that a program shows."""

HELPERS = """@tawa.jit
def clamped(x):
    return tl.minimum(tl.maximum(x, -4), 4)


@tawa.jit
def larger_first(x, y):
    return tl.maximum(x, y), tl.minimum(x, y)


@tawa.jit
def chosen(x, y, which):
    if which > 1:
        return x
    return y


"""


class _Writer:
    """Writes one program's statements."""

    def __init__(self, seed: int, most: int) -> None:
        self.random = random.Random(f"products {seed}")
        self.seed = seed
        pick = self.random.choice
        element = pick(["float16"] * 6 + ["float32", "int8"])
        cut = pick([(0, 0), (0, 0), (0, 0), (1, 0), (19, 0), (5, 3), (0, 16)])
        odd = ODD if self.random.random() < 0.25 and element != "int8" else DIMS
        dims = tuple((name, pick((*sizes, *odd[name]))) for name, sizes in DIMS.items())
        if element == "float32":
            dims = tuple((name, min(size, 64)) for name, size in dims)
        self.sizes = Sizes(dims, element, pick([(1,), (2,), (3,), (2, 2)]), cut)
        self.own = f"tl.{element}"
        self.work = "tl.int32" if element == "int8" else "tl.float32"
        self.zero = "0" if element == "int8" else "0.0"
        self.left = self.random.randint(3, most)
        self.loops: list[str] = []
        self.kinds = self._variables()
        ways = ["pointer", "block", "given", "given", "own"]
        self.allowed = self.random.sample(ways, self.random.randint(1, 3))
        self.atomics = self.random.random() < 0.2
        self.stores = self.random.random() < 0.3
        self.nothing_odd = self.random.random() < 0.5
        """Only what is usual: whole tiles by plain places."""

    def _variables(self) -> dict[str, Kind]:
        """What the program's variables hold."""
        pairs = list(product(DIMS, DIMS))
        found: dict[str, Kind] = {
            "acc": ("work", ("BM", "BN")), "t": ("work", self.random.choice(pairs)),
            "p": ("own", ("BM", "BK")), "q": ("own", ("BK", "BN")),
            "u": ("own", self.random.choice(pairs)), "v": ("own", self.random.choice(pairs)),
            "rows": ("work", ("BM",)), "across": ("work", ("BN",)),
        }  # fmt: skip
        if self.random.random() < 0.5:
            found["acc2"] = ("work", self.random.choice([("BM", "BN"), ("BM", "BK"), ("BN", "BM")]))
        return found

    def program(self) -> Program:
        """The whole program."""
        body = [*self._begin(), *self._several(2), *self._show()]
        turns = self.random.choice([0, 1, 2, 3, 4, 5])
        return Program(self.seed, self.sizes, body, self._options(), turns)

    def _options(self) -> dict[str, Any]:
        pick = self.random.choice
        found: dict[str, Any] = {"num_warps": pick([4, 4, 4, 4, 8, 2, 1])}
        for name, values in OPTIONS.items():
            if self.random.random() < 0.15:
                found[name] = pick(values)
        if self.sizes.grid[0] % found.get("cluster", 1):
            found.pop("cluster", None)
        if not found.get("persistent") or "cluster" in found:
            found.pop("deal", None)
        if found.get("persistent") and self.random.random() < 0.4:
            found |= {"ping_pong": True, "consumers": 2}
        if found.get("mma_depth", 0) >= found.get("num_stages", 2):
            found.pop("mma_depth")
        if "cluster" in found:
            found.pop("ctas_per_sm", None)
        if self.random.random() < 0.15:
            found["slice_k"] = pick((2, 3))
        return found

    def _begin(self) -> list[Any]:
        grid = self.sizes.grid
        pid = "tl.program_id(0)"
        if len(grid) > 1:
            pid = self.random.choice([
                f"tl.program_id(1) * {grid[0]} + {pid}", f"{pid} * {grid[1]} + tl.program_id(1)",
            ])  # fmt: skip
        found: list[Any] = [f"pid = {pid}", "s = tl.load(c + pid)"]
        found += [f"r{name[1]} = tl.arange(0, {name})" for name in DIMS]
        for name, (kind, shape) in self.kinds.items():
            if kind == "own" and self.random.random() < 0.6:
                found.append(f"{name} = {self._load(shape)}")
            else:
                element = self.own if kind == "own" else self.work
                found.append(f"{name} = tl.zeros(({', '.join(shape)},), {element})")
        return found

    def _show(self) -> list[Any]:
        found: list[Any] = []
        for number, (name, (_, shape)) in enumerate(self.kinds.items()):
            if name != "acc" and self.random.random() < 0.5:
                continue
            place = f"o + (pid * {SHOWN} + {number % SHOWN}) * {self.sizes.tile}"
            if len(shape) == 2:
                place += f" + r{shape[0][1]}[:, None] * {shape[1]} + r{shape[1][1]}[None, :]"
            else:
                place += f" + r{shape[0][1]}"
            found.append(f"tl.store({place}, {name}.to(tl.float32))")
        return found

    # --- accesses ---------------------------------------------------------------------------------

    def _place(self, size: str) -> str:
        """Where a block begins along one dimension: at most three blocks of that size on."""
        choices = ["0", size, "(pid & 1) * " + size, f"(n & 1) * {size}", f"s * {size}"]
        for name in self.loops:
            choices += [f"{name} * {size}"] * 6
            if not self.nothing_odd:
                choices += [f"({name} // 2) * {size}", f"({name} * {size} + 16)",
                            f"tl.load(c + {name}) * {size}", f"(3 - {name}) * {size}"]  # fmt: skip
        return self.random.choice(choices)

    def _load(self, shape: tuple[str, ...], array: str | None = None) -> str:
        rows, columns = shape
        array = array or self.random.choice(INPUTS)
        way = self.random.choice(self.allowed)
        down, right = self._place(rows), self._place(columns)
        if way == "given":
            call = f"{array}_{rows}_{columns}.load([{down}, {right}])"
            if self.random.random() < 0.2:
                return f"{array}_{columns}_{rows}.load([{right}, {down}]).T"
            return call
        if way == "own":
            made = f"tl.make_tensor_descriptor({array}, [height, width], [wide, 1], [{rows}, {columns}])"
            return f"{made}.load([{down}, {right}])"
        across = self.random.random() < 0.25
        if way == "block":
            strides, order = ("[1, wide]", "[0, 1]") if across else ("[wide, 1]", "[1, 0]")
            sizes = "[width, height]" if across else "[height, width]"
            made = (
                f"tl.make_block_ptr({array}, {sizes}, {strides}, [{down}, {right}], "
                f"[{rows}, {columns}], {order})"
            )
            return f"tl.load({made}, boundary_check=(0, 1), padding_option='zero')"
        at = f"({down} + r{rows[1]})[:, None]", f"({right} + r{columns[1]})[None, :]"
        if self.random.random() < 0.1:  # gathered
            at = f"(tl.load(c + (r{rows[1]} & 31)) * 3 + {down})[:, None]", at[1]
        tall, long = ("width", "height") if across else ("height", "width")
        place = f"{at[0]} + {at[1]} * wide" if across else f"{at[0]} * wide + {at[1]}"
        mask = f"({at[0]} < {tall}) & ({at[1]} < {long})"
        return f"tl.load({array} + {place}, mask={mask}, other={self.zero})"

    def _store(self) -> str:
        """Into a program's own rows of the array that is changed."""
        name = self.random.choice(list(self.kinds))
        shape = self.kinds[name][1]
        if len(shape) == 1:
            place = f"y + pid * {self.sizes.most} * wide + r{shape[0][1]} * wide + {self.random.randint(0, 3)}"
            return f"tl.store({place}, clamped({name}).to({self.own}))"
        rows, columns = shape
        down, right = f"pid * {self.sizes.most} + {self._place(rows)}", self._place(columns)
        value = f"clamped({name}).to({self.own})"
        if self.random.random() < 0.5:
            return f"y_{rows}_{columns}.store([{down}, {right}], {value})"
        at = f"({down} + r{rows[1]})[:, None]", f"({right} + r{columns[1]})[None, :]"
        return f"tl.store(y + {at[0]} * wide + {at[1]}, {value}, mask={at[1]} < width)"

    def _stored(self) -> str:
        """A load of what the program has perhaps stored."""
        name = self.random.choice([n for n, (kind, _) in self.kinds.items() if kind == "own"])
        rows, columns = self.kinds[name][1]
        down, right = f"pid * {self.sizes.most} + {self._place(rows)}", self._place(columns)
        if self.random.random() < 0.5:
            return f"{name} = y_{rows}_{columns}.load([{down}, {right}])"
        at = f"({down} + r{rows[1]})[:, None]", f"({right} + r{columns[1]})[None, :]"
        mask = f"mask={at[1]} < width, other={self.zero}"
        return f"{name} = tl.load(y + {at[0]} * wide + {at[1]}, {mask})"

    def _atomic(self) -> str:
        name = self.random.choice([n for n, (_, shape) in self.kinds.items() if len(shape) == 1])
        size = self.kinds[name][1][0]
        return f"tl.atomic_add(g + r{size[1]}, clamped({name}).to(tl.float32))"

    # --- values -----------------------------------------------------------------------------------

    def _named(self, kind: str, shape: tuple[str, ...]) -> list[str]:
        return [name for name, found in self.kinds.items() if found == (kind, shape)]

    def _operand(self, shape: tuple[str, ...]) -> str:
        """A tile of the arrays' element, of which products are made."""
        choices = self._named("own", shape) * 3
        choices += [f"{name}.T" for name in self._named("own", shape[::-1])] * 2
        choices += [f"clamped({name}).to({self.own})" for name in self._named("work", shape)] * 2
        choices += [f"clamped({n}).to({self.own}).T" for n in self._named("work", shape[::-1])]
        choices += [self._load(shape)] * 2
        return self.random.choice(choices)

    def _product(self) -> str:
        name = self.random.choice([n for n in self.kinds if n in ("acc", "acc", "t", "acc2")])
        rows, columns = self.kinds[name][1]
        inner = self.random.choice(list(DIMS))
        left, right = self._operand((rows, inner)), self._operand((inner, columns))
        return self.random.choice([
            f"{name} = tl.dot({left}, {right}, {name})", f"{name} += tl.dot({left}, {right})",
            f"{name} = tl.dot({left}, {right}, {name})",
            f"{name} = clamped({name}) + tl.dot({left}, {right})",
            f"{name} = tl.dot({left}, {right})",
            f"{name} = tl.dot({left}, {right}, clamped({name}))",
            f"{name} = clamped(tl.dot({left}, {right})) - {name}",
        ])  # fmt: skip

    def _tile(self, shape: tuple[str, ...]) -> str:
        """A small tile of the type that products have."""
        choices = [f"clamped({name})" for name in self._named("work", shape)] * 2
        choices += [f"{name}.to({self.work})" for name in self._named("own", shape)] * 2
        if len(shape) == 1:
            choices += [f"(r{shape[0][1]} & 3).to({self.work})"]
            for name, (kind, found) in self.kinds.items():
                if kind == "work" and len(found) == 2 and shape[0] in found:
                    axis = 1 - found.index(shape[0])
                    if found[0] == found[1]:
                        axis = self.random.randint(0, 1)
                    how = self.random.choice(["sum", "max", "min", "max", "sum"])
                    choices += [f"clamped(tl.{how}(clamped({name}), {axis}))"] * 2
                    choices += [f"(tl.argmax({name}, {axis}) & 3).to({self.work})"]
        else:
            rows, columns = (f"r{size[1]}" for size in shape)
            choices += [f"({rows}[:, None] + {columns}[None, :] & 3).to({self.work})"]
            choices += [
                f"{self._tile(shape[:1])}[:, None] + tl.zeros(({', '.join(shape)}), {self.work})"
            ]
            choices += [f"clamped({name}).T" for name in self._named("work", shape[::-1])]
            choices += [f"clamped(tl.cumsum(clamped({n}), {self.random.randint(0, 1)}))"
                        for n in self._named("work", shape)]  # fmt: skip
        return self.random.choice(choices)

    def _value(self, name: str) -> str:
        kind, shape = self.kinds[name]
        one, other = self._tile(shape), self._tile(shape)
        forms = [
            f"{one} + {other}", f"{one} - {other} + 1", f"{one} * 2 - {other}", f"{one} * {other}",
            f"tl.where({one} > {other}, {other}, {one})", f"{one} + s", f"tl.where(s > 1, {one}, {other})",
            f"tl.maximum({one}, {other})", f"chosen({one}, {other}, s)", f"{other} if s > 1 else {one}",
        ]  # fmt: skip
        if len(shape) == 2:
            forms += [
                f"{one} - {self._tile(shape[:1])}[:, None]",
                f"{one} * {self._tile(shape[1:])}[None, :]",
                f"tl.where({self._tile(shape[:1])}[:, None] > 0, {one}, {other})",
                f"tl.where(r{shape[0][1]}[:, None] >= r{shape[1][1]}[None, :], {one}, {other})",
            ]
        chosen = self.random.choice(forms)
        element = self.own if kind == "own" else self.work
        return f"{name} = clamped({chosen}).to({element})"

    def _scalar(self) -> str:
        vector = self.random.choice([n for n, (_, shape) in self.kinds.items() if len(shape) == 1])
        return self.random.choice([
            f"s = tl.sum(clamped({vector}), 0).to(tl.int32) & 3", "s = (s + 1) & 3",
            "s = tl.load(c + 8 + (s & 3))", f"s = tl.max(clamped({vector}), 0).to(tl.int32) & 3",
        ])  # fmt: skip

    def _move(self) -> str:
        names = list(self.kinds)
        self.random.shuffle(names)
        for name in names:
            same = [
                other for other in names if self.kinds[other] == self.kinds[name] and other != name
            ]
            if same:
                other = same[0]
                forms = [f"{name} = {other}", f"{name}, {other} = {other}, {name}"]
                if self.kinds[name][0] == "work":
                    forms.append(f"{name}, {other} = larger_first({name}, {other})")
                return self.random.choice(forms)
        return self._value(names[0])

    # --- statements -------------------------------------------------------------------------------

    def _several(self, depth: int) -> list[Any]:
        found: list[Any] = []
        for _ in range(self.random.randint(2, 5)):
            if self.left > 0:
                self.left -= 1
                found += self._statement(depth)
        return found

    def _statement(self, depth: int) -> list[Any]:
        simple: dict[str, tuple[float, Callable[[], str]]] = {
            "load": (3, self._loaded), "product": (5, self._product),
            "value": (3, lambda: self._value(self.random.choice(list(self.kinds)))),
            "move": (1, self._move), "scalar": (0.6, self._scalar),
            "store": (2 * self.stores, self._store), "stored": (self.stores, self._stored),
            "atomic": (2 * self.atomics, self._atomic),
        }  # fmt: skip
        weights = {name: weight for name, (weight, _) in simple.items()}
        if depth:
            weights |= {"for": 7 if not self.loops else 3, "while": 1, "if": 2}
        kind = self.random.choices(list(weights), list(weights.values()))[0]
        if kind in ("for", "while", "if"):
            return {"for": self._for, "while": self._while, "if": self._if}[kind](depth)
        return [simple[kind][1]()]

    def _loaded(self) -> str:
        name = self.random.choice([n for n, (kind, _) in self.kinds.items() if kind == "own"])
        return f"{name} = {self._load(self.kinds[name][1])}"

    def _inside(self, name: str, depth: int, leaves: bool) -> list[Any]:
        self.loops.append(name)
        found = self._several(depth - 1)
        if leaves and self.random.random() < 0.15:
            way_out = self.random.choice(["break", "continue"])
            at = self.random.randint(0, len(found))
            found.insert(at, Nest(f"if {self._condition()}:", [way_out]))
        self.loops.pop()
        return found

    def _for(self, depth: int) -> list[Any]:
        name = self._counter()
        ranges = ["range(n & 3)", "range(0, n & 3)", "tl.range(0, n & 3)", "tl.range(0, n & 3, num_stages=3)",
                  "tl.range(n & 3, warp_specialize=True)", "range(tl.load(c + pid + 16))",
                  "range(n & 1, 4)", "range(0, 4, 2)", "range(s)", "tl.static_range(2)", "range(3)",
                  "range(tl.cdiv(n * BK, 2 * BK))"]  # fmt: skip
        chosen = self.random.choice(ranges)
        return [Nest(f"for {name} in {chosen}:", self._inside(name, depth, "static" not in chosen))]

    def _counter(self) -> str:
        return "ijk"[len(self.loops)]

    def _while(self, depth: int) -> list[Any]:
        name = self._counter()
        end = self.random.choice(["(n & 3)", "s", "tl.load(c + pid)"])
        body = [f"{name} += 1", *self._inside(name, depth, leaves=True)]
        return [f"{name} = pid * 0", f"end{name} = {end}", Nest(f"while {name} < end{name}:", body)]

    def _if(self, depth: int) -> list[Any]:
        condition = self._condition()
        other = self._several(depth - 1) if self.random.random() < 0.5 else []
        return [Nest(f"if {condition}:", self._several(depth - 1), other)]

    def _condition(self) -> str:
        vector = self.random.choice([n for n, (_, shape) in self.kinds.items() if len(shape) == 1])
        choices = ["s > 1", "n > 1", "pid == 0", f"tl.sum(clamped({vector}), 0) > 0", "BM > BN"]
        for name in self.loops:
            choices += [f"{name} % 2 == 0", f"{name} > 0", f"{name} == n - 1"]
        return self.random.choice(choices)


OPTIONS: dict[str, tuple[Any, ...]] = {
    "num_stages": (1, 2, 3, 4), "mma_depth": (0, 1), "consumers": (1, 2, 2, 3, 4), "persistent": (True,),
    "specialize": (False, True), "staging": (1, 2), "cluster": (2,), "bulk_copies": (False,),
    "load_together": (True,), "overlap": (False,), "deal": (2, "even"), "ctas_per_sm": (2,),
    "alternate": (True,), "stream_stores": (True,), "schedule": (3,),
}  # fmt: skip


def program(seed: int, most: int = 10) -> Program:
    """The program of a seed, of at most so many statements."""
    return _Writer(seed, most).program()
