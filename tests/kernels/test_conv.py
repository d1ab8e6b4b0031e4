"""`conv2d` and its gradients on NumPy arrays, in the simulator, against float64."""

import math
import random
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from convolutions import Drawn, drawn, launched_at, transposed, verdict

import tawa
import tawa.language as tl
from tawa.kernels.conv import (
    ConvolutionNotPossible,
    Tiling,
    conv1d,
    conv2d,
    conv3d,
    fold_batch_norm,
    reference,
)
from tawa.kernels.conv_copies import padded as padded_copy
from tawa.kernels.conv_explain import explain
from tawa.kernels.conv_gradients import conv_transpose, gradient_of_filters, gradient_of_images
from tawa.kernels.conv_layouts import im2col, im2win, workspace
from tawa.kernels.convolution.activations import ACTIVATIONS
from tawa.kernels.convolution.depthwise_plans import Runs, fastest, ordered
from tawa.kernels.convolution.plans import ranked
from tawa.kernels.convolution.shapes import Convolution, Depth
from tawa.kernels.gemm_operands import is_dense
from tawa.machine.chips import H100, H200


def images(seed: int, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Random fp16."""
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype(np.float16)


def close(found: np.ndarray, expected: np.ndarray) -> None:
    """To the rounding of fp16."""
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 2e-3 * max(1.0, np.abs(expected).max())


@pytest.fixture(scope="module", autouse=True)
def at_the_tile_level() -> Generator[None]:
    """Launches run what the programs mean; `test_levels` runs what they are compiled to."""
    with launched_at("tile"):
        yield


@pytest.mark.parametrize("seed", range(36))
def test_random_sizes(seed: int):
    """Of one to three dimensions, forward and both gradients: see `scripts/random_convolutions.py`."""
    case = drawn(seed, 11)
    assert verdict(case) in ("right", "refused")
    if seed % 4 == 0 and case.dtype != "float8_e4m3fn":
        assert transposed(case) in ("right", "refused")


LEVELS = {
    "windows": ((1, 10, 9, 64), (32, 3, 3, 64), {"padding": 1}, "float16", ("residual", "silu")),
    "windows of planes": ((1, 9, 8, 64), (32, 3, 3, 64), {"stride": 2}, "bfloat16", ()),
    "windows of a row": ((2, 70, 16), (16, 4, 16), {"padding": ((3, 0),)}, "float16", ()),
    "8 bits": ((1, 10, 9, 128), (32, 3, 3, 128), {"padding": 1}, "float8_e4m3fn", ("bias",)),
    "depth": ((1, 3, 9, 8, 32), (32, 3, 3, 3, 32), {"padding": ((2, 0), 1, 1)}, "float16", ()),
    "first layer": (
        (1, 11, 9, 3),
        (16, 5, 5, 3),
        {"stride": 2, "padding": 2},
        "float16",
        ("relu",),
    ),
    "narrow groups": ((1, 6, 6, 8), (12, 3, 3, 2), {"groups": 4}, "float16", ("residual",)),
    "depthwise": ((2, 7, 9, 24), (24, 3, 5, 1), {"groups": 24, "padding": (1, 2)}, "float16", ()),
    "to three channels": ((1, 8, 8, 16), (3, 3, 3, 16), {"padding": 1}, "float16", ()),
}


@pytest.mark.parametrize("name", LEVELS)
def test_levels(name: str):
    """What the kernels are compiled to: copies, barriers, and matrix instructions."""
    x, w, given, dtype, ends = LEVELS[name]
    whole = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1} | given
    count = len(x) - 2
    for key in ("stride", "dilation"):
        whole[key] = (whole[key],) * count
    with launched_at("hopper"):
        case = Drawn(0, x, w, whole, dtype, ends)
        assert verdict(case) == "right"


def test_every_tiling_gives_the_same():
    """All kernels and tiles that the model ranks compute one convolution."""
    x, w = images(0, 2, 18, 12, 32), images(1, 64, 3, 3, 32, scale=0.1)
    conv = Convolution(2, 18, 12, 32, 64, 3, 3)
    expected = reference(x, w)
    found = ranked(conv, H200, 2)
    assert {t.kernel for t in found} == {"windows", "resident", "taps"}
    drawn = random.Random(0).sample(found, 6)
    for kernel in ("windows", "resident", "taps"):
        drawn.append(next(t for t in found if t.kernel == kernel))
    for tiling in drawn:
        close(conv2d(x, w, None, tiling), expected)


TURNS = (("persistent", True), ("ping_pong", True))
MEASURED = [
    # Layers of `benchmarks/conv.py`, or their gradients of images: on an H100, the faster first.
    (Convolution(128, 24, 24, 96, 256, 5, 5), [
        ("taps", 8, 4, 4, 256, 32), ("taps", 8, 4, 4, 128, 32)]),
    (Convolution(128, 20, 20, 256, 96, 5, 5, pad=((4, 4), (4, 4))), [
        ("windows", 1, 16, 8, 96, 64, TURNS), ("taps", 2, 8, 8, 96, 64)]),
    (Convolution(128, 12, 12, 256, 512, 3, 3), [
        ("taps", 16, 2, 2, 256, 64, (), 9), ("taps", 16, 2, 4, 256, 64),
        ("taps", 16, 2, 4, 192, 64)]),
    (Convolution(128, 14, 14, 256, 256, 3, 3), [
        ("taps", 8, 4, 4, 128, 64, (), 4), ("taps", 8, 4, 4, 128, 64)]),
    (Convolution(128, 56, 56, 64, 64, 3, 3), [
        ("resident", 1, 32, 8, 64, 64), ("windows", 1, 32, 8, 64, 64),
        ("windows", 1, 16, 8, 64, 64, TURNS)]),
]  # fmt: skip


@pytest.mark.parametrize(("conv", "tilings"), MEASURED)
def test_tiles_are_ranked_as_they_were_measured(conv: Convolution, tilings: list[Any]):
    found = ranked(conv, H100, 2)
    places = [found.index(Tiling(*one)) for one in tilings]
    assert places == sorted(places)
    first = Tiling(*tilings[0])
    assert replace(found[0], split=first.split, last=None) == first


def padded(n: int, size: int, c: int, taps: int, stride: int) -> Convolution:
    pad = ((taps // 2, taps // 2),) * 2
    return Convolution(n, size, size, c, c, taps, taps, (stride, stride), pad, groups=c)


BLOCKS = [
    # Depthwise layers of EfficientNet-B0 on an H100, the faster first.
    (padded(32, 112, 32, 3, 1), [(8, 7, 32, 3, 4), (8, 8, 32, 3, 8), (4, 8, 64, 3, 8)]),
    (padded(32, 112, 96, 3, 2), [(8, 7, 64, 3, 4), (16, 8, 32, 3, 4)]),
    (padded(32, 28, 240, 5, 1), [(4, 7, 64, 5, 7), (8, 7, 32, 5, 7), (8, 7, 32, 5, 2)]),
    (padded(32, 14, 480, 5, 1), [(4, 7, 64, 5, 7), (4, 7, 64, 5, 4), (16, 8, 32, 5, 2)]),
]


@pytest.mark.parametrize(("conv", "blocks"), BLOCKS)
def test_blocks_are_ranked_as_they_were_measured(conv: Convolution, blocks: list[Any]):
    found = ordered(conv, H100, 2)
    places = [found.index(Runs(*one)) for one in blocks]
    assert places == sorted(places)


def test_bytes_of_kept_filters_are_those_of_each_program():
    """As a profiler counted them, of layers 9 and 8 of the papers."""
    nine, eight = (Convolution(128, n, n, 64, k, 3, 3) for n, k in ((56, 64), (112, 128)))
    assert Tiling("resident", 1, 32, 8, 64, 64).loads(nine, 2) == 87_719_936
    assert Tiling("resident", 1, 16, 8, 128, 64).loads(eight, 2) == 308_477_952
    assert Tiling("windows", 1, 32, 8, 64, 64).loads(nine, 2) == 210_108_416


def test_depthwise_layers_are_computed_by_blocks_where_these_fit():
    """Of EfficientNet's layers all; not filters of many taps, three dimensions, channels apart."""

    def taken(taps: int, depth: int = 1, **more: bool) -> int:
        deep = Depth(depth, min(3, depth))
        conv = Convolution(32, 28, 28, 96, 96, taps, taps, groups=96, depth=deep)
        return fastest(conv, H100, 2, **more).rows

    assert min(taken(3), taken(5)) > 1
    assert taken(9) == taken(3, 4) == taken(3, apart=True) == 0


def test_depthwise_channels_that_are_apart():
    x, w = images(0, 2, 24, 9, 11).transpose(0, 2, 3, 1), images(1, 24, 3, 3, 1, scale=0.3)
    close(conv2d(x, w, groups=24), reference(x, w, groups=24))


@pytest.mark.parametrize("level", ["tile", "hopper"])
@pytest.mark.parametrize(
    ("c", "pitch", "sides"), [(3, 8, (2, 1)), (3, 4, (0, 1)), (1, 1, (3, 4)), (5, 8, (0, 0))]
)
def test_copies_of_few_channels(level: str, c: int, pitch: int, sides: tuple[int, int]):
    """Of images that lie one after the other, apart, channel by channel, and turned."""
    dense = images(0, 3, 6, 21, c)
    apart = images(1, 3, 9, 25, c + 2)[:, 1:7, 2:23, 1 : c + 1]
    planes = images(2, 3, c, 6, 21).transpose(0, 2, 3, 1)
    turned = [dense[:, ::-1, ::-1]] if level == "tile" else []
    for x in (dense, apart, planes, *turned):
        with launched_at(level):
            found = padded_copy(x, pitch, sides)
        np.testing.assert_array_equal(found, np.pad(x, ((0, 0), (0, 0), sides, (0, pitch - c))))


def test_finish():
    x, w, scale, bias = (
        images(i, *s) for i, s in enumerate([(1, 8, 8, 16), (24, 3, 3, 16), (24,), (24,)])
    )
    w = (w * 0.1).astype(np.float16)
    expected = np.maximum(reference(x, w) * scale + bias.astype(np.float64), 0)
    close(conv2d(x, w, scale=scale, bias=bias, relu=True), expected)


def test_written_in_place_of_views():
    x, w = images(0, 1, 9, 8, 16), images(1, 32, 3, 3, 16, scale=0.1)
    out = np.full((1, 14, 6, 64), 7, np.float16)
    assert conv2d(x, w, out[:, ::2, :, 32:]) is not None
    close(out[:, ::2, :, 32:], reference(x, w))
    assert (out[:, 1::2] == 7).all()
    assert (out[..., :32] == 7).all()


def test_images_with_channels_apart():
    x, w = images(0, 2, 16, 9, 8), images(1, 16, 3, 3, 16, scale=0.1)
    x = x.transpose(0, 2, 3, 1)
    close(conv2d(x, w), reference(x, w))


def test_causal_conv1d():
    x, w = images(0, 2, 33, 16), images(1, 32, 4, 16, scale=0.2)
    y = conv1d(x, w, causal=True)
    padded = np.pad(x.astype(np.float64), ((0, 0), (3, 0), (0, 0)))
    expected = sum(padded[:, s : s + 33] @ w[:, s].T.astype(np.float64) for s in range(4))
    close(y, np.asarray(expected))


@pytest.mark.parametrize(
    ("x", "w", "arguments", "words"),
    [
        ((1, 8, 8, 16), (32, 3, 3, 8), {}, "not of the image's channels"),
        ((1, 8, 8, 16), (32, 3, 3, 8), {"groups": 3}, "groups"),
        ((1, 8, 8, 16), (32, 9, 9, 16), {}, "larger than the padded image"),
        ((1, 8, 8, 16), (32, 3, 3, 16), {"stride": 0}, "stride"),
        ((1, 8, 8, 16), (32, 3, 3, 16), {"padding": -1}, "padding"),
        ((1, 8, 8, 16), (32, 3, 3, 16), {"padding": "same"}, "padding"),
        ((1, 8, 8, 0), (32, 3, 3, 0), {}, "no channels"),
        ((8, 8, 16), (32, 3, 3, 16), {}, "four dimensions"),
    ],
)
def test_refusals(x: tuple[int, ...], w: tuple[int, ...], arguments: dict[str, Any], words: str):
    with pytest.raises(ConvolutionNotPossible, match=words):
        conv2d(images(0, *x), images(1, *w), **arguments)


@pytest.mark.parametrize(
    ("out", "words"),
    [
        (np.zeros((1, 6, 6, 32), np.int16), "`out` is of an element type"),
        (np.frombuffer(bytes(2304), np.float16).reshape(1, 6, 6, 32), "`out` is read-only"),
        (np.lib.stride_tricks.as_strided(np.zeros(4096, np.float16), (1, 6, 6, 32),
                                         (2048, 0, 64, 2)), "elements of `out` overlap"),
    ],
)  # fmt: skip
def test_outputs_that_cannot_be_written(out: np.ndarray, words: str):
    with pytest.raises(ConvolutionNotPossible, match=words):
        conv2d(images(0, 1, 8, 8, 16), images(1, 32, 3, 3, 16), out)


def test_outputs_beside_what_is_read():
    """Channels beside those that are read are apart from them; the same ones are not."""
    whole = np.concatenate([images(0, 1, 8, 8, 16), np.zeros((1, 8, 8, 16), np.float16)], axis=3)
    x, w = whole[..., :16], images(1, 16, 3, 3, 16, scale=0.1)
    expected = reference(x, w, padding=1)
    close(conv2d(x, w, whole[..., 16:], padding=1), expected)
    with pytest.raises(ConvolutionNotPossible, match="overlaps `x`"):
        conv2d(x, w, whole[..., 8:24], padding=1)
    with pytest.raises(ConvolutionNotPossible, match="overlaps `w`"):
        conv2d(x, w, w.reshape(-1)[:1024].reshape(1, 8, 8, 16), padding=1)


def test_refusals_of_ends():
    x, w = images(0, 1, 8, 8, 16), images(1, 32, 3, 3, 16)
    for arguments, words in (
        ({"activation": "softmax"}, "no known function"),
        ({"activation": "silu", "relu": True}, "two activations"),
        ({"residual": images(2, 1, 6, 6, 16)}, "`residual` is not like"),
        ({"bias": np.zeros(16, np.float16)}, "`bias` is not of the filters"),
        ({"bias": np.zeros(32, np.int32)}, "`bias` is not of the filters"),
        ({"scale": np.ones(32, np.float64)}, "`scale` is not of the filters"),
    ):
        with pytest.raises(ConvolutionNotPossible, match=words):
            conv2d(x, w, **arguments)
    with pytest.raises(ConvolutionNotPossible, match="output_padding"):
        conv_transpose(x, images(1, 16, 3, 3, 8), output_padding=1)
    with pytest.raises(ConvolutionNotPossible, match="five dimensions"):
        conv3d(x, w)
    narrow = np.zeros((1, 8, 8, 16), "float8_e4m3fn")
    with pytest.raises(ConvolutionNotPossible, match="8-bit"):
        conv2d(narrow, np.zeros((16, 3, 3, 4), "float8_e4m3fn"), groups=4)


@pytest.mark.parametrize(
    ("tiling", "groups", "words"),
    [
        (("window", 1, 8, 8, 32, 16), 1, "names no kernel"),
        (("taps", 1, 4, 8, 32, 16), 1, "32 pixels a tile"),
        (("windows", 2, 8, 8, 32, 16), 1, "2 images a tile"),
        (("taps", 1, 8, 8, 32, 32), 2, "other groups"),
        (("resident", 1, 8, 8, 32, 16), 1, "some channels alone"),
        (("windows", 1, 8, 8, 32, 32, (), 2), 1, "shares tiles"),
        (("taps", 2, 8, 8, 32, 32, (), 2, (1, 8, 8, 32)), 1, "shares tiles"),
        (("taps", 2, 8, 8, 32, 32, (), 1, (1, 8, 4, 32)), 1, "no tiles"),
        (("taps", 2, 8, 8, 32, 32, (), 1, (1, 8, 8, 24)), 1, "no tiles"),
    ],
)
def test_tilings_that_would_compute_something_else(
    tiling: tuple[Any, ...], groups: int, words: str
):
    """Each would leave results out or add up too little: an error in place of these."""
    x, w = images(0, 2, 8, 8, 32), images(1, 32, 3, 3, 32 // groups)
    with pytest.raises(ConvolutionNotPossible, match=f"`config` .*{words}"):
        conv2d(x, w, None, Tiling(*tiling), groups=groups)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (Runs(3, 4, 32, 3), "no block"), (Runs(4, 0, 32, 3), "no block"),
        (Runs(4, 4, 32, 3, -1), "no block"), ({"rows": 4}, "is a dict"),
    ],
)  # fmt: skip
def test_blocks_that_no_thread_computes(config: Any, words: str):
    x, w = images(0, 1, 8, 8, 32), images(1, 32, 3, 3, 1)
    with pytest.raises(ConvolutionNotPossible, match=f"`config` .*{words}"):
        conv2d(x, w, None, config, groups=32)


