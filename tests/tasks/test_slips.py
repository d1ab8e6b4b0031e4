"""What new users write by mistake: each is an error with the line, and the path in the task tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawa.language as tl
from tawa.base.errors import TawaError
from tawa.base.source import Span
from tawa.tasks import (
    READ,
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
    AliasingArguments,
    BadMapping,
    BadPartition,
    TensorUndefined,
    WrongTaskArguments,
)
from tawa.tasks.lowering.generated import MARK
from tawa.tasks.lowering.places import relocate


@task(y=WRITE, x=READ)
def shift(y, x, what):
    """y = x + 1."""


@shift.inner
def shift_grid(y, x, what):
    of_y, of_x = (partition_by_blocks(tensor, (32,)) for tensor in (y, x))
    STEPS[what](of_y, of_x)


@shift.leaf
def shift_tile(y, x, what):
    return x + 1


def each(of_y: Any, of_x: Any, *, extent: Any = None, by: int = 0, launched: Any = shift) -> None:
    for i in prange(of_y.shape[0] if extent is None else extent):
        launch(launched, of_y[i + by], of_x[i], "")


def by_name(of_y: Any, of_x: Any, x: str = "x") -> None:
    for i in prange(of_y.shape[0]):
        launch(shift, of_y[i], **{x: of_x[i], "what": ""})


def undefined(of_y: Any, of_x: Any) -> None:
    half = make_tensor((32,), tl.float32)
    launch(shift, of_y[0], half, "")


def triangle(of_y: Any, of_x: Any) -> None:
    """Loops that others make longer may name boxes past the end."""
    for i in srange(of_y.shape[0]):
        for _ in srange(i + 1):
            launch(shift, of_y[i], of_x[i], "")


STEPS: dict[str, Any] = {
    "right": each,
    "by name": by_name,
    "triangle": triangle,
    "behind": lambda y, x: each(y, x, by=1),
    "longer": lambda y, x: each(y, x, extent=y.shape[0] + 1),
    "half": lambda y, x: each(y, x, extent=y.shape[0] / 2),
    "text": lambda y, x: each(y, x, launched="shift"),
    "leaf": lambda y, x: each(y, x, launched=shift.variants[1]),
    "other name": lambda y, x: by_name(y, x, "z"),
    "undefined": undefined,
    "nothing": lambda y, x: None,
}

WRONG = {
    "behind": (BadPartition, "a loop goes on behind the last box of a partition in dimension 0"),
    "longer": (BadPartition, "which is 4"),
    "half": (BadPartition, "a fraction"),
    "text": (WrongTaskArguments, "`launch` is given 'shift'"),
    "leaf": (WrongTaskArguments, "launch `shift`"),
    "other name": (WrongTaskArguments, "expected: x, what\n  found: z, what"),
    "undefined": (TensorUndefined, "reads `half1`, which nothing was written to"),
    "nothing": (TensorUndefined, "launches nothing that writes `y`"),
}


def arrays(n: int = 100) -> tuple[Any, Any]:
    return np.zeros(n, np.float32), np.arange(n, dtype=np.float32)


@pytest.mark.parametrize("what", WRONG)
def test_a_slip_is_an_error(what: str) -> None:
    kind, words = WRONG[what]
    with pytest.raises(kind) as found:
        shift.compile(*arrays(), what)
    assert words in str(found.value)
    assert "in the task tree: shift_grid" in str(found.value)
    assert found.value.span is not None
    assert found.value.span.file == __file__


@pytest.mark.parametrize("what", ["right", "by name", "triangle"])
def test_what_is_right_is_none(what: str) -> None:
    y, x = arrays()
    shift.compile(y, x, what).simulate((y, x, what))
    np.testing.assert_array_equal(y, x + 1)


def test_sizes_that_do_not_agree() -> None:
    """The same program for larger x; an x with fewer boxes is asked for, whatever came before."""
    y, x = arrays(100)[0], arrays(140)[1]
    shift.compile(y, x, "right").simulate((y, x, "right"))
    np.testing.assert_array_equal(y, x[:100] + 1)
    with pytest.raises(BadPartition, match="do the sizes of the tensors agree"):
        shift.compile(y, x[:60], "right")


def test_arrays_that_overlap() -> None:
    """In a first call, and in one like it; columns beside each other are apart."""
    _, x = arrays()
    with pytest.raises(AliasingArguments, match="`y` and `x` overlap"):
        shift.interpret(x, x, "right")
    with pytest.raises(AliasingArguments, match="one array"):
        shift(x, x, "right")
    both = np.zeros((2, 200), np.float32)
    shift(both[0, :100], both[1, :100], "right")
    with pytest.raises(AliasingArguments, match="bytes that both reach"):
        shift(both[0, :100], both[0, 40:140], "right")
    pairs = np.zeros((100, 2), np.float32)
    shift(pairs[:, 0], pairs[:, 1], "right")
    np.testing.assert_array_equal(pairs[:, 0], 1)


@pytest.mark.parametrize(
    ("field", "value"), [("pipeline", 0), ("warp_groups", 9), ("tile_order", 0), ("shared_cap", -1)]
)
def test_numbers_of_a_record(field: str, value: int) -> None:
    with pytest.raises(BadMapping, match=f"`{field}` of Instance") as found:
        Instance("shift_grid", **{field: value})
    assert found.value.span is not None


@task(y=WRITE, x=READ)
def rows(y, x):
    """y = x + 1, a row a block."""


@rows.inner
def rows_grid(y, x):
    of_y, of_x = (partition_by_blocks(tensor, (1, x.shape[1])) for tensor in (y, x))
    for i in prange(of_y.shape[0]):
        launch(rows, of_y[i, 0], of_x[i, 0])


@rows.leaf
def rows_tile(y, x):
    return x + 1


def test_boxes_whose_sides_no_tile_has() -> None:
    x = np.zeros((4, 50), np.float16)
    with pytest.raises(BadPartition, match="boxes of `x` have 50 elements") as found:
        rows.compile(np.zeros_like(x), x).simulate((np.zeros_like(x), x))
    assert "cut boxes of 56" in str(found.value)
    assert "rows_grid > rows_tile" in str(found.value)


def test_what_a_whole_kernel_lacks_is_shown_at_its_record() -> None:
    x = np.zeros((4, 1 << 16), np.float16)
    mapping = Mapping(Instance("rows_tile", shared_cap=1 << 20, memories={"x": "shared"}))
    program = rows.compile(np.zeros_like(x), x, mapping=mapping)
    (only,) = program.launches
    error = TawaError("it does not fit", span=Span(f"{MARK}{only.kernel.name} 0>", 1, 0, 1, 4))
    relocate(error, only.kernel)
    assert error.span == mapping.instances["rows_tile"].span
    assert "in the task tree: rows_grid > rows_tile" in str(error)
