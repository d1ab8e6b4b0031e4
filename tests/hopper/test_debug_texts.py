"""How elements are printed, and what assertions of a kernel say on the device."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects.builtin import bf16, f16, f32, f64, i1, i8, i16, i32, i64

from tawa.base.types import PtrType
from tawa.hopper.dialect.debug import _shown


@pytest.mark.parametrize(
    ("element", "form", "text"),
    [
        (i1, "%d", "int(x)"), (i8, "%d", "int(x)"), (i16, "%d", "int(x)"), (i32, "%d", "int(x)"),
        (i64, "%lld", "x"), (f32, "%g", "double(x)"), (f64, "%g", "double(x)"),
        (PtrType(f32), "%p", "(const void*)(x)"),
    ],
)  # fmt: skip
def test_elements_as_printf_takes_them(element: Any, form: str, text: str) -> None:
    assert _shown(element, "x") == (form, text)


@pytest.mark.parametrize("element", [f16, bf16])
def test_halves_become_floats_first(element: Any) -> None:
    form, text = _shown(element, "x")
    assert form == "%g"
    assert text.startswith("double(")
    assert text != "double(x)"
