"""Multicast at the aref level: both CTAs of a cluster copy a half of a tile into both their slots.

A put that is shared writes into the other CTA's slot as well, so that slot must have been returned
by *its* consumers: each of them tells both CTAs. A slot is full once its own put is published and
both halves of every shared tile have come, in whatever order.
"""

from __future__ import annotations

import numpy as np

from tawa.base.numerics import Array
from tawa.simulate.interpret import errors
from tawa.simulate.interpret.aref_actor import ArefActor, Ring, Slot, Token

RANKS = 2
"""CTAs of a cluster."""


def multicast(actor: ArefActor, token: Token, index: int, tile: Array) -> None:
    """Copy this CTA's half of a tile's rows into the slots of both CTAs."""
    ring = token.ring
    assert ring.peer is not None
    rows = tile.shape[-2] // RANKS
    half = tile[..., ring.rank * rows : (ring.rank + 1) * rows, :]
    for target in (ring, ring.peer):
        slot = target.slots[token.use % len(target.slots)]
        if slot.freed < token.generation * target.consumers:
            actor.fail(
                errors.OverwriteWhileBorrowed,
                f"{target.place(token.use)} of CTA {target.rank} is written by multicast while "
                "its consumers hold it",
                expected=f"{token.generation * target.consumers} returns in CTA {target.rank}",
                found=f"{slot.freed}",
                hint="a slot that was shared is returned to both CTAs (`consumed ... shared`)",
            )
        parts = slot.parts.setdefault((token.generation, index), {})
        parts[ring.rank] = half
        settle(actor, target, slot, token.generation)


def publish(actor: ArefActor, token: Token) -> None:
    """A put is complete on this CTA's side."""
    token.slot.shared[token.generation] = frozenset(token.shared)
    settle(actor, token.ring, token.slot, token.generation)


def settle(actor: ArefActor, ring: Ring, slot: Slot, generation: int) -> None:
    """The slot becomes full if its put is published and all parts of shared tiles have come."""
    shared = slot.shared.get(generation)
    if shared is None:
        return
    for index in [i for t, i in slot.parts if t == generation and i not in shared]:
        (rank,) = slot.parts[generation, index]
        actor.fail(
            errors.WrongByteCount,
            f"CTA {rank} multicasts a part of tile {index} into CTA {ring.rank}, which loads it "
            "alone",
            expected="both CTAs to agree on what they share",
            found=f"a copy by CTA {rank} alone",
            hint="compute the flag `shared` from what both CTAs know",
        )
    if all(len(slot.parts.get((generation, i), {})) == RANKS for i in shared):
        for index in shared:
            parts = slot.parts.pop((generation, index))
            slot.tiles[index] = np.concatenate([parts[r] for r in range(RANKS)], axis=-2)
        del slot.shared[generation]
        slot.filled += 1


def give_back(token: Token, shared: bool) -> None:
    """A consumer returns a slot: to the other CTA too if they share it, else to its own twice."""
    ring, slot = token.ring, token.slot
    slot.freed += 1
    slot.returned += 1
    if ring.peer is not None:
        other = ring.peer if shared else ring
        other.slots[token.use % len(other.slots)].returned += 1
    if slot.freed == (token.generation + 1) * ring.consumers:
        slot.tiles = [None] * len(slot.tiles)
