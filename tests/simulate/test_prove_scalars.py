"""No edit of a number that communication depends on is proved, if a launch of it goes wrong.

Ping-pong teams: each begins where the other's turn ends, at slots and phases that are computed from
the trip count, which the proof follows by its residues.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from launches import Small
from mutations import same
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation

from tawa.base.errors import TawaError
from tawa.driver.compiled import spec_of
from tawa.ir.elementwise import Map
from tawa.simulate import check, prove
from tawa.simulate.interpret.launch import kernel_of
from tawa.simulate.interpret.limits import Limits
from tawa.simulate.prove.code import Slice

OTHER = {
    "addi": "subi", "subi": "addi", "divsi": "remsi", "remsi": "divsi", "andi": "ori",
    "ori": "andi", "xori": "ori", "maxsi": "minsi", "minsi": "maxsi", "cmpi_eq": "cmpi_ne",
    "cmpi_ne": "cmpi_eq", "cmpi_sgt": "cmpi_sge", "cmpi_slt": "cmpi_sle", "cmpi_sge": "cmpi_sgt",
}  # fmt: skip
"""What an operation is changed to; a selection's results change places."""

SHAPES = ((64, 64, 64), (192, 64, 160), (128, 128, 96), (192, 128, 32))
"""Rows, columns and depth of products: one tile, and several with one to five turns each."""


def scalars(module: ModuleOp) -> list[Map]:
    """The operations that shared memory and barriers depend on."""
    kept = Slice(kernel_of(module), spec_of(module)).ops
    return [op for op in module.walk() if isinstance(op, Map) and op in kept and _changed(op)]


def _changed(op: Map) -> str | None:
    return op.function.data if op.function.data == "select" else OTHER.get(op.function.data)


def edited(module: ModuleOp, number: int) -> tuple[str, ModuleOp]:
    """The module with the `number`-th of them changed, and what was changed."""
    broken = module.clone()
    op: Operation = scalars(broken)[number]
    assert isinstance(op, Map)
    before, new = str(op).partition("{")[0], _changed(op)
    assert new is not None
    if new == "select":
        condition, yes, no = op.arguments
        op.operands = (condition, no, yes)
    else:
        op.properties["function"] = StringAttr(new)
    return f"{before} -> {new}", broken


def product(shape: tuple[int, int, int]) -> tuple[Small, Any, Any]:
    from gemm import launch

    m, n, k = shape
    random = np.random.default_rng(4)
    a, b = (random.standard_normal((rows, k)).astype(np.float16) for rows in (m, n))
    c = np.full((m, n), np.nan, np.float16)
    return (
        Small("gemm", lambda: launch(a, b, c, (64, 64, 32))),
        c,
        a.astype(float) @ b.astype(float).T,
    )


def wrong(module: ModuleOp, options: dict[str, Any]) -> Iterator[str]:
    """What goes wrong in launches of a module."""
    for shape in SHAPES:
        small, c, right = product(shape)
        sweep = small.sweep()
        named = [sweep.named[name] for name in spec_of(module).arguments]
        limits = Limits(states=300)
        try:
            check(module, sweep.grid, named, multiprocessors=1, schedules=1, limits=limits)
        except TawaError as error:
            yield f"{shape}: {type(error).__name__}"
        else:
            if not same(c, right):
                yield f"{shape}: other numbers"


@pytest.mark.parametrize(
    "options",
    [
        {"persistent": True, "ping_pong": True, "num_stages": 2},
        {"persistent": True, "num_stages": 2, "consumers": 1},
    ],
    ids=("teams that take turns", "persistent"),
)
def test_no_edit_of_a_number_that_goes_wrong_is_proved(options: dict[str, Any]):
    module = product(SHAPES[1])[0].sweep().module(options)
    assert prove(module).proved
    assert not list(wrong(module, options))
    count = len(scalars(module))
    missed: list[str] = []
    proved = 0
    for number in range(count):
        what, broken = edited(module, number)
        if prove(broken).proved:
            proved += 1
            missed += [f"{what}: {found}" for found in wrong(broken, options)]
    assert not missed
    assert count > 10
    assert proved < count / 2
