"""An actor's program for the timing machine: hopper IR as a Python generator of what takes time.

Only what decides when things happen is kept: control flow, the scalars that it and the barriers
depend on, and for everything else its cost. No data moves, so a turn of a loop takes microseconds
and whole kernels can be replayed. Values loaded from memory are taken as zero, and a vote that
guards rare work is taken as lost.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from tawa.base.elementwise import Map
from tawa.base.target import Target
from tawa.hopper.ops.matrix import Wgmma, WgmmaCommit, WgmmaFence, WgmmaWait
from tawa.hopper.ops.memory import BulkCommit, BulkWaitRead, TmaLoad, TmaStore
from tawa.hopper.ops.structure import (
    Barriers,
    BlockId,
    ClusterRank,
    GroupIndex,
    NumBlocks,
    OneThread,
    Role,
    TeamIndex,
)
from tawa.hopper.ops.sync import (
    ClusterSync,
    CtaSync,
    MbarrierArrive,
    MbarrierExpect,
    MbarrierInit,
    MbarrierWait,
    NamedBarrierArrive,
    NamedBarrierSync,
)
from tawa.hopper.types import BarrierType
from tawa.simulate.hopper import Span
from tawa.simulate.timing_scalars import last, needed
from tawa.simulate.timing_work import NO_WORK, Work, matrix_cycles, work_of

(
    WORK,
    MATRIX,
    COMMIT,
    MATRIX_WAIT,
    LOAD,
    STORE,
    BULK_COMMIT,
    BULK_WAIT,
    INIT,
    EXPECT,
    ARRIVE,
    WAIT,
    MEET,
) = range(13)
"""First items of the tuples that programs yield; `Machine` says what follows each."""

Steps = Generator[tuple[Any, ...]]
Program = Callable[..., Steps]
"""Called with the kernel's arguments and the place of the CTA: `(values, rank, block, grid)`."""


@dataclass
class Code:
    """Python text of one actor's program, and the tables that it names."""

    target: Target
    warps: Span
    kernel_warps: int
    lines: list[str] = field(default_factory=list[str])
    depth: int = 1
    names: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    table: dict[str, Any] = field(default_factory=dict[str, Any])
    pending: list[Work] = field(default_factory=list[Work])
    """Straight-line work not yet written."""
    team: int = 0
    first_thread: int = 0
    threads: int = 0
    """Threads that run here: 1 inside `one_thread`."""
    counter: Iterable[int] = field(default_factory=itertools.count)

    def line(self, text: str) -> None:
        """Write a line."""
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem: str) -> str:
        """A new name."""
        return f"{stem}{next(iter(self.counter))}"

    def constant(self, stem: str, value: Any) -> str:
        """The name of a value that the text can refer to."""
        name = self.fresh(stem)
        self.table[name] = value
        return name

    def name(self, value: SSAValue) -> str:
        """A scalar's expression."""
        return self.names[value]

    def flush(self) -> None:
        """Write the work that has come together."""
        for work in merged(self.pending):
            self.line(f"yield {self.constant('w', (WORK, work))}")
        self.pending.clear()

    def event(self, text: str) -> None:
        """Write the work so far, then an event."""
        self.flush()
        self.line(f"yield ({text})")


def merged(works: Sequence[Work]) -> list[Work]:
    """Straight-line work in as few pieces as its order allows.

    Independent instructions overlap, so pieces run together; what waits for a lane exchange, or
    makes others wait for it, ends a piece.
    """
    found: list[Work] = []
    now = NO_WORK
    for work in works:
        now = now + work
        if work.ordered:
            found.append(now)
            now = NO_WORK
    if now.issue or now.latency:
        found.append(now)
    return found


def program(kernel: func.FuncOp, warps: Span, kernel_warps: int, target: Target) -> Program:
    """The program of some warps of every CTA of a kernel."""
    code = Code(target, warps, kernel_warps, threads=32 * warps.count)
    wanted = needed(kernel)
    for number, argument in enumerate(kernel.args):
        code.names[argument] = f"values[{number}]"
    _block(code, kernel.body.block, wanted)
    code.flush()
    code.line("return")
    code.line("yield ()")
    head = "def run(values, rank, block, grid):\n"
    exec(compile(head + "\n".join(code.lines), "<timing program>", "exec"), code.table)
    return code.table["run"]


