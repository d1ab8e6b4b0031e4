"""Attention forward as one sequential program: loops over key blocks with an online softmax.

`attention_forward` computes BLOCK_M query rows of one head. Key blocks are visited from the last
visible one to the first, in up to three loops: blocks at the causal or right-hand edge, blocks that
every row sees whole, blocks at a window's left-hand edge. Only the middle loop has no mask code,
and blocks that no row sees are not visited. Nothing here says which products overlap which
exponentials, who loads, or where anything waits: that is the compiler's work.
"""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnnecessaryComparison=false, reportAssignmentType=false

from __future__ import annotations

from typing import Any

import tawa
import tawa.language as tl

LOG2_E = 1.4426950408889634
LN_2 = tl.constexpr(0.6931471805599453)


@tawa.jit
def factor_of(scale: Any, entry: Any):
    """What a number, an array of numbers or None multiplies by."""
    if scale is None:
        return 1.0
    return tl.load(scale + entry) if scale.dtype.is_ptr() else scale


@tawa.jit
def soft_cap(scores: Any, cap: Any):
    """cap * tanh(scores / cap), by the special-function unit's exponential and reciprocal."""
    return cap - 2 * cap / (tl.exp2(scores * (2.885390081777927 / cap)) + 1)


@tawa.jit
def alibi(score: Any, batch: Any, head: Any, q_idx: Any, k_idx: Any, slopes: Any, offset: Any):
    """ALiBi as a score modification: the farther a key, the lower its score.

    `slopes` is an fp32 array of one number a head. `offset` is keys - queries where rows are
    aligned bottom-right, as FlashAttention has them, or 0.
    """
    return score - tl.load(slopes + head) * tl.abs(q_idx + offset - k_idx).to(tl.float32)


@tawa.jit
def masked(
    score: Any,
    batch: Any,
    head: Any,
    q_idx: Any,
    k_idx: Any,
    mask: Any,
    batch_stride: Any,
    head_stride: Any,
    row_stride: Any,
    column_stride: Any,
):
    """A mask as a score modification: bools choose which scores count, numbers are added.

    `mask` has an element for every score; strides count elements, and are 0 where it is broadcast.
    """
    start = mask + (batch.to(tl.int64) * batch_stride + head.to(tl.int64) * head_stride)
    value = tl.load(start + q_idx.to(tl.int64) * row_stride + k_idx * column_stride)
    if value.dtype.is_int1():
        return tl.where(value, score, -float("inf"))
    return score + value.to(tl.float32)


@tawa.jit
def visit_keys(
    acc: Any, top: Any, total: Any, q: Any, k_desc: Any, v_desc: Any, place: Any, limits: Any,
    shown: Any, scales: Any, captured: Any, first: Any, last: Any,
    D: tl.constexpr, DV: tl.constexpr, BLOCK_N: tl.constexpr, SCORE_MOD: tl.constexpr,
    LEFT: tl.constexpr, RIGHT: tl.constexpr,
):  # fmt: skip
    """The running softmax after key blocks `last` - 1 down to `first`.

    `acc` is the weighted sum of values, `top` the largest score of each row, `total` the sum of
    exponentials. LEFT and RIGHT say which edges of the visible keys may lie inside these blocks.
    """
    batch, head, kv_head = place
    row_index, key_limit = limits
    first_shown, last_shown = shown
    prescale, multiplier, cap = scales
    for turn in range(0, last - first):
        start_n = (last - 1 - turn) * BLOCK_N
        k = k_desc.load([batch, kv_head, start_n, 0]).reshape(BLOCK_N, D)
        scores = tl.dot(q, k.T)
        columns = start_n + tl.arange(0, BLOCK_N)
        if prescale is not None:
            scores = scores * prescale
        if cap is not None:
            scores = soft_cap(scores, cap)
        if SCORE_MOD is not None:
            keys = tl.minimum(columns, key_limit) if RIGHT else columns
            index = (row_index[:, None], keys[None, :])
            scores = SCORE_MOD(scores, batch, head, *index, *captured)
        if RIGHT:
            scores = tl.where(columns[None, :] <= last_shown[:, None], scores, -float("inf"))
        if LEFT:
            scores = tl.where(columns[None, :] >= first_shown[:, None], scores, -float("inf"))
        # The largest raw score is scaled, not every score: one multiply-add an exponential.
        new_top = tl.maximum(top, tl.max(scores, axis=1))
        shift = new_top * multiplier
        if LEFT or RIGHT or SCORE_MOD is not None:  # a row that has seen nothing keeps zeros
            shift = tl.where(new_top == -float("inf"), 0.0, shift)
        correction = tl.exp2(top * multiplier - shift)
        p = tl.exp2(scores * multiplier - shift[:, None])
        total = total * correction + tl.sum(p, axis=1)
        v = v_desc.load([batch, kv_head, start_n, 0]).reshape(BLOCK_N, DV)
        if v.dtype.is_fp8():
            v = v.to(tl.float16)
        acc = tl.dot(p.to(v.dtype), v, acc * correction[:, None])
        top = new_top
    return acc, top, total


