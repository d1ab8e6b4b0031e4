"""`kernel.explain` and `tawa explain FILE.py:NAME`: lines, what binds, and what would gain."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tawa
import tawa.language as tl
from tawa.base.errors import TawaError
from tawa.cli.app import command_line
from tawa.cli.report.model import build
from tawa.cli.reporting import LaunchCommand
from tawa.driver.prediction.explanation import (
    ADVICE,
    LEAST_SHARE,
    LEAST_SHOWN,
    SHOWN_LINES,
    TRIED_LINES,
    Change,
    Explanation,
    LineTime,
    _by_lines,  # pyright: ignore[reportPrivateUsage]
    _by_options,  # pyright: ignore[reportPrivateUsage]
    where,
)
from tawa.driver.prediction.options_beside import options_beside, tiles_of
from tawa.simulate.timing.lines import CAUSES, NOWHERE, Line, Spent

GEMM = "examples/gemm.py:gemm"
ROOT = Path(__file__).parents[2]


@tawa.jit
def added(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n)
    tl.store(out + at, total, mask=at < n)


def launch_of_added(**more):
    arrays = [np.empty(1 << 22, np.float32) for _ in range(3)]
    grid = lambda meta: ((1 << 22) // meta["BLOCK"],)  # noqa: E731
    return added.explain(*arrays, 1 << 22, BLOCK=128, grid=grid, **more)


def test_lines_add_up_and_device_memory_binds():
    found = launch_of_added()
    kernel = found.prediction.kernel_seconds * 1e6
    assert sum(line.us for line in found.lines) == pytest.approx(kernel)
    assert found.prediction.bound == "memory"
    assert "bound by memory" in str(found)
    assert any("tl.load" in line.text for line in found.lines)


def test_changes_are_what_a_prediction_says_of_them():
    found = launch_of_added(num_warps=8)
    assert list(found.changes) == sorted(found.changes, key=lambda change: change.us)
    arrays = [np.empty(1 << 22, np.float32) for _ in range(3)]
    for change in found.changes:
        assert change.us < found.prediction.us
        if change.what.startswith("num_warps="):
            warps = int(change.what.partition("=")[2])
            again = added.predict(*arrays, 1 << 22, BLOCK=128, num_warps=warps,
                                  grid=lambda meta: ((1 << 22) // meta["BLOCK"],))  # fmt: skip
            assert again.us == pytest.approx(change.us)


def test_only_what_the_grid_goes_by_is_varied():
    named = {"BLOCK": 128, "HEAD": 64, "n": 1 << 20}
    constants = {"BLOCK": 128, "HEAD": 64}
    assert tiles_of(lambda meta: (meta["n"] // meta["BLOCK"],), named, constants) == {"BLOCK": 128}
    assert tiles_of(lambda meta: (meta.get("HEAD", 1),), named, constants) == {"HEAD": 64}
    assert tiles_of((4, 4), named, constants) == {}


def test_what_is_tried_is_near_what_is_given():
    given = {"num_warps": 8, "num_stages": 3, "persistent": True, "stream": 7}
    found = dict(options_beside(given, {"BLOCK": 256}))
    assert found == {
        "BLOCK=128": {"BLOCK": 128},
        "num_warps=4": {"num_warps": 4},
        "num_warps=16": {"num_warps": 16},
        "num_stages=2": {"num_stages": 2},
        "num_stages=4": {"num_stages": 4},
        "without persistent=True": {"persistent": None},
    }
    assert set(dict(options_beside({"num_stages": 1}, {}))) == {
        "num_warps=2", "num_warps=8", "num_stages=2",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "tiles", "expected"),
    [
        ({"num_warps": 1}, {}, {"num_warps=2"}),
        ({"num_warps": 16}, {}, {"num_warps=8"}),
        ({"num_warps": 2, "num_stages": 2}, {},
         {"num_warps=1", "num_warps=4", "num_stages=1", "num_stages=3"}),
        ({"num_warps": 1}, {"M": 16, "N": 32}, {"num_warps=2", "M=32", "N=16", "N=64"}),
        ({"num_warps": 1}, {"M": 128, "N": 256}, {"num_warps=2", "M=64", "M=256", "N=128"}),
        ({"num_warps": 1, "num_stages": None, "staging": None, "overlap": False}, {},
         {"num_warps=2", "without overlap=False"}),
    ],
)  # fmt: skip
def test_what_is_tried_stays_within_bounds(given, tiles, expected):
    assert set(dict(options_beside(given, tiles))) == expected


def test_sizes_of_tiles_are_powers_of_two():
    sizes = {"A": 8, "B": 16, "C": 24, "D": 128, "E": True, "F": "16", "G": 32.0, "H": 20, "I": 256}
    grid = lambda meta: tuple(meta[name] for name in sizes)  # noqa: E731
    assert tiles_of(grid, sizes, sizes) == {"B": 16, "D": 128, "I": 256}


def test_one_clock_for_report_timeline_and_prediction():
    command = LaunchCommand(str(ROOT / GEMM))
    source = command.found.kernel.source
    begin = source.file, source.first_line
    report = build(command.compile(), begin, command.command.request(), command.launch())
    assert report.predicted is not None
    record = command.found.recorded_launch()
    predicted = command.found.kernel.predict(*record.args, grid=record.grid, **record.kwargs)
    assert report.predicted.prediction.clock_ghz == predicted.clock_ghz
    assert report.timelines[0].clock_ghz == predicted.clock_ghz
    assert command.explanation(None).prediction.clock_ghz == predicted.clock_ghz


def test_each_cause_has_its_advice():
    assert set(ADVICE) == CAUSES


def test_lines_of_other_files_say_so():
    assert where(("/a/kernel.py", 3), "/b/kernel.py") == "line 3"
    assert where(("/a/library.py", 3), "/a/kernel.py") == "library.py:3"
    assert where(NOWHERE, "/a/kernel.py") == "no line"


def shown(*arguments: str) -> str:
    found = CliRunner().invoke(command_line(arguments), arguments)
    assert found.exit_code == 0, found.output
    return found.output


def test_the_command_explains_kernels_and_errors():
    text = shown("explain", str(ROOT / GEMM), "--clock", "1.6")
    assert text.startswith("gemm: predicted ")
    assert "at 1.600 GHz" in text
    assert "tl.dot" in text
    assert "environment variable" in shown("explain", "BadKnob")


def explanation(*shares: float, bound: str = "memory", changes: tuple[Change, ...] = ()) -> str:
    """The text of a launch of 200 us whose lines take these shares of it."""
    causes = (("products", 0.5), ("copies", 0.05), ("arithmetic", 0.049))
    lines = tuple(LineTime(("k.py", n), f"x{n}", 200 * s, s, causes) for n, s in enumerate(shares))
    prediction: Any = SimpleNamespace(
        us=200.0, clock_ghz=1.5, ctas=10, waves=2.5, kernel_seconds=2e-4, bound=bound,
        shares={"a": 0.1, "b": 0.4, "c": 0.3, "d": 0.2},
    )  # fmt: skip
    return str(Explanation("k", "dir/k.py", prediction, "math", lines, changes))


def test_lines_that_take_little_are_put_together():
    found = explanation(0.6, 0.2, LEAST_SHOWN, 0.004, 0.19)
    assert [t.split()[-1] for t in found.splitlines() if "  line " in t] == ["x0", "x1", "x2", "x4"]
    assert "all other lines" not in found
    found = explanation(0.6, 0.2, 0.004, 0.003)
    assert "1.40 us   1%  all other lines" in found
    found = explanation(*[0.05] * (SHOWN_LINES + 2))
    assert sum("  line " in text for text in found.splitlines()) == SHOWN_LINES
    assert "20.00 us  10%  all other lines" in found
    assert "products 50%, copies 5%\n" in found


def test_what_binds_and_what_would_gain():
    assert "bound by memory; busy: b 40%, c 30%, d 20%\n" in explanation(1.0)
    assert "nothing is busy more than 70%" in explanation(1.0, bound="latency")
    assert "no change of a line or of an option" in explanation(1.0)
    changes = (Change("fewer", 150.0, 0.25, True), Change("num_warps=8", 180.0, 0.1, False))
    found = explanation(1.0, changes=changes)
    assert "  1. fewer: at most 25% less, 150.0 us\n  2. num_warps=8: 10% less, 180.0 us" in found


def test_which_lines_are_tried() -> None:
    """The first ones that take a share of the time; what no line asks for is nobody's to change."""
    tried: list[tuple[str, int]] = []

    def predicted(free: Any) -> Any:
        tried.append(free.args[0])
        return SimpleNamespace(us=150.0)

    def places(*cycles: float, first: Any = ("k.py", 0)) -> list[int]:
        tried.clear()
        own = [first, *(("k.py", n) for n in range(1, len(cycles)))]
        lines = tuple(Line(p, c, (("products", c),)) for p, c in zip(own, cycles, strict=True))
        given: Any = SimpleNamespace(predicted=predicted), "k.py", SimpleNamespace(us=200.0)
        found = list(_by_lines(*given, Spent("math", 1000.0, lines), said.append))
        assert [change.us for change in found] == [150.0] * len(tried)
        assert all(change.gain == 0.25 and change.at_most for change in found)
        return [place[1] for place in tried]

    said: list[str] = []
    least = 1000 * LEAST_SHARE
    assert places(500, least, least - 1) == [0, 1]
    assert said == ["without line 0", "without line 1"]
    assert places(500, 400, first=NOWHERE) == [1]
    assert places(*[100.0] * (TRIED_LINES + 2)) == list(range(TRIED_LINES))


def test_options_that_do_not_compile_gain_nothing() -> None:
    def others(options: Any) -> Any:
        if options["a"] == 2:
            raise TawaError("no")
        return SimpleNamespace(us=50.0 * options["a"])

    said: list[str] = []
    beside = [(f"a={n}", {"a": n}) for n in (1, 2, 3)]
    prediction: Any = SimpleNamespace(us=100.0)
    found = list(_by_options(prediction, beside, others, said.append))
    assert [(c.what, c.us, c.gain, c.at_most) for c in found] == [
        ("a=1", 50.0, 0.5, False), ("a=3", 150.0, -0.5, False)]  # fmt: skip
    assert said == ["with a=1", "with a=2", "with a=3"]