IMAGES, FILTERS = images(0, 1, 8, 8, 16), images(1, 32, 3, 3, 16)
RESULTS = images(2, 1, 6, 6, 32)
WRONG: dict[str, tuple[Any, str]] = {
    "x": (lambda: conv2d([[1.0]], FILTERS), "`x` is no array"),
    "w": (lambda: conv2d(IMAGES, None), "`w` is no array"),
    "out": (lambda: conv2d(IMAGES, FILTERS, [1]), "`out` is no array"),
    "bias": (lambda: conv2d(IMAGES, FILTERS, bias=1.0), "`bias` is no array"),
    "residual": (lambda: conv2d(IMAGES, FILTERS, residual=[1]), "`residual` is no array"),
    "dtype": (lambda: conv2d(IMAGES, FILTERS, dtype="half"), "`dtype` of 'half'"),
    "activation": (lambda: conv2d(IMAGES, FILTERS, activation=abs), "`activation` is no function"),
    "causal": (
        lambda: conv1d(IMAGES[0], FILTERS[:, 0], causal=True, padding=1), "`padding` of 1"),
    "shape of images": (
        lambda: gradient_of_images(RESULTS, FILTERS, "1884"), "`shape` of '1884'"),
    "dy": (lambda: gradient_of_images(None, FILTERS, IMAGES.shape), "`dy` is no array"),
    "shape of filters": (
        lambda: gradient_of_filters(RESULTS, IMAGES, (32, 3, -3, 16)), "`shape` of .*-3"),
    "type of a gradient": (
        lambda: gradient_of_filters(RESULTS, IMAGES, FILTERS.shape, dtype="int8"), "`dtype` of"),
    "transposed": (lambda: conv_transpose(3, FILTERS), "`x` is no array"),
    "batch norm": (
        lambda: fold_batch_norm(RESULTS[0, 0, 0], *[RESULTS[0, 0, 0, :3]] * 3), "`offset` of"),
    "explained": (lambda: explain(IMAGES, 3), "`w` is no array"),
    "windows": (lambda: im2win(IMAGES, None), "`conv` is a NoneType"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_an_argument_that_does_not_fit_is_named_where_the_call_is(what: str):
    call, words = WRONG[what]
    with pytest.raises(ConvolutionNotPossible, match=words) as found:
        call()
    assert found.value.span is not None
    assert found.value.span.file == __file__


def test_refusals_of_types_and_outputs():
    x, w = images(0, 1, 8, 8, 16), images(1, 32, 3, 3, 16)
    with pytest.raises(ConvolutionNotPossible, match="element types"):
        conv2d(x.astype(np.float32), w)
    with pytest.raises(ConvolutionNotPossible, match="no room"):
        conv2d(x, w, np.zeros((1, 8, 8, 32), np.float16))
    with pytest.raises(ConvolutionNotPossible, match="bias"):
        conv2d(x, w, bias=np.zeros(16, np.float16))


@tawa.jit
def leaky(x):
    return tl.where(x > 0, x, 0.125 * x)


def test_functions_of_results():
    """By name, and the user's own."""
    x, w = images(0, 1, 5, 6, 16), images(1, 16, 2, 2, 16, scale=0.2)
    y = reference(x, w)
    exact = {
        "relu": np.maximum(y, 0), "relu6": np.clip(y, 0, 6), "sigmoid": 1 / (1 + np.exp(-y)),
        "silu": y / (1 + np.exp(-y)), "hardswish": y * np.clip(y + 3, 0, 6) / 6,
        "gelu": 0.5 * y * (1 + np.vectorize(math.erf)(y / math.sqrt(2))),
        "gelu_tanh": 0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3))),
    }  # fmt: skip
    assert set(exact) == set(ACTIVATIONS)
    for name, expected in exact.items():
        close(conv2d(x, w, activation=name), expected)
    close(conv2d(x, w, activation=leaky), np.where(y > 0, y, 0.125 * y))


