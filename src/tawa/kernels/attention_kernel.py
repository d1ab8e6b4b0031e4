"""Attention forward as one sequential program: loops over key blocks with an online softmax.

`attention_forward` computes BLOCK_M query rows of one head. Only key blocks at an edge of what is
visible are masked, and blocks that no row sees are not visited. Nothing here says which products
overlap which exponentials, who loads, or where anything waits: that is the compiler's work.
"""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnnecessaryComparison=false, reportAssignmentType=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import tawa
import tawa.language as tl

LOG2_E = 1.4426950408889634
LN_2 = tl.constexpr(0.6931471805599453)
E4M3_OFFSET, E4M3_RISE = tl.constexpr(5), tl.constexpr(3)
"""Weights of e4m3 reach 2^8, of its 448, and are normal numbers down to 2^-6: those of a row's
maximum lie 5 binary digits below the top, and the maximum may grow by 3 before it is taken over."""


@tawa.jit
def factor_of(scale: Any, entry: Any):
    """What a number, an array of numbers or None multiplies by."""
    if scale is None:
        return 1.0
    return tl.load(scale + entry) if scale.dtype.is_ptr() else scale


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
def mask_edges(
    scores: Any, columns: Any, block: Any, blocks: Any, shown: Any,
    LEFT: tl.constexpr, RIGHT: tl.constexpr,
):  # fmt: skip
    """Scores without those that a row must not see, in blocks where there are such."""
    _, whole, part, _ = blocks
    first_shown, last_shown = shown
    if RIGHT:
        if block >= part:
            scores = tl.where(columns[None, :] <= last_shown[:, None], scores, -float("inf"))
    if LEFT:
        if block < whole:
            scores = tl.where(columns[None, :] >= first_shown[:, None], scores, -float("inf"))
    return scores


@tawa.jit
def visit_keys(
    acc: Any, top: Any, shift: Any, total: Any, q: Any, k_desc: Any, v_desc: Any, place: Any,
    limits: Any, shown: Any, scales: Any, captured: Any, blocks: Any,
    D: tl.constexpr, DV: tl.constexpr, BLOCK_N: tl.constexpr, SCORE_MOD: tl.constexpr,
    LEFT: tl.constexpr, RIGHT: tl.constexpr, NARROW: tl.constexpr, ASCENDING: tl.constexpr,
    OWN_ENDS: tl.constexpr,
):  # fmt: skip
    """The running softmax after all visible key blocks, from the last to the first or ASCENDING.

    `acc` is the weighted sum of values, `top` a score of each row that none exceeds by more than 8
    in the exponent, `shift` what is subtracted from exponents, `total` the sum of exponentials.
    LEFT and RIGHT say at which edges of the visible keys blocks are masked. NARROW: weights are
    e4m3; then scores exceed `top` by 3 at most, and `acc` and `total` are 2^5 times what they are.
    OWN_ENDS, with ASCENDING: blocks of which a row sees no key are promised to leave it as it is.
    """
    batch, head, kv_head = place
    row_index, key_limit = limits
    prescale, multiplier, cap = scales
    begin, _, _, end = blocks
    # Exponentials stay below 2^8, and a maximum that grows by less than that is left as it is.
    slack = tl.minimum((E4M3_RISE if NARROW else 8) / multiplier, 1.0e30)
    # At least one block, though it may show nothing: then tiles always overlap.
    turns = max(end - begin, 1)
    ends = tl.cdiv(shown[1] + 1, BLOCK_N) - begin if RIGHT and OWN_ENDS else None
    for turn in tl.range(0, turns, row_ends=ends):
        block = begin + turn if ASCENDING else begin + turns - 1 - turn
        start_n = block * BLOCK_N
        k = k_desc.load([batch, kv_head, start_n, 0]).reshape(BLOCK_N, D)
        scores = tl.dot(q, k.T)
        columns = start_n + tl.arange(0, BLOCK_N)
        if prescale is not None:
            scores = scores * prescale
        if cap is not None:
            scores = tl.extra.libdevice.fast_tanhf(scores)
        if SCORE_MOD is not None:
            if cap is not None:
                scores = scores * cap
            keys = tl.minimum(columns, key_limit) if RIGHT else columns
            index = (row_index[:, None], keys[None, :])
            scores = SCORE_MOD(scores, batch, head, *index, *captured)
        scores = mask_edges(scores, columns, block, blocks, shown, LEFT, RIGHT)
        # The largest raw score is scaled, not every score: one multiply-add an exponential.
        block_top = tl.max(scores, axis=1)
        grown = block_top > top + slack
        new_top = tl.where(grown, block_top, top)
        # Where the maximum has grown this is below one; the bound says that zeros stay zeros.
        factor = tl.minimum(tl.exp2((top - new_top) * multiplier), 1.0)
        correction = tl.where(grown, factor, 1.0)
        new_shift = new_top * multiplier
        if NARROW:
            new_shift = new_shift - E4M3_OFFSET
        shift = tl.where(grown, new_shift, shift)
        p = tl.exp2(scores * multiplier - shift[:, None])
        total = total * correction + tl.sum(p, axis=1)
        v = v_desc.load([batch, kv_head, start_n, 0]).reshape(BLOCK_N, DV)
        if v.dtype.is_fp8() and not NARROW:
            v = v.to(tl.float16)
        acc = tl.dot(p.to(v.dtype), v, acc * correction[:, None])
        top = new_top
    return acc, shift, total


