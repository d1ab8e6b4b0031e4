"""What a kernel was compiled for, as text: another process compiles the same before any launch.

Hooks of compilations are told it (`specialization_data`), and `JITFunction.preload` takes it.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, cast

from tawa import language
from tawa.base.errors import TawaError
from tawa.base.kernel_spec import tuples
from tawa.base.options import Options
from tawa.driver.request import Request
from tawa.language.dtypes import dtype


class NotPreloaded(TawaError):
    """The text given to `preload` does not describe a compilation of this kernel."""

    explanation = (
        "`preload` takes the `specialization_data` that Tawa gave to a hook of compilations: for "
        "the same kernel, and by this version of Tawa."
    )
    example = """
from tawa.triton.preloading import request_of

request_of("another", "{}")
"""


def specialization_data(name: str, request: Request) -> str | None:
    """The text of a request; None if a constant is a function, or something else without one."""
    try:
        constants = {name: _written(value) for name, value in request.constants.items()}
    except TypeError:
        return None
    options = asdict(request.options)
    return json.dumps(
        {"name": name, "types": request.types, "constants": constants, "options": options}
    )


def request_of(name: str, text: str) -> Request:
    """The request that a text tells of the kernel of a name. Raises NotPreloaded."""
    record = json.loads(text)
    if record.get("name") != name:
        raise NotPreloaded(
            f"this `specialization_data` is of another kernel than `{name}`",
            expected=name,
            found=str(record.get("name")),
        )
    constants = {key: _read(value) for key, value in record["constants"].items()}
    return Request(record["types"], constants, Options(**tuples(record["options"])))


def _written(value: Any) -> list[Any]:
    """A constant as its kind and what JSON can hold. Raises TypeError for others."""
    match value:
        case bool() | int() | float() | str() | None:
            return ["plain", value]
        case dtype():
            return ["dtype", str(value)]
        case language.constexpr():
            return ["constexpr", _written(value.value)]
        case tuple():
            return ["tuple", [_written(item) for item in cast("tuple[Any, ...]", value)]]
        case _:
            raise TypeError(f"{value!r} has no text")


def _read(record: list[Any]) -> Any:
    kind, value = record
    match kind:
        case "dtype":
            return dtype(value)
        case "constexpr":
            return language.constexpr(_read(value))
        case "tuple":
            return tuple(_read(item) for item in value)
        case _:
            return value
