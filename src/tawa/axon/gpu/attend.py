"""The kernels of attention and of its derivatives: the library's, launched on nodes of a graph.

Queries, keys and values are [batch, heads, rows, d] in any order of the first three axes, so that
heads need not be copied out of a projection, nor back into one.
"""

from __future__ import annotations

from typing import Any

from tawa.axon.gpu.graph.fusion import Group
from tawa.axon.gpu.graph.nodes import BYTES, Node, contiguous, layout
from tawa.axon.gpu.kernels import KernelCall, Places, Variant, cdiv
from tawa.axon.gpu.text import Descriptor, Parameter
from tawa.driver.jit import Kernel
from tawa.kernels.attention import Configuration, configuration
from tawa.kernels.attention_arguments import MOST_CAPTURED, padded
from tawa.kernels.attention_gradients import WIDE, gradient_of_keys, gradient_of_queries
from tawa.kernels.attention_kernel import LOG2_E, attention_forward
from tawa.machine.chips import SM_90A

SMALL = Configuration(64, 128)
"""Fewer rows a tile, where larger ones leave multiprocessors idle."""

NOTHING = ("q_scale", "k_scale", "v_scale", "prescale", "cap", "left", "splits")
"""Parameters of the kernel that stay None."""

Given = dict[str, tuple[str, Any]]
"""Kind and value of each parameter, by name."""


def attention_call(group: Group, places: Places) -> KernelCall:
    """The launch of attention, or of its derivative by queries or by keys and values."""
    node = next(iter(group.members))
    if node.op == "attention":
        return _forward(group, node)
    if node.function == "queries":
        return _slope_of_queries(group, node, places)
    return _slope_of_keys(group, node, places)


def _also(group: Group, function: str) -> Node | None:
    """Another result of the kernel, if it is wanted."""
    return next((n for n in group.members if (n.op, n.function) == ("also", function)), None)


def _in_order(kernel: Kernel, given: Given) -> list[Parameter]:
    return [Parameter(p.name, *given[p.name]) for p in kernel.parameters if p.name in given]


def _pointer(node: Node | None) -> tuple[str, Any]:
    return ("none", None) if node is None else ("pointer", node.base)


# Forwards.


def _forward(group: Group, node: Node) -> KernelCall:
    """The launch of an attention node; other kernels may want the logarithms of rows' sums."""
    q, k, v = node.inputs
    batch, heads, rows, d = q.shape
    causal = node.function == "causal"
    size = BYTES[q.element]
    widths = padded(d, size), padded(v.shape[-1], size)
    # One kernel for all sizes, so of those that suit few tiles, too.
    large = configuration(max(widths), size, masked=causal, tiles=0)
    tiles = (large, SMALL)
    variants = tuple(_variant(tile, widths, end) for tile in tiles for end in (False, True))
    small = cdiv(rows, large.block_m) * heads * batch < SM_90A.multiprocessors
    tile = tiles[small]
    chosen = 2 * small + (k.shape[2] % tile.block_n != 0)
    grid = (cdiv(rows, tile.block_m), heads, batch)
    parameters = _parameters(node, causal, _also(group, "sums"))
    return KernelCall(group, attention_forward, parameters, variants, chosen, grid)


def _variant(tile: Configuration, widths: tuple[int, int], end: bool) -> Variant:
    """A tile; `end` says that it does not divide the number of keys."""
    d, dv = widths
    name = f"{tile.block_m}x{tile.block_n}, d {d}" + ("" if end else ", whole blocks of keys")
    constants = {
        "D": d, "DV": dv, "BLOCK_M": tile.block_m, "BLOCK_N": tile.block_n, "MASK_END": end,
        "SCORE_MOD": None, "CAPTURED": 0, "NARROW": False,
    }  # fmt: skip
    return Variant(name, constants, tile.options)


def _parameters(node: Node, causal: bool, sums: Node | None) -> list[Parameter]:
    """What the kernel takes, in its order."""
    q, k, v = node.inputs
    given: Given = {
        "q_desc": ("descriptor", _described(q, (1, 1, "BLOCK_M", "D"))),
        "k_desc": ("descriptor", _described(k, (1, 1, "BLOCK_N", "D"))),
        "v_desc": ("descriptor", _described(v, (1, 1, "BLOCK_N", "DV"))),
        "o_desc": ("descriptor", _by_heads(node, (1, 1, "BLOCK_M", "DV"), {})),
        "lse": _pointer(sums),
        "multiplier": ("f32", q.shape[-1] ** -0.5 * LOG2_E),
        "QUERIES": ("i32", q.shape[2]),
        "KEYS": ("i32", k.shape[2]),
        "GROUP": ("i32", 1),
        "offset": ("i32", 0),
        "right": ("i32", 0) if causal else ("none", None),
        **{f"captured{number}": ("none", None) for number in range(MOST_CAPTURED)},
        **dict.fromkeys(NOTHING, ("none", None)),
    }
    return _in_order(attention_forward, given)


