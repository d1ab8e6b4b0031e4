"""The kernel of attention: the plain loop of `tawa.kernels.attention`, with its tiles.

Queries, keys and values are [batch, heads, rows, d] in any order of the first three axes, so that
heads need not be copied out of a projection, nor back into one.
"""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import tawa
import tawa.language as tl
from tawa.axon.gpu.fusion import Group
from tawa.axon.gpu.kernels import KernelCall, Variant, cdiv
from tawa.axon.gpu.nodes import Node, contiguous, layout
from tawa.axon.gpu.text import Descriptor, Parameter
from tawa.kernels.attention import configuration

LOG2_E = 1.4426950408889634


@tawa.jit
def attend(
    q_desc: Any,
    k_desc: Any,
    v_desc: Any,
    o_desc: Any,
    scale: Any,
    KEYS: Any,
    HEADS: Any,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASK_END: tl.constexpr,
):
    """One program computes BLOCK_M query rows of one head; `scale` includes log2(e).

    `MASK_END` says that BLOCK_N does not divide KEYS.
    """
    start_m = tl.program_id(0) * BLOCK_M
    batch = tl.program_id(1) // HEADS
    head = tl.program_id(1) % HEADS
    rows = start_m + tl.arange(0, BLOCK_M)
    q = q_desc.load([batch, head, start_m, 0]).reshape(BLOCK_M, D)
    top = tl.full((BLOCK_M,), -1.0e30, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    end = KEYS
    if CAUSAL:
        end = min(start_m + BLOCK_M, KEYS)
    for start_n in range(0, end, BLOCK_N):
        k = k_desc.load([batch, head, start_n, 0]).reshape(BLOCK_N, D)
        scores = tl.dot(q, k.T)
        columns = start_n + tl.arange(0, BLOCK_N)
        if CAUSAL:
            scores = tl.where(columns[None, :] <= rows[:, None], scores, -1.0e30)
        if MASK_END:
            scores = tl.where(columns[None, :] < KEYS, scores, -1.0e30)
        new_top = tl.maximum(top, tl.max(scores, axis=1))
        shift = new_top * scale
        correction = tl.exp2(top * scale - shift)
        p = tl.exp2(scores * scale - shift[:, None])
        total = total * correction + tl.sum(p, axis=1)
        v = v_desc.load([batch, head, start_n, 0]).reshape(BLOCK_N, D)
        acc = tl.dot(p.to(v.dtype), v, acc * correction[:, None])
        top = new_top
    out = (acc / total[:, None]).to(o_desc.dtype)
    o_desc.store([batch, head, start_m, 0], out.reshape(1, 1, BLOCK_M, D))


def attention_call(group: Group) -> KernelCall:
    """The launch of an attention node."""
    node = next(iter(group.members))
    q, k, v = node.inputs
    batch, heads, rows, d = q.shape
    width = cdiv(d, 16) * 16
    tile = configuration(width, masked=node.function == "causal")
    parameters = [
        Parameter("q_desc", "descriptor", _described(q, (1, 1, "BLOCK_M", "D"))),
        Parameter("k_desc", "descriptor", _described(k, (1, 1, "BLOCK_N", "D"))),
        Parameter("v_desc", "descriptor", _described(v, (1, 1, "BLOCK_N", "D"))),
        Parameter("o_desc", "descriptor", _by_heads(node)),
        Parameter("scale", "f32", d**-0.5 * LOG2_E),
        Parameter("KEYS", "i32", k.shape[2]),
        Parameter("HEADS", "i32", heads),
    ]
    constants = {
        "D": width, "BLOCK_M": tile.block_m, "BLOCK_N": tile.block_n,
        "CAUSAL": int(node.function == "causal"),
    }  # fmt: skip
    name = f"{tile.block_m}x{tile.block_n}, d {width}"
    variants = (
        Variant(f"{name}, whole blocks of keys", constants | {"MASK_END": 0}, tile.options),
        Variant(name, constants | {"MASK_END": 1}, tile.options),
    )
    chosen = int(k.shape[2] % tile.block_n != 0)
    grid = (cdiv(rows, tile.block_m), batch * heads)
    return KernelCall(group, attend, parameters, variants, chosen, grid)


def _described(node: Node, block: tuple[int | str, ...]) -> Descriptor:
    strides, offset = layout(node)
    return Descriptor(node.base, node.shape, strides, offset, block)


def _by_heads(node: Node) -> Descriptor:
    """The result, which lies as [batch, rows, heads, d], as [batch, heads, rows, d]."""
    order = (0, 2, 1, 3)
    strides = contiguous(node.shape)
    shape = tuple(node.shape[axis] for axis in order)
    turned = tuple(strides[axis] for axis in order)
    return Descriptor(node, shape, turned, 0, (1, 1, "BLOCK_M", "D"))
