"""Attention forward for any lengths, masks and score modifications, on the public API.

    from tawa.kernels.attention import attention

    o = attention(q, k, v, causal=True)          # [batch, heads, rows, D], scaled by 1 / sqrt(D)

The kernel is the sequential program of `attention_kernel`; `configuration` chooses its tiles.
`tawa.kernels.torch_attention` makes it an operator of PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

import tawa
from tawa.base.user_frames import entry
from tawa.kernels.attention_arguments import (
    MOST_CAPTURED,
    Problem,
    check_cap,
    check_descale,
    check_number,
    check_options,
    check_output,
    check_rows,
    check_sharing,
    described,
    edges,
    make_lse,
    make_output,
    padded,
    problem_of,
)
from tawa.kernels.attention_kernel import LOG2_E, attention_forward
from tawa.kernels.attention_splits import (
    LARGE,
    Parts,
    best_splits,
    keys_of_block,
    rows_of_tile,
)
from tawa.machine.chips import SM_90A

Alignment = Literal["bottom-right", "top-left"]


@dataclass(frozen=True)
class Configuration:
    """Query rows and keys of a tile, launch options, and where rows begin to read keys.

    Tiles that run at the same time read the same keys if they all begin with the first ones
    (`ascending`), not with the last that each of them sees.
    """

    block_m: int
    block_n: int
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    ascending: bool = False
    packed: int = 1
    """Heads of one group whose queries share a tile: a divisor of `block_m` and of the group."""
    splits: int = 1
    """Programs that share the keys of a tile; a second kernel adds up what they find."""
    own_ends: bool = True
    """Whether warp groups leave out a last block that none of their own rows sees (`ascending`)."""


THREE = {"consumers": 3, "alternate": True}
"""Options of three consumers that take turns at the tensor core."""
FOUR = {"consumers": 4, "load_together": True}
"""Options of four consumers, which hide each other's waits and read each key block once."""
MANY_TILES = 8 * SM_90A.multiprocessors
"""Tiles of 128 rows from which on two CTAs a multiprocessor have several each."""
LONGEST_OF_FOUR = 8192
"""Rows up to which four consumers were measured; three have wider blocks of keys."""


@entry
def configuration(
    d: int,
    element_bytes: int = 2,
    *,
    masked: bool = False,
    modified: bool = False,
    narrow: bool = False,
    grouped: bool = False,
    queries: int = 4096,
    tiles: int = MANY_TILES,
    lse: bool = False,
) -> Configuration:
    """The configuration for a head dimension of up to 256, after measurements on an H100.

    `masked` says that rows see different keys, `modified` that scores are capped or modified (which
    takes registers), `narrow` that weights are e4m3, `grouped` that heads share keys, `lse` that
    rows' sums are stored (which takes some registers, too). A persistent kernel runs on from tile
    to tile; masked tiles, of different length, are dealt evenly. Three consumers, who take turns at
    the tensor core, read keys and values less often; their tiles of 192 rows waste more of a short
    triangle. Four, for up to 64 columns, share even more, at less power. Where there are many short
    tiles, of 128 rows, two CTAs share a multiprocessor: each works under the ends and starts of the
    other's tiles.
    """
    if element_bytes == 1 and not narrow:
        return Configuration(128, 64)
    options: dict[str, Any] = {"persistent": True}
    if masked:
        options["deal"] = "even"
    if modified and d <= 128:
        return Configuration(128, 128, options, ascending=masked and d > 64)
    if narrow:
        return _narrow(d, options, masked, queries)
    if d > 128:
        return Configuration(128, 64, options, ascending=masked)
    if d <= 64:
        return _small(options, masked, queries, tiles, lse)
    large = Configuration(192, 80 if d > 96 else 112, options | THREE, ascending=masked)
    if queries >= (8192 if grouped and masked and d > 96 else 4096):
        return large
    heads = tiles // tawa.cdiv(queries, LARGE)
    if masked:
        return Configuration(128, 64 if queries < 1024 else 128, options, ascending=True)
    fewer = _rows_of_one(192, heads, queries) < 0.85 * _rows_of_one(LARGE, heads, queries)
    return large if fewer else Configuration(128, 128, options)


