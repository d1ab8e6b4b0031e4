"""Attention forward for any lengths, masks and score modifications, on the public API.

    from tawa.kernels.attention import attention

    o = attention(q, k, v, causal=True)          # [batch, heads, rows, D], scaled by 1 / sqrt(D)

The kernel is the sequential program of `attention_kernel`; `attention_tiles` chooses its tiles.
`tawa.kernels.torch_attention` makes it an operator of PyTorch.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Literal

import numpy as np

import tawa
from tawa.base.user_frames import entry
from tawa.kernels.attention_arguments import (
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
    element_type,
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
from tawa.kernels.attention_tiles import Configuration, fastest, keys_of, named_arguments
from tawa.machine.chips import SM_90A

Alignment = Literal["bottom-right", "top-left"]


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
    if problem.rows:
        arguments = {**mask, **softmax, "lse": lse, "NARROW": narrow}
        using = using or _configured(problem, element_type(out), captured, arguments)
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
    problem: Problem, out: str, captured: Sequence[Any], arguments: dict[str, Any]
) -> Configuration:
    """The configuration for these arguments of the kernel; known from the second call on."""
    bounds = arguments["left"], arguments["right"]
    there = (arguments[name] is None for name in ("cap", "lse", "prescale", "q_scale"))
    key = (attention_forward.chip, problem, out, bounds, arguments["SCORE_MOD"],
           arguments["NARROW"], len(captured), *there)  # fmt: skip
    found = _CONFIGURED.get(key)
    if found is None:
        if len(_CONFIGURED) >= MOST_KNOWN:
            _CONFIGURED.clear()
        few = _for_few_rows(problem, arguments)
        found = _CONFIGURED[key] = few or fastest(problem, out, captured, arguments)
    return found


_CONFIGURED: dict[Hashable, Configuration] = {}
MOST_KNOWN = 4096
"""Problems whose configuration is remembered."""


def _for_few_rows(problem: Problem, arguments: dict[str, Any]) -> Configuration | None:
    """The configuration where tiles are mostly empty, or too few for the device."""
    d = max(problem.d, problem.dv)
    group = problem.heads // problem.kv_heads if arguments["SCORE_MOD"] is None else 1
    block_m, packed = rows_of_tile(group, problem.queries, d)
    rows = block_m // packed
    tiles = tawa.cdiv(problem.queries, rows) * problem.heads // packed * problem.batch
    seen = problem.keys
    if arguments["left"] is not None and arguments["right"] is not None:
        seen = max(0, min(seen, arguments["left"] + arguments["right"] + rows))
    block_n = keys_of_block(keys_of(problem, arguments), packed, d, problem.element_bytes)
    splits = best_splits(tiles, tawa.cdiv(seen, block_n))
    if splits == 1 and packed == 1 and block_m == LARGE:
        return None
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
    grid, named = named_arguments(problem, using, captured, arguments)
    attention_forward[grid](*described_, **named)
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
