"""Copy elimination: the order of its rules does not matter, and what is left is needed."""

import random
from typing import Any

import numpy as np
import pytest
from task_programs import NAMES, case

import tawa.language as tl
from tawa.tasks import (
    READ,
    READ_WRITE,
    WRITE,
    Instance,
    Mapping,
    clear,
    copy,
    launch,
    make_tensor,
    partition_by_blocks,
    prange,
    srange,
    task,
)
from tawa.tasks import program as programs
from tawa.tasks.graph.copies import RULES, eliminate, flatten
from tawa.tasks.graph.ir import Copy, TaskProgram, walk


def canonical(program: TaskProgram) -> str:
    """The program with its tensors and indices numbered in the order of the text."""
    import re

    names: dict[str, str] = {}

    def renamed(match: Any) -> str:
        name = match.group(0)
        return names.setdefault(name, f"{re.sub(r'[0-9]+$', '', name)}#{len(names)}")

    own = {b.name for b in program.made}
    return re.sub(
        r"\b[a-z_]+[0-9]+\b", lambda m: renamed(m) if m[0] in own else m[0], program.text()
    )


def traced(name: str, monkeypatch: pytest.MonkeyPatch, mapping: Mapping | None = None) -> Any:
    """A fresh trace of a program, nothing eliminated."""
    found, kept = case(name), list[TaskProgram]()
    monkeypatch.setattr(programs, "_programs", {})
    monkeypatch.setattr(
        programs, "eliminate", lambda program: kept.append(program) or flatten(program.root)
    )
    monkeypatch.setattr(programs, "schedule", lambda root, lies: [])
    found.task.compile(*found.outputs, *found.inputs, mapping=mapping)
    return kept[0]


SPILLED = Mapping(
    Instance("gemm_block", memories={"acc": "global"}),
    Instance("multiply_tile", memories={"a": "register"}),
)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", [*NAMES, "spilled"])
def test_any_order(name: str, seed: int, monkeypatch: pytest.MonkeyPatch):
    mapping = SPILLED if name == "spilled" else None
    name = "gemm" if name == "spilled" else name
    usual = traced(name, monkeypatch, mapping)
    eliminate(usual)
    other = traced(name, monkeypatch, mapping)
    rules = list(RULES)
    rng = random.Random(seed)

    def one_of_them(program: TaskProgram) -> bool:
        rng.shuffle(rules)
        return any(rule(program) for rule in rules)

    eliminate(other, [one_of_them])
    assert canonical(other) == canonical(usual)


def test_an_accumulator_in_global_memory_is_kept_in_registers(monkeypatch: pytest.MonkeyPatch):
    program = traced("gemm", monkeypatch, SPILLED)
    eliminate(program)
    copies = [node for node in walk(program.root.body) if isinstance(node, Copy)]
    moved = [n for n in copies if "global" in (n.source.buffer.memory, n.target.buffer.memory)]
    assert [str(n.source) for n in moved] == [
        "a[i1 * 128 +: 128, i3 * 64 +: 64]",
        "b[i3 * 64 +: 64, i2 * 128 +: 128]",
        "to2",
    ]


@task(y=READ_WRITE, x=READ)
def accumulate(y, x):
    """y += the sum of x's rows, in place, and then each row's own sum."""


@task(y=READ_WRITE, x=READ)
def add_up(y, x):
    """y += x, and a row's sum of y: what a row holds past its end would show."""


@accumulate.inner
def accumulate_grid(y, x):
    to, of = partition_by_blocks(y, (16, 32)), partition_by_blocks(x, (16, 32))
    for i, j in prange(*to.shape):
        launch(accumulate, to[i, j], of[i, j])


@accumulate.inner
def accumulate_block(y, x):
    for _ in srange(3):
        launch(add_up, y, x)


@add_up.leaf
def add_up_tile(y, x):
    return y + x + 1.0 + tl.sum(y, axis=1)[:, None]


@pytest.mark.parametrize("memory", ["register", "shared", "none", "global"])
def test_rows_past_the_end_hold_zeros(memory: str):
    """A tile that stays on chip is what memory would hold: writes past an end are dropped."""
    rng = np.random.default_rng(0)
    start, x = rng.standard_normal((2, 20, 40)).astype(np.float32)
    expected, found = start.copy(), start.copy()
    mapping = Mapping(Instance("accumulate_block", memories={"y": memory}))
    accumulate.interpret(expected, x, mapping=mapping)
    accumulate.compile(found, x, mapping=mapping).simulate((found, x))
    assert np.array_equal(expected, found)


@task(y=WRITE, x=READ)
def shifted(y, x):
    """y[i] = x[i], by way of a tensor of the block's own."""


@shifted.inner
def shifted_grid(y, x):
    to, of = partition_by_blocks(y, (32,)), partition_by_blocks(x, (32,))
    for i in prange(*to.shape):
        launch(shifted, to[i], of[i])


@shifted.inner
def shifted_block(y, x):
    kept = make_tensor(x.shape, x.dtype)
    launch(copy, kept, x)
    launch(clear, y)
    launch(copy, y, kept)


@pytest.mark.parametrize("memory", ["register", "shared", "none"])
def test_a_tensor_of_the_blocks_own(memory: str):
    x = np.arange(70, dtype=np.float32)
    y = np.full_like(x, np.nan)
    mapping = Mapping(Instance("shifted_block", memories={"kept": memory}))
    shifted.compile(y, x, mapping=mapping).simulate((y, x))
    assert np.array_equal(y, x)
