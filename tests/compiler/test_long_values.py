"""Values that take many instructions to make are made once, not in every turn of a loop."""

from __future__ import annotations

import tawa
import tawa.language as tl


@tawa.jit
def orbits(out, width, STEPS, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    start = (i % width).to(tl.float32) / (i + 2)
    offset = (i + 1).to(tl.float32)
    x = tl.zeros((BLOCK,), tl.float32)
    t = 0
    while (t < STEPS) & (tl.max(x, 0) < 4):
        x = x * x + start + offset
        t += 1
    tl.store(out + i, x)


def test_divisions_stay_outside_of_a_loop() -> None:
    text = orbits.compile("*f32:16", "i32", "i32", BLOCK=256).stages["hopper"]
    assert isinstance(text, str)
    before, _, loop = text.partition("scf.while")
    assert "remsi" in before
    assert "divf" in before
    assert "remsi" not in loop
    assert "divf" not in loop
    # What is quick to make is made where it is used, and takes no register meanwhile.
    assert "sitofp" in loop
