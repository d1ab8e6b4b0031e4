"""Warp groups and warps as a level of program and mapping: shared tiles, and what can't be shared."""

from typing import Any

import gemm_levels_tasks as levels
import numpy as np
import pytest
from task_programs import gemm

import tawa.language as tl
from tawa.tasks import (
    READ,
    READ_WRITE,
    WRITE,
    Instance,
    Mapping,
    clear,
    copy,
    launch,
    make_tensor,
    partition_by_blocks,
    partition_by_mma,
    prange,
    srange,
    task,
    tunable,
)
from tawa.tasks.language.errors import (
    BadMapping,
    BadPartition,
    LayoutUnmet,
    MachineNotThere,
    NotShared,
)


def operands(m: int = 300, n: int = 264, k: int = 200) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((m, k), (k, n)))
    return np.full((m, n), np.nan, np.float16), a, b


@pytest.mark.parametrize("groups", [1, 2])
def test_warp_groups_are_a_change_of_mapping(groups: int):
    """The same results bit for bit, and the kernel that `warp_groups` gives."""
    c, a, b = operands()
    mapping = levels.on_groups(groups)
    program = levels.gemm.compile(c, a, b, mapping=mapping)
    program.simulate((c, a, b))
    serial = np.full_like(c, np.nan)
    levels.gemm.interpret(serial, a, b, mapping=mapping)
    assert np.array_equal(c, serial)
    (launch_,) = program.launches
    kernel, given = program.kernel(launch_), program.arguments(launch_, (c, a, b))
    assert program.options(launch_, kernel, given) == {"consumers": groups}  # layouts are looked at
    assert f"by {groups} warp groups" in program.stages["copies"]

    plain = Mapping(Instance("gemm_grid", tunables={"U": 64 * groups, "V": 256}))
    other = gemm.gemm.compile(c, a, b, mapping=plain)
    lines = [text.splitlines()[1:] for text in (
        program.stages["gemm_block_kernel"], other.stages["gemm_block_kernel"],
    )]  # fmt: skip
    assert [len(one) for one in lines] == [len(lines[0])] * 2
    assert sum("descriptor" in x or ".load(" in x for x in lines[0]) == 2


@task(y=WRITE, x=READ)
def work(y, x, kind):
    """What iterations of a block do depends on `kind`."""


@task(y=WRITE, x=READ)
def shift(y, x, by):
    """y = x + by."""


@task(y=WRITE, x=READ)
def normalize(y, x):
    """Each row by its sum."""


@task(y=WRITE, x=READ)
def sort_of(y, x):
    """What a leaf must not do to be shared."""


@work.inner
def work_block(y, x, kind):
    kinds[kind](y, x)


def halves(y: Any, x: Any) -> tuple[Any, Any]:
    rows = int(x.shape[0]) // 2
    return tuple(partition_by_blocks(t, (rows, int(t.shape[1]))) for t in (y, x))


def by_rows(y, x):
    to, of = halves(y, x)
    for g in prange(2):
        launch(normalize, to[g, 0], of[g, 0])


def by_columns(y, x):
    to, of = (partition_by_blocks(t, (int(t.shape[0]), 32)) for t in (y, x))
    for g in prange(2):
        launch(normalize, to[0, g], of[0, g])


def counting(y, x):
    to, of = halves(y, x)
    for g in prange(2):
        launch(sort_of, to[g, 0], of[g, 0])


def numbered(y, x):
    to, of = halves(y, x)
    for g in prange(2):
        launch(shift, to[g, 0], of[g, 0], g)


def crossed(y, x):
    to, of = halves(y, x)
    for g in prange(2):
        launch(normalize, to[g, 0], of[1 - g, 0])


def alone(y, x):
    launch(normalize, y, x)


kinds = {f.__name__: f for f in (by_rows, by_columns, counting, numbered, crossed, alone)}


@shift.leaf
def shift_tile(y, x, by):
    return x + by


@normalize.leaf
def normalize_tile(y, x):
    scaled = x * 0.5
    top = tl.where(scaled > 0, scaled, 0.0)
    return top / (1.0 + tl.sum(top.to(tl.float32), axis=1)[:, None])


@sort_of.leaf
def sort_of_tile(y, x):
    return x + tl.arange(0, x.shape[0])[:, None]


def mapped(processor: str | None = "warp_group", **block: Any) -> Mapping:
    leaves = (Instance(n, processor=processor)
              for n in ("normalize_tile", "shift_tile", "sort_of_tile"))  # fmt: skip
    return Mapping(Instance("work_block", processor="block", **block), *leaves)


def shared(kind: str, mapping: Mapping) -> tuple[Any, Any]:
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    y, serial = np.full_like(x, np.nan), np.full_like(x, np.nan)
    work.compile(y, x, kind, mapping=mapping).simulate((y, x, kind))
    work.interpret(serial, x, kind, mapping=mapping)
    return y, serial


@pytest.mark.parametrize("processor", ["warp_group", None])
def test_rows_are_shared(processor: str | None):
    found, serial = shared("by_rows", mapped(processor))
    assert np.array_equal(found, serial)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("by_columns", "`tile.reduce` combines elements of different boxes"),
        ("counting", "a number follows from how many elements the tiles have"),
        ("numbered", "numbers that are the same in all iterations"),
        ("crossed", "boxes that lie one behind the other"),
    ],
)
def test_what_is_not_shared(kind: str, why: str):
    with pytest.raises(NotShared) as found:
        shared(kind, mapped())
    assert why in str(found.value)
    assert "launch(" in found.value.span.source_line()
    assert "in the task tree: work_block" in str(found.value)


