"""An actor's program for the timing machine: hopper IR as a Python generator of what takes time.

Only what decides when things happen is kept: control flow, the scalars that it and the barriers
depend on, and for everything else its cost. No data moves, so an iteration of a loop takes
microseconds and whole kernels can be replayed. Scalars that control flow depends on, such as
lengths of sequences, are loaded from the launch's arrays, as they are before it; other values that
come from data are taken as zero, and a vote that guards rare work is taken as lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tawa.base.layout import LANES
from tawa.base.spans import span_of
from tawa.base.types import byte_size
from tawa.hopper.dialect.fragment import Extract
from tawa.hopper.dialect.global_memory import GlobalLoad, GlobalStore, ScalarLoad
from tawa.hopper.dialect.matrix import Wgmma, WgmmaCommit, WgmmaFence, WgmmaWait
from tawa.hopper.dialect.memory import BulkCommit, BulkWait, BulkWaitRead, TmaLoad, TmaStore
from tawa.hopper.dialect.structure import (
    Barriers,
    BlockId,
    ClusterRank,
    GroupIndex,
    NumBlocks,
    OneThread,
    PlanEntry,
    Role,
    SharedWarpGroup,
    TeamIndex,
)
from tawa.hopper.dialect.sync import (
    ClusterSync,
    CtaSync,
    MbarrierArrive,
    MbarrierExpect,
    MbarrierInit,
    MbarrierWait,
    NamedBarrierArrive,
    NamedBarrierSync,
)
from tawa.hopper.dialect.trace import ROLE, RecordBegin, RecordEnd, Timestamp, TraceBegin, TraceEnd
from tawa.hopper.dialect.types import BarrierType, FragType
from tawa.ir.effects import GLOBAL, SHARED, effects_of, touches
from tawa.ir.elementwise import Map
from tawa.machine.chips import Chip
from tawa.simulate.interpret import errors
from tawa.simulate.interpret.global_memory import GlobalMemory, OutsideMemory
from tawa.simulate.interpret.hopper import Span
from tawa.simulate.timing.code import (
    ARRIVE,
    BULK_COMMIT,
    BULK_WAIT,
    COMMIT,
    EXPECT,
    INIT,
    ITERATION,
    LOAD,
    MATRIX,
    MATRIX_WAIT,
    MEET,
    STAMP,
    STORE,
    WAIT,
    Code,
    Program,
    Steps,
    never,
)
from tawa.simulate.timing.copies import COPIES, without_dropped
from tawa.simulate.timing.scalars import divide, expression, last, needed, remainder
from tawa.simulate.timing.tickets import extract
from tawa.simulate.timing.work import matrix_cycles, moves, product_cycles, work_of

MOST_ITERATIONS = 100_000
"""Iterations of one `while` after which a prediction is given up."""


def program(
    kernel: func.FuncOp,
    warps: Span,
    kernel_warps: int,
    target: Chip,
    memory: GlobalMemory | None = None,
    notes: bool = False,
    free: Callable[[Operation], bool] = never,
) -> Program:
    """The program of some warps of every CTA of a kernel.

    With `notes`, it says before each step what that is about. Ops that are `free` take no time.
    """
    threads = 32 * warps.count
    code = Code(target, warps, kernel_warps, memory, threads=threads, notes=notes, free=free)
    run = function(code, kernel, "yield ()")
    if code.outermost < 2:
        return run

    def whole(
        values: Sequence[Any], rank: int, block: Any, grid: Any, iterations: int | None = None
    ) -> Steps:
        del iterations
        return (step for step in run(values, rank, block, grid) if step[0] != ITERATION)

    return whole


def function(code: Code, kernel: func.FuncOp, end: str) -> Callable[..., Any]:
    """Compile the text of a program, which ends by a return and `end`."""
    wanted = needed(kernel, not code.counting, code.places)
    for number, argument in enumerate(kernel.args):
        code.names[argument] = f"values[{number}]"
    _block(code, kernel.body.block, wanted)
    code.flush()
    if not code.counting:
        code.line("return")
    code.line(end)
    head = ["def run(values, rank, block, grid, iterations=None):"]
    head += [f"    {size} = {name}.bytes" for name, size in code.sizes.items()]
    head += [f"    {drawn} = 0" for drawn in code.counters.values()]
    exec(compile("\n".join(head + code.lines), "<tawa: timing program>", "exec"), code.table)
    return code.table["run"]


def _block(code: Code, block: Block, wanted: set[SSAValue]) -> None:
    for op in block.ops:
        wants = any(result in wanted for result in op.results)
        if code.counting and not wants and _moves_nothing(op):
            continue
        write, code.op = WRITERS.get(type(op)), op
        if write is not None:
            write(code, op, wanted)
            continue
        if wants:
            _from_data(code, op)
        if code.counting:
            _pointers(code, op)
            continue
        work = work_of(op, code.target)
        if work is not None and code.threads > 1:
            code.add(work)


def _moves_nothing(op: Operation) -> bool:
    """Whether an op is there for others' progress alone: none of its effects is on memory."""
    found = not op.regions and effects_of(op)
    return bool(found) and not any(touches(op, memory) for memory in (GLOBAL, SHARED))


