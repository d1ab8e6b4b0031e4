"""What ops take of a multiprocessor: by their registers, their functions and their types."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from xdsl.dialects.builtin import bf16, f16, f32, i8, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import SSAValue

from tawa.base.layout import Layout, Mode, accumulator
from tawa.base.types import e4m3
from tawa.codegen.shared_memory import tile_for
from tawa.hopper.dialect.fragment import Anchored, Copy, ReduceRegisters, ShuffleXor, VoteAny
from tawa.hopper.dialect.lane_reduction import ReduceLanes
from tawa.hopper.dialect.matrix import RoundOperand
from tawa.hopper.dialect.memory import SharedLoad
from tawa.hopper.dialect.sync import FenceProxyAsync
from tawa.hopper.dialect.transpose import TransposeTile
from tawa.hopper.dialect.types import FragType
from tawa.ir.elementwise import Map
from tawa.machine.chips import H100
from tawa.machine.costs import COMPOUND, DIVISIONS
from tawa.simulate.timing.work import (
    NO_WORK,
    Work,
    _each,  # pyright: ignore[reportPrivateUsage]
    _lanes,  # pyright: ignore[reportPrivateUsage]
    _warp_product,  # pyright: ignore[reportPrivateUsage]
    matrix_cycles,
    moves,
    product_cycles,
    registers,
    work_of,
)

HALF, SPECIAL, SHUFFLE = H100.costs.half_rate, H100.costs.special, H100.costs.shuffle


def frag(count: int, kind: Any = f32) -> SSAValue:
    """So many registers of a thread, one behind the other."""
    layout = Layout((128 * count,), (Mode(count, 0, 1),) if count > 1 else (),
                    (Mode(32, 0, count),), (Mode(4, 0, 32 * count),))  # fmt: skip
    return Made(result_types=[FragType.of(kind, layout)]).results[0]


def number(kind: Any = i32) -> SSAValue:
    return Made(result_types=[kind]).results[0]


def of(function: str, *values: SSAValue, kind: Any = None) -> Map:
    return Map(function, values, kind)


def used(op: Map, *users: Any) -> Map:
    """With ops that use its result."""
    for make in users:
        make(op.result)
    return op


@pytest.mark.parametrize(
    ("make", "work"),
    [
        (lambda: of("addf", frag(8), frag(8)), Work(8.0)), (lambda: of("addi", number(), number()), Work(1.0)),
        (lambda: of("maxnumf", frag(8), frag(8)), Work(8.0, 8.0 * HALF)),
        (lambda: of("cmpi_slt", frag(4, i32), frag(4, i32)), Work(4.0, 4.0 * HALF)),
        (lambda: of("divsi", frag(2, i32), frag(2, i32)), Work(2.0 * DIVISIONS["divsi"])),
        (lambda: of("exp2", frag(8)), Work(8.0, special=8.0 * SPECIAL) if "exp2" not in COMPOUND
         else Work(8.0 * COMPOUND["exp2"][0], special=8.0 * COMPOUND["exp2"][1] * SPECIAL)),
        (lambda: of("sin", frag(2)), Work(2.0 * COMPOUND.get("sin", (1, 1))[0],
                                           special=2.0 * COMPOUND.get("sin", (1, 1))[1] * SPECIAL)),
        (lambda: of("truncf", frag(8), kind=f16), Work(4.0, 4.0 * HALF)),
        (lambda: of("truncf", frag(8), kind=bf16), Work(4.0, 4.0 * HALF)),
        (lambda: of("truncf", frag(1), kind=f16), Work(1.0, 1.0 * HALF)),
        (lambda: of("truncf", frag(8, f16), kind=e4m3), Work(8.0, 8.0 * HALF)),
    ],
)  # fmt: skip
def test_functions(make: Any, work: Work) -> None:
    assert work_of(make(), H100) == work


def test_a_product_that_one_sum_uses_is_part_of_it() -> None:
    def add(value: SSAValue) -> None:
        of("addf", value, frag(8))

    def take(value: SSAValue) -> None:
        of("subf", frag(8), value)

    def scale(value: SSAValue) -> None:
        of("mulf", value, frag(8))

    def read(value: SSAValue) -> None:
        Made(operands=[value])

    for users, fused in (([add], True), ([take], True), ([scale], False), ([read], False),
                         ([add, add], False), ([], False)):  # fmt: skip
        product = used(of("mulf", frag(8), frag(8)), *users)
        assert work_of(product, H100) == (NO_WORK if fused else Work(8.0))
    assert work_of(used(of("addf", frag(8), frag(8)), add), H100) == Work(8.0)


def test_what_others_are_known_from_is_computed_once() -> None:
    layout = Layout((512,), (Mode(4, 0, 1),), (Mode(32, 0, 4),), (Mode(4, 0, 128),))
    value = Made(result_types=[FragType.of(i32, layout)]).results[0]
    op = of("addi", value, value)
    Anchored(op.result, [0, 0, 2, 2], [0, 1, 0, 1])
    assert work_of(op, H100) == Work(2.0)
    Made(operands=[op.result])
    assert work_of(op, H100) == Work(4.0)


@pytest.mark.parametrize(
    ("make", "work"),
    [
        (lambda: Copy(frag(8)), Work(8.0)), (lambda: ShuffleXor(frag(3), 4), Work(3.0, latency=SHUFFLE, ordered=True)),
        (lambda: ReduceRegisters(frag(8), 0, "addf"), Work(7.0)),
        (lambda: ReduceRegisters(frag(8), 0, "maxnumf"), Work(7.0, 7.0 * HALF)),
        (lambda: ReduceLanes(frag(3, i32), "addi"), Work(3.0, latency=SHUFFLE)),
        (lambda: VoteAny(frag(4)), Work(2.0, latency=SHUFFLE, ordered=True)),
        (lambda: FenceProxyAsync(), Work(1.0, latency=H100.costs.fence, ordered=True)),
        (lambda: RoundOperand(operand(), f16), Work(4.0, 4.0 * HALF)),
        (lambda: RoundOperand(operand(32), e4m3), Work(12.0, 8.0 * HALF)),
        (lambda: Made(), None),
    ],
)  # fmt: skip
def test_other_ops(make: Any, work: Work | None) -> None:
    assert work_of(make(), H100) == work


def operand(columns: int = 16) -> SSAValue:
    """A tile of 64 rows as products leave it."""
    return Made(result_types=[FragType.of(f32, accumulator((64, columns), 4))]).results[0]


@pytest.mark.parametrize(
    ("kind", "count", "accesses"), [(f32, 8, 2), (f32, 9, 3), (f16, 8, 1), (i8, 8, 1), (i8, 17, 2)]
)
def test_what_goes_through_shared_memory(kind: Any, count: int, accesses: int) -> None:
    """Three instructions for 16 bytes of a thread, and the bytes of a warp group."""
    size = {f32: 4, f16: 2, i8: 1}[kind] * count
    tile = Made(result_types=[tile_for((count, 128), kind)]).results[0]
    layout = Layout((count, 128), (Mode(count, 0, 1),), (Mode(32, 1, 1),), (Mode(4, 1, 32),))
    op = SharedLoad(tile, FragType.of(kind, layout))
    expected = Work(3.0 * accesses, shared=size * 128 / H100.shared_memory_bytes, latency=20.0)
    assert work_of(op, H100) == expected


@pytest.mark.parametrize(("in_flight", "warps"), [(1, 4), (4, 4), (2, 8)])
def test_bytes_that_are_transposed_by_blocks(in_flight: int, warps: int) -> None:
    source, target = (
        Made(result_types=[tile_for(s, i8)]).results[0] for s in ((64, 128), (128, 64))
    )
    op = TransposeTile(source, target, warps, in_flight)
    assert op.shares is not None
    blocks = op.shares.group_steps * op.shares.block_steps
    assert work_of(op, H100) == Work(
        9.0 * blocks, shared=2 * 64 * 128 / H100.shared_memory_bytes,
        latency=H100.timing.fetch_latency * blocks / in_flight,
    )  # fmt: skip


def test_words_that_are_transposed_one_by_one() -> None:
    source, target = (
        Made(result_types=[tile_for(s, f32)]).results[0] for s in ((64, 32), (32, 64))
    )
    op = TransposeTile(source, target, 4, 1)
    each = 64 * 32 / 128
    shared = 2 * 64 * 32 * 4 / H100.shared_memory_bytes
    assert work_of(op, H100) == Work(4.0 * each, shared=shared, latency=each)


def test_copies_of_fragments_to_other_registers() -> None:
    values = [frag(8), frag(8, f16), frag(8, i8), number()]
    assert moves(values, H100) == Work(14.0, alu=14.0 * HALF)
    assert moves([number()], H100) == Work(0.0)
    assert [registers(v) for v in values] == [8, 8, 8, 1]


def test_works_add_up() -> None:
    one, other = Work(1.0, 2.0, 3.0, 4.0, 5.0, 6.0), Work(10.0, 20.0, 30.0, 40.0, 50.0, 60.0)
    found = one + other
    parts = [found.issue, found.alu, found.special, found.shared, found.latency, found.chain]
    assert parts == [11.0, 22.0, 33.0, 44.0, 55.0, 60.0]
    assert not found.ordered
    assert (one + Work(ordered=True)).ordered
    assert (Work(ordered=True) + one).ordered


@pytest.mark.parametrize(
    ("kind", "n", "held", "products"),
    [
        (f16, 64, False, 1.0), (f16, 256, True, 4.0), (e4m3, 64, False, 1.0), (f32, 64, False, 1.0),
        (i8, 128, True, 2.0), (f16, 8, False, 1 / 8), (f16, 8, True, 1 / 8),
    ],
)  # fmt: skip
def test_matrix_instructions(kind: Any, n: int, held: bool, products: float) -> None:
    """A step along K is 32 bytes whatever the type; few columns wait for the rows of A.

    In units of 64 columns of an instruction; 128 bytes are read at a time.
    """
    unit = 2 * 64 * 64 * 16 / H100.tensor_flops
    a = SimpleNamespace(type=FragType.of(f32, accumulator((64, 16), 4)) if held else f32)
    op: Any = SimpleNamespace(a=a, a_type=kind, n=SimpleNamespace(value=SimpleNamespace(data=n)))
    assert product_cycles(op, H100) == pytest.approx(products * unit)
    read = (n + (0 if held else 64)) * 32 / H100.shared_memory_bytes
    assert matrix_cycles(op, H100) == pytest.approx(max(products * unit, read))
    assert read == pytest.approx(32 * (n + 64 * (not held)) / 128)


class Fetch(SimpleNamespace):
    """How a warp fetches an operand: blocks of rows, registers of each, words at once."""

    def together(self) -> list[int]:
        return [0] * self.instructions


FETCH = Fetch(batches=2, blocks=3, registers=4, words=2, instructions=5)
VIEW = SimpleNamespace(type=tile_for((16, 64), f16))
HELD = SimpleNamespace(type=FragType.of(f16, accumulator((64, 16), 4)))


def warp_product(**changed: Any) -> Any:
    """Four iterations along K of two steps each, of 12 instructions a step in three chains."""
    product: dict[str, Any] = {"inner": 64, "step": 8, "way": changed.pop("way", "matrix")}
    operand = SimpleNamespace(registers=20)
    of = SimpleNamespace(**product, operand=lambda warps, side: operand)
    given: dict[str, Any] = {
        "product": of, "layout": SimpleNamespace(warps=4, registers=10), "a": VIEW, "b": VIEW,
        "fetches": (FETCH, FETCH), "steps": 2, "instructions": 24, "chains": 3,
        "scalar_accesses": 12, **changed,
    }  # fmt: skip
    return SimpleNamespace(**given)


TIMING, BYTES = H100.timing, H100.shared_memory_bytes
EACH = 4 * 16 * 8 / BYTES
"""Cycles of four warps' 8 rows of 16 bytes."""


