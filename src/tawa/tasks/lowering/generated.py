"""Kernels whose source the compiler writes: text that errors show, and functions it may call."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import tawa.language as tl
from tawa.base.source import remember_source

MARK = "<tawa tasks "
"""What the names of texts without a file begin with."""


def function_of(name: str, text: str, namespace: Mapping[str, Any]) -> Any:
    """The function `name` that a text defines, whose source can be read."""
    file = f"{MARK}{name} {sha256(text.encode()).hexdigest()[:12]}>"
    remember_source(file, text)
    scope: dict[str, Any] = {"tl": tl, "__name__": "tawa.tasks.kernels", **namespace}
    exec(compile(text, file, "exec"), scope)
    return scope[name]
