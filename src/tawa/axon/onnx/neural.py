"""Operators of neural networks: convolutions, poolings, recurrences, attention, resizing."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tawa.axon.onnx.context import Context, IllFormed, Room, rule
from tawa.axon.onnx.structure import dims_from
from tawa.axon.onnx.values import Dims, Value, tensor
from tawa.axon.sizes.choices import smallest
from tawa.axon.sizes.conditional import unless
from tawa.axon.sizes.dims import ONE, Dim, ceil_quotient
from tawa.axon.sizes.scaled import scaled

PADDINGS = ("NOTSET", "", "SAME_UPPER", "SAME_LOWER", "VALID")


def window_positions(context: Context, sizes: Dims, kernel: list[Dim]) -> list[Dim]:
    """How often a window of the kernel's size fits, along each spatial axis.

    A convolution needs one place at least. Of a pooling window that is larger than its input, and
    of one that may lie in the padding alone, runtimes make different things.
    """
    rank = len(sizes)
    is_convolution = "Conv" in context.node.op_type
    _check_window(kernel, rank)
    strides = context.listed("strides", rank, 1, 1)
    dilations = context.listed("dilations", rank, 1, 1)
    mode = context.chosen("auto_pad", "NOTSET", *PADDINGS)
    pads = context.listed("pads", 2 * rank, 0, 0)
    if mode not in ("NOTSET", "") and any(pads):
        raise IllFormed("it has both `pads` and `auto_pad`")
    if mode == "VALID":
        pads = [0] * (2 * rank)
    rounds_up = not mode.startswith("SAME") and context.flag("ceil_mode")
    found: list[Dim] = []
    for i, size in enumerate(sizes):
        if mode.startswith("SAME"):
            # Runtimes forget the dilation when they pad the input of a pooling.
            is_plain = is_convolution or dilations[i] == 1
            found.append(ceil_quotient(size, strides[i]) if is_plain else context.fresh())
            continue
        known = kernel[i].constant
        span = ((kernel[i] if known is None else known) - 1) * dilations[i] + 1
        room = size - (span - (pads[i] + pads[i + rank]))
        context.at_least(room, 0 if is_convolution else 1 - 2 * strides[i])
        if not is_convolution and max(pads[i], pads[i + rank]) >= (kernel[i].constant or 1):
            found.append(context.fresh())
        elif rounds_up and mode == "VALID":
            # The specification rounds down here; onnxruntime rounds up.
            alike = (room % strides[i]).constant == 0
            found.append(room // strides[i] + 1 if alike else context.fresh())
        elif rounds_up:
            found.append(_begun(size, room - size, pads[i], strides[i]))
        else:
            is_sure = room.constant is None or room.constant >= 0 or is_convolution
            found.append(room // strides[i] + 1 if is_sure else context.fresh())
            context.rooms += [] if is_convolution else [Room(room, strides[i])]
    return found


def _begun(size: Dim, room: Dim, padding: int, stride: int) -> Dim:
    """How often a window fits or sticks out, but not where it would begin behind the end.

    `room` is what is more for it than the size.
    """
    if room.constant is None:
        started = (size + padding - 1) // stride + 1
        return smallest([ceil_quotient(size + room, stride) + 1, started])
    return (size + min(room.constant + stride - 1, padding - 1)) // stride + 1


def _check_window(kernel: list[Dim], rank: int) -> None:
    if len(kernel) != rank:
        raise IllFormed(f"the window has {len(kernel)} axes, and there are {rank}")
    if any(size.constant is not None and size.constant < 1 for size in kernel):
        raise IllFormed("the window has a size below 1")


def _check_groups(channels: Dim, groups: int) -> None:
    if groups < 1 or (channels.constant or 0) % groups:
        raise IllFormed(f"its channels do not fall into {groups} groups")


@rule("Conv", "ConvInteger")
def conv(context: Context) -> Value | None:
    """Convolution: channels of the input match the weights' (times groups)."""
    return _conv(context, context.dims(0), context.dims(1))


@rule("QLinearConv")
def quantised_conv(context: Context) -> Value | None:
    """Convolution of the first and fourth inputs."""
    return _conv(context, context.dims(0), context.dims(3))


@rule("DeformConv")
def deformable_conv(context: Context) -> Value | None:
    """Convolution."""
    return _conv(context, context.dims(0), context.dims(1))


