"""Writes a kernel's source: parameters, addresses, loads, stores and pointwise expressions.

The text depends on what a group computes and on how its operands lie (rows, columns, broadcast),
never on sizes: these are arguments. So one text, compiled once, serves all sizes, and all ranks
whose leading axes lie in memory like one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tawa.axon.gpu import expressions as e
from tawa.axon.gpu.graph.errors import NotForGpu
from tawa.axon.gpu.graph.lower import is_reshape
from tawa.axon.gpu.graph.nodes import Node, Place, Shape, Window, broadcast_strides, layout


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel and what a launch passes for it.

    `kind`: `pointer` (to the memory of `value`, a node), `descriptor`, `i32`, `i64`, `f32`,
    `none` (nothing is passed), or `step`: an i32 of which it matters whether 16 divides it.
    """

    name: str
    kind: str
    value: Any


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A tensor as the copy engine sees it; `block` has numbers and names of constants."""

    node: Node
    shape: Shape
    strides: Shape
    offset: int
    block: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """How an address depends on the row: axes, outermost first, as (size, stride)."""

    axes: tuple[tuple[int, int], ...]
    column: int
    """Stride of the column."""


def merged_axes(shape: Shape, strides: Shape) -> tuple[tuple[int, int], ...]:
    """Axes and strides with neighbours made one where memory allows; () if nothing moves."""
    found: list[tuple[int, int]] = []
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if found and stride == found[-1][0] * found[-1][1]:
            found[-1] = (found[-1][0] * size, found[-1][1])
        else:
            found.append((size, stride))
    if all(stride == 0 for _, stride in found):
        return ()
    return tuple(reversed(found))


def _two_axes(shape: Shape, strides: Shape) -> tuple[Shape, Shape]:
    """A vector as one row, a number as one row of one column."""
    size, stride = (shape[0], strides[0]) if shape else (1, 1)
    return (1, size), (size * stride, stride)


@dataclass
class KernelText:
    """Source text in the making."""

    parameters: list[Parameter] = field(default_factory=list[Parameter])
    lines: list[str] = field(default_factory=list[str])
    indent: int = 1
    _pointers: dict[Node, str] = field(default_factory=dict[Node, str])
    _count: int = 0

    def line(self, text: str) -> None:
        """A line of the body."""
        self.lines.append("    " * self.indent + text)

    def name(self, prefix: str) -> str:
        """A new name."""
        self._count += 1
        return f"{prefix}{self._count}"

    def bind(self, prefix: str, text: str) -> str:
        """A new variable for a value."""
        name = self.name(prefix)
        self.line(f"{name} = {text}")
        return name

    def pointer(self, node: Node) -> str:
        """The parameter that points to a node's memory."""
        if node not in self._pointers:
            self._pointers[node] = self.parameter("pointer", node)
        return self._pointers[node]

    def parameter(self, kind: str, value: Any) -> str:
        """A new parameter; its name."""
        prefix = {"pointer": "p", "descriptor": "d"}.get(kind, "n")
        name = f"{prefix}{len(self.parameters)}"
        self.parameters.append(Parameter(name, kind, value))
        return name

    def source(self, name: str, constants: tuple[str, ...]) -> str:
        """The whole function."""
        own = [p.name for p in self.parameters]
        signature = ", ".join([*own, *(f"{c}: tl.constexpr" for c in constants)])
        return f"def {name}({signature}):\n" + "\n".join(self.lines) + "\n"

    # Addresses.

    def address(self, rows: Rows, row: str, column: str, offset: int | None) -> tuple[str, str]:
        """Text of an address, and which of rows and columns it depends on (`r`, `c`).

        `row` and `column` are vectors. An `offset` that may be anything is a parameter.
        """
        parts: list[str] = []
        used = ""
        if offset is not None:
            parts.append(self.parameter("step", offset))
        if rows.axes:
            parts.append(f"({self._row_term(rows.axes, row)})[:, None]")
            used += "r"
        if rows.column == 1:
            parts.append(f"{column}[None, :]")
        elif rows.column:
            parts.append(f"({column} * {self.parameter('step', rows.column)})[None, :]")
        return " + ".join(parts), used + ("c" if rows.column else "")

    def _row_term(self, axes: tuple[tuple[int, int], ...], row: str) -> str:
        terms: list[str] = []
        for number, (size, stride) in enumerate(reversed(axes)):
            last = number == len(axes) - 1
            place = row
            if not last:
                extent = self.parameter("step", size)
                place = f"({row} % {extent})"
                row = self.bind("r", f"{row} // {extent}")
            if stride:  # rows that lie one after the other are read so
                terms.append(
                    place if stride == 1 else f"{place} * {self.parameter('step', stride)}"
                )
        return " + ".join(terms)


