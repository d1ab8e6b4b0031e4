"""The timing machine against micro-benchmarks on an H100 (`benchmarks/results/costs.jsonl`)."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tawa.machine.chips import H100
from tawa.simulate.timing.code import COMMIT, MATRIX, MATRIX_WAIT, WORK, merged
from tawa.simulate.timing.machine import Actor, Machine, Rates
from tawa.simulate.timing.work import Work

ROWS = Path(__file__).parents[2] / "benchmarks" / "results" / "costs.jsonl"
ROUNDS, WIDTH = 32, 64
EXCHANGE = Work(1.0, latency=H100.costs.shuffle, ordered=True)
SOFTMAX = merged([Work(63.0, 126.0), EXCHANGE, Work(1.0, 2.0), EXCHANGE, Work(227.0, 68.0, 520.0)])
"""64 elements: maxima, two exchanges, then multiply-adds, exponentials, sums, packing."""


def measured(probe: str) -> dict[str, float]:
    rows = map(json.loads, ROWS.read_text().splitlines())
    return next(row["clocks"] for row in rows if row["case"].get("probe") == probe)


def matrix(n: int, rounds: int, pending: int) -> Iterator[tuple]:
    for _ in range(rounds):
        for _ in range(4):
            yield MATRIX, n / 2
        yield (COMMIT,)
        yield MATRIX_WAIT, pending
    yield MATRIX_WAIT, 0


def softmax() -> Iterator[tuple]:
    for _ in range(ROUNDS):
        for work in SOFTMAX:
            yield WORK, work


def run(*programs: Iterator[tuple]) -> list[float]:
    actors = [Actor(str(i), 0, steps) for i, steps in enumerate(programs)]
    Machine(H100, Rates(50.0, 20.0), actors, [0]).run()
    return [actor.now for actor in actors]


@pytest.mark.parametrize("pending", [0, 1])
@pytest.mark.parametrize(
    ("n", "groups"), [(64, 1), (128, 1), (256, 1), (64, 2), (128, 2), (256, 2), (128, 3), (80, 3)]
)
def test_warp_groups_share_the_tensor_core(n: int, groups: int, pending: int):
    probe = measured(f"wgmma n{n}, {groups} groups, A in shared")
    expected = probe[f"group 0: loop, wait {pending}, an instruction"]
    found = max(run(*(matrix(n, ROUNDS, pending) for _ in range(groups)))) / (4 * ROUNDS)
    assert found == pytest.approx(expected, rel=0.03)


def test_issue_holds_a_warp_group_until_its_instructions_fit_the_queue():
    probe = measured("wgmma n128, 1 groups, A in shared")
    actor = Actor("0", 0, iter([*[(MATRIX, 64.0)] * 16, (COMMIT,)]))
    Machine(H100, Rates(50.0, 20.0), [actor], [0]).run()
    assert actor.now == pytest.approx(probe["group 0: 16 issued after"], rel=0.1)


@pytest.mark.parametrize("groups", [2, 3])
def test_exponentials_of_several_groups_take_turns(groups: int):
    probe = measured(f"softmax alone, {groups} groups")
    found = max(run(*(softmax() for _ in range(groups)))) / ROUNDS / WIDTH
    assert found == pytest.approx(probe["group 0: an element"], rel=0.25)


@pytest.mark.parametrize("n", [128, 256])
def test_a_busy_tensor_core_slows_ordinary_code(n: int):
    probe = measured(f"softmax beside wgmma n{n}, 2 groups")
    rounds = 4 * ROUNDS * 256 // n
    _, *ends = run(matrix(n, rounds, 1), softmax(), softmax())
    assert max(ends) / ROUNDS / WIDTH == pytest.approx(probe["group 1: an element"], rel=0.25)
    assert max(ends) > 1.2 * max(run(softmax(), softmax()))


def test_a_piece_of_work_is_slower_as_long_as_the_tensor_core_is_busy():
    """Whichever of them begins first, and whether the product ends before it."""

    def piece() -> Iterator[tuple]:
        yield WORK, Work(4000.0)

    (alone,) = run(piece())
    slowed, _ = run(piece(), matrix(256, 40, 1))
    assert slowed > 1.2 * alone
    assert run(matrix(256, 40, 1), piece())[1] == pytest.approx(slowed, rel=0.02)
    end, busy = run(piece(), matrix(256, 4, 1))
    assert end - alone == pytest.approx(busy * (1 - alone / slowed), rel=0.05)
