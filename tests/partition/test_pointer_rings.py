"""Which tiles that pointers load go through rings, and who copies them."""

from __future__ import annotations

import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr

import tawa
import tawa.language as tl
from tawa.aref.dialect.ops import CopyInto, Create, WarpDot, WarpGroup
from tawa.driver.compiled import Compiled
from tawa.ir.decisions.memory import LoadsRunAhead, RingDepth
from tawa.ir.decisions.roles import CopiedAhead, CopiedThroughPointers, NotThroughRing
from tawa.machine.chips import H100

POINTERS = ["*f16:16"] * 2 + ["*f32:16"]
CONSTANTS = {"BM": 64, "BN": 64, "BK": 64, "MODE": "", "END": 0}


@tawa.jit
def product(
    a, b, c, K, stride,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, MODE: tl.constexpr, END: tl.constexpr,
):  # fmt: skip
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for kk in range(0, K if END == 0 else END, BK):
        at = a + m[:, None] * stride + (kk + k)[None, :]
        if MODE == "other":
            x = tl.load(at, mask=(kk + k)[None, :] < K, other=1.0)
        elif MODE == "volatile":
            x = tl.load(at, volatile=True)
        elif MODE == "odd mask":
            x = tl.load(at, mask=(kk + k)[None, :] < K - 1, other=0.0)
        else:
            x = tl.load(at)
        y = tl.load(b + n[None, :] * stride + (kk + k)[:, None])
        acc = tl.dot(x, y, acc)
        if MODE == "written":
            tl.store(at, x + x)
        if MODE == "computed":
            a += tl.sum(tl.sum(acc, 0), 0).to(tl.int32) * 64
    tl.store(c + m[:, None] * BN + n[None, :], acc)


@tawa.jit
def product_of_bytes(a, b, c, K, BM: tl.constexpr):
    """B's rows are along N."""
    m, n, k = tl.arange(0, BM), tl.arange(0, 64), tl.arange(0, 64)
    acc = tl.zeros((BM, 64), tl.int32)
    for kk in range(0, K, 64):
        x = tl.load(a + m[:, None] * K + (kk + k)[None, :])
        y = tl.load(b + (kk + k)[:, None] * 64 + n[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * 64 + n[None, :], acc)


def compiled(mode: str = "", **more: object) -> Compiled:
    return product.compile(*POINTERS, "i32:16", "i32:16", **{**CONSTANTS, "MODE": mode, **more})


def copies(found: Compiled) -> list[CopyInto]:
    return [op for op in found.module("aref").walk() if isinstance(op, CopyInto)]


def test_both_operands_share_a_ring():
    found = compiled()
    assert [d.tiles for d in found.decided(CopiedThroughPointers)] == [("x", "y")]
    assert [op.turned is not None for op in copies(found)] == [False, True]
    assert len([op for op in found.module("aref").walk() if isinstance(op, Create)]) == 1


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("other", "what is masked off is not zero"),
        ("volatile", "it is volatile"),
        ("written", "the kernel may write what it reads"),
        ("odd mask", "2 neighbouring bytes of it are known to be together, not 4"),
        ("computed", "the coordinates of a load depend on a computed tile"),
    ],
)
def test_a_remark_says_why_a_tile_does_not(mode: str, why: str):
    found = compiled(mode)
    assert any(why in d.why for d in found.decided(NotThroughRing))
    assert not any(op.pointers.name_hint == "at" for op in copies(found))


def test_rows_that_may_start_anywhere_are_loaded_into_registers():
    found = product.compile(*POINTERS, "i32:16", "i32", **CONSTANTS)
    assert not copies(found)
    assert all("2 neighbouring bytes" in d.why for d in found.decided(NotThroughRing))