def _small(
    options: dict[str, Any], masked: bool, queries: int, tiles: int, lse: bool
) -> Configuration:
    """Of head dimensions up to 64, whose exponentials take as long as the products."""
    many = 2 * tiles >= MANY_TILES and (queries >= 1024 or not masked)
    if many and not lse and queries <= LONGEST_OF_FOUR:
        heads = tiles // tawa.cdiv(queries, LARGE)
        if _rows_of_one(256, heads, queries) <= 1.04 * _rows_of_one(192, heads, queries):
            return Configuration(256, 64, options | FOUR, ascending=masked)
    if not masked or queries >= 2048:
        own_ends = queries < 4096  # of long rows it is a small part, and takes code between tiles
        return Configuration(192, 128, options | THREE, ascending=masked, own_ends=own_ends)
    if tiles < MANY_TILES:
        return Configuration(128, 128, options)
    return Configuration(128, 64, options | {"consumers": 2, "ctas_per_sm": 2}, ascending=True)


def _rows_of_one(rows: int, heads: int, queries: int) -> int:
    """Rows that the busiest multiprocessor handles in tiles of so many."""
    return tawa.cdiv(heads * tawa.cdiv(queries, rows), SM_90A.multiprocessors) * rows


def _narrow(d: int, options: dict[str, Any], masked: bool, queries: int) -> Configuration:
    """Of e4m3 products, beside which exponentials take long: wide blocks leave less between."""
    if d > 192:
        return Configuration(128, 64, options, ascending=masked)
    if d > 64:
        return Configuration(128, 128, options, ascending=masked)
    if queries >= 4096:
        return Configuration(192, 128, options | {"consumers": 3}, ascending=masked)
    return Configuration(128, 128 if masked else 256, options, ascending=masked)


@entry
def attention(
    q: Any,
    k: Any,
    v: Any,
    out: Any = None,
    *,
    causal: bool = False,
    window: tuple[int | None, int | None] | None = None,
    alignment: Alignment = "bottom-right",
    scale: float | None = None,
    softcap: float | None = None,
    score_mod: Any = None,
    captured: Sequence[Any] = (),
    descale: tuple[Any, Any, Any] | None = None,
    widen_values: bool | None = None,
    return_lse: bool = False,
    lse: Any = None,
    using: Configuration | None = None,
) -> Any:
    """softmax(scale q k^T) v, written to `out` (made if not given) and returned.

    `q` is [batch, heads, queries, D], `k` [batch, kv_heads, keys, D] and `v` [batch, kv_heads,
    keys, DV], of fp16, bf16 or fp8, on a GPU or in NumPy (simulated); each may lack the first
    dimension. `heads` is a multiple of `kv_heads`: consecutive query heads share keys and values.
    Dimensions may lie in memory in any order as long as D is contiguous and the other strides are
    multiples of 16 bytes, so transposed views of [batch, rows, heads, D] are read in place.

    - `causal`: row i sees keys up to i + offset; `window` = (left, right): keys from i + offset -
      left to i + offset + right, where None (or -1) is no bound. With `alignment` "bottom-right"
      (as FlashAttention) offset is keys - queries, so that the last row sees the last key; with
      "top-left" (as PyTorch's `is_causal`) it is 0. Rows that see no key give 0 and an LSE of -inf.
    - Scores are multiplied by `scale` (1 / sqrt(D) if not given), then become `softcap` *
      tanh(score / `softcap`), then `score_mod(score, batch, head, q_idx, k_idx, *captured)`: a
      jitted function of a tile of scores and its indices. `captured` are up to 6 arrays or numbers.
    - `descale`: factors of fp8 q, k and v: numbers, or fp32 arrays [batch, kv_heads].
    - `return_lse`: return (out, lse), with the natural logarithm of each row's sum of exponentials
      [batch, heads, queries] in fp32, written to `lse` if given.
    - `widen_values`: weight fp8 values in fp16, which is more exact and slower, instead of e4m3.
      Left as None, that is done for e5m2 alone.

    Raises AttentionSizesDoNotMatch, AttentionTypeNotSupported, AttentionOptionNotSupported and the
    errors of `tawa.TensorDescriptor`.
    """
    problem = problem_of(q, k, v)
    check_options(alignment, score_mod, captured)
    out, lse = _outputs(q, problem, out, lse, return_lse)
    mask = _mask(problem, causal, window, alignment)
    softmax = _softmax(problem, scale, softcap, score_mod, descale)
    narrow = problem.element_bytes == 1 and not problem.widens(widen_values)
    using = using or _configured(problem, mask, softmax, narrow, lse is not None)
    if problem.rows:
        arguments = {**mask, **softmax, "lse": lse, "NARROW": narrow}
        _launch(problem, (q, k, v, out), using, captured, arguments)
    return (out, lse) if return_lse else out


