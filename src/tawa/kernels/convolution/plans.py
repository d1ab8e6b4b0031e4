"""Which kernel computes a convolution, with which tiles: the one that is expected fastest.

The time of a tile is that of the library's GEMM, by the same terms (`product_times`): an iteration
multiplies one tap's channels. What differs is what it loads. All programs read the same filters
at about the same time; of pixels L2 gives less, the less the further apart they lie. A box's row
takes the copy engine a line's time, however short it is. The terms for this (`APART`, `TURN`,
`SHARPNESS`, `LEAST_STORED`, `DEEP`) are fitted to 162 kernels of `benchmarks/results/conv.jsonl`
and `conv-tiles.jsonl`, so that choices are nearest to the fastest. What is left open (whether
programs are persistent, say) is then chosen for each launch as for any kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd, prod
from typing import Any

from tawa.kernels.convolution.shapes import Convolution, ConvolutionNotPossible
from tawa.machine.chips import SM_90A, Chip
from tawa.machine.product_times import LINE, Iteration, launch_us, waves_cycles

SHORT = 256
"""Sums of fewer products: the first loads of a tile are waited for, whatever is loaded ahead."""
LEAST_STORED = 1000
"""Cycles of a tile's end, however small it is."""
TURN = 500
"""Cycles in which no group multiplies when two take turns on tiles."""
APART, SPREAD, FAR = 1.5, 0.03, 31
"""What L2 could give of filters while it gives a byte of a tile's pixels, which other programs do
not read; by what part more for each further image of it, as they lie apart, up to so many."""
MISALIGNED = 2.4
"""Lines that a row of a tile of pixels touches if rows do not start with one, as GEMM's do."""
SHARPNESS = 8.0
"""How nearly the longer of a kernel's own time and its memory's is both's time (a norm)."""
NEARLY = 1.02
"""Times of as much of the least are as good."""
MOST_ACCUMULATED = 256 * 128
"""Elements of a tile of results."""
TURNED = 128 * 128
"""Elements of one that a warp group has by itself."""
HELD_BYTES = 150_000
"""Filters that a program keeps in shared memory, at most."""
SHARED_BYTES = 200_000
"""Windows, filters and results of a kernel's tiles, at most."""
SPLITS = 2, 3, 4, 5, 6, 8, 11, 16, 22, 33
"""Programs that may share a tile."""
MOST_SPLITS = 4
"""Of these, the most that are possible are tried."""
LEAST_SHARE = 4
"""Iterations of each, at least."""
PART = 64, 16
"""Pixels and filters of a part of a tile, at least."""
PART_TIME = 2.6
"""Times as long as its iterations a part takes (one measured layer: 34 us for 13)."""
SLOTS, DEEP = 4, 0.92
"""Tiles of taps that have so many slots for what is loaded ahead take such a part of the time; not
those of 96 and 192 filters, which took 0.8 to 1.5 times as long as expected."""
UNEVEN = 1.2
"""As much longer take the loops of those tiles, of which few were timed."""
WORTH = 1.12
"""Times as long as with shares or parts are worth their memory and a second kernel."""
EVENLY = 0.97
"""The part of the expected time that whole waves and a last one of shares take at most: programs
are dealt evenly. Of 36 timed kernels with 64, 128 or 256 filters the mean was 0.93."""
MOST_ROWS = 256
"""Extent of a block, at most."""
FEW_ROWS = 4
"""Rows of results below which tiles are of long rows, as those of one-dimensional images."""


