"""Registers that nobody reads are not computed.

A load of vectors reads the address and the mask of each vector's first register alone, so what
these are computed from needs every eighth register, or fourth. The CUDA compiler finds that out,
too, after it has read, written out and followed all the others: for half of its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from math import gcd
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, ModuleOp
from xdsl.ir import Operation, SSAValue

from tawa.hopper.dialect.core import number
from tawa.hopper.dialect.fragment import (
    Anchored,
    Coordinate,
    Fill,
    Rearrange,
    Relabel,
    Window,
    layout_of,
)
from tawa.hopper.dialect.global_memory import GlobalLoad, GlobalStore, run_of
from tawa.hopper.dialect.text import EVERY, STRIPS
from tawa.hopper.dialect.types import FragType
from tawa.ir.contracts import Contract
from tawa.ir.elementwise import Map
from tawa.ir.properties import LOWERED

ALL = 1
"""Every register is read."""


@dataclass(frozen=True)
class UnreadRegisters:
    """Ops over registers say which they compute, if it is every n-th."""

    name: ClassVar[str] = "unread-registers"
    contract: ClassVar[Contract] = Contract(requires=(LOWERED,))

    def apply(self, module: ModuleOp) -> None:
        """From users to what they read; a user comes after what it reads."""
        read: dict[SSAValue, int] = {}
        for op in reversed(list(module.walk())):
            own = _computed(op, read)
            if own > ALL:
                op.attributes[EVERY] = number(own)
            for value, every in _reads(op, own):
                read[value] = gcd(read.get(value, 0), every)


def _computed(op: Operation, read: dict[SSAValue, int]) -> int:
    """Every how many registers an op computes of its result."""
    if not isinstance(op, Map | Fill | Coordinate | Rearrange | Anchored | Relabel | Window):
        return ALL
    result = op.results[0]
    if not isinstance(result.type, FragType):
        return ALL
    every = read.get(result, ALL)
    strips = op.attributes.get(STRIPS)
    if isinstance(strips, DenseArrayBase) and list(strips.get_values())[1] % every:
        return ALL
    return min(every, result.type.layout.registers)


def _reads(op: Operation, own: int) -> Iterator[tuple[SSAValue, int]]:
    """Fragments that an op reads, each with every how many registers, if it computes so many."""
    for value in op.operands:
        if isinstance(value.type, FragType):
            yield value, _read_of(op, value, own)


def _read_of(op: Operation, value: SSAValue, own: int) -> int:
    match op:
        case Map() | Relabel():
            return own
        case Rearrange():
            return _common(op.sources[::own], value)
        case Anchored():
            return _common(op.anchors[::own], value)
        case Window():
            return gcd(op.first_register.value.data, own)
        case GlobalLoad() | GlobalStore() if value in (op.pointers, op.mask):
            both = value in (op.other if isinstance(op, GlobalLoad) else op.value,)
            return ALL if both else run_of(op)
        case _:
            return ALL


def _common(registers: list[int], value: SSAValue) -> int:
    """The largest step that meets these registers from the first on."""
    return reduce(gcd, registers, 0) or layout_of(value).registers