def _outputs(q: Any, problem: Problem, out: Any, lse: Any, return_lse: bool) -> tuple[Any, Any]:
    """The output and, if it is wanted, the log-sum-exp: as given, or made."""
    out = make_output(q, problem) if out is None else out
    check_output(out, problem)
    lse = make_lse(q, problem) if lse is None and return_lse else lse
    if lse is not None:
        check_rows("lse", lse, problem.out_shape[:-1])
    return out, lse


def _mask(
    problem: Problem,
    causal: bool,
    window: tuple[int | None, int | None] | None,
    alignment: Alignment,
) -> dict[str, Any]:
    """The kernel's arguments for which keys a row sees."""
    left, right = edges(causal, window)
    offset = 0 if alignment == "top-left" else problem.keys - problem.queries
    return {"left": left, "right": right, "offset": offset}


def _configured(
    problem: Problem, mask: dict[str, Any], softmax: dict[str, Any], narrow: bool, lse: bool
) -> Configuration:
    """The configuration for these arguments of the kernel."""
    using = configuration(
        max(problem.d, problem.dv),
        problem.element_bytes,
        masked=mask["left"] is not None or mask["right"] is not None,
        modified=softmax["cap"] is not None or softmax["SCORE_MOD"] is not None,
        narrow=narrow,
        grouped=problem.heads > problem.kv_heads,
        queries=problem.queries,
        tiles=tawa.cdiv(problem.queries, LARGE) * problem.heads * problem.batch,
        lse=lse,
    )
    group = problem.heads // problem.kv_heads if softmax["SCORE_MOD"] is None else 1
    return _for_few_rows(problem, group, using, mask)


def _for_few_rows(
    problem: Problem, group: int, using: Configuration, mask: dict[str, Any]
) -> Configuration:
    """The configuration unless tiles are mostly empty, or too few for the device."""
    d = max(problem.d, problem.dv)
    block_m, packed = rows_of_tile(group, problem.queries, d)
    rows = block_m // packed
    tiles = tawa.cdiv(problem.queries, rows) * problem.heads // packed * problem.batch
    seen = problem.keys
    if mask["left"] is not None and mask["right"] is not None:
        seen = max(0, min(seen, mask["left"] + mask["right"] + rows))
    block_n = keys_of_block(using.block_n, packed, d, problem.element_bytes)
    splits = best_splits(tiles, tawa.cdiv(seen, block_n))
    if splits == 1 and packed == 1 and block_m == LARGE:
        return using
    options = {"persistent": True} if tiles * splits > SM_90A.multiprocessors else {}
    return Configuration(block_m, block_n, options, packed=packed, splits=splits)


def _softmax(
    problem: Problem, scale: float | None, softcap: float | None, score_mod: Any, descale: Any
) -> dict[str, Any]:
    """The kernel's arguments for how scores become weights."""
    factor = check_number("scale", problem.d**-0.5 if scale is None else scale)
    cap = check_cap(softcap)
    q_scale, k_scale, v_scale = check_descale(descale, problem)
    # The maximum is taken of unscaled scores, which a factor above zero does not reorder.
    prescaled = factor <= 0 or cap is not None or score_mod is not None
    # A modification sees capped scores; else exponentials take the cap with their own factor.
    after = 1.0 if cap is None or score_mod is not None else cap
    return {
        "q_scale": q_scale,
        "k_scale": k_scale,
        "v_scale": v_scale,
        "prescale": factor / (cap or 1.0) if prescaled else None,
        "multiplier": after * LOG2_E if prescaled else factor * LOG2_E,
        "cap": cap,
        "SCORE_MOD": score_mod,
    }


