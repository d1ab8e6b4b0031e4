"""What can be wrong is an error with the line of the program and the path in the task tree."""

from typing import Any

import numpy as np
import pytest
from task_programs import case

import tawa
import tawa.language as tl
from tawa.tasks import (
    READ,
    READ_WRITE,
    WRITE,
    Instance,
    Mapping,
    launch,
    make_tensor,
    partition_by_blocks,
    prange,
    srange,
    task,
)
from tawa.tasks.language.errors import (
    AliasingIterations,
    BadMapping,
    BadPartition,
    LoopNotUniform,
    MachineNotThere,
    MissingVariant,
    PrivilegeViolation,
    SharedCapTooSmall,
    TensorNotMapped,
    UnmetNone,
)


@task(y=WRITE, x=READ)
def outer(y, x, kind):
    """What goes wrong depends on `kind`."""


@task(y=WRITE, x=READ)
def twice(y, x):
    """y = 2 x, in blocks of 16."""


@task(y=READ_WRITE)
def grow(y):
    """y += 1."""


@task(y=WRITE, x=READ)
def crooked(y, x):
    """A leaf that returns half a tile."""


@outer.inner
def outer_grid(y, x, kind):
    to, of = partition_by_blocks(y, (32,)), partition_by_blocks(x, (32,))
    for i in prange(*to.shape):
        launch(outer, to[i], of[i], kind)


@outer.inner
def outer_block(y, x, kind):
    wrong[kind](y, x, *(partition_by_blocks(tensor, (16,)) for tensor in (y, x)))


def race(y, x, to, of):
    for i, j in prange(2, 2):
        launch(twice, to[(i + j) % 2], of[i])


def read_race(y, x, to, of):
    for i in prange(2):
        launch(twice, to[i], to[1 - i])


def rights(y, x, to, of):
    launch(grow, y)


def left_early(y, x, to, of):
    for i in srange(2):
        launch(twice, to[i], of[i])
        break


def neighbour(y, x, to, of):
    launch(twice, partition_by_blocks(y, (64,))[0], partition_by_blocks(x, (64,))[0])


def two_ends(y, x, to, of):
    box = partition_by_blocks(x, (24,))[1]
    launch(twice, to[0], partition_by_blocks(box, (16,))[1])


def shape(y, x, to, of):
    launch(crooked, to[0], of[0])


def no_variant(y, x, to, of):
    launch(outer, y, x, "no variant")


wrong = {
    "race": race,
    "read race": read_race,
    "rights": rights,
    "break": left_early,
    "neighbour": neighbour,
    "two ends": two_ends,
    "shape": shape,
    "no variant": no_variant,
}


@twice.leaf
def twice_tile(y, x):
    return x + x


@grow.leaf
def grow_tile(y):
    return y + 1


@crooked.leaf
def crooked_tile(y, x):
    return tl.zeros((8,), tl.float32)


def raised(kind: str, error: type[Exception]) -> Any:
    x = np.arange(64, dtype=np.float32)
    with pytest.raises(error) as found:
        outer.compile(np.zeros_like(x), x, kind).simulate((np.zeros_like(x), x, kind))
    return found.value


def line_of(error: Any) -> str:
    return error.span.source_line().strip()


@pytest.mark.parametrize(
    ("kind", "error", "line"),
    [
        ("race", AliasingIterations, "launch(twice, to[(i + j) % 2], of[i])"),
        ("rights", PrivilegeViolation, "launch(grow, y)"),
        ("break", LoopNotUniform, "for i in srange(2):"),
        ("no variant", MissingVariant, 'launch(outer, y, x, "no variant")'),
        ("shape", tawa.TawaError, "launch(crooked, to[0], of[0])"),
    ],
)
def test_line_and_path(kind: str, error: type[Exception], line: str):
    found = raised(kind, error)
    assert line_of(found) == line
    assert "in the task tree: outer_grid > outer_block" in str(found)


def test_a_race_names_two_iterations():
    assert (
        "iterations (0, 0) and (1, 1) of a `prange`" in raised("race", AliasingIterations).message
    )


