"""What the passes from tile to aref leave behind: roles, rings, products in flight."""

from __future__ import annotations

import pytest
from checks import check_comments, op_counts
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.ir import Block, Region

import tawa
import tawa.language as tl
from tawa.aref.dialect import ops as aref
from tawa.driver.compiled import Compiled
from tawa.driver.inspection.products import products_in_flight
from tawa.hopper.dialect.matrix import WgmmaWait
from tawa.ir.decisions.loops import ProductsInFlight
from tawa.ir.decisions.memory import LoadsRunAhead
from tawa.ir.decisions.roles import NotSpecialised
from tawa.tile.dialect.ops import DescLoad, Dot

TYPES = ("desc<f16,128x64>", "desc<f16,128x64>", "desc<f16,128x128>", "i32")


@tawa.jit
def gemm(a, b, c, K):
    # CHECK tile: tile.dot
    # CHECK-NOT tile: aref\.
    # CHECK aref: aref.create .*!aref.ref<\d, tensor<128x64xf16>, tensor<128x64xf16>>
    # CHECK aref: "aref.warp_group"\(\).*role = "load".*single
    # CHECK aref: scf.for
    # CHECK aref: aref.put_enter
    # CHECK aref: aref.load_into
    # CHECK aref: aref.load_into
    # CHECK aref: aref.put_exit .* after "tma"
    # CHECK aref: "aref.warp_group"\(\).*role = "math".*warps = 8
    # CHECK aref: aref.unset
    # CHECK aref: scf.for
    # CHECK aref: aref.get_enter
    # CHECK aref: aref.view_trans
    # CHECK aref: aref.dot_issue
    # CHECK aref: aref.dot_wait 1
    # CHECK aref: aref.consumed .* after "wgmma"
    # CHECK aref: scf.yield
    # CHECK aref: aref.dot_wait 0
    # CHECK aref: aref.zero_unless
    # CHECK aref: tile.desc_store
    # CHECK-NOT aref: tile.desc_load|tile.dot|tile.trans
    # CHECK-NOT hopper: aref\.|tile\.
    # CHECK hopper: hopper.role
    # CHECK hopper: hopper.mbarrier_wait
    # CHECK hopper: hopper.wgmma_fence
    # CHECK hopper: hopper.wgmma
    # CHECK hopper: hopper.wgmma_commit
    # CHECK hopper: hopper.wgmma_wait 1
    # CHECK hopper: hopper.tma_load
    # CHECK cu: __global__ void __launch_bounds__\(384, 1\)
    # CHECK cu: wgmma_m64n128k16_f32_f16_f16
    # CHECK cu: wgmma_wait<1>
    # CHECK cu: tma_store
    # CHECK cu: tma_load
    acc = tl.zeros((128, 128), tl.float32)
    for k in range(0, tl.cdiv(K, 64)):
        acc = tl.dot(a.load([0, k * 64]), b.load([0, k * 64]).T, acc)
    c.store([0, 0], acc.to(tl.float16))


def groups(compiled: Compiled) -> dict[str, aref.WarpGroup]:
    found = (op for op in compiled.module("aref").walk() if isinstance(op, aref.WarpGroup))
    return {group.role.data: group for group in found}


def test_gemm_becomes_a_producer_and_consumers() -> None:
    assert check_comments(gemm, gemm.compile(*TYPES)) > 30


def test_a_role_keeps_only_what_its_effects_need() -> None:
    found = groups(gemm.compile(*TYPES))
    assert set(found) == {"load", "math"}
    names = {op.name for op in found["load"].walk()}
    assert not any("dot" in name or name == "tile.desc_store" for name in names)
    assert not any("put" in op.name for op in found["math"].walk())
    (loop,) = [op for op in found["load"].walk() if isinstance(op, scf.ForOp)]
    assert all(isinstance(r.type, aref.CursorType) for r in loop.results)


def test_only_waits_inside_of_loops_leave_products_in_flight() -> None:
    bound, counter = arith.ConstantOp(IntegerAttr(4, i32)), Block(arg_types=[i32])
    counter.add_ops([WgmmaWait(1), scf.YieldOp()])
    loop = scf.ForOp(bound, bound, bound, [], Region(counter))
    assert products_in_flight(ModuleOp([])) is None
    assert products_in_flight(ModuleOp([WgmmaWait(2)])) == 0
    assert products_in_flight(ModuleOp([bound, WgmmaWait(2), loop])) == 1


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_products_in_flight(depth: int) -> None:
    """Iteration k waits until P products are unfinished, then returns the slot of k - P."""
    compiled = gemm.compile(*TYPES, mma_depth=depth, num_stages=depth + 2)
    assert products_in_flight(compiled.module("hopper")) == depth
    math = groups(compiled)["math"]
    (loop,) = [op for op in math.walk() if isinstance(op, scf.ForOp)]
    (wait,) = [op for op in loop.body.walk() if isinstance(op, aref.DotWait)]
    assert wait.pending.value.data == depth
    tokens = [r for r in loop.results if isinstance(r.type, aref.TokenType)]
    assert len(tokens) == depth
    consumed = [op for op in math.walk() if isinstance(op, aref.Consumed)]
    assert len(consumed) == depth + 1
    assert {op.completion.data for op in consumed} == {"wgmma"}