def _conv(context: Context, x: Dims | None, w: Dims | None) -> Value | None:
    if x is None or w is None:
        return None
    if len(x) != len(w) or len(x) < 3:
        raise IllFormed(f"an input of {len(x)} dimensions and weights of {len(w)}")
    groups = context.attribute("group", 1)
    _check_groups(w[0], groups)
    context.equal(x[1], w[1] * groups)
    sizes = _kernel(context, w)
    return tensor([x[0], w[0], *window_positions(context, x[2:], sizes)])


def _kernel(context: Context, w: Dims) -> list[Dim]:
    """The size of a convolution's window: its weights', which `kernel_shape` may say, too."""
    given = context.attribute("kernel_shape")
    if not given:
        return list(w[2:])
    if len(given) != len(w) - 2:
        raise IllFormed(f"`kernel_shape` has {len(given)} numbers for {len(w) - 2} axes")
    return [
        size if size.constant == number else context.equal(Dim.of(number), size)
        for number, size in zip(given, w[2:], strict=True)
    ]


@rule("ConvTranspose")
def conv_transpose(context: Context) -> Value | None:
    """The transposed convolution."""
    x, w = context.dims(0), context.dims(1)
    if x is None or w is None:
        return None
    if len(x) != len(w) or len(x) < 3:
        raise IllFormed(f"an input of {len(x)} dimensions and weights of {len(w)}")
    context.equal(x[1], w[0])
    rank, groups = len(x) - 2, context.attribute("group", 1)
    _check_groups(w[0], groups)
    channels = w[1] * groups
    shape = context.attribute("output_shape")
    if shape and min(shape) < 0:
        raise IllFormed("`output_shape` has a number below 0")
    if shape:
        return tensor([x[0], channels, *(Dim.of(n) for n in shape[-rank:])])
    strides = context.listed("strides", rank, 1, 1)
    pads = context.listed("pads", 2 * rank, 0, 0)
    mode = context.chosen("auto_pad", "NOTSET", *PADDINGS)
    if mode not in ("NOTSET", "") and any(pads):
        raise IllFormed("it has both `pads` and `auto_pad`")
    dilations = context.listed("dilations", rank, 1, 1)
    extra = context.listed("output_padding", rank, 0, 0)
    sizes = _kernel(context, w)
    _check_window(sizes, rank)
    if mode.startswith("SAME"):
        spans = [(k - 1) * d + 1 for k, d in zip(sizes, dilations, strict=True)]
        same = [
            size * s
            if (span.constant or 0) >= s
            else context.fresh()
            if span.constant is not None
            else unless(size * s, context.fresh(), (span - s + 1,))
            for size, s, span in zip(x[2:], strides, spans, strict=True)
        ]  # a window that is smaller than its stride would need negative padding
        return tensor([x[0], channels, *same])
    found = [
        (size - 1) * strides[i] + (sizes[i] - 1) * dilations[i] + 1
        + extra[i] - pads[i] - pads[i + rank]
        for i, size in enumerate(x[2:])
    ]  # fmt: skip
    for size in found:
        context.at_least(size, 0)
    return tensor([x[0], channels, *found])


@rule("AveragePool", "MaxPool", "LpPool")
def pool(context: Context) -> list[Value] | None:
    """One number for each window."""
    x = context.dims(0)
    if x is None:
        return None
    if len(x) < 3:
        raise IllFormed(f"an input of {len(x)} dimensions")
    kernel = [Dim.of(n) for n in context.listed("kernel_shape", len(x) - 2, 1, 1)]
    result = tensor([*x[:2], *window_positions(context, x[2:], kernel)])
    return [result] * len(context.node.output)


@rule("MaxUnpool")
def max_unpool(context: Context) -> Value | None:
    """Back to the size before pooling: given, or the smallest possible."""
    x, indices = context.dims(0), context.dims(1)
    for dims in (x, indices):
        if dims is not None and len(dims) < 2:
            raise IllFormed(f"an input of {len(dims)} dimensions")
    if x is None:
        return None
    if context.has(2):
        return tensor(dims_from(context, 2))
    rank = len(x) - 2
    kernel = context.listed("kernel_shape", rank, 1, 1)
    strides = context.listed("strides", rank, 1, 1)
    pads = context.listed("pads", 2 * rank, 0, 0)
    sizes = [
        (size - 1) * strides[i] + kernel[i] - pads[i] - pads[i + rank]
        for i, size in enumerate(x[2:])
    ]
    return tensor([*x[:2], *sizes])


@rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(context: Context) -> Value | None:
    """One number for each channel."""
    x = context.dims(0)
    return None if x is None or len(x) < 3 else tensor([*x[:2], *([ONE] * (len(x) - 2))])


@rule("BatchNormalization")
def batch_norm(context: Context) -> list[Value] | None:
    """The input's shape; parameters have a number for each channel."""
    x = context.dims(0)
    parameters: list[Value] = []
    for index in range(1, 5):
        dims = context.ranked(index, 1)
        if x is not None and dims is not None and len(x) > 1:
            context.equal(x[1], dims[0])
        parameters.append(tensor(dims))
    return [tensor(x), parameters[2], parameters[3], *parameters[2:]]


@rule("LayerNormalization", "RMSNormalization")
def layer_norm(context: Context) -> list[Value] | None:
    """The input's shape; mean and deviation with 1 for the normalised axes.

    Scale and offset are as large as what is normalised, or 1 along an axis.
    """
    x = context.dims(0)
    if x is None:
        return None
    axis = context.axis(context.attribute("axis", -1), len(x))
    for index in (1, 2):
        parameter = (context.dims(index) if context.has(index) else None) or ()
        for own, size in zip(reversed(parameter), reversed(x[axis:]), strict=False):
            if (own.constant or 1) > 1:
                context.equal(size, own)
    statistics = tensor([*x[:axis], *([ONE] * (len(x) - axis))])
    return [tensor(x), statistics, statistics]


@rule("QuantizeLinear")
def quantize(context: Context) -> Value:
    """The input's shape."""
    wanted, zero = context.attribute("output_dtype", 0), context.value(2).element
    if wanted and zero and wanted != zero:
        raise IllFormed("`output_dtype` is not the type of the zero point")
    return tensor(context.dims(0))


@rule("Dropout")
def dropout(context: Context) -> list[Value]:
    """The input's shape, twice."""
    contents = None if context.has(2) else context.value(0).contents
    return [Value(context.dims(0), contents), tensor(context.dims(0))]


@rule("SwiGLU")
def swiglu(context: Context) -> Value:
    """The shape of both inputs."""
    return tensor(context.same(context.dims(0), context.dims(1)))


@rule("RNN", "LSTM", "GRU")
def recurrence(context: Context) -> list[Value] | None:
    """All outputs, and the last state (of an LSTM, both)."""
    x, r = context.ranked(0, 3), context.ranked(2, 3)
    if x is None:
        return None
    context.chosen("direction", "forward", "forward", "reverse", "bidirectional")
    hidden = context.attribute("hidden_size")
    size = Dim.of(hidden) if hidden is not None else r[-1] if r else context.fresh()
    both = context.attribute("direction", "forward") == "bidirectional"
    directions = Dim.of(2 if both else 1)
    _check_weights(context, x[-1], size, directions)
    if context.flag("layout"):
        every, last = [x[0], x[1], directions, size], [x[0], directions, size]
    else:
        every, last = [x[0], directions, x[1], size], [directions, x[1], size]
    return [tensor(every), tensor(last), tensor(last)]


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
"""How many products a recurrence makes of its input, and of its state."""


def _check_weights(context: Context, width: Dim, size: Dim, directions: Dim) -> None:
    """Demand of a recurrence's weights and biases that they fit its input and its state."""
    gates = GATES[context.node.op_type]
    wanted = {
        1: (directions, size * gates, width),
        2: (directions, size * gates, size),
        3: (directions, size * (2 * gates)),
    }
    for index, sizes in wanted.items():
        dims = context.ranked(index, len(sizes)) if context.has(index) else None
        for wanted_size, found in zip(sizes, dims or sizes, strict=True):
            if wanted_size is not found:
                context.equal(wanted_size, found)


