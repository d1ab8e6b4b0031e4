"""Which registers hold which elements: a layout for every tile value of a warp group.

Matrix products fix theirs; elementwise ops, reductions and loop-carried values follow; loads take
the layout their users have, or one made for coalesced access. Splats, ranges, inserted dimensions
and broadcasts (*lazy* values) have none: they are made in whatever layout a user asks for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush

from xdsl.dialects import scf
from xdsl.dialects.builtin import f32
from xdsl.ir import BlockArgument, Operation, SSAValue, Use

from tawa.aref.analysis.shared_rows import pays_to_share
from tawa.aref.analysis.spread_rows import halvings, lane_parts, summed
from tawa.aref.analysis.stored_runs import (
    bytes_at_once,
    is_side_by_side,
    most_side_by_side,
    scanned_across,
    stored_run,
)
from tawa.aref.dialect.ops import (
    CopyInto,
    DotIssue,
    DotWait,
    LanePartials,
    Stage,
    StoreInto,
    ViewRead,
    WarpDot,
    WarpGroup,
    ZeroUnless,
)
from tawa.base.layout import Layout, Mode, accumulator, blocked, crossed, in_runs
from tawa.base.types import PtrType, byte_size, element_of, shape_of
from tawa.ir.elementwise import Map
from tawa.ir.loops import terminator
from tawa.ir.traits import is_constant, made_anew
from tawa.ir.walking import every
from tawa.machine.chips import SM_90A
from tawa.machine.instructions import LONG
from tawa.tile.analysis.axis_info import AxisAnalysis, access_run, fastest
from tawa.tile.dialect.ops import (
    ArgReduce,
    Asm,
    AsmEffect,
    AtomicCas,
    AtomicRmw,
    Broadcast,
    Dot,
    ExpandDims,
    Gather,
    Join,
    Load,
    Reduce,
    ReduceWith,
    Repeat,
    Reshape,
    Scan,
    ScanWith,
    Split,
    Store,
    Trans,
)

HANDS_ON = (Map, ExpandDims, Broadcast, Trans, Repeat, Reshape)
"""Ops whose operand takes the layout that users of the result want."""

LEAST_COPY = SM_90A.least_async_copy
"""Bytes that an asynchronous copy moves at least."""

WORD = SM_90A.word
"""Bytes of a register, and of a bank of shared memory."""

WIDEST = SM_90A.copy_unit
"""Bytes of a thread's widest access."""

SQUARE = WIDEST // WORD
"""Rows and columns of words that a thread transposes: an access either way."""


def unit_reshape(layout: Layout, shape: tuple[int, ...]) -> Layout | None:
    """The layout after extents of 1 were removed or inserted; None if other extents change."""
    dims = [d for d, e in enumerate(layout.shape) if e != 1]
    if [layout.shape[d] for d in dims] != [e for e in shape if e != 1]:
        return None
    for d in reversed(range(len(layout.shape))):
        if d not in dims:
            layout = layout.without(d)
    for d, extent in enumerate(shape):
        if extent == 1:
            layout = layout.expanded(d)
    return layout


def _staged_across(value: SSAValue, dim: int) -> bool:
    """Whether a tile of words, or one that becomes words, is copied to be read across.

    Products read it where its other dimension is contiguous.
    """
    loaded = byte_size(element_of(value.type))
    work, seen = [(value, dim)], {(value, dim)}
    while work:
        tile, across = work.pop()
        for use in tile.uses:
            op = use.operation
            following: tuple[SSAValue, int] | None = None
            if isinstance(op, Stage | StoreInto) and across == 0:
                return WORD in (loaded, byte_size(element_of(tile.type)))
            if isinstance(op, Map) and shape_of(op.result.type) == shape_of(tile.type):
                following = op.result, across
            elif isinstance(op, Trans):
                following = op.result, 1 - across
            if following and following not in seen:
                seen.add(following)
                work.append(following)
    return False


