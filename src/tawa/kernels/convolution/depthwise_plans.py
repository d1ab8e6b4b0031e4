"""Which results of a depthwise convolution a thread computes: a block, or a run of one row.

A thread has some channels of all its results. In a block of several rows each row of pixels is
loaded once for all results that read it, and all pixels are asked for before the first is used;
filters stay in registers. A run of one row loads pixels and taps row by row, which fits any number
of taps. What is expected fastest is taken: bytes of memory and from L2, instructions, and how often
a thread waits for loads, the terms fitted to `benchmarks/results/conv-tiles.jsonl`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import hypot

import tawa
from tawa.kernels.convolution.shapes import Convolution, ConvolutionNotPossible
from tawa.machine.chips import Chip
from tawa.machine.product_times import LINE

CHANNELS = 64
"""Channels of one program, at most."""
RUNS = 16
"""Runs of neighbouring results that one program computes."""
LENGTHS = 8, 7, 6, 5, 4, 3, 2, 1
"""Results of a run."""
STRIDED = 4
"""Results of a run at most, with a stride (measured: `conv-tiles.jsonl`)."""
THREADS, REGISTERS = 128, 65536
"""Of a program, and of a multiprocessor."""
OWN_REGISTERS = 84, 11
"""Registers of a thread: of any, and more for each result of its runs (161 for 7, 128 for 4)."""
MOST_TAPS = 8
"""Taps of a row that registers hold."""
WAVES = 4
"""Programs for each multiprocessor, at most, that share the results for the gradient of filters."""

EACH, WIDE = (2, 4, 8), (32, 64)
"""Channels of a thread, and of a program, that blocks have."""
HIGH, ACROSS = (8, 7, 4, 3, 2, 1), (8, 7, 4, 2)
"""Rows of a block, and results of each row."""
LEAST = 4
"""Results of a block, at least."""
MOST_BEYOND = 1.15
"""By how much blocks may reach beyond the results."""
KEPT_TAPS, MOST_PRODUCTS = 49, 5000
"""Taps, and products, of a thread's block at most: more take too long to compile."""
BLOCK_REGISTERS = 46, 1.15, 250
"""Registers of any block, and for each sum and each tap of a channel; the most of a thread."""
LOADED = 0.72
"""The part of what L2 gives the copy engine that threads of runs get."""
WAIT_US = 0.8
"""Microseconds that a thread waits for what it loads: runs for each row of taps."""
WAITS_OF_BLOCKS = 3
"""As often a block's threads wait, for filters, pixels and at the end."""
ISSUED = 1.3
"""Cycles of a block's instruction: rows of pixels wait for their predicates and zeros."""
ALONE = 0.4
"""A program that has a multiprocessor for itself takes as much longer; of several each its part."""
NARROW = 1.04
"""As much longer takes a program whose pixels are no whole lines."""


