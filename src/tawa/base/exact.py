"""Keys of compile-time values: values that a kernel can tell apart have different keys.

Python's own equality is too coarse for a dictionary of compiled kernels: `1`, `1.0` and `True` are
equal, and so are `0.0` and `-0.0`, but kernels compiled for them differ.
"""

from __future__ import annotations

from typing import Any, cast

__all__ = ["exact"]

PLAIN = frozenset({int, str, bool, bytes, type(None)})


def exact(value: Any) -> Any:
    """A key that, beside the value's class, equals that of no other value.

    It is hashable if the value is. An object may have a `constant_key` of its own.
    """
    kind = value.__class__
    if kind in PLAIN:
        return value
    if isinstance(value, float):
        return value if value and value == value else repr(value)
    if isinstance(value, tuple):
        return tuple([(item.__class__, exact(item)) for item in cast("tuple[Any, ...]", value)])
    if kind.__name__ == "constexpr" and hasattr(value, "value"):
        return value.value.__class__, exact(value.value)
    if isinstance(value, complex) or kind.__module__ == "numpy":
        return repr(value)
    return getattr(value, "constant_key", value)