def test_what_is_only_written_is_not_read():
    assert "y" in raised("read race", PrivilegeViolation).message


def test_boxes_of_a_box_end_with_it():
    """Zeros are read past its end, and nothing is written there: not in the neighbour."""
    x = np.arange(64, dtype=np.float32)
    one, other = np.full_like(x, -1), np.full_like(x, -1)
    outer.interpret(one, x, "neighbour")
    outer.compile(other, x, "neighbour").simulate((other, x, "neighbour"))
    expected = x + x
    assert np.array_equal(one, expected)
    assert np.array_equal(other, expected)


def test_boxes_do_not_end_in_two_ways():
    assert "two ways" in raised("two ends", BadPartition).message


def test_the_interpreter_checks_rights_too():
    x = np.arange(64, dtype=np.float32)
    with pytest.raises(PrivilegeViolation):
        outer.interpret(np.zeros_like(x), x, "rights")


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (Instance("multiply_tile", memories={"a": "none"}), UnmetNone),
        (Instance("gemm_grid", memories={"a": "shared"}), MachineNotThere),
        (Instance("multiply_tile", processor="warp"), BadMapping),
        (Instance("multiply_tile", processor="thread"), MachineNotThere),
        (Instance("multiply_tile", processor="device"), MachineNotThere),
        (Instance("gemm_block", variant="gemm_tile"), MissingVariant),
        (Instance("gemm_block", calls=()), BadMapping),
        (Instance("gemm_block", shared_cap=4096, pipeline=3), SharedCapTooSmall),
    ],
)
def test_mappings(record: Instance, error: type[Exception]):
    found = case("gemm")
    arguments = (*found.outputs, *found.inputs)
    with pytest.raises(error) as raised_:
        found.task(*arguments, mapping=Mapping(record))
    assert "in the task tree: gemm_grid" in str(raised_.value)


def test_instances_that_launch_themselves_without_an_end():
    x = np.arange(64, dtype=np.float32)
    itself = Mapping(Instance("outer_grid", calls=("outer_grid",)))
    with pytest.raises(BadMapping, match="without an end") as found:
        outer.compile(np.zeros_like(x), x, "right", mapping=itself)
    assert "in the task tree: outer_grid > outer_grid > outer_grid > ..." in str(found.value)


def test_what_a_leafs_line_can_not_be_keeps_its_place():
    found = case("attention")
    mapping = Mapping(Instance("attend_block", warp_groups=4))
    with pytest.raises(tawa.TawaError, match="4 consumer warp groups") as raised_:
        found.task(*found.outputs, *found.inputs, mapping=mapping)
    assert "tl.dot(q, k.T)" in line_of(raised_.value)
    assert "in the task tree: attention_grid > attend_block" in str(raised_.value)
    assert 'Instance("attend_block", warp_groups=4)' in str(raised_.value)


def test_other_machines():
    with pytest.raises(MachineNotThere, match="for 2 devices"):
        Mapping(Instance("gemm_grid"), devices=2)
    with pytest.raises(MachineNotThere, match="for 0 devices"):
        Mapping(devices=0)
    with pytest.raises(BadMapping):
        Instance("gemm_block", options={"num_stages": 3})
    with pytest.raises(BadMapping):
        Mapping(Instance("a", entry=True), Instance("a"))


@task(y=WRITE, x=READ)
def thrice(y, x):
    """y = 2 x, by way of a tensor that each block's iteration makes."""


@thrice.inner
def thrice_grid(y, x):
    to, of = partition_by_blocks(y, (16,)), partition_by_blocks(x, (16,))
    for i in prange(*to.shape):
        kept = make_tensor((16,), tl.float32)
        launch(twice, kept, of[i])
        launch(twice, to[i], kept)


def test_one_tensor_is_not_made_by_iterations_at_once():
    x = np.arange(64, dtype=np.float32)
    with pytest.raises(TensorNotMapped, match="of its own") as found:
        thrice.compile(np.zeros_like(x), x)
    assert line_of(found.value) == "kept = make_tensor((16,), tl.float32)"
