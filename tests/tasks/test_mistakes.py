"""Mistakes of a newcomer: each an error with the line, and what to do."""

from copy import copy
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
    Sharded,
    launch,
    make_tensor,
    partition_by_blocks,
    partition_by_mma,
    prange,
    task,
    tunable,
)
from tawa.tasks.language.tensors import Buffer


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


def looped(y, x, to, of):
    for box in to:
        launch(double, box, x)


OF_TENSORS: dict[str, Any] = {
    "len(x)": lambda y, x, to, of: launch(double, y, len(x)),
    "x.T": lambda y, x, to, of: launch(double, y, x.T),
    "x < 1": lambda y, x, to, of: launch(double, y, x < 1),
    "np.sqrt(x)": lambda y, x, to, of: launch(double, y, np.sqrt(x)),
    "of[0:1]": lambda y, x, to, of: launch(double, y, of[0:1]),
    "of['a']": lambda y, x, to, of: launch(double, y, of["a"]),
    "of[0.5]": lambda y, x, to, of: launch(double, y, of[0.5]),
    "(3, (16,))": lambda y, x, to, of: launch(double, y, partition_by_blocks(3, (16,))[0]),
    "(of, (16,))": lambda y, x, to, of: launch(double, y, partition_by_blocks(of, (16,))[0]),
    "(16,), 1": lambda y, x, to, of: launch(double, y, partition_by_blocks(x, (16,), 1)[0]),
    "(16,), (0.5,)": lambda y, x, to, of: launch(double, y, partition_by_blocks(x, (16,), (0.5,))),
    "(x, 64": lambda y, x, to, of: launch(double, y, partition_by_mma(x, 64, "C")),
    "(x, (64, 8)": lambda y, x, to, of: launch(double, y, partition_by_mma(x, (64, 8), "C")),
    "prange()": lambda y, x, to, of: [launch(double, y, x) for _ in prange()],
    "prange(-1)": lambda y, x, to, of: [launch(double, y, x) for _ in prange(-1)],
}
"""What newcomers write of tensors and partitions: the text that the error's line has."""

wrong = {
    f.__name__: f
    for f in (
        right, called, outside, negative, of_shape, no_tuple, other_type, other_shape, looped,
    )
} | OF_TENSORS  # fmt: skip


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
        ("looped", "counted as a list's", "for i, j in prange(*partition.shape)"),
        ("other_type", "none of tawa.language", "tl.float32"),
        ("other_shape", "`make_tensor` is given 16", "write (size,)"),
    ],
)
def test_programs(kind: str, text: str, help_: str):
    found = message(kind)
    assert text in found.message
    assert help_ in str(found)
    line = found.span.source_line() if found.span else ""
    assert any(word in (line or "") for word in ("launch(", "double(", "prange(", "for box in"))


@pytest.mark.parametrize("kind", OF_TENSORS)
def test_what_tensors_and_partitions_do_not_have(kind: str):
    found = message(kind)
    assert found.span is not None
    assert found.span.file == __file__
    assert kind in (found.span.source_line() or "")
    assert "in the task tree: twice_grid" in str(found)


def test_a_tensor_is_asked_for_what_it_may_have():
    """Libraries look whether an object has something; for them there is nothing."""
    buffer = Buffer("x", (4,), tl.float32)
    assert not hasattr(buffer.whole(), "data_ptr")
    assert copy(buffer.whole()).shape == (4,)


