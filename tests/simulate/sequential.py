"""The language's meaning in plain NumPy, apart from the compiler: Python itself runs a kernel's source.

A program runs alone, from its first statement to its last, one program after the other. Loops,
branches and assignments are Python's own; `tl` is the class `Language`, whose pointers are an array
and a number of elements, and whose accesses raise `IndexError` outside their array.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


class Tile(np.ndarray):
    """A tile of values."""

    def to(self, dtype: Any) -> Tile:
        """The values in another type."""
        return self.astype(dtype).view(Tile)


def tile(values: Any) -> Tile:
    """An array as a tile."""
    return np.asarray(values).view(Tile)


@dataclass(frozen=True)
class Pointer:
    """Elements of a flat array."""

    memory: np.ndarray
    at: Any

    def __add__(self, offset: Any) -> Pointer:
        return replace(self, at=self.at + np.asarray(offset, np.int64))

    def __sub__(self, offset: Any) -> Pointer:
        return self + -np.asarray(offset, np.int64)

    def places(self, mask: Any) -> tuple[np.ndarray, np.ndarray]:
        """Which elements a mask leaves, and which they are. Raises IndexError."""
        at = np.asarray(self.at)
        chosen = np.broadcast_to(True if mask is None else np.asarray(mask), at.shape)
        if chosen.any() and (at[chosen].min() < 0 or at[chosen].max() >= self.memory.size):
            raise IndexError("an access outside its array")
        return chosen, at[chosen]


@dataclass(frozen=True)
class Block:
    """A block of a tensor: what a block pointer and a descriptor with coordinates name."""

    base: Pointer
    shape: Sequence[int]
    strides: Sequence[int]
    offsets: Sequence[Any]
    block: Sequence[int]

    def pointers(self) -> tuple[Pointer, np.ndarray]:
        """The elements, and which of them lie in the tensor."""
        at, inside = np.zeros(self.block, np.int64), np.ones(self.block, bool)
        for axis, first in enumerate(self.offsets):
            index = (int(first) + np.arange(self.block[axis])).reshape(
                [-1 if a == axis else 1 for a in range(len(self.block))]
            )
            at = at + index * int(self.strides[axis])
            inside = inside & (index >= 0) & (index < int(self.shape[axis]))
        return self.base + at, inside


@dataclass(frozen=True)
class Descriptor:
    """A tensor that is loaded and stored block by block."""

    base: Pointer
    shape: Sequence[int]
    strides: Sequence[int]
    block: Sequence[int]

    def _at(self, coordinates: Sequence[Any]) -> Block:
        return Block(self.base, self.shape, self.strides, coordinates, self.block)

    def load(self, coordinates: Sequence[Any]) -> Tile:
        """A block, zeros outside the tensor."""
        return Language.load(self._at(coordinates), boundary_check=(0, 1))

    def store(self, coordinates: Sequence[Any], value: Any) -> None:
        """Write a block, what lies outside the tensor left out."""
        Language.store(self._at(coordinates), value, boundary_check=(0, 1))


class Language:
    """What a kernel's source calls `tl`; `programs` and `program` are the grid and its place in it."""

    int8, int32, int64, float16, float32 = np.int8, np.int32, np.int64, np.float16, np.float32
    float64 = np.float64
    bfloat16 = float8e4nv = float8e5 = np.float32
    """Programs cast to these only what they have exactly."""
    constexpr = int
    static_range = range
    program = programs = (0, 0, 0)

    @classmethod
    def program_id(cls, axis: int) -> Any:
        return tile(np.int32(cls.program[axis]))

    @staticmethod
    def range(*bounds: Any, **wishes: Any) -> Iterable[int]:
        """The numbers of Python's `range`; wishes change nothing."""
        del wishes
        return counted(*bounds)

    @staticmethod
    def cdiv(x: Any, y: Any) -> Any:
        return -(-x // y)

    @staticmethod
    def arange(start: int, end: int) -> Tile:
        return tile(np.arange(start, end, dtype=np.int32))

    @staticmethod
    def zeros(shape: Sequence[int], dtype: Any) -> Tile:
        return tile(np.zeros(shape, dtype))

    @staticmethod
    def where(condition: Any, x: Any, y: Any) -> Any:
        if isinstance(x, Pointer):
            return replace(x, at=np.where(condition, x.at, y.at))
        return tile(np.where(condition, x, y))

    @staticmethod
    def maximum(x: Any, y: Any) -> Tile:
        return tile(np.maximum(x, y))

    @staticmethod
    def minimum(x: Any, y: Any) -> Tile:
        return tile(np.minimum(x, y))

    @staticmethod
    def sum(x: Any, axis: int | None = None, keep_dims: bool = False) -> Tile:
        kind = np.int32 if x.dtype == np.int8 else x.dtype
        return tile(np.sum(x, axis=axis, dtype=kind, keepdims=keep_dims))

    @staticmethod
    def max(
        x: Any, axis: int | None = None, keep_dims: bool = False, return_indices: bool = False
    ) -> Any:
        found = tile(np.max(x, axis=axis, keepdims=keep_dims))
        if not return_indices:
            return found
        return found, tile(np.argmax(x, axis=axis, keepdims=keep_dims).astype(np.int32))

    @staticmethod
    def min(
        x: Any, axis: int | None = None, keep_dims: bool = False, return_indices: bool = False
    ) -> Any:
        found = tile(np.min(x, axis=axis, keepdims=keep_dims))
        if not return_indices:
            return found
        return found, tile(np.argmin(x, axis=axis, keepdims=keep_dims).astype(np.int32))

    @staticmethod
    def argmax(x: Any, axis: int, keep_dims: bool = False) -> Tile:
        return tile(np.argmax(x, axis=axis, keepdims=keep_dims).astype(np.int32))

    @staticmethod
    def argmin(x: Any, axis: int, keep_dims: bool = False) -> Tile:
        return tile(np.argmin(x, axis=axis, keepdims=keep_dims).astype(np.int32))

    @staticmethod
    def cumsum(x: Any, axis: int = 0, reverse: bool = False) -> Tile:
        turned = np.flip(x, axis) if reverse else x
        sums = np.cumsum(turned, axis=axis, dtype=x.dtype)
        return tile(np.flip(sums, axis) if reverse else sums)

    @staticmethod
    def associative_scan(x: Any, axis: int, combine: Any, reverse: bool = False) -> Any:
        parts = [np.moveaxis(part, axis, 0) for part in (x if isinstance(x, tuple) else (x,))]
        places = list(range(len(parts[0])))[:: -1 if reverse else 1]
        found = [np.empty_like(part) for part in parts]
        for number, place in enumerate(places):
            new = [tile(part[place]) for part in parts]
            if number:
                combined = combine(*(tile(f[places[number - 1]]) for f in found), *new)
                new = list(combined) if isinstance(combined, tuple) else [combined]
            for out, value in zip(found, new, strict=True):
                out[place] = value
        tiles = tuple(tile(np.moveaxis(out, 0, axis)) for out in found)
        return tiles if isinstance(x, tuple) else tiles[0]

    @classmethod
    def reduce(cls, x: Any, axis: int, combine: Any, keep_dims: bool = False) -> Any:
        scanned = cls.associative_scan(x, axis, combine)
        tiles = [
            np.take(part, [-1], axis) for part in (scanned if isinstance(x, tuple) else [scanned])
        ]
        found = tuple(tile(part if keep_dims else np.squeeze(part, axis)) for part in tiles)
        return found if isinstance(x, tuple) else found[0]

    @staticmethod
    def xor_sum(x: Any, axis: int, keep_dims: bool = False) -> Tile:
        return tile(np.bitwise_xor.reduce(x, axis=axis, keepdims=keep_dims))

    @staticmethod
    def abs(x: Any) -> Tile:
        return tile(np.abs(x))

    @staticmethod
    def reshape(x: Any, shape: Sequence[int]) -> Tile:
        return tile(np.reshape(x, shape))

    @staticmethod
    def permute(x: Any, order: Sequence[int]) -> Tile:
        return tile(np.transpose(x, order))

    @staticmethod
    def join(x: Any, y: Any) -> Tile:
        return tile(np.stack([x, y], -1))

    @staticmethod
    def interleave(x: Any, y: Any) -> Tile:
        return tile(np.stack([x, y], -1).reshape(*x.shape[:-1], -1))

    @staticmethod
    def split(x: Any) -> tuple[Tile, Tile]:
        return tile(x[..., 0]), tile(x[..., 1])

    @staticmethod
    def cat(x: Any, y: Any, dim: int = 0) -> Tile:
        return tile(np.concatenate([x, y], dim))

    @staticmethod
    def flip(x: Any, dim: int) -> Tile:
        return tile(np.flip(x, dim))

    @staticmethod
    def sort(x: Any, descending: bool = False) -> Tile:
        ordered = np.sort(x, -1)
        return tile(np.flip(ordered, -1) if descending else ordered)

    @classmethod
    def topk(cls, x: Any, k: int) -> Tile:
        return tile(cls.sort(x, descending=True)[..., :k])

    @staticmethod
    def gather(x: Any, index: Any, axis: int) -> Tile:
        return tile(np.take_along_axis(x, index, axis))

    @staticmethod
    def histogram(x: Any, bins: int, mask: Any = None) -> Tile:
        chosen = x if mask is None else x[mask]
        return tile(np.bincount(chosen, minlength=bins)[:bins].astype(np.int32))

    @staticmethod
    def broadcast_to(x: Any, shape: Sequence[int]) -> Tile:
        return tile(np.broadcast_to(x, shape))

    @staticmethod
    def extract_slice(x: Any, offsets: Sequence[Any], sizes: Sequence[int]) -> Tile:
        return tile(
            x[tuple(slice(int(a), int(a) + n) for a, n in zip(offsets, sizes, strict=True))]
        )

    @staticmethod
    def dot(x: Any, y: Any, acc: Any = None) -> Tile:
        wide = np.int32 if x.dtype == np.int8 else np.float32
        product = x.astype(wide) @ y.astype(wide)
        return tile(product if acc is None else acc + product)

    @staticmethod
    def debug_barrier() -> None:
        """One program runs alone."""

    @staticmethod
    def make_tensor_descriptor(base: Pointer, shape: Any, strides: Any, block: Any) -> Descriptor:
        return Descriptor(base, shape, strides, block)

    @staticmethod
    def make_block_ptr(
        base: Pointer, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
    ) -> Block:
        del order
        return Block(base, shape, strides, offsets, block_shape)

    @staticmethod
    def advance(base: Block, offsets: Any) -> Block:
        return replace(base, offsets=[a + b for a, b in zip(base.offsets, offsets, strict=True)])

    @staticmethod
    def load(
        at: Any,
        mask: Any = None,
        other: Any = 0,
        boundary_check: Any = (),
        padding_option: str = "zero",
        volatile: bool = False,
    ) -> Tile:
        if isinstance(at, Block):
            at, inside = at.pointers()
            mask = inside if boundary_check else None
        chosen, places = at.places(mask)
        found = np.full(chosen.shape, other, at.memory.dtype)
        found[chosen] = at.memory[places]
        return tile(found)

    @staticmethod
    def store(at: Any, value: Any, mask: Any = None, boundary_check: Any = ()) -> None:
        if isinstance(at, Block):
            at, inside = at.pointers()
            mask = inside if boundary_check else None
        chosen, places = at.places(mask)
        at.memory[places] = np.broadcast_to(value, chosen.shape)[chosen]

    @classmethod
    def atomic_add(cls, at: Pointer, value: Any, mask: Any = None, **order: Any) -> Tile:
        return cls._atomic(at, value, mask, lambda old, new: old + new)

    @classmethod
    def atomic_max(cls, at: Pointer, value: Any, mask: Any = None, **order: Any) -> Tile:
        return cls._atomic(at, value, mask, max)

    @classmethod
    def atomic_min(cls, at: Pointer, value: Any, mask: Any = None, **order: Any) -> Tile:
        return cls._atomic(at, value, mask, min)

    @classmethod
    def atomic_and(cls, at: Pointer, value: Any, mask: Any = None, **order: Any) -> Tile:
        return cls._atomic(at, value, mask, lambda old, new: old & new)

    @classmethod
    def atomic_or(cls, at: Pointer, value: Any, mask: Any = None, **order: Any) -> Tile:
        return cls._atomic(at, value, mask, lambda old, new: old | new)

    @classmethod
    def atomic_xor(cls, at: Pointer, value: Any, mask: Any = None, **order: Any) -> Tile:
        return cls._atomic(at, value, mask, lambda old, new: old ^ new)

    @classmethod
    def atomic_xchg(cls, at: Pointer, value: Any, mask: Any = None, **order: Any) -> Tile:
        return cls._atomic(at, value, mask, lambda old, new: new)

    @classmethod
    def atomic_cas(cls, at: Pointer, expected: Any, value: Any, **order: Any) -> Tile:
        return cls._atomic(at, value, None, lambda old, new: new if old == expected else old)

    @staticmethod
    def _atomic(at: Pointer, value: Any, mask: Any, combine: Any) -> Tile:
        chosen, places = at.places(mask)
        new = np.broadcast_to(np.asarray(value, at.memory.dtype), chosen.shape)[chosen]
        old = np.zeros_like(new)
        for number, place in enumerate(places.reshape(-1)):  # places may be named twice
            old.reshape(-1)[number] = at.memory[place]
            at.memory[place] = combine(at.memory[place], new.reshape(-1)[number])
        found = np.zeros(chosen.shape, at.memory.dtype)
        found[chosen] = old
        return tile(found)


def counted(*bounds: Any) -> Iterator[Tile]:
    """What `range` gives in a kernel."""
    for number in range(*bounds):
        yield tile(np.int32(number))


class _Values(ast.NodeTransformer):
    """Makes `x += y` `x = x + y`: tiles are values, but NumPy would change what `z = x` names, too."""

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.Assign:
        """The assignment."""
        assert isinstance(node.target, ast.Name)
        old = ast.Name(node.target.id, ast.Load())
        new = ast.Assign([node.target], ast.BinOp(old, node.op, node.value))
        return ast.fix_missing_locations(ast.copy_location(new, node))


def run(source: str, grid: Sequence[int], arguments: Mapping[str, Any]) -> None:
    """Run the function `kernel` of a source for every program of a grid.

    Arrays are passed as `Pointer` and `Descriptor` and changed in place.
    """
    namespace: dict[str, Any] = {"tl": Language, "range": counted}
    lines = [line for line in source.splitlines() if not line.startswith(("import", "@"))]
    exec(compile(_Values().visit(ast.parse("\n".join(lines))), "kernel", "exec"), namespace)
    numbers = {k: tile(np.int32(v)) for k, v in arguments.items() if isinstance(v, int)}
    others = {k: v for k, v in arguments.items() if k not in numbers}
    Language.programs = (*grid, 1, 1)[:3]
    with np.errstate(all="ignore"):
        for place in itertools.product(*(range(n) for n in reversed(Language.programs))):
            Language.program = place[::-1]
            namespace["kernel"](**numbers, **others)
