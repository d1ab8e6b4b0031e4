"""The launch options of a kernel: the only knobs that compiling reads, part of the cache key."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """What a launch may pin; `None` leaves the choice to the compiler.

    A pinned request that cannot be met is an error with the numbers, never a silent fallback.
    """

    target: str = "sm_90a"
    num_warps: int = 4
    """Warps of a kernel that is not specialised (Triton's meaning)."""
    num_stages: int | None = None
    """D: slots of each ring of asynchronous references in a loop."""
    mma_depth: int | None = None
    """P: matrix instructions of earlier iterations left in flight."""
    consumers: int | None = None
    """Consumer warp groups (1 to 3)."""
    ping_pong: bool | None = None
    """Consumers take turns on tiles instead of sharing each tile."""
    specialize: bool | None = None
    """`True`: producer and consumer warp groups, or an error saying why not. `False`: one role."""
    persistent: bool | None = None
    """Wrap a plain grid into a loop over its programs, one CTA per multiprocessor."""
    cluster: int = 1
    """CTAs of a cluster, consecutive programs; loads they agree on are multicast."""
    staging: int | None = None
    """Buffers of 64 columns each consumer has to stage descriptor stores in."""
    overlap: bool | None = None
    """`False` keeps the order of loops whose products feed ordinary code (no modulo schedule)."""
    stream_stores: bool = False
    """Give written lines back to memory first (L2 evict-first): for outputs larger than the L2."""
