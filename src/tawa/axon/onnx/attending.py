"""Operators of sequence models: attention in its forms, and what keeps a state."""

from __future__ import annotations

from tawa.axon.onnx.context import Context, IllFormed, rule
from tawa.axon.onnx.values import Dims, Value, tensor
from tawa.axon.sizes.dims import Dim

UPDATE_RULES: dict[str, tuple[bool, bool]] = {
    "linear": (False, False), "gated": (True, False), "delta": (False, True),
    "gated_delta": (True, True),
}  # fmt: skip
"""Whether linear attention by each rule takes a decay and a beta."""

COUNTED = 25
"""The opset from which heads that are an axis are not counted again by attributes."""


def part(context: Context, dim: Dim, by: int) -> Dim:
    """A size divided by a number, without a rest."""
    quotient = context.fresh()
    context.equal(dim, quotient * by)
    return context.solver.dim(quotient)


def check_groups(query_heads: int | None, heads: int | None) -> None:
    """Raise IllFormed unless as many heads of the queries share each head of the keys."""
    if query_heads is not None and heads and query_heads % heads:
        raise IllFormed(f"{query_heads} heads of queries do not share {heads} heads of keys evenly")


def _check_attention(context: Context, packed: bool) -> None:
    """Raise IllFormed for inputs and attributes of attention that don't go together."""
    outputs = [bool(name) for name in context.node.output]
    if context.has(4) != context.has(5):
        raise IllFormed("past keys and past values come together")
    if outputs[1:2] != outputs[2:3]:
        raise IllFormed("present keys and present values come together")
    if context.has(6) and (context.has(4) or any(outputs[1:3])):
        raise IllFormed("`nonpad_kv_seqlen` does not go with a cache")
    for side in ("left", "right"):
        if context.attribute(f"{side}_window_size", -1) < -1:
            raise IllFormed(f"`{side}_window_size` is below -1")
    has_counts = {"q_num_heads", "kv_num_heads"} & context.attributes.keys()
    if has_counts and not packed and context.opset >= COUNTED:
        raise IllFormed("heads that are an axis are not counted by an attribute")


def _check_rates(dims: Dims | None, allowed: list[int | None]) -> None:
    """Raise IllFormed for rates whose last axis can't belong to heads."""
    if (
        dims is not None
        and dims[-1].constant is not None
        and None not in allowed
        and (dims[-1].constant not in allowed)
    ):
        raise IllFormed(f"rates of {dims[-1].constant} numbers, not {allowed[0]} or {allowed[1]}")


@rule("Attention")
def attention(context: Context) -> list[Value] | None:
    """Attention with heads as an axis (rank 4) or packed (rank 3), and a cache."""
    q, k, v = (context.ranked(index, 3, 4) for index in range(3))
    if q is None or k is None or v is None:
        return None
    if not len(q) == len(k) == len(v):
        raise IllFormed("queries, keys and values have different numbers of dimensions")
    packed = len(q) == 3
    if packed:
        query_heads, heads = (
            context.attribute("q_num_heads", 0),
            context.attribute("kv_num_heads", 0),
        )
        if query_heads < 1 or heads < 1:
            raise IllFormed("packed heads need `q_num_heads` and `kv_num_heads`")
        context.equal(part(context, q[2], query_heads), part(context, k[2], heads))
        width, value_width = part(context, k[2], heads), part(context, v[2], heads)
        many, few, queries, keys = Dim.of(query_heads), Dim.of(heads), q[1], k[1]
    else:
        many, few, queries, keys = q[1], k[1], q[2], k[2]
        width, value_width = context.equal(q[3], k[3]), v[3]
    _check_attention(context, packed)
    past = context.ranked(4, 4)
    total = keys if not context.has(4) else context.fresh() if past is None else past[2] + keys
    y = [q[0], queries, many * value_width] if packed else [q[0], many, queries, value_width]
    return [
        tensor(y), tensor([q[0], few, total, width]), tensor([q[0], few, total, value_width]),
        tensor([q[0], many, queries, total]),
    ]  # fmt: skip


@rule("ai.onnx.preview:FlexAttention")
def flex_attention(context: Context) -> Value | None:
    """Attention with heads as an axis."""
    q, k, v = (context.ranked(index, 4) for index in range(3))
    if q is None or k is None or v is None:
        return None
    context.equal(q[3], k[3])
    context.equal(k[2], v[2])
    context.equal(k[1], v[1])
    check_groups(q[1].constant, k[1].constant)
    return tensor([q[0], q[1], q[2], v[3]])


@rule("LinearAttention")
def linear_attention(context: Context) -> list[Value] | None:
    """Attention with packed heads, and the state of each."""
    q, k, v = (context.ranked(index, 3) for index in range(3))
    past, decay, beta = context.ranked(3, 4), context.ranked(4, 3), context.ranked(5, 3)
    query_heads, heads = context.attribute("q_num_heads", 0), context.attribute("kv_num_heads", 0)
    if query_heads < 1 or heads < 1:
        raise IllFormed("packed heads need `q_num_heads` and `kv_num_heads`")
    check_groups(query_heads, heads)
    name = context.chosen("update_rule", "gated_delta", *UPDATE_RULES)
    for index, what, is_taken in zip((4, 5), ("decay", "beta"), UPDATE_RULES[name], strict=True):
        if context.has(index) != is_taken:
            raise IllFormed(f"the rule `{name}` takes {'a' if is_taken else 'no'} {what}")
    if q is None or k is None or v is None:
        return None
    width, value_width = part(context, k[2], heads), part(context, v[2], heads)
    context.equal(part(context, q[2], query_heads), width)
    _check_rates(decay, [heads, None if width.constant is None else heads * width.constant])
    _check_rates(beta, [1, heads])
    sizes = (q[0], Dim.of(heads), width, value_width)
    state = tensor(context.same(sizes, past))
    return [tensor([q[0], q[1], value_width * query_heads]), state]


@rule("CausalConvWithState")
def causal_conv(context: Context) -> list[Value] | None:
    """The input's shape; the state holds one column less than the kernel has."""
    x, w = context.ranked(0, 3), context.ranked(1, 3)
    context.chosen("activation", "none", "none", "silu", "swish")
    if w is not None:
        context.at_least(w[2], 1)
    if x is None:
        return None
    kept = w[2] - 1 if w is not None else context.fresh()
    return [tensor(x), tensor([x[0], x[1], kept])]