def _from_data(code: Code, op: Operation) -> None:
    """A scalar that comes from data: an element of the launch's memory, or else zero."""
    for result in op.results:
        code.names[result] = "0"
    if isinstance(op, ScalarLoad):
        load = code.constant("f", partial(_loaded, code.memory, op.value.type))
        at, code.names[op.value] = code.name(op.pointer), code.fresh("s")
        code.line(f"{code.names[op.value]} = {load}({at})")


def _loaded(memory: GlobalMemory | None, element: Attribute, at: int) -> Any:
    if memory is None:
        return 0
    try:
        return memory.load(np.asarray([at]), element, 1)[0, 0].item()
    except OutsideMemory:
        return 0


# --- scalars --------------------------------------------------------------------------------------


def _constant(code: Code, op: arith.ConstantOp, _wanted: set[SSAValue]) -> None:
    value = op.value
    assert isinstance(value, IntegerAttr | FloatAttr)
    code.names[op.result] = repr(value.value.data)


def _map(code: Code, op: Map, wanted: set[SSAValue]) -> None:
    if isinstance(op.result.type, FragType):
        work = work_of(op, code.target)
        if work is not None:
            code.add(without_dropped(op, work))
        return
    code.scalar(op)
    if op.result not in wanted:
        return
    operands = [code.name(v) for v in op.arguments]
    text = expression(op)
    if text is None:
        text = f"{code.constant('f', _evaluator(op))}({', '.join('{}' for _ in operands)})"
    code.table.setdefault("_div", divide)
    code.table.setdefault("_rem", remainder)
    name = code.fresh("s")
    code.line(f"{name} = {text.format(*operands)}")
    code.names[op.result] = name


def _evaluator(op: Map) -> Callable[..., Any]:
    return lambda *values: op.evaluate(*(np.asarray(v) for v in values)).item()


def _place(text: Callable[[Code, Any], str]) -> Callable[[Code, Any, set[SSAValue]], None]:
    def write(code: Code, op: Any, _wanted: set[SSAValue]) -> None:
        code.names[op.results[0]] = text(code, op)

    return write


def _plan_entry(code: Code, op: PlanEntry, wanted: set[SSAValue]) -> None:
    if op.result in wanted:
        code.names[op.result] = f"{code.name(op.plan)}[{code.name(op.index)}]"


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


def _shared_group(code: Code, op: SharedWarpGroup, wanted: set[SSAValue]) -> None:
    _block(code, op.body.block, wanted)


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


def _carried_on(value: SSAValue) -> bool:
    """Whether control flow has given a value its registers, so that a loop needs a copy."""
    return not isinstance(value.owner, Operation) or bool(value.owner.regions)


