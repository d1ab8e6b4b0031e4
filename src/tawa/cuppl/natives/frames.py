"""Natives that walk, copy and restore frames."""

from __future__ import annotations

from tawa.cuppl.numeric.philox import philox_block
from tawa.cuppl.numeric.primitives import Context, Ints, new_object, shru
from tawa.cuppl.translation.native import native

CONTINUATION_HEADER = 2 << 20 | 2
MARK = 3


@native
def restore_draw(ctx: Context, draw: int) -> None:
    """Go back to a number of draws of this step, so that the next ones come out the same."""
    ctx.draw = draw
    if draw & 1 == 1:
        _first, second = philox_block(ctx, draw >> 1)
        ctx.spare = second
    ctx.status = 0


@native
def restore_draw_ahead(ctx: Context, draw: int) -> None:
    """`restore_draw` where draws are made ahead: they are made again when one is needed."""
    ctx.draw = draw
    ctx.made = 0
    ctx.status = 0


@native
def allocate(ctx: Context, words: int) -> Ints:
    """Some fresh heap words."""
    return new_object(ctx, 0, words)


@native
def find_mark(state: Ints, stride: int, bottom: int, top: int, prompt: int) -> int:
    """Position just above the nearest mark of a prompt, or -1."""
    position = top
    while position > bottom:
        word = state[position - stride]
        size = shru(word, 32)
        if word & 4294967295 == MARK:
            if state[position - 2 * stride] == prompt:
                return position
        position = position - (size + 1) * stride
    return -1


@native
def new_continuation(ctx: Context, prompt: int, words: int) -> Ints:
    """A continuation of some words of frames: header, size, prompt, frames."""
    out = new_object(ctx, CONTINUATION_HEADER, words + 3)
    out[1] = words
    out[2] = prompt
    return out


@native
def capture(state: Ints, stride: int, mark: int, top: int, continuation: Ints) -> None:
    """Copy the frames between a mark and the top into a continuation."""
    position = mark
    index = 3
    while position < top:
        continuation[index] = state[position]
        position = position + stride
        index = index + 1


@native
def reinstate(state: Ints, stride: int, top: int, continuation: Ints) -> int:
    """Push the frames of a continuation; returns the new top."""
    for index in range(continuation[1]):
        state[top] = continuation[index + 3]
        top = top + stride
    return top
