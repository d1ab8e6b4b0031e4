"""What `einsum` and `rearrange` compute: split axes, contract, join axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tawa.axon.sizes.patterns import Pattern, parse_pattern


def patterned(text: str, statics: dict[str, Any]) -> Any:
    """An `einsum` or `rearrange` as a function of its inputs."""
    pattern = parse_pattern(text)

    def collect(given: tuple[Any, ...]) -> Any:
        if len(given) == len(pattern.inputs):
            return contract(pattern, list(given), statics)

        def more(argument: Any) -> Any:
            return collect((*given, argument))

        return more

    return collect(())


def contract(pattern: Pattern, arrays: list[Any], statics: dict[str, Any]) -> Any:
    """Split the inputs' axes as the pattern says, sum over what is not in the output, and join."""
    sizes: dict[str, int] = {n: v for n, v in statics.items() if isinstance(v, int)}
    ranks: dict[str, int] = {}
    split: list[tuple[Any, list[str]]] = []
    for groups, array in zip(pattern.inputs, arrays, strict=True):
        split.append(_split_axes(groups, array, sizes, ranks))
    output = [name for group in pattern.output for name in _axes(group, ranks)]
    ids = {name: number for number, name in enumerate(dict.fromkeys(
        name for _, names in split for name in names))}  # fmt: skip
    operands: list[Any] = []
    for array, names in split:
        operands += [array, [ids[name] for name in names]]
    kept = [name for name in output if not name.isdigit()]
    result = np.einsum(*operands, [ids[name] for name in kept], optimize=True)
    final: list[int] = []
    for group in pattern.output:
        count = 1
        members = _axes(group, ranks)
        if len(group) == 1 and group[0].startswith(".."):
            final.extend(sizes[name] for name in members)
            continue
        for name in members:
            count *= int(name) if name.isdigit() else sizes[name]
        final.append(count)
    return result.reshape(final)


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
    groups: tuple[tuple[str, ...], ...], array: Any, sizes: dict[str, int], ranks: dict[str, int]
) -> tuple[Any, list[str]]:
    spreads = [g[0] for g in groups if len(g) == 1 and g[0].startswith("..")]
    if len(spreads) == 1:
        ranks.setdefault(spreads[0], array.ndim - len(groups) + 1)
    names: list[str] = []
    shape: list[int] = []
    axis = 0
    for group in groups:
        members = _axes(group, ranks)
        single = len(group) == 1
        for member in members if single else [""]:
            size = array.shape[axis]
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
    if axis != array.ndim:
        raise ValueError(f"{array.ndim} axes where the pattern has {axis}")
    return array.reshape(shape), names
