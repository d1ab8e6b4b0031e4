"""The chip that is there decides predictions and is part of the cache's key, of code and choices."""

from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.utils.exceptions import VerifyException

import tawa
import tawa.language as tl
from tawa.base.options import BadOption, Options
from tawa.driver import compile_cache
from tawa.hopper.dialect.sync import NamedBarrierSync
from tawa.kernels.gemm_configurations import Product, fastest
from tawa.machine.chips import CHIPS, H100, H200, SM_90A
from tawa.runtime import driver


@tawa.jit
def copy(x, out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + at, tl.load(x + at))


SIZE = 1 << 26
"""Numbers of four bytes: much more than L2 holds."""


def seconds(**options: object) -> float:
    arrays = np.empty(SIZE, np.float32), np.empty(SIZE, np.float32)
    return copy.predict(*arrays, 4096, grid=(SIZE // 4096,), **options).kernel_seconds


def test_a_copy_takes_as_long_as_its_memory():
    slow, fast = seconds(chip="h100"), seconds(chip="h200")
    assert slow / fast == pytest.approx(H200.memory_gbs / H100.memory_gbs, rel=0.05)
    assert 2 * 4 * SIZE / slow / 1e9 == pytest.approx(H100.memory_gbs, rel=0.1)


def test_parts_of_warps_are_shared_out_where_that_is_sooner():
    """What the property compares, written out for eight and sixteen parts."""
    one, exchange = H100.timing.scalar, H100.costs.shuffle + H100.timing.scalar
    alone = {parts: parts * parts / 4 + (parts - 1) * one for parts in (8, 16)}
    shared = {8: 8 + 3 * one + exchange, 16: 16 + 3 * one + 2 * exchange}
    assert alone[8] <= shared[8]
    assert alone[16] > shared[16]
    assert H100.combined_parts == 8
    quick = replace(H100, costs=replace(H100.costs, shuffle=1))
    assert quick.combined_parts == quick.words_at_once


def test_the_default_is_the_device_that_is_there():
    request = copy.request("*f32", "*f32", 4096)
    assert request.options.chip == driver.chip().name
    if driver.device_count() == 0:
        assert request.options.chip == H100.name
    assert Options().machine.name == H100.name


def test_the_chip_is_part_of_the_key():
    parts = [copy.request("*f32", "*f32", 4096, chip=name) for name in CHIPS]
    assert len({request.key for request in parts}) == len(CHIPS)
    keys = {compile_cache.key_of(copy, r.types, r.constants, r.options) for r in parts}
    assert len(keys) == len(CHIPS)


def test_both_chips_run_the_same_machine_code():
    cubins = {copy.compile("*f32", "*f32", 4096, chip=name).cubin for name in CHIPS}
    assert len(cubins) == 1


def test_an_unknown_chip_is_an_error_that_names_the_known_ones():
    with pytest.raises(BadOption) as caught:
        copy.request("*f32", "*f32", 4096, chip="h300")
    assert "h100" in caught.value.render()


def test_products_are_chosen_for_the_chip():
    sizes = [(64, n, k) for n in (4096, 8192, 16384) for k in (4096, 8192, 16384)]
    found = {
        chip.name: [fastest(Product(*size, chip=chip)).microseconds(Product(*size, chip=chip))
                    for size in sizes]
        for chip in CHIPS.values()
    }  # fmt: skip
    assert all(b < a for a, b in zip(found["h100"], found["h200"], strict=True))


def test_a_part_of_a_multiprocessor_leaves_what_the_system_keeps():
    half = H100.divided(2)
    assert 2 * (half.shared_bytes + half.reserved_bytes) == H100.shared_bytes + H100.reserved_bytes
    assert half.registers == H100.registers // 2


@pytest.mark.parametrize(("number", "there"), [(15, True), (16, False)])
def test_named_barriers_are_counted(number: int, there: bool):
    op = NamedBarrierSync(arith.ConstantOp(IntegerAttr(number, i32)).result, SM_90A.group_threads)
    if there:
        op.verify()
    else:
        with pytest.raises(VerifyException, match="16 named barriers"):
            op.verify()
