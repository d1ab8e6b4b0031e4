"""Where intermediate tensors lie: one block of memory, places reused after the last reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tawa.axon.gpu.graph.fusion import Group
from tawa.axon.gpu.graph.lower import Program
from tawa.axon.gpu.graph.nodes import Node

ALIGNMENT = 256
"""Bytes that places are multiples of."""


@dataclass(frozen=True)
class Memory:
    """Places in bytes of intermediate tensors, the block's size, and the tensors returned."""

    offsets: dict[Node, int]
    size: int
    outputs: list[Node]
    total: int
    """Bytes of all intermediate tensors: what they would take without reuse."""


def memory_of(
    program: Program, groups: Sequence[Group], placed: dict[Node, tuple[Node, tuple[int, ...], int]]
) -> Memory:
    """Place every tensor that is written, first fit, in the order of the groups."""
    outputs = list(dict.fromkeys(node.base for node in program.results))
    born: dict[Node, int] = {}
    dies: dict[Node, int] = {}
    for time, group in enumerate(groups):
        for node in group.outputs:
            born.setdefault(placed[node][0] if node in placed else node, time)
        for node in group.members:
            for operand in node.inputs:
                dies[operand.base] = time
    offsets: dict[Node, int] = {}
    size = total = 0
    live: list[tuple[int, int, int]] = []
    for node, time in sorted(born.items(), key=lambda item: item[1]):
        if node in outputs:
            continue
        live = [place for place in live if place[2] >= time]
        need = -(-node.bytes // ALIGNMENT) * ALIGNMENT
        start = _first_fit(live, need)
        live.append((start, need, dies.get(node, time)))
        offsets[node] = start
        size, total = max(size, start + need), total + need
    return Memory(offsets, size, outputs, total)


def _first_fit(live: list[tuple[int, int, int]], need: int) -> int:
    """The first gap of `need` bytes between places in use."""
    at = 0
    for start, length, _ in sorted(live):
        if start - at >= need:
            break
        at = max(at, start + length)
    return at