def test_results_of_32_bits():
    """What rounding would take away is there."""
    x, w = images(0, 1, 9, 9, 24), images(1, 40, 3, 3, 24, scale=0.1)
    y = conv2d(x, w, dtype="float32")
    assert y.dtype == np.float32
    assert np.abs(y - reference(x, w)).max() < 1e-5


def test_a_folded_batch_norm():
    x, w = images(0, 1, 6, 6, 16), images(1, 8, 3, 3, 16, scale=0.1)
    rng = np.random.default_rng(0)
    weight, offset, mean, bias = rng.standard_normal((4, 8)).astype(np.float32)
    variance = rng.random(8).astype(np.float32)
    scale, shift = fold_batch_norm(weight, offset, mean, variance, bias)
    norm = (reference(x, w) + bias - mean) / np.sqrt(variance + 1e-5) * weight + offset
    close(conv2d(x, w, scale=scale, bias=shift), norm)


def test_images_that_begin_or_turn_where_copies_cannot():
    """Turned rows, repeated images, and channels from inside a piece of 16 bytes."""
    w = images(1, 16, 3, 3, 16, scale=0.1)
    x = images(0, 2, 8, 8, 24)
    for view in (x[:, ::-1, :, :16], x[..., 3:19], np.broadcast_to(x[:1, ..., :16], (2, 8, 8, 16))):
        close(conv2d(view, w), reference(view, w))


