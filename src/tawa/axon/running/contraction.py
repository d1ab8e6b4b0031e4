"""What `einsum` and `rearrange` compute: split axes, contract, join axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tawa.axon.running.registry import Array, operator
from tawa.axon.sizes.patterns import Pattern

Axes = tuple[int, ...]


def axes_of(
    pattern: Pattern, shapes: list[tuple[int, ...]], statics: dict[str, Any]
) -> tuple[list[tuple[int, ...]], tuple[int, ...], tuple[Axes, ...], Axes]:
    """The shapes that inputs are split into, the final one, and the contraction in between.

    Every axis of the contraction is a number. Raises ValueError if the inputs don't fit.
    """
    sizes: dict[str, int] = {n: v for n, v in statics.items() if isinstance(v, int)}
    ranks: dict[str, int] = {}
    split = [
        _split_axes(groups, shape, sizes, ranks)
        for groups, shape in zip(pattern.inputs, shapes, strict=True)
    ]
    ids = {name: number for number, name in enumerate(dict.fromkeys(
        name for _, names in split for name in names))}  # fmt: skip
    output = [name for group in pattern.output for name in _axes(group, ranks)]
    kept = tuple(ids[name] for name in output if not name.isdigit())
    inputs = tuple(tuple(ids[name] for name in names) for _, names in split)
    return [shape for shape, _ in split], _final(pattern, sizes, ranks), inputs, kept


def _final(pattern: Pattern, sizes: dict[str, int], ranks: dict[str, int]) -> tuple[int, ...]:
    """The shape of the result."""
    final: list[int] = []
    for group in pattern.output:
        members = _axes(group, ranks)
        if len(group) == 1 and group[0].startswith(".."):
            final.extend(sizes[name] for name in members)
            continue
        final.append(math.prod(int(n) if n.isdigit() else sizes[n] for n in members))
    return tuple(final)


@operator("contract")
def contract(*arrays: Array, inputs: tuple[Axes, ...], output: Axes) -> Array:
    """Products of all arrays, summed over the axes that the output doesn't have."""
    operands = [part for pair in zip(arrays, inputs, strict=True) for part in pair]
    return np.einsum(*operands, output, optimize=True).astype(arrays[0].dtype)


@operator("pattern")
def patterned(*arrays: Array, pattern: Pattern, sizes: dict[str, Any]) -> Array:
    """Split the inputs' axes as a pattern says, sum over what is not in the output, and join."""
    split, final, inputs, output = axes_of(pattern, [a.shape for a in arrays], sizes)
    operands = [array.reshape(shape) for array, shape in zip(arrays, split, strict=True)]
    return contract(*operands, inputs=inputs, output=output).reshape(final)


def _axes(group: tuple[str, ...], ranks: dict[str, int]) -> list[str]:
    """The names of single axes: `..b` of rank 2 is `..b0` and `..b1`."""
    found: list[str] = []
    for name in group:
        if name.startswith(".."):
            found.extend(f"{name}{i}" for i in range(ranks[name]))
        else:
            found.append(name)
    return found


def _split_axes(
    groups: tuple[tuple[str, ...], ...], of: tuple[int, ...], sizes: dict[str, int],
    ranks: dict[str, int],
) -> tuple[tuple[int, ...], list[str]]:  # fmt: skip
    """The shape of an input with each axis of the pattern apart, and their names."""
    spreads = [g[0] for g in groups if len(g) == 1 and g[0].startswith("..")]
    if len(spreads) == 1:
        ranks.setdefault(spreads[0], len(of) - len(groups) + 1)
    names: list[str] = []
    shape: list[int] = []
    axis = 0
    for group in groups:
        members = _axes(group, ranks)
        single = len(group) == 1
        for member in members if single else [""]:
            size = of[axis]
            axis += 1
            inner = [member] if single else members
            known = [int(n) if n.isdigit() else sizes.get(n) for n in inner]
            product = int(np.prod([k for k in known if k is not None]))
            for name, value in zip(inner, known, strict=True):
                sizes[name] = value if value is not None else size // product
            if int(np.prod([sizes[name] for name in inner])) != size:
                raise ValueError(f"an axis of {size} doesn't fit `{' '.join(inner)}`")
            kept = [name for name in inner if not name.isdigit()]
            names.extend(kept)
            shape.extend(sizes[name] for name in kept)
    if axis != len(of):
        raise ValueError(f"{len(of)} axes where the pattern has {axis}")
    return tuple(shape), names
