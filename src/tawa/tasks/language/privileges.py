"""What a task may do with a tensor argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tawa.base.user_frames import entry
from tawa.tasks.language.errors import UnknownReduction

Operator: TypeAlias = Literal["sum", "max", "min"]

OPERATORS: dict[str, tuple[str, str]] = {
    "sum": ("{} + {}", "add"),
    "max": ("tl.maximum({}, {})", "max"),
    "min": ("tl.minimum({}, {})", "min"),
}
"""How the tile language combines two tiles, and the atomic operation that does so in memory."""


@dataclass(frozen=True)
class Privilege:
    """Whether a task reads and writes an argument, or what it combines into it."""

    reads: bool
    writes: bool
    operator: str | None = None
    """Of a reduction: its leaves return what is combined, and see no element."""
    ordered: bool = False
    """Of a reduction: whether contributions are combined in the program's order."""

    @property
    def sees(self) -> bool:
        """Whether a leaf may look at the argument's elements."""
        return self.reads and self.operator is None

    def allows(self, other: Privilege) -> bool:
        """Whether a task with this privilege may launch one with `other` on the argument."""
        if self.operator is not None:
            return self.operator == other.operator and (other.ordered or not self.ordered)
        return (self.reads or not other.reads) and (self.writes or not other.writes)

    def joined(self, other: Privilege) -> Privilege:
        """What a task may do with a tensor that it is given as two arguments."""
        if self == other:
            return self
        return Privilege(self.reads or other.reads, self.writes or other.writes)

    def __str__(self) -> str:
        if self.operator is not None:
            return f"reduce by {self.operator}" + (", in order" if self.ordered else "")
        return {(True, False): "read", (False, True): "write"}.get(
            (self.reads, self.writes), "read-write"
        )


READ = Privilege(reads=True, writes=False)
"""The argument is read."""
WRITE = Privilege(reads=False, writes=True)
"""All of the argument is overwritten; what it held is not read."""
READ_WRITE = Privilege(reads=True, writes=True)
"""The argument is read and overwritten."""


@entry
def REDUCE(operator: Operator, *, ordered: bool = False) -> Privilege:
    """Results are combined into the argument by `sum`, `max` or `min`, whatever it held.

    Iterations of a `prange` may reduce into the same elements. They do so in any order, by atomic
    operations; `ordered=True` keeps the program's order, so that results are the same bit for
    bit under every mapping. Raises `UnknownReduction` for another operator.
    """
    if operator not in OPERATORS:
        raise UnknownReduction(
            f"there is no reduction by {operator!r}",
            expected=f"one of {', '.join(OPERATORS)}",
            found=repr(operator),
        )
    return Privilege(reads=True, writes=True, operator=operator, ordered=ordered)
