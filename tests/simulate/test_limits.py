"""What cannot be seen to its end is never called proved: states, operations, clusters, time."""

import numpy as np
import pytest
from lowering import HEAD, kernel_in, modules, run_time_arguments
from protocols import correct

from tawa.cli.check import NOT_PROVED, PROVED, check_example
from tawa.simulate import check
from tawa.simulate.interpret import limits as limiting
from tawa.simulate.interpret.limits import LimitReached, Limits

WHILE = HEAD + (
    "def kernel(x_ptr, LIMIT: tl.constexpr):\n"
    "    turns = 0\n"
    "    while tl.load(x_ptr + turns % 4) < LIMIT:\n"
    "        turns += 1\n"
    "    tl.store(x_ptr + 4 + tl.program_id(0), turns)\n"
)
RANGE = HEAD + (
    "def kernel(x_ptr, turns):\n"
    "    total = 0\n"
    "    for i in range(turns):\n"
    "        total += tl.load(x_ptr + i % 4)\n"
    "    tl.store(x_ptr + 4, total)\n"
)


def checked(tmp_path, source, grid=(1,), named=None, **limits):
    named = named or {"x_ptr": np.zeros(100, np.int32), "LIMIT": 1}
    module = modules(kernel_in(tmp_path, source), named, {})["hopper"]
    arguments = run_time_arguments(module, named)
    return check(module, grid, arguments, schedules=1, limits=Limits(**limits))


def test_a_while_loop_that_never_ends(tmp_path):
    report = checked(tmp_path, WHILE, steps=5000)
    assert not report.proved
    assert not report.one_order
    assert "not proved: a run was stopped after 5000 operations" in report.render()
    assert "proved for this launch" not in report.render()


def test_a_huge_trip_count(tmp_path):
    named = {"x_ptr": np.zeros(8, np.int32), "turns": 2**31 - 1}
    report = checked(tmp_path, RANGE, named=named, steps=3000)
    assert not report.proved
    assert "may never end" in report.render()


def test_a_grid_larger_than_the_bound(tmp_path):
    named = {"x_ptr": np.full(100, 5, np.int32), "LIMIT": 1}
    report = checked(tmp_path, WHILE, (50,), named, clusters=3)
    assert not report.proved
    assert "not proved: only 3 of 50 clusters were run" in report.render()
    assert checked(tmp_path, WHILE, (50,), named).proved


def test_the_time_limit_stops_a_run(tmp_path):
    report = checked(tmp_path, WHILE, seconds=0.3)
    assert not report.proved
    assert "the time limit of 0.3 s was reached" in report.render()
    assert report.seconds < 30


def test_the_time_limit_stops_a_search():
    kernel = correct("cluster")
    grid, arguments = kernel.launch
    report = check(kernel.module(), grid, arguments, schedules=0, limits=Limits(seconds=1.0))
    assert not report.proved
    assert report.states < 145_452
    assert "the time limit of 1 s was reached" in report.render()


def test_the_state_limit_leaves_what_the_order_shows():
    report = correct("cluster").check(bound=50, schedules=0)
    assert not report.proved
    assert report.one_order
    assert "the bound of 50 states was reached" in report.render()
    assert "every phase has its place" in report.render()


KERNEL = """
import numpy as np
import tawa
import tawa.language as tl


@tawa.jit
def count(x_ptr, LIMIT: tl.constexpr):
    turns = 0
    while tl.load(x_ptr + turns % 4) < LIMIT:
        turns += 1
    tl.store(x_ptr + 4 + tl.program_id(0), turns)


def example_count():
    count[(20,)](np.full(40, VALUE, np.int32), 1)
"""


@pytest.mark.parametrize(
    ("value", "limits", "status", "text"),
    [
        (5, Limits(), PROVED, "proved for this launch"),
        (0, Limits(steps=2000), NOT_PROVED, "stopped after 2000 operations"),
        (5, Limits(clusters=4), NOT_PROVED, "only 4 of 20 clusters"),
        (0, Limits(seconds=0.5), NOT_PROVED, "the time limit of 0.5 s"),
    ],
)
def test_the_command_line(
    tmp_path, capsys: pytest.CaptureFixture[str], value, limits, status, text
):
    path = tmp_path / "count.py"
    path.write_text(KERNEL.replace("VALUE", str(value)))
    assert check_example(f"{path}:count", [], schedules=1, limits=limits) == status
    out = capsys.readouterr().out
    assert text in out
    assert ("proved for this launch" in out) == (status == PROVED)


@pytest.mark.parametrize("steps", [1, 5, 255, 256, 300])
def test_so_many_operations_and_no_more(steps: int):
    limits = Limits(steps=steps)
    for _ in range(2):  # each cluster's run has all of them
        limits.start_run()
        for _ in range(steps):
            limits.step()
        with pytest.raises(LimitReached, match=f"after {steps} operations"):
            limits.step()


def test_the_clock_is_looked_at_now_and_then(monkeypatch: pytest.MonkeyPatch):
    """At every 256th step or state; time that is used up to the end is not over."""
    now = [100.0]
    monkeypatch.setattr(limiting.time, "perf_counter", lambda: now[0])
    limits = Limits(seconds=2.0, _begin=100.0)
    now[0] = 102.0
    assert not limits.out_of_time()
    limits.look()
    now[0] = 102.5
    assert [n for n in range(600) if limits.out_of_time(n)] == [0, 256, 512]
    limits.start_run()
    for _ in range(255):
        limits.step()
    with pytest.raises(LimitReached, match="the time limit of 2 s was reached"):
        limits.step()
    with pytest.raises(LimitReached):
        limits.look()
    unlimited = Limits()
    assert not unlimited.out_of_time()
    for _ in range(600):
        unlimited.step()