def _block(code: Code, block: Block, wanted: set[SSAValue]) -> None:
    for op in block.ops:
        write = WRITERS.get(type(op))
        if write is not None:
            write(code, op, wanted)
            continue
        if any(result in wanted for result in op.results):
            _unknown(code, op)
        work = work_of(op, code.target)
        if work is not None and code.threads > 1:
            code.pending.append(work)


def _unknown(code: Code, op: Operation) -> None:
    """A scalar that comes from data: zero."""
    for result in op.results:
        code.names[result] = "0"


# --- scalars --------------------------------------------------------------------------------------


def _constant(code: Code, op: arith.ConstantOp, _wanted: set[SSAValue]) -> None:
    value = op.value
    assert isinstance(value, IntegerAttr | FloatAttr)
    code.names[op.result] = repr(value.value.data)


EXPRESSIONS: dict[str, str] = {
    "addi": "({} + {})",
    "subi": "({} - {})",
    "muli": "({} * {})",
    "divsi": "_div({}, {})",
    "divui": "({} // {})",
    "remsi": "_rem({}, {})",
    "remui": "({} % {})",
    "minsi": "min({}, {})",
    "maxsi": "max({}, {})",
    "andi": "({} & {})",
    "ori": "({} | {})",
    "xori": "({} ^ {})",
    "select": "({1} if {0} else {2})",
    "extui": "int({})",
    "cmpi_eq": "({} == {})",
    "cmpi_ne": "({} != {})",
    "cmpi_slt": "({} < {})",
    "cmpi_sle": "({} <= {})",
    "cmpi_sgt": "({} > {})",
    "cmpi_sge": "({} >= {})",
}
"""Python text of the integer functions that index arithmetic consists of."""


def _div(a: int, b: int) -> int:
    return int(a / b) if (a < 0) != (b < 0) and a % b else a // b


def _rem(a: int, b: int) -> int:
    return a - b * _div(a, b)


def _map(code: Code, op: Map, wanted: set[SSAValue]) -> None:
    if op.result not in wanted:
        work = work_of(op, code.target)
        if work is not None:
            code.pending.append(work)
        return
    operands = [code.name(v) for v in op.arguments]
    text = EXPRESSIONS.get(op.function.data)
    if text is None:
        text = f"{code.constant('f', _evaluator(op))}({', '.join('{}' for _ in operands)})"
    code.table.setdefault("_div", _div)
    code.table.setdefault("_rem", _rem)
    name = code.fresh("s")
    code.line(f"{name} = {text.format(*operands)}")
    code.names[op.result] = name
    work = work_of(op, code.target)
    if work is not None:
        code.pending.append(work)


def _evaluator(op: Map) -> Callable[..., Any]:
    return lambda *values: op.evaluate(*(np.asarray(v) for v in values)).item()


def _place(text: Callable[[Code, Any], str]) -> Callable[[Code, Any, set[SSAValue]], None]:
    def write(code: Code, op: Any, _wanted: set[SSAValue]) -> None:
        code.names[op.results[0]] = text(code, op)

    return write


# --- control flow ---------------------------------------------------------------------------------


def _role(code: Code, op: Role, wanted: set[SSAValue]) -> None:
    first, per = op.first_warp.value.data, op.warps.value.data
    offset = code.warps.first - first
    if not 0 <= offset < per * op.teams.value.data or (op.single and offset):
        return
    before = code.team, code.first_thread, code.threads
    code.team, code.first_thread = offset // per, offset % per * 32
    if op.single:
        code.threads = 1
    _block(code, op.body.block, wanted)
    code.flush()
    code.team, code.first_thread, code.threads = before


def _one_thread(code: Code, op: OneThread, wanted: set[SSAValue]) -> None:
    chosen = {
        "cta": code.warps.first == 0,
        "team": code.first_thread == 0,
        "group": code.warps.first % 4 == 0,
    }
    if chosen[op.scope.data]:
        before, code.threads = code.threads, 1
        _block(code, op.body.block, wanted)
        code.threads = before