def test_a_tiling_by_hand():
    x, w = images(0, 1, 18, 10, 64), images(1, 32, 3, 3, 64, scale=0.1)
    close(conv2d(x, w, None, Tiling("windows", 1, 16, 8, 32, 64)), reference(x, w))


def test_layouts():
    """Windows of im2win are runs of memory, those of im2col rows of a product."""
    conv = Convolution(2, 9, 10, 4, 8, 3, 2, (2, 1))
    x, w = images(0, 2, 9, 10, 4), images(1, 8, 3, 2, 4)
    expected = reference(x, w, stride=(2, 1))
    rows = im2win(x, conv)
    runs = np.lib.stride_tricks.sliding_window_view(
        rows.reshape(2, conv.p, -1), conv.s * conv.r * conv.c, axis=2
    )[:, :, :: conv.r * conv.c]
    filters = w.transpose(0, 2, 1, 3).reshape(8, -1).astype(np.float64)
    close(runs[:, :, : conv.q].astype(np.float64) @ filters.T, expected)
    columns = im2col(x, conv).reshape(2, conv.p, conv.q, -1).astype(np.float64)
    close(columns @ w.reshape(8, -1).T.astype(np.float64), expected)
    found = workspace(conv)
    assert (found["im2win"], found["im2col"]) == (rows.nbytes, im2col(x, conv).nbytes)
    assert found["windows"] == 0
    with pytest.raises(ConvolutionNotPossible, match="padded"):
        im2win(x, Convolution(2, 9, 10, 4, 8, 3, 2, pad=((1, 1), (0, 0))))


