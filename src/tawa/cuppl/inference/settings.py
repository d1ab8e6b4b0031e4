"""What all methods share: limits, seeds, and the error for a run that failed."""

from __future__ import annotations

from dataclasses import dataclass

from tawa.functional.errors import FunctionalError

from ..failures import ALL_ZERO, FAILURES
from ..shared import Elaborated

__all__ = ["Limits", "failure"]


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a run may go before it is taken for one that never ends."""

    max_memory: int = 1 << 32
    """Bytes of heap, and of stacks, of all particles together."""
    max_depth: int = 1 << 20
    """Nested native calls of one run."""
    max_steps: int = 1 << 30
    """Recursive calls and turns of loops of one run between two suspensions."""


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
    if status != ALL_ZERO:
        error.with_note(f"replay with seed={seed}: particle {particle}, step {step}")
    return error
