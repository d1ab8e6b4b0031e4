"""Several CUDA texts compiled at a time, their products taken in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tawa.base.errors import TawaError
from tawa.runtime import assemble
from tawa.runtime.assemble import Here, InProcess, Job, in_turn
from tawa.runtime.nvrtc import CudaCompileError

TARGET = "sm_90a"


def text(number: int) -> str:
    return f'extern "C" __global__ void k{number}(int* x) {{ x[0] = {number}; }}'


def begin(number: int) -> Job:
    return InProcess(text(number), TARGET, "kernel.cu")


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "at_a_time", lambda: 3)


def test_a_process_compiles_what_this_one_does():
    apart, here = begin(1).result(), Here(text(1), TARGET, "kernel.cu").result()
    assert (apart.cubin, apart.ptx, apart.report) == (here.cubin, here.ptx, here.report)


def test_what_a_process_can_t_compile_is_this_process_s_error():
    with pytest.raises(CudaCompileError, match="NVRTC rejects"):
        InProcess("__global__ void k() { oops }", TARGET, "kernel.cu").result()


@pytest.mark.usefixtures("three")
def test_products_come_in_order():
    found = [(number, job.result()) for number, job in in_turn(iter(range(5)), begin)]
    assert [number for number, _ in found] == list(range(5))
    assert all(f"k{number}" in product.ptx for number, product in found)


@pytest.mark.parametrize(
    ("cores", "expected"), [(1, 1), (2, 1), (3, 1), (4, 2), (7, 3), (8, 4), (64, 4)]
)
def test_half_of_the_cores_compile(
    monkeypatch: pytest.MonkeyPatch, cores: int, expected: int
) -> None:
    monkeypatch.setattr(assemble, "free_cores", lambda: cores)
    assert assemble.at_a_time() == expected


class Waiting:
    """A job that is done when it is said to be."""

    def __init__(self, *, is_done: bool) -> None:
        self.is_done = is_done

    def done(self) -> bool:
        return self.is_done

    def result(self) -> Any:
        self.is_done = True

    def stop(self) -> None:
        self.is_done = True


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(("is_done", "begun"), [
    (False, [3, 4, 5, 6, 7, 7, 7]),  # as many as may be are under way
    (True, [1, 2, 3, 4, 5, 6, 7]),  # none is begun before it is needed
])  # fmt: skip
def test_how_many_are_begun_before_each_product(is_done: bool, begun: list[int]):
    jobs: list[Waiting] = []

    def noted(number: int) -> Any:
        jobs.append(Waiting(is_done=is_done))
        return jobs[-1]

    assert [len(jobs) for _ in in_turn(iter(range(7)), noted)] == begun


@pytest.mark.usefixtures("three")
def test_closing_stops_what_is_under_way():
    jobs: list[InProcess] = []

    def noted(number: int) -> Job:
        jobs.append(InProcess(text(number), TARGET, "kernel.cu"))
        return jobs[-1]

    turns = in_turn(iter(range(9)), noted)
    next(turns)[1].result()
    turns.close()
    assert 1 <= len(jobs) < 9
    assert all(job.done() for job in jobs)


class Failed(TawaError):
    """Making a candidate fails."""


@pytest.mark.usefixtures("three")
def test_a_candidate_that_can_t_be_made_fails_after_those_before_it():
    def candidates() -> Iterator[int]:
        yield 0
        yield 1
        raise Failed("no third")

    turns = in_turn(candidates(), begin)
    for expected in (0, 1):
        number, job = next(turns)
        assert (number, f"k{number}" in job.result().ptx) == (expected, True)
    with pytest.raises(Failed):
        next(turns)


def test_one_at_a_time_begins_when_its_turn_comes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(assemble, "at_a_time", lambda: 1)
    assert isinstance(assemble.start(text(0), TARGET, "kernel.cu"), Here)
    made: list[int] = []

    def counted() -> Iterator[int]:
        for number in range(3):
            made.append(number)
            yield number

    turns = in_turn(counted(), lambda n: assemble.start(text(n), TARGET, "kernel.cu"))
    next(turns)
    assert made == [0]