def joined(layout: Layout) -> Layout:
    """The layout with a new last dimension of 2, both elements in one thread."""
    rank = len(layout.shape)
    pair = Mode(2, rank, 1)
    return Layout((*layout.shape, 2), (pair, *layout.reg), layout.lane, layout.warp)


def halves(layout: Layout) -> Layout | None:
    """The layout of each half along the last dimension, of 2; None if a thread holds but one."""
    last = len(layout.shape) - 1
    return layout.without(last) if any(m.dim == last for m in layout.reg) else None


@dataclass
class _Asked:
    """A value whose users are asked for their layout, reached from an operand of `via`."""

    value: SSAValue
    uses: Iterator[Use]
    via: Operation | None = None


def layout_before(op: Operation, layout: Layout) -> Layout | None:
    """The layout of an op's operand that gives its result in `layout`; None if none does."""
    if isinstance(op, ExpandDims):
        return layout.without(op.axis.value.data)
    if isinstance(op, Trans):
        order = op.permutation
        return layout.permuted(tuple(order.index(d) for d in range(len(order))))
    if isinstance(op, Broadcast):
        for d, extent in enumerate(shape_of(op.value.type)):
            if extent == 1:
                layout = layout.flattened(d)
    if isinstance(op, Reshape):
        return unit_reshape(layout, shape_of(op.value.type))
    if isinstance(op, Repeat):
        return layout.grouped(op.axis.value.data, op.times.value.data)
    return layout


def _keeps_extents(op: Reshape) -> bool:
    """Whether a reshape adds and removes extents of 1 alone."""
    one, other = (shape_of(v.type) for v in (op.value, op.result))
    return [e for e in one if e != 1] == [e for e in other if e != 1]


def _loops(value: SSAValue) -> int:
    """How many loops are around the op that makes a value."""
    count, op = 0, value.owner
    while op is not None:
        count += isinstance(op, scf.ForOp | scf.WhileOp)
        op = op.parent_op()
    return count


def _is_operand(value: SSAValue) -> bool:
    """Whether a value is computed, carried or read from a slot, and products alone read it."""
    loops = (scf.ForOp, scf.IfOp, scf.WhileOp)
    carriers = (*loops, scf.YieldOp, scf.ConditionOp)
    made = isinstance(value, BlockArgument) or isinstance(value.owner, (Map, ViewRead, *loops))
    return made and all(
        isinstance(u.operation, carriers)
        or (isinstance(u.operation, Dot | DotIssue) and u.index == 0)
        for u in value.uses
    )


def operand_words(value: SSAValue, same: Mapping[SSAValue, list[SSAValue]]) -> set[SSAValue]:
    """What is held as words with a product's A operand: all that it is carried to or from.

    Empty if it is not: 16-bit elements that no loop carries are packed just before the product.
    """
    size, together = byte_size(element_of(value.type)), carried_with(value, same)
    carried = any(isinstance(v, BlockArgument) for v in together)
    wanted = size == 1 or (size == 2 and carried)
    return together if wanted and all(map(_is_operand, together)) else set()


def carried_pairs(op: Operation) -> Iterable[tuple[SSAValue, SSAValue]]:
    """Values that an op carries from one name to another: they share their layout."""
    if isinstance(op, DotIssue | WarpDot):
        yield op.accumulator, op.result
    elif isinstance(op, DotWait):
        yield from zip(op.values, op.results_, strict=True)
    elif isinstance(op, ZeroUnless):
        yield op.value, op.result
    elif isinstance(op, scf.ForOp):
        inner, passed = op.body.block.args[1:], terminator(op.body.block).operands
        yield from zip(op.iter_args, inner, strict=True)
        yield from zip(inner, passed, strict=True)
        yield from zip(passed, op.results, strict=True)
    elif isinstance(op, scf.IfOp):
        for region in op.regions:
            if region.blocks:
                yield from zip(terminator(region.block).operands, op.results, strict=True)
    elif isinstance(op, scf.WhileOp):
        yield from _while_pairs(op)