@dataclass
class Body:
    """Loads, pointwise functions and stores over a tile of rows and columns.

    `values` has the variable of each node computed so far, and what its tile depends on:
    rows (`r`), columns (`c`), both or neither.
    """

    text: KernelText
    columns: int
    """Columns of the group."""
    row: str = "rows"
    column: str = "cols"
    tile: str = "(BR, BC)"
    values: dict[Node, tuple[str, str]] = field(default_factory=dict[Node, tuple[str, str]])
    flat: bool = False
    loaded: dict[Any, tuple[str, str]] = field(default_factory=dict[Any, tuple[str, str]])

    def operand(self, node: Node, shape: Shape) -> tuple[str, str]:
        """The variable of an operand, read from registers, a parameter or memory."""
        inside = node.base if is_reshape(node) else node
        if inside in self.values:
            return self.values[inside]
        base = node.base
        key = (node, shape)
        if key not in self.loaded:
            if base.op == "constant" and base.size == 1 and base.element != "f64":
                self.loaded[key] = self._constant(base), ""
            elif base.function == "iota":
                self.loaded[key] = self._iota(node, shape)
            else:
                self.loaded[key] = self.load(node, shape)
        return self.loaded[key]

    def _constant(self, node: Node) -> str:
        value = node.data.reshape(-1)[0].item()
        if node.element in e.FLOATS:
            return self.text.parameter("f32", float(value))
        kind = "i64" if node.element in ("i64", "u64", "u32") else "i32"
        name = self.text.parameter(kind, int(value))
        if node.element == "bool":
            return f"({name} != 0)"
        return name if kind == node.element else f"{name}.to({e.TYPES[node.element]})"

    def _iota(self, node: Node, shape: Shape) -> tuple[str, str]:
        address, used = self._address(node, shape)
        return self.text.bind("v", f"({address}).to(tl.int64)"), used

    def _address(self, node: Node, shape: Shape, placed: Any = None) -> tuple[str, str]:
        if placed is not None:
            strides, offset = placed
        else:
            strides, offset = broadcast_strides(node, shape)
        if self.flat:
            return (self.column, "c") if any(strides) else ("", "")
        if len(shape) < 2:
            shape, strides = _two_axes(shape, strides)
        moved = placed is not None or (node.op == "view" and not is_reshape(node))
        column = 0 if shape[-1] == 1 != self.columns else strides[-1]
        rows = Rows(merged_axes(shape[:-1], strides[:-1]), column)
        return self.text.address(rows, self.row, self.column, offset if moved else None)

    def mask(self, used: str) -> str:
        """The mask of a load or store whose address depends on rows, columns or both."""
        if self.flat:
            return "cmask" if used else ""
        return {"rc": "mask", "r": "rmask[:, None]", "c": "cmask[None, :]"}.get(used, "")

    def load(self, node: Node, shape: Shape) -> tuple[str, str]:
        """Read an operand of memory, broadcast to a shape."""
        address, used = self._address(node, shape)
        return self.loaded_from(node, address, self.mask(used)), used

    def loaded_from(self, node: Node, address: str, mask: str, other: str | None = None) -> str:
        """A variable with what lies at an address of a node's memory."""
        text = self.text
        pointer = text.pointer(node.base)
        where = f"{pointer} + {address}" if address else pointer
        zero = "0.0" if node.element in e.FLOATS else "0"
        masked = f", mask={mask}, other={other or zero}" if mask else ""
        loaded = f"tl.load({where}{masked})"
        if node.element in ("f16", "bf16"):
            loaded += ".to(tl.float32)"
        return text.bind("v", loaded)

    def compute(self, node: Node) -> None:
        """A pointwise function of operands."""
        if node.op == "take":
            self._take(node)
            return
        if node.op == "put":
            self.values[node] = self.operand(node.inputs[1], node.inputs[1].shape)
            return
        if node.op == "window":
            self.values[node] = WindowText(self, node).load()
            return
        operands = [self.operand(operand, node.shape) for operand in node.inputs]
        names = [name for name, _ in operands]
        used = "".join(sorted({letter for _, u in operands for letter in u}, reverse=True))
        source = node.inputs[-1].element
        if node.function == "cast":
            found = e.cast(names[0], source, node.element)
        else:
            found = e.expression(node.function, source, names)
        if found is None:
            raise NotForGpu(
                f"`{node.function}` of {source} has no GPU kernel", span=node.span
            )  # fmt: skip
        self.values[node] = self.text.bind("v", found), used

    def _take(self, node: Node) -> None:
        """Rows of a table; an index outside of it gives NaN, or 0 for integers."""
        table, index = node.inputs
        address, inside, used = self._row_by_index(table, index, node)
        mask = f"{inside} & {self.mask(used)}" if self.mask(used) else inside
        other = 'float("nan")' if node.element in e.FLOATS else None
        self.values[node] = self.loaded_from(table, address, mask, other), used

    def _row_by_index(self, table: Node, index: Node, rows: Node) -> tuple[str, str, str]:
        """The addresses in a table of rows by index, and whether the index is inside of it.

        Last, what the addresses depend on.
        """
        rank, shape = len(index.shape), rows.shape
        spread = (*index.shape, *(1,) * (len(shape) - rank))
        strides, start = layout(index)
        view = Node("view", "", (index.base,), spread, index.element, rows.span,
                    strides=(*strides, *(0,) * (len(shape) - rank)), offset=start)  # fmt: skip
        at, used = self.values.get(index) or self.load(view, shape)
        steps, offset = layout(table)
        row_step = self.text.parameter("step", steps[0])
        tail = (*(0,) * rank, *steps[1:])
        inner, more = self._address(rows, shape, placed=(tail, offset))
        size = self.text.parameter("i32", table.shape[0])
        inside = self.text.bind("m", f"({at} >= 0) & ({at} < {size})")
        address = f"{at} * {row_step}" + (f" + {inner}" if inner else "")
        return address, inside, "".join(sorted({*used, *more}, reverse=True))

    def _add_rows(self, node: Node) -> None:
        """Add rows to those of a table, by index; those whose index is outside are left out."""
        _, rows, index = node.inputs
        address, inside, _ = self._row_by_index(node, index, rows)
        # Whole tiles: rows that share an index, or their numbers, are added each.
        where = f"{self.text.pointer(node)} + (tl.zeros({self.tile}, tl.int64) + {address})"
        value = f"tl.zeros({self.tile}, tl.float32) + {self.values[node][0]}"
        mask = f"{inside} & mask"
        self.text.line(f'tl.atomic_add({where}, {value}, mask={mask}, sem="relaxed")')

    def store(self, node: Node, placed: tuple[Node, Shape, int] | None) -> None:
        """Write a value to its own memory, or to its place in another tensor."""
        if node.op == "put":
            self._add_rows(node)
            return
        value, used = self.values[node]
        target = placed[0] if placed else node
        address, covered = self._address(node, node.shape, placed[1:] if placed else None)
        pointer = self.text.pointer(target)
        if used != covered and covered:
            value = self._spread(value, used, covered, node)
        where = f"{pointer} + {address}" if address else pointer
        mask = self.mask(covered)
        masked = f", mask={mask}" if mask else ""
        self.text.line(f"tl.store({where}, {value}.to({e.TYPES[node.element]}){masked})")

    def _spread(self, value: str, used: str, covered: str, node: Node) -> str:
        shape = {"rc": self.tile, "r": "(BR, 1)", "c": "(1, BC)"}[covered]
        if self.flat:
            shape = "(BC,)"
        if not used:
            return f"tl.full({shape}, {value}, {e.computed_in(node.element)})"
        return f"tl.broadcast_to({value}, {shape})"


