"""One recorded run stands for all schedules exactly when every phase has its place in its order."""

from collections import Counter

import pytest
from test_interleave import EMPTY, FULL, arrive, line, protocol, ring, wait

from tawa.simulate.check.explorer import Landing, Segment
from tawa.simulate.check.interleave import explore
from tawa.simulate.check.order import undetermined

ONE = {FULL: 1, EMPTY: 1}


def silent(lines):
    """The lines without accesses: only what decides phases."""
    for one in lines:
        one.segments = [Segment(loads=s.loads) for s in one.segments]
    return lines


@pytest.mark.parametrize("turns", [1, 2, 5])
def test_a_ring_is_ordered(turns: int):
    assert undetermined(ring(turns), ONE) is None


def test_a_producer_that_does_not_wait_is_not():
    found = undetermined(ring(3, wait_empty=False), ONE)
    assert found is not None
    assert "nothing orders it after phase 0" in found


def test_a_wait_that_skips_a_phase_is_not():
    """Parity 0 of phase 2 is that of phase 0: the wait may go on a whole turn early."""
    lines = [
        line("a", arrive(FULL, 0), arrive(FULL, 1), arrive(FULL, 2)),
        line("b", wait(FULL, 2)),
    ]
    assert undetermined(lines, ONE) is not None


def test_a_phase_that_may_pass_a_sleeper_is_found():
    lines = [
        line("a", arrive(FULL, 0), wait(FULL, 0), arrive(FULL, 1)),
        line("b", wait(FULL, 0)),
    ]
    found = undetermined(lines, ONE)
    assert found is not None
    assert "may complete before" in found


def test_a_copy_right_behind_a_wait_comes_after_it():
    """Its actor takes no step in between."""
    first, second = (Segment(loads=[(FULL, Landing(128, 1, n, f"copy {n}"))]) for n in range(2))
    assert undetermined([line("a", first, wait(FULL, 0), second, wait(FULL, 1))], ONE) is None
    early = [line("a", first, wait(FULL, 0), wait(FULL, 1)), line("b", second)]
    found = undetermined(early, ONE)
    assert found is not None
    assert "copy 1 counts in phase 1" in found


def test_agrees_with_the_whole_search_on_random_protocols():
    """Ordered lines have no deadlock and no moved phase; lines that have one are not ordered."""
    verdicts = Counter()
    for seed in range(1500):
        counts, lines = protocol(seed)
        lines = silent(lines)
        whole = explore(lines, counts, 100_000, reduce=False)
        assert whole.complete or whole.violation
        why = undetermined(lines, counts)
        ordered = why is None
        kind = whole.violation.kind if whole.violation else "none"
        verdicts[kind, ordered] += 1
        if ordered:
            assert kind == "none", (seed, whole.violation)
        elif kind == "none":  # the search takes waits for a phase, not for a parity
            assert why is not None
            assert why.startswith("wait"), (seed, why)
    assert verdicts["none", True] > 200
    assert verdicts["phase", False] > 100