@dataclass(frozen=True)
class Tiling:
    """A kernel and its tiles: images, rows and columns of pixels, filters, channels at a time.

    With `split` > 1 as many programs share each of the tiles that would not fill a last wave, each
    with a part of its taps and channels; a second kernel adds their sums up, in their order. With
    `last` (images, rows, columns, filters) a second launch has those tiles, in parts of this shape.
    """

    kernel: str
    images: int
    rows: int
    columns: int
    filters: int
    channels: int
    options: tuple[tuple[str, Any], ...] = ()
    split: int = 1
    last: tuple[int, int, int, int] | None = None

    @property
    def alone(self) -> bool:
        """Whether there is one launch, in which each tile has one program."""
        return self.split == 1 and self.last is None

    @property
    def part(self) -> Tiling:
        """The tiles of the second launch."""
        assert self.last is not None
        images, rows, columns, filters = self.last
        return Tiling(self.kernel, images, rows, columns, filters, self.channels)

    @property
    def parts(self) -> int:
        """How many parts a tile of the last wave has."""
        return self.pixels * self.filters // (self.part.pixels * self.part.filters)

    @property
    def pixels(self) -> int:
        """Rows of the product."""
        return self.images * self.rows * self.columns

    @property
    def reads_turned(self) -> bool:
        """Whether filters, read where they lie by the convolution turned back, come by whole lines.

        Boxes of other widths have rows of 64 bytes, which take twice as long.
        """
        return self.filters % 64 == 0 or self.filters < 64

    @property
    def keeps(self) -> bool:
        """Whether programs keep their filters."""
        return self.kernel == "resident"

    def programs_that_keep(self, conv: Convolution, multiprocessors: int) -> int:
        """Programs that keep their filters, and take tile after tile: as many as run at once."""
        blocks = self.blocks(conv)
        return min(self.tiles_of_pixels(conv), max(1, multiprocessors // blocks)) * blocks

    def window(self, conv: Convolution) -> tuple[int, int]:
        """Rows and columns of pixels that a tile's taps read, of one plane."""
        return (
            self.rows + _reach(conv.r, conv.stride[0], conv.dilation[0]),
            self.columns + _reach(conv.s, conv.stride[1], conv.dilation[1]),
        )

    def tiles(self, conv: Convolution) -> int:
        """How many there are."""
        return self.tiles_of_pixels(conv) * self.blocks(conv)

    def whole_tiles(self, conv: Convolution, chip: Chip) -> int:
        """How many have a program each: those of whole waves, or all of them."""
        tiles = self.tiles(conv)
        return tiles if self.alone else tiles - tiles % chip.multiprocessors

    def workspace(self, conv: Convolution, chip: Chip) -> int:
        """Bytes of the sums of shares."""
        if self.split == 1:
            return 0
        shared = self.tiles(conv) - self.whole_tiles(conv, chip)
        return 4 * shared * self.split * self.pixels * self.filters

    def tiles_of_pixels(self, conv: Convolution) -> int:
        """How many there are for each block of filters."""
        sizes = (conv.pictures, self.images), (conv.p, self.rows), (conv.q, self.columns)
        return prod(-(-size // extent) for size, extent in sizes)

    def blocks(self, conv: Convolution) -> int:
        """Blocks of filters."""
        return conv.groups * -(-(conv.k // conv.groups) // self.filters)

    def work(self, conv: Convolution) -> int:
        """Elements of all tiles of results."""
        return self.tiles(conv) * self.pixels * self.filters

    def iteration(self, conv: Convolution, size: int) -> tuple[Iteration, int]:
        """What an iteration does that multiplies one tap's channels, and how many a tile has.

        Of kept filters it is all that one window is multiplied by. An element has `size` bytes.
        Bytes from L2 are counted as what it gives of those that all programs read.
        """
        inner = conv.taps * self.channels_of(conv)
        kept = self.keeps
        count = planes(conv) if kept else -(-inner // self.channels)
        written = self._loaded(conv, self.kernel != "taps") * size / count
        filters = 0 if kept else self.filters * inner * size / count
        apart = APART * (1 + SPREAD * min(self.images - 1, FAR)) * (written - filters)
        if conv.c * size % min(self.channels * size, LINE):
            apart *= MISALIGNED
        lines, rows = inner * size / LINE / count, written / min(self.channels * size, LINE)
        one = Iteration(
            self.pixels, self.filters, lines, filters + apart, written, rows_loaded=rows
        )  # fmt: skip
        return one, count

    def microseconds(self, conv: Convolution, chip: Chip, size: int, result: int = 2) -> float:
        """The time that is expected; an element has `size` bytes, one of the result `result`."""
        one, count = self.iteration(conv, size)
        terms, most, tiles = chip.products, chip.multiprocessors, self.tiles(conv)
        shared = tiles - self.whole_tiles(conv, chip)
        waves = -(-(tiles - shared) // most) if shared else -(-tiles // most)
        last = shared * self.split or tiles - (waves - 1) * most
        deep = self._deep(size, result)
        mains = [count * deep * one.cycles(a, chip) for a in (min(tiles, most), last)]
        options = {"persistent": True, **dict(self.options)}
        waits = TURN if options.get("ping_pong") else 0.0
        if not self.keeps and conv.taps * self.channels_of(conv) < SHORT:
            waits += terms.started
        stored = max(LEAST_STORED, terms.stored * self.pixels * self.filters)
        cycles = terms.placed + waves_cycles(mains[0] + waits, stored, waves, options, chip)
        if shared and self.last is None:  # a last wave of shares
            each = terms.stored_each * self.pixels * self.filters
            cycles += mains[1] * -(-count // self.split) / count + waits + each
        elif not shared:  # few programs in the last wave have L2 for themselves
            cycles -= mains[0] - mains[1]
        image = conv.n * conv.depth.size * conv.h * conv.w * conv.c * size
        filters = conv.k * conv.taps * self.channels_of(conv) * size
        results = conv.pictures * conv.p * conv.q * conv.k * result
        memory = (image + filters + results) / (chip.memory_gbs * 1e3)
        moved = one.written / (self.pixels * self.filters * one.lines * LINE)
        time = launch_us(cycles, moved, memory, chip, SHARPNESS)
        if not shared:
            return time
        if self.last is not None:
            return time + terms.second_pass_us + self._parts_us(conv, shared, chip, size)
        parts = (2 * self.split + 1) * 4 * shared * self.pixels * self.filters
        return time + terms.second_pass_us + parts / (chip.memory_gbs * 1e3)

    def _parts_us(self, conv: Convolution, tiles: int, chip: Chip, size: int) -> float:
        """Microseconds of the parts of so many tiles."""
        part, most = self.part, chip.multiprocessors
        programs = tiles * self.parts
        one, count = part.iteration(conv, size)
        stored = max(LEAST_STORED, chip.products.stored * part.pixels * part.filters)
        each = count * one.cycles(min(programs, most), chip) + stored
        return PART_TIME * -(-programs // most) * each / (chip.clock_ghz * 1e3)

    def loads(self, conv: Convolution, size: int, *, reuse: bool = True) -> int:
        """Bytes from L2 to shared memory; without `reuse` those of a load for each tap."""
        kept, held = self.keeps and reuse, 0
        if kept:  # each program, as many as there are multiprocessors, loads its own
            inner = self.filters * conv.taps * self.channels_of(conv)
            held = inner * self.programs_that_keep(conv, SM_90A.multiprocessors)
        loaded = self._loaded(conv, reuse and self.kernel != "taps", kept=kept)
        tiles = self.tiles(conv)
        if self.last is None:
            return (tiles * loaded + held) * size
        over = tiles % SM_90A.multiprocessors
        parts = over * self.parts * self.part.loads(conv, size) // self.part.tiles(conv)
        return (tiles - over) * loaded * size + parts

    def channels_of(self, conv: Convolution) -> int:
        """Channels of a group, as blocks have them."""
        return -(-(conv.c // conv.groups) // self.channels) * self.channels

    def _deep(self, size: int, result: int) -> float:
        """The part of its iterations' time that a loop takes."""
        if self.kernel != "taps":
            return 1.0
        if self.filters.bit_count() > 1:
            return UNEVEN
        return DEEP if self._slots(size, result) >= SLOTS else 1.0

    def _slots(self, size: int, result: int) -> int:
        """How many iterations' pixels and filters shared memory holds beside results."""
        left = SM_90A.shared_bytes - self.pixels * self.filters * min(result, 2)
        return left // ((self.pixels + self.filters) * self.channels * size)

    def _loaded(self, conv: Convolution, windows: bool, *, kept: bool | None = None) -> int:
        """Elements that a tile loads: filters, if they are not kept, and pixels."""
        inner = conv.taps * self.channels_of(conv)
        kept = self.keeps if kept is None else kept
        filters = 0 if kept else self.filters * inner
        if not windows:
            return filters + self.pixels * inner
        count = planes(conv) * conv.depth.taps
        return filters + prod(self.window(conv)) * count * self.channels_of(conv)


def check(tiling: Tiling, conv: Convolution) -> None:
    """Raise ConvolutionNotPossible if a tiling that was given would not compute all of it."""
    for wrong, words, expected in _demands(tiling, conv):
        if wrong:
            raise ConvolutionNotPossible(
                f"`config` {words}", expected=expected, found=str(tiling),
                hint="leave `config` out, or take one of `plans.ranked(conv, chip, bytes)`",
            )  # fmt: skip


def _demands(tiling: Tiling, conv: Convolution) -> Iterator[tuple[bool, str, str]]:
    """What would be wrong, whether it is, and what is expected."""
    known = "windows", "resident", "taps"
    yield tiling.kernel not in known, "names no kernel", f"one of {', '.join(known)}"
    whole = tiling.pixels > 0 and tiling.pixels % 64 == 0
    yield not whole, f"has {tiling.pixels} pixels a tile", "a multiple of 64"
    one = tiling.images == 1 or (tiling.kernel == "taps" and conv.depth.flat)
    yield not one, f"has {tiling.images} images a tile", "1, of windows and of three dimensions"
    own, ours = conv.c // conv.groups, conv.k // conv.groups
    fits = conv.groups == 1 or (own % tiling.channels == 0 and ours % tiling.filters == 0)
    yield not fits, "has blocks that reach into other groups", f"divisors of {own} and {ours}"
    kept = conv.groups == 1 and own <= tiling.channels and conv.depth.flat
    all_of_it = f"one group, of {tiling.channels} channels at most, and two dimensions"
    yield tiling.keeps and not kept, "keeps filters of some channels alone", all_of_it
    both = tiling.split > 1 and tiling.last is not None
    suits = tiling.kernel == "taps" and conv.depth.flat and tiling.split > 0 and not both
    yield not (tiling.alone or suits), "shares tiles", "`split` or `last`, of taps, two dimensions"
    if tiling.last is not None:
        shape = tiling.images, tiling.rows, tiling.columns, tiling.filters
        divides = all(
            part > 0 and n % part == 0 for n, part in zip(shape, tiling.last, strict=True)
        )
        good = divides and tiling.part.pixels % 64 == 0
        yield not good, "has parts that are no tiles", "divisors of its extents, of 64 pixels"


def planes(conv: Convolution) -> int:
    """Planes of rows and columns that some tap reads."""
    found = 1
    for taps, stride, dilation in zip((conv.r, conv.s), conv.stride, conv.dilation, strict=True):
        found *= min(taps, stride // gcd(stride, dilation))
    return found


def _reach(taps: int, stride: int, dilation: int) -> int:
    """Rows of a plane beyond the tile's own that its taps read."""
    step = stride // gcd(stride, dilation)
    return (-(-taps // step) - 1) * (dilation // gcd(stride, dilation))


def channels_at_a_time(own: int, size: int, *, groups: int) -> int:
    """Channels of a block: as many as a swizzled row holds, and few beyond the last."""
    blocks = [swizzle // size for swizzle in SM_90A.swizzles]
    if groups > 1:
        return next((b for b in blocks if own % b == 0), 0)
    wide = [b for b in blocks if b > blocks[-1] or own <= b]
    return min(wide, key=lambda b: (-(-own // b) * b, -b))


def tilings(conv: Convolution, size: int, result: int = 2) -> Iterator[Tiling]:
    """The kernels and tiles that compute a convolution by blocks; none if no block fits.

    An element has `size` bytes, `result` are those of a result and of what is added to it.
    """
    own, ours = conv.c // conv.groups, conv.k // conv.groups
    channels = channels_at_a_time(own, size, groups=conv.groups)
    widths = [b for b in (32, 64, 96, 128, 192, 256) if b < 2 * ours or b == 32]
    if conv.groups > 1:
        widths = [b for b in (16, 32, 64, 96, 128, 192, 256) if ours % b == 0]
    if not channels:
        return
    for filters in widths:
        yield from _by_windows(conv, filters, channels, (size, result))
        yield from _by_taps(conv, filters, channels, (size, result))


def _by_windows(
    conv: Convolution, filters: int, channels: int, bytes_: tuple[int, int]
) -> Iterator[Tiling]:
    size, result = bytes_
    if conv.r * conv.s == 1:
        return
    for rows, columns in _windows(conv):
        one = Tiling("windows", 1, rows, columns, filters, channels)
        high, wide = one.window(conv)
        results, window = one.pixels * filters * result, high * wide * channels * size
        if one.pixels % 64 or one.pixels * filters > MOST_ACCUMULATED:
            continue
        if max(high, wide) > MOST_ROWS or one.pixels > 256:
            continue
        held = planes(conv) * window * (1 if planes(conv) > 1 else 2)
        streamed = 4 * filters * channels * size
        if held + streamed + results < SHARED_BYTES:
            yield one
        turns = one.pixels == 128 and one.pixels * filters <= TURNED and planes(conv) == 1
        if turns and held + streamed + 2 * results < SHARED_BYTES:
            yield replace(one, options=(("persistent", True), ("ping_pong", True)))
        kept = conv.r * conv.s * filters * channels * size
        alone = conv.groups == 1 and conv.c <= channels and conv.depth.flat
        if alone and kept <= HELD_BYTES and kept + held + results < SM_90A.shared_bytes:
            yield replace(one, kernel="resident")


def _windows(conv: Convolution) -> Iterator[tuple[int, int]]:
    """Rows and columns of tiles."""
    for rows in (1, 2, 4, 8, 16, 32) if conv.p < FEW_ROWS else (4, 8, 16, 32):
        for columns in _columns(rows, single=conv.s == 1):
            yield rows, columns


def _columns(rows: int, *, single: bool) -> tuple[int, ...]:
    """Columns of a window's tile whose rows of 8 pixels come at one distance."""
    if rows == 1:
        return 64, 128, 256
    return (8, 16, 32) if single else (8,)


def _by_taps(
    conv: Convolution, filters: int, channels: int, bytes_: tuple[int, int]
) -> Iterator[Tiling]:
    size, result = bytes_
    extents = (1, 2, 4, 8, 16, 32)
    for pixels in (64, 128, 256):
        streamed = 3 * (pixels + filters) * channels * size
        if pixels * filters > MOST_ACCUMULATED or (
            result > 2 and streamed + pixels * filters * result > SM_90A.shared_bytes
        ):
            continue
        shapes = [
            (pixels // (rows * columns), rows, columns)
            for rows in extents
            for columns in (extents if conv.p >= FEW_ROWS else (*extents, 64, 128, 256))
            if pixels % (rows * columns) == 0
        ]
        found = [
            Tiling("taps", *shape, filters, channels)
            for shape in shapes
            if shape[0] <= 128 and (shape[0] == 1 or conv.depth.flat)
        ]
        yield from found
        yield from _shared(conv, found)


def _shared(conv: Convolution, found: list[Tiling]) -> Iterator[Tiling]:
    """Tilings of fewest tiles, those of whose last wave programs share where they are few.

    Or those tiles have a launch of their own, in parts.
    """
    if not conv.depth.flat or not found:
        return
    fewest = min(tiling.tiles(conv) for tiling in found)
    over = fewest % SM_90A.multiprocessors
    steps = conv.taps * found[0].channels_of(conv) // found[0].channels
    each = (-(-steps // n) for n in SPLITS if 0 < over * n <= SM_90A.multiprocessors)
    splits = sorted({-(-steps // n) for n in each if n >= LEAST_SHARE})
    for tiling in (t for t in found if t.tiles(conv) == fewest):
        yield from (replace(tiling, split=split) for split in splits[-MOST_SPLITS:])
        if 0 < over < fewest:
            yield from _in_parts(tiling, over)


def _in_parts(tiling: Tiling, tiles: int) -> Iterator[Tiling]:
    """A tiling of whose tiles so many, the last, are done in parts, as many as a wave has.

    Parts have whole products: 64 pixels and 16 filters at least.
    """
    pixels = tiling.pixels
    while pixels >= PART[0]:
        filters = tiling.filters
        while filters >= PART[1]:
            parts = tiling.pixels * tiling.filters // (pixels * filters)
            programs = parts * tiles
            if SM_90A.multiprocessors < 3 * programs <= 6 * SM_90A.multiprocessors and parts > 1:
                yield replace(tiling, last=(*_halved(tiling, pixels), filters))
            if filters % 2:
                break
            filters //= 2
        if pixels % 2:
            break
        pixels //= 2


def _halved(tiling: Tiling, pixels: int) -> tuple[int, int, int]:
    """Images, rows and columns of a part of a tile with so many pixels: fewer images first."""
    shape, over = [tiling.images, tiling.rows, tiling.columns], tiling.pixels // pixels
    for at, size in enumerate(shape):
        while over > 1 and size % 2 == 0:
            size, over = size // 2, over // 2
        shape[at] = size
    return shape[0], shape[1], shape[2]


def _worth(tiling: Tiling, conv: Convolution, chip: Chip) -> float:
    """Times as long as with one launch, in which each tile has one program, would be as good."""
    if tiling.alone:
        return 1.0
    return EVENLY if tiling.split > 1 and tiling.whole_tiles(conv, chip) else WORTH


@lru_cache(maxsize=1024)
def ranked(conv: Convolution, chip: Chip, size: int, result: int = 2) -> tuple[Tiling, ...]:
    """The tilings, the one that is expected fastest first.

    Of those that are nearly as fast, the one whose tiles reach least beyond the results, which
    takes the least power and L2.
    """
    times = {t: t.microseconds(conv, chip, size, result) for t in tilings(conv, size, result)}
    times = {t: time * _worth(t, conv, chip) for t, time in times.items()}
    close = NEARLY * min(times.values(), default=0.0)

    def order(tiling: Tiling) -> tuple[float, ...]:
        time = times[tiling]
        first = time > close, tiling.work(conv) if time <= close else time
        return *first, time, tiling.images

    return tuple(sorted(times, key=order))