def test_strides_of_one_element_say_nothing():
    """Filters of one tap have no gaps, whatever the strides of their taps are."""
    w = np.lib.stride_tricks.as_strided(np.ones((8, 16), np.float16), (8, 1, 1, 16), (32, 2, 2, 2))
    assert is_dense(w)
    assert not is_dense(w[::2])
    x = images(0, 1, 5, 4, 16)
    close(conv2d(x, w), reference(x, w))


def test_the_choice_is_explained_by_the_terms_it_is_made_of():
    """Of each kernel the best tile; what is taken comes first, and is what runs."""

    def of(x: tuple[int, ...], w: tuple[int, ...], **steps: Any) -> list[str]:
        arrays = (np.broadcast_to(np.float16(0), shape) for shape in (x, w))
        return explain(*arrays, chip=H200, **steps).splitlines()

    conv = Convolution(128, 56, 56, 64, 64, 3, 3)
    lines = of((128, 56, 56, 64), (64, 3, 3, 64))
    first = ranked(conv, H200, 2)[0]
    assert lines[1].startswith(f"takes {first.kernel}")
    assert f"{first.microseconds(conv, H200, 2):.1f} us" in lines[1]
    assert {line.split()[1].rstrip(":") for line in lines if line.startswith("not ")} == {
        "windows", "resident", "taps"
    } - {first.kernel}  # fmt: skip
    loads, by_taps = first.loads(conv, 2), first.loads(conv, 2, reuse=False)
    assert f"{loads} bytes from L2; by a load for each tap {by_taps}" in lines[3]
    assert lines[-1].startswith("workspace 0 bytes")
    few = of((128, 224, 224, 3), (64, 7, 7, 3), stride=2, padding=3)
    assert "are 28 channels" in few[1]
    assert few[-1].startswith(f"workspace {128 * 224 * 230 * 4 * 2} bytes")
    assert of((2, 9, 9, 24), (24, 3, 3, 1), groups=24)[1].startswith("depthwise")
    assert of((2, 9, 9, 24), (24, 3, 3, 6), groups=4)[1].startswith("gathered")
    assert of((2, 9, 9, 24), (24, 1, 1, 24))[1].startswith("a product")
