"""How much of the machine a process may use."""

from __future__ import annotations

import os


def cores() -> int:
    """Processor cores that this process may run on; where that is not known, those there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def free_cores() -> int:
    """Of these, those that the machine has left: it counts what ran in the last minute.

    Many processes that all ask others for help get less done than they would alone.
    """
    try:
        busy = round(os.getloadavg()[0])
    except (AttributeError, OSError):  # not counted there
        return cores()
    return max(1, min(cores(), (os.cpu_count() or 1) - busy))
