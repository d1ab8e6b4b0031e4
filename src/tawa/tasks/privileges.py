"""What a task may do with a tensor argument."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Privilege:
    """Whether a task reads and writes an argument."""

    reads: bool
    writes: bool

    def allows(self, other: Privilege) -> bool:
        """Whether a task with this privilege may launch one with `other` on the argument."""
        return (self.reads or not other.reads) and (self.writes or not other.writes)

    def __str__(self) -> str:
        return {(True, False): "read", (False, True): "write"}.get(
            (self.reads, self.writes), "read-write"
        )


READ = Privilege(reads=True, writes=False)
"""The argument is read."""
WRITE = Privilege(reads=False, writes=True)
"""All of the argument is overwritten; what it held is not read."""
READ_WRITE = Privilege(reads=True, writes=True)
"""The argument is read and overwritten."""


NO_RIGHTS = Privilege(reads=False, writes=False)