def _for(code: Code, op: scf.ForOp, wanted: set[SSAValue]) -> None:
    index, *arguments = op.body.block.args
    chosen = [i for i, a in enumerate(arguments) if a in wanted or op.results[i] in wanted]
    targets = [code.fresh("c") for _ in chosen]
    for i, target in zip(chosen, targets, strict=True):
        code.names[arguments[i]] = code.names[op.results[i]] = target
    _assign(code, targets, [code.name(op.iter_args[i]) for i in chosen])
    if code.loops and code.threads > 1:
        code.add(moves([v for v in op.iter_args if _carried_on(v)], code.target))
    code.flush()
    code.names[index] = code.fresh("i")
    bounds = ", ".join(code.name(v) for v in (op.lb, op.ub, op.step))
    iteration = code.iteration(op)
    code.line(f"for {code.names[index]} in range({bounds}){'[:iterations]' if iteration else ''}:")
    code.depth += 1
    code.loops.append((index.name_hint or "iteration", code.names[index]))
    code.line("pass")
    if iteration:
        code.event(f"{ITERATION},")
    _block(code, op.body.block, wanted)
    code.flush()
    _assign(code, targets, [code.name(last(op.body).operands[i]) for i in chosen])
    code.depth -= 1
    code.loops.pop()


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
    iteration = code.iteration(op)
    iterations = code.fresh("iteration")
    code.line(f"{iterations} = 0")
    code.line("while True:")
    code.depth += 1
    code.loops.append(("iteration", iterations))
    _block(code, before, wanted)
    code.flush()
    condition, *values = last(op.before_region).operands
    _assign(
        code, [code.names[op.results[i]] for i in passed], [code.name(values[i]) for i in passed]
    )
    enough = f" or {iterations} == iterations" if iteration else ""
    code.line(f"if not {code.name(condition)}{enough}: break")
    code.line(f"{iterations} += 1")
    code.table.setdefault("_endless", partial(_endless, op))
    code.line(f"if {iterations} > {MOST_ITERATIONS}: _endless()")
    if iteration:
        code.event(f"{ITERATION},")
    _block(code, after, wanted)
    code.flush()
    _assign(code, targets, [code.name(last(op.after_region).operands[i]) for i in chosen])
    code.depth -= 1
    code.loops.pop()


def _endless(op: Operation) -> None:
    error = errors.TurnsDependOnData(
        "a prediction does not know how many iterations this loop has",
        expected="a condition of arguments, program ids and counters",
        found=f"{MOST_ITERATIONS} iterations without an end",
        hint="measure it, or look at it with `tawa run` and `tawa check`",
    )
    error.span = span_of(op)
    raise error


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
        if threads > LANES:  # a warp's lanes are together
            code.event(f"{MEET}, {number}, {threads}, {code.threads}, {waits}")

    return write


def _sync(code: Code, op: CtaSync | ClusterSync, _wanted: set[SSAValue]) -> None:
    number = 0 if isinstance(op, CtaSync) else -1
    code.event(f"{MEET}, {number}, {32 * code.kernel_warps}, {code.threads}, True")


def _load(code: Code, op: TmaLoad, _wanted: set[SSAValue]) -> None:
    if code.places:
        where = "".join(f", {code.name(value)}" for value in op.coordinates)
        code.line(f"loaded.append(({code.name(op.map)!r}, {code.bytes(op.map)}{where}))")
        code.line("if len(loaded) == iterations: return loaded")
        return
    if code.counting:
        code.line(f"loads += 1; loaded += {code.bytes(op.map)}")
        return
    ctas = "0" if op.ctas is None else code.name(op.ctas)
    code.event(f"{LOAD}, {_barrier(code, op)}, {code.bytes(op.map)}, {ctas}, {code.is_free}")


