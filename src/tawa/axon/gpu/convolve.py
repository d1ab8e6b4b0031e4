"""The kernels of convolutions: the library's sums of a tile, and what follows them pointwise.

Images are [n, h, w, c] and filters [k, r, s, c / groups], as the library's; the tile that its model
expects to be fastest is taken, and the kernel's text asks for the sums of that tile. What follows
is computed where the sums are.
"""

from __future__ import annotations

from typing import Any

from tawa.axon.gpu.graph.fusion import Group
from tawa.axon.gpu.graph.nodes import BYTES, Node, Shape, layout
from tawa.axon.gpu.kernels import KernelCall, Places, Variant
from tawa.axon.gpu.text import Body, Descriptor, KernelText
from tawa.base.indices import contiguous_strides
from tawa.kernels.convolution.kernels import conv_taps
from tawa.kernels.convolution.plans import Tiling, ranked
from tawa.kernels.convolution.shapes import Convolution
from tawa.machine.chips import SM_90A

PIECE = SM_90A.copy_unit
"""Bytes that the copy engine moves at once."""
SIZE = 2
"""Bytes of an element of images and filters."""
UNIT = PIECE // SIZE
"""Such elements that the copy engine moves at once."""
MOST_TAPS = 128
"""Taps of a filter whose loop is worth a kernel of its own for each size."""
TILE = "TN", "TH", "TW", "BN"
"""A tile of results: images, rows, columns and filters."""
FIXED = (
    "C", "K", "R", "S", "STRIDE_H", "STRIDE_W", "DILATION_H", "DILATION_W", "PAD_H", "PAD_W",
    "GROUPS",
)  # fmt: skip
"""What a kernel is compiled for besides its tile."""
PLACE = """\
inside = tl.arange(0, TN * TH * TW)
image = n + inside // (TH * TW)
p = row + inside // TW % TH
q = column + inside % TW
rows = (image * {P} + p) * {Q} + q
cols = off_n + tl.arange(0, BN)
rmask = (image < {N}) & (p < {P}) & (q < {Q})
cmask = cols < K
mask = rmask[:, None] & cmask[None, :]"""
"""The rows and columns of a tile's results, and which of them there are."""


