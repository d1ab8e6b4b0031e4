"""The machine of proofs: copies are done when they begin, and no access is listed."""

from __future__ import annotations

import numpy as np

from tawa.simulate.interpret.machine import Machine, Record, Task
from tawa.simulate.prove.instant import Box, Instant


def bare(kind: type[Machine]) -> Machine:
    machine = kind.__new__(kind)
    machine.records, machine.tasks = [], []
    return machine


def test_accesses_have_numbers() -> None:
    """Each its own in a run, all the same one in a proof."""
    machine = bare(Machine)
    assert [machine.record(None, text) for text in "abc"] == [0, 1, 2]
    assert [machine.records[n].text for n in (0, 2)] == ["a", "c"]
    proof = bare(Instant)
    assert [proof.record(None, text) for text in "abc"] == [0, 0, 0]
    assert proof.records == [Record(None, "another access")]


def test_copies_are_done_at_once() -> None:
    done: list[str] = []
    for kind, expected in ((Machine, []), (Instant, ["copied"])):
        machine = bare(kind)
        task = machine.start(Task("a copy", None, lambda: done.append("copied")))
        assert done == expected
        assert task.done is bool(expected)
        assert machine.tasks == ([] if expected else [task])


def test_a_box_has_no_data() -> None:
    box = Box.__new__(Box)
    memory = np.arange(16)
    assert len(box.read(memory, [0])) == 0
    assert len(memory[box.shared_addresses(8)]) == 0
    box.write(memory, [0], memory)
    assert (memory == np.arange(16)).all()
