"""Whether what a box holds past the end of its tensor counts in what a kernel computes.

A box that reaches past an end is filled up with zeros, or with what its partition says. Where a
kernel combines such elements and they are not neutral, a launch whose boxes do reach past an end
is refused; the answer that they do not becomes a guard of the trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from tawa.base.errors import Note
from tawa.base.source import Span
from tawa.base.spans import span_of
from tawa.base.types import shape_of
from tawa.driver.inspection.tile_programs import Counted, Edges, counted
from tawa.tasks.language.defaults import Resolved, where
from tawa.tasks.language.errors import PastTheEnd
from tawa.tasks.language.sizes import Known, Size, extreme, names, text
from tawa.tasks.language.tensors import Tensor
from tawa.tasks.lowering.generated import MARK
from tawa.tasks.lowering.kernel_text import KernelText, ending

KINDS = {
    "add": "a sum", "mul": "a product", "max": "a maximum", "min": "a minimum", "and": "an `and`",
    "or": "an `or`", "xor": "an `xor`", "dot": "a product of tiles", "arg": "an extreme's position",
}  # fmt: skip

NEUTRAL = {
    "add": "0", "mul": "1", "max": '-float("inf")', "min": 'float("inf")', "dot": "0",
    "argmax": '-float("inf")', "argmin": 'float("inf")',
}  # fmt: skip


class StrayCounts(Exception):
    """What a neighbour group has past the end of a group would count."""


def check_ends(kernel: KernelText, module: ModuleOp, known: Known) -> None:
    """Raises `PastTheEnd` where a launch of these sizes would combine what is past an end.

    Raises `StrayCounts` if that is what the next group has past the end of one.
    """
    every = _found(kernel, module)
    stray = [edge for found in every for edge in found.edges if edge[0] in kernel.stray]
    if any(kernel.boxes[line].bounds(d) for line, d in stray):
        raise StrayCounts
    asked = {edge for found in every for edge in found.edges}
    absent = {(at, d) for at, d in asked if not reaches_past(kernel.boxes[at], d, known)}
    if asked == absent:
        return
    for found in _found(kernel, module, frozenset(absent)):
        for line, d in sorted(found.edges - absent):
            span, instance = kernel.sources[int(line)]
            raise _error(found, kernel.boxes[line], d, span, instance)


def check_leaf(
    instance: Resolved, views: Mapping[str, Tensor], module: ModuleOp, span: Span | None
) -> None:
    """Raises `PastTheEnd` where a leaf combines what is past the end of the boxes it is given."""
    ends = tuple((n, d) for n, v in views.items() for d in ending(v) if reaches_past(v, d, NOTHING))
    if not ends:
        return
    key = instance.variant, tuple(str(v.past_end) for v in views.values()), id(module), ends
    if key not in _harmless:
        (function,) = (op for op in module.body.block.ops if isinstance(op, FuncOp))
        for found in counted(function.body.block, lambda op: _loaded(op, views, ends)):
            name, d = min(found.edges)
            raise _error(found, views[name], d, span, instance)
        _harmless.add(key)


def _loaded(
    op: Operation, views: Mapping[str, Tensor], ends: Sequence[tuple[str, int]]
) -> Mapping[int, tuple[Edges, Any]] | None:
    """What a leaf's own program fills up: the loads of its parameters."""
    if op.name != "tile.desc_load":
        return None
    name = (op.operands[0].name_hint or "").removesuffix("_in")
    view = views.get(name)
    if view is None:
        return None
    return {
        view.dims.index(d): (frozenset([(n, d)]), view.past_end or 0)
        for n, d in ends
        if n == name and d in view.dims
    }


NOTHING = Known({})
_harmless: set[Any] = set()
"""Leaves, with their boxes' ends, that were looked at."""


def _found(kernel: KernelText, module: ModuleOp, absent: Edges = frozenset()) -> list[Counted]:
    """Where elements past an end count, but for ends that no box of the launch reaches past."""
    (function,) = (op for op in module.body.block.ops if isinstance(op, FuncOp))
    return counted(function.body.block, lambda op: _filled(op, kernel, absent))


def _filled(
    op: Operation, kernel: KernelText, absent: Edges
) -> Mapping[int, tuple[Edges, Any]] | None:
    """What an op of a kernel fills up, by the line that it comes from."""
    span = span_of(op)
    if span is None or not span.file.startswith(f"{MARK}{kernel.name} "):
        return None
    view = kernel.boxes.get(span.line - 2)
    if view is None or not op.results or not _fills(op):
        return None
    number = view.past_end or 0
    places = list(view.dims)
    if op.name == "tile.desc_load":
        places = list(range(len(view.size)))
        if shape_of(op.results[0].type) != tuple(int(s) for s in view.size):  # turned
            places.reverse()
    ends = ending(view)
    strays = span.line - 2 in kernel.stray
    return {
        at: (frozenset([(span.line - 2, d)]), None if strays and view.bounds(d) else number)
        for at, d in enumerate(places)
        if d in ends and (span.line - 2, d) not in absent
    }


def _fills(op: Operation) -> bool:
    if op.name in ("tile.load", "tile.desc_load"):
        return bool(shape_of(op.results[0].type))
    function = op.properties.get("function")
    return op.name == "ew.map" and getattr(function, "data", "") == "select"


def reaches_past(view: Tensor, d: int, known: Known) -> bool:
    """Whether boxes of a launch reach outside of their tensor in a dimension."""
    if view.bounds(d) is not None:
        return True
    low, high = extreme(view.origin[d], most=False), extreme(view.origin[d], most=True)
    if low is None or high is None:
        return True
    end: Any = high + view.size[d]
    first: Any = low
    extent = view.buffer.shape[d]
    if any(name not in known.values for size in (first, end, extent) for name in names(size)):
        return True
    return (
        not (first >= 0 and end <= extent)
        if _sized(first, end, extent)
        else bool(first < 0 or end > extent)
    )


def _sized(*sizes: Any) -> bool:
    return any(isinstance(size, Size) for size in sizes)


def _error(
    found: Counted, view: Tensor, d: int, span: Span | None, instance: Resolved
) -> PastTheEnd:
    kind = next((text_ for start, text_ in KINDS.items() if found.kind.startswith(start)), None)
    neutral = next((n for start, n in NEUTRAL.items() if found.kind.startswith(start)), None)
    name = view.buffer.name
    there = "what the leaf makes of it there" if found.number is None else f"{found.number}"
    filled = text(view.past_end or 0)
    return PastTheEnd(
        f"{kind or 'a combination'} counts elements past the end of `{name}`",
        span=span_of(found.op),
        expected=f"boxes that end inside of dimension {d} of `{name}`, or elements past the end\n"
        "that leave the result as it is",
        found=f"{there}, where the box is filled up with {filled}",
        hint="mask them in the leaf"
        + (f", or cut with partition_by_blocks(..., past_end={neutral})" if neutral else ""),
        notes=[Note("the box is filled up here", span), where(instance)],
    )