@tawa.jit
def visible_blocks(
    start_m: Any, offset: Any, left: Any, right: Any, KEYS: Any,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, MASK_END: tl.constexpr,
):  # fmt: skip
    """Which key blocks the rows from `start_m` on see.

    Blocks `begin` to `end` are visible to some row; before block `whole` not all rows see every
    key, nor from block `part` on.
    """
    end = tl.cdiv(KEYS, BLOCK_N)
    part = KEYS // BLOCK_N if MASK_END else end
    if right is not None:
        end = tl.cdiv(max(min(start_m + BLOCK_M + offset + right, KEYS), 0), BLOCK_N)
        part = min(max(start_m + offset + right + 1, 0) // BLOCK_N, part)
    begin = 0
    if left is not None:
        begin = min(max(start_m + offset - left, 0) // BLOCK_N, end)
    whole = begin
    if left is not None:
        whole = tl.cdiv(max(start_m + BLOCK_M - 1 + offset - left, 0), BLOCK_N)
    return begin, whole, part, end


@tawa.jit
def own_blocks(blocks: Any, last_shown: Any, split: Any, splits: Any):
    """A split's share of the visible key blocks, and which key each row sees last.

    Of an empty share one block is visited, which then shows nothing.
    """
    begin, whole, part, end = blocks
    count = end - begin
    first, last = begin + split * count // splits, begin + (split + 1) * count // splits
    empty = first == last
    part = first if empty else part
    return (first, whole, part, last), tl.where(empty, -1, last_shown)


@tawa.jit
def load_rows(
    q_desc: Any, batch: Any, head: Any, start_m: Any,
    BLOCK_M: tl.constexpr, D: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """The program's queries, of PACKED heads one after the other."""
    if PACKED == 1:
        q = q_desc.load([batch, head, start_m, 0])
    else:
        q = q_desc.load([batch, head, 0, start_m, 0])
    return q.reshape(BLOCK_M, D)


@tawa.jit
def finish(
    acc: Any, shift: Any, total: Any, o_desc: Any, lse: Any, v_factor: Any,
    entry: Any, head: Any, start_m: Any, rows: Any, QUERIES: Any,
    BLOCK_M: tl.constexpr, DV: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """Write the rows' output, and their log-sum-exp if asked for."""
    inverse = tl.where(total == 0, 0.0, v_factor / total)
    out = (acc * inverse[:, None]).to(o_desc.dtype)
    if PACKED == 1:
        o_desc.store([entry, head, start_m, 0], out.reshape(1, 1, BLOCK_M, DV))
    else:
        out = out.reshape(1, 1, PACKED, BLOCK_M // PACKED, DV)
        o_desc.store([entry, head, 0, start_m, 0], out)
    if lse is not None:
        first = ((entry * tl.num_programs(1) + head) * PACKED).to(tl.int64) * QUERIES
        at = lse + first + rows
        if PACKED > 1:
            at += tl.arange(0, BLOCK_M) // (BLOCK_M // PACKED) * QUERIES
        value = (shift + tl.log2(total)) * LN_2
        tl.store(at, tl.where(total == 0, -float("inf"), value), mask=rows < QUERIES)


@tawa.jit(do_not_specialize=("QUERIES", "KEYS", "offset", "left", "right", "splits"))
def attention_forward(
    q_desc: Any, k_desc: Any, v_desc: Any, o_desc: Any, lse: Any,
    q_scale: Any, k_scale: Any, v_scale: Any, prescale: Any, multiplier: Any, cap: Any,
    QUERIES: Any, KEYS: Any, GROUP: Any, offset: Any, left: Any, right: Any, splits: Any,
    captured0: Any, captured1: Any, captured2: Any, captured3: Any, captured4: Any, captured5: Any,
    D: tl.constexpr, DV: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    MASK_END: tl.constexpr, SCORE_MOD: tl.constexpr, CAPTURED: tl.constexpr,
    NARROW: tl.constexpr = False, ASCENDING: tl.constexpr = False, OWN_ENDS: tl.constexpr = False,
    PACKED: tl.constexpr = 1,
):  # fmt: skip
    """One program computes BLOCK_M query rows: of one head, or as many of each of PACKED heads.

    Row i sees keys i + offset - left to i + offset + right; a bound that is None is no bound.
    GROUP programs along the heads share a head of keys and values. Scores are multiplied by
    `prescale`, and modified, each unless it is None; exponentials are of base 2, of scores times
    `multiplier`. With a soft cap, `prescale` has divided by it, and `multiplier` multiplies by it
    unless scores are modified. 8-bit values are weighted in fp16, or with NARROW in e4m3. Unless
    `splits` is None, a program visits a share of the keys; outputs and log-sum-exps then have an
    entry for every split of every batch, the batches of the first split first.
    """
    block_m = tl.program_id(0)
    head = tl.program_id(1)
    of_output = tl.program_id(2)
    batch = of_output if splits is None else of_output % (tl.num_programs(2) // splits)
    if right is not None:
        block_m = tl.num_programs(0) - 1 - block_m  # the longest rows first
    ROWS: tl.constexpr = BLOCK_M // PACKED
    start_m = block_m * ROWS
    kv_head = head // GROUP
    entry = batch * (tl.num_programs(1) // GROUP) + kv_head
    factor = factor_of(q_scale, entry) * factor_of(k_scale, entry)
    if prescale is not None:
        prescale = prescale * factor
    else:
        multiplier = multiplier * factor
    rows = start_m + (tl.arange(0, BLOCK_M) if PACKED == 1 else tl.arange(0, BLOCK_M) % ROWS)
    blocks = visible_blocks(start_m, offset, left, right, KEYS, ROWS, BLOCK_N, MASK_END)
    first_shown = rows if left is None else rows + (offset - left)
    last_shown = tl.zeros((BLOCK_M,), tl.int32) + (KEYS - 1)
    if right is not None:
        last_shown = tl.minimum(rows + (offset + right), KEYS - 1)
    if splits is not None:
        split = of_output // (tl.num_programs(2) // splits)
        blocks, last_shown = own_blocks(blocks, last_shown, split, splits)
    q = load_rows(q_desc, batch, head, start_m, BLOCK_M, D, PACKED)
    place = (batch, head, kv_head)
    limits = (tl.minimum(rows, QUERIES - 1), KEYS - 1)
    captured = (captured0, captured1, captured2, captured3, captured4, captured5)[:CAPTURED]
    fixed = (q, k_desc, v_desc, place, limits, (first_shown, last_shown),
             (prescale, multiplier, cap), captured, blocks)  # fmt: skip
    top = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    none = tl.zeros((BLOCK_M,), tl.float32)  # a row that has seen nothing keeps zeros
    state = (tl.zeros((BLOCK_M, DV), tl.float32), top, none, none)
    bounded: tl.constexpr = right is not None or left is not None or splits is not None
    masked_right: tl.constexpr = bounded or MASK_END
    state = visit_keys(*state, *fixed, D, DV, BLOCK_N, SCORE_MOD, left is not None, masked_right,
                       NARROW, ASCENDING, OWN_ENDS)  # fmt: skip
    finish(*state, o_desc, lse, factor_of(v_scale, entry), of_output, head, start_m, rows, QUERIES,
           BLOCK_M, DV, PACKED)  # fmt: skip


@tawa.jit(do_not_specialize=("QUERIES", "splits"))
def combine_splits(
    parts: Any, part_lse: Any, out: Any, lse: Any, QUERIES: Any, HEADS: Any, splits: Any,
    batch_stride: Any, head_stride: Any, row_stride: Any,
    MOST_SPLITS: tl.constexpr, DV: tl.constexpr,
):  # fmt: skip
    """One program adds up the parts of one row, each weighted by its share of exponentials.

    `parts` is [splits, rows, DV] and `part_lse` [splits, rows], where rows are those of all heads
    and batches, one a program; `out` has DV contiguous and strides in elements. All loads are
    independent: where there are fewer than MOST_SPLITS, the last one is loaded again.
    """
    row, rows = tl.program_id(0), tl.num_programs(0).to(tl.int64)
    columns = tl.arange(0, DV)
    top = tl.load(part_lse + row)
    for split in tl.static_range(1, MOST_SPLITS):
        top = tl.maximum(top, tl.load(part_lse + tl.minimum(split, splits - 1) * rows + row))
    known = 0.0 if top == -float("inf") else top
    acc = tl.zeros((DV,), tl.float32)
    total = 0.0
    for split in tl.static_range(MOST_SPLITS):
        at = tl.minimum(split, splits - 1) * rows + row
        weight = tl.where(split < splits, tl.exp(tl.load(part_lse + at) - known), 0.0)
        acc += weight * tl.load(parts + at * DV + columns)
        total += weight
    query, of_head = row % QUERIES, row // QUERIES
    start = (of_head // HEADS).to(tl.int64) * batch_stride
    start += (of_head % HEADS).to(tl.int64) * head_stride + query.to(tl.int64) * row_stride
    value = acc * tl.where(total == 0, 0.0, 1.0 / total)
    tl.store(out + start + columns, value.to(out.dtype.element_ty))
    if lse is not None:
        tl.store(lse + row, known + tl.log(total))
