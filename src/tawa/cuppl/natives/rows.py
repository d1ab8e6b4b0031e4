"""Words around the stacks of a group of eight particles, and what is done to them as vectors.

`cpu/group_text.py` defines these.
"""

from __future__ import annotations

from tawa.cuppl.numeric.philox import GROUP
from tawa.cuppl.numeric.primitives import Context
from tawa.cuppl.translation.native import external

ALL = (1 << GROUP) - 1
ROWS = -2 * GROUP  # words from the stacks: addresses of rows,
WEIGHTS = -GROUP  # weights,
TOP_OUT = -3 * GROUP  # and the top of the stacks in the end, in words of all lanes


@external
def gather_block(ctx: Context, rows: int, stacks: int, block: int) -> None:
    """Put a block of eight rows' words side by side: `block` bytes from the start of each."""
    raise NotImplementedError


@external
def scatter_block(ctx: Context, rows: int, stacks: int, block: int) -> None:
    """Put a block of words that lie side by side into eight rows."""
    raise NotImplementedError


@external
def expect_rows(ctx: Context, numbers: int, rows: int, width: int) -> None:
    """Say that eight rows, whose numbers are given, will be read soon."""
    raise NotImplementedError


@external
def own_rows(ctx: Context, stacks: int, start: int, width: int) -> None:
    """Note the rows of eight particles that follow each other, of so many bytes."""
    raise NotImplementedError


@external
def parents_rows(ctx: Context, stacks: int, parents: int, start: int, width: int) -> None:
    """Note the rows of eight particles' parents, whose numbers are at an address."""
    raise NotImplementedError


@external
def ready_lanes(ctx: Context, stacks: int, start: int, top: int) -> int:
    """A bit for each particle that waits for this step and has a stack of that height."""
    raise NotImplementedError


@external
def settle_lanes(
    ctx: Context, stacks: int, ready: int, header: int, top: int, following: int
) -> int:
    """The first two words of particles that ran; returns a bit for each that is done."""
    raise NotImplementedError


@external
def going_lanes(ctx: Context, stacks: int, done: int) -> int:
    """How many of some particles are to go on."""
    raise NotImplementedError
