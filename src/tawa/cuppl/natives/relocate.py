"""References of a heap, and of particles' frames, after both have come to lie elsewhere."""

from __future__ import annotations

from tawa.cuppl.natives.collect import (
    CONTINUATION_LAYOUT,
    TOP_MASK,
    marked,
    object_words,
)
from tawa.cuppl.numeric.addresses import address_of
from tawa.cuppl.numeric.primitives import Context, Ints, shru
from tawa.cuppl.translation.native import native

OLD_LOW = 0  # words of a table of two regions: where each was, and by how much it moved
OLD_HIGH = 1
MOVED = 2


@native
def moved(reference: int, regions: Ints) -> int:
    """Where a reference points now."""
    for region in range(2):
        if reference >= regions[3 * region] and reference < regions[3 * region + OLD_HIGH]:
            return reference + regions[3 * region + MOVED]
    return reference


@native
def move_words(item: Ints, first: int, words: int, mask: int, regions: Ints, objects: Ints) -> None:
    """Put the references among some words of an object right."""
    for index in range(words):
        if marked(mask, index, objects) == 1:
            item[first + index] = moved(item[first + index], regions)


@native
def move_frames(stack: Ints, bottom: int, top: int, regions: Ints, frames: Ints) -> None:
    """Put the references in a stack of frames right."""
    position = top
    while position > bottom:
        word = stack[position - 1]
        size = shru(word, 32)
        mask = frames[word & 4294967295]
        first = position - size - 1
        for index in range(size):
            if marked(mask, index, frames) == 1:
                stack[first + index] = moved(stack[first + index], regions)
        position = first


@native
def move_object(item: Ints, regions: Ints, objects: Ints, frames: Ints) -> int:
    """Put the references in an object right; returns its size."""
    layout = item[0] >> 20
    words = object_words(item, layout, objects)
    mask = objects[3 * layout + 2]
    if layout == CONTINUATION_LAYOUT:
        move_frames(item, 3, words, regions, frames)
    elif objects[3 * layout] == 1:
        size = objects[3 * layout + 1]
        for element in range(item[1]):
            move_words(item, 2 + element * size, size, mask, regions, objects)
    else:
        move_words(item, 1, words - 1, mask, regions, objects)
    return words


@native
def relocate(
    ctx: Context, states: int, particles: int, width: int, header: int, low: int, high: int,
    regions: Ints, objects: Ints, frames: Ints,
) -> None:  # fmt: skip
    """Put all references right: in particles' states, and in the objects of [low, high)."""
    for p in range(particles):
        state = address_of(states + 8 * width * p)
        if header > 2:
            state[2] = moved(state[2], regions)
        move_frames(state, header, state[0] & TOP_MASK, regions, frames)
    position = low
    while position < high:
        position = position + 8 * move_object(address_of(position), regions, objects, frames)
