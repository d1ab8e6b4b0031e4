"""Loops that wait for programs that run beside theirs end; of others the simulator says so."""

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.simulate.interpret.hopper import run as run_hopper
from tawa.simulate.interpret.spinning import Order, WaitsForever
from tawa.simulate.interpret.tile import run as run_tile


@tawa.jit
def pass_on(flags, out, n, BACKWARD: tl.constexpr):
    """Each program waits for its neighbour's flag."""
    pid = tl.program_id(0)
    before = pid + 1 if BACKWARD else pid - 1
    if (before >= 0) & (before < n):
        while tl.atomic_add(flags + before, 0) == 0:
            pass
    tl.store(out + pid, pid)
    tl.atomic_xchg(flags + pid, 1)


def run(level: str, backward: bool) -> np.ndarray:
    compiled = pass_on.compile("*i32", "*i32", "i32", backward)
    flags, out = np.zeros(4, np.int32), np.full(4, -1, np.int32)
    simulate = run_hopper if level == "hopper" else run_tile
    simulate(compiled.module(level), (4,), [flags, out, 4])
    return out


@pytest.mark.parametrize("level", ["tile", "hopper"])
def test_a_program_may_wait_for_an_earlier_one(level):
    assert run(level, False).tolist() == [0, 1, 2, 3]


def run_on(
    level: str, programs: int, together: int, *, kernel: tawa.Kernel = pass_on
) -> np.ndarray:
    """The kernel's output, where so many programs fit on the device."""
    flags, out = np.zeros(programs, np.int32), np.full(programs, -1, np.int32)
    types = ("*i32", "*i32", "i32")
    compiled = kernel.compile(*types, True) if kernel is pass_on else kernel.compile(*types)
    if level == "hopper":
        module = compiled.module("hopper")
        run_hopper(module, (programs,), [flags, out, programs], multiprocessors=together)
    else:
        run_tile(compiled.module("tile"), (programs,), [flags, out, programs], resident=together)
    return out


@pytest.mark.parametrize("level", ["tile", "hopper"])
def test_a_program_may_wait_for_one_that_runs_beside_it(level):
    assert run(level, True).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("level", ["tile", "hopper"])
def test_waiting_for_a_program_that_does_not_fit_is_said(level):
    with pytest.raises(WaitsForever, match=r"program \[0, 0, 0\] waits") as error:
        run_on(level, 5, 4)
    assert error.value.span is not None


@tawa.jit
def barrier_twice(count, out, n):
    """All programs meet, twice."""
    pid = tl.program_id(0)
    tl.atomic_add(count, 1)
    while tl.load(count) < n:
        pass
    polls = 0
    tl.atomic_add(count, 1)
    while tl.load(count, volatile=True) < 2 * n:
        polls += 1
    tl.store(out + pid, tl.where(polls >= 0, pid, -1))


@pytest.mark.parametrize("level", ["tile", "hopper"])
def test_programs_meet(level):
    assert run_on(level, 4, 4, kernel=barrier_twice).tolist() == [0, 1, 2, 3]
    with pytest.raises(WaitsForever, match="waits for memory that nobody changes"):
        run_on(level, 5, 4, kernel=barrier_twice)


@tawa.jit
def never_ends(flags, out, n):
    """A loop that counts is no loop that gets on."""
    polls = 0
    while tl.load(flags) == 0:
        polls += 1
    tl.store(out, polls)


@tawa.jit
def gives_up(flags, out, n):
    """A loop that counts to its end needs nobody."""
    polls = 0
    while (tl.load(flags) == 0) & (polls < 1100):
        polls += 1
    tl.store(out + tl.program_id(0), polls)


@pytest.mark.parametrize("level", ["tile", "hopper"])
def test_counting_ends_nothing_but_what_it_decides(level):
    with pytest.raises(WaitsForever):
        run_on(level, 2, 2, kernel=never_ends)
    if level == "tile":
        assert run_on(level, 2, 2, kernel=gives_up).tolist() == [1100, 1100]


@tawa.jit
def locked(lock, out, n):
    """A sum under a lock."""
    while tl.atomic_cas(lock, 0, 1) != 0:
        pass
    tl.store(out, tl.load(out) + tl.program_id(0) + 1)
    tl.atomic_xchg(lock, 0, sem="release")


@pytest.mark.parametrize("level", ["tile", "hopper"])
def test_a_lock_is_taken_by_more_programs_than_fit(level):
    assert run_on(level, 9, 2, kernel=locked)[0] == 44


@tawa.jit
def tickets(counter, out):
    at = tl.program_id(0) * 3
    first = tl.atomic_add(counter, 1)
    second = tl.atomic_add(counter, 1) + first * 0
    tl.store(out + at, first)
    tl.store(out + at + 1, second)
    tl.store(out + at + 2, tl.load(counter))


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (Order(), [[0, 1, 2], [2, 3, 4], [4, 5, 6]]),
        (Order(switching=True), [[0, 3, 6], [1, 4, 6], [2, 5, 6]]),
        (Order(switching=True, backwards=True), [[2, 5, 6], [1, 4, 6], [0, 3, 6]]),
    ],
)
def test_programs_take_turns_at_accesses(order, expected):
    """One after the other, or in step: another program's turn comes before each access.

    Backwards, the last to start takes the first ticket.
    """
    found = []
    for resident in (1, 8):
        counter, out = np.zeros(1, np.int32), np.zeros((3, 3), np.int32)
        module = tickets.compile(counter, out).module("tile")
        run_tile(module, (3,), [counter, out], resident=resident, order=order)
        found.append(out.tolist())
    assert found[0] == [[0, 1, 2], [2, 3, 4], [4, 5, 6]]  # there is room for one
    assert found[1] == expected


def test_drawn_orders_are_the_same_for_a_seed():
    counter, out = np.zeros(1, np.int32), np.zeros((6, 3), np.int32)
    module = tickets.compile(counter, out).module("tile")
    found = []
    for seed in (0, 1, 2, 0, 1, 2):
        counter[:] = 0
        run_tile(module, (6,), [counter, out], order=Order(switching=True, seed=seed))
        assert sorted(out[:, :2].flatten().tolist()) == list(range(12))
        found.append(out.tolist())
    assert found[:3] == found[3:]
    assert found[0] != found[1]


def test_orders_are_described():
    orders = (Order(), Order(switching=True), Order(switching=True, seed=0), Order(seed=3),
              Order(switching=True, backwards=True))  # fmt: skip
    assert [order.describe() for order in orders] == [
        "one after the other", "in step", "drawn with seed 0", "one after the other",
        "in step, backwards",
    ]  # fmt: skip
