"""The rules of operators whose results depend on an order along an axis: running sums, sorting.

Each number is compared with all of its row, in one kernel: as much work as squares have, and no
memory between. A running sum of a long row is that of the sums of its pieces, and of each piece.
"""

from __future__ import annotations

from tawa.axon.gpu.graph.nodes import FLOATS, Node, Tape
from tawa.axon.gpu.movement import expand, pad
from tawa.axon.gpu.rules import rule, scalar

PIECE = 64
"""Numbers of a row that are added up in one kernel."""


def _places(tape: Tape, size: int) -> Node:
    return tape.add("map", "iota", (), (size,), "i64")


def _to_last(tape: Tape, x: Node, axis: int) -> Node:
    """The axis moved behind all others."""
    axis %= len(x.shape)
    rest = [other for other in range(len(x.shape)) if other != axis]
    return tape.permute(x, (*rest, axis))


def _from_last(tape: Tape, x: Node, axis: int) -> Node:
    """The last axis moved to where it was."""
    axis %= len(x.shape)
    last = len(x.shape) - 1
    return tape.permute(x, (*range(axis), last, *range(axis, last)))


def _cast(tape: Tape, x: Node, element: str) -> Node:
    return x if x.element == element else tape.map("cast", x, element=element)


@rule("cumsum")
def cumsum(tape: Tape, x: Node, axis: int) -> Node:
    """Running sums, of 16-bit numbers in f32."""
    wide = _cast(tape, x, "f32") if x.element in ("f16", "bf16") else x
    found = _running(tape, _to_last(tape, wide, axis), "<=")
    return _cast(tape, _from_last(tape, found, axis), x.element)


def _running(tape: Tape, x: Node, which: str) -> Node:
    """Of each number along the last axis, the sum of those before it, with itself or without."""
    count = x.shape[-1]
    if count <= PIECE:
        places = _places(tape, count)
        taken = tape.map(which, places, expand(tape, places, -1), element="bool")
        each = tape.map("where", taken, expand(tape, x, -2), scalar(tape, 0, x), element=x.element)
        return tape.reduce("sum", each, -1)
    padded = pad(tape, x, 0, -count % PIECE, -1)
    pieces = tape.reshape(padded, (*x.shape[:-1], padded.shape[-1] // PIECE, PIECE))
    before = _running(tape, tape.reduce("sum", pieces, -1), "<")
    found = tape.map("+", _running(tape, pieces, which), expand(tape, before, -1))
    return tape.part(tape.reshape(found, padded.shape), len(x.shape) - 1, 0, count)


@rule("order")
def order(tape: Tape, x: Node, axis: int) -> Node:
    """The places of the numbers in rising order, of equal ones the first first; NaN is last."""
    row = _to_last(tape, x, axis)
    mine, other, places = expand(tape, row, -1), expand(tape, row, -2), _places(tape, row.shape[-1])
    before = tape.map("<", other, mine, element="bool")
    equal = tape.map("==", other, mine, element="bool")
    if x.element in FLOATS:
        nan, other_nan = (tape.map("!=", side, side, element="bool") for side in (mine, other))
        number = tape.map("not", other_nan)
        before = tape.map("either", before, tape.map("both", nan, number))
        equal = tape.map("either", equal, tape.map("both", nan, other_nan))
    earlier = tape.map("<", places, expand(tape, places, -1), element="bool")
    before = tape.map("either", before, tape.map("both", equal, earlier))
    rank = tape.reduce("sum", tape.map("cast", before, element="i32"), -1)
    here = tape.map("==", expand(tape, rank, -2),
                    expand(tape, _cast(tape, places, "i32"), -1), element="bool")  # fmt: skip
    return _from_last(tape, _picked(tape, here, places), axis)


def _picked(tape: Tape, here: Node, x: Node) -> Node:
    """The sums along the last axis of what is there, of which most places have one number."""
    each = tape.map("where", here, x, scalar(tape, 0, x), element=x.element)
    return tape.reduce("sum", each, -1)


@rule("choose")
def choose(tape: Tape, x: Node, order: Node, axis: int) -> Node:
    """The numbers at the places along an axis."""
    row, at = _to_last(tape, x, axis), expand(tape, _to_last(tape, order, axis), -1)
    here = tape.map("==", at, _places(tape, row.shape[-1]), element="bool")
    return _from_last(tape, _picked(tape, here, expand(tape, row, -2)), axis)


@rule("unchoose")
def unchoose(tape: Tape, by: Node, order: Node, n: int, axis: int) -> Node:
    """Each number where it was chosen from, among `n` along an axis; zeros elsewhere."""
    row, at = _to_last(tape, by, axis), expand(tape, _to_last(tape, order, axis), -2)
    here = tape.map("==", at, expand(tape, _places(tape, n), -1), element="bool")
    return _from_last(tape, _picked(tape, here, expand(tape, row, -2)), axis)


@rule("sort")
def sort(tape: Tape, x: Node, axis: int) -> Node:
    """The numbers in rising order."""
    return choose(tape, x, order(tape, x, axis), axis)
