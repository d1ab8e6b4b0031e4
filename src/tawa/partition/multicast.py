"""Clusters: which loads the two CTAs of a cluster agree on, decided tile by tile at run time.

CTAs 2i and 2i + 1 run consecutive programs. A load may be shared (each CTA fetches half and
multicasts it to both) when both have a tile, run the same loops and name the same block. All of
that follows from the program number, so each CTA computes its peer's answer beside its own and
compares.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IntegerAttr, i1, i32
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tawa.aref.dialect import ops as aref
from tawa.base.options import RequestUnmet
from tawa.base.spans import span_of
from tawa.base.types import shape_of
from tawa.ir.elementwise import Map
from tawa.ir.loops import carry, extend_yield
from tawa.partition.rings import latest
from tawa.tile.dialect.ops import DescLoad, ProgramId


class ClusterNotPossible(RequestUnmet):
    """A cluster was asked for, and its CTAs have no load to share."""

    explanation = (
        "`cluster=2` lets two consecutive programs fetch what both need once. Their loads must "
        "name the same block for some operand, at coordinates computed from the program number "
        "and arguments; blocks have a multiple of 16 rows. Only clusters of 1 and 2 are "
        "supported: larger ones reach fewer multiprocessors."
    )
    example = """
import tawa
import tawa.language as tl


@tawa.jit
def gemm(a, b, c, K, M: tl.constexpr, N: tl.constexpr):
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
    c.store([0, 0], acc.to(tl.float16))


tile = "desc<f16,{}x{}>".format
gemm.compile(tile(128, 64), tile(128, 64), tile(128, 128), "i32", 128, 128, cluster=3)
"""


class _Peer:
    """Makes values as the other CTA of the cluster computes them."""

    def __init__(self, before: Operation) -> None:
        self.before = before
        self._known: dict[SSAValue, SSAValue | None] = {}

    def add(self, op: Operation) -> SSAValue:
        """Insert an op."""
        assert self.before.parent is not None
        self.before.parent.insert_op_before(op, self.before)
        return op.results[0]

    def of(self, value: SSAValue) -> SSAValue | None:
        """The peer's value: the same one if it does not depend on the CTA, None if not known."""
        if value not in self._known:
            self._known[value] = self._find(value)
        return self._known[value]

    def _find(self, value: SSAValue) -> SSAValue | None:
        if isinstance(value, BlockArgument):
            return self._argument(value)
        op = value.owner
        assert isinstance(op, Operation)
        if isinstance(op, ProgramId) and op.axis.value.data > 0:
            return value
        if isinstance(op, ProgramId | aref.CtaIndex):
            one = self.add(arith.ConstantOp(IntegerAttr(1, i32)))
            return self.add(Map("xori", [value, one]))
        if not op.operands and not op.regions:
            return value
        if not isinstance(op, Map):
            return None
        operands = [self.of(v) for v in op.arguments]
        known = [o for o in operands if o is not None]
        if len(known) < len(operands):
            return None
        if all(k is v for k, v in zip(known, op.arguments, strict=True)):
            return value
        return self.add(Map(op.function.data, known, op.result.type))

    def _argument(self, value: BlockArgument) -> SSAValue | None:
        owner = value.owner.parent_op()
        if isinstance(owner, func.FuncOp):
            return value
        if not isinstance(owner, scf.ForOp) or value.index != 0:
            return None
        start = self.of(owner.lb)
        if start is None or self.of(owner.step) is not owner.step:
            return None
        if start is owner.lb:
            return value
        moved = self.add(Map("subi", [start, owner.lb]))
        return self.add(Map("addi", [value, moved]))


def agreement(load: DescLoad, kernel: func.FuncOp) -> tuple[SSAValue, Operation] | None:
    """The flag that both CTAs agree on a load, computed before its inner loop; None if never."""
    inner = load.parent_op()
    home: Operation = inner if isinstance(inner, scf.ForOp) else load
    shape = shape_of(load.result.type)
    if len(shape) < 2 or shape[-2] % 16 or shape[-2] > 256:
        return None
    peer = _Peer(home)
    flags: list[SSAValue] = []
    compared = [_computed_from(mine, home) for mine in load.coordinates]
    for mine in dict.fromkeys(value for values in compared for value in values or ()):
        theirs = peer.of(mine)
        if theirs is None:
            return None
        if theirs is not mine:
            flags.append(peer.add(Map("cmpi_eq", [mine, theirs])))
    if None in compared:
        return None
    if not _same_course(load, kernel, peer, flags):
        return None
    together = peer.add(arith.ConstantOp(IntegerAttr(1, 1))) if not flags else flags[0]
    for flag in flags[1:]:
        together = peer.add(Map("andi", [together, flag]))
    return together, home


