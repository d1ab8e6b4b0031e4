"""What all methods share: limits, seeds, and the error for a run that failed."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import SupportsFloat, SupportsIndex

from tawa.base.errors import in_short
from tawa.base.user_frames import entries
from tawa.cuppl.elaboration.shared import Elaborated
from tawa.cuppl.typing.errors import BadSetting
from tawa.cuppl.typing.failures import ALL_ZERO, FAILURES, INFINITE_SUPPORT
from tawa.functional.errors import FunctionalError

__all__ = ["Limits", "check_memory", "check_settings", "counts", "failure"]


@entries
@dataclass(frozen=True, slots=True)
class Limits:
    """How far a run may go before it is taken for one that never ends."""

    max_memory: int = 1 << 32
    """Bytes of heap, and of stacks, of all particles together."""
    max_depth: int = 1 << 20
    """Nested native calls of one run."""
    max_steps: int = 1 << 30
    """Recursive calls and turns of loops of one run between two suspensions."""

    def __post_init__(self) -> None:
        """Raise BadSetting for a limit that is not a whole number above 0."""
        counts(**{name: getattr(self, name) for name in self.__slots__})


def counts(least: int = 1, **given: object) -> list[int]:
    """The given numbers as integers, in their order. Raises BadSetting for other values."""
    found: list[int] = []
    for name, value in given.items():
        array = bool(getattr(value, "shape", ()))
        number = float(value) if isinstance(value, SupportsFloat) and not array else -1.0
        if isinstance(value, bool) or number < least or number % 1.0 != 0.0:
            raise BadSetting(
                f"`{name}` must be a whole number",
                expected=f"at least {least}",
                found=in_short(value),
                hint=f"leave `{name}` out for its default, or raise it",
            )
        found.append(int(number))
    return found


DEVICES = ("cpu", "gpu")
ADVICE = {
    ALL_ZERO: "check that the conditions can hold together (two numbers drawn from densities are "
    "never equal: observe one with noise around the other), or use more particles",
    INFINITE_SUPPORT: "enumeration needs choices with finitely many values: use SMC or mh",
}
"""What to do about failures that no single run of the program explains."""


def check_settings(
    seed: object, device: object = "cpu", *, devices: int = 1, **shares: object
) -> None:
    """Raise BadSetting for a value that means nothing; `shares` are numbers from 0 to 1."""
    whole = index(seed) if isinstance(seed, SupportsIndex) else None
    if whole is None or isinstance(seed, bool) or not -(1 << 63) <= whole < 1 << 64:
        raise BadSetting("`seed` must be an integer of 64 bits", found=repr(seed))
    if device not in DEVICES:
        expected = " or ".join(map(repr, DEVICES))
        raise BadSetting("unknown device", expected=expected, found=repr(device))
    if devices != 1 and device == "cpu":
        raise BadSetting(
            "`devices` is how many GPUs share the particles", expected='`device="gpu"`',
            found="the CPU", hint="`threads` is how many of the CPU's cores do",
        )  # fmt: skip
    for name, value in shares.items():
        number = float(value) if isinstance(value, SupportsFloat) else math.nan
        if not 0.0 <= number <= 1.0:
            raise BadSetting(f"`{name}` is a share", expected="0 to 1", found=repr(value))


def memory() -> int:
    """Bytes of memory that this process may have."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):
        found = min(found, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return found


def check_memory(name: str, count: int, words: int) -> None:
    """Raise BadSetting if `count` things of so many words are more than memory holds."""
    most = memory() // (8 * words)
    if count > most:
        raise BadSetting(
            f"`{name}` needs {8 * words * count / (1 << 30):.0f} GiB of memory",
            expected=f"at most {most} in all", found=str(count), hint="let several runs share them",
        )  # fmt: skip


def failure(
    program: Elaborated, status: int, site: int, seed: int, particle: int, step: int
) -> FunctionalError:
    """The error for a failed particle, with what replays it."""
    kind, message = FAILURES[status]
    detail = program.messages.get(site)
    error = kind(
        f"{message}: {detail}" if detail else message,
        span=program.sites[site] if site < len(program.sites) else None,
    )
    error.hint = ADVICE.get(status)
    if status not in ADVICE:
        error.with_note(f"replay with seed={seed}: particle {particle}, step {step}")
    return error
