"""Tiles and launch options of the library's GEMM, and which of them suit a product.

`configuration` takes the one that `Configuration.microseconds` says is fastest. That is a model of
a few terms: what each multiprocessor multiplies and loads, what all of them load from L2 and from
device memory, what a tile costs before and after its products, and what further kernels cost where
K is split or an operand is copied first. Its constants are fitted to timings on an H100
(docs/performance-log.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from tawa.machine.chips import DEFAULT, SM_90A, Chip
from tawa.machine.product_times import LINE, Iteration, launch_us, waves_cycles

STREAMED_PART = 4
"""An operand larger than one in so many parts of L2 would push out what others left there, and not
stay there itself. L2 is two partitions, each of which holds what its half of the chip reads (the
A100's white paper): this is half of one (docs/performance-log.md: which products it decides)."""
STREAMED_K_BYTES = 1024
"""Bytes of a row of A up to which writing C is what takes the time (measured: `gemm.jsonl`)."""
FEW_ROWS = SM_90A.mma_m // 2
"""Rows of a product whose warps multiply by themselves: a warp group's instruction has twice as
many, half of them for nothing."""
FEW_ROWS_COLUMNS = (32, 48, 64, 80)
"""Columns of tiles of few rows: what four warps multiply in whole instructions. 40, 56 and 72 took
up to 1.5 times as long (measured: `gemm-layers.jsonl`)."""
HOPELESS = 1.3
"""Times the time of the fastest by the model: what takes longer is not measured. The fastest of 200
layers was within 1.25 of it (measured: `gemm-layers.jsonl`)."""


def cdiv(dividend: int, divisor: int) -> int:
    """A quotient rounded up; of plain numbers, which takes a tenth of what `tawa.cdiv` does."""
    return -(-dividend // divisor)


def copying(sizes: Iterable[int], chip: Chip = DEFAULT) -> float:
    """Microseconds that a kernel adds which first copies operands of so many bytes; 0 for none."""
    total = sum(sizes)
    return chip.products.copy_us + 2 * total / (chip.memory_gbs * 1e3) if total else 0.0


@dataclass(frozen=True)
class Product:
    """An m x n x k product, or a batch of them, and how the matrices lie.

    `columns` is what a tile's columns should be a multiple of (128 bytes if B lies as [K, N]).
    `aligned` says of A and of B whether their rows in memory start with a line of 128 bytes,
    `transposed` whether they have to be transposed on the way: those across K, if not of 16 bits.
    `by_elements` says that the hardware can't store C's blocks.
    """

    m: int
    n: int
    k: int
    element_bytes: int = 2
    output_bytes: int = 2
    columns: int = 8
    aligned: tuple[bool, bool] = (True, True)
    transposed: tuple[bool, bool] = (False, False)
    batch: int = 1
    by_elements: bool = False
    chip: Chip = DEFAULT

    @property
    def operands(self) -> tuple[int, int]:
        """Bytes of A and of B."""
        column = self.batch * self.k * self.element_bytes
        return self.m * column, self.n * column

    @property
    def output(self) -> int:
        """Bytes of C."""
        return self.batch * self.m * self.n * self.output_bytes

    def copied(self, a: bool, b: bool) -> Product:
        """The product where copies of A, of B, with aligned rows along K take their place."""
        aligned = self.aligned[0] or a, self.aligned[1] or b
        transposed = self.transposed[0] and not a, self.transposed[1] and not b
        columns = 8 if b else self.columns
        return replace(self, aligned=aligned, transposed=transposed, columns=columns)


@dataclass(frozen=True)
class Configuration:
    """A tile (`block_k` counts elements), the width of program groups, and launch options.

    With `split` > 1 as many programs share a tile, each with a part of K; a second kernel adds
    their results up. Groups lie along M, or along N (`along_n`); with a `group_m` of 0 programs
    walk all the way. `copied` says of A and of B whether they are first copied, to rows along K
    that start with lines. `elements`: operands may lie in any way, and are loaded one by one.
    """

    block_m: int
    block_n: int
    block_k: int
    group_m: int = 8
    options: dict[str, Any] = field(default_factory=dict[str, Any], hash=False)
    split: int = 1
    copied: tuple[bool, bool] = (False, False)
    along_n: bool = False
    elements: bool = False

    def tiles(self, m: int, n: int) -> int:
        """Tiles of an m x n result."""
        return cdiv(m, self.block_m) * cdiv(n, self.block_n)

    def programs(self, m: int, n: int) -> tuple[int, int]:
        """The first two dimensions of the kernel's programs for an m x n result."""
        rows, columns = cdiv(m, self.block_m), cdiv(n, self.block_n)
        if self.group_m:
            return rows * columns, 1
        return (columns, rows) if self.along_n else (rows, columns)

    def streams(self, product: Product) -> tuple[bool, bool]:
        """Whether L2 need not keep A, need not keep B, for other programs or for later.

        A block that two programs load is streamed if both run at the same time.
        """
        programs = self.tiles(product.m, product.n) * self.split * product.batch
        readers = 2 if programs <= product.chip.multiprocessors else 1
        a, b = (size > product.chip.l2_bytes // STREAMED_PART for size in product.operands)
        return a and product.n <= readers * self.block_n, b and product.m <= readers * self.block_m

    def microseconds(self, product: Product) -> float:
        """About how long the product takes."""
        copies = [x for x, copy in zip(product.operands, self.copied, strict=True) if copy]
        time = sum(copying([size], product.chip) for size in copies)
        return time + self._kernels(product.copied(*self.copied))

    def _kernels(self, product: Product) -> float:
        """Microseconds of the product itself."""
        if self.elements:
            return self._by_elements(product)
        chip, terms = product.chip, product.chip.products
        programs = self.tiles(product.m, product.n) * self.split * product.batch
        waves = cdiv(programs, chip.multiprocessors)
        steps = cdiv(cdiv(product.k, self.block_k), self.split)
        main = steps * self._iteration(product, min(programs, chip.multiprocessors))
        single = product.by_elements and self.split == 1
        each = terms.stored_each if single else terms.stored
        stored = self.block_m * self.block_n * each
        cycles = waves_cycles(main, stored, waves, self.options, chip)
        cycles += terms.placed * (self.group_m > 0)
        moved = 1 / self.block_m + 1 / self.block_n
        time = launch_us(cycles, moved, self._memory(product), chip)
        if self.options.get("cluster"):
            time += terms.clustered_us
        if self.block_m <= FEW_ROWS and self.block_n & (self.block_n - 1):
            time *= terms.uneven_columns
        if self.split == 1:
            return time
        parts = product.batch * product.m * product.n * 4
        return time + terms.second_pass_us + (2 * self.split + 1) * parts / (chip.memory_gbs * 1e3)

    def _by_elements(self, product: Product) -> float:
        """Microseconds of a kernel that loads by elements, and waits in each iteration."""
        chip, terms = product.chip, product.chip.products
        programs = self.tiles(product.m, product.n) * product.batch
        loaded = (self.block_m + self.block_n) * self.block_k * terms.loaded_each
        together = cdiv(programs, chip.multiprocessors)
        iteration = max(terms.round_trip * cdiv(together, terms.together), loaded * together)
        cycles = terms.started + cdiv(product.k, self.block_k) * iteration
        return chip.timing.empty_us + cycles / (chip.clock_ghz * 1e3) + self._memory(product)

    def _memory(self, product: Product) -> float:
        """Microseconds to read the operands and to write the result."""
        a, b = product.operands
        streams = self.streams(product)
        kept = (not streams[0]) * a + (not streams[1]) * b
        written_back = min(kept, product.chip.products.written_back)
        return (a + b + product.output + written_back) / (product.chip.memory_gbs * 1e3)

    def _iteration(self, product: Product, active: int) -> float:
        """Cycles of an iteration of the loop while so many multiprocessors are at work."""
        chip, terms = product.chip, product.chip.products
        lines = self.block_k * product.element_bytes / LINE
        a, b = product.transposed
        added = (a * self.block_m + b * self.block_n) * lines * LINE / terms.transposed
        rows = min(self.block_m, product.m), min(self.block_n, product.n)
        if product.columns > 8:  # a box of fewer columns takes as many lines
            rows = rows[0], cdiv(self.block_n, product.columns) * product.columns
        a, b = (
            count * (1.0 if aligned else terms.misaligned) * lines * LINE
            for count, aligned in zip(rows, product.aligned, strict=True)
        )
        loaded = a + b / self.options.get("cluster", 1)
        written = (self.block_m + self.block_n) * lines * LINE
        one = Iteration(self.block_m, self.block_n, lines, loaded, written, added)
        return one.cycles(active, chip)


def _ping_pong(block_n: int, block_k: int, **options: Any) -> Configuration:
    return Configuration(
        *(128, block_n, block_k), options={"persistent": True, "ping_pong": True, **options}
    )


def _cooperative(block_m: int, block_n: int, block_k: int, **options: Any) -> Configuration:
    return Configuration(
        block_m, block_n, block_k, options={"persistent": True, "consumers": 2, **options}
    )


def configurations(element_bytes: int = 2) -> list[Configuration]:
    """Those that `configuration` chooses from, and that are worth autotuning over."""
    k = LINE // element_bytes
    return [
        _ping_pong(192, k, num_stages=4, staging=4),
        _ping_pong(192, k, num_stages=5, staging=1),
        _cooperative(128, 256, k),
        _cooperative(256, 200, k, num_stages=3),
        _cooperative(256, 128, k),
        _cooperative(256, 192, k, num_stages=3),
        _cooperative(128, 256, k, cluster=2),
        _cooperative(256, 192, k, num_stages=3, cluster=2),
        _ping_pong(128, k),
        *small_configurations(element_bytes),
    ]


def small_configurations(element_bytes: int = 2) -> list[Configuration]:
    """One tile a program, for results too small to give every multiprocessor a large one."""
    k = LINE // element_bytes
    blocks = [(128, columns) for columns in (128, 96, 64, 32)]
    blocks += [(64, columns) for columns in (256, 192, 128, 96, 64, 32, 16)]
    return [
        Configuration(*block, 2 * k if block[0] == 64 and block[1] <= 96 else k, group_m=0)
        for block in blocks
    ]


def fitted(product: Product) -> Iterator[Configuration]:
    """Tiles of other sizes, of which C may have just as many as there are multiprocessors."""
    k = LINE // product.element_bytes
    for columns in range(112, 256, 16):
        if columns <= 192:
            yield Configuration(192, columns, k, options={"persistent": True, "consumers": 3})
            yield _ping_pong(columns, k)
        options = {"num_stages": 3} if columns > 176 else {}
        if columns <= 200:
            yield _cooperative(256, columns, k, **options)
            yield _cooperative(256, columns, k, cluster=2, **options)
            yield Configuration(
                *(192, columns, k),
                options={"persistent": True, "consumers": 3, "cluster": 2},
            )
        else:
            yield _cooperative(128, columns, k)


def few_columns(product: Product) -> list[Configuration]:
    """Tiles as narrow as C is: programs that go on to the next one store while they load.

    Beside wider tiles, which are loaded and multiplied in part for nothing, 0.84 of the time on an
    H200 (docs/performance-log.md).
    """
    columns = 64
    return [_ping_pong(columns, LINE // product.element_bytes)] if product.n <= columns else []


def few_rows(product: Product) -> list[Configuration]:
    """Tiles of as few rows as C has, whose warps multiply by themselves; one a program.

    Slots without rows that are outside of A are smaller, so more of B is under way.
    """
    if product.m > FEW_ROWS or product.element_bytes != 2:
        return []
    rows = 16 if product.m <= 16 else 32
    blocks = [(64, 128), (128, 128), *((columns, 256) for columns in FEW_ROWS_COLUMNS)]
    return [Configuration(rows, *block, group_m=0) for block in blocks]


def by_elements(product: Product) -> Configuration:
    """The fastest one that loads element by element."""
    found = [
        Configuration(64, 64, 64, group_m=0, elements=True, options={"num_warps": 8}),
        Configuration(64, 32, 64, group_m=0, elements=True),
        Configuration(32, 32, 64, group_m=0, elements=True),
    ]
    return min(found, key=lambda config: config.microseconds(product))


def splits(product: Product) -> Iterator[Configuration]:
    """Configurations that share tiles' K, where there are few tiles."""
    k = LINE // product.element_bytes
    large = [Configuration(*block, k, group_m=0) for block in ((128, 192), (128, 256), (256, 128))]
    for config in [*small_configurations(product.element_bytes), *few_rows(product), *large]:
        tiles = config.tiles(product.m, product.n) * product.batch
        steps = cdiv(product.k, config.block_k)
        for count in (2, 3, 4, 5, 6, 8, 11, 16, 22, 33, 66):
            if tiles * count <= product.chip.multiprocessors and steps >= 4 * count:
                # As many parts as have something to do when each takes as many iterations.
                yield replace(config, split=cdiv(steps, cdiv(steps, count)))


def configuration(
    m: int,
    n: int,
    k: int,
    element_bytes: int = 2,
    output_bytes: int = 2,
    columns: int = 8,
    aligned: tuple[bool, bool] = (True, True),
    transposed: tuple[bool, bool] = (False, False),
    batch: int = 1,
) -> Configuration:
    """The configuration for an m x n x k product (see `Product`)."""
    sizes = m, n, k, element_bytes, output_bytes, columns
    return fastest(Product(*sizes, aligned, transposed, batch))


@lru_cache(maxsize=4096)
def fastest(product: Product) -> Configuration:
    """The configuration that the model says is fastest, operands copied first where that pays."""
    across = product.transposed
    copies = [(a, b) for a in {False, across[0]} for b in {False, across[1]}]
    found = [replace(_best(product.copied(*copied)), copied=copied) for copied in copies]
    return _walking(min(found, key=lambda c: c.microseconds(product)), product)


def _walking(best: Configuration, product: Product) -> Configuration:
    """The configuration with the order of its programs, and with how it stores."""
    if not best.group_m:
        # Programs that read the same blocks of the larger operand come one after the other: the
        # hardware spreads them over the chip, and each block is loaded from memory once for all.
        best = replace(best, along_n=product.m > product.n)
        if best.programs(product.m, product.n)[1] > SM_90A.largest_grid[1]:
            best = replace(best, along_n=not best.along_n)
    shallow = configurations(product.element_bytes)[0]
    if (best.block_m, best.block_n) != (shallow.block_m, shallow.block_n):
        return best
    row = product.k * product.element_bytes
    streamed = row <= STREAMED_K_BYTES and product.output > product.chip.l2_bytes
    return replace(best, options={**best.options, "stream_stores": streamed})


def _best(product: Product) -> Configuration:
    """The fastest configuration for operands that lie as they do."""
    found = min((*_usual(product), *_others(product)), key=lambda c: c.microseconds(product))
    return _at_once(found, product)


def _usual(product: Product) -> list[Configuration]:
    """Tiles of the usual sizes that suit the product."""
    found = [*configurations(product.element_bytes), *few_columns(product)]
    found += [*few_rows(product), *splits(product)]
    row = product.k * product.element_bytes
    shallow, deep = found[:2]
    found.remove(deep if row <= STREAMED_K_BYTES // 2 else shallow)
    fits = [c for c in found if _suits(c.block_n, product)]
    if all(product.aligned):  # then L2 serves neighbours that ask for the same as it does a cluster
        fits = [c for c in fits if "cluster" not in c.options]
    if any(product.transposed):  # tiles lie in shared memory twice: so many slots need not fit
        fits = [c for c in fits if "num_stages" not in c.options]
    return fits


def _others(product: Product) -> list[Configuration]:
    """Tiles of other sizes that suit the product."""
    if any(product.transposed):
        return []
    found = [c for c in fitted(product) if c.block_n % product.columns == 0]
    return [c for c in found if "cluster" not in c.options or not all(product.aligned)]


def _at_once(config: Configuration, product: Product) -> Configuration:
    """The configuration without groups of programs, where each multiprocessor has one tile."""
    once = config.tiles(product.m, product.n) * product.batch <= product.chip.multiprocessors
    return replace(config, group_m=0) if once and "cluster" not in config.options else config


def ranked(product: Product, count: int) -> list[Configuration]:
    """What a search measures first: the best of each kind by the model, then the next of each.

    A kind is a tile's rows, and whether programs share its K: where the model errs, it errs for all
    of a kind alike.
    """
    found = [_at_once(c, product) for c in (*_usual(product), *_others(product))]
    found.sort(key=lambda c: c.microseconds(product))
    found = [c for i, c in enumerate(found) if c not in found[:i]]
    longest = HOPELESS * found[0].microseconds(product)
    found = [c for c in found if c.microseconds(product) <= longest]
    place, seen = dict[int, int](), dict[Any, int]()
    for config in found:
        kind = config.block_m, config.split > 1
        place[id(config)] = seen[kind] = seen.get(kind, -1) + 1
    found.sort(key=lambda c: place[id(c)])
    return [_walking(c, product) for c in found[:count]]


def _suits(block_n: int, product: Product) -> bool:
    """Whether tiles so wide load B in whole lines, or in parts of one where B is small."""
    small = (
        product.element_bytes == 2
        and product.operands[1] <= product.chip.l2_bytes // STREAMED_PART // 2
    )
    return block_n % product.columns == 0 or (small and block_n < product.columns)
