"""Kinds of arguments: unique objects, what a kernel is compiled for, and parts of tuples."""

from __future__ import annotations

from collections import namedtuple

import pytest

from tawa.runtime.kinds import (
    Kind,
    constant_kind,
    fields_of,
    kind_of,
    part_named,
    parts_of,
    spread,
    tuple_kind,
)

Size = namedtuple("Size", "rows columns")


@pytest.mark.parametrize(
    ("kind", "fixed", "value", "text"),
    [
        (kind_of("i32"), False, None, "i32"),
        (kind_of("i32", one=True), True, 1, "i32:1"),
        (kind_of("i32", divisible=True), False, None, "i32:16"),
        (kind_of("f32", positive=True), False, None, "f32:+"),
        (kind_of("none"), True, None, "none"),
        (constant_kind(7), True, 7, "constant"),
        (Kind("*f16", True, device=0, library="torch"), False, None, "*f16:16"),
    ],
)
def test_what_compiling_knows(kind: Kind, fixed: bool, value: object, text: str) -> None:
    assert (kind.is_fixed, kind.value, kind.text) == (fixed, value, text)


def test_kinds_are_unique() -> None:
    assert kind_of("i32", True) is kind_of("i32", True)
    assert kind_of("i32", True) is not kind_of("i32")
    assert kind_of("i32") is kind_of("i32", False, one=False) is kind_of(type="i32", unit=False)
    assert kind_of("i64", unit=True) is not kind_of("i64", positive=True)
    assert constant_kind(7) is constant_kind(7)
    assert constant_kind(1) is not constant_kind(True)
    assert constant_kind(0.0) is not constant_kind(-0.0)
    assert constant_kind("a").value == "a"
    parts = (kind_of("i32"), kind_of("f32"))
    assert tuple_kind(parts) is tuple_kind(parts)
    assert tuple_kind(parts) is not tuple_kind(parts, ("a", "b"))


def test_parts_of_tuples_by_name() -> None:
    whole, single, array = kind_of("i32"), kind_of("f32"), kind_of("*f16")
    pair = tuple_kind((whole, single), ("rows", "columns"))
    nested = tuple_kind((array, pair))
    names = spread({"x": array, "size": pair, "all": nested})
    assert names == {
        "x": array,
        "size.0_rows": whole,
        "size.1_columns": single,
        "all.0": array,
        "all.1.0_rows": whole,
        "all.1.1_columns": single,
    }
    assert list(names) == ["x", "size.0_rows", "size.1_columns", "all.0", "all.1.0_rows",
                           "all.1.1_columns"]  # fmt: skip
    values = {"x": "array", "size": Size(3, 4.0), "all": ("inner", Size(5, 6.0))}
    passed = list(parts_of(list(values.values())))
    assert passed == ["array", 3, 4.0, "inner", 5, 6.0]
    assert [part_named(name, values) for name in names] == passed
    assert fields_of(Size(1, 2)) == ("rows", "columns")
    assert fields_of((1, 2)) == ()
