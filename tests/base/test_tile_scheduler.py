"""Plans of programs with different work: complete, even, local, and bounded in size."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tawa.base.kernel_spec import PlanParam
from tawa.base.launch_plans import launch_plan
from tawa.base.options import BadOption, Options
from tawa.base.tile_scheduler import (
    ENTRIES,
    TooManyPrograms,
    Work,
    launched_ctas,
    plan,
    programs_of,
)


def dealt(work: np.ndarray, first: int, shared: int = 1) -> list[list[int]]:
    ctas = launched_ctas(len(work), first, shared)
    table = plan(work, first, max(first, ctas))
    assert table.shape == (ENTRIES,)
    return [programs_of(table, cta) for cta in range(max(first, ctas))]


def evenness(work: np.ndarray, ctas: int) -> float:
    loads = np.array([work[programs].sum() for programs in dealt(work, ctas)])
    return float(loads.mean() / loads.max())


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=600),
    st.integers(1, 150),
    st.integers(1, 40),
    st.integers(1, 2),
)
def test_every_program_runs_once(work: list[int], ctas: int, repeats: int, shared: int) -> None:
    lists = dealt(np.array(work * repeats, np.int64), min(ctas, len(work)), shared)
    assert sorted(chain(*lists)) == list(range(len(work) * repeats))


def test_more_programs_than_a_plan_has_room_for() -> None:
    work = np.random.default_rng(0).integers(1, 100, 50_000)
    assert sorted(chain(*dealt(work, 132))) == list(range(len(work)))
    assert evenness(work, 132) > 0.95
    for count, ctas in ((10_000_000, 132), (8000, 8000)):
        with pytest.raises(TooManyPrograms):
            plan(np.ones(count, np.int64), ctas)


def causal(blocks: int, heads: int) -> np.ndarray:
    """Work of causal attention's programs, the longest rows of a head first."""
    return np.tile(np.arange(blocks, 0, -1) + 1, heads).astype(np.int64)


@pytest.mark.parametrize("blocks", [8, 16, 32, 64, 128])
def test_triangles_are_even(blocks: int) -> None:
    assert evenness(causal(blocks, 2048 // blocks), 132) > 0.98


@pytest.mark.parametrize("blocks", [4, 8, 16, 32])
def test_ctas_that_share_a_multiprocessor_leave_programs_to_later_ones(blocks: int) -> None:
    work, first = causal(blocks, 4096 // blocks), 264
    lists = dealt(work, first, shared=2)
    assert sorted(chain(*lists)) == list(range(len(work)))
    assert 2 * first < len(lists) <= 2048
    share = sum(work[programs].sum() for programs in lists[first:]) / work.sum()
    assert 0.2 < share < 0.3
    for fast in (1.0, 1.3):  # half of the places get on faster
        free = [
            (work[own].sum() / (fast if cta % 2 else 1.0), cta) for cta, own in enumerate(lists)
        ]
        places = sorted(free[:first])
        for later in lists[first:]:
            time, cta = heappop(places)
            heappush(places, (time + work[later].sum() / (fast if cta % 2 else 1.0), cta))
        ends = np.array([time for time, _ in places])
        assert ends.mean() / ends.max() > 0.95


def test_programs_that_follow_each_other_run_at_the_same_time() -> None:
    work = causal(32, 64)
    for programs in dealt(work, 132):
        assert programs == sorted(programs)
        starts = (np.cumsum(work[programs]) - work[programs]) / (work.sum() / 132)
        place = np.array(programs) / len(work)
        assert abs(starts - place).max() < 0.25  # of the whole launch


def test_work_is_evaluated_for_every_program() -> None:
    steps = (
        ("program", 0), ("grid", 0), ("argument", 2), ("subi", 1, 0), ("muli", 3, 2),
        ("constant", 3), ("divsi", 4, 5),
    )  # fmt: skip
    work = Work(steps)
    assert work.arguments == (2,)
    found = work.evaluate((4, 2), [None, None, 5])
    assert found.tolist() == [20 // 3, 15 // 3, 10 // 3, 5 // 3] * 2
    assert Work((("constant", 7),)).evaluate((3,), []).tolist() == [7, 7, 7]


@pytest.mark.parametrize(("a", "b"), [(7, 2), (-7, 2), (7, -2), (-7, -2), (5, 0)])
def test_division_is_the_hardwares(a: int, b: int) -> None:
    def value(name: str) -> int:
        steps = (("constant", a), ("constant", b), (name, 0, 1))
        return int(Work(steps).evaluate((1,), [])[0])

    assert value("divsi") == (-1 if b == 0 else int(a / b))
    assert value("remsi") == (a if b == 0 else a - b * int(a / b))


def test_an_empty_grid_has_a_plan_without_programs() -> None:
    table = launch_plan(PlanParam((("constant", 7),)), (0,), [], 132, 0)
    assert programs_of(table, 0) == []


def test_other_words_than_even_are_refused() -> None:
    with pytest.raises(BadOption) as raised:
        Options(persistent=True, deal="odd")
    assert raised.value.expected == "a whole number from 1 to 8, or 'even'"
