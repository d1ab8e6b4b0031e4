"""Every definition of every Axon example runs on arrays of the type that was inferred for it.

What their numbers should be is tested in `tests/axon/test_models.py`, against NumPy.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tawa import axon

FOLDER = Path(__file__).parents[2] / "examples" / "axon"

SIZE, STATIC = 4, 2
"""What a size and a static parameter are, unless a condition asks for something else."""

SIZES: dict[str, dict[str, int]] = {
    "probes.join_at": {"axis": 0},
    "vision.patches": {"n": 5},
    "wavenet.causal": {"dilation": 1, "k": 2},
    "wavenet.layer": {"dilation": 1, "k": 2, "k1": 1},
    "wavenet.stack": {"k": 2, "k1": 2, "k2": 1, "k3": 2},
}
TAKE_FUNCTIONS = {"decode.last_logits", "decode.step", "decode.decode"}
"""Definitions that take a model: `decode.generate` hands them one."""

RANKS = {"..before"}
"""Shape variables that stand for one size (`probes.total` sums the axis after it)."""

MODULES = {path.stem: axon.load(path) for path in sorted(FOLDER.glob("*.ax"))}
DEFINITIONS = [(file, name) for file, module in MODULES.items() for name, _ in module.items()]


def parts(text: str, separator: str) -> list[str]:
    """A text cut at a separator that stands outside of brackets."""
    found, depth, begin, index = [], 0, 0, 0
    while index < len(text):
        depth += (text[index] in "([{") - (text[index] in ")]}")
        if depth == 0 and text.startswith(separator, index):
            found.append(text[begin:index])
            index += len(separator)
            begin = index
            continue
        index += 1
    return [part.strip() for part in [*found, text[begin:]]]


def value(kind: str, sizes: dict[str, int]) -> Any:
    """An array of a type, or a tuple of them; shape variables stand for no sizes but in `RANKS`."""
    if kind.startswith("("):
        return tuple(value(part, sizes) for part in parts(kind[1:-1], ","))
    element, _, shape = kind[:-1].partition("[")
    dims = [dim for dim in parts(shape, ",") if dim and (dim in RANKS or dim[:2] != "..")]
    names = set(re.findall(r"[a-z]\w*", " ".join(dims)))
    known = {name: sizes.get(name, SIZE) for name in names}
    numbers = tuple(SIZE if dim in RANKS else int(eval(dim, {}, known)) for dim in dims)
    if element.startswith("i"):
        return np.zeros(numbers, element.replace("i", "int"))
    return np.random.default_rng(0).uniform(0.5, 1, numbers).astype(np.float32)


def leaves(result: Any) -> list[Any]:
    """The arrays of nested tuples."""
    if isinstance(result, tuple):
        return [leaf for part in result for leaf in leaves(part)]
    return [np.asarray(result)]


@pytest.mark.parametrize(("file", "name"), DEFINITIONS, ids=lambda part: part)
def test_a_definition_runs(file: str, name: str):
    where = f"{file}.{name}"
    function = MODULES[file][name]
    static, _, text = f"{function.type}".rpartition("} ")
    kinds = parts(text.partition(" where ")[0], " -> ")[:-1]
    if any("->" in kind for kind in kinds):
        assert where in TAKE_FUNCTIONS
        return
    chosen = SIZES.get(where, {})
    given = {name: chosen.get(name, STATIC) for name in re.findall(r"\w+", static)}
    result = function(*(value(kind, {**given, **chosen}) for kind in kinds), **given)
    assert all(np.isfinite(leaf).all() for leaf in leaves(result))
