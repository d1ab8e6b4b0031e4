"""Elementwise work strip by strip: all ops for a few registers, then all for the next few.

Op by op, a thread that holds 32 elements keeps 32 results of every op that others still need, and
the assembler mostly keeps the order it is given. Strip by strip it keeps a few: a loss of thirty
ops over 32 elements takes 94 registers for 175, and five CTAs of it share a multiprocessor for two.

Loads are among them where the stores of a run go to other arguments, a few strips ahead. The
assembler moves no load across a store of which it does not know that it goes elsewhere, so the
order is kept; of 64 loads before all work it holds every result, in 186 registers for 80.

The ops stay as they are; `STRIPS` says which of them are written together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i64
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.traits import Pure

from tawa.base.options import Options
from tawa.base.types import byte_size, element_of
from tawa.hopper.dialect.fragment import Anchored, Fill, Relabel, layout_of
from tawa.hopper.dialect.global_memory import GlobalLoad, GlobalStore
from tawa.hopper.dialect.matrix import Wgmma
from tawa.hopper.dialect.structure import Role
from tawa.hopper.dialect.text import STRIPS
from tawa.hopper.dialect.types import FragType
from tawa.ir.contracts import Contract
from tawa.ir.effects import is_pure, is_terminator
from tawa.ir.elementwise import Map
from tawa.ir.properties import LOWERED
from tawa.ir.traits import is_elementwise
from tawa.ir.walking import every
from tawa.machine.chips import SM_90A

LEAST_WIDTH = 4
"""Registers of a strip: instructions that do not wait for each other, beside other warps'."""
LEAST_OPS = 4
"""Functions of a run; of fewer, few results are kept."""
AHEAD_BYTES = 128
"""What a thread has on the way from memory beside a strip's work, at most: all threads of a
multiprocessor together have several times of what its latency asks for."""
WIDEST = SM_90A.copy_unit
"""Bytes of a thread's widest access."""
AHEAD_LOADS = 16
"""The instructions that load it. Between more of them the assembler puts functions of those that
came first, whose results it then holds until they may be stored."""