def suits(conv: Convolution, element: str) -> bool:
    """Whether the library's tiles compute a convolution: 16-bit types, channels by 16 bytes."""
    whole = (conv.c // conv.groups) % UNIT == 0 and conv.k % UNIT == 0
    if element not in ("f16", "bf16") or not whole or conv.taps > MOST_TAPS:
        return False
    return bool(_tilings(conv, SIZE))


def _tilings(conv: Convolution, result: int) -> list[Tiling]:
    """Those that compute one tile a program, the fastest first."""
    found = ranked(conv, conv_taps.chip, SIZE, result)
    return [t for t in found if not t.keeps and t.alone]


def described(node: Node) -> bool:
    """Whether the copy engine can read blocks of a tensor whose last axis is the channels'."""
    strides, offset = layout(node)
    base, unit = node.base, PIECE // BYTES[node.element]
    if base.op == "input" and not base.data:
        return False  # it begins inside of 16 bytes
    steps = [s for s, size in zip(strides[:-1], node.shape[:-1], strict=True) if size > 1]
    aligned = all(s > 0 and s % unit == 0 for s in (*steps, offset or unit))
    return strides[-1] == 1 and aligned


def dense(node: Node) -> bool:
    """Whether a tensor's numbers lie one after the other, from whole 16 bytes on."""
    strides, _ = layout(node)
    plain = zip(node.shape, strides, contiguous_strides(node.shape), strict=True)
    return all(size == 1 or a == b for size, a, b in plain) and described(node)


def steps(shape: Shape, strides: Shape) -> Shape:
    """From image to image, row to row and pixel to pixel; any where there is one."""
    found = zip(shape[:-1], strides[:-1], strict=True)
    return tuple(step if size > 1 else max(UNIT, step // UNIT * UNIT) for size, step in found)


def _name(tiling: Tiling) -> str:
    """What plans call a tile."""
    pixels = f"{tiling.images}x{tiling.rows}x{tiling.columns}"
    return (
        f"{tiling.kernel} of {pixels} pixels, {tiling.filters} filters, {tiling.channels} channels"
    )


def convolution_kernel(group: Group, places: Places) -> KernelCall:
    """A convolution and what follows it."""
    return _Writer(group, places).write()


class _Writer:
    def __init__(self, group: Group, places: Places) -> None:
        self.group, self.places = group, places
        self.node = next(node for node in group.members if node.op == "conv")
        self.conv: Convolution = self.node.data
        self.shape = self.node.shape
        self.text = KernelText()
        self.staged = [read for read in self._whole_tiles() if self._by_blocks(*read)]
        stored = next(iter(group.outputs), self.node)
        each = BYTES[stored.element] + sum(BYTES[node.element] for node, _ in self.staged)
        self.tiling = _tilings(self.conv, each)[0]

    def write(self) -> KernelCall:
        conv, tiling, text = self.conv, self.tiling, self.text
        count = {n: text.parameter("i32", getattr(conv, n.lower())) for n in "NHWPQ"}
        constants = self._constants()
        self._sums(count, constants)
        for line in PLACE.format(**count).splitlines():
            text.line(line)
        self._epilogue()
        programs = tiling.tiles(conv)
        options = dict(tiling.options)
        if programs > SM_90A.multiprocessors:
            options["persistent"] = True
        variant = Variant(_name(tiling), constants, options)
        source = text.source("NAME", tuple(constants))
        return KernelCall(self.group, source, text.parameters, (variant,), 0, (programs,))

    def _constants(self) -> dict[str, Any]:
        conv, tiling = self.conv, self.tiling
        (top, _), (left, _) = conv.pad
        fixed = (
            conv.c, conv.k, conv.r, conv.s, *conv.stride, *conv.dilation, top, left, conv.groups
        )  # fmt: skip
        found: dict[str, Any] = dict(zip(FIXED, fixed, strict=True))
        found |= {"TN": tiling.images, "TH": tiling.rows, "TW": tiling.columns}
        if tiling.kernel == "windows":
            found["WH"], found["WW"] = tiling.window(conv)
        return {**found, "BN": tiling.filters, "BK": tiling.channels}

    def _sums(self, count: dict[str, str], constants: dict[str, Any]) -> None:
        """Text that computes a tile's sums, and where its first result is."""
        x, w = self.node.inputs
        strides, offset = layout(x)
        pixels, filters = (self.text.pointer(node.base) for node in (x, w))
        if offset:
            pixels += f" + {self.text.parameter('step', offset)}"
        apart = ", ".join(self.text.parameter("step", step) for step in steps(x.shape, strides))
        tile = ", ".join(n for n in constants if n not in FIXED)
        sizes = ", ".join([*count.values(), "1", "1"])
        fixed = ", ".join((*FIXED[:-1], "None", FIXED[-1], "C // GROUPS"))
        self.text.line(
            f"acc, n, row, column, off_n = sums_of_{self.tiling.kernel}({pixels}, {filters}, "
            f"({sizes}), ({apart}), {fixed}, {tile})"
        )

    def _whole_tiles(self) -> list[tuple[Node, Shape]]:
        """Other tensors of the results' size that what follows the sums reads."""
        maps = (node for node in self.group.members if node.op == "map")
        found = {
            (operand, node.shape): None
            for node in maps
            for operand in node.inputs
            if node.shape == operand.shape == self.shape and operand.base not in self.group.members
        }
        return list(found)

    def _by_blocks(self, operand: Node, shape: Shape) -> bool:
        """Whether the copy engine reads tiles of a tensor."""
        del shape
        kept = operand.base.op not in ("constant", "join") and BYTES[operand.element] == SIZE
        return kept and described(operand)

    def _described(self, node: Node, strides: Shape, offset: int) -> str:
        return self.text.parameter(
            "descriptor", Descriptor(node, self.shape, strides, offset, TILE)
        )

    def _epilogue(self) -> None:
        """What follows the sums, and what of it is stored."""
        text, body = self.text, Body(self.text, self.conv.k, tile="(TN * TH * TW, BN)")
        body.values[self.node] = "acc", "rc"
        for operand, shape in self.staged:
            name = self._described(operand.base, *layout(operand))
            loaded = f"{name}.load([n, row, column, off_n]).reshape([TN * TH * TW, BN])"
            body.loaded[operand, shape] = text.bind("w", f"{loaded}.to(tl.float32)"), "rc"
        for node in self.group.members:
            if node is not self.node:
                body.compute(node)
        for number, node in enumerate(self.group.outputs):
            value, used = body.values[node]
            blocks = node.element in ("f16", "bf16", "f32") and used == "rc"
            if number or node in self.places or not blocks:
                body.store(node, self.places.get(node))
                continue
            name = self._described(node, contiguous_strides(self.shape), 0)
            tile = f"[{', '.join(TILE)}]"
            stored = f"{value}.to({name}.dtype).reshape({tile})"
            text.line(f"{name}.store([n, row, column, off_n], {stored})")
