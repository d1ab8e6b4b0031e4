"""One comparison for a distance between zero and a bound, where two ask for it.

A window of positions asks `column <= row` and `row - column < WINDOW`. Seen without a sign, a
negative distance is larger than any that has one, so `row - column` is compared once. Sums of
indices are taken not to wrap around, as everywhere masks are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tawa.base.spans import copy_span
from tawa.base.types import element_of, shape_of
from tawa.ir.contracts import Contract
from tawa.ir.elementwise import Map
from tawa.ir.loops import integer_constant
from tawa.ir.properties import ONE_PROGRAM, TIDY
from tawa.ir.walking import all_of
from tawa.tile.analysis.masks import is_choice
from tawa.tile.analysis.zero import constant_of
from tawa.tile.dialect.ops import Splat

LEAST = {"cmpi_sge": (1, 0), "cmpi_sgt": (1, 1), "cmpi_sle": (-1, 0), "cmpi_slt": (-1, 1)}
"""Comparisons of a and b, as `sign * (a - b) >= number`."""
OPPOSITE = {"cmpi_sge": "cmpi_slt", "cmpi_sgt": "cmpi_sle", "cmpi_sle": "cmpi_sgt",
            "cmpi_slt": "cmpi_sge"}  # fmt: skip
WITHIN = {"andi": "cmpi_ult", "ori": "cmpi_uge"}
"""What joins two comparisons -> what is asked of the distance: inside a range, or outside."""


@dataclass(frozen=True)
class RangeChecks:
    """`x >= y` and `x - y < n`, or the opposite of both, as one comparison of the distance."""

    name: ClassVar[str] = "range-checks"
    contract: ClassVar[Contract] = Contract(requires=(ONE_PROGRAM,), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Look at what tiles are chosen by; masks of loads say more as they are."""
        for op in list(all_of(module, Map)):
            users = [use.operation for use in op.result.uses]
            if op.function.data in WITHIN and users and all(map(is_choice, users)):
                _rewrite(op)


@dataclass(frozen=True)
class _Least:
    """That `x - y` is at least a number."""

    x: SSAValue
    y: SSAValue
    number: int
    computed: bool
    """Whether the difference is computed for it."""


def _rewrite(root: Map) -> None:
    """Join two comparisons of what a mask is made of, if that saves one."""
    parts = list(_parts(root.result, root.function.data))
    known = [(part, _least(part, root.function.data)) for part in parts]
    for (one, first), (two, second) in combinations(known, 2):
        pair = first and second and _distance(first, second)
        if pair:
            checked = _checked(root, *pair)
            others = [part for part in parts if part not in (one, two)]
            for part in others:
                checked = _insert(root, Map(root.function.data, [checked, part]))
            root.result.replace_all_uses_with(checked)
            return


def _parts(mask: SSAValue, name: str) -> Iterator[SSAValue]:
    """The comparisons that a mask joins; those that others need too are left joined."""
    op = mask.owner
    if isinstance(op, Map) and op.function.data == name:
        for value in op.arguments:
            alone = value.has_one_use()
            yield from _parts(value, name) if alone else (value,)
    else:
        yield mask


def _least(part: SSAValue, joined: str) -> _Least | None:
    """What a comparison says of a difference; where comparisons exclude, what its opposite says."""
    op = part.owner
    if not isinstance(op, Map) or op.function.data not in LEAST or not shape_of(part.type):
        return None
    name = op.function.data
    sign, number = LEAST[name if joined == "andi" else OPPOSITE[name]]
    left, right = op.arguments
    bound, difference = constant_of(right), left.owner
    if bound is not None and isinstance(difference, Map) and difference.function.data == "subi":
        left, right = difference.arguments
        x, y = (left, right) if sign > 0 else (right, left)
        return _Least(x, y, int(sign * bound) + number, computed=True)
    x, y = (left, right) if sign > 0 else (right, left)
    return _Least(x, y, number, computed=False)


def _distance(first: _Least, second: _Least) -> tuple[SSAValue, SSAValue, int] | None:
    """The operands of a distance that starts at zero, and the number that it has to be below."""
    if (first.x, first.y) != (second.y, second.x) or not (first.computed or second.computed):
        return None
    for low, high in ((first, second), (second, first)):
        if low.number == 0 and high.number <= 0:
            return low.x, low.y, 1 - high.number
    return None


def _checked(root: Map, x: SSAValue, y: SSAValue, bound: int) -> SSAValue:
    distance = _insert(root, Map("subi", [x, y]))
    number = _insert(root, integer_constant(bound, element_of(x.type)))
    most = _insert(root, Splat(number, shape_of(x.type)))
    return _insert(root, Map(WITHIN[root.function.data], [distance, most]))


def _insert(root: Map, op: Operation) -> SSAValue:
    assert root.parent is not None
    copy_span(root, [op])
    root.parent.insert_op_before(op, root)
    return op.results[0]