def _store(code: Code, op: TmaStore, _wanted: set[SSAValue]) -> None:
    if code.places:
        return
    if code.counting:
        code.line(f"stored += {code.bytes(op.map)}")
        return
    code.event(f"{STORE}, {code.bytes(op.map)}")


def _pointers(code: Code, op: Operation) -> None:
    """Count what a fragment is in memory that is read or written through pointers."""
    if isinstance(op, GlobalLoad | GlobalStore) and not code.loads_only:
        assert isinstance(op.value.type, FragType)
        size = byte_size(op.value.type.element_type) * op.value.type.layout.registers
        name = "read" if isinstance(op, GlobalLoad) else "written"
        code.line(f"{name} += {size * code.threads}")


def _wgmma(code: Code, op: Wgmma, _wanted: set[SSAValue]) -> None:
    if code.counting:
        if not code.loads_only:
            flops = 2 * code.target.mma_m * op.n.value.data * code.target.mma_k_bytes
            code.line(f"flops += {flops // byte_size(op.a_type)}")
            code.line(f"tensor_cycles += {product_cycles(op, code.target)!r}")
        return
    code.event(f"{MATRIX}, {0.0 if code.is_free else matrix_cycles(op, code.target)!r}")


def _plain(kind: int) -> Callable[[Code, Any, set[SSAValue]], None]:
    def write(code: Code, _op: Any, _wanted: set[SSAValue]) -> None:
        code.event(f"{kind},")

    return write


def _matrix_wait(code: Code, op: WgmmaWait, _wanted: set[SSAValue]) -> None:
    """The assembler moves the wait up, before what its block has done since the last event."""
    code.note()
    code.line(f"yield ({MATRIX_WAIT}, {op.pending.value.data})")


def _pending(kind: int) -> Callable[[Code, Any, set[SSAValue]], None]:
    def write(code: Code, op: Any, _wanted: set[SSAValue]) -> None:
        code.event(f"{kind}, {op.pending.value.data}")

    return write


def _stamp(code: Code, op: Timestamp, _wanted: set[SSAValue]) -> None:
    code.event(f"{STAMP}, {op.segment.value.data}, {op.index.value.data}")


def _role_stamp(index: int) -> Callable[[Code, Any, set[SSAValue]], None]:
    def write(code: Code, _op: Any, _wanted: set[SSAValue]) -> None:
        code.event(f"{STAMP}, {ROLE}, {index}")

    return write


WRITERS: dict[type[Operation], Callable[[Code, Any, set[SSAValue]], None]] = {
    arith.ConstantOp: _constant,
    Map: _map,
    TeamIndex: _place(lambda code, _op: str(code.team)),
    GroupIndex: _place(lambda code, _op: str(code.first_thread // 128)),
    ClusterRank: _place(lambda _code, _op: "rank"),
    BlockId: _place(lambda _code, op: f"block[{op.axis.value.data}]"),
    NumBlocks: _place(lambda _code, op: f"grid[{op.axis.value.data}]"),
    Extract: extract,
    PlanEntry: _plan_entry,
    Barriers: _place(lambda _code, op: str(op.offset.value.data)),
    Role: _role,
    SharedWarpGroup: _shared_group,
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
    CtaSync: _sync,
    ClusterSync: _sync,
    TmaLoad: _load,
    **COPIES,
    TmaStore: _store,
    Wgmma: _wgmma,
    WgmmaFence: _nothing,
    WgmmaCommit: _plain(COMMIT),
    WgmmaWait: _matrix_wait,
    BulkCommit: _plain(BULK_COMMIT),
    BulkWaitRead: _pending(BULK_WAIT),
    BulkWait: _pending(BULK_WAIT),
    TraceBegin: _role_stamp(0),
    TraceEnd: _role_stamp(1),
    RecordBegin: _nothing,
    RecordEnd: _nothing,
    Timestamp: _stamp,
}
"""How each op is written; all others take the time that `timing_work` gives them."""
