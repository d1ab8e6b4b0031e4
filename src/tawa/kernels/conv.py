"""Convolution of NHWC images without a workspace: `conv2d`, and its gradients.

    from tawa.kernels.conv import conv2d

    y = conv2d(x, w, padding=1)

`x` is [N, H, W, C] and `w` [K, R, S, C / groups]: what PyTorch calls `channels_last`, seen in the
order in which it lies in memory. One load of a window of pixels serves all taps of the filter,
shifted, from shared memory ([kernels](convolution/kernels.py)); [plans](convolution/plans.py)
chooses kernel and tiles by the sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import tawa
from tawa.base.user_frames import entry
from tawa.kernels.conv_arguments import (
    NARROW_TYPES,
    Finish,
    activation_of,
    check_finish,
    check_output,
    describable,
    filters_of,
    made_like,
    pictures,
    pictures_of,
    readable,
    result_type,
    steps_of,
    with_room,
)
from tawa.kernels.conv_copies import padded
from tawa.kernels.conv_depthwise import conv_depthwise
from tawa.kernels.convolution.depthwise_plans import Runs
from tawa.kernels.convolution.kernels import (
    conv_gathered,
    conv_resident,
    conv_taps,
    conv_windows,
    finish_shares,
)
from tawa.kernels.convolution.plans import Tiling, check, ranked
from tawa.kernels.convolution.shapes import (
    Back,
    Convolution,
    ConvolutionNotPossible,
    Depth,
    Padding,
    Pair,
    convolution_of,
    numbers,
    require_rank,
)
from tawa.kernels.gemm import matmul
from tawa.kernels.gemm_configurations import copying
from tawa.kernels.gemm_operands import (
    PIECE,
    address,
    empty,
    is_dense,
    strides,
    transposed,
    type_name,
)

__all__ = [
    "Convolution", "ConvolutionNotPossible", "Finish", "Tiling", "conv1d", "conv2d", "conv3d",
    "fold_batch_norm", "reference",
]  # fmt: skip

FEW_CHANNELS = 8
"""Images of fewer channels are read as rows of pixels, whose channels follow each other."""
ADDED = 8, 128
"""Pixels and channels whose shares one program adds up."""
GATHERED = {"BM": 64, "BN": 64, "BK": 32}
"""The tile of gathered pixels."""

KERNELS = {"windows": conv_windows, "resident": conv_resident, "taps": conv_taps}


@entry
def conv2d(
    x: Any,
    w: Any,
    out: Any = None,
    config: Tiling | Runs | None = None,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    scale: Any = None,
    bias: Any = None,
    residual: Any = None,
    relu: bool = False,
    activation: Any = None,
    dtype: str | None = None,
) -> Any:
    """The convolution of `x` [N, H, W, C] with `w` [K, R, S, C / groups]: [N, P, Q, K].

    Elements are fp16, bf16 or fp8, sums fp32, results of the type `dtype`: that of `x`, or
    bfloat16 for fp8. A result is act(sum * scale + bias + residual): `scale` and `bias` [K], and
    `residual` [N, P, Q, K], where given; `activation` is a name of `ACTIVATIONS`, or a
    `@tawa.jit` function of a tile, and `relu` one of them. Arrays are of any library; NumPy's run
    in the simulator. `out` has room for the result, its channels together. Images whose channels
    are together, their number a multiple of 16 bytes, are read where they lie; others are copied
    first (a transposing copy for channels that are apart). Raises ConvolutionNotPossible.
    """
    require_rank(x, w, 4)
    finish = Finish(scale, bias, residual, activation_of(relu, activation))
    return convolve(x, w, out, config, (stride, padding, dilation, groups), finish, dtype)


@entry
def conv1d(
    x: Any,
    w: Any,
    out: Any = None,
    config: Tiling | Runs | None = None,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    scale: Any = None,
    bias: Any = None,
    residual: Any = None,
    relu: bool = False,
    activation: Any = None,
    dtype: str | None = None,
    causal: bool = False,
) -> Any:
    """The convolution of `x` [N, L, C] with `w` [K, S, C / groups]: [N, Q, K]; see `conv2d`.

    `padding` is a number, or a pair of before and after; `causal` pads so that a result depends on
    nothing later.
    """
    require_rank(x, w, 3)
    if causal:
        if padding != 0:
            raise ConvolutionNotPossible(
                f"`causal` says the padding, and `padding` of {padding!r} does, too",
                expected="one of the two",
            )
        (step,) = numbers(dilation, "dilation", 1, 1)
        padding = (step * (w.shape[1] - 1), 0)
    if isinstance(padding, tuple | list) and len(padding) == 2:
        padding = (tuple(padding),)  # pyright: ignore[reportAssignmentType]
    finish = Finish(scale, bias, residual, activation_of(relu, activation))
    return convolve(x, w, out, config, (stride, padding, dilation, groups), finish, dtype)


@entry
def conv3d(
    x: Any,
    w: Any,
    out: Any = None,
    config: Tiling | Runs | None = None,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    scale: Any = None,
    bias: Any = None,
    residual: Any = None,
    relu: bool = False,
    activation: Any = None,
    dtype: str | None = None,
) -> Any:
    """The convolution of `x` [N, D, H, W, C] with `w` [K, T, R, S, C / groups]: [N, DO, P, Q, K].

    The rest as in `conv2d`.

    Images of a video that is causal are padded by `padding=((T - 1, 0), ...)`: nothing is computed
    for pictures that do not exist.
    """
    require_rank(x, w, 5)
    finish = Finish(scale, bias, residual, activation_of(relu, activation))
    return convolve(x, w, out, config, (stride, padding, dilation, groups), finish, dtype)


@entry
def fold_batch_norm(
    weight: Any, offset: Any, mean: Any, variance: Any, bias: Any = None, eps: float = 1e-5
) -> tuple[Any, Any]:
    """`scale` and `bias` [K] that do what a batch norm does after a convolution with `bias`.

    (y + bias - mean) / sqrt(variance + eps) * weight + offset = y * scale + the new bias.
    """
    own = {"weight": weight, "offset": offset, "mean": mean, "variance": variance, "bias": bias}
    for name, given in own.items():
        if given is not None and tuple(given.shape) != tuple(weight.shape):
            raise ConvolutionNotPossible(
                f"`{name}` of a batch norm is not like `weight`",
                expected=f"{list(weight.shape)}, a number for each filter",
                found=f"{list(given.shape)}",
            )
    scale = weight * (variance + eps) ** -0.5
    return scale, offset + scale * ((0 if bias is None else bias) - mean)


def convolve(
    x: Any,
    w: Any,
    out: Any,
    config: Tiling | Runs | None,
    steps: tuple[Pair, Padding, Pair, int],
    finish: Finish,
    dtype: str | None,
) -> Any:
    """A convolution of one to three dimensions; `steps` are stride, padding, dilation, groups."""
    conv = convolution_of(x, w, *steps)
    given: Any = config
    if not isinstance(given, Tiling | Runs | None):
        raise ConvolutionNotPossible(
            f"`config` is a {type(config).__name__}", expected="a Tiling, Runs, or None"
        )
    made = result_type(x, w, dtype)
    results = (conv.depth.results, conv.p, conv.q)[5 - len(x.shape) :]
    if conv.depth.flat and len(x.shape) == 5:
        results = (x.shape[1], conv.p, conv.q)
    shape = (x.shape[0], *results, conv.k)
    check_finish(finish, conv.k, shape)
    if out is None:
        out = made_like(x, shape, made)
    else:
        read = {"x": x, "w": w, "scale": finish.scale, "bias": finish.bias}
        same = finish.residual is not None and strides(finish.residual) == strides(out)
        check_output(shape, out, read if same else {**read, "residual": finish.residual})
    if 0 in shape:
        return out
    if finish.residual is not None:
        finish = replace(finish, residual=pictures(finish.residual))
    view = pictures_of(out)
    target = made_like(out, (conv.pictures, *shape[-3:]), None) if view is None else view
    compute(conv, pictures(x), filters_of(w), target, finish, config)
    if view is None:
        out[...] = target.reshape(shape)
    return out


def compute(
    conv: Convolution, x: Any, w: Any, out: Any, finish: Finish, config: Tiling | Runs | None
) -> None:
    """Launch what computes a convolution whose sizes are known to fit.

    `x` and `out` have pictures [.., H, W, C], one below the other, and `w` [K, T R, S, C / groups].
    """
    if conv.depthwise:
        way = config if isinstance(config, Runs) else None
        conv_depthwise(conv, x, w, out, finish, way)
        return
    if isinstance(config, Runs):
        config = None
    if _is_product(conv, x, w, out):
        if finish.plain:
            flat = x.reshape(-1, conv.c), w.reshape(conv.k, conv.c), out.reshape(-1, conv.k)
            matmul(flat[0], transposed(flat[1]), flat[2], bias=finish.bias)
            return
        conv, x, out, finish = _in_one_row(conv, x, out, finish)
    if few_channels(conv):
        _by_rows(conv, x, w, out, finish, config)
        return
    size = x.dtype.itemsize
    unit = PIECE // size
    if conv.groups > 1 and (not ranked(conv, conv_taps.chip, size) or conv.c // conv.groups % unit):
        _gather(conv, x, w, out, finish)
        return
    given = x, w
    x = readable(x, conv.c)
    own = -(-conv.c // conv.groups // unit) * unit
    if not is_dense(w) or own * conv.groups != conv.c or address(w) % PIECE:
        w = padded(w, own)
    early = x is not given[0] or w is not given[1]
    _by_blocks(conv, (x, steps_of(x)), w, (out, own), finish, config, early=early)


def reads_turned(conv: Convolution, back: Back, w: Any, config: Tiling | None = None) -> bool:
    """Whether a convolution turned back reads filters `w` [.., K / groups] where they lie.

    If it can, and a copy with channels and filters exchanged would not let it be faster.
    """
    if not turned_blocks(conv, w):
        return False
    if config is not None:
        return back.whole or not config.keeps
    chip, size = conv_taps.chip, w.dtype.itemsize
    found = ranked(conv, chip, size)
    best = next((t for t in found if _suits(t, back)), None)
    if best is None:
        return False
    copied = copying([prod(w.shape) * size], chip)
    times = (t.microseconds(conv, chip, size) for t in (best, found[0]))
    return next(times) <= next(times) + copied


def turned_blocks(conv: Convolution, w: Any) -> bool:
    """Whether blocks of filters `w` [.., K / groups] can be read by a convolution turned back."""
    size, own = w.dtype.itemsize, conv.c // conv.groups
    if conv.depthwise or few_channels(conv) or not is_dense(w) or address(w) % PIECE:
        return False
    return not (w.shape[-1] * size % PIECE or (conv.groups > 1 and own * size % PIECE))


def _suits(tiling: Tiling, back: Back | None) -> bool:
    """Whether programs can read their filters where those lie."""
    return back is None or (tiling.reads_turned and (back.whole or not tiling.keeps))


def compute_turned(
    conv: Convolution, back: Back, x: Any, w: Any, out: Any, finish: Finish, config: Tiling | None
) -> None:
    """As `compute`, with filters [C, taps of `back`, K / groups] as `reads_turned` takes them."""
    if _is_product(conv, x, w, out) and prod(back.taps) == 1 and finish.plain:
        flat = x.reshape(-1, conv.c), w.reshape(conv.c, conv.k), out.reshape(-1, conv.k)
        matmul(*flat, bias=finish.bias)
        return
    x = readable(x, conv.c)
    _by_blocks(conv, (x, steps_of(x)), w, (out, w.shape[-1]), finish, config, back)


def _is_product(conv: Convolution, *arrays: Any) -> bool:
    """Whether it is a product of matrices: one tap, and arrays without gaps."""
    steps = conv.stride, conv.pad, conv.groups, conv.taps, conv.depth.flat
    dense = all(map(is_dense, arrays))
    return dense and steps == ((1, 1), ((0, 0), (0, 0)), 1, 1, True)


def _in_one_row(
    conv: Convolution, x: Any, out: Any, finish: Finish
) -> tuple[Convolution, Any, Any, Finish]:
    """All pixels of a convolution of one tap as one row of pixels."""
    flat = replace(conv, n=1, h=1, w=conv.n * conv.h * conv.w)
    if finish.residual is not None:
        finish = replace(finish, residual=finish.residual.reshape(1, 1, -1, conv.k))
    return flat, x.reshape(1, 1, -1, conv.c), out.reshape(1, 1, -1, conv.k), finish


def _by_rows(
    conv: Convolution, x: Any, w: Any, out: Any, finish: Finish, config: Tiling | None
) -> None:
    """Pixels of a row under a filter's row as one dimension: they overlap, and nothing is moved.

    The copy engine reads pixels `stride` apart, each with the channels of S pixels.
    """
    rows, x, steps, pitch = pixels_in_rows(conv, x)
    unit = PIECE // x.dtype.itemsize
    wide = -(-rows.c // unit) * unit
    w = padded(w, pitch, (0, wide // pitch - conv.s)).reshape(conv.k, -1, 1, wide)
    _by_blocks(rows, (x, steps), w, (out, wide), finish, config, early=True)


def few_channels(conv: Convolution) -> bool:
    """Whether pixels are read as rows."""
    return conv.c < FEW_CHANNELS and conv.groups == 1 and conv.dilation[1] == 1


def pixels_in_rows(conv: Convolution, x: Any) -> tuple[Convolution, Any, tuple[int, ...], int]:
    """The convolution whose channels are those of S pixels of a row, and one column of taps.

    With it a copy of the images with more channels, the strides that its rows are read by, and its
    channels.
    """
    pitch, sides = pitch_of_rows(conv, PIECE // x.dtype.itemsize)
    x = padded(x, pitch, sides)
    image, row, pixel, _ = strides(x)
    return in_rows(conv, pitch), x, (image, row, pixel * conv.stride[1], 1), pitch


def in_rows(conv: Convolution, pitch: int) -> Convolution:
    """The convolution whose channels are those of S pixels of a row, each with `pitch` of them."""
    return replace(
        conv, w=conv.q, c=conv.s * pitch, s=1, stride=(conv.stride[0], 1),
        pad=(conv.pad[0], (0, 0)),
    )  # fmt: skip


def pitch_of_rows(conv: Convolution, unit: int) -> tuple[int, tuple[int, int]]:
    """Channels of that copy, and its columns left and right; 16 bytes have `unit` elements."""
    pitches = (p for p in (1, 2, 4, 8, 16) if p >= conv.c and p * conv.stride[1] % unit == 0)
    pitch = next(pitches)
    left, right = conv.pad[1]
    while (conv.w + left + right) * pitch % unit:
        right += 1
    return pitch, (left, right)


def _by_blocks(
    conv: Convolution,
    image: tuple[Any, tuple[int, ...]],
    w: Any,
    to: tuple[Any, int],
    finish: Finish,
    config: Tiling | None,
    back: Back | None = None,
    *,
    early: bool = False,
) -> None:
    """Launch the fastest kernel that reads blocks; `image` has strides, `to` the filters' pitch.

    With `early` it begins while a copy before it ends, and then waits for that.
    """
    (x, steps), (out, pitch) = image, to
    unit = PIECE // out.dtype.itemsize
    made = out
    if conv.k % unit or not describable(out):
        made = made_like(out, (conv.pictures, conv.p, conv.q, -(-conv.k // unit) * unit), None)
    if config is not None:
        check(config, conv)
    found = ranked(conv, conv_taps.chip, x.dtype.itemsize, finish.bytes_of(out))
    tiling = config or next(t for t in found if _suits(t, back))
    if early:
        tiling = replace(tiling, options=(*tiling.options, ("launch_pdl", True)))
    launch(conv, tiling, (x, w, made, finish), steps, pitch, back)
    if made is not out:
        out[...] = made[..., : conv.k]


def launch(
    conv: Convolution,
    tiling: Tiling,
    arrays: tuple[Any, Any, Any, Finish],
    steps: tuple[int, ...],
    pitch: int,
    back: Back | None = None,
) -> None:
    """Launch what one tiling takes; `steps` are the image's strides, `pitch` the filters'."""
    x, w, out, finish = arrays
    whole = tiling.whole_tiles(conv, conv_taps.chip)
    if whole == tiling.tiles(conv):
        alone = replace(tiling, split=1, last=None)
        _launch_one(conv, alone, (x, w, out, None, finish), steps, pitch, back)
        return
    if tiling.split == 1:
        for part in (False, True) if whole else (True,):
            given = x, w, out, None, finish
            _launch_one(conv, tiling, given, steps, pitch, back, part=part)
        return
    shared = tiling.tiles(conv) - whole
    parts = empty(out, (shared, tiling.split, tiling.pixels, tiling.filters), "float32")
    _launch_one(conv, tiling, (x, w, out, parts, finish), steps, pitch, back)
    residual, others = _addable(finish, conv)
    ends = finish.scale, finish.bias, residual, *others
    grid = shared * tiling.pixels // ADDED[0], tawa.cdiv(tiling.filters, ADDED[1])
    finish_shares[grid](
        parts, out, *ends, conv.pictures, conv.p, conv.q, *steps_of(out)[:3], whole, conv.k,
        conv.groups, tiling.split, finish.activation, tiling.images, tiling.rows, tiling.columns,
        tiling.filters, *ADDED, launch_pdl=True,
    )  # fmt: skip


def _addable(finish: Finish, conv: Convolution) -> tuple[Any, tuple[int, ...]]:
    """The residual, whose channels lie together, and its strides."""
    residual = finish.residual
    if residual is None:
        return None, (0, 0, 0)
    residual = residual if strides(residual)[3] == 1 else padded(residual, conv.k)
    return residual, strides(residual)[:3]


def _launch_one(
    conv: Convolution,
    tiling: Tiling,
    arrays: tuple[Any, Any, Any, Any, Finish],
    steps: tuple[int, ...],
    pitch: int,
    back: Back | None,
    *,
    part: bool = False,
) -> None:
    """Launch the kernel that multiplies; the array before the last gets shares of tiles.

    With `part` for the parts of the last tiles, which a launch without it left out.
    """
    x, w, out, parts, finish = arrays
    of, tiling = tiling, tiling.part if part else tiling
    (top, _), (left, _) = conv.pad
    finish, others, other_pitch = with_room(finish, conv)
    ends = finish.scale, finish.bias, finish.residual, *others, other_pitch
    extents = [conv.n, conv.h, conv.w, conv.p, conv.q]
    constants: dict[str, Any] = {
        "C": conv.c, "K": conv.k, "R": conv.r, "S": conv.s, "STRIDE_H": conv.stride[0],
        "STRIDE_W": conv.stride[1], "DILATION_H": conv.dilation[0],
        "DILATION_W": conv.dilation[1], "PAD_H": top, "PAD_W": left, "KY": out.shape[3],
        "FC": pitch, "ACTIVATION": finish.activation, "TH": tiling.rows, "TW": tiling.columns,
        "BN": tiling.filters, "BK": tiling.channels, "BACK": back.constants if back else None,
    }  # fmt: skip
    programs, results = tiling.tiles(conv), (out,)
    if tiling.keeps:
        programs = tiling.programs_that_keep(conv, conv_taps.chip.multiprocessors)
    else:
        extents += [conv.depth.size, conv.depth.results]
        constants |= {"DEPTH": conv.depth.constants, "GROUPS": conv.groups}
    if tiling.kernel == "taps":
        whole = of.whole_tiles(conv, conv_taps.chip)
        rest, results = of.tiles(conv) - whole, (out, parts)
        if part:
            programs = rest * of.parts
        else:
            programs = whole + rest * (tiling.split if tiling.last is None else 0)
        constants |= {
            "TN": tiling.images, "SPLIT": tiling.split, "WHOLE": whole,
            "OF": (of.images, of.rows, of.columns, of.filters) if part else None,
            "FOLLOWED": tiling.last is not None,
        }  # fmt: skip
    else:
        high, wide = tiling.window(conv)
        constants |= {"WH": high, "WW": wide}
    kernel: Callable[..., Any] = KERNELS[tiling.kernel][(programs,)]
    places = dict(zip(("x_n", "x_h", "x_w", "y_n", "y_h", "y_w"), (*steps[:3], *steps_of(out)[:3]),
                      strict=True))  # fmt: skip
    options = {"launch_pdl": True} if part else dict(tiling.options)
    kernel(x, w, *results, *ends, *extents, **places, **constants, **options)


def _gather(conv: Convolution, x: Any, w: Any, out: Any, finish: Finish) -> None:
    """Any channels: pixels are loaded one by one."""
    if type_name(x.dtype) in NARROW_TYPES:
        raise ConvolutionNotPossible(
            "8-bit images are read by blocks of one group, which `groups` has none of here",
            expected=f"groups of a multiple of {2 * PIECE} channels and of {PIECE} filters",
            found=f"{conv.c // conv.groups} channels and {conv.k // conv.groups} filters in each "
            f"of {conv.groups} groups",
            hint="convert x and w to bfloat16",
        )
    if not is_dense(w):
        w = padded(w, w.shape[-1])
    if strides(x)[3] != 1:
        x = padded(x, conv.c)
    (top, _), (left, _) = conv.pad
    tiles = tawa.cdiv(conv.pictures * conv.p * conv.q, GATHERED["BM"])
    blocks = conv.groups * tawa.cdiv(conv.k // conv.groups, GATHERED["BN"])
    residual, others = _addable(finish, conv)
    ends = finish.scale, finish.bias, residual, *others, conv.k
    conv_gathered[(tiles * blocks,)](
        x, w, out, *ends, conv.n, conv.h, conv.w, conv.p, conv.q, conv.depth.size,
        conv.depth.results, conv.c, conv.k, *strides(x)[:3], *strides(out)[:3], conv.r, conv.s,
        *conv.stride, *conv.dilation, top, left, conv.depth.constants, conv.groups,
        finish.activation, **GATHERED,
    )  # fmt: skip


def reference(
    x: Any,
    w: Any,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Any:
    """The same in float64, with NumPy, tap by tap; of one to three dimensions."""
    import numpy as np

    conv = convolution_of(x, w, stride, padding, dilation, groups)
    lift = 5 - len(x.shape)
    x, w = (np.asarray(v, np.float64) for v in (x, w))
    x, w = (v.reshape(v.shape[0], *(1,) * lift, *v.shape[1:]) for v in (x, w))
    depth = conv.depth if not conv.depth.flat else Depth(x.shape[1])
    x = np.pad(x, ((0, 0), depth.pad, *conv.pad, (0, 0)))
    results = depth.results, conv.p, conv.q
    found = np.zeros((len(x), *results, groups, conv.k // groups))
    strides, dilations = (depth.stride, *conv.stride), (depth.dilation, *conv.dilation)
    for at in np.ndindex(depth.taps, conv.r, conv.s):
        axes = zip(at, dilations, results, strides, strict=True)
        part = tuple(slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in axes)
        pixels = x[:, *part].reshape(*found.shape[:5], -1)
        taps = w[:, *at].reshape(groups, conv.k // groups, -1)
        found += np.einsum("ndpqgc,gkc->ndpqgk", pixels, taps)
    return found.reshape(len(x), *results[lift:], conv.k)
