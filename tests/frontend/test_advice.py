"""What messages advise: the name that was meant, and what to write instead."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import i32
from xdsl.dialects.test import TestOp as Made

import tawa
import tawa.language as tl
from tawa.frontend.source.errors import NotCallable
from tawa.frontend.values import advice
from tawa.frontend.values.advice import (
    attribute_hint,
    call_hint,
    did_you_mean,
    keyword_hint,
    operand_hint,
)


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("maks", ["mask", "other"], "did you mean `mask`?"), ("xyz", ["mask"], "look"),
        ("masks", ["mask", "masks2"], "did you mean `masks2`?"), ("mask", [], "look"),
    ],
)  # fmt: skip
def test_the_name_that_is_most_like_it(name: str, known: list[str], found: str) -> None:
    assert did_you_mean(name, known, "look") == found


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (["maks"], "did you mean `mask`?"), (["mask", "othr"], "did you mean `other`?"),
        (["othr", "maks"], "did you mean `other`?"), (["mask"], "pass each parameter once"),
        ([], "pass each parameter once"), (["qqq", "maks"], "pass each parameter once"),
    ],
)  # fmt: skip
def test_keywords(given: list[str], hint: str) -> None:
    """Of the first that is none."""
    assert keyword_hint(given, iter(["mask", "other"])).startswith(hint)


def tensor(dtype: Any) -> Any:
    found = advice.Tensor.__new__(advice.Tensor)
    for name, value in (("dtype", dtype), ("value", Made(result_types=[i32]).results[0])):
        object.__setattr__(found, name, value)
    return found


@pytest.mark.parametrize(
    ("value", "name", "hint"),
    [
        ((), "append", "a list is a tuple"), (tensor(tl.pointer_type(tl.float32)), "load", "use `tl.load("),
        (tensor(tl.pointer_type(tl.float32)), "store", "use `tl.store("),
        (tensor(tl.pointer_type(tl.float32)), "sum", "load through the pointer first"),
        (tensor(tl.float32), "exp", "call it as a function: `tl.exp"), (tensor(tl.float32), "no_such", None),
        (3, "exp", None), (None, "load", None),
    ],
)  # fmt: skip
def test_attributes(value: Any, name: str, hint: str | None) -> None:
    found = attribute_hint(value, name)
    assert found is None if hint is None else found is not None and found.startswith(hint)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (None, "it is None in this launch"), ((1, 2), "take an element of the tuple"),
        (np.zeros(3), "pass the array to the kernel"), (3, None), (SimpleNamespace(), None), ("text", None),
    ],
)  # fmt: skip
def test_operands(value: Any, hint: str | None) -> None:
    found = operand_hint(value)
    assert found is None if hint is None else found is not None and found.startswith(hint)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("exp", "use `tl.exp`"), ("load", "use `tl.load`"), ("_internal", None), ("no_such", None),
     ("__name__", None), ("math", None)],
)  # fmt: skip
def test_functions_in_the_place_of_others(name: str, hint: str | None) -> None:
    assert call_hint(name) == hint


def test_a_function_of_numpy_is_answered_by_ours():
    """NumPy, a module, has a `shape` and a `dtype`: it is no array."""

    @tawa.jit
    def roots(x):
        tl.store(x + tl.arange(0, 4), np.sqrt(tl.load(x + tl.arange(0, 4))))

    with pytest.raises(NotCallable, match="can't be called in a kernel") as found:
        roots.compile("*f32")
    assert "use `tl.sqrt`" in str(found.value)