@tawa.jit
def visible_blocks(
    start_m: Any, offset: Any, left: Any, right: Any, KEYS: Any,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, MASK_END: tl.constexpr,
):  # fmt: skip
    """Which key blocks the rows from `start_m` on see: begin <= whole <= part <= end.

    Blocks `begin` to `end` are visible to some row; those from `whole` to `part` to every row.
    """
    end = tl.cdiv(KEYS, BLOCK_N)
    part = KEYS // BLOCK_N if MASK_END else end
    if right is not None:
        end = tl.cdiv(max(min(start_m + BLOCK_M + offset + right, KEYS), 0), BLOCK_N)
        part = min(max(start_m + offset + right + 1, 0) // BLOCK_N, part)
    begin = 0
    if left is not None:
        begin = min(max(start_m + offset - left, 0) // BLOCK_N, end)
    part = min(max(part, begin), end)
    whole = begin
    if left is not None:
        whole = tl.cdiv(max(start_m + BLOCK_M - 1 + offset - left, 0), BLOCK_N)
        whole = min(max(whole, begin), part)
    return begin, whole, part, end


@tawa.jit
def finish(
    acc: Any, top: Any, total: Any, o_desc: Any, lse: Any, v_factor: Any, multiplier: Any,
    batch: Any, head: Any, start_m: Any, rows: Any, QUERIES: Any,
    BLOCK_M: tl.constexpr, DV: tl.constexpr,
):  # fmt: skip
    """Write the rows' output, and their log-sum-exp if asked for."""
    inverse = tl.where(total == 0, 0.0, v_factor / total)
    out = (acc * inverse[:, None]).to(o_desc.dtype)
    o_desc.store([batch, head, start_m, 0], out.reshape(1, 1, BLOCK_M, DV))
    if lse is not None:
        at = lse + (batch * tl.num_programs(1) + head).to(tl.int64) * QUERIES + rows
        value = (top * multiplier + tl.log2(total)) * LN_2
        tl.store(at, tl.where(total == 0, -float("inf"), value), mask=rows < QUERIES)


@tawa.jit(do_not_specialize=("QUERIES", "KEYS", "offset", "left", "right"))
def attention_forward(
    q_desc: Any, k_desc: Any, v_desc: Any, o_desc: Any, lse: Any,
    q_scale: Any, k_scale: Any, v_scale: Any, prescale: Any, multiplier: Any, cap: Any,
    QUERIES: Any, KEYS: Any, GROUP: Any, offset: Any, left: Any, right: Any,
    captured0: Any, captured1: Any, captured2: Any, captured3: Any, captured4: Any, captured5: Any,
    D: tl.constexpr, DV: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    MASK_END: tl.constexpr, SCORE_MOD: tl.constexpr, CAPTURED: tl.constexpr,
):  # fmt: skip
    """One program computes BLOCK_M query rows of one head.

    Row i sees keys i + offset - left to i + offset + right; a bound that is None is no bound.
    GROUP query heads share a head of keys and values. Scores are multiplied by `prescale`, capped
    and modified, each unless it is None; exponentials are of base 2, of scores times `multiplier`.
    """
    block_m = tl.program_id(0)
    if right is not None:  # the longest rows first
        block_m = tl.num_programs(0) - 1 - block_m
    start_m = block_m * BLOCK_M
    head = tl.program_id(1)
    batch = tl.program_id(2)
    kv_head = head // GROUP
    entry = batch * (tl.num_programs(1) // GROUP) + kv_head
    factor = factor_of(q_scale, entry) * factor_of(k_scale, entry)
    if prescale is not None:
        prescale = prescale * factor
    else:
        multiplier = multiplier * factor
    rows = start_m + tl.arange(0, BLOCK_M)
    begin, whole, part, end = visible_blocks(
        start_m, offset, left, right, KEYS, BLOCK_M, BLOCK_N, MASK_END
    )
    first_shown = rows if left is None else rows + (offset - left)
    last_shown = tl.zeros((BLOCK_M,), tl.int32) + (KEYS - 1)
    if right is not None:
        last_shown = tl.minimum(rows + (offset + right), KEYS - 1)
    q = q_desc.load([batch, head, start_m, 0]).reshape(BLOCK_M, D)
    place = (batch, head, kv_head)
    limits = (tl.minimum(rows, QUERIES - 1), KEYS - 1)
    captured = (captured0, captured1, captured2, captured3, captured4, captured5)[:CAPTURED]
    fixed = (q, k_desc, v_desc, place, limits, (first_shown, last_shown),
             (prescale, multiplier, cap), captured)  # fmt: skip
    sizes: tl.constexpr = (D, DV, BLOCK_N, SCORE_MOD)
    top = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    state = (tl.zeros((BLOCK_M, DV), tl.float32), top, tl.zeros((BLOCK_M,), tl.float32))
    if right is not None or MASK_END:
        state = visit_keys(*state, *fixed, part, end, *sizes, left is not None, True)
    state = visit_keys(*state, *fixed, whole, part, *sizes, False, False)
    if left is not None:
        state = visit_keys(*state, *fixed, begin, whole, *sizes, True, False)
    v_factor = factor_of(v_scale, entry)
    finish(*state, o_desc, lse, v_factor, multiplier, batch, head, start_m, rows, QUERIES,
           BLOCK_M, DV)  # fmt: skip
