"""Which global values a kernel may name."""

from __future__ import annotations

from typing import Any

from tawa.base.errors import in_short
from tawa.frontend.source.errors import UnusableGlobal
from tawa.frontend.values.builder import Builder
from tawa.frontend.values.conversion import fail
from tawa.frontend.values.values import describe, is_array_of_host


def require_usable(b: Builder, name: str, value: Any) -> None:
    """Raise `UnusableGlobal` for what could change, or lies elsewhere, when the kernel runs."""
    if isinstance(value, bool | int | float | str):
        raise fail(
            b,
            UnusableGlobal,
            f"the global variable `{name}` is a plain {type(value).__name__}",
            expected="a `tl.constexpr` object",
            hint=f"declare it as `{name} = tl.constexpr({in_short(value)})`",
        )
    if is_array_of_host(value):
        raise fail(
            b,
            UnusableGlobal,
            f"the global variable `{name}` is an array",
            expected="a parameter of the kernel",
            found=describe(value),
            hint="pass the array to the kernel",
        )