@dataclass(frozen=True)
class Runs:
    """What a program computes: so many runs of neighbouring results, of some channels.

    `taps` are those of a row at a time. With `rows` the runs are blocks of so many rows.
    """

    runs: int
    run: int
    channels: int
    taps: int
    rows: int = 0

    @property
    def each(self) -> int:
        """Channels of a thread."""
        return max(1, self.runs * self.channels // THREADS)

    @property
    def registers(self) -> int:
        """Of a thread that computes runs."""
        return OWN_REGISTERS[0] + OWN_REGISTERS[1] * self.run

    def programs(self, conv: Convolution) -> int:
        """How many there are."""
        down = tawa.cdiv(conv.p, max(1, self.rows)) * tawa.cdiv(conv.q, self.run)
        return tawa.cdiv(conv.pictures * down, self.runs) * tawa.cdiv(conv.c, self.channels)

    def columns(self, conv: Convolution) -> int:
        """Columns of pixels under a run."""
        columns = (self.run - 1) * conv.stride[1] + (conv.s - 1) * conv.dilation[1] + 1
        return min(columns, self.run * conv.s)

    def lines(self, conv: Convolution) -> int:
        """Rows of pixels that a thread loads."""
        taps = conv.depth.taps * conv.r
        lines = (max(1, self.rows) - 1) * conv.stride[0] + (conv.r - 1) * conv.dilation[0] + 1
        return min(lines, self.rows * conv.r) if self.rows else taps

    def beside(self, conv: Convolution) -> int:
        """Programs that share a multiprocessor."""
        own = registers_of_block(conv, self) if self.rows else self.registers
        return max(1, REGISTERS // (own * THREADS))

    def turns(self, conv: Convolution, multiprocessors: int) -> int:
        """Programs that a multiprocessor computes one after the other, several at a time."""
        beside = self.beside(conv)
        waves, rest = divmod(self.programs(conv), beside * multiprocessors)
        return waves * beside + tawa.cdiv(rest, multiprocessors)

    def microseconds(self, conv: Convolution, chip: Chip, size: int) -> float:
        """The time that is expected; an element has `size` bytes."""
        results = conv.pictures * conv.p * conv.q * conv.c * size
        image = conv.n * conv.depth.size * conv.h * conv.w * conv.c * size
        loaded = results * self.lines(conv) * self.columns(conv) / (max(1, self.rows) * self.run)
        memory = (image + results) / (chip.memory_gbs * 1e3)
        cache = (loaded + results) / (chip.l2_gbs * 1e3)
        if not self.rows:
            waits = 1 + self.lines(conv)
            return chip.timing.empty_us + WAIT_US * waits + hypot(memory, cache / LOADED)
        cycles = instructions_of_block(conv, self) * self.turns(conv, chip.multiprocessors)
        issued = ISSUED * cycles / (chip.clock_ghz * 1e3)
        own = (memory**3 + cache**3 + issued**3) ** (1 / 3) * (1 + ALONE / self.beside(conv))
        if self.channels * size < LINE <= conv.c * size:
            own *= NARROW
        return chip.timing.empty_us + WAIT_US * WAITS_OF_BLOCKS + own


def check_runs(way: Runs) -> None:
    """Raise ConvolutionNotPossible if a thread can't compute what was given."""
    tiles = all(n > 0 and n & (n - 1) == 0 for n in (way.runs, way.channels))
    if not tiles or min(way.run, way.taps) < 1 or way.rows < 0:
        raise ConvolutionNotPossible(
            "`config` describes no block of results",
            expected="powers of two `runs` and `channels`, at least 1 `run` and `taps`, 0 `rows`",
            found=str(way),
            hint="leave `config` out",
        )


def registers_of_block(conv: Convolution, way: Runs) -> int:
    """Registers of a thread that computes a block, nearly."""
    least, more, _ = BLOCK_REGISTERS
    return least + round(more * way.each * (way.rows * way.run + conv.r * conv.s))


def instructions_of_block(conv: Convolution, way: Runs) -> int:
    """Those of a thread: counted in machine code."""
    loads, results = way.lines(conv) * way.columns(conv), way.rows * way.run
    taps = conv.r * conv.s
    own = way.each * (results * taps + loads + 3 * taps)
    return own + 4 * loads + results * (way.each // 2 + 3) + 150


def instructions(conv: Convolution, way: Runs) -> int:
    """Those of a thread that computes a run: counted in machine code, for 8 channels."""
    taps = way.taps
    columns = (way.run - 1) * conv.stride[1] + (taps - 1) * conv.dilation[1] + 1
    columns = min(columns, way.run * taps)
    rows = conv.depth.taps * conv.r * -(-conv.s // taps)
    return rows * (8 * way.run * taps + 18 * columns + 17 * taps + 40) + 40 * way.run + 200


def blocks(conv: Convolution) -> Iterator[Runs]:
    """Blocks whose sums, filters and pixels registers hold, that reach little beyond results."""
    if not conv.depth.flat or conv.r * conv.s > KEPT_TAPS:
        return
    for each, channels, run, rows in product(EACH, WIDE, ACROSS, HIGH):
        way = Runs(THREADS * each // channels, run, channels, _taps(conv), rows)
        beyond = -(-conv.q // run) * run * -(-conv.p // rows) * rows
        if beyond > MOST_BEYOND * conv.p * conv.q or rows * run < LEAST:
            continue
        products = each * rows * run * conv.r * conv.s
        if products <= MOST_PRODUCTS and registers_of_block(conv, way) <= BLOCK_REGISTERS[2]:
            yield way


@lru_cache(maxsize=1024)
def ordered(conv: Convolution, chip: Chip, size: int, *, apart: bool = False) -> tuple[Runs, ...]:
    """Runs and blocks, the one that is expected fastest first.

    Channels that are `apart` in memory have runs alone, and so has what a device has too few of.
    """
    found = [shorter(best_runs(conv, chip.multiprocessors), conv)]
    if not apart:
        found += blocks(conv)
    return tuple(sorted(found, key=lambda way: way.microseconds(conv, chip, size)))


def fastest(conv: Convolution, chip: Chip, size: int, *, apart: bool = False) -> Runs:
    """The one that is expected fastest."""
    return ordered(conv, chip, size, apart=apart)[0]


def _taps(conv: Convolution) -> int:
    """Taps of a row at a time."""
    return -(-conv.s // -(-conv.s // MOST_TAPS))


def best_runs(conv: Convolution, multiprocessors: int) -> Runs:
    """The best of runs: as long as lets programs fill the multiprocessors' last wave."""
    channels = min(CHANNELS, max(8, tawa.next_power_of_2(conv.c)))
    if 20 * (-(-conv.c // 32) * 32) < 19 * (-(-conv.c // channels) * channels):
        channels = 32  # the last of fewer blocks would have few channels
    runs = RUNS * CHANNELS // channels
    found = [Runs(runs, n, channels, _taps(conv)) for n in LENGTHS if n < 2 * conv.q]
    return min(found, key=lambda way: way.turns(conv, multiprocessors) * instructions(conv, way))


def shorter(way: Runs, conv: Convolution) -> Runs:
    """Half as many results of a thread with a stride, whose rows of pixels are twice as long.

    Measured on EfficientNet-B0's four layers of stride 2: 0.90 to 0.97 of the time.
    """
    if conv.stride[1] == 1 or way.runs == 1:
        return way
    return replace(way, runs=way.runs // 2, run=min(way.run, STRIDED))


def shares_of_depthwise(conv: Convolution, multiprocessors: int) -> int:
    """Shares of the runs of results, for filters' gradients: programs that fill a device."""
    way = best_runs(conv, multiprocessors)
    rows = tawa.cdiv(conv.c, way.channels) * conv.depth.taps * conv.r
    rows *= -(-conv.s // way.taps)
    turns = tawa.cdiv(conv.pictures * conv.p * tawa.cdiv(conv.q, way.run), way.runs)
    return max(1, min(turns // 4, WAVES * multiprocessors // rows))
