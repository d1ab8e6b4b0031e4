"""What kernels that move, sort and reduce become: exchanges, accesses and registers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulation import Arrays, Recorded, Stored, as_float, stored, values
from suite import cases
from xdsl.ir import Operation

import tawa
import tawa.language as tl
from tawa.aref.analysis.layouts import Layouts
from tawa.base.layout import accumulator, blocked
from tawa.codegen.coalesce import sectors, segments
from tawa.driver.compilation import Compilation
from tawa.frontend import lower_to_tile, parse_argument
from tawa.hopper.passes.occupancy import Occupancy
from tawa.ir.decisions.assembling import EntryRegisters, RegistersForMore
from tawa.machine.chips import H100
from tawa.simulate.interpret.hopper import run as run_hopper


def lowered(kernel: Any, grid: tuple[int, ...], args: list[Any], **constants: Any) -> str:
    """Run a kernel in the simulator on its arrays; its last level's text."""
    asked = Recorded(kernel, grid, tuple(args), constants)
    request = asked.request()
    work = Compilation(request.options)
    types = [parse_argument(text) for text in request.types.values()]
    tile = work.level("tile", lower_to_tile(kernel, types, request.constants))
    module = work.level("hopper", work.level("aref", tile))
    named = dict(zip((p.name for p in kernel.parameters), args, strict=False))
    plain = [named[n] for n in request.types]
    run_hopper(module, grid, [v.view(np.ndarray) if isinstance(v, Stored) else v for v in plain])
    return str(module)


def case_text(name: str) -> str:
    """The last level of a case of the suite."""
    launch = cases()[name](Arrays())
    return lowered(launch.kernel, launch.grid, list(launch.args), **launch.constants)


def numbers(array: Stored) -> np.ndarray:
    """The values of an array in storage form."""
    return as_float(array.view(np.ndarray), array.element)


@tawa.jit
def add_rows(x, rows, y, D: tl.constexpr, BM: tl.constexpr, BD: tl.constexpr):
    at = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, BD)
    to = tl.load(rows + at)
    v = tl.load(x + at[:, None] * D + d[None, :], mask=d[None, :] < D, other=0.0)
    tl.atomic_add(y + to[:, None] * D + d[None, :], v, mask=d[None, :] < D)


@pytest.mark.parametrize(("element", "vector"), [("f32", 4), ("f16", 8), ("bf16", 8), ("f64", 1)])
def test_sums_of_neighbours_are_one_instruction(element: str, vector: int) -> None:
    x, to = Arrays().random(element, 16, 48), np.array([3, 1, 1, 0] * 4)
    y = stored(np.zeros((4, 48)), element)
    text = lowered(add_rows, (1,), [x, stored(to, "i32"), y], D=48, BM=16, BD=64)
    expected = np.zeros((4, 48))
    np.add.at(expected, to, values(x))
    assert np.abs(numbers(y) - expected).max() < (1e-5 if element[1:] in ("32", "64") else 0.1)
    assert f"vector = {vector} :" in text
    # Nothing was written before, nobody reads what was there, and no row changes its thread.
    assert "memory_fence" not in text
    assert "shared_store" not in text


@tawa.jit
def publish(x, y, count):
    tl.store(y + tl.arange(0, 32), tl.load(x + tl.arange(0, 32)) * 2)
    tl.atomic_add(count, 1)


def test_what_was_written_is_released_before_an_atomic() -> None:
    x, y, count = (
        Arrays().random("f32", 32),
        stored(np.zeros(32), "f32"),
        stored(np.zeros(1), "i32"),
    )
    text = lowered(publish, (1,), [x, y, count])
    assert "memory_fence" not in text  # the one thread's instruction releases, when all have met
    assert text.index("global_store") < text.index("cta_sync") < text.index("global_atomic")
    assert 'order = "acq_rel"' in text


@tawa.jit
def publish_tile(x, y, counts, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at) * 2)
    tl.atomic_add(counts + at, 1)


def test_the_writes_of_all_threads_are_released_by_atomics_of_a_tile() -> None:
    x, y = Arrays().random("f32", 256), stored(np.zeros(256), "f32")
    text = lowered(publish_tile, (1,), [x, y, stored(np.zeros(256), "i32")], N=256)
    order = ["global_store", "cta_sync", "memory_fence", "global_atomic"]
    assert [text.index(name) for name in order] == sorted(text.index(name) for name in order)


