"""A mapping changes speed, never results: random mappings of every program, bit for bit."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import task_programs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from task_programs import NAMES, case

from tawa.base.errors import TawaError
from tawa.tasks import Instance, Mapping
from tawa.tasks.language.errors import BadPartition, TensorNotMapped, UnmetNone
from tawa.tasks.language.task import Variant
from tawa.tasks.search import filled

ILLEGAL = BadPartition, TensorNotMapped, UnmetNone
"""What a random mapping may ask for that can't be: boxes that do not fit, tiles that are not there."""

MODULES = [m for m in vars(task_programs).values() if isinstance(m, ModuleType)]

drawn: Counter[str] = Counter()
"""How many mappings of each program were legal, and not."""


@pytest.fixture(scope="module", autouse=True)
def enough() -> Iterator[None]:
    yield
    for name in NAMES:
        assert drawn[name] or drawn[f"{name}: illegal"] == 0, drawn


def own_names(name: str, names: list[str]) -> list[str]:
    """Of names, those that a variant's text has."""
    variants = (v for module in MODULES for v in vars(module).values() if isinstance(v, Variant))
    text = next(v.function.source.text for v in variants if v.name == name)
    return [n for n in names if re.search(rf"\b{n}\b", text)]


@st.composite
def mapped(draw: Any, name: str, odd: bool) -> Mapping:
    """A mapping of a program: tunables, memories of all levels, order of blocks, slots."""
    found = case(name, odd=odd)
    program = found.task.compile(*found.outputs, *found.inputs)
    records: list[Instance] = []
    for record in filled(program.program, program.mapping).instances.values():
        tunables = {n: draw(st.sampled_from([32, 64, 128, 128])) for n in record.tunables}
        if name == "tree_sum":
            tunables = {n: 16 * v for n, v in tunables.items()}
        on_block = record.processor == "block"
        leaf = bool(record.memories)
        places = ["register", "shared"] if leaf and on_block else ["global", "none"]
        tensors = record.memories or own_names(record.name, "acc total a b c x y q k o".split())
        memories = {n: draw(st.sampled_from(places)) for n in tensors if draw(st.booleans())}
        if not leaf and on_block:
            for own in own_names(record.name, ["acc", "total", "highest"]):
                memories[own] = draw(st.sampled_from(["register", "shared"]))
        records.append(
            replace(
                record,
                tunables=tunables,
                memories=memories,
                tile_order=draw(st.sampled_from([None, 1, 3])),
                pipeline=None,
            )
        )
    return Mapping(*records)


@settings(max_examples=3, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data(), odd=st.booleans())
@pytest.mark.parametrize("name", NAMES)
def test_results_do_not_change(name: str, data: Any, odd: bool):
    mapping = data.draw(mapped(name, odd))
    found = case(name, odd=odd)
    one, other = ([np.full_like(out, np.nan) for out in found.outputs] for _ in range(2))
    try:
        program = found.task.compile(*other, *found.inputs, mapping=mapping)
    except ILLEGAL:
        drawn[f"{name}: illegal"] += 1
        return
    drawn[name] += 1
    program.simulate((*other, *found.inputs))
    try:
        found.task.interpret(*one, *found.inputs, mapping=mapping)
    except TawaError as error:  # what is legal when compiled is legal by itself
        raise AssertionError(mapping.text()) from error
    for result, expected in zip(other, one, strict=True):
        assert np.array_equal(result, expected), mapping.text()
