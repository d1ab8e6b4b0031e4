"""Mistakes of a newcomer: each an error with the line, and what to do."""

from typing import Any

import numpy as np
import pytest

import tawa.language as tl
from tawa.base.errors import TawaError
from tawa.tasks import (
    READ,
    WRITE,
    Instance,
    Mapping,
    launch,
    make_tensor,
    partition_by_blocks,
    prange,
    task,
    tunable,
)


@task(y=WRITE, x=READ)
def twice(y, x, kind):
    """y = 2 x; what is wrong depends on `kind`."""


@task(y=WRITE, x=READ)
def double(y, x):
    """y = 2 x."""


@twice.inner
def twice_grid(y, x, kind):
    size = tunable("size", 16)
    wrong[kind](y, x, partition_by_blocks(y, (size,)), partition_by_blocks(x, (size,)))


@double.leaf
def double_tile(y, x):
    return x + x


def right(y, x, to, of):
    for i in prange(to.shape[0]):
        launch(double, to[i], of[i])


def called(y, x, to, of):
    for i in prange(to.shape[0]):
        double(to[i], of[i])


def outside(y, x, to, of):
    launch(double, to[0], of[9])


def negative(y, x, to, of):
    launch(double, to[-1], of[0])


def of_shape(y, x, to, of):
    for i in prange(to.shape):
        launch(double, to[i], of[i])


def no_tuple(y, x, to, of):
    launch(double, y, partition_by_blocks(x, 16)[0])


def other_type(y, x, to, of):
    launch(double, make_tensor((16,), np.float32), x)


def other_shape(y, x, to, of):
    launch(double, make_tensor(16, tl.float32), x)


wrong = {
    f.__name__: f
    for f in (right, called, outside, negative, of_shape, no_tuple, other_type, other_shape)
}


def message(kind: str = "right", *more: Any, mapping: Any = None) -> TawaError:
    x = np.arange(64, dtype=np.float32)
    with pytest.raises(TawaError) as found:
        twice(np.zeros_like(x), x, kind, *more, mapping=mapping)
    return found.value


@pytest.mark.parametrize(
    ("kind", "text", "help_"),
    [
        ("called", "is called inside of a task", "launch(double, ...)"),
        ("outside", "no box 9 in dimension 0", "offset"),
        ("negative", "no box -1 in dimension 0", "offset"),
        ("of_shape", "`prange` is given", "prange(*partition.shape)"),
        ("no_tuple", "`partition_by_blocks` is given 16", "write (size,)"),
        ("other_type", "none of tawa.language", "tl.float32"),
        ("other_shape", "`make_tensor` is given 16", "write (size,)"),
    ],
)
def test_programs(kind: str, text: str, help_: str):
    found = message(kind)
    assert text in found.message
    assert help_ in str(found)
    line = found.span.source_line() if found.span else ""
    assert any(word in (line or "") for word in ("launch(", "double(", "prange("))


@pytest.mark.parametrize(
    ("record", "text", "help_"),
    [
        ({"name": "twice_grdi"}, "which is not an instance", "did you mean `twice_grid`?"),
        ({"name": "twice_grid", "tunables": {"siz": 8}}, "not a tunable", "did you mean `size`?"),
        ({"name": "double_tile", "memories": {"z": "shared"}}, "not a tensor", "x or y"),
        ({"name": "twice_grid", "calls": ("a",)}, "does not have", "twice_grid"),
        ({"name": "double_tile", "memories": ["shared"]}, "`memories` of", "a dict, by name"),
        ({"name": "double_tile", "shared_cap": "64 KB"}, "`shared_cap` of", "a whole number"),
    ],
)
def test_records(record: dict[str, Any], text: str, help_: str):
    x = np.arange(64, dtype=np.float32)
    with pytest.raises(TawaError) as found:
        twice(np.zeros_like(x), x, "right", mapping=Mapping(Instance(**record)))
    assert text in found.value.message
    assert help_ in str(found.value)


def test_more_calls_than_launches():
    mapping = Mapping(Instance("twice_grid", calls=("double_tile",) * 2), Instance("double_tile"))
    assert "fewer launch statements" in message(mapping=mapping).message


def test_calls():
    assert "mapping that is none" in message(mapping={}).message
    assert "mapping=..." in str(message("right", Mapping()))
    with pytest.raises(TawaError, match="is a tensor"):
        double([1.0], np.zeros(1, np.float32))


def nothing(y, x):
    x + x


def assigns(y, x):
    y = x + x  # noqa: F841


def too_many(y, x):
    return x, x


@pytest.mark.parametrize("fn", [nothing, assigns, too_many])
def test_leaves_return_what_is_written(fn: Any):
    with pytest.raises(TawaError, match="does not return what its task writes") as found:
        double.leaf(fn)
    assert "return the new y" in str(found.value)


def test_declarations():
    with pytest.raises(TawaError, match="declared without privileges"):
        task(nothing)
    with pytest.raises(TawaError, match="the privilege of `y`") as found:
        task(y="write")(nothing)
    assert "REDUCE" in str(found.value)
