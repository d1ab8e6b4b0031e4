"""Tiles cut as a matrix instruction takes them, for the warp groups or warps that share them."""

from __future__ import annotations

from tawa.base.options import Options
from tawa.base.user_frames import entry, users_place
from tawa.tasks.language.errors import BadPartition
from tawa.tasks.language.mapping import WARPS
from tawa.tasks.language.running import runner_of
from tawa.tasks.language.sizes import plain
from tawa.tasks.language.tensors import (
    Partition,
    Tensor,
    as_sizes,
    partition_by_blocks,
    require_tensor,
)

MACHINE = Options().machine
"""The chip of which figures are read."""

ROWS = MACHINE.mma_m
"""Rows of a warp group's matrix instruction; each of its warps has a quarter."""
DEPTH = MACHINE.mma_k_bytes
"""Bytes of each operand's elements along the depth."""


@entry
def partition_by_mma(
    tensor: Tensor, instruction: tuple[int, int, int], operand: str, processor: str = "warp_group"
) -> Partition:
    """Cut a tile as a matrix instruction takes it: (rows, columns, depth), such as (64, 256, 16).

    `operand` is "A", "B" or "C" (the accumulator). Boxes have 64 rows of C and A for a warp group,
    16 for a warp, the instruction's columns of C and B, and all of the depth. The cut promises that
    this instruction makes the products of what is launched. A compiled kernel in which it does not
    is an error (`LayoutUnmet`). Raises `BadPartition`.
    """
    place = users_place()
    require_tensor(tensor, "partition_by_mma")
    if len(as_sizes(instruction, "partition_by_mma")) != len("mnk"):
        raise BadPartition(
            f"a matrix instruction is named by {len(instruction)} sizes",
            span=place,
            expected="(rows, columns, depth), such as (64, 256, 16)",
            found=f"{instruction}",
        )
    m, n, k = instruction
    rows = {"warp_group": ROWS, "warp": ROWS // WARPS}.get(processor)
    depths = [DEPTH // size for size in (1, 2, 4)]
    if (
        m != ROWS
        or n % MACHINE.mma_n_step
        or not 8 <= n <= MACHINE.mma_max_n
        or k not in depths
        or rows is None
    ):
        raise BadPartition(
            f"no {processor} has a matrix instruction {m} x {n} x {k}",
            span=place,
            expected=f"({ROWS}, n, k) for a warp_group or a warp, n a multiple of 8 up to 256, and "
            f"a depth k of {DEPTH} bytes of elements",
            found=f"{instruction} for {processor!r}",
        )
    if operand not in ("A", "B", "C") or len(tensor.shape) != 2:
        raise BadPartition(
            f"{tensor} is cut as operand {operand!r}",
            span=place,
            expected="a matrix, as operand 'A', 'B' or 'C'",
            found=f"{len(tensor.shape)} dimensions, {operand!r}",
        )
    wanted = {"A": (rows, None), "B": (None, n), "C": (rows, n)}[operand]
    block = tuple(
        extent if size is None else size for size, extent in zip(wanted, tensor.shape, strict=True)
    )
    for size, extent in zip(wanted, tensor.shape, strict=True):
        if size is not None and extent % size != 0:
            raise BadPartition(
                f"operand {operand} of {m} x {n} x {k} does not fit {tensor}",
                span=place,
                expected=f"whole boxes of {plain(block[0])} x {plain(block[1])}",
                found=f"{plain(tensor.shape[0])} x {plain(tensor.shape[1])}",
                hint="choose tunables that are multiples of the instruction's sizes",
            )
    runner_of("partition_by_mma").require((m, n, k), place)
    return partition_by_blocks(tensor, block)
