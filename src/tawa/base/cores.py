"""How much of the machine a process may use."""

from __future__ import annotations

import os


def cores() -> int:
    """Processor cores that this process may run on; where that is not known, those there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