@task(c=WRITE, a=READ, b=READ)
def gemm_of_groups(c, a, b):
    """C = A B: each warp group walks along K by itself."""


@gemm_of_groups.inner
def groups_block(c, a, b):
    to, of = (partition_by_blocks(t, (64, int(t.shape[1]))) for t in (c, a))
    for g in prange(2):
        launch(gemm_of_groups, to[g, 0], of[g, 0], b)


@gemm_of_groups.inner
def groups_walk(c, a, b):
    of_a, of_b = partition_by_blocks(a, (64, 32)), partition_by_blocks(b, (32, int(b.shape[1])))
    acc = make_tensor(c.shape, tl.float32)
    launch(clear, acc)
    for k in srange(of_a.shape[1]):
        launch(part, acc, of_a[0, k], of_b[k, 0])
    launch(copy, c, acc)


def test_a_loop_of_each_group():
    """Tensors of a group's own are put together too, and what all read is loaded once."""
    c, a, b = operands(128, 64, 96)
    mapping = Mapping(
        Instance("groups_block", processor="block"),
        Instance("groups_walk", processor="warp_group"),
        Instance("part_groups", tunables={"how": "none"}),
    )
    program = gemm_of_groups.compile(c, a, b, mapping=mapping)
    program.simulate((c, a, b))
    serial = np.full_like(c, np.nan)
    gemm_of_groups.interpret(serial, a, b, mapping=mapping)
    assert np.array_equal(c, serial)
    assert program.stages["copies"].count("by 2 warp groups") == 3
    assert program.stages["groups_block_kernel"].count(".load(") == 2


def test_mappings_that_no_machine_has():
    for kind, mapping, error, text in (
        ("alone", mapped(), BadMapping, "not in a `prange`"),
        ("by_rows", mapped("thread"), MachineNotThere, "partition_by_mma"),
        ("by_rows", mapped("warp"), BadMapping, "whole warp groups of 4 warps"),
        ("by_rows", mapped(warp_groups=1), BadMapping, "which `warp_groups` says"),
    ):
        with pytest.raises(error, match=text):
            shared(kind, mapping)


@task(c=WRITE, a=READ, b=READ)
def product(c, a, b):
    """C = A B, of one block."""


@task(acc=READ_WRITE, a=READ, b=READ)
def part(acc, a, b):
    """acc += A B."""


@product.inner
def product_block(c, a, b):
    acc = make_tensor(c.shape, tl.float32)
    launch(clear, acc)
    launch(part, acc, a, b)
    launch(copy, c, acc)


@part.inner
def part_groups(acc, a, b):
    """Boxes of a warp group's instruction, or of a warp's, or columns."""
    how, columns = tunable("how", "warp_group"), tunable("columns", 64)
    n = int(acc.shape[1])
    if how == "none":
        launch(part, acc, a, b)
        return
    if how == "columns":
        of_acc, of_b = (partition_by_blocks(t, (int(t.shape[0]), n // 2)) for t in (acc, b))
        for g in prange(2):
            launch(part, of_acc[0, g], a, of_b[0, g])
        return
    mma = (64, columns, 16)
    of_acc, of_a = partition_by_mma(acc, mma, "C", how), partition_by_mma(a, mma, "A", how)
    of_b = partition_by_mma(b, mma, "B", how)
    for i, j in prange(*of_acc.shape):
        launch(part, of_acc[i, j], of_a[i, 0], of_b[0, j])


@part.leaf
def part_tile(acc, a, b):
    return tl.dot(a, b, acc)


def layouts(how: str, *, rows: int = 128, columns: int = 64, wide: int = 64) -> dict[str, Any]:
    """The options of a kernel whose layouts are as the mapping says."""
    c, a, b = operands(rows, wide, 64)
    mapping = Mapping(
        Instance("product_block", processor="block"),
        Instance("part_groups", tunables={"how": how, "columns": columns}),
        Instance("part_tile", processor={"columns": "warp_group"}.get(how, how)),
    )
    program = product.compile(c, a, b, mapping=mapping)
    program.simulate((c, a, b))
    assert np.abs(c - a.astype(float) @ b.astype(float)).max() < 0.05
    (launch_,) = program.launches
    kernel, given = program.kernel(launch_), program.arguments(launch_, (c, a, b))
    return program.options(launch_, kernel, given)


def test_layouts_are_as_the_mapping_says():
    assert layouts("warp_group") == {"consumers": 2}
    assert layouts("warp") == {"consumers": 2}
    with pytest.raises(LayoutUnmet, match="is not spread over warps"):
        layouts("columns")
    with pytest.raises(BadPartition, match="does not fit"):
        layouts("warp_group", columns=48)
    with pytest.raises(BadPartition, match="no warp_group has"):
        layouts("warp_group", columns=60)


def test_an_instruction_that_is_not_there():
    """Halves of 64 columns are multiplied at once, by a wider instruction than is promised."""
    c, a, b = operands(64, 128, 64)
    program = product.compile(
        c, a, b, mapping=Mapping(Instance("product_block", processor="block"))
    )
    (launch_,) = program.launches
    kernel, given = program.kernel(launch_), program.arguments(launch_, (c, a, b))
    with pytest.raises(LayoutUnmet, match="instruction that it is cut for") as found:
        program.options(launch_, kernel, given)
    assert "hopper.wgmma of 128 columns" in str(found.value)
    assert "partition_by_mma" in found.value.span.source_line()
