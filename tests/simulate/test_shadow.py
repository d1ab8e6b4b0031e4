"""Records of shared memory are as fine as the narrowest access, and no finer than they need be."""

import numpy as np
import pytest
from lowering import HEAD, kernel_in, modules, run_time_arguments

from tawa.hopper.dialect.sync import NamedBarrierSync
from tawa.simulate import run
from tawa.simulate.interpret import hopper
from tawa.simulate.interpret.clocks import SEEN, Components, Shadow, granules_of, region
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
    with pytest.raises(ProtocolError):
        run(module, (1,), arguments)


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
