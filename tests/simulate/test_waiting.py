"""Programs that wait for each other: right at every level, with fewer at a time than there are.

Each of them is also checked with one word of its synchronisation changed, which has to be found.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulation import recording

from tawa.base.errors import TawaError
from tawa.cli.check import check_example
from tawa.simulate import prove
from tawa.simulate.ptx.cta import ORDERS

EXAMPLE = Path(__file__).parents[2] / "examples" / "waiting.py"
sys.path.insert(0, str(EXAMPLE.parent))

import waiting  # noqa: E402

KERNELS = ["scan", "locked_sum", "stream_k"]


@pytest.fixture(autouse=True)
def few_seconds_for_every_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked at here is one launch: a proof of all may be given up."""
    monkeypatch.setattr("tawa.simulate.prove", lambda module: prove(module, seconds=1.0))


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_example_is_proved_and_all_levels_agree(kernel: str, capsys: Any) -> None:
    assert check_example(f"{EXAMPLE}:{kernel}", []) == 0
    said = capsys.readouterr().out
    assert "global memory: no conflict between programs" in said
    assert "levels tile, hopper, PTX: the same results" in said


@pytest.mark.parametrize("kernel", KERNELS)
def test_one_program_after_the_other_is_enough(kernel: str) -> None:
    for level, orders in (("hopper", [""]), ("ptx", ORDERS)):
        for order in orders:
            with recording() as launches:
                shown = getattr(waiting, f"example_{kernel}")()
            (launch,) = launches
            options = {"order": order} if order else {}
            compiled = launch.kernel.compile(*launch.args, **launch.kwargs)
            launch.run(compiled, level, multiprocessors=1, **options)
            for found, expected in shown.values():
                assert np.abs(found.astype(np.float64) - expected).max() <= 0.02


RACE = "RaceBetweenPrograms"

MISTAKES = {
    "a total without its release": (
        "scan", 'tl.atomic_xchg(states + block, TOTAL, sem="release")',
        'tl.atomic_xchg(states + block, TOTAL, sem="relaxed")', RACE,
    ),
    "a prefix without its release": (
        "scan", 'tl.atomic_xchg(states + block, PREFIX, sem="release")',
        'tl.atomic_xchg(states + block, PREFIX, sem="relaxed")', RACE,
    ),
    "a state that acquires nothing": (
        "scan", 'tl.atomic_add(states + other, 0, sem="acquire")',
        'tl.atomic_add(states + other, 0, sem="relaxed")', RACE,
    ),
    "a state that nobody writes": (
        "scan", 'tl.atomic_xchg(states + block, TOTAL, sem="release")', "pass", "",
    ),
    "a lock that is not taken": (
        "locked_sum", 'tl.atomic_cas(lock, 0, 1, sem="acquire")', "tl.load(lock) * 0", RACE,
    ),
    "a lock that is never given back": (
        "locked_sum", 'tl.atomic_xchg(lock, 0, sem="release")', "pass", "WaitsForever",
    ),
    "a lock given back too early": (
        "locked_sum", 'held = tl.load', 'tl.atomic_xchg(lock, 0, sem="release")\n    held = tl.load',
        RACE,
    ),
    "a flag that is raised before the part": (
        "stream_k", "tl.store(parts + program * M * N + part, acc)\n            ", "", RACE,
    ),
    "a part that is not waited for": (
        "stream_k", 'tl.atomic_add(flags + other, 0, sem="acquire") == 0', "other < 0", RACE,
    ),
    "a flag that nobody raises": (
        "stream_k", 'tl.atomic_xchg(flags + program, 1, sem="release")', "pass", "WaitsForever",
    ),
}  # fmt: skip
"""What a kernel is written as instead, and the error: none where the results stay right."""


@pytest.mark.parametrize("name", MISTAKES)
def test_a_changed_word_is_found(name: str, tmp_path: Path) -> None:
    kernel, right, wrong, error = MISTAKES[name]
    text = EXAMPLE.read_text()
    assert text.count(right) == 1
    changed = text.replace(right, wrong)
    if name == "a flag that is raised before the part":
        flag = 'tl.atomic_xchg(flags + program, 1, sem="release")\n'
        changed = changed.replace(flag, f"{flag}            {right.strip()}\n")
    path = tmp_path / "changed.py"
    path.write_text(changed)
    if not error:
        assert check_example(f"{path}:{kernel}", []) == 0
        return
    with pytest.raises(TawaError) as raised:
        check_example(f"{path}:{kernel}", [])
    assert type(raised.value).__name__ == error
    assert raised.value.span is not None
