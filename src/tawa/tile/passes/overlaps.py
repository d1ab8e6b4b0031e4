"""Which arguments' arrays may overlap, and for which pairs it matters that they don't.

A program's accesses have to look as if they were done one after the other. Where two arguments are
known to be apart, accesses through them need no order: loads run ahead of stores. That is taken for
granted, noted (`APART`) and looked at by each launch; for arrays that do overlap the kernel is
compiled once more, with the pair in the option `may_overlap`. What `tl.assume_disjoint` promises is
not looked at; the simulator does.

It matters for two arguments of which one is written: threads that store what they have computed run
ahead of threads that still load.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import IntegerType, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import BlockArgument, Operation, SSAValue

from tawa.base.options import BadOption, Options
from tawa.base.spans import span_of
from tawa.ir.contracts import Contract
from tawa.ir.effects import GLOBAL, WRITE, through
from tawa.ir.kernels import argument_names, disjoint_pairs, made_by_host
from tawa.ir.properties import ARGUMENT_DESCRIPTORS
from tawa.ir.walking import all_of, every
from tawa.tile.analysis.alias import ALIKE, APART, OVERLAPS, STORED_BEFORE, may_alias, origins
from tawa.tile.analysis.order import may_meet
from tawa.tile.dialect.ops import DescStore


@dataclass(frozen=True)
class Overlaps:
    """Note what may overlap, what has to be apart, and which blocks are stored to twice."""

    options: Options
    name: ClassVar[str] = "overlaps"
    contract: ClassVar[Contract] = Contract(requires=(ARGUMENT_DESCRIPTORS,))

    def apply(self, module: ModuleOp) -> None:
        """Give the kernel its attributes."""
        kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
        given = self._given(kernel)
        if given:
            kernel.attributes[OVERLAPS] = StringAttr(json.dumps(given))
        stores = all_of(kernel, DescStore)
        for later in stores:
            before = (
                op for op in stores if may_alias(op.desc, later.desc) and not _commute(op, later)
            )
            if any(may_meet(earlier, later) for earlier in before):
                later.attributes[STORED_BEFORE] = UnitAttr()
        kept = [*given, *_promised(kernel)]
        apart = sorted(pair for pair in _ordered(kernel) if list(pair) not in kept)
        if apart:
            kernel.attributes[APART] = StringAttr(json.dumps(apart))
        if alike := sorted(_alike(kernel, apart)):
            kernel.attributes[ALIKE] = StringAttr(json.dumps(alike))

    def _given(self, kernel: func.FuncOp) -> list[list[int]]:
        """The pairs that may overlap; where one argument stands for another, those of both."""
        given = list(numbers_of(kernel, "may_overlap", self.options.may_overlap))
        for one, other in numbers_of(kernel, "same_array", self.options.same_array):
            others = {number for pair in given if other in pair for number in pair}
            given += [sorted((one, number)) for number in others - {one, other}]
        return sorted(map(list, {tuple(pair) for pair in given}))


def _promised(kernel: func.FuncOp) -> list[list[int]]:
    """The pairs that the kernel's user promises to be apart: no launch looks at them."""
    names = argument_names(kernel)
    return [sorted(map(names.index, pair)) for pair in disjoint_pairs(kernel)]


def _commute(one: DescStore, other: DescStore) -> bool:
    """Whether memory is the same whichever of two blocks is combined into it first."""
    return one.reduce is not None and one.reduce == other.reduce


def numbers_of(
    kernel: func.FuncOp, option: str, named: Sequence[tuple[str, str]]
) -> Iterator[list[int]]:
    """The numbers of the pairs of arguments that an option names. Raises `BadOption`."""
    names = argument_names(kernel)
    for pair in named:
        for name in pair:
            if name not in names:
                raise BadOption(
                    f"`{option}` names no argument `{name}`",
                    span=span_of(kernel),
                    expected=f"pairs of {', '.join(names)}",
                    found=f"{option}={named!r}",
                )
        yield sorted(map(names.index, pair))


def _ordered(kernel: func.FuncOp) -> set[tuple[int, int]]:
    """Pairs of arguments through which accesses have to keep an order, if they are not apart."""
    writes: set[BlockArgument] = set()
    accesses: set[BlockArgument] = set()
    for op in every(kernel):
        if not op.regions:
            accesses.update(a for value in through(op, GLOBAL) for a in _arguments(value))
            writes.update(a for value in through(op, GLOBAL, WRITE) for a in _arguments(value))
    return {
        (min(a.index, b.index), max(a.index, b.index))
        for a in writes
        for b in accesses
        if a is not b
    }


def _alike(
    kernel: func.FuncOp, pairs: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, int, int]]:
    """Strides and the like of two arguments of which a launch in place may pass equal ones.

    Addresses that are counted with equal numbers are known to be equal. Numbers that the host makes
    of a descriptor are none of the launch's arguments.
    """
    users, _ = made_by_host(kernel)
    counts: dict[int, set[int]] = {}
    for op in every(kernel):
        for value in () if op.regions else through(op, GLOBAL):
            numbers = {n.index for n in _counted_with(value) if n.index < users}
            for argument in _arguments(value):
                counts.setdefault(argument.index, set()).update(numbers)
    for one, other in pairs:
        first, second = counts.get(one, set()), counts.get(other, set())
        for a in first - second:
            for b in second - first:
                if kernel.args[a].type == kernel.args[b].type:
                    yield one, other, min(a, b), max(a, b)


def _counted_with(address: SSAValue | None) -> set[BlockArgument]:
    """The kernel's integers that an address is computed from, but for bounds of loops."""
    work = list[SSAValue]() if address is None else [address]
    seen = set[SSAValue]()
    found = set[BlockArgument]()
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value.owner, Operation):
            plain = not value.owner.regions and not list(through(value.owner, GLOBAL))
            work += value.owner.operands if plain else []
            continue
        assert isinstance(value, BlockArgument)
        holder = value.owner.parent_op()
        if isinstance(holder, func.FuncOp) and isinstance(value.type, IntegerType):
            found.add(value)
        elif isinstance(holder, scf.ForOp) and value.index > 0:
            work.append(holder.iter_args[value.index - 1])
    return found


def _arguments(value: SSAValue | None) -> list[BlockArgument]:
    found = () if value is None else origins(value)
    return [argument for argument in found if isinstance(argument, BlockArgument)]
