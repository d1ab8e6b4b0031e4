"""The kernels of groups without matrix products: pointwise, and along rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tawa.axon.gpu import expressions as e
from tawa.axon.gpu.graph.fusion import Group, space_of
from tawa.axon.gpu.graph.lower import is_reshape
from tawa.axon.gpu.graph.nodes import Node, Shape, broadcast_strides
from tawa.axon.gpu.text import Body, KernelText, Parameter, merged_axes
from tawa.base.indices import contiguous_strides
from tawa.machine.chips import SM_90A

Places = dict[Node, tuple[Node, Shape, int]]


@dataclass(frozen=True)
class Variant:
    """One compilation of a kernel: values of its constants, launch options, and when it is for."""

    name: str
    constants: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass
class KernelCall:
    """A kernel's source, what a launch passes, and which variant with which grid."""

    group: Group
    source: Any
    """The function's text, its name left open as `NAME`, or a kernel."""
    parameters: list[Parameter]
    variants: tuple[Variant, ...]
    chosen: int
    grid: tuple[int, ...]

    @property
    def variant(self) -> Variant:
        """The variant for the sizes at hand."""
        return self.variants[self.chosen]


def cdiv(a: int, b: int) -> int:
    """The quotient rounded up."""
    return -(-a // b)


FLAT = Variant("flat", {"BC": 1024})
TILED = (Variant("tiled", {"BR": 8, "BC": 128}), Variant("narrow", {"BR": 64, "BC": 16}))
WIDE = Variant("wide", {"BR": 2, "BC": 512})
"""For windows: what depends on the row alone is read once for many columns."""
MIDDLE = 256
"""Columns up to which wide tiles are mostly idle."""
NARROW = 32
"""Columns up to which tiles of fewer columns leave fewer lanes idle."""


def points_kernel(group: Group, places: Places) -> KernelCall:
    """Pointwise functions; over one axis if everything lies in memory in one order."""
    rows, columns = group.space
    if _lies_flat(group, places):
        text = KernelText()
        body = Body(text, columns, flat=True)
        count = text.parameter("step", rows * columns)
        text.line("cols = tl.program_id(0) * BC + tl.arange(0, BC)")
        text.line(f"cmask = cols < {count}")
        _finish(body, group, places)
        grid = (cdiv(rows * columns, FLAT.constants["BC"]),)
        return KernelCall(group, text.source("NAME", ("BC",)), text.parameters, (FLAT,), 0, grid)
    text = KernelText()
    body = Body(text, columns)
    _bounds(text, rows, columns)
    text.line("tiles = tl.cdiv(C, BC)")
    text.line("pid = tl.program_id(0)")
    text.line("rows = pid // tiles * BR + tl.arange(0, BR)")
    text.line("cols = pid % tiles * BC + tl.arange(0, BC)")
    _masks(text)
    _finish(body, group, places)
    variants = (*TILED, WIDE) if any(n.op == "window" for n in group.members) else TILED
    wide = columns > MIDDLE and len(variants) > len(TILED)
    chosen = 1 if columns <= NARROW else len(TILED) if wide else 0
    sizes = variants[chosen].constants
    grid = (cdiv(rows, sizes["BR"]) * cdiv(columns, sizes["BC"]),)
    source = text.source("NAME", ("BR", "BC"))
    return KernelCall(group, source, text.parameters, variants, chosen, grid)


def _bounds(text: KernelText, rows: int, columns: int) -> None:
    text.parameters.append(Parameter("R", "i32", rows))
    text.parameters.append(Parameter("C", "step", columns))


def _masks(text: KernelText) -> None:
    text.line("rmask = rows < R")
    text.line("cmask = cols < C")
    text.line("mask = rmask[:, None] & cmask[None, :]")


def _finish(body: Body, group: Group, places: Places) -> None:
    for node in group.members:
        body.compute(node)
    for node in group.outputs:
        body.store(node, places.get(node))


def _lies_flat(group: Group, places: Places) -> bool:
    """Whether every operand and result is contiguous, or one number."""
    for node in group.members:
        if node.op in ("take", "put", "window") or (
            node in places and not _contiguous(node.shape, places[node][1])
        ):
            return False
        if node in places and places[node][2]:
            return False
        for operand in node.inputs:
            inside = operand.base if is_reshape(operand) else operand
            if inside in group.members or (operand.base.op == "constant" and operand.size == 1):
                continue
            strides, offset = broadcast_strides(operand, node.shape)
            if any(strides) and (offset or operand.base.function == "iota"
                                 or not _contiguous(node.shape, strides)):  # fmt: skip
                return False
    return True


def _contiguous(shape: Shape, strides: Shape) -> bool:
    expected = contiguous_strides(shape)
    return all(s == 1 or a == b for s, a, b in zip(shape, strides, expected, strict=True))


# Rows.

LOWEST = 'float("-inf")'

WHOLE = (
    Variant("rows to 128", {"BR": 8, "BC": 128, "LOOP": 0}),
    Variant("rows to 1024", {"BR": 2, "BC": 1024, "LOOP": 0}),
    Variant("rows to 2048", {"BR": 1, "BC": 2048, "LOOP": 0}, {"num_warps": 8}),
    Variant("rows to 4096", {"BR": 1, "BC": 4096, "LOOP": 0}, {"num_warps": 8}),
)
LONG = Variant("long rows", {"BR": 1, "BC": 2048, "LOOP": 1}, {"num_warps": 8})
"""Rows that no tile holds are read once for each round of reductions."""


APART = (
    Variant("columns to 128", {"BR": 64, "BC": 128, "LOOP": 0}),
    Variant("few columns to 128", {"BR": 16, "BC": 128, "LOOP": 0}),
    Variant("long columns", {"BR": 32, "BC": 64, "LOOP": 1}),
)
"""Rows that lie side by side, their numbers apart: what many of them share is read at once."""

MANY_ROWS = 64 * SM_90A.multiprocessors // 2
"""Rows from which on large tiles leave few multiprocessors idle."""


def rows_kernel(group: Group, places: Places) -> KernelCall:
    """Reductions along rows, with what comes before and after them."""
    rows, columns = group.space
    text = KernelText()
    _bounds(text, rows, columns)
    text.line("rows = tl.program_id(0) * BR + tl.arange(0, BR)")
    text.line("rmask = rows < R")
    text.line("if LOOP:")
    text.indent = 2
    _RowsWriter(text, group, places, loop=True).write()
    text.indent = 1
    text.line("else:")
    text.indent = 2
    _RowsWriter(text, group, places, loop=False).write()
    variants = (*WHOLE, LONG)
    fits = [i for i, v in enumerate(WHOLE) if columns <= v.constants["BC"]]
    chosen = fits[0] if fits else len(WHOLE)
    if _lies_apart(group):
        variants = APART
        chosen = 2 if columns > APART[0].constants["BC"] else int(rows < MANY_ROWS)
    source = text.source("NAME", ("BR", "BC", "LOOP"))
    grid = (cdiv(rows, variants[chosen].constants["BR"]),)
    return KernelCall(group, source, text.parameters, variants, chosen, grid)


def _lies_apart(group: Group) -> bool:
    """Whether, in all that is read whole, the numbers of a column lie together, not a row's."""
    found: list[bool] = []
    for node in group.members:
        for operand in node.inputs:
            inside = operand.base if is_reshape(operand) else operand
            shape = operand.shape if node.op == "reduce" else node.shape
            if inside in group.members or len(shape) < 2 or node.op not in ("map", "reduce"):
                continue
            strides, _ = broadcast_strides(operand, shape)
            axes = merged_axes(shape[:-1], strides[:-1])
            if strides[-1] and shape[-1] > 1 and axes:
                found.append(strides[-1] != 1 and axes[-1][1] == 1)
    return bool(found) and all(found)


class _RowsWriter:
    """Writes rounds: what is known before the first reduction, before the second, ..."""

    def __init__(self, text: KernelText, group: Group, places: Places, loop: bool) -> None:
        self.text, self.group, self.places, self.loop = text, group, places, loop
        self.body = Body(text, group.space[1])
        self.peak_of = self._running_sums() if loop else {}
        self.rounds = self._rounds()

    def _running_sums(self) -> dict[Node, Node]:
        """Sums of exp(x - p), with the peaks p of x: in one pass, sums are scaled as peaks grow."""
        found: dict[Node, Node] = {}
        for node in self.group.members:
            match node:
                case Node("reduce", "sum", (Node("map", "exp", (Node("map", "-", (x, low)),)),)):
                    peak = self._inside(low)
                    if peak in self.group.members and peak.function == "peak":
                        found.update({node: peak} if peak.inputs == (x,) else {})
                case _:
                    pass
        return found

    def _rounds(self) -> dict[Node, int]:
        found: dict[Node, int] = {}
        for node in self.group.members:
            before = [found.get(self._inside(operand), 0) for operand in node.inputs]
            found[node] = max(before, default=0) + (node.op == "reduce")
            if node in self.peak_of:
                found[node] = found[self.peak_of[node]]
        return found

    def _inside(self, operand: Node) -> Node:
        return operand.base if is_reshape(operand) else operand

    def _is_full(self, node: Node) -> bool:
        return node.op != "reduce" and space_of(node) == self.group.space

    def write(self) -> None:
        """All rounds."""
        if not self.loop:
            self.text.line("cols = tl.arange(0, BC)")
            self._column_masks()
        for number in range(max(self.rounds.values()) + 1):
            self._columns_known(number)
            if self.loop:
                self._loop_round(number)
            else:
                self._round(number)
        for node in self.group.outputs:
            if not self._is_full(node):
                self.body.store(node, self.places.get(node))

    def _column_masks(self) -> None:
        self.text.line("cmask = cols < C")
        self.text.line("mask = rmask[:, None] & cmask[None, :]")

    def _columns_known(self, number: int) -> None:
        """Functions of reductions, one number a row."""
        for node in self.group.members:
            if self.rounds[node] == number and node.op != "reduce" and not self._is_full(node):
                self.body.compute(node)

    def _reductions(self, number: int) -> list[Node]:
        return [n for n in self.group.members if n.op == "reduce" and self.rounds[n] == number + 1]

    def _round(self, number: int) -> None:
        for node in self.group.members:
            if self._is_full(node) and self.rounds[node] == number:
                self.body.compute(node)
                if node in self.group.outputs:
                    self.body.store(node, self.places.get(node))
        for node in self._reductions(number):
            total = self.text.bind("v", self._masked(node, number))
            self._reduce(node, total)

    def _masked(self, node: Node, number: int) -> str:
        del number
        operand, _ = self.body.operand(node.inputs[0], node.inputs[0].shape)
        return f"tl.where(mask, {operand}, {e.identity(node.function, node.element)})"

    def _reduce(self, node: Node, total: str) -> None:
        function, text = node.function, self.text
        if function in ("max", "min") and node.element in e.FLOATS:
            lost = text.bind("v", f"tl.max(({total} != {total}).to(tl.int32), axis=1)")
            found = f"tl.where({lost} > 0, float('nan'), tl.{function}({total}, axis=1))"
        elif function == "prod":
            found = f"tl.reduce({total}, 1, multiply)"
        else:
            found = f"tl.{'max' if function == 'peak' else function}({total}, axis=1)"
        if node.element in ("i8", "i16", "u8", "u16"):
            found += f".to({e.TYPES[node.element]})"
        self.body.values[node] = text.bind("v", f"({found})[:, None]"), "r"

    def _loop_round(self, number: int) -> None:
        """One pass over the columns; full values are computed again in each pass."""
        reductions = self._reductions(number)
        outputs = [n for n in self.group.outputs
                   if self._is_full(n) and self.rounds[n] == number]  # fmt: skip
        if not reductions and not outputs:
            return
        text, kept = self.text, dict(self.body.values)
        self.body.loaded.clear()
        totals: dict[Node, str] = {}
        for node in reductions:
            element = e.computed_in(node.element)
            start = e.identity(node.function, node.element)
            totals[node] = text.bind("a", f"tl.full((BR, BC), {start}, {element})")
        text.line("for step in range(0, tl.cdiv(C, BC)):")
        text.indent += 1
        text.line("cols = step * BC + tl.arange(0, BC)")
        self._column_masks()
        plain = [node for node in reductions if node not in self.peak_of]
        for node in self._needed([*(n.inputs[0] for n in plain), *outputs]):
            self.body.compute(node)
        for node in outputs:
            self.body.store(node, self.places.get(node))
        for node in reductions:
            if node in self.peak_of:
                self._add_scaled(totals[node], totals[self.peak_of[node]], self.peak_of[node])
        for node in plain:
            total = totals[node]
            text.line(f"{total} = {_combined(node, total, self._masked(node, number))}")
        text.indent -= 1
        self.body.values = kept
        self.body.loaded.clear()
        for node, total in totals.items():
            if node in self.peak_of:
                total = self._scaled(total, totals[self.peak_of[node]], self.peak_of[node])
            self._reduce(node, total)

    def _add_scaled(self, total: str, top: str, peak: Node) -> None:
        """Add exp(x - p) to sums for the peaks `top` so far; p is the larger of `top` and x."""
        text = self.text
        x = text.bind("v", self._masked(peak, 0))
        power = text.bind("v", f"tl.where({x} == {LOWEST}, 0.0, tl.exp(-tl.abs({x} - {top})))")
        text.line(f"{total} = tl.where({x} > {top}, {total} * {power} + 1.0, {total} + {power})")

    def _scaled(self, total: str, top: str, peak: Node) -> str:
        """Sums for lanes' own peaks as sums for the row's; a row of nothing but -inf has NaN."""
        whole = self.body.values[peak][0]
        scaled = f"{total} * tl.exp({top} - {whole})"
        return self.text.bind("v", f"tl.where({top} > {LOWEST}, {scaled}, {whole} - {whole})")

    def _needed(self, wanted: list[Node]) -> list[Node]:
        """Full members that some values are computed from, in order."""
        needed: set[Node] = set()
        stack = [self._inside(node) for node in wanted]
        while stack:
            node = stack.pop()
            if node in self.group.members and self._is_full(node) and node not in needed:
                needed.add(node)
                stack.extend(self._inside(operand) for operand in node.inputs)
        return [node for node in self.group.members if node in needed]


def _combined(node: Node, total: str, value: str) -> str:
    nan = f", {e.NAN}" if node.element in e.FLOATS else ""
    return {
        "sum": f"{total} + {value}",
        "prod": f"{total} * {value}",
        "max": f"tl.maximum({total}, {value}{nan})",
        "peak": f"tl.maximum({total}, {value})",
        "min": f"tl.minimum({total}, {value}{nan})",
    }[node.function]
