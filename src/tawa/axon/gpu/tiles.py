"""The tiles of products: which ones are compiled, and which one a launch takes by its sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tawa.axon.gpu.kernels import Variant, cdiv
from tawa.machine.chips import DEFAULT, Chip

TWO_GROUPS_AREA = 128 * 256
"""Accumulators of two consumer warp groups' usual tile; only the largest have more."""

STAGED_AREA = 128 * 128
"""Accumulators of tiles whose slots leave room in shared memory for a tile of another operand."""


def _tiles(
    accumulators: int, *blocks: tuple[int, int, dict[str, Any]], depth: int = 64
) -> tuple[Variant, ...]:
    return tuple(
        Variant(
            f"{rows}x{columns}",
            {"BR": rows, "BC": columns, "BK": depth, "GROUP": 8, "STAGED": int(small)},
            options,
        )
        for rows, columns, options in blocks
        for small in (rows * columns * accumulators <= STAGED_AREA and depth == 64,)
    )


TOGETHER = {"persistent": True, "consumers": 2}
TURNS = {"persistent": True, "ping_pong": True}

HALF_TILES = {
    1: _tiles(
        1, (256, 192, TOGETHER | {"num_stages": 3}), (128, 256, TOGETHER),
        (128, 128, TURNS | {"num_stages": 5}), (128, 64, {}), (64, 64, {}),
    ),
    2: _tiles(2, (256, 64, TOGETHER), (128, 64, TOGETHER), (64, 32, {})),
    3: _tiles(3, (128, 64, TURNS | {"num_stages": 5, "staging": 1}), (64, 64, {}), (64, 32, {})),
    4: _tiles(4, (128, 64, TOGETHER), (64, 64, {}), (64, 32, {}), (64, 16, {})),
}  # fmt: skip
"""Tiles of 16-bit products by number of accumulators, largest first."""

READING_TILES = HALF_TILES | {
    1: _tiles(1, (128, 160, TOGETHER), (128, 128, TOGETHER), (128, 64, {}), (64, 64, {})),
    3: _tiles(3, (128, 64, TOGETHER), (64, 64, {}), (64, 32, {})),
}  # fmt: skip
"""Those where what follows the products reads whole tiles too, which takes registers."""

WRITING_TILES = HALF_TILES | {
    1: _tiles(
        1, (128, 192, TOGETHER), (128, 128, TURNS | {"num_stages": 5}), (128, 64, {}), (64, 64, {}),
    ),
}  # fmt: skip
"""Those where several tensors are written: their tiles take room that slots would have."""

FULL_TILES = {
    1: _tiles(1, (128, 128, {}), (64, 64, {}), depth=32),
    2: _tiles(2, (128, 64, {}), (64, 32, {}), depth=32),
    3: _tiles(3, (64, 32, {}), depth=32),
    4: _tiles(4, (64, 32, {}), depth=32),
}
"""Tiles of products of f32."""

POINTER_TILES = {
    count: _tiles(count, (64, 64 if count < 3 else 32, {}), depth=32) for count in range(1, 5)
}
"""Tiles of products whose operands are loaded by pointers."""


@dataclass(frozen=True)
class Loop:
    """A loop over K: its length, products, and how many left and right operands they have."""

    k: int
    products: int
    left: int
    right: int


@dataclass(frozen=True)
class Work:
    """Products of one size: rows, columns, matrices of a stack, accumulators, bytes a number.

    `read` and `written` count tensors of their size that what follows them reads and writes;
    `staged` are those of the read ones that the copy engine takes.
    """

    rows: int
    columns: int
    stack: int
    accumulators: int
    size: int
    loops: tuple[Loop, ...]
    read: int
    staged: int
    written: int
    chip: Chip = DEFAULT

    def programs(self, variant: Variant) -> int:
        """Tiles of one matrix of a stack."""
        rows, columns = variant.constants["BR"], variant.constants["BC"]
        return cdiv(self.rows, rows) * cdiv(self.columns, columns)

    def best(self, variants: Sequence[Variant]) -> int:
        """The variant with the least estimated time."""
        costs = [self.clocks(variant) for variant in variants]
        return costs.index(min(costs))

    def clocks(self, variant: Variant) -> float:
        """Estimated clocks of a launch: matrix instructions or loads, whichever take longer."""
        rows, columns, depth = (variant.constants[name] for name in ("BR", "BC", "BK"))
        tiles = self.programs(variant) * max(1, self.stack)
        chip, terms = self.chip, self.chip.fused_products
        active = min(tiles, chip.multiprocessors)
        from_l2 = terms.copies * chip.l2_shared_gbs / chip.clock_ghz / active
        taken_in = terms.taken_in * chip.ingest_bytes
        bandwidth = min(taken_in, from_l2)
        large = rows * columns * self.accumulators > TWO_GROUPS_AREA
        two = terms.largest if large else terms.two_groups
        reached = terms.one_group if rows <= chip.mma_m else two
        rate = chip.tensor_flops / 2 * reached * 2 / self.size
        clocks = 0.0
        for loop in self.loops:
            loads = (loop.left * rows + loop.right * columns) * depth * self.size / bandwidth
            products = loop.products * rows * columns * depth / rate
            clocks += cdiv(loop.k, depth) * max(loads, products)
        staged = self.staged if variant.constants["STAGED"] else 0
        moved = self.written + staged + terms.scattered * (self.read - staged)
        around = terms.tile_clocks + moved * rows * columns * self.size / taken_in
        if variant.options.get("ping_pong") and tiles > chip.multiprocessors:
            around /= 2  # one consumer multiplies while the other is at it
        return cdiv(tiles, chip.multiprocessors) * (clocks + around)
