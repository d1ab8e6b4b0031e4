"""The kernel of attention: the library's, launched on nodes of a graph.

Queries, keys and values are [batch, heads, rows, d] in any order of the first three axes, so that
heads need not be copied out of a projection, nor back into one.
"""

from __future__ import annotations

from tawa.axon.gpu.fusion import Group
from tawa.axon.gpu.kernels import KernelCall, Variant, cdiv
from tawa.axon.gpu.nodes import BYTES, Node, contiguous, layout
from tawa.axon.gpu.text import Descriptor, Parameter
from tawa.kernels.attention import Configuration, configuration
from tawa.kernels.attention_arguments import MOST_CAPTURED, padded
from tawa.kernels.attention_kernel import LOG2_E, attention_forward
from tawa.machine.chips import SM_90A

SMALL = Configuration(64, 128)
"""Fewer rows a tile, where larger ones leave multiprocessors idle."""

NOTHING = ("lse", "q_scale", "k_scale", "v_scale", "prescale", "cap", "left", "splits")
"""Parameters of the kernel that stay None."""


def attention_call(group: Group) -> KernelCall:
    """The launch of an attention node."""
    node = next(iter(group.members))
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
    return KernelCall(group, attention_forward, _parameters(node, causal), variants, chosen, grid)


def _variant(tile: Configuration, widths: tuple[int, int], end: bool) -> Variant:
    """A tile; `end` says that it does not divide the number of keys."""
    d, dv = widths
    name = f"{tile.block_m}x{tile.block_n}, d {d}" + ("" if end else ", whole blocks of keys")
    constants = {
        "D": d, "DV": dv, "BLOCK_M": tile.block_m, "BLOCK_N": tile.block_n, "MASK_END": end,
        "SCORE_MOD": None, "CAPTURED": 0, "NARROW": False,
    }  # fmt: skip
    return Variant(name, constants, tile.options)


def _parameters(node: Node, causal: bool) -> list[Parameter]:
    """What the kernel takes, in its order."""
    q, k, v = node.inputs
    given = {
        "q_desc": ("descriptor", _described(q, (1, 1, "BLOCK_M", "D"))),
        "k_desc": ("descriptor", _described(k, (1, 1, "BLOCK_N", "D"))),
        "v_desc": ("descriptor", _described(v, (1, 1, "BLOCK_N", "DV"))),
        "o_desc": ("descriptor", _by_heads(node)),
        "multiplier": ("f32", q.shape[-1] ** -0.5 * LOG2_E),
        "QUERIES": ("i32", q.shape[2]),
        "KEYS": ("i32", k.shape[2]),
        "GROUP": ("i32", 1),
        "offset": ("i32", 0),
        "right": ("i32", 0) if causal else ("none", None),
        **{f"captured{number}": ("none", None) for number in range(MOST_CAPTURED)},
        **dict.fromkeys(NOTHING, ("none", None)),
    }
    names = [p.name for p in attention_forward.parameters if p.name in given]
    return [Parameter(name, *given[name]) for name in names]


def _described(node: Node, block: tuple[int | str, ...]) -> Descriptor:
    strides, offset = layout(node)
    return Descriptor(node.base, node.shape, strides, offset, block)


def _by_heads(node: Node) -> Descriptor:
    """The result, which lies as [batch, rows, heads, d], as [batch, heads, rows, d]."""
    order = (0, 2, 1, 3)
    strides = contiguous(node.shape)
    shape = tuple(node.shape[axis] for axis in order)
    turned = tuple(strides[axis] for axis in order)
    return Descriptor(node, shape, turned, 0, (1, 1, "BLOCK_M", "DV"))