@pytest.mark.parametrize(
    ("changed", "issue", "shared", "count"),
    [
        ({}, 2 * 8 * (5 + 12), 2 * 8 * 12 * EACH, 12 * 8), ({"a": HELD}, 8 * 17, 8 * 12 * EACH, 12 * 8),
        ({"a": HELD, "b": HELD}, 0, 0, 12 * 8), ({"way": "three"}, 2 * 8 * 17, 2 * 8 * 12 * EACH, 36 * 8),
        ({"fetches": (FETCH, None)}, 8 * 17 + TIMING.element_fetch * 20, 8 * 12 * EACH + 80, 12 * 8),
        ({"way": "scalar"}, TIMING.element_fetch * 12 + 10 * 64, 48, None),
    ],
)  # fmt: skip
def test_products_of_warps(changed: Any, issue: float, shared: float, count: int | None) -> None:
    """What is fetched and multiplied is issued; what takes longer than both is waited for."""
    op = warp_product(**changed)
    found = _warp_product(op, H100)
    assert found.issue == pytest.approx(issue + (count or 0))
    assert found.shared == pytest.approx(shared)
    latency = TIMING.fetch_latency
    if count is not None:
        depth = count / 12 / 3
        multiplied = max(count * TIMING.warp_matrix, depth * TIMING.warp_matrix_latency)
        latency += max(0.0, multiplied - max(issue + count, shared))
    assert found.latency == pytest.approx(latency)
    assert found.ordered is (count is not None)


@pytest.mark.parametrize("chains", [1, 12])
def test_products_that_wait_for_each_other(chains: int) -> None:
    """With few chains each waits for the one before."""
    found = _warp_product(warp_product(a=HELD, b=HELD, chains=chains), H100)
    multiplied = max(96 * TIMING.warp_matrix, 8 / chains * TIMING.warp_matrix_latency)
    assert found.latency == pytest.approx(TIMING.fetch_latency + max(0.0, multiplied - 96))


def test_floats_are_reduced_as_integers() -> None:
    op: Any = SimpleNamespace(kind=SimpleNamespace(data="maxnumf"), value=frag(3))
    assert _lanes(op, H100) == Work(21.0, latency=SHUFFLE)
    assert _each("value", 2.0, 5.0)(op, H100) == Work(11.0)
