"""The kernels of attention and of its derivatives: the library's, launched on nodes of a graph.

Queries, keys and values are [batch, heads, rows, d] in any order of the first three axes, so that
heads need not be copied out of a projection, nor back into one.
"""

from __future__ import annotations

from typing import Any

from tawa.axon.gpu.graph.fusion import Group
from tawa.axon.gpu.graph.nodes import BYTES, Node, Shape, layout
from tawa.axon.gpu.kernels import KernelCall, Places, Variant, cdiv
from tawa.axon.gpu.text import Descriptor, Parameter
from tawa.base.indices import contiguous_strides
from tawa.driver.jit import Kernel
from tawa.kernels.attention_arguments import MOST_CAPTURED, padded
from tawa.kernels.attention_gradients import ROWS, Plan, finish, gradients_by_keys, plan_of, prepare
from tawa.kernels.attention_kernel import LOG2_E, attention_forward
from tawa.kernels.attention_tiles import Configuration, of_any_size
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
    backwards = {"rows": _prepare, "keys and values": _slopes, "queries": _finish}
    return backwards[node.function](group, node, places)


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
    large = of_any_size(*widths, q.element, causal=causal)
    tiles = (large, SMALL)
    variants = tuple(_variant(tile, widths, end) for tile in tiles for end in (False, True))
    small = cdiv(rows, large.block_m) * heads * batch < SM_90A.multiprocessors
    tile = tiles[small]
    chosen = 2 * small + (k.shape[2] % tile.block_n != 0)
    grid = (cdiv(rows, tile.block_m), heads, batch)
    parameters = _parameters(node, causal, _also(group, "logarithms"))
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
    target, strides, offset = places.get(node, (node, contiguous_strides(node.shape), 0))
    shape = tuple(node.shape[axis] for axis in order)
    turned = tuple(strides[axis] for axis in order)
    return Descriptor(target, shape, turned, offset, block)


# Backwards.

BLOCK = 64
"""Rows of a block of the pass that rounds derivatives by queries."""


def padded_rows(rows: int) -> int:
    """Rows of a head in arrays of the kernels' own."""
    return cdiv(rows, ROWS) * ROWS


def sums_shape(q: Node, v: Node) -> Shape:
    """The shape of the sums of derivatives by queries."""
    batch, heads, rows, _ = q.shape
    plan, columns = tiles_of(q, v)
    block = (columns["D"], padded_rows(rows))
    return (batch, heads, *(block if plan.turned else reversed(block)))


def tiles_of(q: Node, v: Node, masked: bool = False) -> tuple[Plan, dict[str, int]]:
    """How the kernels cut into blocks, and the columns of tiles of queries and of values."""
    size = BYTES[q.element]
    columns = {"D": padded(q.shape[-1], size), "DV": padded(v.shape[-1], size)}
    plan = plan_of(columns, masked=masked)
    return plan, dict.fromkeys(columns, plan.columns) if plan.columns else columns


def _prepare(group: Group, node: Node, places: Places) -> KernelCall:
    """Two numbers a row, and zeros, to which derivatives by queries are added."""
    result, by, logarithms = node.inputs
    zeros, totals = _also(group, "zeros"), _also(group, "totals")
    block = (1, 1, "B", "DV")
    rows = by.shape[2]
    given: Given = {
        "out": ("descriptor", _described(result, block)),
        "do": ("descriptor", _described(by, block)),
        "lse": _pointer(logarithms),
        "delta": _pointer(node),
        "total": _pointer(totals or _unread(group, "totals", node.shape, "f32")),
        "sums": _pointer(places[zeros][0] if zeros in places else zeros),
        "rows": ("i32", rows),
        "padded": ("i32", node.shape[-1]),
    }
    variant = Variant(f"d {dict(node.data)['D']}", {**dict(node.data), "B": ROWS})
    grid = (cdiv(rows, ROWS), *reversed(by.shape[:2]))
    return KernelCall(group, prepare, _in_order(prepare, given), (variant,), 0, grid)


def _slopes(group: Group, node: Node, places: Places) -> KernelCall:
    """The derivatives by keys and values, and what they add to those by queries."""
    q, k, v, by, products, totals, zeros = node.inputs
    values = _also(group, "values") or _unread(
        group, "values", (*k.shape[:1], k.shape[2], k.shape[1], v.shape[-1]), k.element
    )
    plan, columns = tiles_of(q, v, masked=node.data)
    keys, rows = ("BLOCK_N", "D"), ("BLOCK_M", "D")
    part = reversed(rows) if plan.turned else rows
    target = places[zeros][0] if zeros in places else zeros.base
    given: Given = {
        "q": ("descriptor", _described(q, (1, 1, *rows))),
        "k": ("descriptor", _described(k, (1, 1, *keys))),
        "v": ("descriptor", _described(v, (1, 1, "BLOCK_N", "DV"))),
        "do": ("descriptor", _described(by, (1, 1, "BLOCK_M", "DV"))),
        "sums": ("descriptor", _described(target, (1, 1, *part))),
        "dk": ("descriptor", _by_heads(node, (1, 1, *keys), places)),
        "dv": ("descriptor", _by_heads(values, (1, 1, "BLOCK_N", "DV"), places)),
        "total": ("descriptor", _described(totals, (1, 1, "BLOCK_M"))),
        "delta": ("descriptor", _described(products, (1, 1, "BLOCK_M"))),
        "scale": ("f32", q.shape[-1] ** -0.5),
        "queries": ("i32", q.shape[2]),
        "size": ("i32", k.shape[2]),
        "offset": ("i32", 0),
        "left": ("none", None),
        "right": ("i32", 0) if node.data else ("none", None),
    }  # a query sees no key after it if causal
    variants = tuple(
        Variant(
            f"{plan.m}x{plan.n}, d {columns['D']}" + (", whole blocks of keys" if even else ""),
            {**columns, "GROUP": 1, "BLOCK_M": plan.m, "BLOCK_N": plan.n, "EVEN": even,
             "TURNED": plan.turned},
            dict(plan.options),
        )
        for even in (False, True)
    )  # fmt: skip
    grid = (cdiv(k.shape[2], plan.n), k.shape[1], k.shape[0])
    parameters = _in_order(gradients_by_keys, given)
    chosen = int(k.shape[2] % plan.n == 0)
    return KernelCall(group, gradients_by_keys, parameters, variants, chosen, grid)


def _finish(group: Group, node: Node, places: Places) -> KernelCall:
    """The derivative by queries: its sums, rounded."""
    sums, q, v = node.inputs
    plan, columns = tiles_of(q, v)
    block = ("D", "B") if plan.turned else ("B", "D")
    given: Given = {
        "sums": ("descriptor", _described(sums, (1, 1, *block))),
        "dq": ("descriptor", _by_heads(node, (1, 1, "B", "D"), places)),
        "scale": ("f32", q.shape[-1] ** -0.5),
    }
    constants = {"D": columns["D"], "B": BLOCK, "TURNED": plan.turned}
    variant = Variant(f"d {columns['D']}", constants)
    grid = (cdiv(q.shape[2], BLOCK), q.shape[1], q.shape[0])
    return KernelCall(group, finish, _in_order(finish, given), (variant,), 0, grid)


def _unread(group: Group, function: str, shape: Shape, element: str) -> Node:
    """A result that nobody reads, but the kernel writes."""
    main = next(iter(group.members))
    found = Node("also", function, (main,), shape, element, main.span)
    group.members[found] = None
    group.outputs.append(found)
    return found
