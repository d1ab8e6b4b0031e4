"""Trees of values: tuples in tuples, whose leaves are arrays, tensors or what stands for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast


def leaves_of(tree: Any) -> Iterator[Any]:
    """The leaves of a tree, in order."""
    if isinstance(tree, tuple):
        for item in cast("tuple[Any, ...]", tree):
            yield from leaves_of(item)
    else:
        yield tree


def filled(tree: Any, leaves: Iterator[Any]) -> Any:
    """A tree with other leaves, which are taken in order."""
    if isinstance(tree, tuple):
        return tuple(filled(item, leaves) for item in cast("tuple[Any, ...]", tree))
    return next(leaves)
