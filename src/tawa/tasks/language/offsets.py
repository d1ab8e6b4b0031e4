"""Whether a tensor of offsets cuts another into groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from tawa.base.source import Span
from tawa.tasks.language.errors import BadOffsets


def check_offsets(name: str, offsets: Any, most: int, span: Span | None) -> None:
    """Raises `BadOffsets` where groups would overlap, or lie outside of what is cut."""
    steps = np.diff(offsets.astype(np.int64))
    if len(offsets) and (steps < 0).any():
        g = int(np.argmax(steps < 0))
        found = f"{name}[{g}] = {offsets[g]}, {name}[{g + 1}] = {offsets[g + 1]}"
    elif len(offsets) and (offsets[0] < 0 or offsets[-1] > most):
        found = f"offsets from {offsets[0]} to {offsets[-1]}"
    else:
        return
    raise BadOffsets(
        f"`{name}` does not cut a dimension of {most} into groups",
        span=span,
        expected=f"numbers that do not descend, from 0 to {most}",
        found=found,
    )
