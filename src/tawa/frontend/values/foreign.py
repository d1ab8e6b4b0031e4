"""Finding our meaning of objects of Triton's: by name, so that Triton need not be installed.

A kernel written for Triton refers to `triton.language` as a module, and to single functions,
dtypes and `constexpr` objects of it. Whatever comes from a module named `triton...` is replaced by
what has the same name in `tawa.language`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from tawa import language
from tawa.language import dtypes, host

_ROOT = "triton.language"

HOST_NAMES: dict[str, Any] = {
    "cdiv": host.cdiv,
    "next_power_of_2": host.next_power_of_2,
    "language": language,
}
"""What kernels may use of the module `triton` itself."""


INSIDE = language.core, language.standard
"""Modules whose names are not all in `tawa.language`: libraries use some that begin with `_`."""


class Missing:
    """A name of Triton's that has no counterpart here."""

    def __init__(self, name: str) -> None:
        self.name = name


def is_foreign(value: Any) -> bool:
    """Whether a value is Triton's: a module of its own, or something defined in one."""
    if isinstance(value, ModuleType):
        return _is_triton(value.__name__)
    module: Any = getattr(value, "__module__", None) or type(value).__module__
    return isinstance(module, str) and _is_triton(module)


def _is_triton(module: str) -> bool:
    return module == "triton" or module.startswith("triton.")


def translate(value: Any) -> Any:
    """Our counterpart of an object of Triton's; `Missing` if there is none."""
    if isinstance(value, ModuleType):
        return _module(value.__name__)
    if type(value).__name__ == "constexpr" and hasattr(value, "value"):
        inner = value.value
        return translate(inner) if is_foreign(inner) else inner
    if type(value).__name__ == "dtype":
        return _dtype(str(value.name))
    if type(value).__name__ == "pointer_type":
        element = translate(value.element_ty)
        return element if isinstance(element, Missing) else dtypes.pointer_type(element)
    return _named(getattr(value, "__module__", ""), getattr(value, "__name__", repr(value)))


def speaks_triton(function: Any) -> bool:
    """Whether a Python function names something of an installed Triton's."""
    code, names = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    return code is not None and any(is_foreign(names.get(name)) for name in code.co_names)


def theirs(value: Any) -> Any:
    """Triton's counterpart of one of our types; any other value as it is."""
    language: Any = sys.modules[_ROOT]
    if isinstance(value, dtypes.dtype):
        return language.dtype(value.name)
    if isinstance(value, dtypes.pointer_type):
        return language.pointer_type(theirs(value.element_ty))
    return value


def attribute(module: ModuleType, name: str) -> Any:
    """Our counterpart of `module.name` for a module of Triton's; `Missing` if there is none."""
    if module.__name__ == "triton":
        return HOST_NAMES.get(name, Missing(name))
    ours = _module(module.__name__)
    if isinstance(ours, Missing):
        return ours
    return next((getattr(m, name) for m in (ours, *INSIDE) if hasattr(m, name)), Missing(name))


def _dtype(name: str) -> Any:
    try:
        return dtypes.dtype_named(name)
    except KeyError:
        return Missing(name)


def _module(name: str) -> Any:
    if name == "triton":
        return sys.modules.get("triton", Missing(name))
    found: Any = language
    parts = name.removeprefix(_ROOT).strip(".").split(".")
    for part in filter(None, parts):
        if part in ("core", "standard", "random"):
            return language
        found = getattr(found, part, None)
        if found is None:
            return Missing(name)
    return found


def _named(module: str, name: str) -> Any:
    """Our object of a name, looked for in the module it is defined in and in those around it."""
    if not module.startswith(_ROOT):
        return HOST_NAMES.get(name, Missing(name))
    places: list[Any] = []
    while module.startswith(_ROOT):
        places.append(_module(module))
        module = module.rpartition(".")[0]
    places = [place for place in (*places, *INSIDE) if not isinstance(place, Missing)]
    return next((getattr(p, name) for p in places if hasattr(p, name)), Missing(name))
