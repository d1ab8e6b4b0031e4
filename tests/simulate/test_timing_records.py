"""The model's numbers for kernels of the machine level that are kept as text: none moves unseen.

Whoever changes the model looks at what moved, then runs `--update`. What the compiler makes of a
kernel moves nothing here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from protocols import KINDS, Kernel, correct
from timed_kernels import TIMED, text_of
from xdsl.dialects.builtin import ModuleOp

from tawa.base.timeline import Interval
from tawa.driver.compiled import read_module
from tawa.simulate.timing.launch import LaunchPrediction, predict_launch
from tawa.simulate.timing.ledger import Account
from tawa.simulate.timing.lines import busiest

Golden = Callable[[str, str], None]


def number(value: float) -> str:
    return f"{value:.5g}"


def report(module: ModuleOp, grid: Sequence[int], arguments: Sequence[Any], **options: Any) -> str:
    """All that is predicted of a launch: of the whole, each actor, each track, each line."""
    found = predict_launch(
        module, grid, arguments, clock_ghz=1.5, timeline=True, accounts=True, **options
    )
    assert found.first is not None
    return "\n".join(
        [*whole(found), *tracks(found.first.timeline), *spent(found.accounts), *lines(found), ""]
    )


def whole(found: LaunchPrediction) -> list[str]:
    times = ("seconds", "kernel_seconds", "cycles", "waves")
    shares = {f"share of {name}": share for name, share in sorted(found.shares.items())}
    values = {**{name: getattr(found, name) for name in times}, **shares}
    return [f"bound by {found.bound}", *(f"{name}: {number(v)}" for name, v in values.items())]


def tracks(timeline: Sequence[Interval]) -> list[str]:
    """Of each track, and name on it: how many intervals, and where they begin and end on average."""
    times: defaultdict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for interval in timeline:
        times[interval.track, interval.name].append((interval.start, interval.end))
    return [
        f"{track}, {name}: {len(own)} from {number(begin)} to {number(end)}"
        for (track, name), own in sorted(times.items())
        for begin, end in [(sum(column) / len(own) for column in zip(*own, strict=True))]
    ]


def spent(accounts: Sequence[Account]) -> list[str]:
    """Of each actor, its cycles and those on each kind of op."""
    found: list[str] = []
    for account in accounts:
        kinds: defaultdict[str, float] = defaultdict(float)
        for op, cycles in account.spent.items():
            kinds[op.name] += cycles
        found.append(f"{account.actor}: {number(account.cycles)}")
        found += [f"  {name}: {number(cycles)}" for name, cycles in sorted(kinds.items())]
    return found


def lines(found: LaunchPrediction) -> list[str]:
    """Of the busiest actor, the cycles of each line by their cause."""
    most = busiest(found.accounts)
    return [
        f"of {most.actor}: {number(most.cycles)}",
        *(
            f"  line {line.place[1]}: "
            + ", ".join(f"{cause} {number(cycles)}" for cause, cycles in line.causes)
            for line in most.lines
        ),
    ]


@pytest.mark.parametrize("name", TIMED)
def test_a_launch_takes_what_was_recorded(name: str, golden: Golden) -> None:
    timed = TIMED[name]
    golden(report(read_module(text_of(name), "hopper"), timed.grid, timed.arguments()), "txt")


@pytest.mark.parametrize("kind", KINDS)
def test_a_protocol_takes_what_was_recorded(kind: str, golden: Golden) -> None:
    kernel = Kernel(correct(kind).text)
    golden(report(kernel.module(), *kernel.launch), "txt")


def test_ctas_that_share_a_multiprocessor_take_what_was_recorded(golden: Golden) -> None:
    """All tiles of each, beside the others; loads without their time."""
    timed = TIMED["softmax"]
    text = report(
        read_module(text_of("softmax"), "hopper"), (1000, 2), timed.arguments(),
        ctas_per_multiprocessor=3, whole=True, free=lambda op: op.name == "hopper.load",
    )  # fmt: skip
    golden(text, "txt")
