"""The kernels of products of matrices: tiles of one or more accumulators, and what follows.

Operands come through tensor descriptors where the copy engine can take them (rows of whole 16
bytes), else through pointers with masks.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from tawa.axon.gpu.fusion import Group
from tawa.axon.gpu.kernels import KernelCall, Places, Variant, cdiv
from tawa.axon.gpu.nodes import BYTES, Node, layout
from tawa.axon.gpu.text import Body, Descriptor, KernelText, Parameter

MULTIPROCESSORS = 132
"""Of an H100 SXM."""

L2_BYTES = 4700
SM_BYTES = 64
"""Bytes a clock that the L2 cache gives to all multiprocessors, and at most to one."""

MATRIX_RATE = 2048
"""Multiply-adds of 16-bit numbers a clock, of one multiprocessor."""

ONE_GROUP, TWO_GROUPS = 0.6, 0.85
"""Part of it that tiles of one and of two consumer warp groups reach."""

TILE_CLOCKS = 2000
"""Clocks to fill a tile's pipeline and to begin writing it."""

PIECE = 16
"""Bytes that the copy engine moves at once."""


def _tiles(*blocks: tuple[int, int, dict[str, Any]], depth: int = 64) -> tuple[Variant, ...]:
    return tuple(
        Variant(f"{rows}x{columns}", {"BR": rows, "BC": columns, "BK": depth, "GROUP": 8}, options)
        for rows, columns, options in blocks
    )


PERSISTENT = {"persistent": True, "consumers": 2}
TURNS = {"persistent": True, "ping_pong": True, "num_stages": 4, "staging": 2}
SHORT_K = 2048
"""Up to this K, consumers take turns on tiles: what follows the products then is not waited for."""

HALF_TILES = {
    1: _tiles((128, 256, PERSISTENT), (128, 128, {}), (64, 64, {})),
    2: _tiles((128, 128, PERSISTENT), (128, 64, {}), (64, 32, {})),
    3: _tiles((128, 64, PERSISTENT), (64, 64, {}), (64, 32, {})),
    4: _tiles((128, 64, PERSISTENT), (64, 64, {}), (64, 32, {}), (64, 16, {})),
}
"""Tiles of 16-bit products by number of accumulators, largest first."""

TURNS_TILE = _tiles((128, 160, TURNS))
"""For short loops. What follows the products must not read whole tiles: registers are few."""

FULL_TILES = {
    1: _tiles((128, 128, {}), (64, 64, {}), depth=32),
    2: _tiles((128, 64, {}), (64, 32, {}), depth=32),
    3: _tiles((64, 32, {}), depth=32),
    4: _tiles((64, 32, {}), depth=32),
}
POINTER_TILES = {
    count: _tiles((64, 64 if count < 3 else 32, {}), depth=32) for count in range(1, 5)
}


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

    def _by_descriptor(self, operand: Node) -> bool:
        strides, offset = layout(operand)
        size = BYTES[operand.element]
        inner = [axis for axis in (-1, -2) if strides[axis] == 1]
        if not inner or not self.aligned.get(operand.base, True):
            return False
        steps = [s for axis, s in enumerate(strides) if axis != len(strides) + inner[0]]
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
        constants = ("BR", "BC", "BK", "GROUP")
        variants = self._variants()
        chosen = self._chosen(variants)
        grid = (self._programs(variants[chosen]), *([self.count] if self.count else []))
        return KernelCall(
            self.group, text.source("NAME", constants), text.parameters, variants, chosen, grid
        )

    def _variants(self) -> tuple[Variant, ...]:
        count = len(self.products)
        if not self.descriptors:
            return POINTER_TILES[count]
        if self.products[0].element == "f32":
            return FULL_TILES[count]
        turns = TURNS_TILE if count == 1 and not self._reads_tiles() else ()
        return (*turns, *HALF_TILES[count])

    def _reads_tiles(self) -> bool:
        """Whether what follows the products reads other tensors of their size."""
        members = self.group.members
        return any(
            operand.base not in members and operand.size == self.products[0].size
            for node in members if node.op != "dot" for operand in node.inputs
        )  # fmt: skip

    def _programs(self, variant: Variant) -> int:
        sizes = variant.constants
        return cdiv(self.m, sizes["BR"]) * cdiv(self.n, sizes["BC"])

    def _chosen(self, variants: tuple[Variant, ...]) -> int:
        """The variant with the least estimated time."""
        if self.simulated:
            return len(variants) - 1
        loops = self._loops()
        if sum(loop.k for loop in loops) > SHORT_K:
            costs = [self._clocks(v, loops) if v not in TURNS_TILE else inf for v in variants]
        else:
            costs = [self._clocks(v, loops) for v in variants]
        return costs.index(min(costs))

    def _clocks(self, variant: Variant, loops: list[_Loop]) -> float:
        """Estimated clocks of a launch: matrix instructions or loads, whichever take longer."""
        rows, columns, depth = (variant.constants[name] for name in ("BR", "BC", "BK"))
        tiles = self._programs(variant) * max(1, self.count)
        bandwidth = min(SM_BYTES, L2_BYTES / min(tiles, MULTIPROCESSORS))
        size = BYTES[self.products[0].element]
        rate = MATRIX_RATE * (ONE_GROUP if rows <= 64 else TWO_GROUPS) * 2 / size
        clocks = 0.0
        for loop in loops:
            left = len({a for a, _, _ in loop.pairs}) * rows
            right = len({b for _, b, _ in loop.pairs}) * columns
            loads = (left + right) * depth * size / bandwidth
            products = len(loop.pairs) * rows * columns * depth / rate
            clocks += cdiv(loop.k, depth) * max(loads, products)
        written = len(self.group.outputs) * rows * columns * size / SM_BYTES
        around = TILE_CLOCKS + written
        if variant.options.get("ping_pong"):
            around /= 2
        return cdiv(tiles, MULTIPROCESSORS) * (clocks + around)

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
        for node in self.group.members:
            if node.op != "dot":
                body.compute(node)
        for node in self.group.outputs:
            self._store(body, node)

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