@tawa.jit
def announce(x, y, count, READS: tl.constexpr):
    v = tl.zeros((32,), tl.float32)
    if READS:
        v += tl.load(x + tl.arange(0, 32))
    tl.atomic_add(count, 1)
    tl.store(y + tl.arange(0, 32), v)


@pytest.mark.parametrize("reads", [False, True])
def test_what_was_read_comes_before_a_scalar_atomic(reads: bool) -> None:
    x, y = Arrays().random("f32", 32), stored(np.zeros(32), "f32")
    text = lowered(announce, (1,), [x, y, stored(np.zeros(1), "i32")], READS=reads)
    assert text[: text.index("global_atomic")].count("cta_sync") == reads
    assert 'order = "acq_rel"' in text


@tawa.jit
def ordered(x, y, largest, turned, N: tl.constexpr, K: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.store(y + tl.arange(0, N), tl.sort(v))
    tl.store(largest + tl.arange(0, K), tl.topk(v, K))
    tl.store(turned + tl.arange(0, N), tl.flip(v))


@pytest.mark.parametrize(
    ("n", "k", "warps"), [(64, 1, 1), (128, 8, 1), (256, 256, 4), (256, 32, 2)]
)
def test_sorting_moves_elements_between_lanes(n: int, k: int, warps: int) -> None:
    v = np.random.default_rng(n).integers(-20, 20, n).astype(np.float64)
    v[5], v[6] = -0.0, np.inf
    results = [stored(np.zeros(size), "f32") for size in (n, k, n)]
    text = lowered(ordered, (1,), [stored(v, "f32"), *results], N=n, K=k, num_warps=warps)
    found = [numbers(r) for r in results]
    assert (found[0] == np.sort(v)).all()
    assert np.signbit(found[0]).sum() == np.signbit(v).sum()
    assert (found[1] == np.sort(v)[::-1][:k]).all()
    assert (found[2] == v[::-1]).all()
    assert ("shared_store" in text) == (warps > 1)


def test_split_tiles_stay_in_their_registers() -> None:
    text = case_text("persistent_with_split_epilogue")
    assert "hopper.shared_load" not in text
    assert "hopper.stmatrix" in text


def test_products_of_warps_copy_each_tile_once() -> None:
    text = case_text("fourier_transform_by_dots")
    assert text.count("hopper.warp_product") == 8
    assert text.count("hopper.shared_store") == 8
    assert "fence_proxy_async" not in text


def test_transposed_tiles_are_stored_in_whole_sectors() -> None:
    rows = blocked((64, 64), 4, 8)
    turned = rows.permuted((1, 0))
    wanted = segments((64, 64), 4, 1, 8, 2)
    assert wanted is not None
    assert wanted.verify() is None
    assert sectors(turned, 1, 8, 2) == 4 * sectors(wanted, 1, 8, 2)
    assert sectors(rows, 1, 8, 2) == sectors(wanted, 1, 8, 2) == 64
    kernel = cases()["transposed_halves"](Arrays()).kernel
    x, y = Arrays().random("f16", 64, 128), stored(np.zeros((128, 64)), "f16")
    text = lowered(kernel, (1, 2), [x, y, 64, 128], BM=64, BN=64)
    assert (numbers(y) == values(x).T).all()
    assert text.count("hopper.shared_store") == 1


@pytest.mark.parametrize("shape", [(16, 64), (64, 16), (128, 32), (32, 256)])
@pytest.mark.parametrize("dim", [0, 1])
def test_layouts_of_segments_hold_every_element(shape: tuple[int, int], dim: int) -> None:
    for vector in (1, 2, 4, 8):
        for warps in (1, 2, 4, 8):
            found = segments(shape, warps, dim, vector, 2)
            assert found is None or (found.verify() is None and found.warps == warps)


def test_reshapes_join_digits() -> None:
    rows = blocked((16, 128), 4, 8)
    pairs = rows.reshaped((16, 64, 2))
    assert pairs is not None
    back = pairs.reshaped((16, 128))
    assert back is not None
    assert back.vector(1) == 8
    turned = accumulator((128, 256), 8).reshaped((128, 2, 128))
    assert turned is not None
    assert turned.verify() is None


def test_registers_for_more_ctas() -> None:
    def more(registers: int, threads: int, meets: bool = False, shared: int = 0) -> list[int]:
        return Occupancy(H100, threads, registers, shared, meets).more

    assert more(142, 256) == [2]  # 128 registers let two in
    assert more(200, 256) == []  # too far away
    assert more(128, 256) == []  # two are in: a third needs 80
    assert more(60, 512) == []  # 32 warps are enough
    assert more(56, 512, meets=True) == [4, 3]
    assert more(143, 256, meets=True) == [3, 2]
    assert more(142, 256, shared=200 << 10) == []  # shared memory holds one


def test_kernels_that_take_fewer_registers_say_so() -> None:
    launch = cases()["cross_entropy_with_smoothing"](Arrays())
    types = ["*bf16:16", "i32:16", "*i64:16", "*f32:16", *["i32:16"] * 3, "f32"]
    compiled = launch.kernel.compile(*types, BLOCK=4096, num_warps=16)
    (said,) = compiled.decided(RegistersForMore)
    ctas, registers = said.ctas, [found.registers for found in compiled.decided(EntryRegisters)]
    assert registers[0] * 512 * ctas > 65536 >= registers[-1] * 512 * ctas
    assert f"__launch_bounds__(512, {ctas})" in str(compiled.stages["cu"])
    assert compiled.findings == ()
    assert compiled.spec.ctas_per_sm == 1


@tawa.jit
def statistics(x, y, N: tl.constexpr, TURNS: tl.constexpr):
    at = tl.arange(0, N)
    top, total = float("-inf"), 0.0
    for t in range(TURNS):
        v = tl.load(x + t * N + at)
        new = tl.maximum(top, tl.max(v, 0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(v - new), 0)
        top = new
    tl.store(y, top + tl.log(total))


def test_reductions_after_each_other_meet_once_more_each() -> None:
    x, y = Arrays().random("f32", 3 * 512), stored(np.zeros(1), "f32")
    text = lowered(statistics, (1,), [x, y], N=512, TURNS=3)
    assert abs(numbers(y)[0] - np.log(np.exp(values(x)).sum())) < 1e-5
    assert text.count("hopper.cta_sync") == 2


@tawa.jit
def sorted_tile(x, y, M: tl.constexpr, N: tl.constexpr, DIM: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(y + at, tl.sort(tl.load(x + at), DIM, True))


@pytest.mark.parametrize("dim", [0, 1])
def test_sorting_of_a_tile_asks_each_step_once(dim: int) -> None:
    # 21 steps, each of which uses the one before three times: asked on every way, this never ends.
    v = np.random.default_rng(dim).integers(-100, 100, (8, 64)).astype(np.float64)
    y = stored(np.zeros((8, 64)), "i8")
    lowered(sorted_tile, (1,), [stored(v, "i8"), y], M=8, N=64, DIM=dim)
    assert (numbers(y) == -np.sort(-v, dim)).all()


def test_an_op_is_asked_again_only_where_an_operand_got_a_layout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Operation] = []
    forward = Layouts._forward

    def counted(self: Layouts, op: Operation) -> bool:
        asked.append(op)
        return forward(self, op)

    monkeypatch.setattr(Layouts, "_forward", counted)
    arrays = [stored(np.zeros((8, 64)), "i8") for _ in range(2)]
    lowered(sorted_tile, (1,), arrays, M=8, N=64, DIM=1)
    assert len(asked) < 4 * len(set(asked))


@tawa.jit
def extremes(x, least, where, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    low, at = tl.min(v, 0, return_indices=True)
    tl.store(least, low)
    tl.store(where, at)
    tl.store(where + 1, tl.argmax(v, 0))


@pytest.mark.parametrize(("element", "warps"), [("f32", 4), ("f32", 16), ("i32", 8)])
def test_the_first_of_equal_extremes_is_found_among_many_warps(element: str, warps: int) -> None:
    """Some warps hold nothing but NaN, which is the least that is sought."""
    v = np.random.default_rng(warps).integers(-9, 9, 1024).astype(np.float64)
    if element == "f32":
        v[:64], v[700:800] = np.nan, np.nan
    least, where = stored(np.zeros(1), element), stored(np.zeros(2), "i32")
    lowered(extremes, (1,), [stored(v, element), least, where], N=1024, num_warps=warps)
    assert numbers(least)[0] == np.nanmin(v)
    assert list(numbers(where)) == [np.nanargmin(v), np.nanargmax(v)]
