"""Terms of the model by which options are chosen, beside what the chip says of itself."""

from __future__ import annotations

from dataclasses import dataclass

from tawa.machine.figures import figure


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Choices:
    """Terms of `driver/choice/model.py`."""

    waits: float = figure(
        190.0,
        "fitted",
        "replays of the timing model: attention of 64x64 and 128x64 tiles, one and two CTAs",
    )
    """Cycles of an iteration whose products ordinary code waits for, beside both."""
    seen: float = figure(
        0.5,
        "fitted",
        "checkouts.jsonl: attention of 256 x 64 tiles, D = 64, 16384 rows, on an H200 takes 1,780 "
        "cycles an iteration; of 192 x 128 tiles 2,550",
    )
    """Part of them that is left where three or more warp groups fill each other's gaps."""
    together: float = figure(
        3.0,
        "fitted",
        "the same replays: the tensor core's part and ordinary code's of an iteration",
    )
    """How nearly the longer of the two is the time of both, where several warp groups work."""
    crowded: float = figure(
        1.75,
        "fitted",
        "attention-ablation.jsonl: 128 x 128 tiles of D = 128 whose loop keeps the source's order",
    )
    """The same where registers don't hold what an iteration makes beside the next one's products.

    Then each warp group does one after the other, and only others work meanwhile.
    """
    beside: float = figure(
        0.46, "fitted", "costs.jsonl, `softmax alone`: 10.3, 17.9 and 25.0 cycles an element"
    )
    """Part of the shorter pipe's cycles that one warp group cannot put beside the longer's."""
    guarded: float = figure(
        0.02,
        "fitted",
        "performance log, tiles of attention on an H200: 10% longer with a guard than without one "
        "at D = 64, none at D = 128",
    )
    """Part of an iteration by which it takes longer where it may jump over code for masks."""
    in_turn: float = figure(
        0.98,
        "measured",
        "performance log, attention of 256 x 64 tiles and four warp groups, D = 64, on an H200: "
        "0.98 on the mean of six lengths and masks; of two groups and 128 x 128 tiles 1.015",
    )
    """What an iteration takes where three or more warp groups issue products in turn."""
    spread: float = figure(
        0.015,
        "fitted",
        "choice.jsonl: attention with and without persistence, what a start does not explain",
    )
    """Part of the time by which programs that are shared out beforehand end later."""
    uneven: float = figure(
        0.055,
        "fitted",
        "choice.jsonl: attention of 128 x 64 tiles, two CTAs, with and without persistence",
    )
    """The same where two CTAs of several warp groups share a multiprocessor."""
    hidden: float = figure(
        0.31, "fitted", "choice.jsonl: products of 128 x 128 tiles, consumers that take turns"
    )
    """Part of a tile's end that the other consumer's products hide where two take turns."""
    waited: float = figure(
        0.33,
        "fitted",
        "choice.jsonl: W8A16 and W4A16 of 16 and 32 rows with one, two and four slices of K",
    )
    """Part of an iteration for which a single team of warps waits for what it asked for itself."""
    passed_on: float = figure(100.0, "fitted", "the same rows: loops of 32, 64 and 112 iterations")
    """Cycles in which a team passes its sums on to the first, and that adds them up."""
    gain: float = figure(
        0.01,
        "measured",
        "choice.jsonl, 78 kernels: with 0.01 and 0.02 what is taken is 0.3% above the best "
        "candidate on the mean, with 0.03 0.5%; a product of 8192 x 8192 x 4096 gains 3% on an "
        "H200 where 1.4% is predicted",
    )
    """Part of the time that a choice has to save for the program not to be left as written."""
