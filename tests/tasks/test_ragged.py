"""Ragged partitions: groups whose sizes are known only when the program runs."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from task_programs import grouped_gemm

import tawa.language as tl
from tawa.tasks import (
    READ,
    WRITE,
    Instance,
    Mapping,
    clear,
    copy,
    launch,
    make_tensor,
    partition_by_blocks,
    partition_by_offsets,
    prange,
    srange,
    task,
)
from tawa.tasks.language.errors import (
    BadMapping,
    BadOffsets,
    BadPartition,
    IndexNotConstant,
    PrivilegeViolation,
)

OFFSETS = np.array([0, 130, 130, 137, 290], np.int32)


def product(odd: bool = False) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    k, n = (67, 131) if odd else (72, 136)
    a = rng.standard_normal((300, k)).astype(np.float16)
    b = rng.standard_normal((4, k, n)).astype(np.float16)
    return np.full((300, n), np.nan, np.float16), a, b


@pytest.mark.parametrize("mapped", ["grid", "blocks"])
@pytest.mark.parametrize("odd", [False, True])
def test_rows_of_other_groups_are_left_alone(odd: bool, mapped: str):
    c, a, b = product(odd)
    expected = grouped_gemm.reference(a.astype(float), b.astype(float), OFFSETS)
    processor = "device" if mapped == "grid" else "block"
    mapping = Mapping(
        Instance("gemm_grid", processor=processor, tunables={"U": 64, "V": 128}),
        Instance("grouped_gemm_groups", entry=True),
    )
    program = grouped_gemm.grouped_gemm.compile(c, a, b, OFFSETS, mapping=mapping)
    program.simulate((c, a, b, OFFSETS))
    assert np.isnan(c[290:]).all()
    assert np.abs(c[:290] - expected).max() < 0.05
    assert len(program.launches) == 1


def test_offsets_of_the_launch_are_looked_at():
    c, a, b = product()
    wide = OFFSETS.astype(np.int64)
    program = grouped_gemm.grouped_gemm.compile(c, a, b, wide)
    for wrong in ([0, 200, 130, 137, 290], [-1, 130, 130, 137, 290], [0, 1, 2, 3, 301]):
        offsets = np.array(wrong, np.int64)
        with pytest.raises(BadOffsets, match="`offsets` does not cut a dimension of 300"):
            program.simulate((c, a, b, offsets))
        with pytest.raises(BadOffsets):
            grouped_gemm.grouped_gemm.interpret(c, a, b, offsets)


@task(w=WRITE, a=READ, c=READ, offsets=READ)
def gradients(w, a, c, offsets):
    """W[g] = A_g^T C_g: the sum runs over the rows of a group."""


@task(acc=WRITE, a=READ, c=READ)
def outer(acc, a, c):
    """One group's sum."""


@gradients.inner
def gradients_groups(w, a, c, offsets):
    of_a, of_c = partition_by_offsets(a, offsets), partition_by_offsets(c, offsets)
    of_w = partition_by_blocks(w, (None, a.shape[1], c.shape[1]))
    for g in prange(*of_a.shape):
        launch(outer, of_w[g, 0, 0], of_a[g], of_c[g])


@outer.inner
def outer_grid(acc, a, c):
    blocks = partition_by_blocks(acc, (32, 32))
    of_a = partition_by_blocks(a, (a.shape[0], 32))
    of_c = partition_by_blocks(c, (c.shape[0], 32))
    for i, j in prange(*blocks.shape):
        launch(outer, blocks[i, j], of_a[0, i], of_c[0, j])


@outer.inner
def outer_block(acc, a, c):
    of_a, of_c = partition_by_blocks(a, (16, 32)), partition_by_blocks(c, (16, 32))
    total = make_tensor((32, 32), tl.float32)
    launch(clear, total)
    for k in srange(of_a.shape[0]):
        launch(add_rows, total, of_a[k, 0], of_c[k, 0])
    launch(copy, acc, total)


@task(total=WRITE, a=READ, c=READ)
def add_rows(total, a, c):
    """total += A^T C."""


add_rows.privileges["total"] = grouped_gemm.multiply.privileges["acc"]


@add_rows.leaf
def add_rows_tile(total, a, c):
    return tl.dot(a.T, c, total)


def test_sums_over_the_rows_of_a_group():
    """Rows past a group's end are in the sum: they are zeros, not those of the next group."""
    rng = np.random.default_rng(0)
    a, c = rng.standard_normal((300, 40)).astype(np.float16), rng.standard_normal((300, 72))
    c = c.astype(np.float16)
    expected = np.stack([a[i:j].T.astype(float) @ c[i:j] for i, j in pairwise(OFFSETS)])
    for run in (gradients.interpret, lambda *x: gradients.compile(*x).simulate(x)):
        w = np.full((4, 40, 72), np.nan, np.float32)
        run(w, a, c, OFFSETS)
        assert np.abs(w - expected).max() < 1e-3


@task(y=WRITE, x=READ, offsets=READ)
def wrong(y, x, offsets, kind):
    """What goes wrong depends on `kind`."""


@wrong.inner
def wrong_groups(y, x, offsets, kind):
    mistakes[kind](y, x, offsets, *(partition_by_offsets(tensor, offsets) for tensor in (y, x)))


def asked(y, x, offsets, to, of):
    for g in prange(*to.shape):
        if of[g].shape[0] > 3:
            launch(copy, to[g], of[g])


def device(y, x, offsets, to, of):
    for g in srange(*to.shape):
        for _ in srange(of[g].shape[0]):
            launch(copy, partition_by_blocks(y, (16,))[0], partition_by_blocks(x, (16,))[0])


def unbounded(y, x, offsets, to, of):
    for g in prange(*to.shape):
        for i in prange(of[g].shape[0] * of[g].shape[0]):
            launch(copy, partition_by_blocks(to[g], (16,))[i], partition_by_blocks(x, (16,))[0])


def rights(y, x, offsets, to, of):
    launch(clear, partition_by_offsets(x, y)[0])


mistakes = {
    "asked": asked,
    "device": device,
    "unbounded": unbounded,
    "dimension": lambda y, x, offsets, to, of: partition_by_offsets(y, offsets, dim=1),
    "floats": lambda y, x, offsets, to, of: partition_by_offsets(y, x),
    "rights": rights,
}


@pytest.mark.parametrize(
    ("kind", "error", "found"),
    [
        ("asked", IndexNotConstant, "an element of `offsets` is asked for"),
        ("device", BadMapping, "the device does not wait"),
        ("unbounded", BadMapping, "can't be bounded"),
        ("dimension", BadPartition, "along dimension 1"),
        ("floats", BadPartition, "not whole numbers"),
        ("rights", PrivilegeViolation, "offsets are read from `y1`"),
    ],
)
def test_what_can_be_wrong(kind: str, error: type[Exception], found: str):
    x = np.zeros(300, np.int32 if kind == "rights" else np.float32)
    with pytest.raises(error) as raised:
        wrong.compile(np.zeros_like(x), x, OFFSETS, kind)
    assert found in str(raised.value)


def test_one_tensor_by_descriptor_and_address():
    """Full boxes are stored by the copy engine, others through addresses: the compiler is told."""
    c, a, b = product()
    program = grouped_gemm.grouped_gemm.compile(c, a, b, OFFSETS)
    (only,) = program.launches
    assert only.kernel.one_tensor == (("c_desc2", "c"),)
    assert program.predict(c, a, b, OFFSETS)[0].ctas > 0