def _described(node: Node, block: tuple[int | str, ...]) -> Descriptor:
    strides, offset = layout(node)
    return Descriptor(node.base, node.shape, strides, offset, block)


def _by_heads(node: Node, block: tuple[int | str, ...], places: Places) -> Descriptor:
    """A result, which lies as [batch, rows, heads, d], as [batch, heads, rows, d]."""
    order = (0, 2, 1, 3)
    target, strides, offset = places.get(node, (node, contiguous(node.shape), 0))
    shape = tuple(node.shape[axis] for axis in order)
    turned = tuple(strides[axis] for axis in order)
    return Descriptor(target, shape, turned, offset, block)


# Backwards.


def _slope_of_queries(group: Group, node: Node, places: Places) -> KernelCall:
    q, k, v, by, *_ = node.inputs
    given = {
        **_shared(node),
        "q": ("descriptor", _described(q, (1, 1, "BLOCK_M", "D"))),
        "k": ("descriptor", _described(k, (1, 1, "BLOCK_N", "D"))),
        "v": ("descriptor", _described(v, (1, 1, "BLOCK_N", "DV"))),
        "do": ("descriptor", _described(by, (1, 1, "BLOCK_M", "DV"))),
        "dq": ("descriptor", _by_heads(node, (1, 1, "BLOCK_M", "D"), places)),
        "size": ("i32", k.shape[2]),
    }
    d, dv = _widths(node)
    m, n = (128, 64) if max(d, dv) <= WIDE else (64, 64)
    variant = _slope_variant(m, n, (d, dv), {})
    batch, heads, rows, _ = q.shape
    grid = (cdiv(rows, m), heads, batch)
    parameters = _in_order(gradient_of_queries, given)
    return KernelCall(group, gradient_of_queries, parameters, (variant,), 0, grid)


def _slope_of_keys(group: Group, node: Node, places: Places) -> KernelCall:
    """The derivative by keys, or by values, or by both where one kernel holds them."""
    q, k, v, by, *_ = node.inputs
    of_values = node if node.function == "values" else _also(group, "values")
    of_keys = None if node.function == "values" else node
    wanted = {"OF_KEYS": of_keys is not None, "OF_VALUES": of_values is not None}
    # What isn't wanted isn't written: any array of the type will do.
    slope, other = of_keys or by, of_values or by
    given = {
        **_shared(node),
        "q": ("descriptor", _described(q, (1, 1, "BLOCK_M", "D"))),
        "k": ("descriptor", _described(k, (1, 1, "BLOCK_N", "D"))),
        "v": ("descriptor", _described(v, (1, 1, "BLOCK_N", "DV"))),
        "do": ("descriptor", _described(by, (1, 1, "BLOCK_M", "DV"))),
        "dk": ("descriptor", _written(slope, by, (1, 1, "BLOCK_N", "D"), places)),
        "dv": ("descriptor", _written(other, by, (1, 1, "BLOCK_N", "DV"), places)),
    }
    d, dv = _widths(node)
    m, n = 64 if max(d, dv) <= WIDE else 32, 128
    variant = _slope_variant(m, n, (d, dv), wanted)
    batch, heads, rows, _ = k.shape
    grid = (cdiv(rows, n), heads, batch)
    parameters = _in_order(gradient_of_keys, given)
    return KernelCall(group, gradient_of_keys, parameters, (variant,), 0, grid)


def _written(node: Node, unset: Node, block: tuple[int | str, ...], places: Places) -> Descriptor:
    return _described(node, block) if node is unset else _by_heads(node, block, places)


def _widths(node: Node) -> tuple[int, int]:
    """The sizes of heads of queries and of values, padded to what tiles hold."""
    q, _, v, *_ = node.inputs
    size = BYTES[q.element]
    return padded(q.shape[-1], size), padded(v.shape[-1], size)


def _shared(node: Node) -> Given:
    """What both kernels take beside tensors' blocks. A query sees no key after it if causal."""
    q, *_, sums, products = node.inputs
    return {
        "lse": _pointer(sums),
        "delta": _pointer(products),
        "scale": ("f32", q.shape[-1] ** -0.5),
        "queries": ("i32", q.shape[2]),
        "offset": ("i32", 0),
        "left": ("none", None),
        "right": ("i32", 0) if node.data else ("none", None),
    }


def _slope_variant(m: int, n: int, widths: tuple[int, int], more: dict[str, bool]) -> Variant:
    d, dv = widths
    constants = {"GROUP": 1, "D": d, "DV": dv, "BLOCK_M": m, "BLOCK_N": n, **more}
    return Variant(f"{m}x{n}, d {d}", constants)
