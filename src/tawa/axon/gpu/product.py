"""The kernels of products of matrices: tiles of one or more accumulators, and what follows.

Operands come through tensor descriptors where the copy engine can take them (rows of whole 16
bytes), else through pointers with masks.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.axon.gpu.graph.fusion import Group
from tawa.axon.gpu.graph.nodes import BYTES, Node, Shape, broadcast_strides, layout
from tawa.axon.gpu.kernels import KernelCall, Places, Variant
from tawa.axon.gpu.text import (
    Body,
    Descriptor,
    KernelText,
    Parameter,
    merged_axes,
)
from tawa.axon.gpu.tiles import (
    FULL_TILES,
    HALF_TILES,
    POINTER_TILES,
    READING_TILES,
    WRITING_TILES,
    Loop,
    Work,
)
from tawa.machine.chips import SM_90A

PIECE = SM_90A.copy_unit
"""Bytes that the copy engine moves at once."""


@dataclass
class _Loop:
    """One loop over K: which operands it multiplies into which accumulators."""

    k: int
    pairs: list[tuple[Node, Node, int]]


def product_kernel(
    group: Group, places: Places, aligned: dict[Node, bool], simulated: bool = False
) -> KernelCall:
    """Products and what follows them. `aligned` says which arguments start at whole 16 bytes.

    In the simulator, which has no tile to prefer, the smallest is taken.
    """
    return _ProductWriter(group, places, aligned, simulated).write()


class _ProductWriter:
    def __init__(
        self, group: Group, places: Places, aligned: dict[Node, bool], simulated: bool
    ) -> None:
        self.group, self.places, self.aligned = group, places, aligned
        self.simulated = simulated
        self.products = group.products
        first = self.products[0]
        self.count = first.axis
        self.m = first.size // first.shape[-1] // max(1, self.count)
        self.n = first.shape[-1]
        self.text = KernelText()
        operands = {operand for product in self.products for operand in product.inputs}
        self.descriptors = all(self._by_descriptor(operand) for operand in operands)
        self.tiles_read = {read: self._staged(*read) for read in self._whole_tiles()}

    def _by_descriptor(self, operand: Node) -> bool:
        strides, offset = layout(operand)
        size = BYTES[operand.element]
        inner = [axis for axis in (-1, -2) if strides[axis] == 1]
        if not inner or not self.aligned.get(operand.base, True):
            return False
        steps = [s for axis, s in enumerate(strides) if axis != len(strides) + inner[0]]
        if len(steps) > 1 and steps[0] == 0:  # one matrix for the whole stack
            steps = steps[1:]
        return all(s * size % PIECE == 0 and s > 0 for s in steps) and offset * size % PIECE == 0

    def write(self) -> KernelCall:
        text = self.text
        text.parameters.append(Parameter("M", "i32", self.m))
        text.parameters.append(Parameter("N", "step", self.n))
        self._place()
        for number in range(len(self.products)):
            text.line(f"acc{number} = tl.zeros((BR, BC), dtype=tl.float32)")
        for loop in self._loops():
            self._loop(loop)
        self._epilogue()
        constants = ("BR", "BC", "BK", "GROUP", "STAGED")
        variants, work = self._variants(), self._work()
        chosen = len(variants) - 1 if self.simulated else work.best(variants)
        grid = (work.programs(variants[chosen]), *([self.count] if self.count else []))
        return KernelCall(
            self.group, text.source("NAME", constants), text.parameters, variants, chosen, grid
        )

    def _variants(self) -> tuple[Variant, ...]:
        count = len(self.products)
        if not self.descriptors:
            return POINTER_TILES[count]
        if self.products[0].element == "f32":
            return FULL_TILES[count]
        if self.tiles_read:
            return READING_TILES[count]
        return (WRITING_TILES if len(self.group.outputs) > 1 else HALF_TILES)[count]

    def _whole_tiles(self) -> list[tuple[Node, Shape]]:
        """Other tensors of the products' size that what follows them reads, with the shape read.

        A vector that is added to a single row is none: more rows would share it.
        """
        members, size = self.group.members, self.products[0].size
        found: dict[tuple[Node, Shape], None] = {}
        for node in (node for node in members if node.op == "map"):
            for operand in node.inputs:
                strides, _ = broadcast_strides(operand, node.shape)
                whole = operand.size == size and any(strides[:-1]) and strides[-1]
                if whole and operand.base not in members:
                    found[operand, node.shape] = None
        return list(found)

    def _staged(self, operand: Node, shape: Shape) -> Descriptor | None:
        """How the copy engine can take a whole tile of a tensor, if it can."""
        strides, offset = broadcast_strides(operand, shape)
        size = BYTES[operand.element]
        axes = merged_axes(shape[:-1], strides[:-1])
        kept = operand.base.op not in ("constant", "join") and self.descriptors and not self.count
        if not kept or size != 2 or not self.aligned.get(operand.base, True):
            return None
        if len(axes) != 1 or strides[-1] != 1 or axes[0][0] * shape[-1] != operand.size:
            return None
        step = axes[0][1]
        if step * size % PIECE or offset * size % PIECE or shape[-1] * size % PIECE:
            return None
        return Descriptor(operand.base, (self.m, self.n), (step, 1), offset, ("BR", "BC"))

    def _work(self) -> Work:
        loops = tuple(
            Loop(
                loop.k, len(loop.pairs),
                len({a for a, _, _ in loop.pairs}), len({b for _, b, _ in loop.pairs}),
            )
            for loop in self._loops()
        )  # fmt: skip
        staged = sum(descriptor is not None for descriptor in self.tiles_read.values())
        return Work(
            self.m, self.n, self.count, len(self.products), BYTES[self.products[0].element],
            loops, len(self.tiles_read), staged, len(self.group.outputs),
        )  # fmt: skip

    def _place(self) -> None:
        for line in (
            "pid = tl.program_id(0)",
            "num_m = tl.cdiv(M, BR)",
            "num_n = tl.cdiv(N, BC)",
            "width = GROUP * num_n",
            "first_m = pid // width * GROUP",
            "group_m = min(num_m - first_m, GROUP)",
            "off_m = (first_m + (pid % width) % group_m) * BR",
            "off_n = (pid % width) // group_m * BC",
        ):
            self.text.line(line)
        if self.count:
            self.text.line("batch = tl.program_id(1)")

    def _loops(self) -> list[_Loop]:
        loops: dict[int, _Loop] = {}
        for number, product in enumerate(self.products):
            pairs = list(zip(product.inputs[::2], product.inputs[1::2], strict=True))
            keys = product.data or range(len(pairs))
            for key, (a, b) in zip(keys, pairs, strict=True):
                loops.setdefault(key, _Loop(a.shape[-1], [])).pairs.append((a, b, number))
        return list(loops.values())

    def _loop(self, loop: _Loop) -> None:
        text = self.text
        depth = text.parameter("i32", loop.k)
        loaders: dict[Node, str] = {}
        for a, b, _ in loop.pairs:
            for operand, sides in ((a, ("m", "k")), (b, ("k", "n"))):
                if operand not in loaders:
                    loaders[operand] = self._loader(operand, sides, depth)
        text.line(f"for step in range(0, tl.cdiv({depth}, BK)):")
        text.indent += 1
        text.line("off_k = step * BK")
        names = {operand: text.bind("t", loader) for operand, loader in loaders.items()}
        for a, b, number in loop.pairs:
            text.line(f"acc{number} = tl.dot({names[a]}, {names[b]}, acc{number})")
        text.indent -= 1

    def _loader(self, operand: Node, sides: tuple[str, str], depth: str) -> str:
        """Text that loads a tile of an operand at `off_k`."""
        blocks = {"m": "BR", "n": "BC", "k": "BK"}
        if not self.descriptors:
            return self._pointer_loader(operand, sides, depth)
        strides, offset = layout(operand)
        shape = operand.shape
        if len(shape) > 2 and strides[0] == 0:
            shape, strides = shape[1:], strides[1:]
        turned = strides[-1] != 1
        if turned:
            sides = (sides[1], sides[0])
            shape, strides = (_swapped(shape), _swapped(strides))
        lead = len(shape) - 2
        block = (*(1,) * lead, *(blocks[side] for side in sides))
        name = self.text.parameter(
            "descriptor", Descriptor(operand.base, shape, strides, offset, block)
        )
        place = ", ".join([*["batch"] * lead, *(f"off_{side}" for side in sides)])
        found = f"{name}.load([{place}])"
        if lead:
            found += f".reshape({blocks[sides[0]]}, {blocks[sides[1]]})"
        return found + (".T" if turned else "")

    def _pointer_loader(self, operand: Node, sides: tuple[str, str], depth: str) -> str:
        text = self.text
        strides, offset = layout(operand)
        blocks = {"m": "BR", "n": "BC", "k": "BK"}
        limits = {"m": "M", "n": "N", "k": depth}
        address = [text.pointer(operand.base), text.parameter("step", offset)]
        if len(strides) > 2:
            address.append(f"batch * {text.parameter('step', strides[0])}")
        masks: list[str] = []
        for side, stride, spread in zip(
            sides, strides[-2:], ("[:, None]", "[None, :]"), strict=True
        ):
            places = f"(off_{side} + tl.arange(0, {blocks[side]})){spread}"
            step = "" if stride == 1 else f" * {text.parameter('step', stride)}"
            address.append(places + step)
            masks.append(f"({places} < {limits[side]})")
        return f"tl.load({' + '.join(address)}, mask={' & '.join(masks)}, other=0.0)"

    def _epilogue(self) -> None:
        text = self.text
        body = Body(text, self.n)
        for number, product in enumerate(self.products):
            body.values[product] = f"acc{number}", "rc"
        text.line("local = off_m + tl.arange(0, BR)")
        text.line("rows = batch * M + local" if self.count else "rows = local")
        text.line("cols = off_n + tl.arange(0, BC)")
        text.line("rmask = local < M")
        text.line("cmask = cols < N")
        text.line("mask = rmask[:, None] & cmask[None, :]")
        for (operand, shape), descriptor in self.tiles_read.items():
            if descriptor is not None:
                self._read_staged(body, operand, shape, descriptor)
        for node in self.group.members:
            if node.op != "dot":
                body.compute(node)
        for node in self.group.outputs:
            self._store(body, node)

    def _read_staged(self, body: Body, operand: Node, shape: Shape, tile: Descriptor) -> None:
        """Read a whole tile by the copy engine where there is room for it, else by pointers."""
        text, value = self.text, self.text.name("w")
        name = text.parameter("descriptor", tile)
        text.line("if STAGED:")
        text.indent += 1
        text.line(f"{value} = {name}.load([off_m, off_n]).to(tl.float32)")
        text.indent -= 1
        text.line("else:")
        text.indent += 1
        loaded, used = body.load(operand, shape)
        text.line(f"{value} = {loaded}")
        text.indent -= 1
        body.loaded[operand, shape] = value, used

    def _store(self, body: Body, node: Node) -> None:
        """Through a descriptor where rows are whole pieces, else with a mask."""
        size = BYTES[node.element]
        whole = self.n * size % PIECE == 0 and node.element in ("f16", "bf16", "f32")
        if node in self.places or not self.descriptors or not whole or self.count:
            body.store(node, self.places.get(node))
            return
        shape, strides, block = (self.m, self.n), (self.n, 1), ("BR", "BC")
        name = self.text.parameter("descriptor", Descriptor(node, shape, strides, 0, block))
        value, _ = body.values[node]
        self.text.line(f"{name}.store([off_m, off_n], {value}.to({name}.dtype))")


def _swapped(items: tuple[int, ...]) -> tuple[int, ...]:
    return (*items[:-2], items[-1], items[-2])
