"""The rules of attention and of its derivatives.

Operands are [batch, heads, rows, d] in any order in memory that tensor descriptors can say. Results
lie as [batch, rows, heads, d], so that joining heads is a view.
"""

from __future__ import annotations

import math

from tawa.axon.gpu.graph.nodes import BYTES, Node, Tape, layout
from tawa.axon.gpu.rules import lower, matmul, rule, scalar, softmax

MOST_HEAD = 256
"""Numbers of a head that one kernel holds; multiples of 8 are."""

MOST_TOGETHER = 128
"""Numbers of a head of which one kernel holds the derivatives by keys and by values."""

LOWEST = -1e30
"""The score of a key that is not seen."""


@rule("attention")
def attention(tape: Tape, q: Node, k: Node, v: Node) -> Node:
    """softmax(q k' / sqrt(d)) v."""
    return _attention(tape, q, k, v, causal=False)


@rule("causal_attention")
def causal_attention(tape: Tape, q: Node, k: Node, v: Node) -> Node:
    """Attention in which a query sees no later key."""
    return _attention(tape, q, k, v, causal=True)


def _attention(tape: Tape, q: Node, k: Node, v: Node, causal: bool) -> Node:
    """One node where the kernel takes it, else its parts."""
    if not _fits(q, v):
        return matmul(tape, _weights(tape, q, k, causal), v)
    inputs = tuple(_four_axes(tape, x) for x in (q, k, v))
    shape = _result_shape(inputs[0], v.shape[-1])
    found = tape.add("attention", "causal" if causal else "", inputs, shape, q.element)
    return _by_heads(tape, found, (*q.shape[:-1], v.shape[-1]))


def _fits(q: Node, v: Node) -> bool:
    """Whether the kernels take heads of these sizes and this type."""
    widths = q.shape[-1], v.shape[-1]
    fits = all(width <= MOST_HEAD and width % 8 == 0 for width in widths)
    return fits and q.element in ("f16", "bf16")


def _result_shape(q: Node, width: int) -> tuple[int, ...]:
    batch, heads, rows, _ = q.shape
    return batch, rows, heads, width


def _by_heads(tape: Tape, x: Node, shape: tuple[int, ...]) -> Node:
    """What lies as [batch, rows, heads, d] in the shape of an operand."""
    return tape.reshape(tape.permute(x, (0, 2, 1, 3)), shape)


def _four_axes(tape: Tape, x: Node) -> Node:
    """[batch, heads, rows, d], in memory as a tensor descriptor can say it."""
    *lead, rows, d = x.shape
    heads = lead[-1] if lead else 1
    four = tape.reshape(x, (math.prod(lead) // heads, heads, rows, d))
    strides, offset = layout(four)
    size = BYTES[x.element]
    whole = all(step * size % 16 == 0 for step in (*strides[:3], offset))
    return four if whole and strides[3] == 1 and min(strides) > 0 else tape.copy(four)


def _weights(tape: Tape, q: Node, k: Node, causal: bool) -> Node:
    """softmax(q k' / sqrt(d)), as `compositions.py` has it, so that both are computed once."""
    rank = len(k.shape)
    turned = tape.permute(k, (*range(rank - 2), rank - 1, rank - 2))
    scores = tape.map("/", matmul(tape, q, turned), scalar(tape, math.sqrt(q.shape[-1]), q))
    if causal:
        scores = tape.map("where", lower(tape, scores), scores, scalar(tape, LOWEST, q))
    return softmax(tape, scores, -1)


@rule("attention_slopes")
def attention_slopes(
    tape: Tape, q: Node, k: Node, v: Node, y: Node, by: Node, causal: bool
) -> tuple[Node, ...] | None:
    """The derivatives by queries, keys and values; None where no kernel takes them.

    The kernels compute the weights again, from the logarithms of the rows' sums, which the kernel
    of attention writes, and need the sums of the rows of `by * y`.
    """
    del y
    if not _fits(q, v):
        return None
    four = [_four_axes(tape, x) for x in (q, k, v, by)]
    shape = _result_shape(four[0], v.shape[-1])
    name = "causal" if causal else ""
    result = tape.add("attention", name, tuple(four[:3]), shape, q.element)
    sums = tape.add("also", "sums", (result,), four[0].shape[:-1], "f32")
    inputs = (*four, sums, _row_products(tape, result, four[3]))
    kinds = ("queries", "keys and values") if _together(q, v) else ("queries", "keys", "values")
    found: dict[str, Node] = {}
    for kind in kinds:
        like = four[2 if kind == "values" else 1 if kind != "queries" else 0]
        shape = _result_shape(like, like.shape[-1])
        found[kind] = tape.add("attention_slopes", kind, inputs, shape, q.element, data=causal)
    if _together(q, v):
        shape = _result_shape(four[2], v.shape[-1])
        found["values"] = tape.add("also", "values", (found["keys and values"],), shape, q.element)
    results = found["queries"], found.get("keys") or found["keys and values"], found["values"]
    return tuple(_by_heads(tape, x, of.shape) for x, of in zip(results, (q, k, v), strict=True))


def _together(q: Node, v: Node) -> bool:
    return max(q.shape[-1], v.shape[-1]) <= MOST_TOGETHER


def _row_products(tape: Tape, result: Node, by: Node) -> Node:
    """The sum of each row of a result times its derivative: [batch, heads, rows, 1]."""
    wide = [tape.map("cast", x, element="f32") for x in (tape.permute(result, (0, 2, 1, 3)), by)]
    return tape.reduce("sum", tape.map("*", *wide), -1, keep=True)
