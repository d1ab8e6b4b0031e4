"""When the inference of a model is given up."""

from __future__ import annotations

import time
from dataclasses import dataclass

SECONDS = 5.0
"""Processor time after which a model without nodes is given up."""

SECONDS_A_NODE = 0.004
"""What it may take longer for each node; usual are a tenth of that."""


@dataclass(frozen=True)
class Deadline:
    """When an inference is given up: so much processor time after it began.

    No less time can have passed than the processor worked; that is asked first, as it takes less.
    """

    time: float
    processor_time: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """The deadline so many seconds from now."""
        return cls(time.monotonic() + seconds, time.thread_time() + seconds)

    @property
    def is_over(self) -> bool:
        """Whether it has passed."""
        return time.monotonic() > self.time and time.thread_time() > self.processor_time