def test_one_role_is_had_for_the_asking_and_copies_for_itself():
    found = compiled(specialize=False)
    groups = [op for op in found.module("aref").walk() if isinstance(op, WarpGroup)]
    assert [group.role.data for group in groups] == ["main"]
    assert [d.tiles for d in found.decided(CopiedAhead)] == [("x", "y")]
    assert found.decided(LoadsRunAhead)
    assert not copies(compiled(specialize=False, num_stages=1))


def test_k_has_to_be_together_where_elements_are_not_of_16_bits():
    found = product.compile("*e4m3:16", "*e4m3:16", "*f32:16", "i32:16", "i32:16", **CONSTANTS)
    assert len(copies(found)) == 2


def test_copying_threads_arrive_and_the_tensor_core_is_fenced():
    found = compiled(bulk_copies=False)
    text = str(found.stages["hopper"])
    assert "arrivals 128" in text
    boxes = str(compiled().stages["hopper"])
    assert "arrivals 130" in boxes, "128 threads, and one for each tile that may be a box"
    cuda = str(found.stages["cu"])
    wait = cuda.index("mbarrier_wait(x_y_full")
    assert cuda.index("fence_proxy_async();", wait) < cuda.index("wgmma_commit", wait)
    assert "copy_async<16>" in cuda


@pytest.mark.parametrize(("boxes", "fences"), [(None, 0), (False, 0), (True, 1)])
def test_products_of_few_rows_read_rings_by_themselves(boxes, fences):
    found = compiled(BM=16, bulk_copies=boxes)
    assert [d.tiles for d in found.decided(CopiedThroughPointers)] == [("x", "y")]
    assert any(isinstance(op, WarpDot) for op in found.module("aref").walk())
    cuda = str(found.stages["cu"])
    assert "ldmatrix_x4" in cuda
    # No other proxy reads what was copied; the engine fills a slot again where a tile is a box.
    assert cuda.count("fence_proxy_async();") == fences


def test_few_rows_of_few_warps_have_no_loading_warp_group():
    found = compiled(BM=16, num_warps=2)
    groups = [op for op in found.module("aref").walk() if isinstance(op, WarpGroup)]
    assert [group.role.data for group in groups] == ["main"]
    assert len(copies(found)) > 2
    whys = {d.why for d in found.decided(NotThroughRing)}
    assert whys == {"its products are small ones of 2 warps"}


def test_k_need_not_be_together_for_few_rows():
    for rows, count in ((64, 1), (16, 2)):
        found = product_of_bytes.compile(*["*i8:16"] * 2, "*i32:16", "i32:16", BM=rows)
        assert len(copies(found)) == count


def test_several_ctas_of_few_rows_share_a_multiprocessor():
    found = compiled(BM=16)
    kernel = next(op for op in found.module("hopper").walk() if isinstance(op, func.FuncOp))
    shared = kernel.attributes["hopper.shared_bytes"]
    assert isinstance(shared, IntegerAttr)
    assert shared.value.data <= H100.divided(4).shared_bytes


def test_no_more_slots_than_are_filled():
    assert [d.slots for d in compiled(END=128).decided(RingDepth)] == [2]


@tawa.jit
def decomposed(x, w, y, W, C, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Addresses that take divisions in every turn."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for turn in range(0, W):
        pixel = m + turn * 3
        row = (pixel // W) * W + pixel % W
        a = tl.load(x + row[:, None] * C + k[None, :], mask=(row < W)[:, None], other=0.0)
        b = tl.load(w + (turn * BK + k)[:, None] * BN + n[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(y + m[:, None] * BN + n[None, :], acc)


def test_many_instructions_for_addresses_are_done_by_two_warp_groups():
    blocks = {"BM": 128, "BN": 128, "BK": 64}
    found = decomposed.compile(*POINTERS, "i32", "i32:16", **blocks, bulk_copies=False)
    loader = next(op for op in found.module("aref").walk() if isinstance(op, WarpGroup))
    assert loader.copies is not None
    assert loader.warps.value.data == 8
    assert "arrivals 256" in str(found.stages["hopper"])
