"""Random programs whose accesses meet do at every level what Python and NumPy do.

`scripts/random_programs.py` runs as many as one likes, makes what is wrong smaller, and prints what
they cover.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from comparison import compared, lowered, run_level
from lowering import kernel_in
from memory_programs import RELATIONS, Program, Shape, program

from tawa.codegen import lower

PROGRAMS = 300
EACH = 10
"""Programs of one test."""


@pytest.mark.parametrize("first", range(0, PROGRAMS, EACH))
def test_all_levels_do_what_python_does(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + EACH):
        outcome = compared(program(seed), tmp_path, (seed,))
        assert not outcome.bad, f"seed {seed}: {outcome.verdict} {outcome.where}\n{outcome.text}"


@pytest.mark.parametrize("relation", ["half columns", "shifted", "one"])
def test_rows_that_begin_anywhere_are_stored(relation: str, tmp_path: Path) -> None:
    """Eight halves a row, which one access would store if they began at a multiple of 16 bytes."""
    body = [
        "r, c = tl.arange(0, 32), tl.arange(0, 8)",
        "value = (r[:, None] + c[None, :]).to(tl.float16)",
        "tl.store(y + r[:, None] * wide + c[None, :], value, mask=r[:, None] < height)",
    ]
    shape = Shape(32, 8, 1, 1, (0, 0), 16, relation, "float16")
    stored = Program(0, shape, body, {"num_warps": 1}, 1, (), frozenset())
    assert compared(stored, tmp_path, ptx=True).verdict == "right"


WRITES = {
    "atomic": "tl.atomic_add(x + (64 + r)[:, None] * wide + c[None, :], one)",
    "pointers": "tl.store(x + (64 + r)[:, None] * wide + c[None, :], one)",
    "descriptor": "xd.store([64, 0], one)",
    "in a loop": "for i in range(n):\n    tl.store(x + (64 + r)[:, None] * wide + c[None, :], one)",
}


@pytest.mark.parametrize("name", WRITES)
def test_operands_of_a_product_are_loaded_where_they_stand(name: str, tmp_path: Path) -> None:
    """One of them before a store and one after it, both of what is stored to."""
    body = [
        "r, c = tl.arange(0, 64), tl.arange(0, 16)",
        "zero = tl.zeros((64, 16), tl.float32)",
        "one = (zero + 1.0).to(tl.float16)",
        "before = xw.load([64, 0])",
        *WRITES[name].split("\n"),
        "after = xd.load([64, 0])",
        "product = tl.dot(after, before, zero)",
        "tl.store(o + r[:, None] * 16 + c[None, :], product)",
    ]
    shape = Shape(64, 16, 64, 1, (0, 0), 32, "one", "float16")
    made = Program(3, shape, body, {}, 1, (), frozenset())
    assert compared(made, tmp_path, ptx=True).verdict == "right"


def test_a_seed_is_one_program() -> None:
    assert program(5).source == program(5).source != program(6).source
    assert {program(seed).shape.relation for seed in range(30)} == set(RELATIONS)


STORES_THEN_LOADS = [
    "at = tl.arange(0, 256)",
    "tl.store(x + at, at)",
    "tl.store(o + at, tl.load(x + (255 - at)).to(tl.float32))",
]


def stores_then_loads() -> Program:
    """A program of which each thread loads what another has stored."""
    shape = Shape(8, 32, 8, 1, (0, 0), 32, "apart", "int32")
    return Program(0, shape, STORES_THEN_LOADS, {}, 1, (), frozenset())


def test_a_missing_barrier_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compared(stores_then_loads(), tmp_path).verdict == "right"
    monkeypatch.setattr(lower, "order_accesses", lambda *_: None)
    outcome = compared(stores_then_loads(), tmp_path)
    assert (outcome.verdict, outcome.where) == ("wrong", "hopper")


def test_levels_are_run_by_themselves(tmp_path: Path) -> None:
    """The memories that are compared are those that a level has written."""
    found = lowered(stores_then_loads(), kernel_in(tmp_path, stores_then_loads().source))
    for level in ("tile", "aref", "hopper"):
        x, _, o = run_level(stores_then_loads(), found, level)
        assert list(x[:3]) == [0, 1, 2]
        assert list(o[:3]) == [255, 254, 253]