def _computed_from(value: SSAValue, home: Operation) -> list[SSAValue] | None:
    """Values from before a loop that, with its counter, say what a value is; None if none do."""
    if not isinstance(home, scf.ForOp) or not _inside(value, home):
        return [value]
    owner = value.owner
    if isinstance(owner, Block):
        return [] if value is home.body.block.args[0] else None
    if isinstance(owner, arith.ConstantOp):
        return []
    if not isinstance(owner, Map):
        return None
    parts = [_computed_from(operand, home) for operand in owner.operands]
    return None if None in parts else [v for part in parts for v in part or ()]


def _inside(value: SSAValue, loop: scf.ForOp) -> bool:
    owner = value.owner
    return loop.is_ancestor(owner) and owner is not loop.parent


def _same_course(load: DescLoad, kernel: func.FuncOp, peer: _Peer, flags: list[SSAValue]) -> bool:
    """Add the conditions that the peer runs the same iterations of the loops around the load."""
    parent = load.parent_op()
    while parent is not None and parent is not kernel:
        if not isinstance(parent, scf.ForOp):
            return False
        start, end = peer.of(parent.lb), peer.of(parent.ub)
        if start is None or end is None or peer.of(parent.step) is not parent.step:
            return False
        if start is parent.lb and end is not parent.ub:
            flags.append(peer.add(Map("cmpi_eq", [end, parent.ub])))
        elif start is not parent.lb:
            if parent is load.parent_op():
                return False
            number = peer.of(parent.body.block.args[0])
            assert number is not None
            flags.append(peer.add(Map("cmpi_slt", [number, end])))
        parent = parent.parent_op()
    return True


def _still_together(home: Operation, kernel: func.FuncOp, agree: SSAValue) -> SSAValue:
    """Whether the CTAs agree now and did each time before: once apart, they stay apart.

    A slot that was not shared is returned to its own CTA alone, so the other one, whose copies
    would fill it next, never learns that it is free.
    """
    loops = _loops_around(home, kernel)
    if not loops:
        return agree
    outermost = loops[0]
    assert outermost.parent is not None
    start = arith.ConstantOp(IntegerAttr(1, 1))
    outermost.parent.insert_op_before(start, outermost)
    value: SSAValue = start.result
    carried: list[scf.ForOp] = []
    for loop in loops:
        new, (value,), _ = carry(loop, [value])
        carried.append(new)
    together = Map("andi", [value, agree])
    assert home.parent is not None
    home.parent.insert_op_before(together, home)
    together.result.name_hint = "together"
    value = together.result
    for loop in reversed(carried):
        extend_yield(loop.body.block, [value])
        value = loop.results[-1]
    return together.result


def _as_many_turns(loop: scf.ForOp) -> SSAValue:
    """Whether the peer runs the loop as often."""
    peer = _Peer(loop)
    start = peer.of(loop.lb)
    if start is None or peer.of(loop.ub) is not loop.ub:
        return peer.add(arith.ConstantOp(IntegerAttr(0, 1)))
    one = peer.add(arith.ConstantOp(IntegerAttr(1, i32)))
    counts: list[SSAValue] = []
    for first in (loop.lb, start):
        span = peer.add(Map("subi", [loop.ub, first]))
        more = peer.add(Map("addi", [span, peer.add(Map("subi", [loop.step, one]))]))
        counts.append(peer.add(Map("divsi", [more, loop.step])))
    return peer.add(Map("cmpi_eq", counts))


