"""What ran where, and why: the account of the launches that were taken over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

TAWA, SIMULATOR, TRITON, REFUSED = "Tawa", "simulator", "Triton", "nowhere"
"""Where a launch can have run; `REFUSED` in strict mode."""


@dataclass
class Row:
    """The launches of one kernel that ran in one place for one reason."""

    kernel: str
    place: str
    why: str = ""
    launches: int = 0


@dataclass
class Summary:
    """All rows, printable as a table; `str(summary)` is the table."""

    rows: list[Row] = field(default_factory=list[Row])

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def launches(self, place: str) -> int:
        """How many launches ran in a place: `Tawa`, `simulator`, `Triton`, `nowhere`."""
        return sum(row.launches for row in self.rows if row.place == place)

    def __str__(self) -> str:
        table = [("kernel", "ran in", "launches", "why")]
        table += [(row.kernel, row.place, str(row.launches), row.why) for row in self.rows]
        return "\n".join(_lines(table))


def _lines(table: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(line[column]) for line in table) for column in range(3)]
    for line in table:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
        yield "  ".join([*cells, line[3]]).rstrip()
