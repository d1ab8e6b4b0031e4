"""The table of memoised calls: a persistent search tree by hash, shared between particles.

A node is header, left, right, hash, payload. Inserting copies the path from the root, so a
particle that was copied by resampling never sees what its siblings insert.
"""

from __future__ import annotations

from tawa.cuppl.numeric.addresses import address_of, int_of
from tawa.cuppl.numeric.primitives import Context, Ints, new_object
from tawa.cuppl.translation.native import native

__all__ = ["NODE_HEADER", "memo_find", "memo_insert"]

NODE_HEADER = 1 << 20


@native
def memo_find(root: Ints, key: int) -> Ints:
    """The payload stored under a hash, or 0."""
    node = root
    while int_of(node) != 0:
        if node[3] == key:
            return address_of(node[4])
        if key < node[3]:
            node = address_of(node[1])
        else:
            node = address_of(node[2])
    return node


@native
def memo_insert(ctx: Context, root: Ints, key: int, payload: Ints) -> Ints:
    """The root of a tree that also holds `payload`, or holds it instead of what was there."""
    top = new_object(ctx, NODE_HEADER, 5)
    new = top
    old = root
    searching = int_of(old) != 0
    while searching:
        new[1] = old[1]
        new[2] = old[2]
        new[3] = old[3]
        new[4] = old[4]
        if key == old[3]:
            new[4] = int_of(payload)
            return top
        child = new_object(ctx, NODE_HEADER, 5)
        side = 1 if key < old[3] else 2
        new[side] = int_of(child)
        old = address_of(old[side])
        new = child
        searching = int_of(old) != 0
    new[1] = 0
    new[2] = 0
    new[3] = key
    new[4] = int_of(payload)
    return top
