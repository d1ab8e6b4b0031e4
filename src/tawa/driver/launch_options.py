"""The options among a launch's keywords."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from tawa.base.options import Options
from tawa.runtime.binding import RESERVED
from tawa.runtime.launch_errors import NEUTRAL_OPTIONS, TRITON_OPTIONS, UnknownLaunchOption

LEFT_ALONE = (*RESERVED, "extern_libs")
"""Keywords that are no options; a kernel names itself what it calls of other libraries."""


def launch_options(name: str, given: Mapping[str, Any]) -> Options:
    """The options among a launch's keywords. Raises `UnknownLaunchOption`."""
    known = {field.name for field in fields(Options)}
    chosen: dict[str, Any] = {}
    for option, value in given.items():
        if option in known:
            chosen[option] = value
        elif option not in LEFT_ALONE and value not in NEUTRAL_OPTIONS.get(option, ()):
            close = get_close_matches(option, known, n=1)
            raise UnknownLaunchOption(
                f"{name} has no parameter `{option}`, and there is no such option",
                expected=f"one of {', '.join(sorted(known))}",
                found=f"{option}={value!r}",
                hint=TRITON_OPTIONS.get(option)
                or (f"did you mean `{close[0]}`?" if close else None),
            )
    return Options(**chosen)
