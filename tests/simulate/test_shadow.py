"""Records of shared memory are as fine as the narrowest access, and no finer than they need be."""

import numpy as np
import pytest
from lowering import HEAD, kernel_in, modules, run_time_arguments

from tawa.hopper.dialect.sync import NamedBarrierSync
from tawa.simulate import run
from tawa.simulate.interpret import hopper
from tawa.simulate.interpret.clocks import (
    FENCED,
    LOADED,
    SEEN,
    Components,
    Shadow,
    granules_of,
    region,
)
from tawa.simulate.interpret.cta import granule_of
from tawa.simulate.interpret.errors import OverwriteUnread, ProtocolError
from tawa.simulate.interpret.launch import kernel_of

ROW_SUMS = HEAD + (
    "def kernel(x_ptr, y_ptr, ROWS: tl.constexpr, N: tl.constexpr):\n"
    "    row, column = tl.arange(0, ROWS), tl.arange(0, N)\n"
    "    x = tl.load(x_ptr + row[:, None] * N + column[None, :])\n"
    "    tl.store(y_ptr + row, tl.sum(x, axis=1))\n"
)


def row_sums(tmp_path, dtype, rows):
    """A module in which warps write neighbouring elements of a scratch row, and its launch."""
    x = np.arange(rows * 256).reshape(rows, 256) % 5
    named = {"x_ptr": x.astype(dtype), "y_ptr": np.zeros(rows, dtype), "ROWS": rows, "N": 256}
    module = modules(kernel_in(tmp_path, ROW_SUMS), named, {"num_warps": 8})["hopper"]
    return module, run_time_arguments(module, named), x.sum(axis=1)


@pytest.mark.parametrize(("dtype", "rows"), [(np.float16, 4), (np.float16, 2), (np.int8, 4),
                                             (np.float32, 4)])  # fmt: skip
def test_warps_may_write_neighbouring_elements_of_one_word(tmp_path, dtype, rows):
    module, arguments, expected = row_sums(tmp_path, dtype, rows)
    run(module, (1,), arguments)
    np.testing.assert_array_equal(arguments[-1], expected.astype(dtype))


def test_an_unordered_access_of_the_same_element_is_still_found(tmp_path):
    module, arguments, _ = row_sums(tmp_path, np.float16, 4)
    names = {op.name for op in module.walk()}
    meeting = "hopper.cta_sync" if "hopper.cta_sync" in names else NamedBarrierSync.name
    for op in [op for op in module.walk() if op.name == meeting]:
        op.detach()
    with pytest.raises(ProtocolError) as caught:
        run(module, (1,), arguments)
    assert len([note for note in caught.value.notes if note.text.startswith("by ")]) == 1
    assert caught.value.span is not None


@pytest.mark.parametrize(("dtype", "bytes_"), [(np.float16, 2), (np.float32, 4)])
def test_the_granule_is_the_narrowest_access(tmp_path, dtype, bytes_):
    module, _, _ = row_sums(tmp_path, dtype, 4)
    assert granule_of(kernel_of(module)) == bytes_


def test_coarser_records_would_see_conflicts_that_are_none(tmp_path, monkeypatch):
    module, arguments, _ = row_sums(tmp_path, np.float16, 4)
    monkeypatch.setattr(hopper, "granule_of", lambda kernel: 4)
    with pytest.raises(OverwriteUnread):
        run(module, (1,), arguments)


def test_granules_of_elements_and_regions():
    at = np.array([[0, 2], [6, 8]])
    assert list(granules_of(at, 2, 4)) == [0, 1, 2]
    assert list(granules_of(at, 2, 2)) == [0, 1, 3, 4]
    assert list(granules_of(np.array([4]), 4, 1)) == [4, 5, 6, 7]
    assert region(16, 32, 2) == slice(8, 24)


@pytest.mark.parametrize(("granule", "conflicts"), [(4, True), (2, False)])
def test_halves_of_a_word_are_one_granule_or_two(granule, conflicts):
    components = Components()
    first, second = components.add("warp 0"), components.add("warp 1")
    shadow = Shadow(64, components, granule)
    shadow.note_write(granules_of(np.array([0]), 2, granule), first, 1, 0)
    clock = components.clock()
    clock[SEEN, second] = 1
    found = shadow.check_write(granules_of(np.array([2]), 2, granule), clock, asynchronous=False)
    assert (found is not None) == conflicts


HALF = granules_of(np.array([8]), 2, 2)
"""The fifth granule of two bytes."""


@pytest.mark.parametrize("where", [HALF, region(8, 2, 2)], ids=["addresses", "region"])
@pytest.mark.parametrize("writer", ["warp", "engine"])
@pytest.mark.parametrize(
    ("seen", "fenced", "engine", "expected"),
    [
        (3, 0, False, None), (2, 3, False, False), (3, 3, True, None), (4, 4, True, None),
        (3, 2, True, True), (2, 2, True, False),
    ],
)  # fmt: skip
def test_who_may_come_after_a_write(where, writer, seen, fenced, engine, expected):
    """A thread that has seen it, an engine for which it was fenced; and what else is missing."""
    components = Components()
    number = [components.add(name) for name in ("warp", "engine")][writer == "engine"]
    shadow = Shadow(64, components, 2)
    shadow.note_write(where, number, 3, 17)
    clock = components.clock()
    clock[SEEN, number], clock[FENCED, number] = seen, fenced
    for check in (shadow.check_read, shadow.check_write):
        found = check(where, clock, asynchronous=engine)
        assert found == (None if expected is None else (4, number, 17, expected, True))


@pytest.mark.parametrize(
    ("threads", "seen", "loaded", "engine", "expected"),
    [
        (True, 3, 0, False, None), (True, 2, 3, False, False), (True, 3, 3, True, None),
        (True, 3, 2, True, True), (True, 2, 2, True, False), (False, 3, 0, True, None),
        (False, 2, 3, True, False),
    ],
)  # fmt: skip
def test_who_may_write_after_a_read(threads, seen, loaded, engine, expected):
    """An engine waits for the fences of threads that read, not for those of engines."""
    components = Components()
    writer, reader = components.add("engine"), components.add("reader", threads=threads)
    shadow = Shadow(64, components, 2)
    clock = components.clock()
    clock[SEEN, writer] = clock[FENCED, writer] = 1
    shadow.note_write(HALF, writer, 1, 16)
    shadow.note_read(HALF, reader, 3, 18)
    clock[SEEN, reader], clock[LOADED, reader] = seen, loaded
    found = shadow.check_write(HALF, clock, asynchronous=engine)
    assert found == (None if expected is None else (4, reader, 18, expected, False))
    shadow.note_write(HALF, writer, 1, 19)  # comes after the read, which is forgotten
    assert shadow.check_write(HALF, clock, asynchronous=engine) is None


def test_what_nobody_wrote_is_not_read():
    components = Components()
    components.add("warp")
    shadow = Shadow(64, components, 2)
    clock = components.clock()
    assert shadow.check_write(HALF, clock, asynchronous=True) is None
    assert shadow.check_read(HALF, clock, asynchronous=False) == (4, -1, -1, False, True)
