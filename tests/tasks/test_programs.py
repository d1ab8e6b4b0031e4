"""Programs of tasks: the interpreter, and what they are compiled to, against float64."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from task_programs import NAMES, case, gemm, stencil

from tawa.simulate import run as run_hopper
from tawa.tasks import READ, WRITE, Instance, Mapping, task


def simulated(task: Any, mapping: Mapping | None = None) -> Callable[..., None]:
    """Runs a task's kernels at the tile level."""

    def run(*args: Any) -> None:
        task.compile(*args, mapping=mapping).simulate(args)

    return run


@pytest.mark.parametrize("odd", [False, True], ids=["aligned", "odd"])
@pytest.mark.parametrize("name", NAMES)
def test_interpreter(name: str, odd: bool):
    found = case(name, odd=odd)
    found.check(found.task.interpret)


@pytest.mark.parametrize("odd", [False, True], ids=["aligned", "odd"])
@pytest.mark.parametrize("name", NAMES)
def test_compiled(name: str, odd: bool):
    found = case(name, odd=odd)
    found.check(simulated(found.task))


def test_gemm_through_all_levels():
    """Roles, rings, layouts: the kernel that a device would run, on the simulated one."""
    found = case("gemm")
    found.check(found.task)
    c, (a, b) = np.full_like(found.outputs[0], np.nan), found.inputs
    program = found.task.compile(c, a, b)
    (launch,) = program.launches
    given = program.arguments(launch, (c, a, b))
    compiled = program.kernel(launch).compile(*given)
    run_hopper(compiled.module("hopper"), (4,), given)
    assert np.abs(c - found.expected[0]).max() < 0.1
    assert compiled.spec.threads > 256  # a role that loads, beside those that multiply


def test_boxes_that_begin_inside_a_piece_go_through_pointers():
    """A neighbour's box begins a column to the side: a device's copy engine stops at those."""
    x = np.random.default_rng(0).standard_normal((64, 128)).astype(np.float32)
    y = np.full_like(x, np.nan)
    program = stencil.diffuse.compile(y, x, 1, 0.125)
    (launch,) = program.launches
    given = program.arguments(launch, (y, x, 1, 0.125))
    compiled = program.kernel(launch).compile(
        *given, **program.options(launch, program.kernel(launch), given)
    )
    names = compiled.spec.arguments
    taken = [g for n, g in zip(launch.kernel.parameters, given, strict=True) if n in names]
    run_hopper(compiled.module("hopper"), (4,), taken)
    assert np.abs(y - stencil.reference(x.astype(np.float64), 1, 0.125)).max() < 1e-5
    assert "x_desc" in names


def test_one_program_for_all_sizes():
    """A kernel is compiled once for sizes that ask nothing of the trace."""
    one, other = case("gemm"), case("gemm", 1)
    programs = [found.task.compile(*found.outputs, *found.inputs) for found in (one, other)]
    assert programs[0] is programs[1]
    asked = list(programs[0].known.guards)
    assert len(asked) == 4, "that partitions have the boxes that loops name, and its loop runs"
    assert "0 < a_size1" in asked
    assert "(((a_size1 + 63) // 64) - 1) < ((b_size0 + 63) // 64)" in asked
    a, b = np.ones((40, 64), np.float16), np.ones((64, 48), np.float16)
    c = np.zeros((40, 48), np.float16)
    smaller = gemm.gemm.compile(c, a, b)
    assert smaller is programs[0]
    smaller.simulate((c, a, b))
    assert (c == 64).all()


def test_a_size_that_is_asked_for_is_a_guard():
    """Attention's tiles have the head's width: other widths are other programs."""
    found = case("attention")
    program = found.task.compile(*found.outputs, *found.inputs)
    assert "q_size2 == 64" in program.known.guards
    q = np.ones((1, 32, 128), np.float16)
    assert found.task.compile(np.empty_like(q), q, q, q, 1.0) is not program


def test_transposed_operands_are_described_as_they_lie():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((72, 152)).astype(np.float16).T
    b = rng.standard_normal((136, 72)).astype(np.float16).T
    c = np.full((152, 136), np.nan, np.float16)
    program = gemm.gemm.compile(c, a, b)
    assert ".T" in program.stages["gemm_block_kernel"]
    program.simulate((c, a, b))
    assert np.abs(c - a.astype(float) @ b.astype(float)).max() < 0.05


def test_nothing_to_do():
    c, a = np.zeros((0, 16), np.float16), np.zeros((0, 32), np.float16)
    b = np.zeros((32, 16), np.float16)
    gemm.gemm.compile(c, a, b).simulate((c, a, b))
    c, a = np.ones((8, 16), np.float16), np.ones((8, 0), np.float16)
    program = gemm.gemm.compile(c, a, np.ones((0, 16), np.float16))
    program.simulate((c, a, np.ones((0, 16), np.float16)))
    assert (c == 0).all()


@task(y=WRITE, x=READ)
def moved(y, x, by):
    """y = x + by."""


@moved.leaf
def moved_tile(y, x, by):
    return x + by


def test_numbers_beyond_32_bits():
    x = np.arange(16, dtype=np.int64)
    for by in (-5, 1 << 40):
        y, z = np.zeros_like(x), np.zeros_like(x)
        moved.interpret(y, x, by)
        moved.compile(z, x, by).simulate((z, x, by))
        assert np.array_equal(y, x + by)
        assert np.array_equal(z, x + by)


def test_stages():
    found = case("dual_gemm")
    program = found.task.compile(*found.outputs, *found.inputs)
    assert list(program.stages) == ["tasks", "copies", "events", "dual_gemm_block_kernel"]
    assert program.stages["tasks"].count("copy ") == 19
    assert program.stages["copies"].count("copy ") == 4  # a, b1, b2 and the result
    assert program.stages["dual_gemm_block_kernel"].count(".load(") == 3
    assert program.svg().startswith("<svg")
    assert program.svg().count("<rect") == len(program.graph)


def test_a_leaf_is_named_like_another():
    """Names of leaves, tensors and parameters of different tasks do not get in each other's way."""
    mapping = Mapping(Instance("gemm_block", tunables={"W": 32}))
    found = case("gemm")
    found.check(simulated(found.task, mapping))


def test_the_width_of_a_tree_is_one_number():
    """Each level sums up all of the one before, whatever its width."""
    found = case("tree_sum", odd=True)
    mapping = Mapping(Instance("tree_sum_levels", tunables={"width": 512}))
    found.check(lambda *args: found.task.interpret(*args, mapping=mapping))
    program = found.task.compile(*found.outputs, *found.inputs, mapping=mapping).program
    assert [record for record, name in program.tunables if name == "width"] == ["tree_sum_levels"]
