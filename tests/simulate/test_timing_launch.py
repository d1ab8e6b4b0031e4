"""Predictions of whole launches: consistent, quick, and reacting to what should matter."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from protocols import KINDS, Kernel, correct
from tests.work import calls_made

import tawa
import tawa.language as tl
from tawa.kernels.gemm import gemm
from tawa.machine.chips import H100
from tawa.simulate.interpret import errors
from tawa.simulate.timing import launch as timing_launch
from tawa.simulate.timing.code import ITERATION, WORK, merged
from tawa.simulate.timing.launch import (
    Launch,
    LaunchPrediction,
    _samples,  # pyright: ignore[reportPrivateUsage]
    predict_launch,
)
from tawa.simulate.timing.machine import Rates
from tawa.simulate.timing.sample import cut_of, iterations_of
from tawa.simulate.timing.work import Work

RATES = Rates(50.0, 20.0)


def prediction(kind: str = "cooperative", k: int = 320, **options) -> LaunchPrediction:
    kernel = Kernel(correct(kind).text, k)
    grid, arguments = kernel.launch
    return predict_launch(kernel.module(), grid, arguments, **{"clock_ghz": 1.5, **options})


@pytest.mark.parametrize("kind", KINDS)
def test_every_protocol_comes_to_its_end(kind: str):
    found = prediction(kind)
    assert found.cycles > 0
    assert all(0 <= share <= 1 for share in found.shares.values())
    assert found.bound in {*found.shares, "latency"}


def test_the_tensor_core_takes_the_time_of_its_products():
    kernel = Kernel(correct("cooperative").text, 640)
    launch = Launch(kernel.module(), *kernel.launch, H100)
    sample = launch.replay((0, 0, 0), RATES, 1)
    assert sample.busy["tensor"] == pytest.approx(2 * 128 * 128 * 640 / H100.tensor_flops)


def test_a_longer_product_takes_longer_by_its_own_time():
    short, long = prediction(k=640), prediction(k=6400)
    extra = 2 * 128 * 128 * (6400 - 640) / H100.tensor_flops
    assert extra <= long.cycles - short.cycles < 2 * extra


def test_time_follows_the_clock():
    slow, fast = (prediction(k=12800, clock_ghz=ghz) for ghz in (1.0, 2.0))
    assert slow.kernel_seconds > 1.8 * fast.kernel_seconds
    assert "at 1.000 GHz" in slow.render()


def test_slow_copies_are_what_a_kernel_waits_for():
    slow = prediction(target=replace(H100, l2_gbs=20.0))
    assert slow.cycles > 2 * prediction().cycles
    assert slow.bound == "copies"


def compiled_gemm(m: int, n: int, k: int, block: tuple[int, int], **options):
    """The hopper module of a product, its grid and arguments without data."""
    shapes = [
        f"desc<f16,{block[0]}x64>",
        f"desc<f16,{block[1]}x64>",
        f"desc<f16,{block[0]}x{block[1]}>",
    ]
    compiled = gemm.compile(
        *shapes, "i32:16", "i32:16", "i32:16",
        TRANSPOSE_A=False, TRANSPOSE_B=True, BLOCK_M=block[0], BLOCK_N=block[1], BLOCK_K=64,
        GROUP_M=8, ACCUMULATOR=tl.float32, **options,
    )  # fmt: skip
    describe = tawa.TensorDescriptor.from_tensor
    arrays = [np.empty(shape, np.float16) for shape in ((m, k), (n, k), (m, n))]
    boxes = [[block[0], 64], [block[1], 64], list(block)]
    arguments = [describe(a, b) for a, b in zip(arrays, boxes, strict=True)]
    grid = (tawa.cdiv(m, block[0]) * tawa.cdiv(n, block[1]),)
    return compiled.module("hopper"), grid, [*arguments, m, n, k]


def test_waves_and_tail_of_a_plain_grid():
    module, _, arguments = compiled_gemm(128 * 133, 128, 512, (128, 128), num_stages=4)
    full = predict_launch(module, (132,), arguments, clock_ghz=1.5)
    more = predict_launch(module, (133,), arguments, clock_ghz=1.5)
    assert full.kernel_seconds < more.kernel_seconds
    assert more.kernel_seconds == pytest.approx(2 * full.kernel_seconds, rel=0.35)


def test_ctas_that_share_a_multiprocessor_share_its_tensor_core():
    module, grid, arguments = compiled_gemm(
        1024, 2048, 1024, (64, 64), num_stages=3, specialize=False
    )
    launch = Launch(module, grid, arguments, H100)
    assert launch.resident > 1
    one, all_ = (launch.replay((0, 0, 0), RATES, n) for n in (1, launch.resident))
    assert one.cycles < all_.cycles < launch.resident * one.cycles
    assert all_.busy["tensor"] == pytest.approx(launch.resident * one.busy["tensor"])


def test_a_small_grid_is_spread_before_it_shares():
    module, grid, arguments = compiled_gemm(
        512, 512, 1024, (64, 64), num_stages=3, specialize=False
    )
    assert grid == (64,)
    alone, room_for_four = (
        predict_launch(module, grid, arguments, clock_ghz=1.5, ctas_per_multiprocessor=n)
        for n in (1, 4)
    )
    assert room_for_four.kernel_seconds == alone.kernel_seconds
    assert room_for_four.waves == alone.waves < 1


@cache
def tall_product(rows: int) -> tuple[int, LaunchPrediction]:
    """The work of predicting a persistent product of rows x 8192 x 2048, and what it finds."""
    module, grid, arguments = compiled_gemm(
        rows, 8192, 2048, (128, 256), persistent=True, consumers=2, num_stages=4
    )
    found: list[LaunchPrediction] = []
    work = calls_made(lambda: found.append(predict_launch(module, grid, arguments, clock_ghz=1.4)))
    return work, found[0]


def test_a_large_persistent_product_is_predicted():
    found = tall_product(8192)[1]
    ideal = 2 * 8192**2 * 2048 / (4096 * 132 * 1.4e9)
    assert ideal < found.kernel_seconds < 1.3 * ideal
    assert found.bound == "tensor"


def test_a_prediction_replays_a_part_of_a_long_launch():
    assert tall_product(16384)[0] < 1.2 * tall_product(8192)[0]


def test_a_long_timeline_is_cut(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timing_launch, "MOST_SHOWN", 400)
    module, grid, arguments = compiled_gemm(8192, 8192, 64, (128, 128), persistent=True)
    found = predict_launch(module, grid, arguments, clock_ghz=1.5, timeline=True)
    assert found.first is not None
    assert 10 <= found.first.left_out < 40
    assert found.first.cycles < found.cycles


def test_a_deadlock_is_an_error():
    text = correct("cooperative").text
    broken = text.replace("arrivals 2", "arrivals 3")
    assert broken != text
    kernel = Kernel(broken, 640)
    with pytest.raises(errors.Deadlock, match="nobody can go on"):
        predict_launch(kernel.module(), *kernel.launch, clock_ghz=1.5)


def test_straight_line_work_runs_together_up_to_what_it_depends_on():
    first, exchange, rest = (
        Work(10.0),
        Work(2.0, latency=30.0, ordered=True),
        Work(5.0, special=8.0),
    )
    assert merged([first, exchange, rest, rest]) == [
        Work(12.0, latency=30.0, ordered=True),
        Work(10.0, special=16.0),
    ]


@pytest.mark.parametrize(
    "options", [{"num_stages": 4}, {"ping_pong": True}, {"cluster": 2, "num_stages": 4}], ids=str
)
def test_a_few_tiles_tell_the_time_of_all(options: dict):
    """Tiles left out take what those that were replayed took, whatever the roles' loops are."""
    module, grid, arguments = compiled_gemm(
        8192, 8192, 2048, (128, 128), persistent=True, consumers=2, **options
    )
    sampled = predict_launch(module, grid, arguments, clock_ghz=1.4)
    whole = predict_launch(module, grid, arguments, clock_ghz=1.4, whole=True)
    assert sampled.seconds == pytest.approx(whole.seconds, rel=0.01)
    assert sampled.shares["tensor"] == pytest.approx(whole.shares["tensor"], rel=0.02)
    assert sampled.cycles != whole.cycles


