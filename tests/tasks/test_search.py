"""Mappings that are filled in, and a search for a faster one."""

import numpy as np
from task_programs import NAMES, case, gemm

from tawa.tasks.search import filled, search


def test_what_defaults_say_changes_nothing():
    """A mapping that is written out gives the same program."""
    for name in NAMES:
        found = case(name)
        program = found.task.compile(*found.outputs, *found.inputs)
        mapping = filled(program.program, program.mapping)
        again = found.task.compile(*found.outputs, *found.inputs, mapping=mapping)
        assert again is not program
        assert again.stages == program.stages


def test_a_search_finds_no_slower_one():
    large = [np.empty((2048, 2048), np.float16) for _ in range(3)]
    said: list[str] = []
    found = search(gemm.gemm, large, seconds=8, report=said.append)
    assert found.seconds <= found.start
    assert len(found.tried) == len(said) + 1 > 1
    times = [seconds for seconds in found.tried.values() if seconds < float("inf")]
    assert found.seconds < min(times) * 1.01
    small = case("gemm")
    small.check(lambda *a: gemm.gemm.compile(*a, mapping=found.mapping).simulate(a))
