"""The kernels of the derivatives of convolutions: the library's, launched on nodes of a graph.

Images are [n, h, w, c], results and their derivatives [n, p, q, k], filters [k, r, s, c / groups].
"""

from __future__ import annotations

import math
from typing import Any

from tawa.axon.gpu.convolve import UNIT, steps
from tawa.axon.gpu.graph.fusion import Group
from tawa.axon.gpu.graph.nodes import Node, layout
from tawa.axon.gpu.kernels import KernelCall, Variant, cdiv
from tawa.axon.gpu.text import Parameter
from tawa.driver.jit import Kernel
from tawa.kernels import conv_planes
from tawa.kernels.conv_arguments import Finish
from tawa.kernels.conv_gradients import ADDED_COLUMNS, ADDED_ROWS
from tawa.kernels.convolution.filter_gradients import conv_weights, conv_weights_of_rows
from tawa.kernels.convolution.gradient_plans import Sharing, sharing
from tawa.kernels.convolution.plans import Tiling
from tawa.kernels.convolution.shapes import Convolution
from tawa.kernels.gemm_kernels import add_parts

NOTHING = "none", None
"""A parameter that stays None."""

Given = dict[str, tuple[str, Any]]
"""Kind and value of each parameter, by name."""


def slopes_call(group: Group) -> KernelCall:
    """The launch of a step of a convolution's derivatives."""
    node = next(iter(group.members))
    steps = {"image": _planes, "filters": _filters, "added": _added}
    return steps[node.function](group, node)


def planes_of(conv: Convolution) -> Tiling | None:
    """The tile of the kernel that turns back a convolution with a stride; None if none does."""
    if not conv_planes.suits(conv, Finish()) or conv.c // conv.groups % UNIT or conv.k % UNIT:
        return None
    return next(iter(conv_planes.ordered(conv, conv_planes.conv_planes.chip, 2, 2)), None)


def sharing_of(conv: Convolution) -> Sharing | None:
    """How programs share the work for the derivative by filters; None if none does it."""
    if conv.depthwise or conv.k // conv.groups % UNIT:
        return None
    return sharing(conv, conv_weights.chip, 2)


def _call(
    group: Group, kernel: Kernel, given: Given, constants: dict[str, Any], grid: tuple[int, ...],
    **options: Any,
) -> KernelCall:  # fmt: skip
    parameters = [Parameter(p.name, *given[p.name]) for p in kernel.parameters if p.name in given]
    tile = " ".join(f"{n} {constants[n]}" for n in ("TH", "TW", "BM", "BN") if n in constants)
    variant = Variant(f"{kernel.fn.__name__}, {tile}", constants, options)
    return KernelCall(group, kernel, parameters, (variant,), 0, grid)


def _image(node: Node) -> tuple[Any, ...]:
    """A pointer to images, and steps from image to image, row to row and pixel to pixel."""
    strides, offset = layout(node)
    assert not offset, "images begin where their memory does"
    return ("pointer", node.base), *(("step", step) for step in steps(node.shape, strides))


def _shared(conv: Convolution) -> dict[str, Any]:
    """Constants that all of the library's kernels of two dimensions have."""
    (top, _), (left, _) = conv.pad
    return {
        "R": conv.r, "S": conv.s, "STRIDE_H": conv.stride[0], "STRIDE_W": conv.stride[1],
        "DILATION_H": conv.dilation[0], "DILATION_W": conv.dilation[1], "PAD_H": top,
        "PAD_W": left, "GROUPS": conv.groups,
    }  # fmt: skip


def _planes(group: Group, node: Node) -> KernelCall:
    """All rows and columns of the derivative by images, of a convolution with a stride."""
    by, filters = node.inputs
    conv, tiling = node.data
    kernel = conv_planes.conv_planes
    names = "x", "x_n", "x_h", "x_w", "y", "y_n", "y_h", "y_w"
    given: Given = dict(zip(names, (*_image(by), *_image(node)), strict=True))
    sizes = {"N": conv.n, "H": conv.p, "W": conv.q, "P": conv.h, "Q": conv.w}
    given |= {name: ("i32", size) for name, size in sizes.items()}
    given |= {"w": ("pointer", filters.base), **dict.fromkeys(("scale", "bias"), NOTHING)}
    tile = {"TN": tiling.images, "TH": tiling.rows, "TW": tiling.columns, "BN": tiling.filters}
    constants = {"C": conv.k, "K": conv.c, "ACTIVATION": None, "BK": tiling.channels, **tile}
    options = dict(tiling.options or conv_planes.OPTIONS)
    grid = (conv_planes.programs(conv, tiling),)
    return _call(group, kernel, given, {**_shared(conv), **constants}, grid, **options)


def _filters(group: Group, node: Node) -> KernelCall:
    """What each share of the pixels adds up: [shares, filters, taps, channels of a group]."""
    by, x = node.inputs
    conv, way = node.data
    names = "x", "x_n", "x_h", "x_w", "dy", "y_n", "y_h", "y_w"
    given: Given = dict(zip(names, (*_image(x), *_image(by)), strict=True))
    sizes = {
        "N": conv.n, "H": conv.h, "W": conv.w, "P": conv.p, "Q": conv.q, "D": 1, "DO": 1,
        "SHARES": way.shares,
    }  # fmt: skip
    given |= {name: ("i32", size) for name, size in sizes.items()}
    given |= {"parts": ("pointer", node), "C": ("step", conv.c), "K": ("step", conv.k)}
    own, ours = conv.c // conv.groups, conv.k // conv.groups
    images, rows, columns = way.tile
    tile = {"TH": rows, "TW": columns, "BM": way.filters, "BN": way.channels}
    tile |= {"TAPS": way.taps} if way.windows else {"TN": images}
    groups = {"OURS": ours, "OWN": own, "OURS_PITCH": ours, "OWN_PITCH": own, "DEPTH": None}
    kernel = conv_weights_of_rows if way.windows else conv_weights
    grid = way.blocks(conv), way.shares
    return _call(group, kernel, given, {**_shared(conv), **groups, **tile}, grid)


def _added(group: Group, node: Node) -> KernelCall:
    """The sum of the shares, in their order."""
    (parts,) = node.inputs
    shares, filters, *rest = parts.shape
    width = math.prod(rest)
    given: Given = {
        "parts": ("pointer", parts.base), "out": ("pointer", node), "M": ("i32", filters),
        "N": ("step", width), "pitch": ("step", width), "batch_stride": ("i32", 0),
        "row_stride": ("step", width), "column_stride": ("i32", 1),
        **dict.fromkeys(("alpha", "beta", "bias", "bias_stride"), NOTHING),
    }  # fmt: skip
    constants = {"SPLIT": shares, "ROWS": ADDED_ROWS, "COLUMNS": ADDED_COLUMNS}
    constants["BIAS_OF_ROWS"] = False
    grid = cdiv(width, ADDED_COLUMNS), cdiv(filters, ADDED_ROWS)
    return _call(group, add_parts, given, constants, grid)