@dataclass
class Run:
    """Ops that follow each other and are done strip by strip."""

    registers: int
    ops: list[Operation] = field(default_factory=list[Operation])
    width: int = LEAST_WIDTH
    stored: list[SSAValue | None] = field(default_factory=list[SSAValue | None])
    """The arguments that its stores write to, None where any may be."""
    made: set[SSAValue] = field(default_factory=set[SSAValue])
    """The results of its ops."""
    loads: bool = False
    """Whether loads may be done strip by strip, too: between the stores of other strips."""

    def ahead(self) -> dict[Operation, int]:
        """How many strips before the others its loads and what they need are written."""
        distance = self._distance()
        found: dict[Operation, int] = {}
        for op in reversed(self.ops):
            users = (use.operation for result in op.results for use in result.uses)
            found[op] = max((found.get(user, 0) for user in users), default=0)
            if isinstance(op, GlobalLoad):
                found[op] += distance
        return found

    def _distance(self) -> int:
        """How many strips before it is needed a load is written: at least one."""
        loads = [op for op in self.ops if isinstance(op, GlobalLoad)]
        size = sum(byte_size(element_of(op.value.type)) for op in loads) * self.width
        instructions = sum(self.width // op.vector.value.data for op in loads)
        strips = min(AHEAD_BYTES // size, AHEAD_LOADS // instructions) if loads else 0
        return max(1, min(strips, self.registers // self.width))

    def finished(self) -> Run:
        """The same; without stores, what follows the last load: nothing keeps loads in between."""
        loads = [i for i, op in enumerate(self.ops) if isinstance(op, GlobalLoad)]
        if loads and not self.stored:
            self.ops = self.ops[loads[-1] + 1 :]
        return self

    @property
    def pays(self) -> bool:
        """Whether there is more than one strip of it, and enough to do in each."""
        functions = sum(isinstance(op, Map) for op in self.ops)
        fits = self.registers % self.width == 0 and self.registers > self.width
        return fits and functions >= LEAST_OPS

    def takes(self, op: Operation, *, overlapping: bool) -> bool:
        """Whether an op may be one of the run: no store may change places with another's."""
        if not is_elementwise(op) or registers_of(op) != self.registers:
            return False
        if isinstance(op, Anchored):
            return all(a <= i for i, a in enumerate(op.anchors))
        if isinstance(op, GlobalLoad):
            return self.loads and op.volatile is None and argument_of(op.pointers) is not None
        if isinstance(op, GlobalStore) and self.stored:
            to = argument_of(op.pointers)
            apart = to is not None and None not in self.stored and to not in self.stored
            return apart and not overlapping
        return True

    def add(self, op: Operation) -> None:
        """Make an op the last one of the run."""
        self.ops.append(op)
        self.made.update(op.results)
        if isinstance(op, GlobalStore):
            # What a thread has side by side fills sectors of memory: it is written at once.
            own = layout_of(op.value).reg[:1]
            self.width = max(
                self.width, op.vector.value.data, *(m.extent for m in own if m.stride == 1)
            )
            self.stored.append(argument_of(op.pointers))
        elif isinstance(op, GlobalLoad):
            self.width = max(self.width, op.vector.value.data)


def registers_of(op: Operation) -> int | None:
    """The registers of all fragments that an op has to do with; None if it has none, or unequal."""
    types = [v.type for v in (*op.operands, *op.results)]
    counts = {t.layout.registers for t in types if isinstance(t, FragType)}
    return counts.pop() if len(counts) == 1 else None


def argument_of(pointers: SSAValue) -> SSAValue | None:
    """The kernel's argument that a pointer, or a fragment of them, is counted from."""
    while not isinstance(pointers, BlockArgument):
        op = pointers.owner
        if isinstance(op, Fill | Anchored | Relabel):
            pointers = op.operands[0]
        elif isinstance(op, Map) and op.function.data == "addptr":
            pointers = op.arguments[0]
        else:
            return None
    kernel = pointers.owner.parent_op()
    return pointers if isinstance(kernel, func.FuncOp) else None


@dataclass(frozen=True)
class Strips:
    """Note which ops are written strip by strip, in kernels of one role without wgmma."""

    options: Options
    name: ClassVar[str] = "strips"
    contract: ClassVar[Contract] = Contract(requires=(LOWERED,))

    def apply(self, module: ModuleOp) -> None:
        """Give the ops of each run its number and width."""
        if not of_one_role(module):
            return
        overlapping = _may_overlap(module, self.options)
        blocks = [b for op in every(module) for region in op.regions for b in region.blocks]
        found = (run for block in blocks for run in runs(block, overlapping=overlapping))
        for number, run in enumerate(found):
            for op, ahead in run.ahead().items():
                op.attributes[STRIPS] = DenseArrayBase.from_list(i64, [number, run.width, ahead])


def _may_overlap(module: ModuleOp, options: Options) -> bool:
    """Whether arrays of two arguments may: not of two that are one array, and one argument now."""
    kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
    names = {argument.name_hint for argument in kernel.args if argument.first_use is not None}
    one = {frozenset(pair) for pair in options.same_array}
    return any(frozenset(pair) not in one or names >= set(pair) for pair in options.may_overlap)


def of_one_role(module: ModuleOp) -> bool:
    """Whether all threads run the same code, and no warp group multiplies."""
    found = [op for op in every(module) if isinstance(op, Role | Wgmma)]
    return all(isinstance(op, Role) and op.whole is not None for op in found)


def runs(block: Block, *, overlapping: bool) -> Iterator[Run]:
    """The runs of a block that pay; what stands between their ops and needs none comes first."""
    run: Run | None = None
    loads = not overlapping and _keeps_own(block)
    for op in list(block.ops):
        if run is not None and run.takes(op, overlapping=overlapping):
            run.add(op)
        elif run is not None and _comes_before(op, run):
            op.detach()
            block.insert_op_before(op, run.ops[0])
        else:
            if run is not None and run.finished().pays:
                yield run
            run = _begun(op, loads)
    if run is not None and run.finished().pays:
        yield run


def _keeps_own(block: Block) -> bool:
    """Whether a block stores to known arguments, and loads of them just what it stores to.

    Then each register is loaded from an address to which no other register is stored.
    """
    stores = [op for op in block.ops if isinstance(op, GlobalStore)]
    stored = {argument_of(op.pointers) for op in stores}
    loads = (op for op in block.ops if isinstance(op, GlobalLoad))
    in_place = [op for op in loads if argument_of(op.pointers) in stored]
    return None not in stored and all(
        _is_narrow(load)
        and _are_distinct(load.pointers)
        and are_equal(load.pointers, store.pointers)
        for load in in_place
        for store in stores
        if argument_of(store.pointers) is argument_of(load.pointers)
    )


def _is_narrow(op: GlobalLoad) -> bool:
    """Whether a load is one of many; of the widest, all come first, and all stores behind them."""
    return op.vector.value.data * byte_size(element_of(op.value.type)) < WIDEST


def _are_distinct(pointers: SSAValue) -> bool:
    """Whether no two registers of a fragment hold the same address."""
    op = pointers.owner
    if not isinstance(op, Anchored):
        return False
    return len(set(op.anchors)) == 1 and len(set(op.distances)) == len(op.distances)


def are_equal(one: SSAValue, other: SSAValue) -> bool:
    """Whether two values are computed alike of the same values."""
    first, second = one.owner, other.owner
    if one is other:
        return True
    if not is_elementwise(first) or not isinstance(second, type(first)):
        return False
    if not is_pure(first) or one.type != other.type:
        return False
    pairs = zip(first.operands, second.operands, strict=True)
    return first.properties == second.properties and all(are_equal(a, b) for a, b in pairs)


def _begun(op: Operation, loads: bool) -> Run | None:
    registers = registers_of(op)
    run = None if registers is None else Run(registers, loads=loads)
    if run is None or not run.takes(op, overlapping=True):
        return None
    run.add(op)
    return run


def _comes_before(op: Operation, run: Run) -> bool:
    """Whether an op may be done before a run: it has no effect, and needs nothing of the run."""
    pure = isinstance(op, arith.ConstantOp) or op.has_trait(Pure)
    plain = pure and not op.regions and not is_terminator(op)
    return plain and not run.made & set(op.operands)