@pytest.mark.parametrize(
    ("record", "text", "help_"),
    [
        ({"name": "twice_grdi"}, "which is not an instance", "did you mean `twice_grid`?"),
        ({"name": "twice_grid", "tunables": {"siz": 8}}, "not a tunable", "did you mean `size`?"),
        ({"name": "double_tile", "memories": {"z": "shared"}}, "not a tensor", "x or y"),
        ({"name": "twice_grid", "calls": ("a",)}, "does not have", "twice_grid"),
        ({"name": "double_tile", "memories": ["shared"]}, "`memories` of", "a dict, by name"),
        ({"name": "double_tile", "shared_cap": "64 KB"}, "`shared_cap` of", "a whole number"),
        ({"name": "double_tile", "pipeline": True}, "`pipeline` of", "a whole number"),
        ({"name": "double_tile", "warp_specialize": "no"}, "`warp_specialize` of", "True or False"),
        ({"name": "double_tile", "entry": "no"}, "`entry` of", "True or False"),
        ({"name": "twice_grid", "tunables": {3: 8}}, "`tunables` of", "a dict, by name"),
        ({"name": "twice_grid", "calls": (3,)}, "`calls` of", "names of instances"),
        ({"name": "double_tile", "pipline": 3}, "no field `pipline`", "did you mean `pipeline`?"),
        ({"name": "double_tile", "entry": True}, "no variant `double_tile`", "twice_grid"),
        ({"name": "double_tile", "options": {"deal": 2}}, "are dealt", "leave `deal` at 1"),
        ({"name": "double_tile", "options": {"num_warps": "4"}}, "num_warps='4'", "1 or 2 or 4"),
        ({"name": "double_tile", "options": {"alternate": True}}, "take turns", "`alternate`"),
        ({"name": "double_tile", "options": {"slice_k": 2}}, "dealt to teams", "`slice_k`"),
    ],
)
def test_records(record: dict[str, Any], text: str, help_: str):
    x = np.arange(64, dtype=np.float32)
    with pytest.raises(TawaError) as found:
        twice(np.zeros_like(x), x, "right", mapping=Mapping(Instance(**record)))
    assert text in found.value.message
    assert help_ in str(found.value)
    assert "Instance(**record)" in ((found.value.span and found.value.span.source_line()) or "")


@pytest.mark.parametrize(
    ("given", "devices", "text", "help_"),
    [
        (["double_tile"], 1, "is given 'double_tile'", "records: Mapping(Instance(...)"),
        ([[Instance("double_tile")]], 1, "is given [Instance", "write Mapping(*records)"),
        ([Instance("twice_grid", processor="node")], 2.0, "`devices` of", "a whole number"),
    ],
)
def test_mappings(given: list[Any], devices: Any, text: str, help_: str):
    with pytest.raises(TawaError) as found:
        Mapping(*given, devices=devices)
    assert text in found.value.message
    assert help_ in str(found.value)
    assert found.value.span is not None


@pytest.mark.parametrize(
    ("written", "text", "line"),
    [
        ("mapping = Mapping(\n", "is no Python", "mapping = Mapping("),
        ("from tawa.tasks import *\n\nmapping = Mapping(Instance('a', pipline=3))", "`pipline`", "pipl"),
        ("mapping = 3", "has no mapping", "Mapping.read"),
        (None, "no mapping to be read", "Mapping.read"),
    ],
)  # fmt: skip
def test_mappings_in_files(tmp_path: Any, written: str | None, text: str, line: str):
    file = tmp_path / "mapping.py"
    if written is not None:
        file.write_text(written)
    with pytest.raises(TawaError) as found:
        Mapping.read(file)
    assert text in found.value.message
    assert line in ((found.value.span and found.value.span.source_line()) or "")


def test_more_calls_than_launches():
    mapping = Mapping(Instance("twice_grid", calls=("double_tile",) * 2), Instance("double_tile"))
    assert "fewer launch statements" in message(mapping=mapping).message


def test_arguments_by_name():
    x = np.arange(64, dtype=np.float32)
    by_name, by_place = np.zeros_like(x), np.zeros_like(x)
    twice(kind="right", x=x, y=by_name)
    twice(by_place, x, "right")
    np.testing.assert_array_equal(by_name, by_place)
    with pytest.raises(TawaError, match="other names") as found:
        twice(by_name, x, "right", maping=Mapping())
    assert "maping" in str(found.value)


def test_what_is_written_may_be_written():
    x = np.arange(64, dtype=np.float32)
    x.flags.writeable = False
    with pytest.raises(TawaError, match="writes `y") as found:
        twice(x, np.zeros_like(x), "right")
    assert "in the task tree: twice_grid" in str(found.value)


def test_shards_on_more_devices_than_there_are():
    x, mapping = np.zeros((3, 16), np.float32), Mapping(Instance("twice_grid", processor="node"))
    with pytest.raises(TawaError, match="lies on 3 devices") as found:
        twice(Sharded([*x]), Sharded([*x]), "right", mapping=mapping)
    assert "devices=3" in str(found.value)
    with pytest.raises(TawaError, match="along dimension 'rows'"):
        Sharded([*x], dim="rows")  # pyright: ignore[reportArgumentType]


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