SPREAD = {"r": "[:, None]", "c": "[None, :]"}
"""How a vector of rows or columns meets the other axis."""


class WindowText:
    """How a window is read. What windows of one tensor share is computed once."""

    def __init__(self, body: Body, node: Node) -> None:
        self.body, self.text, self.node = body, body.text, node
        self.window: Window = node.data
        self.base = node.inputs[0]
        self.scalars: list[str] = []
        self.masks: list[str] = []
        self.far: list[str] = []
        self.near = 0
        self.inside = all(place.size == 0 for place in self.window.places)
        sides = ((body.row, "R", 0, self.window.split),
                 (body.column, "C", self.window.split, None))  # fmt: skip
        self.numbers: list[str | None] = []
        for vector, limit, start, stop in sides:
            if self.inside:
                vector = self._bound(f"tl.minimum({vector}, {limit} - 1)", "inside", vector)
            self.numbers += self._coordinates(vector, self.window.axes[start:stop], start)
        self.terms = {"r": self._plain("r"), "c": self._plain("c")}
        self.tiles: list[str] = []

    def load(self) -> tuple[str, str]:
        """The variable of the numbers, and whether they depend on rows, columns or both."""
        for number, place in enumerate(self.window.places):
            self._place(place, number - len(self.window.places))
        parts = [*self.scalars, *self.tiles]
        for side, spread in SPREAD.items():
            if self.terms[side]:
                parts.append(f"({' + '.join(self.terms[side])}){spread}")
        used = "rc" if self.tiles else "".join(side for side in "rc" if self.terms[side])
        if self.inside:
            return self._load_inside(parts), used
        mask = " & ".join([*filter(None, [self.body.mask(used)]), *self.masks])
        outside = e.identity(self.window.outside, self.node.element)
        return self.body.loaded_from(self.base, " + ".join(parts), mask, outside), used

    def _load_inside(self, parts: list[str]) -> str:
        """Without masks: from an address that windows share, and what is fixed for this one."""
        pointer = " + ".join([self.text.pointer(self.base), *parts])
        keys = [(place.factors, place.step) for place in self.window.places]
        own = self._bound(pointer, "pointer", self.window.strides, self.window.offset, *keys)
        if self.far:
            own = self._bound(f"{own} + ({' + '.join(self.far)})", own, *self.far)
        near = f" + {self.near}" if self.near else ""
        wide = ".to(tl.float32)" if self.node.element in ("f16", "bf16") else ""
        return self.text.bind("v", f"tl.load({own}{near}){wide}")

    def _once(self, key: tuple[Any, ...], make: Callable[[], str]) -> str:
        """A variable or parameter that all windows of this tensor over these axes share."""
        window = self.window
        whole = (self.base, window.axes, window.split, *key)
        if whole not in self.body.loaded:
            self.body.loaded[whole] = make(), ""
        return self.body.loaded[whole][0]

    def _coordinates(self, vector: str, axes: Shape, first: int) -> list[str | None]:
        """The number along each axis; None along axes of size 1."""
        found: list[str | None] = []
        for axis in reversed(range(len(axes))):
            if axes[axis] == 1:
                found.append(None)
                continue
            if math.prod(axes[:axis]) == 1:
                found.append(vector)
                continue
            size = self._parameter("i32", axes[axis], first + axis)
            found.append(self._bound(f"{vector} % {size}", first + axis, "rest"))
            vector = self._bound(f"{vector} // {size}", first + axis, "quotient")
        return found[::-1]

    def _parameter(self, kind: str, value: int, *key: Any) -> str:
        return self._once(("parameter", value, *key), lambda: self.text.parameter(kind, value))

    def _bound(self, text: str, *key: Any) -> str:
        return self._once(("bound", *key), lambda: self.text.bind("r", text))

    def _side(self, axis: int) -> str:
        return "r" if axis < self.window.split else "c"

    def _plain(self, side: str) -> list[str]:
        """The part of the address that no place decides; shared, if there is one."""
        terms: list[str] = []
        for axis, (number, stride) in enumerate(
            zip(self.numbers, self.window.strides, strict=True)
        ):
            if number is not None and stride and self._side(axis) == side:
                terms.append(_times(number, stride, self._parameter, "stride", axis))
        if side == "r" and self.window.offset:
            self.scalars.append(self._parameter("step", self.window.offset, "offset"))
        return [self._bound(" + ".join(terms), "plain", side, self.window.strides)] if terms else []

    def _place(self, place: Place, key: int) -> None:
        """Add a place to the address, and whether it lies inside to the mask."""
        sides: dict[str, list[str]] = {"r": [], "c": []}
        for axis, factor in enumerate(place.factors):
            number = self.numbers[axis]
            if factor and number is not None:
                sides[self._side(axis)].append(number if factor == 1 else f"{number} * {factor}")
        used = [side for side in "rc" if sides[side]]
        own = [" + ".join(sides[side]) for side in used]
        if self.inside:
            self._fixed(place, key)
            for side, text in zip(used, own, strict=True):
                term = _times(f"({text})", place.step, self._parameter, "step", key)
                self.terms[side].append(term)
            return
        if place.by > 1 or place.shift or place.rest:
            own[-1] = f"({own[-1]} + {place.shift}) {'%' if place.rest else '//'} {place.by}"
        if place.start or not own:
            own = own or ["0"]
            own[-1] += f" + {place.start}" if place.start >= 0 else f" - {-place.start}"
        spread = SPREAD[used[0]] if len(used) == 1 else ""
        text = own[0] if len(own) == 1 else f"({own[0]})[:, None] + ({own[1]})[None, :]"
        at = self._bound(text, "at", place, key)
        step = self._parameter("step", place.step, "step", key)
        terms = self.terms[used[0]] if spread else self.tiles if used else self.scalars
        terms.append(f"{at} * {step}")
        if place.size:
            size = self._parameter("i32", place.size, "size", key)
            inside = self._bound(f"({at} >= 0) & ({at} < {size})", "inside", place, key)
            self.masks.append(inside + spread)

    def _fixed(self, place: Place, key: int) -> None:
        """What a place adds that lies inside wherever the window is."""
        if place.start and place.step == 1:
            self.near += place.start
        elif place.start:
            step = self._parameter("step", place.step, "step", key)
            self.far.append(step if place.start == 1 else f"{place.start} * {step}")


def _times(number: str, step: int, parameter: Callable[..., str], *key: Any) -> str:
    """A number of steps: steps of 1 are known, since the numbers lie one after the other."""
    return number if step == 1 else f"{number} * {parameter('step', step, *key)}"