def _carried(code: Code, results: Sequence[SSAValue], wanted: set[SSAValue]) -> list[int]:
    """Which of an op's results are scalars that are needed; they get names."""
    chosen = [i for i, value in enumerate(results) if value in wanted]
    for i in chosen:
        code.names[results[i]] = code.fresh("c")
    return chosen


def _assign(code: Code, targets: Sequence[str], values: Sequence[str]) -> None:
    if targets:
        code.line(f"{', '.join(targets)} = {', '.join(values)}")


def _for(code: Code, op: scf.ForOp, wanted: set[SSAValue]) -> None:
    index, *arguments = op.body.block.args
    chosen = [i for i, a in enumerate(arguments) if a in wanted or op.results[i] in wanted]
    targets = [code.fresh("c") for _ in chosen]
    for i, target in zip(chosen, targets, strict=True):
        code.names[arguments[i]] = code.names[op.results[i]] = target
    _assign(code, targets, [code.name(op.iter_args[i]) for i in chosen])
    code.flush()
    code.names[index] = code.fresh("i")
    bounds = ", ".join(code.name(v) for v in (op.lb, op.ub, op.step))
    code.line(f"for {code.names[index]} in range({bounds}):")
    code.depth += 1
    code.line("pass")
    _block(code, op.body.block, wanted)
    code.flush()
    _assign(code, targets, [code.name(last(op.body).operands[i]) for i in chosen])
    code.depth -= 1


def _if(code: Code, op: scf.IfOp, wanted: set[SSAValue]) -> None:
    chosen = _carried(code, op.results, wanted)
    code.flush()
    for head, region in (
        (f"if {code.name(op.cond)}:", op.true_region),
        ("else:", op.false_region),
    ):
        if not region.blocks:
            continue
        code.line(head)
        code.depth += 1
        code.line("pass")
        _block(code, region.block, wanted)
        code.flush()
        values = [code.name(last(region).operands[i]) for i in chosen]
        _assign(code, [code.names[op.results[i]] for i in chosen], values)
        code.depth -= 1


def _while(code: Code, op: scf.WhileOp, wanted: set[SSAValue]) -> None:
    before, after = op.before_region.block, op.after_region.block
    chosen = [i for i, a in enumerate(before.args) if a in wanted]
    targets = [code.fresh("c") for _ in chosen]
    for i, target in zip(chosen, targets, strict=True):
        code.names[before.args[i]] = target
    _assign(code, targets, [code.name(op.arguments[i]) for i in chosen])
    code.flush()
    passed = [i for i, r in enumerate(op.results) if r in wanted or after.args[i] in wanted]
    for i in passed:
        code.names[op.results[i]] = code.names[after.args[i]] = code.fresh("c")
    code.line("while True:")
    code.depth += 1
    _block(code, before, wanted)
    code.flush()
    condition, *values = last(op.before_region).operands
    _assign(
        code, [code.names[op.results[i]] for i in passed], [code.name(values[i]) for i in passed]
    )
    code.line(f"if not {code.name(condition)}: break")
    _block(code, after, wanted)
    code.flush()
    _assign(code, targets, [code.name(last(op.after_region).operands[i]) for i in chosen])
    code.depth -= 1


def _nothing(_code: Code, _op: Operation, _wanted: set[SSAValue]) -> None:
    """Takes no time of its own."""


# --- communication --------------------------------------------------------------------------------


def _barrier(code: Code, op: Any) -> str:
    return f"{code.name(op.barrier)} + {code.name(op.slot)} * 8"


def _init(code: Code, op: MbarrierInit, _wanted: set[SSAValue]) -> None:
    assert isinstance(op.barrier.type, BarrierType)
    slots, arrivals = op.barrier.type.slots.data, op.arrivals.value.data
    code.event(f"{INIT}, {code.name(op.barrier)}, {slots}, {arrivals}")


def _expect(code: Code, op: MbarrierExpect, _wanted: set[SSAValue]) -> None:
    code.event(f"{EXPECT}, {_barrier(code, op)}, {op.bytes.value.data}")


