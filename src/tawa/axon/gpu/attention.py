"""The rules of attention and of its derivatives.

Operands are [batch, heads, rows, d] in any order in memory that tensor descriptors can say. Results
lie as [batch, rows, heads, d], so that joining heads is a view.
"""

from __future__ import annotations

import math

from tawa.axon.gpu.attend import padded_rows, sums_shape, tiles_of
from tawa.axon.gpu.graph.nodes import BYTES, Node, Tape, layout
from tawa.axon.gpu.rules import lower, matmul, rule, scalar, softmax

MOST_HEAD = 256
"""Numbers of a head that one kernel holds; multiples of 8 are."""

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

    One kernel prepares two numbers a row, of the result and the derivative by it and of the
    logarithms of the rows' sums, which the kernel of attention writes. One computes the weights
    again, writes the derivatives by keys and values, and adds up those by queries in f32, from
    zeros; one rounds these.
    """
    del y
    if not _fits(q, v):
        return None
    four = [_four_axes(tape, x) for x in (q, k, v, by)]
    shape = _result_shape(four[0], v.shape[-1])
    name = "causal" if causal else ""
    result = tape.add("attention", name, tuple(four[:3]), shape, q.element)
    logarithms = tape.add("also", "logarithms", (result,), four[0].shape[:-1], "f32")
    turned = tape.permute(result, (0, 2, 1, 3))
    batch, heads, rows, _ = four[0].shape
    of_rows = (batch, heads, padded_rows(rows))
    _, columns = tiles_of(four[0], four[2])
    prepared = tape.add("attention_slopes", "rows", (turned, four[3], logarithms), of_rows, "f32",
                        data=tuple(columns.items()))  # fmt: skip
    totals = tape.add("also", "totals", (prepared,), of_rows, "f32")
    sums = sums_shape(four[0], four[2])
    zeros = tape.add("also", "zeros", (prepared,), sums, "f32")
    inputs = (*four, prepared, totals, zeros)
    of_keys = tape.add("attention_slopes", "keys and values", inputs,
                       _result_shape(four[1], k.shape[-1]), q.element, data=causal)  # fmt: skip
    shape = _result_shape(four[2], v.shape[-1])
    of_values = tape.add("also", "values", (of_keys,), shape, q.element)
    added = tape.add("also", "sums", (of_keys,), sums, "f32")
    of_queries = tape.add("attention_slopes", "queries", (added, four[0], four[2]),
                          _result_shape(four[0], q.shape[-1]), q.element)  # fmt: skip
    results = of_queries, of_keys, of_values
    return tuple(_by_heads(tape, x, of.shape) for x, of in zip(results, (q, k, v), strict=True))
