"""The front end: a kernel's Python source becomes a tile module.

`JITFunction` and the argument types work without the IR library, so that launching a kernel that
is already compiled needn't load it; `lower_to_tile` loads it when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tawa.frontend.source.arguments import (
    ArgType,
    Constant,
    DescriptorArg,
    PointerArg,
    ScalarArg,
    parse_argument,
    run_time_parameters,
    specialize_number,
)
from tawa.frontend.source.function import JITFunction, Parameter

if TYPE_CHECKING:
    from tawa.frontend.lower import lower_to_tile, require_whole_rows

__all__ = [
    "ArgType",
    "Constant",
    "DescriptorArg",
    "JITFunction",
    "Parameter",
    "PointerArg",
    "ScalarArg",
    "lower_to_tile",
    "parse_argument",
    "require_whole_rows",
    "run_time_parameters",
    "specialize_number",
]


def __getattr__(name: str) -> Any:
    if name in ("lower_to_tile", "require_whole_rows"):
        from tawa.frontend import lower

        return getattr(lower, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
