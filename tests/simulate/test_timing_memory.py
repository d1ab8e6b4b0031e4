"""Which loads a prediction takes from device memory, and what CTAs draw from a counter."""

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.machine.chips import H100
from tawa.simulate import predict_launch
from tawa.simulate.timing.launch import Launch
from tawa.simulate.timing.memory import misses


def test_what_a_neighbour_loads_too_comes_from_memory_once():
    same, own = ("b", 100, 0), [("a", 100, cta) for cta in range(4)]
    found = misses([[box, same] for box in own], 800.0, 500.0, 0.0)
    assert found.fresh == pytest.approx((1.0, 0.25))
    assert found.moved == found.fresh
    assert found.rest == 0.0


def test_what_was_written_before_makes_room():
    boxes = [[("a", 100, cta)] for cta in range(2)]
    assert misses(boxes, 400.0, 300.0, 150.0).moved == (350 / 200,)
    assert misses(boxes, 400.0, 300.0, 150.0).rest == pytest.approx(100 / 200)


def test_what_is_written_back_is_so_once():
    """Each load makes room for what it brings, until all that was written has gone."""
    found = misses([[("a", 100, turn) for turn in range(3)]], 300.0, 300.0, 150.0)
    assert found.moved == (2.0, 1.5, 1.0)
    assert found.fresh == (1.0, 1.0, 1.0)
    assert found.rest == 0.0


def test_what_is_looked_at_again_is_not_loaded():
    found = misses([[("a", 100, 0)] * 3 + [("a", 50, 1)]], 1000.0, 400.0, 0.0)
    assert found.fresh == (1.0, 0.0, 0.0, 1.0)
    assert found.rest == pytest.approx(250 / 650)


def test_each_load_is_counted_where_it_is():
    boxes = [("a", 100, turn if turn % 40 == 0 else 0) for turn in range(200)]
    found = misses([boxes], 20_000.0, 20_000.0, 0.0)
    assert [turn for turn, part in enumerate(found.fresh) if part] == [0, 40, 80, 120, 160]


@tawa.jit
def take(counter, x, N: tl.constexpr):
    ticket = tl.atomic_add(counter, 1)
    while ticket < N:
        at = ticket * 128 + tl.arange(0, 128)
        tl.store(x + at, tl.exp(tl.load(x + at)))
        ticket = tl.atomic_add(counter, 1)


def test_ctas_draw_tickets_in_turn():
    times = []
    for tickets in (1000, 4000):
        module = take.compile("*i32:16", "*f32:16", tickets).module("hopper")
        arguments = [np.zeros(1, np.int32), np.empty(128 * tickets, np.float32)]
        launch = Launch(module, (132,), arguments, H100)
        parts = [launch.amounts((x, 0, 0)) for x in range(132)]
        assert sum(part.read for part in parts) == sum(part.written for part in parts)
        assert sum(part.read for part in parts) == 4 * 128 * tickets
        times.append(predict_launch(module, (132,), arguments, clock_ghz=1.5).kernel_seconds)
    assert 3 < times[1] / times[0] < 5


@tawa.jit
def copied(x, y, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(y + at, tl.load(x + at).to(tl.float16))


@pytest.mark.parametrize("warps", [1, 2, 8])
def test_what_goes_through_pointers_is_counted_once(warps: int):
    arguments = [np.zeros(4096, np.float32), np.zeros(4096, np.float16)]
    module = copied.compile(*arguments, 1024, num_warps=warps).module("hopper")
    amounts = Launch(module, (4,), arguments, H100).amounts((3, 0, 0))
    assert (amounts.read, amounts.written) == (4 * 1024, 2 * 1024)
    assert (amounts.loads, amounts.loaded, amounts.stored, amounts.flops) == (0, 0, 0, 0)
