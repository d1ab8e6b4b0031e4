"""How programs share the work for the gradient of filters: the way that is expected fastest.

A program multiplies the results' gradient by pixels, for some filters, some channels and one or
more taps, over its share of the pixels. Times are those of products (`product_times`), whose K are
the pixels; what tiles have beyond the last pixel, channel, filter or tap is multiplied too. Each
tap of a window is a product of its own, which reads the gradient again. `APART` and `TAP` are
fitted to 31 kernels of `benchmarks/results/conv-tiles.jsonl`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod

from tawa.kernels.convolution.shapes import Convolution, runs_of_taps
from tawa.machine.chips import Chip
from tawa.machine.product_times import LINE, Iteration, launch_us, waves_cycles

FILTERS = 64, 128
"""Filters of a program."""
CHANNELS = 32, 64, 96, 128, 192, 256
"""Channels of a program that has one tap."""
OF_WINDOWS = 32, 64
"""Channels of one whose taps share a window: those of a swizzled row."""
STEP, EXTENTS = 64, (1, 2, 4, 8, 16, 32, 64)
"""Pixels that are multiplied at once, and extents that their tiles have."""
MOST_WASTED = 1.25
"""Tiles of other shapes than the fewest, at most."""
APART = 1.65
"""What L2 could give of bytes that all programs read while it gives one of these."""
TAP = 55
"""Cycles that each product of a tap is waited for, beside those of its instructions."""
SPREAD = 0.002
"""Part by which each picture of a tile lengthens all: its pixels are far apart in memory."""
WINDOWS = (1, 4, 8), (1, 8, 8)
"""Tiles of pixels of which windows are read."""
MOST_SUMS = 128 * 256, 128 * 192
"""Elements of a program's sums, of one tap and of several."""
WIDEST = 48
"""Columns of a window."""
WAVES = 1, 2, 3
"""Programs for each multiprocessor that are tried."""
FEWEST = 8
"""Tiles of pixels of a share."""


@dataclass(frozen=True)
class Sharing:
    """Taps, filters and channels of a program, its tile of pixels, and the shares of the pixels."""

    taps: int
    filters: int
    channels: int
    tile: tuple[int, int, int]
    shares: int
    windows: bool

    def blocks(self, conv: Convolution) -> int:
        """Programs that have the same share of the pixels."""
        own, ours = conv.c // conv.groups, conv.k // conv.groups
        lines = conv.depth.taps * conv.r * conv.s
        if self.windows:
            along = _along(conv)
            lines = lines // along[0] * runs_of_taps(along, self.taps, along[1])
        return conv.groups * -(-ours // self.filters) * -(-own // self.channels) * lines

    def microseconds(self, conv: Convolution, chip: Chip, size: int) -> float:
        """The time that is expected; an element has `size` bytes."""
        pixels, sums = prod(self.tile), self.filters * self.channels * self.taps
        _, stride, dilation, _ = _along(conv)
        more = (self.taps - 1) * (dilation // gcd(stride, dilation))
        beside = self.tile[0] * self.tile[1 if conv.s > 1 else 2] * more
        given, read = pixels * self.filters, (pixels + beside) * self.channels
        rows = given * size / LINE + read * size / min(LINE, self.channels * size)
        lines, loaded = pixels * size / LINE * self.taps, (given + read) * size
        one = Iteration(
            self.filters, self.channels, lines, APART * loaded, loaded, TAP * self.taps, rows
        )  # fmt: skip
        programs, terms = self.blocks(conv) * self.shares, chip.products
        waves = -(-programs // chip.multiprocessors)
        count = -(-_tiles(conv, self.tile) // self.shares)
        main = count * one.cycles(chip.multiprocessors, chip)
        main *= 1 + SPREAD * self.tile[0]
        cycles = waves_cycles(main, terms.stored_each * sums, waves, {}, chip)
        results = conv.pictures * conv.p * conv.q * conv.k
        image = conv.n * conv.depth.size * conv.h * conv.w * conv.c
        speed = chip.memory_gbs * 1e3
        moved = loaded / (self.filters * self.channels * lines * LINE)
        filters = conv.k * conv.taps * conv.c // conv.groups
        time = launch_us(cycles, moved, (results + image) * size / speed, chip)
        if self.shares == 1:
            return time + filters * size / speed
        return time + terms.second_pass_us + (2 * self.shares + 1) * 4 * filters / speed


def _along(conv: Convolution) -> tuple[int, int, int, int]:
    """Taps, stride, dilation and pad of the dimension whose taps share windows.

    That of columns, or of rows if filters have one column.
    """
    one = 0 if conv.s == 1 else 1
    return (conv.r, conv.s)[one], conv.stride[one], conv.dilation[one], conv.pad[one][0]


def _tiles(conv: Convolution, tile: tuple[int, int, int]) -> int:
    """Tiles of pixels of all results."""
    sizes = zip((conv.pictures, conv.p, conv.q), tile, strict=True)
    return prod(-(-size // extent) for size, extent in sizes)


def _shapes(conv: Convolution) -> list[tuple[int, int, int]]:
    """Pictures, rows and columns of `STEP` pixels: of each number of pictures what wastes least."""
    found = [(STEP // (h * w), h, w) for h in EXTENTS for w in EXTENTS if STEP % (h * w) == 0]
    best: dict[int, tuple[int, int, int]] = {}
    for tile in sorted(found, key=lambda t: _tiles(conv, t)):
        if tile[0] == 1 or conv.depth.flat:
            best.setdefault(tile[0], tile)
    fewest = min(_tiles(conv, tile) for tile in best.values())
    return [tile for tile in best.values() if _tiles(conv, tile) <= MOST_WASTED * fewest]


def sharings(conv: Convolution, chip: Chip) -> Iterator[Sharing]:
    """The ways to share the work."""
    for taps, filters, channels, tile, windows in _programs(conv):
        blocks = Sharing(taps, filters, channels, tile, 1, windows).blocks(conv)
        most = max(1, _tiles(conv, tile) // FEWEST)
        for shares in {min(most, max(1, n * chip.multiprocessors // blocks)) for n in WAVES}:
            yield Sharing(taps, filters, channels, tile, shares, windows)


def _programs(conv: Convolution) -> Iterator[tuple[int, int, int, tuple[int, int, int], bool]]:
    """Taps, filters, channels, a tile of pixels, and whether taps share a window."""
    own, ours = conv.c // conv.groups, conv.k // conv.groups
    for filters in (f for f in FILTERS if f < 2 * ours or f == FILTERS[0]):
        for channels in (c for c in CHANNELS if c < own + 32 or c == CHANNELS[0]):
            if filters * channels <= MOST_SUMS[0]:
                yield from ((1, filters, channels, tile, False) for tile in _shapes(conv))
            size, stride, dilation, _ = _along(conv)
            step = gcd(stride, dilation)
            for taps in range(2, -(-size // (stride // step)) + 1):
                wide = 8 + (taps - 1) * (dilation // step) <= WIDEST
                fits = filters * channels * taps <= MOST_SUMS[1]
                if wide and fits and channels in OF_WINDOWS:
                    for tile in WINDOWS:
                        yield taps, filters, channels, tile, True


@lru_cache(maxsize=1024)
def sharing(conv: Convolution, chip: Chip, size: int) -> Sharing:
    """The way that is expected fastest."""

    def order(one: Sharing) -> tuple[float, int]:
        return one.microseconds(conv, chip, size), one.shares

    return min(sharings(conv, chip), key=order)
