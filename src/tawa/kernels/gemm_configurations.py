"""Tiles and launch options of the library's GEMM, and which of them suit a product.

`configuration` takes the one that `Configuration.microseconds` says is fastest. That is a model of
a few terms: what each multiprocessor multiplies, what all of them load from L2 and from device
memory, what a tile costs before and after its products, and what a second pass costs where K is
split. Its constants are fitted to timings on an H100 (docs/performance-log.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from tawa import cdiv

MULTIPROCESSORS = 132
"""Of an H100 SXM: persistent kernels run one CTA on each."""

L2_BYTES = 50 * 2**20
STREAMED_K_BYTES = 1024
"""Bytes of a row of A up to which writing C is what takes the time."""

LINE = 128
"""Bytes of a row that one box, one swizzled row of shared memory and one line of L2 hold."""

CLOCK = 1.75e3
"""Cycles of a microsecond."""
LAUNCH = 5.0
"""Microseconds of a kernel outside its loops, events around it included."""
SECOND_PASS = 2.5
"""Microseconds more where a second kernel adds the parts up."""
STARTED = 2700.0
"""Cycles until a tile's first products are done, where no tile before it hides them."""
STORED = 0.04
"""Cycles for each element of a tile that is stored, where no other tile's products hide them."""
LEAST, EACH = 90.0, 130.0
"""Cycles of a turn, however small its tile is: a wait and an issue; latency of each line of K."""
L2_RATE = 7400.0
"""Bytes a cycle that L2 gives all multiprocessors."""
MISALIGNED = 2.0
"""Lines that a row of a tile touches if rows do not start with one."""
TRANSPOSED = 28.0
"""Bytes a cycle that a role transposes, which adds to the time of the products beside it."""
WIDTH = 4.0
"""Columns more that an instruction would multiply in the time it takes beside its own columns."""
MEMORY = 2.5e6
"""Bytes a microsecond of device memory."""
ENERGY = 1.0
"""Part by which a line loaded for every product of two elements would lengthen all: moving bytes
takes power, which costs clock at the card's limit."""
SHARPNESS = 2.3
"""How nearly the longer of a kernel's own time and its memory's is the time of both (a norm)."""


@dataclass(frozen=True)
class Product:
    """An m x n x k product, or a batch of them, and how the matrices lie.

    `columns` is what a tile's columns must be a multiple of (64 bytes if B lies as [K, N]).
    `aligned` says of A and of B whether their rows in memory start with a line of 128 bytes,
    `transposed` whether they have to be transposed on the way: those across K, but of 16 bits.
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

    @property
    def memory(self) -> float:
        """Microseconds to read the operands and to write the result."""
        operands = (self.m + self.n) * self.k * self.element_bytes
        return self.batch * (operands + self.m * self.n * self.output_bytes) / MEMORY


@dataclass(frozen=True)
class Configuration:
    """A tile (`block_k` counts elements), the width of program groups, and launch options.

    With `split` > 1 as many programs share a tile, each with a part of K; a second kernel adds
    their results up.
    """

    block_m: int
    block_n: int
    block_k: int
    group_m: int = 8
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    split: int = 1

    def tiles(self, m: int, n: int) -> int:
        """Tiles of an m x n result."""
        return cdiv(m, self.block_m) * cdiv(n, self.block_n)

    def microseconds(self, product: Product) -> float:
        """About how long the product takes on an H100."""
        m, n, k = product.m, product.n, product.k
        programs = self.tiles(m, n) * self.split * product.batch
        waves = cdiv(programs, MULTIPROCESSORS)
        steps = cdiv(cdiv(k, self.block_k), self.split)
        main = steps * self._turn(product, min(programs, MULTIPROCESSORS))
        stored = self.block_m * self.block_n * STORED
        if not self.options.get("persistent"):
            cycles = waves * (STARTED + main + stored)
        elif self.options.get("ping_pong"):
            cycles = STARTED + waves * main + stored
        else:
            cycles = STARTED + waves * (main + stored)
        moved = 1 / self.block_m + 1 / self.block_n
        own, memory = cycles / CLOCK * (1 + ENERGY * moved), product.memory
        time = LAUNCH + (own**SHARPNESS + memory**SHARPNESS) ** (1 / SHARPNESS)
        if self.split == 1:
            return time
        return time + SECOND_PASS + (2 * self.split + 1) * product.batch * m * n * 4 / MEMORY

    def _turn(self, product: Product, active: int) -> float:
        """Cycles of a turn of the loop while so many multiprocessors are at work."""
        lines = self.block_k * product.element_bytes / LINE
        products = self.block_m * (self.block_n + WIDTH) * lines / 32
        a, b = product.transposed
        products += (a * self.block_m + b * self.block_n) * lines * LINE / TRANSPOSED
        a, b = (1.0 if aligned else MISALIGNED for aligned in product.aligned)
        loads = a * self.block_m + b * self.block_n / self.options.get("cluster", 1)
        return max(products, loads * lines * LINE * active / L2_RATE, LEAST + EACH * lines)


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
        _cooperative(128, 256, k, cluster=2),
        _cooperative(256, 192, k, num_stages=3, cluster=2),
        _ping_pong(128, k),
        *small_configurations(element_bytes),
    ]


def small_configurations(element_bytes: int = 2) -> list[Configuration]:
    """Tiles for results too small to give every multiprocessor a large one, largest first."""
    k = LINE // element_bytes
    blocks = (128, 128), (64, 256), (64, 128), (128, 64), (64, 64), (64, 32)
    return [Configuration(*block, 2 * k if block == (64, 64) else k) for block in blocks]


def splits(product: Product) -> Iterator[Configuration]:
    """Configurations that share tiles' K, where there are few tiles."""
    for config in small_configurations(product.element_bytes):
        tiles = config.tiles(product.m, product.n) * product.batch
        steps = cdiv(product.k, config.block_k)
        for count in (2, 3, 4, 5, 6, 8, 11, 16, 22, 33, 66):
            if tiles * count <= MULTIPROCESSORS and steps >= 4 * count:
                # As many parts as have something to do when each takes as many turns.
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
    return _fastest(Product(*sizes, aligned, transposed, batch))


@lru_cache(maxsize=4096)
def _fastest(product: Product) -> Configuration:
    found = [*configurations(product.element_bytes), *splits(product)]
    row = product.k * product.element_bytes
    shallow, deep = found[:2]
    found.remove(deep if row <= STREAMED_K_BYTES // 2 else shallow)
    fits = [c for c in found if c.block_n % product.columns == 0]
    if all(product.aligned):  # then L2 serves neighbours that ask for the same as it does a cluster
        fits = [c for c in fits if "cluster" not in c.options]
    if any(product.transposed):  # tiles lie in shared memory twice: so many slots need not fit
        fits = [c for c in fits if "num_stages" not in c.options]
    best = min(fits, key=lambda c: c.microseconds(product))
    if (best.block_m, best.block_n) != (shallow.block_m, shallow.block_n):
        return best
    output = product.batch * product.m * product.n * product.output_bytes
    streamed = row <= STREAMED_K_BYTES and output > L2_BYTES
    return replace(best, options={**best.options, "stream_stores": streamed})