def _always_together(home: Operation, kernel: func.FuncOp, agree: SSAValue) -> SSAValue:
    """Whether the CTAs agree in every iteration of the loops around: found out before they start.

    For consumers that take turns on the loops' iterations, of which none sees all.
    """
    loops = _loops_around(home, kernel)
    if not loops:
        return agree
    place = loops[0].parent
    assert place is not None
    starts = [_as_many_turns(loop) for loop in loops]
    blocks = {loop.body.block for loop in loops}
    bounds = [value for loop in loops[1:] for value in (loop.lb, loop.ub, loop.step)]
    needed: set[Operation] = set()
    work = [agree, *starts[1:], *bounds]
    while work:
        op = work.pop().owner
        if isinstance(op, Operation) and op.parent in blocks and op not in needed:
            needed.add(op)
            work += op.operands
    found = _check(loops, starts, agree, needed, starts[0], {})
    place.insert_op_before(found, loops[0])
    found.results[0].name_hint = "together"
    return found.results[0]


def _check(
    loops: Sequence[scf.ForOp],
    starts: Sequence[SSAValue],
    agree: SSAValue,
    needed: set[Operation],
    flag: SSAValue,
    values: dict[SSAValue, SSAValue],
) -> scf.ForOp:
    """A nest of loops that iterates as `loops` do and yields `flag` and whether they always agree.

    `needed` are the ops that say so, `values` their copies' results.
    """
    loop, inner = loops[0], loops[1:]
    body = loop.body.block
    block = Block(arg_types=[body.args[0].type, i1])
    values = values | {body.args[0]: block.args[0]}
    now: SSAValue = block.args[1]
    for op in body.ops:
        if inner and op is inner[0]:
            both = Map("andi", [now, values.get(starts[1], starts[1])])
            nested = _check(inner, starts[1:], agree, needed, both.result, values)
            block.add_ops([both, nested])
            now = nested.results[0]
        elif op in needed:
            copy = op.clone({v: values.get(v, v) for v in op.operands})
            block.add_op(copy)
            values |= dict(zip(op.results, copy.results, strict=True))
    if not inner:
        every = Map("andi", [now, values.get(agree, agree)])
        block.add_op(every)
        now = every.result
    block.add_op(scf.YieldOp(now))
    start, end, step = (values.get(v, v) for v in (loop.lb, loop.ub, loop.step))
    return scf.ForOp(start, end, step, [flag], block)


def _loops_around(home: Operation, kernel: func.FuncOp) -> list[scf.ForOp]:
    """The loops that a load's innermost loop, or the load, lies in, the outermost first."""
    loops: list[scf.ForOp] = []
    parent = home.parent_op()
    while isinstance(parent, scf.ForOp) and parent is not kernel:
        loops.insert(0, parent)
        parent = parent.parent_op()
    return loops


def mark_shared(
    kernel: func.FuncOp,
    rings: Sequence[Sequence[DescLoad]],
    cluster: int,
    *,
    ping_pong: bool = False,
) -> set[int]:
    """Put an `aref.agree` before every loop whose loads may be shared; returns their rings.

    `iterations` says that consumers take turns on the iterations of the loop around.
    """
    shared: set[int] = set()
    if cluster != 2:
        raise ClusterNotPossible(
            f"a cluster of {cluster} CTAs", span=span_of(kernel), expected="cluster=1 or cluster=2"
        )
    for number, loads in enumerate(rings):
        found = [agreement(load, kernel) for load in loads]
        homes = [f[1] for f in found if f is not None]
        if not homes:
            continue
        home = latest(homes)
        assert home.parent is not None
        false = arith.ConstantOp(IntegerAttr(0, 1))
        flags = [false.result if f is None else f[0] for f in found]
        whole: list[Operation] = [false]
        any_flag = flags[0]
        for flag in flags[1:]:
            either = Map("ori", [any_flag, flag])
            whole.append(either)
            any_flag = either.result
        home.parent.insert_ops_before(whole, home)
        find = _always_together if ping_pong else _still_together
        together = find(home, kernel, any_flag)
        if together is not any_flag:
            every = [Map("andi", [flag, together]) for flag in flags]
            home.parent.insert_ops_before(every, home)
            flags = [op.result for op in every]
        home.parent.insert_op_before(aref.Agree(number, [together, *flags]), home)
        shared.add(number)
    if not shared:
        raise ClusterNotPossible(
            "the CTAs of a cluster have no load to share",
            span=span_of(rings[0][0]) if rings else span_of(kernel),
            expected="a load whose block both programs of a cluster may name",
            found="coordinates that always differ or depend on data",
            hint="leave `cluster` at 1",
        )
    return shared
