"""Loops over registers written out, for kernels with many of them.

The optimiser of the CUDA compiler unrolls a loop in time that grows with the loops that a function
has, so thousands of them take minutes (a sort of 1,024 pairs of numbers: 39 s, written out 6 s).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeVar

UNROLL = "#pragma unroll"

MANY = 60
"""Unrolled loops from which on they are written out; below, both take as long.

Seen: 70 loops 0.21 -> 0.18 s of processor, 265 loops 0.57 -> 0.22, the machine code the same."""

_LOOP = re.compile(r"( *)for \(int i = (\d+); i < (\d+); (?:\+\+i|i \+= (\d+))\) ([^{].*;)")

T = TypeVar("T")


def written_out(
    lines: Sequence[str], origins: Sequence[T], many: int = MANY
) -> tuple[list[str], list[T]]:
    """The lines of a kernel, and what each comes from, without loops of one statement if many.

    Such a loop is two lines: the pragma, and a `for` over `i`, which is no other variable's name.
    """
    if sum(line.strip() == UNROLL for line in lines) < many:
        return list(lines), list(origins)
    pairs = list(_expanded(list(zip(lines, origins, strict=True))))
    return [line for line, _ in pairs], [origin for _, origin in pairs]


def _expanded(lines: Sequence[tuple[str, T]]) -> Iterator[tuple[str, T]]:
    number = 0
    while number < len(lines):
        line, origin = lines[number]
        loop = None
        if line.strip() == UNROLL and number + 1 < len(lines):
            loop = _LOOP.fullmatch(lines[number + 1][0])
        if loop is None:
            yield line, origin
            number += 1
            continue
        indent, first, end, step, statement = loop.groups()
        for i in range(int(first), int(end), int(step or 1)):
            yield indent + re.sub(r"\bi\b", str(i), statement), origin
        number += 2
