"""Which registers hold which elements: a layout for every tile value of a warp group.

Matrix products fix theirs; elementwise ops, reductions and loop-carried values follow; loads take
the layout their users have, or one made for coalesced access. Splats, ranges, inserted dimensions
and broadcasts (*lazy* values) have none: they are made in whatever layout a user asks for.
"""

from __future__ import annotations

import math

from xdsl.dialects import arith, scf
from xdsl.ir import Operation, SSAValue

from tawa.aref.axis_info import AxisAnalysis, fastest
from tawa.aref.ops import DotIssue, DotWait, Unset, ViewRead, WarpGroup, ZeroUnless
from tawa.base.elementwise import Map
from tawa.base.layout import Layout, accumulator, blocked
from tawa.base.loops import terminator
from tawa.base.types import byte_size, element_of, shape_of
from tawa.tile.ops import Arange, Broadcast, ExpandDims, Load, Reduce, Reshape, Splat, Trans

LAZY = (Splat, Arange, Broadcast, ExpandDims, arith.ConstantOp, Unset)


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


class Layouts:
    """The layouts of one warp group's values."""

    def __init__(self, group: WarpGroup, axes: AxisAnalysis) -> None:
        self.warps = group.warps.value.data
        self.columns = group.split_columns is not None
        self.axes = axes
        self.of: dict[SSAValue, Layout] = {}
        self._lazy: dict[SSAValue, bool] = {}
        self._same: dict[SSAValue, list[SSAValue]] = {}
        self.ops = list(group.body.walk())
        for op in self.ops:
            self._link(op)
        self._run()

    def lazy(self, value: SSAValue) -> bool:
        """Whether the value is made anew in any layout that is asked for."""
        if value not in self._lazy:
            op = value.owner
            self._lazy[value] = isinstance(op, LAZY) or (
                isinstance(op, Map) and all(self.lazy(v) for v in op.arguments)
            )
        return self._lazy[value]

    def default(self, value: SSAValue, vector: int | None = None) -> Layout:
        """A layout for coalesced access to the value's rows."""
        shape = shape_of(value.type)
        element = element_of(value.type)
        count = vector or max(1, 16 // byte_size(element))
        share = math.prod(shape) // (32 * self.warps)
        while count > 1 and count > share:
            count //= 2
        return blocked(shape, self.warps, max(1, count))

    def _link(self, op: Operation) -> None:
        pairs: list[tuple[SSAValue, SSAValue]] = []
        if isinstance(op, DotIssue):
            pairs.append((op.accumulator, op.result))
        elif isinstance(op, DotWait):
            pairs += zip(op.values, op.results_, strict=True)
        elif isinstance(op, ZeroUnless):
            pairs.append((op.value, op.result))
        elif isinstance(op, scf.ForOp):
            body = op.body.block
            for init, inner, result, passed in zip(
                op.iter_args, body.args[1:], op.results, terminator(body).operands, strict=True
            ):
                pairs += [(init, inner), (inner, passed), (passed, result)]
        elif isinstance(op, scf.IfOp):
            for region in op.regions:
                if region.blocks:
                    pairs += zip(terminator(region.block).operands, op.results, strict=True)
        elif isinstance(op, scf.WhileOp):
            before, after = op.before_region.block, op.after_region.block
            pairs += zip(op.arguments, before.args, strict=True)
            pairs += zip(terminator(before).operands[1:], after.args, strict=True)
            pairs += zip(after.args, op.results, strict=True)
            pairs += zip(before.args, terminator(after).operands, strict=True)
        for a, b in pairs:
            if shape_of(a.type):
                self._same.setdefault(a, []).append(b)
                self._same.setdefault(b, []).append(a)

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
        return changed

    def _carried(self, value: SSAValue) -> Layout | None:
        return next((self.of[v] for v in self._same.get(value, []) if v in self.of), None)

    def _forward(self, op: Operation) -> bool:
        """Let an op's result follow from its operands."""
        if isinstance(op, DotIssue):
            return self._set(op.result, self.accumulator(op))
        if len(op.results) != 1 or op.results[0] in self.of or not shape_of(op.results[0].type):
            return False
        result = op.results[0]
        known = [self.of[v] for v in op.operands if v in self.of]
        if not known:
            return False
        if isinstance(op, Map):
            return self._set(result, known[0])
        if isinstance(op, Reduce):
            return self._set(result, known[0].without(op.axis.value.data))
        if isinstance(op, Trans):
            return self._set(result, known[0].permuted(op.permutation))
        if isinstance(op, Reshape):
            layout = unit_reshape(known[0], shape_of(result.type))
            return self._set(result, layout or self.default(result))
        return False

    def accumulator(self, op: DotIssue) -> Layout:
        """The layout of a matrix product's accumulator."""
        rows, columns = shape_of(op.result.type)
        return accumulator((rows, columns), self.warps, self.columns)

    def _wanted(self, value: SSAValue) -> Layout | None:
        """The layout that the users of a value have, if any has one."""
        for use in value.uses:
            op = use.operation
            if isinstance(op, DotIssue) and use.index == 0:
                rows, columns = shape_of(value.type)
                return accumulator((rows, columns), self.warps)
            if not op.results:
                continue
            result = op.results[0]
            if isinstance(op, Map):
                found = self.of.get(result) or self._wanted(result)
                if found is not None:
                    return found
            elif isinstance(op, ExpandDims | Broadcast):
                found = self._wanted(result)
                if found is not None and isinstance(op, ExpandDims):
                    return found.without(op.axis.value.data)
                if found is not None:
                    for d, extent in enumerate(shape_of(value.type)):
                        if extent == 1:
                            found = found.flattened(d)
                    return found
        return self._carried(value)

    def _propagate(self) -> None:
        changed = True
        while changed:
            changed = False
            for op in self.ops:
                changed |= self._forward(op)

    def _flexible(self) -> list[SSAValue]:
        return [
            op.results[0]
            for op in self.ops
            if isinstance(op, ViewRead | Load)
            and shape_of(op.results[0].type)
            and op.results[0] not in self.of
        ]

    def _load_default(self, value: SSAValue) -> Layout:
        op = value.owner
        if not isinstance(op, Load):
            return self.default(value)
        dim, vector = fastest(self.axes, op.ptr)
        shape = shape_of(value.type)
        order = (dim, *(d for d in reversed(range(len(shape))) if d != dim))
        share = max(1, math.prod(shape) // (32 * self.warps))
        while vector > share:
            vector //= 2
        return blocked(shape, self.warps, vector, order)

    def _run(self) -> None:
        self._propagate()
        while flexible := self._flexible():
            for value in flexible:
                found = self._wanted(value)
                if found is not None:
                    self._set(value, found)
                    break
            else:
                self._set(flexible[0], self._load_default(flexible[0]))
            self._propagate()
        for op in self.ops:
            held = [*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)]
            for value in held:
                if shape_of(value.type) and value not in self.of and not self.lazy(value):
                    self._set(value, self.default(value))
                    self._propagate()