def same_values(ops: Iterable[Operation]) -> dict[SSAValue, list[SSAValue]]:
    """The tiles that each tile is carried to or from."""
    found: dict[SSAValue, list[SSAValue]] = {}
    for op in ops:
        for a, b in carried_pairs(op):
            if shape_of(a.type):
                found.setdefault(a, []).append(b)
                found.setdefault(b, []).append(a)
    return found


def carried_with(value: SSAValue, same: Mapping[SSAValue, list[SSAValue]]) -> set[SSAValue]:
    """All values that are carried to or from a value, on any way, and itself."""
    found, work = {value}, [value]
    while work:
        new = set(same.get(work.pop(), [])) - found
        found |= new
        work += new
    return found


def _while_pairs(op: scf.WhileOp) -> Iterable[tuple[SSAValue, SSAValue]]:
    before, after = op.before_region.block, op.after_region.block
    yield from zip(op.arguments, before.args, strict=True)
    yield from zip(terminator(before).operands[1:], after.args, strict=True)
    yield from zip(after.args, op.results, strict=True)
    yield from zip(before.args, terminator(after).operands, strict=True)


class Layouts:
    """The layouts of one warp group's values."""

    def __init__(self, group: WarpGroup, axes: AxisAnalysis) -> None:
        self.warps = group.warps.value.data
        self.columns = group.split_columns is not None
        self.axes = axes
        self.of: dict[SSAValue, Layout] = {}
        self._lazy: dict[SSAValue, bool] = {}
        self._work: dict[SSAValue, float] = {}
        self.ops = every(group.body)
        self._numbers = {op: number for number, op in enumerate(self.ops)}
        self._stale: list[int] = list(range(len(self.ops)))
        self._same = same_values(self.ops)
        self._run()
        self.packed = self._packed()
        """Values that are held as the words of an A operand."""

    def _packed(self) -> set[SSAValue]:
        """8-bit tiles, and carried or rounded ones of 16, that products alone read in registers."""
        found: set[SSAValue] = set()
        for op in self.ops:
            if isinstance(op, DotIssue) and shape_of(op.a.type) and op.a not in found:
                found |= operand_words(op.a, self._same)
                if self._is_rounded(op.a):
                    found.add(op.a)
        return found

    def _is_rounded(self, value: SSAValue) -> bool:
        """Whether a loop rounds a product's result to 16 bits, where it is, to be an operand."""
        op = value.owner
        if not isinstance(op, Map) or op.function.data != "truncf" or not _is_operand(value):
            return False
        if not isinstance(op.parent_op(), scf.ForOp):
            return False  # where pipelines meet, registers are short, and little is gained
        (source,), shape = op.arguments, shape_of(value.type)
        pairs = byte_size(element_of(value.type)) == 2 and element_of(source.type) == f32
        own = shape[0] % (16 * self.warps) == 0 and not self.columns
        same = own and self.of.get(source) == accumulator((shape[0], shape[1]), self.warps)
        return pairs and same and len(carried_with(value, self._same)) == 1

    def lazy(self, value: SSAValue) -> bool:
        """Whether the value is made anew in any layout that is asked for."""
        if value not in self._lazy:
            op = value.owner
            if isinstance(op, Map | Trans):
                self._lazy[value] = all(self.lazy(v) for v in op.operands)
            else:
                self._lazy[value] = made_anew(op) or is_constant(op)
        return self._lazy[value]

    def work(self, value: SSAValue) -> float:
        """Instructions an element that making a lazy value takes; no bound with long functions."""
        op = value.owner
        if isinstance(op, Broadcast | ExpandDims | Trans):
            return self.work(op.value)
        if not isinstance(op, Map):
            return 0
        if value not in self._work:
            below = sum(self.work(v) for v in op.arguments if shape_of(v.type))
            self._work[value] = below + (math.inf if op.function.data in LONG else 1)
        return self._work[value]

    def default(self, value: SSAValue, vector: int | None = None) -> Layout:
        """A layout for coalesced access to the value's rows."""
        shape = shape_of(value.type)
        element = element_of(value.type)
        count = vector or max(1, 16 // byte_size(element))
        share = math.prod(shape) // (32 * self.warps)
        while count > 1 and count > share:
            count //= 2
        return blocked(shape, self.warps, max(1, count))

    def _set(self, value: SSAValue, layout: Layout) -> bool:
        """Fix a value's layout, and that of all values it is carried to."""
        changed = False
        work = [value]
        while work:
            v = work.pop()
            if v in self.of or self.lazy(v):
                continue
            self.of[v] = layout
            changed = True
            work += self._same.get(v, [])
            self._stale += [n for u in v.uses if (n := self._numbers.get(u.operation)) is not None]
        return changed

    def _carried(self, value: SSAValue) -> Layout | None:
        return next((self.of[v] for v in self._same.get(value, []) if v in self.of), None)

    def _forward(self, op: Operation) -> bool:
        """Let an op's result follow from its operands."""
        if isinstance(op, DotIssue | WarpDot):
            return self._set(op.result, self.accumulator(op))
        if isinstance(op, ArgReduce | ReduceWith | ScanWith | Asm | AsmEffect):
            return self._forward_several(op)
        if isinstance(op, Split):
            half = halves(self.of[op.value]) if op.value in self.of else None
            return half is not None and self._set(op.first, half) | self._set(op.second, half)
        if len(op.results) != 1 or op.results[0] in self.of or not shape_of(op.results[0].type):
            return False
        found = self._followed(op)
        return found is not None and self._set(op.results[0], found)

    def _followed(self, op: Operation) -> Layout | None:
        """The layout of an op's one result, if it follows from what is known of its operands."""
        known = next((self.of[v] for v in op.operands if v in self.of), None)
        if isinstance(op, Gather):
            same = shape_of(op.value.type) == shape_of(op.indices.type)
            follows = same and self.lazy(op.indices)
            return self.of.get(op.value if follows else op.indices)
        if known is None:
            return None
        if isinstance(op, Map | Scan):
            return known
        if isinstance(op, Reduce):
            axis = op.axis.value.data
            shared = halvings(known, axis) if self._only_stored(op.result) else []
            return shared[-1].layout if shared else known.without(axis)
        if isinstance(op, LanePartials):
            return lane_parts(summed(op, known, self.warps))
        if isinstance(op, Join):
            return joined(known)
        if isinstance(op, Trans):
            return known.permuted(op.permutation)
        if isinstance(op, Repeat):
            return known.repeated(op.axis.value.data, op.times.value.data)
        if isinstance(op, Reshape):
            shape = shape_of(op.results[0].type)
            return known.reshaped(shape) or self.default(op.results[0])
        return None

    def _only_stored(self, value: SSAValue) -> bool:
        """Whether a tile of words is stored, as it is or after elementwise work, and no more."""
        if byte_size(element_of(value.type)) < WORD or not value.first_use:
            return False
        work = [value]
        while work:
            for use in work.pop().uses:
                op = use.operation
                if isinstance(op, Store) and use.index == op.operands.index(op.value):
                    others = [v for v in op.operands if v is not op.value]
                elif isinstance(op, Map) and op.result.first_use:
                    others = [v for v in op.operands if v is not op.operands[use.index]]
                    work.append(op.result)
                else:
                    return False
                if not all(self.lazy(v) for v in others if shape_of(v.type)):
                    return False
        return True

    def _forward_several(self, op: ArgReduce | ReduceWith | ScanWith | Asm | AsmEffect) -> bool:
        """Let the results of an op of several tiles follow from its first operand that is known."""
        known = next((self.of[v] for v in op.operands if v in self.of), None)
        if known is None:
            return False
        shrinks = isinstance(op, ArgReduce | ReduceWith)
        layout = known.without(op.axis.value.data) if shrinks else known
        changed = [self._set(r, layout) for r in op.results if shape_of(r.type)]
        return any(changed)

    def accumulator(self, op: DotIssue | WarpDot) -> Layout:
        """The layout of a matrix product's accumulator."""
        if isinstance(op, WarpDot):
            return op.product.accumulator(self.warps)
        rows, columns = shape_of(op.result.type)
        return accumulator((rows, columns), self.warps, self.columns)

    def _wanted(self, value: SSAValue) -> Layout | None:
        """The layout that the users of a value have, if any has one; each value is asked once.

        What has no wish of its own hands on that of its result's users, in depth first order. The
        way is a list, since chains of ops may be thousands long.
        """
        asked, way = {value}, [_Asked(value, iter(value.uses))]
        while way:
            last = way[-1]
            use = next(last.uses, None)
            if use is None:
                found = self._carried(last.value)
            else:
                found = self._wanted_by(use.operation, use.index)
            if found is not None:
                for op in (step.via for step in reversed(way) if step.via is not None):
                    found = layout_before(op, found) or found
                return found
            if use is None:
                way.pop()
            elif isinstance(op := use.operation, HANDS_ON):
                if op.result not in asked and (not isinstance(op, Reshape) or _keeps_extents(op)):
                    asked.add(op.result)
                    way.append(_Asked(op.result, iter(op.result.uses), op))
        return None

    def _wanted_of_any(self, value: SSAValue) -> Layout | None:
        """The layout that the users of a value, or of one that it is carried to or from, have."""
        group = [value]
        for v in group:
            found = self._wanted(v)
            if found is not None:
                return found
            group += [w for w in self._same.get(v, []) if w not in group]
        return None

    def _wanted_by(self, op: Operation, index: int) -> Layout | None:
        """The layout in which an op itself would take its operand; None if it has no wish."""
        if isinstance(op, DotIssue) and index == 0:
            rows, columns = shape_of(op.a.type)
            return accumulator((rows, columns), self.warps)
        if isinstance(op, WarpDot) and op.operands[index] is not op.accumulator:
            return op.layout(index, self.warps)
        if isinstance(op, Map):
            return self.of.get(op.result)
        if isinstance(op, CopyInto):
            return self.copied(op)[0]
        if isinstance(op, Load | Store | AtomicRmw | AtomicCas):
            accessed = op.result if isinstance(op, Load) else op.value
            if op.operands[index] is accessed and self._scattered(op.ptr):
                return self.of.get(op.ptr)
            return self.of.get(accessed) if shape_of(accessed.type) else None
        return None

    def _scattered(self, pointers: SSAValue) -> bool:
        """Whether elements go anywhere: then threads hold them as they hold their addresses."""
        return max(self.axes.of(pointers).contiguous, default=0) == 1

    def _propagate(self) -> None:
        """Let results follow in the order of the ops, again and again, as far as anything is new.

        What an op's results follow from is known of its operands: it is looked at again only where
        one of them got a layout.
        """
        while self._stale:
            batch, after = sorted(set(self._stale)), list[int]()
            queued = set(batch)
            while batch:
                number = heappop(batch)
                queued.discard(number)
                self._stale = []
                self._forward(self.ops[number])
                for n in self._stale:
                    if n <= number:
                        after.append(n)
                    elif n not in queued:
                        queued.add(n)
                        heappush(batch, n)
            self._stale = after

    def _flexible(self) -> list[SSAValue]:
        return [
            op.results[0]
            for op in self.ops
            if isinstance(op, ViewRead | Load)
            and shape_of(op.results[0].type)
            and op.results[0] not in self.of
        ]

    def copied(self, op: CopyInto) -> tuple[Layout, int]:
        """The layout of the pointers and mask of a copy, and how many elements it moves at once."""
        dim, vector = access_run(self.axes, op.pointers, op.mask)
        shape = shape_of(op.pointers.type)
        share = max(1, math.prod(shape) // (32 * self.warps))
        element = element_of(op.pointers.type)
        assert isinstance(element, PtrType)
        while vector > share and vector * byte_size(element.pointee) > LEAST_COPY:
            vector //= 2
        order = (dim, *(d for d in reversed(range(len(shape))) if d != dim))
        return blocked(shape, self.warps, vector, order), vector

    def _load_default(self, value: SSAValue) -> Layout:
        op = value.owner
        if not isinstance(op, Load):
            return self.default(value)
        dim, vector = fastest(self.axes, op.ptr)
        if vector == 1 and op.ptr in self.of:
            return self.of[op.ptr]  # addresses that were loaded: wherever they are, it is as good
        shape = shape_of(value.type)
        together = carried_with(value, self._same)
        if self.axes.of(op.ptr).contiguous[dim] == 1:
            dim, vector = stored_run(self.axes, value) or (dim, vector)
        vector = min(vector, most_side_by_side(value))
        vector = max(vector, bytes_at_once(self.axes, op, dim))
        squares = len(shape) == 2 and vector >= SQUARE
        if squares and any(_staged_across(v, dim) for v in together):
            square = crossed((shape[0], shape[1]), self.warps, SQUARE, dim)
            if square is not None:
                return square
        if any(isinstance(use.operation, Stage | StoreInto) for v in together for use in v.uses):
            # What is loaded element by element is stored to shared memory in words.
            word = max(1, WORD // byte_size(element_of(value.type)))
            vector = max(vector, math.gcd(word, self.axes.of(op.ptr).contiguous[dim]))
        order = (dim, *(d for d in reversed(range(len(shape))) if d != dim))
        share = max(1, math.prod(shape) // (32 * self.warps))
        while vector > share:
            vector //= 2
        if (runs := self._in_runs(value, vector, dim)) is not None:
            return runs
        apart = any(is_side_by_side(self.axes, v, dim) for v in together)
        return blocked(shape, self.warps, vector, order, apart=apart)

    def _in_runs(self, value: SSAValue, vector: int, dim: int) -> Layout | None:
        """The layout in which a tile is loaded that is scanned along another dimension.

        Where the other dimensions hold all threads, a thread has whole lines to scan by itself.
        """
        if (axis := scanned_across(value, dim)) is None:
            return None
        shape = shape_of(value.type)
        if math.prod(shape) // shape[axis] % (32 * self.warps * vector) == 0:
            between = (d for d in reversed(range(len(shape))) if d not in (dim, axis))
            return blocked(shape, self.warps, vector, (dim, *between, axis))
        return in_runs(shape, self.warps, vector, dim, axis)

    def _loaded_in(self, value: SSAValue, wanted: Layout) -> Layout:
        """The layout in which to load what users want in another: theirs, if it is no row.

        Of a row threads share the loads and exchange it, where each would load many elements one
        by one that others load too.
        """
        op = value.owner
        if not isinstance(op, Load) or len(wanted.shape) != 1 or fastest(self.axes, op.ptr)[1] > 1:
            return wanted
        own = self._load_default(value)
        return own if pays_to_share(wanted, own, byte_size(element_of(value.type))) else wanted

    def _run(self) -> None:
        for op in self.ops:  # before products by warps, which take an accumulator in any layout
            if isinstance(op, DotIssue):
                self._set(op.result, self.accumulator(op))
        self._propagate()
        while flexible := self._flexible():
            for value in flexible:
                found = self._wanted_of_any(value)
                if found is not None:
                    self._set(value, self._loaded_in(value, found))
                    break
            else:  # smaller tiles follow larger ones: copies of a row are loaded, not exchanged
                largest = max(flexible, key=lambda v: (math.prod(shape_of(v.type)), _loops(v)))
                self._set(largest, self._load_default(largest))
            self._propagate()
        for op in self.ops:
            held = [*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)]
            for value in held:
                if shape_of(value.type) and value not in self.of and not self.lazy(value):
                    self._set(value, self._wanted_of_any(value) or self.default(value))
                    self._propagate()
