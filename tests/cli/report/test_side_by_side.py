from pathlib import Path

import pytest

from tawa.base.timeline import Interval
from tawa.cli.report.side_by_side import compared, table
from tawa.cli.report.timeline import timeline
from tawa.cli.reporting import LaunchCommand, against_of, report_of

EXAMPLES = Path(__file__).parents[3] / "examples"


def intervals(work: float, waiting: float) -> list[Interval]:
    return [
        Interval("math.0", "work", 0, work),
        Interval("math.0", "barrier wait", work, work + waiting),
    ]


def test_times_stand_beside_each_other_whatever_the_clocks():
    predicted = timeline("predicted", intervals(1000, 500), 1.0)
    measured = timeline("measured", [*intervals(3000, 500), Interval("load", "work", 0, 2000)], 2.0)
    rows = {(row.lane, row.what): row for row in compared(predicted, measured)}
    assert (rows["all", "first to last"].one, rows["all", "first to last"].other) == (1.5, 1.75)
    assert rows["math.0", "work"].ratio == pytest.approx(1.5)
    assert rows["math.0", "barrier wait"].ratio == pytest.approx(0.5)
    assert (rows["load", "work"].one, rows["load", "work"].ratio) == (None, None)
    text = table(predicted, measured, ("predicted", "<measured>"))
    assert "&lt;measured&gt;, µs" in text
    assert '<td class="n">1.50</td></tr>' in text


def test_a_measured_timeline_gets_a_card_of_both():
    from tawa.cli.report.page import html

    command = LaunchCommand(str(EXAMPLES / "softmax.py:softmax"))
    alone = report_of(command, None)
    both = report_of(command, None, timeline("measured", intervals(100, 10), 1.7))
    assert "Predicted and measured" in html(both)
    assert "Predicted and measured" not in html(alone)


def test_what_a_kernel_is_compared_with():
    one = LaunchCommand(str(EXAMPLES / "softmax.py:softmax"), [], [], ["num_warps=4"])
    other = against_of(one, ["num_warps=8"])
    assert other.found.name == "softmax"
    assert other.options == ["num_warps=4", "num_warps=8"]
    other = against_of(one, [str(EXAMPLES / "gemm.py:gemm"), "persistent=False"])
    assert other.found.name == "gemm"
    assert other.options == ["num_warps=4", "persistent=False"]