def test_turns_that_differ_take_time_by_what_they_do():
    """A turn of the loop outside has 1, 5, 9, ... products: what is left out is long."""
    launch = Launch(*uneven(turns=40), H100)
    sampled, whole = (launch.replay((0, 0, 0), RATES, 1, whole=w) for w in (False, True))
    assert sampled.cycles == pytest.approx(whole.cycles, rel=0.03)
    assert sampled.cycles != whole.cycles
    assert sampled.busy["tensor"] == pytest.approx(whole.busy["tensor"], rel=0.02)


def uneven(turns: int):
    """A triangle of products: a loop of loops that grow."""
    compiled = triangle.compile("desc<f16,128x64>", "desc<f16,128x128>", turns)
    describe = tawa.TensorDescriptor.from_tensor
    a, c = np.empty((128, 64), np.float16), np.empty((128, 128), np.float16)
    return compiled.module("hopper"), (1,), [describe(a, [128, 64]), describe(c, [128, 128])]


@tawa.jit
def triangle(a_desc, c_desc, TURNS: tl.constexpr):
    for turn in range(TURNS):
        acc = tl.zeros((128, 128), tl.float32)
        for _ in range(1 + 4 * turn):
            a = a_desc.load([0, 0])
            acc = tl.dot(a, a.T, acc)
        c_desc.store([0, 0], acc.to(tl.float16))