def test_default_depth_leaves_one_product_in_flight() -> None:
    compiled = gemm.compile(*TYPES)
    assert [d.iterations for d in compiled.decided(ProductsInFlight)] == [1]
    counts = op_counts(compiled.module("aref"))
    assert counts["aref.put_enter"] == counts["aref.put_exit"] == counts["aref.get_enter"] == 1
    assert counts["aref.dot_issue"] == 1
    assert counts["aref.dot_wait"] == 2
    assert counts["aref.consumed"] == 2


def test_one_slot_leaves_nothing_in_flight() -> None:
    compiled = gemm.compile(*TYPES, num_stages=1)
    assert [d.iterations for d in compiled.decided(ProductsInFlight)] == [0]


@pytest.mark.parametrize("stages", [1, 2, 5])
def test_slots_as_asked(stages: int) -> None:
    compiled = gemm.compile(*TYPES, num_stages=stages)
    (create,) = [op for op in compiled.module("aref").walk() if isinstance(op, aref.Create)]
    assert isinstance(create.ref.type, aref.RefType)
    assert create.ref.type.depth.data == stages


@pytest.mark.parametrize(
    ("options", "warps", "teams"),
    [({}, 8, 1), ({"consumers": 1}, 4, 1), ({"ping_pong": True, "persistent": True}, 4, 2)],
    ids=str,
)
def test_consumers(options: dict[str, object], warps: int, teams: int) -> None:
    math = groups(gemm.compile(*TYPES, **options))["math"]
    assert (math.warps.value.data, math.teams.value.data) == (warps, teams)


def test_one_role_prefetches() -> None:
    compiled = gemm.compile(*TYPES, specialize=False, num_stages=4)
    found = groups(compiled)
    assert set(found) == {"main"}
    loops = [op for op in found["main"].walk() if isinstance(op, scf.ForOp)]
    assert len(loops) == 2, "a prologue that fills slots, and the loop"
    assert [d.iterations for d in compiled.decided(LoadsRunAhead)] == [2]


def test_loads_of_one_product_share_a_ring() -> None:
    compiled = gemm.compile(*TYPES)
    assert op_counts(compiled.module("aref"))["aref.create"] == 1


@tawa.jit
def two_products(a, b1, b2, c1, c2, K):
    first = tl.zeros((128, 64), tl.float32)
    second = tl.zeros((128, 64), tl.float32)
    for k in range(0, K, 64):
        tile = a.load([0, k])
        first = tl.dot(tile, b1.load([0, k]).T, first)
        second = tl.dot(tile, b2.load([0, k]).T, second)
    c1.store([0, 0], first)
    c2.store([0, 0], second)


def test_two_products_share_their_operand() -> None:
    types = ["desc<f16,128x64>", *["desc<f16,64x64>"] * 2, *["desc<f32,128x64>"] * 2]
    counts = op_counts(two_products.compile(*types, "i32").module("aref"))
    assert counts["aref.create"] == 1, "three tiles travel together"
    assert counts["aref.load_into"] == 3
    assert counts["aref.dot_issue"] == 2
    assert counts["aref.get_enter"] == 1


@tawa.jit
def pointers_only(x, y):
    i = tl.arange(0, 64)
    tl.store(y + i, tl.load(x + i))


def test_a_kernel_without_descriptors_has_one_role() -> None:
    compiled = pointers_only.compile("*f32", "*f32")
    assert set(groups(compiled)) == {"main"}
    (found,) = compiled.decided(NotSpecialised)
    assert found.why == "nothing is loaded through a descriptor"


def test_tile_ops_do_not_survive() -> None:
    for op in gemm.compile(*TYPES).module("aref").walk():
        assert not isinstance(op, DescLoad | Dot)


@tawa.jit
def continued(a, b, c, BETWEEN: tl.constexpr):
    """The second product adds to the first one's result, as it is or changed."""
    acc = tl.dot(a.load([0, 0]), b.load([0, 0]).T)
    if BETWEEN == "twice":
        acc = acc * 2
    more = tl.dot(a.load([0, 64]), b.load([0, 64]).T, acc)
    c.store([0, 0], (more + acc if BETWEEN == "read later" else more).to(tl.float16))


@pytest.mark.parametrize(
    ("between", "waits"), [("nothing", [2]), ("twice", [1, 1]), ("read later", [1, 1])]
)
def test_products_that_only_the_next_one_continues_are_waited_for_with_it(
    between: str, waits: list[int]
) -> None:
    compiled = continued.compile(*TYPES[:3], between)
    block = next(op for op in compiled.module("aref").walk() if isinstance(op, aref.DotIssue))
    assert block.parent is not None
    finished: list[int] = []
    issued = 0
    for op in block.parent.ops:
        issued += isinstance(op, aref.DotIssue)
        if isinstance(op, aref.DotWait):
            finished.append(issued - op.pending.value.data - sum(finished))
    assert finished == waits
