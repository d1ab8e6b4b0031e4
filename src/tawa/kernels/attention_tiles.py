"""In which tiles attention is computed: of those that may suit, the one predicted fastest.

A tile is a kernel of its own, so the compiler's choice of options looks at each, with the sizes at
hand: what an iteration takes, what waits for what, which rows are empty, how many are dealt to a
multiprocessor. The options are the compiler's then, as in any launch that leaves them open.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tawa.base.errors import TawaError
from tawa.base.indices import leading
from tawa.kernels.attention_arguments import MOST_CAPTURED, Problem, padded
from tawa.kernels.attention_kernel import attention_forward
from tawa.kernels.attention_splits import LARGE, WIDE

TILES = ((LARGE, 64), (LARGE, 128), (192, 80), (192, 112), (192, 128), (256, 64))
"""Rows and keys of a block: two to four warp groups share one."""

PRODUCT_BYTES = 32
"""Bytes along its depth that an instruction multiplies, of which a block of keys is a multiple."""

REGISTERS = {64: 240, 128: 240, 192: 160, 256: 120}
"""Of a thread, if warp groups share so many rows, beside one that loads."""

ADDRESSES = 16
"""Of these, what a thread needs for all but tiles."""

SHORT = 4096
"""Queries below which the last block of a row is a large part of all."""


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


def keys_of(problem: Problem, arguments: Mapping[str, Any]) -> int:
    """Keys of a block where few rows leave nothing to choose."""
    widened = problem.element_bytes == 1 and not arguments["NARROW"]
    return 64 if widened or max(problem.d, problem.dv) > WIDE else 128


def tiles_for(problem: Problem, arguments: Mapping[str, Any]) -> Iterable[Configuration]:
    """The tiles that may suit a kernel, with the options left to the compiler.

    Rows' sums that are stored take registers that a quarter of 256 rows does not leave, and
    modified scores those of a third of 192 rows. What cannot be held is not looked at.
    """
    masked = arguments["left"] is not None or arguments["right"] is not None
    modified = arguments["cap"] is not None or arguments["SCORE_MOD"] is not None
    most = LARGE if modified else 192 if arguments["lse"] is not None else 256
    own_ends = problem.queries < SHORT or max(problem.d, problem.dv) > 64
    step = PRODUCT_BYTES // problem.element_bytes
    for block_m, block_n in TILES:
        if block_m <= most and block_n % step == 0 and _held(problem, block_m, block_n):
            yield Configuration(block_m, block_n, {}, masked, own_ends=own_ends)


def _held(problem: Problem, rows: int, keys: int) -> bool:
    """Whether a thread has registers for its share of output, scores and weights.

    The 128 threads of a warp group hold 64 rows: each has one of any two columns' numbers.
    """
    words = problem.dv // 2 + keys // 2 + keys * problem.element_bytes // 8
    return words + ADDRESSES <= REGISTERS[rows]


_CHOSEN: dict[Hashable, Configuration] = {}


def fastest(
    problem: Problem, out: str, captured: Sequence[Any], arguments: Mapping[str, Any]
) -> Configuration:
    """The tile predicted fastest for sizes rounded up to two leading bits.

    So one call finds the same tile whatever was called before it. `out` is the output's element
    type, `arguments` what the kernel takes beside its arrays.
    """
    queries, keys = leading(problem.queries), leading(problem.keys)
    problem = replace(problem, queries=queries, keys=keys)
    arguments = {name: _rounded(value) for name, value in arguments.items()}
    kinds = map(_kind, (*captured, *arguments.values()))
    key = (attention_forward.chip, problem, out, *kinds)
    found = _CHOSEN.get(key)
    if found is None:
        tiles = tiles_for(problem, arguments)
        ranked = [(_predicted(problem, out, captured, arguments, tile), tile) for tile in tiles]
        found = _CHOSEN[key] = min(ranked, key=lambda one: one[0][0])[1]
    return found


def of_any_size(d: int, dv: int, element_type: str, *, causal: bool) -> Configuration:
    """The tile for launches whose sizes are not known, and the options: those of a large one."""
    problem = Problem(4, 16, 16, SHORT, SHORT, d, dv, element_type, True)
    scales = dict.fromkeys(("q_scale", "k_scale", "v_scale", "prescale"))
    arguments = {"left": None, "right": 0 if causal else None, "offset": 0, **scales,
                 "multiplier": 1.0, "cap": None, "SCORE_MOD": None, "lse": "*f32:16",
                 "NARROW": False}  # fmt: skip
    tile = fastest(problem, element_type, (), arguments)
    _, options = _predicted(problem, element_type, (), arguments, tile)
    return replace(tile, options=options)


def _rounded(value: Any) -> Any:
    return leading(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _kind(value: Any) -> Hashable:
    """What of an argument may decide: whether it is there, a whole number, its code."""
    decides = value is None or isinstance(value, int) or callable(value)
    return value if decides else type(value).__name__


def _predicted(
    problem: Problem,
    out: str,
    captured: Sequence[Any],
    arguments: Mapping[str, Any],
    tile: Configuration,
) -> tuple[float, dict[str, Any]]:
    """The microseconds and the best options of a launch that have room; infinite if none have."""
    grid, named = named_arguments(problem, tile, captured, arguments)
    try:
        found = attention_forward.candidates(*_kinds(problem, out, tile), grid=grid, **named)
    except TawaError:
        found = ()
    best = next((p for p in found if p.candidate.fits), None)
    return (math.inf, {}) if best is None else (best.microseconds, dict(best.candidate.options))


def _kinds(problem: Problem, out: str, using: Configuration) -> tuple[str, ...]:
    """The kinds of the descriptors of queries, keys, values and the output."""
    d, dv = (padded(size, problem.element_bytes) for size in (problem.d, problem.dv))
    rows, keys, element = using.block_m, using.block_n, problem.element_type
    return (
        f"desc<{element},1x1x{rows}x{d}>",
        f"desc<{element},1x1x{keys}x{d}>",
        f"desc<{element},1x1x{keys}x{dv}>",
        f"desc<{out},1x1x{rows}x{dv}>",
    )


def named_arguments(
    problem: Problem,
    using: Configuration,
    captured: Sequence[Any],
    arguments: Mapping[str, Any],
) -> tuple[tuple[int, int, int], dict[str, Any]]:
    """The grid of a launch, and what the kernel takes beside its descriptors."""
    d, dv = (padded(size, problem.element_bytes) for size in (problem.d, problem.dv))
    extra = [*captured, *([None] * (MOST_CAPTURED - len(captured)))]
    heads, block_n = problem.heads // using.packed, using.block_n
    rows = using.block_m // using.packed
    grid = (-(-problem.queries // rows), heads, problem.batch * using.splits)
    named = {
        "QUERIES": problem.queries,
        "KEYS": problem.keys,
        "GROUP": heads // problem.kv_heads,
        **{f"captured{i}": value for i, value in enumerate(extra)},
        **arguments,
        "D": d,
        "DV": dv,
        "BLOCK_M": using.block_m,
        "BLOCK_N": block_n,
        "MASK_END": problem.keys % block_n != 0 or problem.keys == 0,
        "CAPTURED": len(captured),
        "ASCENDING": using.ascending,
        "OWN_ENDS": using.ascending and using.own_ends,
        "PACKED": using.packed,
        "splits": using.splits if using.splits > 1 else None,
        **using.options,
    }
    return grid, named
