"""What every op of the hopper level has: a target text and an executable meaning."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import TypeAlias

from xdsl.dialects.builtin import I64, IntegerAttr, i64
from xdsl.irdl import IRDLOperation

from tawa.hopper.dialect.machine import Actor, Steps
from tawa.hopper.dialect.text import Writer

Number: TypeAlias = IntegerAttr[I64]


@lru_cache(maxsize=1 << 12)
def number(value: int) -> Number:
    """An integer attribute; the level's numbers are all plain 64-bit ones."""
    return IntegerAttr(value, i64)


class HopperOp(IRDLOperation, ABC):
    """An op whose every decision is made: it writes itself as a line or a few of CUDA C++."""

    @abstractmethod
    def cuda(self, w: Writer) -> None:
        """Write the op."""

    def run(self, m: Actor) -> Steps | None:
        """Execute the op in one actor; an op that may block yields what it waits for."""
        raise NotImplementedError(f"{self.name} has no executable meaning")
