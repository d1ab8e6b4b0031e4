"""The layout algebra: which element of a tile each thread holds in which register.

A layout maps (register, lane, warp) to tile coordinates. Each of the three indices is written in
mixed radix, least significant mode first; a mode of extent `e` along dimension `d` with stride `s`
adds `digit * s` to coordinate `d`. A mode along dimension `REPLICA` adds nothing: the threads that
differ in it hold copies. Extents need not be powers of two, so accumulators of 192 or 200 columns
fit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from tawa.machine.chips import SM_90A

REPLICA = -1
LANES = SM_90A.lanes


@dataclass(frozen=True)
class Mode:
    """One digit of a mixed-radix index."""

    extent: int
    dim: int
    stride: int

    def __str__(self) -> str:
        if self.dim == REPLICA:
            return f"{self.extent}*"
        return f"{self.extent}@{self.dim}*{self.stride}"


Modes = tuple[Mode, ...]


def _total(modes: Modes) -> int:
    return math.prod(m.extent for m in modes)


def _merged(modes: Modes) -> Modes:
    """The same index with fewer digits: one that continues the digit before it joins it."""
    found: list[Mode] = []
    for m in modes:
        last = found[-1] if found else None
        if last and last.dim == m.dim != REPLICA and m.stride == last.stride * last.extent:
            found[-1] = Mode(last.extent * m.extent, m.dim, last.stride)
        elif m.extent > 1:
            found.append(m)
    return tuple(found)


def _steps(shape: tuple[int, ...]) -> tuple[int, ...]:
    """How far apart neighbours along each dimension are in row-major order."""
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


def _across(mode: Mode, shape: tuple[int, ...], steps: tuple[int, ...]) -> list[Mode] | None:
    """A digit of row-major positions as digits of coordinates; None if it does not split."""
    if mode.dim == REPLICA or mode.extent == 1:
        return [mode]
    found: list[Mode] = []
    extent, stride = mode.extent, mode.stride
    while extent > 1:
        inside = [d for d, n in enumerate(shape) if n > 1 and steps[d] <= stride < steps[d] * n]
        if not inside or stride % steps[inside[0]]:
            return None
        dim = inside[0]
        own = stride // steps[dim]
        room = math.gcd(extent, shape[dim] // own) if shape[dim] % own == 0 else 1
        if room == 1:
            return None
        found.append(Mode(room, dim, own))
        extent, stride = extent // room, stride * room
    return found


@dataclass(frozen=True)
class Layout:
    """A distributed tile of `shape`: `registers` elements in each of `threads` threads."""

    shape: tuple[int, ...]
    reg: Modes
    lane: Modes
    warp: Modes

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.shape, self.reg, self.lane, self.warp))

    @property
    def registers(self) -> int:
        """Elements each thread holds."""
        return _total(self.reg)

    @property
    def warps(self) -> int:
        """Warps that the tile is spread over."""
        return _total(self.warp)

    @property
    def threads(self) -> int:
        """Threads that the tile is spread over."""
        return LANES * self.warps

    def offsets(self, modes: Modes) -> np.ndarray:
        """Coordinates that each value of an index adds: `[extent product, rank]`."""
        out = np.zeros((_total(modes), len(self.shape)), np.int64)
        index = np.arange(len(out))
        for m in modes:
            if m.dim != REPLICA:
                out[:, m.dim] += index % m.extent * m.stride
            index = index // m.extent
        return out

    @cached_property
    def coordinates(self) -> np.ndarray:
        """Tile coordinates of every element: `[threads, registers, rank]`."""
        lane, warp, reg = (self.offsets(m) for m in (self.lane, self.warp, self.reg))
        thread = warp[:, None, :] + lane[None, :, :]
        # Explicit sizes: tiles of rank 0 leave nothing to infer them from.
        return thread.reshape(self.threads, 1, len(self.shape)) + reg[None, :, :]

    def verify(self) -> str | None:
        """Why this is not a layout of its shape, or None: every element is held, none outside."""
        if _total(self.lane) != LANES:
            return f"lane modes cover {_total(self.lane)} lanes, not {LANES}"
        held = np.zeros(self.shape, bool)
        where = self.coordinates.reshape(self.threads * self.registers, len(self.shape))
        if (where < 0).any() or (where >= np.array(self.shape)).any():
            return f"a coordinate lies outside the shape {self.shape}"
        held[tuple(where.T)] = True
        return None if held.all() else "an element is held by no thread"

    def __str__(self) -> str:
        parts = (" ".join(map(str, m)) for m in (self.reg, self.lane, self.warp))
        return "x".join(map(str, self.shape)) + ": " + " | ".join(parts)

    def without(self, dim: int) -> Layout:
        """The layout of the tile reduced along `dim`, that dimension removed."""
        flat = self.flattened(dim)
        shape = flat.shape[:dim] + flat.shape[dim + 1 :]

        def shift(modes: Modes) -> Modes:
            return tuple(Mode(m.extent, m.dim - (m.dim > dim), m.stride) for m in modes)

        return Layout(shape, shift(flat.reg), shift(flat.lane), shift(flat.warp))

    def flattened(self, dim: int) -> Layout:
        """The layout of the tile with `dim` shrunk to 1: threads along it hold copies."""

        def copies(modes: Modes) -> Modes:
            return tuple(Mode(m.extent, REPLICA, 0) if m.dim == dim else m for m in modes)

        shape = self.shape[:dim] + (1,) + self.shape[dim + 1 :]
        reg = tuple(m for m in self.reg if m.dim != dim)
        return Layout(shape, reg, copies(self.lane), copies(self.warp))

    def repeated(self, dim: int, times: int) -> Layout:
        """The layout of the tile whose elements along `dim` stand there so many times in a row.

        A thread holds all copies of what it holds, one after the other.
        """

        def apart(modes: Modes) -> Modes:
            return tuple(
                Mode(m.extent, m.dim, m.stride * times) if m.dim == dim else m for m in modes
            )

        shape = self.shape[:dim] + (self.shape[dim] * times,) + self.shape[dim + 1 :]
        reg = (Mode(times, dim, 1), *apart(self.reg))
        return Layout(shape, reg, apart(self.lane), apart(self.warp))

    def grouped(self, dim: int, times: int) -> Layout | None:
        """The layout of a tile that, each element so many times in a row, is this one.

        Threads hold what they need of it, those that hold the same element copies. None if a digit
        runs across the groups unevenly.
        """
        parts: list[Modes] = []
        for kept, modes in enumerate((self.reg, self.lane, self.warp)):
            found: list[Mode] = []
            for m in modes:
                inside = min(m.extent, max(1, times // m.stride)) if m.dim == dim else 1
                if m.dim != dim:
                    found.append(m)
                elif m.extent % inside or (times % m.stride and m.stride % times):
                    return None
                else:
                    copies = [Mode(inside, REPLICA, 0)] if kept and inside > 1 else []
                    stride = max(1, m.stride // times)
                    found += [*copies, Mode(m.extent // inside, dim, stride)]
            parts.append(tuple(m for m in found if m.extent > 1 or not found))
        shape = self.shape[:dim] + (self.shape[dim] // times,) + self.shape[dim + 1 :]
        return Layout(shape, *parts)

    def expanded(self, dim: int) -> Layout:
        """The layout of the tile with a dimension of extent 1 inserted at `dim`."""

        def shift(modes: Modes) -> Modes:
            return tuple(Mode(m.extent, m.dim + (m.dim >= dim), m.stride) for m in modes)

        shape = self.shape[:dim] + (1,) + self.shape[dim:]
        return Layout(shape, shift(self.reg), shift(self.lane), shift(self.warp))

    def reshaped(self, shape: tuple[int, ...]) -> Layout | None:
        """The layout of the same elements, in row-major order, under another shape.

        Every element stays in its register. None if a digit runs across the new dimensions.
        """
        old, new = _steps(self.shape), _steps(shape)
        parts: list[Modes] = []
        for modes in (self.reg, self.lane, self.warp):
            flat = [Mode(m.extent, 0, m.stride * old[m.dim]) if m.dim >= 0 else m for m in modes]
            split = [_across(m, shape, new) for m in flat]
            if any(s is None for s in split):
                return None
            parts.append(tuple(m for s in split if s is not None for m in s))
        found = Layout(shape, _merged(parts[0]), *parts[1:])
        for dim, extent in enumerate(shape):
            own = [m for m in (*found.reg, *found.lane, *found.warp) if m.dim == dim]
            if sum((m.extent - 1) * m.stride for m in own) >= extent:
                return None
        return found

    def linear(self) -> Layout:
        """The layout with row-major element numbers as its only coordinate."""
        steps = _steps(self.shape)

        def flat(modes: Modes) -> Modes:
            return tuple(
                m if m.dim == REPLICA else Mode(m.extent, 0, m.stride * steps[m.dim]) for m in modes
            )

        return Layout((math.prod(self.shape),), flat(self.reg), flat(self.lane), flat(self.warp))

    def permuted(self, order: tuple[int, ...]) -> Layout:
        """The layout of the transposed tile: new dimension `i` is old dimension `order[i]`."""
        new = {old: i for i, old in enumerate(order)} | {REPLICA: REPLICA}

        def move(modes: Modes) -> Modes:
            return tuple(Mode(m.extent, new[m.dim], m.stride) for m in modes)

        shape = tuple(self.shape[d] for d in order)
        return Layout(shape, move(self.reg), move(self.lane), move(self.warp))

    def owners(self) -> np.ndarray:
        """`[threads]`: True for the first thread of each set of copies."""
        owner = np.ones(1, bool)
        for m in (*self.lane, *self.warp):
            digit = np.arange(m.extent) == 0 if m.dim == REPLICA else np.ones(m.extent, bool)
            owner = (digit[:, None] & owner[None, :]).reshape(-1)
        return owner

    def vector(self, dim: int) -> int:
        """Consecutive registers that hold consecutive elements along `dim`."""
        first = next(iter(_merged(self.reg)), None)
        return first.extent if first and first.dim == dim and first.stride == 1 else 1


def parse_layout(text: str) -> Layout:
    """The layout that `str` wrote; raises ValueError for other text."""
    shape, _, rest = text.partition(":")
    groups = rest.split("|")
    if len(groups) != 3:
        raise ValueError(f"a layout has three mode lists, found {len(groups)}: {text!r}")

    def modes(part: str) -> Modes:
        found: list[Mode] = []
        for word in part.split():
            match = re.fullmatch(r"(\d+)(?:@(\d+))?\*(\d*)", word)
            if not match:
                raise ValueError(f"not a layout mode: {word!r}")
            extent, dim, stride = match.groups()
            found.append(Mode(int(extent), *((int(dim), int(stride)) if dim else (REPLICA, 0))))
        return tuple(found)

    reg, lane, warp = (modes(g) for g in groups)
    return Layout(tuple(int(s) for s in shape.split("x") if s), reg, lane, warp)


def accumulator(shape: tuple[int, int], warps: int, split_columns: bool = False) -> Layout:
    """wgmma's accumulator layout of a tile over `warps` warps (PTX ISA, wgmma register fragments).

    Groups of four warps stack along the rows (or the columns); a group's rows repeat in blocks of
    64.
    """
    rows, columns = shape
    groups = warps // SM_90A.group_warps
    own_rows = rows if split_columns else rows // groups
    own_columns = columns // groups if split_columns else columns
    reg = [Mode(2, 1, 1), Mode(2, 0, 8), Mode(own_columns // 8, 1, 8), Mode(own_rows // 64, 0, 64)]
    warp = [Mode(4, 0, 16)]
    if groups > 1:
        warp.append(Mode(groups, 1, own_columns) if split_columns else Mode(groups, 0, own_rows))
    return Layout(
        shape,
        tuple(m for m in reg if m.extent > 1),
        (Mode(4, 1, 2), Mode(8, 0, 1)),
        tuple(warp),
    )


def byte_operand(shape: tuple[int, int], warps: int) -> Layout:
    """wgmma's layout of 8-bit A operands, K in the order in which accumulators hold columns.

    Four consecutive registers are a word. Each thread holds what it holds of an accumulator: in the
    order of the PTX ISA (wgmma register fragments), K would be 0, 1, 8, 9, 2, 3, 10, 11, ...
    """
    rows, inner = shape
    own = rows // (warps // SM_90A.group_warps)
    bytes_ = (Mode(2, 1, 1), Mode(2, 1, 8))
    reg = (*bytes_, Mode(2, 0, 8), Mode(inner // 16, 1, 16), Mode(own // 64, 0, 64))
    return _operand(shape, warps, reg, Mode(4, 1, 2))


def operand(shape: tuple[int, int], warps: int, size: int) -> Layout:
    """The layout of an A operand in registers, of elements of `size` bytes."""
    return byte_operand(shape, warps) if size == 1 else accumulator(shape, warps)


def operand_words(shape: tuple[int, int], warps: int, size: int) -> Layout:
    """The layout of the words that so many registers of `operand(shape, warps, size)` each are."""
    rows, inner = shape
    own = rows // (warps // SM_90A.group_warps)
    reg = (Mode(2, 0, 8), Mode(inner * size // 16, 1, 4), Mode(own // 64, 0, 64))
    return _operand((rows, inner * size // 4), warps, reg, Mode(4, 1, 1))


def _operand(shape: tuple[int, int], warps: int, reg: Modes, lanes: Mode) -> Layout:
    """Groups of four warps stack along the rows, four lanes along a row."""
    groups = warps // SM_90A.group_warps
    warp = [Mode(4, 0, 16)]
    if groups > 1:
        warp.append(Mode(groups, 0, shape[0] // groups))
    used = tuple(m for m in reg if m.extent > 1)
    return Layout(shape, used, (lanes, Mode(8, 0, 1)), tuple(warp))


def point(warps: int) -> Layout:
    """The layout of a tile of rank 0: every thread holds its element."""
    return Layout((), (), (Mode(LANES, REPLICA, 0),), (Mode(warps, REPLICA, 0),))


@lru_cache(maxsize=1024)
def blocked(
    shape: tuple[int, ...],
    warps: int,
    vector: int,
    order: tuple[int, ...] | None = None,
    *,
    apart: bool = False,
) -> Layout:
    """A layout for coalesced access: `vector` elements a thread along the fastest dimension.

    `order` lists the dimensions, fastest first (default: last dimension fastest). Lanes, then
    warps, then repetitions cover the tile; threads left over hold copies. With `apart` a warp's
    repetitions along the fastest dimension come before the other warps: its elements of a row are
    side by side.
    """
    order = order or tuple(reversed(range(len(shape))))
    left = list(shape)
    stride = [1] * len(shape)
    reg: list[Mode] = []

    def take(dim: int, extent: int, modes: list[Mode]) -> None:
        if extent > 1:
            modes.append(Mode(extent, dim, stride[dim]))
            stride[dim] *= extent
            left[dim] //= extent

    def spread(count: int) -> tuple[Mode, ...]:
        modes: list[Mode] = []
        for dim in order:
            part = math.gcd(count, left[dim])
            take(dim, part, modes)
            count //= part
        if count > 1:
            modes.append(Mode(count, REPLICA, 0))
        return tuple(modes)

    if order:
        take(order[0], math.gcd(vector, left[order[0]]), reg)
    lanes = spread(LANES)
    if apart and order:
        row = left[order[0]]
        across_rows = math.gcd(warps, math.prod(left) // row)
        take(order[0], row // math.gcd(warps // across_rows, row), reg)
    across = spread(warps)
    for dim in order:
        take(dim, left[dim], reg)
    return Layout(shape, tuple(reg), lanes, across)


def crossed(shape: tuple[int, int], warps: int, block: int, dim: int) -> Layout | None:
    """A layout to access a tile along `dim` and store it along the other dimension, both widely.

    A thread has squares of `block` rows and columns. Two lanes side by side take a sector of memory
    each; those of a quarter of a warp store to all banks, as rows of a swizzled tile's 128 bytes
    lie. None for a tile that is too small.
    """
    other, left = 1 - dim, list(shape)
    stride = [1, 1]

    def take(where: int, extent: int) -> Mode:
        mode = Mode(extent, where, stride[where])
        stride[where] *= extent
        left[where] //= extent
        return mode

    if (
        shape[dim] % (2 * block)
        or shape[other] % block
        or shape[dim] * shape[other] < (block * block * LANES * warps)
    ):
        return None
    reg = [take(dim, block), take(other, block)]
    across = math.gcd(8, left[other])
    wanted = [(dim, 2), (other, across), (dim, math.gcd(LANES // (2 * across), left[dim] // 2))]
    lane = [take(where, extent) for where, extent in wanted if extent > 1]
    warp: list[Mode] = []
    for where in (dim, other):
        extent = math.gcd(warps // math.prod(m.extent for m in warp), left[where])
        warp += [take(where, extent)] if extent > 1 else []
    if math.prod(m.extent for m in lane) < LANES or math.prod(m.extent for m in warp) < warps:
        return None
    reg += [take(where, left[where]) for where in (dim, other) if left[where] > 1]
    return Layout(shape, tuple(reg), tuple(lane), tuple(warp))


def in_runs(shape: tuple[int, ...], warps: int, vector: int, dim: int, axis: int) -> Layout | None:
    """A layout to access a tile along `dim` and to scan it along another dimension, `axis`.

    `vector` elements of a thread lie side by side, and lanes follow along `dim`. Along `axis` a
    thread has elements that follow each other, then come lanes, then warps. None for a tile that is
    too small for all threads.
    """
    across = math.gcd(LANES, shape[dim] // vector)
    lanes = math.gcd(LANES // across, shape[axis])
    down = math.gcd(warps, shape[axis] // lanes)
    if across * lanes != LANES or down != warps:
        return None
    chunk, whole = shape[axis] // (lanes * down), vector * across
    reg = [Mode(vector, dim, 1), Mode(chunk, axis, 1), Mode(shape[dim] // whole, dim, whole)]
    reg += [Mode(n, d, 1) for d, n in enumerate(shape) if d not in (dim, axis)]
    lane = [Mode(across, dim, vector), Mode(lanes, axis, chunk)]
    warp = [Mode(down, axis, chunk * lanes)]
    kept = (tuple(m for m in modes if m.extent > 1) for modes in (reg, lane, warp))
    return Layout(shape, *kept)


@lru_cache(maxsize=1 << 12)
def register_map(
    source: Layout, result: Layout, dims: tuple[int | None, ...]
) -> Sequence[int] | None:
    """For each register of `result`, the register of `source` with the same element, or None.

    `dims[d]` is the result's dimension that source dimension `d` equals, or None where it has
    extent 1. None is returned when a thread does not hold all it needs.
    """
    if source.threads != result.threads:
        return None
    want = np.zeros(result.coordinates.shape[:2] + (len(source.shape),), np.int64)
    for d, r in enumerate(dims):
        if r is not None:
            want[:, :, d] = result.coordinates[:, :, r]
    have = source.coordinates
    scale = np.array([math.prod(source.shape[d + 1 :]) for d in range(len(source.shape))], np.int64)
    have_key, want_key = have @ scale, want @ scale
    position = {int(k): i for i, k in enumerate(have_key[0])}
    found = [position.get(int(k), -1) for k in want_key[0]]
    if -1 in found or not (have_key[:, found] == want_key).all():
        return None
    return tuple(found)