def _launch(
    problem: Problem,
    arrays: tuple[Any, Any, Any, Any],
    using: Configuration,
    captured: Sequence[Any],
    arguments: dict[str, Any],
) -> None:
    """Describe the arrays in blocks of the configuration and launch."""
    check_sharing(problem, using.block_m, using.packed, using.splits, arguments["SCORE_MOD"])
    block_n, rows = using.block_n, using.block_m // using.packed
    d, dv = (padded(size, problem.element_bytes) for size in (problem.d, problem.dv))
    shared = (1, 1) if using.packed == 1 else (1, 1, using.packed)
    blocks = ((*shared, rows, d), (1, 1, block_n, d), (1, 1, block_n, dv), (*shared, rows, dv))
    described_ = [described(*x) for x in zip(("q", "k", "v", "out"), arrays, blocks, strict=True)]
    out, lse = described_[3], arguments["lse"]
    parts = Parts(arrays[0], problem, using.splits) if using.splits > 1 else None
    if parts is not None:
        described_[3] = described("out", parts.out, blocks[3])
        arguments = {**arguments, "lse": parts.lse}
    extra = [*captured, *([None] * (MOST_CAPTURED - len(captured)))]
    heads = problem.heads // using.packed
    grid = (tawa.cdiv(problem.queries, rows), heads, problem.batch * using.splits)
    attention_forward[grid](
        *described_,
        QUERIES=problem.queries,
        KEYS=problem.keys,
        GROUP=heads // problem.kv_heads,
        **{f"captured{i}": value for i, value in enumerate(extra)},
        **arguments,
        D=d,
        DV=dv,
        BLOCK_M=using.block_m,
        BLOCK_N=block_n,
        MASK_END=problem.keys % block_n != 0 or problem.keys == 0,
        CAPTURED=len(captured),
        ASCENDING=using.ascending,
        OWN_ENDS=using.ascending and using.own_ends,
        PACKED=using.packed,
        splits=using.splits if using.splits > 1 else None,
        **using.options,
    )
    if parts is not None:
        strides = out.strides if using.packed == 1 else (out.strides[0], *out.strides[2:4])
        parts.combine(arrays[3], lse, strides)


def reference(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    window: tuple[int | None, int | None] | None = None,
    alignment: Alignment = "bottom-right",
    scale: float | None = None,
    softcap: float | None = None,
    score_mod: Any = None,
    captured: Sequence[Any] = (),
    return_lse: bool = False,
) -> Any:
    """The same in float64, by NumPy; `score_mod` is then a function of arrays."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    group = q.shape[-3] // k.shape[-3]
    k, v = (np.repeat(x, group, axis=-3) for x in (k, v))
    scores: Any = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    rows, columns = np.arange(int(q.shape[-2]))[:, None], np.arange(int(k.shape[-2]))
    if score_mod is not None:
        batch, head = (np.arange(n).reshape(-1, 1, 1) for n in (len(q), q.shape[-3]))
        batch = batch[..., None] if q.ndim == 4 else 0
        scores = score_mod(scores, batch, head, rows, columns, *captured)
    left, right = edges(causal, window)
    rows = rows + (int(k.shape[-2] - q.shape[-2]) if alignment == "bottom-right" else 0)
    if right is not None:
        scores = np.where(columns <= rows + right, scores, -np.inf)
    if left is not None:
        scores = np.where(columns >= rows - left, scores, -np.inf)
    top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    p = np.exp(scores - np.maximum(top, -1e300))
    total = p.sum(axis=-1, keepdims=True)
    out = p / np.where(total == 0, 1, total) @ v
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + top)[..., 0]
    return (out, lse) if return_lse else out
