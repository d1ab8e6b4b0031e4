"""Environment variables that Tawa reads, all of them.

None of them changes what a kernel compiles to: that is decided by the launch options
(`tawa.base.options`), which are the cache key. The knobs say where files go and what is shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from tawa.base.errors import TawaError

T = TypeVar("T")


class BadKnob(TawaError):
    """An environment variable has a value that Tawa can't read."""

    explanation = (
        "Tawa reads a few environment variables, each of one type; `tawa doctor` lists them with "
        "their values. Correct or unset the one that the message names."
    )
    example = """
import os

from tawa.base.knobs import TRACEBACK

os.environ["TAWA_TRACEBACK"] = "perhaps"
TRACEBACK.get()
"""


@dataclass(frozen=True)
class Knob(Generic[T]):
    """One environment variable: its name, how its text is read, its default and what it does."""

    name: str
    parse: Callable[[str], T]
    default: Callable[[], T]
    doc: str
    form: str

    def get(self) -> T:
        """The knob's value now. Raises `BadKnob` when the variable's text can't be read."""
        text = os.environ.get(self.name)
        if text is None or text == "":
            return self.default()
        try:
            return self.parse(text)
        except ValueError as error:
            raise BadKnob(
                f"the environment variable {self.name} can't be read",
                expected=self.form,
                found=repr(text),
                hint=f"set it to {self.form}, or unset it",
            ) from error


def _flag(text: str) -> bool:
    values = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}
    if text.lower() not in values:
        raise ValueError(text)
    return values[text.lower()]


def _default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tawa"


def _optional_path(text: str) -> Path | None:
    return Path(text)


def _enabling(text: str) -> str:
    value = text.strip().lower()
    if value not in ("", "0", "1", "strict"):
        raise ValueError(text)
    return value if value != "0" else ""


CACHE_DIR = Knob[Path](
    "TAWA_CACHE_DIR",
    Path,
    _default_cache,
    "Where compiled kernels are kept, by content",
    "a directory",
)

DUMP_DIR = Knob[Path | None](
    "TAWA_DUMP_DIR",
    _optional_path,
    lambda: None,
    "If set, every stage of every kernel that is compiled is written there, a folder a kernel",
    "a directory",
)

TRACEBACK = Knob[bool](
    "TAWA_TRACEBACK",
    _flag,
    lambda: False,
    "Whether an error shows the compiler's own Python frames",
    "0 or 1",
)

VERIFY = Knob[bool](
    "TAWA_VERIFY",
    _flag,
    lambda: False,
    "Whether the module is verified after every pass, and not after every level alone: an error "
    "then names the pass that broke it",
    "0 or 1",
)

ENABLE = Knob[str](
    "TAWA_ENABLE",
    _enabling,
    lambda: "",
    "`1`: launches of an installed Triton's kernels go through Tawa, as after `tawa.enable()`; "
    "`strict`: and a kernel that Tawa refuses is an error",
    "1, strict or 0",
)
KNOBS: tuple[Knob[Path] | Knob[Path | None] | Knob[bool] | Knob[str], ...] = (
    CACHE_DIR, DUMP_DIR, TRACEBACK, VERIFY, ENABLE
)  # fmt: skip
"""All knobs, in the order in which they are listed."""
