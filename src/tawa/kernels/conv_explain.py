"""Why a convolution runs as it does: the kernel, its tile, and what is expected of it.

from tawa.kernels.conv_explain import explain

print(explain(x, w, padding=1))
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tawa.base.user_frames import entry
from tawa.kernels.conv import few_channels, in_rows, pitch_of_rows
from tawa.kernels.conv_layouts import workspace
from tawa.kernels.convolution.depthwise_plans import fastest
from tawa.kernels.convolution.kernels import conv_taps
from tawa.kernels.convolution.plans import Tiling, planes, ranked
from tawa.kernels.convolution.shapes import (
    Convolution,
    Padding,
    Pair,
    convolution_of,
    require_array,
)
from tawa.kernels.gemm_operands import PIECE
from tawa.machine.chips import Chip

SIZE = 2
"""Bytes of an element of 16-bit types."""


@entry
def explain(
    x: Any,
    w: Any,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    chip: Chip | None = None,
) -> str:
    """How `conv2d(x, w, ...)` of 16-bit arrays is computed, as text; of one to three dimensions.

    Only shapes are looked at, as of arrays that lie one number after the other. Of each kernel that
    could run, the best tile, with its microseconds and the bytes that tiles load from L2 into
    shared memory, beside those of a load for each tap. Raises ConvolutionNotPossible.
    """
    require_array("x", x)
    require_array("w", w)
    conv = convolution_of(x, w, stride, padding, dilation, groups)
    return "\n".join(_lines(conv, chip or conv_taps.chip))


def _lines(conv: Convolution, chip: Chip) -> Iterator[str]:
    yield (
        f"{conv.n} x {conv.h} x {conv.w} pixels of {conv.c} channels, {conv.k} filters of "
        f"{conv.taps} taps: {conv.flops / 1e9:.3g} GFLOP"
    )
    own = conv.c // conv.groups
    if conv.depthwise:
        way = fastest(conv, chip, SIZE)
        block = f"{way.rows} x {way.run}" if way.rows else f"a row of {way.run}"
        yield (
            f"depthwise: each channel has one filter; a thread adds up {block} results of "
            f"{way.each} channels: {way.microseconds(conv, chip, SIZE):.1f} us, memory is the limit"
        )
        return
    plain = conv.stride == (1, 1) and conv.pad == ((0, 0), (0, 0)) and conv.groups == 1
    if conv.taps == 1 and plain and conv.depth.flat:
        yield "a product of matrices, pixels by channels (`matmul`)"
        return
    found, used = workspace(conv, SIZE), 0
    if few_channels(conv):
        pitch, sides = pitch_of_rows(conv, PIECE // SIZE)
        used = conv.n * conv.depth.size * conv.h * (conv.w + sum(sides)) * pitch * SIZE
        yield f"few channels: the {conv.s} pixels under a row of taps are {conv.s * pitch} channels"
        conv = in_rows(conv, pitch)
    tilings = ranked(conv, chip, SIZE)
    if not tilings or (conv.groups > 1 and own % (PIECE // SIZE)):
        yield f"gathered: {own} channels of a group are no blocks, pixels are loaded one by one"
        return
    yield from _ranking(conv, tilings, chip)
    used += tilings[0].workspace(conv, chip)
    yield f"workspace {used} bytes; im2win's {found['im2win']}, im2col's {found['im2col']}"


def _ranking(conv: Convolution, tilings: tuple[Tiling, ...], chip: Chip) -> Iterator[str]:
    """The best tiling of each kernel, the one that is taken first."""
    best: dict[str, Tiling] = {}
    for tiling in tilings:
        best.setdefault(tiling.kernel, tiling)
    for number, tiling in enumerate(best.values()):
        one, count = tiling.iteration(conv, SIZE)
        tiles, whole = tiling.tiles(conv), tiling.whole_tiles(conv, chip)
        programs = whole + (tiles - whole) * (tiling.split if tiling.last is None else 0)
        parts = one.parts(min(programs, chip.multiprocessors), chip)
        cycles = ", ".join(f"{name} {value:.0f}" for name, value in parts.items())
        loads = tiling.loads(conv, SIZE), tiling.loads(conv, SIZE, reuse=False)
        more = " by turns" if tiling.options else ""
        yield (
            f"{'takes' if number == 0 else 'not'} {tiling.kernel}{more}: "
            f"{tiling.microseconds(conv, chip, SIZE):.1f} us, tiles of {tiling.images} x "
            f"{tiling.rows} x {tiling.columns} pixels, {tiling.filters} filters, "
            f"{tiling.channels} channels at a time"
        )
        waves = -(-programs // chip.multiprocessors)
        yield f"    {tiles} tiles in {waves} waves, each {count} iterations of cycles: {cycles}"
        if whole < tiles and tiling.last is not None:
            images, rows, columns, filters = tiling.last
            yield (
                f"    {tiles - whole} of them in {tiling.parts} parts each, by a launch of their "
                f"own, of {images} x {rows} x {columns} pixels and {filters} filters"
            )
        elif whole < tiles:
            each = -(-count // tiling.split)
            yield f"    {tiles - whole} of them by {tiling.split} programs, {each} iterations each"
        of = f"of {planes(conv)} planes " if planes(conv) > 1 else ""
        yield f"    loads {of}{loads[0]} bytes from L2; by a load for each tap {loads[1]}"
