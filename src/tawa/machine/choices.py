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
    together: float = figure(
        3.0,
        "fitted",
        "the same replays: the tensor core's part and ordinary code's of an iteration",
    )
    """How nearly the longer of the two is the time of both, where several warp groups work."""
    beside: float = figure(
        0.46, "fitted", "costs.jsonl, `softmax alone`: 10.3, 17.9 and 25.0 cycles an element"
    )
    """Part of the shorter pipe's cycles that one warp group cannot put beside the longer's."""
    gain: float = figure(
        0.03,
        "measured",
        "choice.jsonl, 76 kernels: with gains of 0 to 0.03 their times are 0.935 and 0.936 of what "
        "they are as written; with 0.03 twelve of them stay as written",
    )
    """Part of the time that a choice has to save for the program not to be left as written."""
