"""What a kernel has in shared memory: where it begins and ends, what is refused, how it is called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import IntAttr, UnitAttr, f16
from xdsl.ir import Block, Region

from tawa.codegen.shared_memory import tile_for
from tawa.hopper.dialect.structure import Barriers, Ring
from tawa.hopper.dialect.types import RingType
from tawa.simulate.interpret import errors
from tawa.simulate.interpret.clocks import Components, Shadow
from tawa.simulate.interpret.cta import ALIAS, Cta, allocations, barrier_addresses


def ring(name: str, at: int, slots: int = 2, alias: bool = False) -> Ring:
    """Slots of 1 KB."""
    op = Ring(at, RingType(IntAttr(slots), tile_for((8, 64), f16)))
    op.ring.name_hint = name
    if alias:
        op.attributes[ALIAS] = UnitAttr()
    return op


def row(name: str | None, at: int, slots: int = 2) -> Barriers:
    op = Barriers(at, 1, slots)
    op.barrier.name_hint = name
    return op


def kernel(*ops: Any) -> func.FuncOp:
    return func.FuncOp("k", ((), ()), Region(Block([*ops, func.ReturnOp()])))


def test_all_by_address() -> None:
    found = allocations(kernel(row("full", 4096, 3), ring("a", 2048), ring("b", 1024, 1)), 8192)
    assert [(a.label, a.first, a.last, a.slot_bytes, a.slots) for a in found] == [
        ("b", 1024, 2048, 1024, 1), ("a", 2048, 4096, 1024, 2), ("full", 4096, 4120, 8, 3),
    ]  # fmt: skip
    assert barrier_addresses(found) == [
        (4096, "slot 0 of `full`"), (4104, "slot 1 of `full`"), (4112, "slot 2 of `full`"),
    ]  # fmt: skip
    (one,) = barrier_addresses(allocations(kernel(row(None, 8, 1), ring("a", 1024)), 4096))
    assert one == (8, "`unnamed`")


@pytest.mark.parametrize(
    ("ops", "room", "error", "found"),
    [
        ([ring("a", 0), ring("b", 2048)], 4096, None, ""),
        ([ring("a", 0), row("full", 2048)], 2064, None, ""),
        ([ring("a", 0), row("full", 2048)], 2063, errors.SharedMemoryOverlap, "bytes 2048 to 2064"),
        ([ring("a", 0), ring("b", 1024)], 4096, errors.SharedMemoryOverlap,
         "`a` at 0 to 2048, `b` at 1024 to 3072"),
        ([ring("b", 1024), ring("a", 0)], 4096, errors.SharedMemoryOverlap,
         "`a` at 0 to 2048, `b` at 1024 to 3072"),
        ([ring("a", 0), ring("b", 1024, alias=True)], 4096, None, ""),
        ([ring("a", 0), ring("b", 1024, alias=True), ring("c", 1024)], 4096,
         errors.SharedMemoryOverlap, "`a` at 0 to 2048, `c` at 1024 to 3072"),
        ([ring("a", 0, alias=True)], 1024, errors.SharedMemoryOverlap, "bytes 0 to 2048"),
        ([ring("a", 512)], 4096, errors.Misaligned, "512 = 0 x 1024 + 512"),
        ([ring("a", 1536)], 4096, errors.Misaligned, "1536 = 1 x 1024 + 512"),
        ([row("full", 12)], 4096, errors.Misaligned, "12 = 1 x 8 + 4"),
        ([row("full", 8)], 4096, None, ""),
    ],
)  # fmt: skip
def test_what_has_no_place(ops: Any, room: int, error: Any, found: str) -> None:
    whole = kernel(*(op.clone() for op in ops))
    for new, old in zip(whole.body.block.ops, ops, strict=False):
        new.results[0].name_hint = old.results[0].name_hint
    if error is None:
        assert len(allocations(whole, room)) == len(ops)
        return
    with pytest.raises(error) as caught:
        allocations(whole, room)
    assert caught.value.found == found


def test_what_lies_at_an_address() -> None:
    components = Components()
    found = allocations(kernel(ring("a", 1024), row("full", 0, 1), ring("b", 3072, 1)), 8192)
    shadow = Shadow(8192, components, 2)
    cta = Cta(0, (0, 0, 0), np.zeros(8192, np.uint8), shadow, found, components, {})
    named = {1024: "slot 0 of `a`", 2047: "slot 0 of `a`", 2048: "slot 1 of `a`",
             3071: "slot 1 of `a`", 0: "`full`", 7: "`full`", 3072: "`b`", 4095: "`b`",
             8: "byte 8 of shared memory", 4096: "byte 4096 of shared memory"}  # fmt: skip
    assert {at: cta.place(at) for at in named} == named
    assert cta.granule_place(1024) == "slot 1 of `a`"
    assert cta.granule_place(1023) == "slot 0 of `a`"
    assert [cta.named_barrier(n).label for n in (0, 3)] == [
        "the meeting of the CTA",
        "named barrier 3",
    ]
    assert cta.named_barrier(3) is cta.named_barrier(3)
