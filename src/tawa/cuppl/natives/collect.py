"""The copying collector of a program's heap (Cheney 1970), written as natives.

It runs between steps, when all that is alive hangs on the particles' frames and memo tables.
`objects` has three words a layout: whether it is a vector, its words, and a mask of the references
among them; `frames` has one mask a resume point. A mask has a bit for each word, or, where those
are too many, is minus the place in its table from which on the bits lie.
"""

from __future__ import annotations

from tawa.cuppl.numeric.addresses import address_of
from tawa.cuppl.numeric.primitives import Context, Ints, shru
from tawa.cuppl.translation.native import native

CONTINUATION_LAYOUT = 2
TOP_MASK = (1 << 34) - 1


@native
def object_words(item: Ints, layout: int, objects: Ints) -> int:
    """Size of an object with its header."""
    if layout == CONTINUATION_LAYOUT:
        return 3 + item[1]
    if objects[3 * layout] == 1:
        return 2 + item[1] * objects[3 * layout + 1]
    return 1 + objects[3 * layout + 1]


@native
def forward(ctx: Context, reference: int, low: int, high: int, objects: Ints) -> int:
    """The new address of an object in [low, high), which is copied the first time."""
    if reference < low or reference >= high:
        return reference
    item = address_of(reference)
    head = item[0]
    if head & 1 == 1:
        return head - 1
    words = object_words(item, head >> 20, objects)
    new = ctx.heap
    target = address_of(new)
    for index in range(words):
        target[index] = item[index]
    ctx.heap = new + 8 * words
    item[0] = new + 1
    return new


@native
def marked(mask: int, index: int, table: Ints) -> int:
    """Whether a word is a reference: 1 or 0."""
    if mask >= 0:
        return shru(mask, index) & 1
    return shru(table[(index >> 6) - mask], index & 63) & 1


@native
def scan_words(
    ctx: Context, item: Ints, first: int, words: int, mask: int, low: int, high: int, objects: Ints
) -> None:
    """Forward the references among some words of an object."""
    for index in range(words):
        if marked(mask, index, objects) == 1:
            item[first + index] = forward(ctx, item[first + index], low, high, objects)


@native
def scan_frames(
    ctx: Context, stack: Ints, stride: int, bottom: int, top: int, low: int, high: int,
    objects: Ints, frames: Ints,
) -> None:  # fmt: skip
    """Forward the references in a stack of frames between two positions."""
    position = top
    while position > bottom:
        word = stack[position - stride]
        size = shru(word, 32)
        mask = frames[word & 4294967295]
        first = position - (size + 1) * stride
        if mask != 0:
            for index in range(size):
                if marked(mask, index, frames) == 1:
                    at = first + index * stride
                    stack[at] = forward(ctx, stack[at], low, high, objects)
        position = first


@native
def scan_object(ctx: Context, item: Ints, low: int, high: int, objects: Ints, frames: Ints) -> int:
    """Forward the references in an object; returns its size."""
    layout = item[0] >> 20
    words = object_words(item, layout, objects)
    if layout == CONTINUATION_LAYOUT:
        scan_frames(ctx, item, 1, 3, words, low, high, objects, frames)
        return words
    mask = objects[3 * layout + 2]
    if mask == 0:
        return words
    if objects[3 * layout] == 1:
        size = objects[3 * layout + 1]
        for element in range(item[1]):
            scan_words(ctx, item, 2 + element * size, size, mask, low, high, objects)
    else:
        scan_words(ctx, item, 1, words - 1, mask, low, high, objects)
    return words


@native
def scan_from(ctx: Context, start: int, low: int, high: int, objects: Ints, frames: Ints) -> None:
    """Scan the objects copied so far until no new ones come."""
    position = start
    while position < ctx.heap:
        words = scan_object(ctx, address_of(position), low, high, objects, frames)
        position = position + 8 * words


@native
def collect(
    ctx: Context, states: int, particles: int, width: int, header: int, low: int, high: int,
    objects: Ints, frames: Ints,
) -> None:  # fmt: skip
    """Copy all that the particles refer to in [low, high) to where `ctx.heap` points."""
    start = ctx.heap
    for p in range(particles):
        state = address_of(states + 8 * width * p)
        if header > 2:
            state[2] = forward(ctx, state[2], low, high, objects)
        top = state[0] & TOP_MASK
        scan_frames(ctx, state, 1, header, top, low, high, objects, frames)
    scan_from(ctx, start, low, high, objects, frames)


@native
def collect_results(
    ctx: Context, results: int, count: int, mask: int, particles: int, low: int, high: int,
    objects: Ints,
) -> None:  # fmt: skip
    """Copy what the words of finished runs (`count` rows of `particles` words) refer to."""
    start = ctx.heap
    for row in range(count):
        if marked(mask, row, objects) == 1:
            words = address_of(results + 8 * row * particles)
            for p in range(particles):
                words[p] = forward(ctx, words[p], low, high, objects)
    scan_from(ctx, start, low, high, objects, objects)