def _arrive(code: Code, op: MbarrierArrive, _wanted: set[SSAValue]) -> None:
    cta = "-1" if op.cta is None else code.name(op.cta)
    code.event(f"{ARRIVE}, {cta}, {_barrier(code, op)}, {code.threads}")


def _wait(code: Code, op: MbarrierWait, _wanted: set[SSAValue]) -> None:
    code.event(f"{WAIT}, {_barrier(code, op)}, {code.name(op.parity)}")


def _named(waits: bool) -> Callable[[Code, Any, set[SSAValue]], None]:
    def write(code: Code, op: Any, _wanted: set[SSAValue]) -> None:
        number, threads = code.name(op.barrier), op.threads.value.data
        code.event(f"{MEET}, {number}, {threads}, {code.threads}, {waits}")

    return write


def _cta_sync(code: Code, _op: CtaSync, _wanted: set[SSAValue]) -> None:
    code.event(f"{MEET}, 0, {32 * code.kernel_warps}, {code.threads}, True")


def _cluster_sync(code: Code, _op: ClusterSync, _wanted: set[SSAValue]) -> None:
    code.event(f"{MEET}, -1, {32 * code.kernel_warps}, {code.threads}, True")


def _load(code: Code, op: TmaLoad, _wanted: set[SSAValue]) -> None:
    ctas = "0" if op.ctas is None else code.name(op.ctas)
    code.event(f"{LOAD}, {_barrier(code, op)}, {code.name(op.map)}.bytes, {ctas}")


def _store(code: Code, op: TmaStore, _wanted: set[SSAValue]) -> None:
    code.event(f"{STORE}, {code.name(op.map)}.bytes")


def _wgmma(code: Code, op: Wgmma, _wanted: set[SSAValue]) -> None:
    code.event(f"{MATRIX}, {matrix_cycles(op, code.target)!r}")


def _plain(kind: int) -> Callable[[Code, Any, set[SSAValue]], None]:
    def write(code: Code, _op: Any, _wanted: set[SSAValue]) -> None:
        code.event(f"{kind},")

    return write


def _pending(kind: int) -> Callable[[Code, Any, set[SSAValue]], None]:
    def write(code: Code, op: Any, _wanted: set[SSAValue]) -> None:
        code.event(f"{kind}, {op.pending.value.data}")

    return write


WRITERS: dict[type[Operation], Callable[[Code, Any, set[SSAValue]], None]] = {
    arith.ConstantOp: _constant,
    Map: _map,
    TeamIndex: _place(lambda code, _op: str(code.team)),
    GroupIndex: _place(lambda code, _op: str(code.first_thread // 128)),
    ClusterRank: _place(lambda _code, _op: "rank"),
    BlockId: _place(lambda _code, op: f"block[{op.axis.value.data}]"),
    NumBlocks: _place(lambda _code, op: f"grid[{op.axis.value.data}]"),
    Barriers: _place(lambda _code, op: str(op.offset.value.data)),
    Role: _role,
    OneThread: _one_thread,
    scf.ForOp: _for,
    scf.IfOp: _if,
    scf.WhileOp: _while,
    scf.YieldOp: _nothing,
    scf.ConditionOp: _nothing,
    func.ReturnOp: _nothing,
    MbarrierInit: _init,
    MbarrierExpect: _expect,
    MbarrierArrive: _arrive,
    MbarrierWait: _wait,
    NamedBarrierSync: _named(waits=True),
    NamedBarrierArrive: _named(waits=False),
    CtaSync: _cta_sync,
    ClusterSync: _cluster_sync,
    TmaLoad: _load,
    TmaStore: _store,
    Wgmma: _wgmma,
    WgmmaFence: _nothing,
    WgmmaCommit: _plain(COMMIT),
    WgmmaWait: _pending(MATRIX_WAIT),
    BulkCommit: _plain(BULK_COMMIT),
    BulkWaitRead: _pending(BULK_WAIT),
}
"""How each op is written; all others take the time that `timing_work` gives them."""