@rule("Resize", "Upsample")
def resize(context: Context) -> Value | None:
    """Given sizes, or the old ones times scales, rounded down."""
    x = context.dims(0)
    if x is None:
        return None
    axes = context.axes(context.attribute("axes", list(range(len(x)))), len(x))
    scales = context.attribute("scales")
    older = context.node.op_type == "Upsample" or context.opset < 11
    if scales is None:
        scales = context.numbers(1 if older else 2)
    result = list(x)
    if context.has(3) and not older and context.sizes(3) != []:
        if scales:
            raise IllFormed("it has both scales and sizes")
        sizes = _resized(context, x, axes)
        for axis, size in zip(axes, sizes or context.fresh_dims(len(axes)), strict=True):
            result[axis] = size
        return tensor(result)
    for axis, size in zip(axes, _scaled(context, [x[axis] for axis in axes], scales), strict=True):
        result[axis] = size
    return tensor(result)


def _scaled(context: Context, sizes: list[Dim], scales: list[float] | None) -> list[Dim]:
    """Sizes times scales, rounded down. Raises IllFormed."""
    if not scales:
        return context.fresh_dims(len(sizes))
    if len(scales) != len(sizes):
        raise IllFormed(f"{len(scales)} scales for {len(sizes)} axes")
    if not all(0 < scale < math.inf for scale in scales):
        raise IllFormed("a scale is no number above 0")
    pairs = zip(sizes, scales, strict=True)
    return [scaled(size, float(np.float32(scale))) for size, scale in pairs]


def _resized(context: Context, x: Dims, axes: list[int]) -> list[Dim] | None:
    sizes = context.sizes(3)
    policy = context.attribute("keep_aspect_ratio_policy", "stretch")
    if sizes is None or policy == "stretch":
        return sizes
    numbers = [size.constant for size in sizes]
    old = [x[axis].constant for axis in axes]
    if any(n is None for n in numbers) or any(n is None for n in old):
        return None
    context.chosen("keep_aspect_ratio_policy", "stretch", "stretch", "not_larger", "not_smaller")
    ratios = [Fraction(n, o) for n, o in zip(numbers, old, strict=True) if n and o]
    if len(ratios) != len(old):
        return None
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [_rounded(context, scale, size) for size in old if size is not None]


def _rounded(context: Context, scale: Fraction, size: int) -> Dim:
    """`scale * size`, rounded; unknown if that depends on the precision of the product."""
    exact = scale * size
    single = float(np.float32(np.float32(float(scale)) * np.float32(size)))
    found = {math.floor(exact + Fraction(1, 2)), math.floor(single + 0.5), round(single)}
    return Dim.of(found.pop()) if len(found) == 1 else context.fresh()


@rule("GridSample")
def grid_sample(context: Context) -> Value | None:
    """As large as the grid."""
    x, grid = context.dims(0), context.dims(1)
    if x is None or grid is None:
        return None
    if len(x) != len(grid) or len(x) < 3:
        raise IllFormed(f"an image of {len(x)} dimensions and a grid of {len(grid)}")
    return tensor([x[0], x[1], *grid[1:-1]])


@rule("AffineGrid")
def affine_grid(context: Context) -> Value | None:
    """Coordinates for each pixel."""
    theta, sizes = context.dims(0), context.sizes(1)
    if sizes is None:
        count = context.dims(1)
        number = count[0].constant if count else None
        return None if number is None else tensor(context.fresh_dims(number))
    if theta is not None:
        context.equal(theta[0], sizes[0])
    return tensor([sizes[0], *sizes[2:], Dim.of(len(sizes) - 2)])


@rule("RoiAlign", "MaxRoiPool")
def roi_align(context: Context) -> Value | None:
    """A small image for each region."""
    x, regions = context.dims(0), context.dims(1)
    if x is None or regions is None:
        return None
    if context.node.op_type == "MaxRoiPool":
        height, width = context.listed("pooled_shape", 2, 1, 1)
    else:
        height = context.attribute("output_height", 1)
        width = context.attribute("output_width", 1)
    images = context.dims(2)
    if images is not None and context.node.op_type == "RoiAlign":
        context.equal(regions[0], images[0])
    return tensor([regions[0], x[1], Dim.of(height), Dim.of(width)])


@rule("ai.onnx.preview.training:Adagrad", "ai.onnx.preview.training:Adam",
      "ai.onnx.preview.training:Momentum")  # fmt: skip
def training_step(context: Context) -> list[Value]:
    """Updated tensors and their states, in groups as the inputs."""
    states = {"Adagrad": 1, "Adam": 2, "Momentum": 1}[context.node.op_type]
    count = (len(context.inputs) - 2) // (states + 2)
    values = [tensor(context.dims(2 + index)) for index in range(count)]
    return values * (states + 1)