def test_a_turn_before_the_loop_counts_as_work():
    """A joined pipeline has its first tile's turns before the loop over tiles."""
    tile = [(WORK, Work(100.0))] * 30
    actor = iterations_of(
        iter([*tile, *[step for _ in range(19) for step in ((ITERATION,), *tile)]])
    )
    cut = cut_of([actor], steps=200)
    assert cut is not None
    assert cut.before == 3000
    assert cut.factor == pytest.approx(20 / (1 + len(cut.kept)))


@tawa.jit
def ragged(x, lengths, out, WIDTH: tl.constexpr, N: tl.constexpr):
    """Sums of rows whose lengths are loaded."""
    row, total = tl.program_id(0), tl.zeros((N,), tl.float32)
    for at in range(0, tl.load(lengths + row), N):
        total += tl.load(x + row * WIDTH + at + tl.arange(0, N))
    tl.store(out + row * N + tl.arange(0, N), total)


def test_lengths_are_read_from_the_hosts_arrays() -> None:
    width, n = 1 << 16, 1024
    x, out = np.zeros((8, width), np.float32), np.zeros((8, n), np.float32)

    def time(lengths) -> float:
        return ragged.predict(x, lengths, out, width, n, grid=(8,)).us

    none, some, whole = (time(np.full(8, k * width // 4, np.int32)) for k in (0, 1, 4))
    assert none < some < whole
    assert some < time(np.int32([width] + [0] * 7)) <= whole


def test_what_is_said_of_a_launch() -> None:
    found = LaunchPrediction(
        seconds=12.5e-6, kernel_seconds=11e-6, clock_ghz=1.7555, bound="tensor core",
        shares={"tensor core": 0.875, "L2": 0.25}, cycles=18234.4, ctas=264, waves=2.0,
    )  # fmt: skip
    assert found.us == pytest.approx(12.5)
    assert found.render() == (
        "predicted 12.5 us at 1.756 GHz, bound by tensor core: 264 CTAs, 2.0 waves of 18234 cycles; "
        "busy: L2 25%, tensor core 88%"
    )


class Grid:
    """A launch whose CTAs take so many cycles; notes which of them are replayed."""

    def __init__(self, *sizes: int, cycles: Any = None, cluster: int = 1, loads: Any = None):
        self.grid, self.cluster, self.persistent = sizes, cluster, loads is not None
        self.loads, self.cycles, self.seen = loads, cycles or (lambda b: 100.0), []

    def replay(self, block: Any, *_given: Any) -> Any:
        self.seen.append(block)
        return SimpleNamespace(cycles=self.cycles(block))

    def sampled(self) -> list[Any]:
        found = _samples(self, None, 1, True)  # type: ignore[arg-type]
        assert list(found) == self.seen, "each once"
        return self.seen


def test_ctas_that_are_alike_are_replayed_at_ends_and_in_the_middle() -> None:
    assert Grid(1, 1, 1).sampled() == [(0, 0, 0)]
    assert Grid(9, 1, 1).sampled() == [(0, 0, 0), (8, 0, 0), (4, 0, 0)]
    assert Grid(9, 5, 1).sampled() == [
        (0, 0, 0), (8, 0, 0), (4, 0, 0), (0, 4, 0), (0, 2, 0)]  # fmt: skip
    assert Grid(1, 1, 2).sampled() == [(0, 0, 0), (0, 0, 1)]
    assert Grid(10, 1, 1, cluster=2).sampled() == [(0, 0, 0), (8, 0, 0), (4, 0, 0)]


@pytest.mark.parametrize(("longest", "more"), [(100.9, False), (101.0, False), (101.2, True)])
def test_more_are_replayed_along_an_axis_on_which_they_differ(longest: float, more: bool) -> None:
    grid = Grid(61, 5, 1, cycles=lambda b: longest if b[0] == 60 else 100.0)
    own = [b for b in grid.sampled() if not b[1]]
    assert own[:3] == [(0, 0, 0), (60, 0, 0), (30, 0, 0)]
    assert own[3:] == ([(n, 0, 0) for n in (10, 20, 40, 50)] if more else [])
    assert [b for b in grid.seen if b[1]] == [(0, 4, 0), (0, 2, 0)]


def test_persistent_ctas_with_the_least_and_the_most_to_load() -> None:
    assert Grid(4, 1, 1, loads=[10.0, 10.05, 9.95, 10.0]).sampled() == [(0, 0, 0)]
    assert Grid(4, 1, 1, loads=[10.0, 12.0, 8.0, 10.0]).sampled() == [
        (0, 0, 0), (2, 0, 0), (1, 0, 0)]  # fmt: skip
    assert Grid(4, 1, 1, loads=[10.0, 10.0, 10.0, 12.0], cluster=2).sampled() == [
        (0, 0, 0), (2, 0, 0)]  # fmt: skip
