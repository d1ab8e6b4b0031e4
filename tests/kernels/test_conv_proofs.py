"""The checker proves the protocols of the convolutions' kernels: windows go back after all taps."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from convolutions import Drawn, gradients

from tawa.driver.jit import Kernel
from tawa.kernels import conv_gradients
from tawa.kernels.conv import Tiling, conv2d, reference
from tawa.kernels.convolution.depthwise_plans import Runs
from tawa.kernels.convolution.gradient_plans import Sharing
from tawa.runtime.launch import grid_sizes
from tawa.simulate.check.protocol import check

PERSISTENT = (("persistent", True),)
TURNS = (*PERSISTENT, ("ping_pong", True))
CASES = {
    "windows": (Tiling("windows", 1, 16, 8, 64, 64), {}),
    "persistent windows": (Tiling("windows", 1, 16, 8, 64, 64, PERSISTENT), {}),
    "turns": (Tiling("windows", 1, 16, 8, 64, 64, TURNS), {}),
    "planes": (Tiling("windows", 1, 8, 8, 64, 64), {"stride": 2}),
    "resident": (Tiling("resident", 1, 16, 8, 64, 64), {}),
    "taps": (Tiling("taps", 2, 8, 8, 64, 64), {}),
    "shares": (Tiling("taps", 2, 8, 8, 64, 64, (), 3), {}),
    "shares of planes": (Tiling("taps", 2, 8, 8, 64, 64, (), 4), {"stride": 2}),
    "parts": (Tiling("taps", 2, 8, 8, 64, 64, (), 1, (1, 8, 8, 32)), {}),
    "parts of planes": (Tiling("taps", 4, 8, 8, 64, 64, (), 1, (2, 4, 8, 16)), {"stride": 2}),
    "groups": (Tiling("windows", 1, 16, 8, 32, 32), {"groups": 2}),
    "gathered": (None, {"groups": 8, "stride": 3}),
    "depthwise": (None, {"groups": 64, "stride": 3}),
    "blocks of runs": (Runs(16, 4, 32, 3, rows=4), {"groups": 64}),
    "blocks with a stride": (Runs(4, 2, 64, 3, rows=3), {"groups": 64, "stride": 2}),
}
SHARINGS = {
    "windows": (Sharing(3, 64, 64, (1, 8, 8), 2, windows=True), 3),
    "windows of a column": (Sharing(2, 64, 64, (1, 8, 8), 2, windows=True), 1),
    "taps": (Sharing(1, 64, 64, (1, 8, 8), 2, windows=False), 3),
}
TURNED_BACK = {
    "windows": (Tiling("windows", 1, 8, 8, 32, 64), (32, 3, 3, 64)),
    "resident": (Tiling("resident", 1, 8, 8, 32, 64), (32, 3, 3, 64)),
    "taps": (Tiling("taps", 1, 8, 8, 96, 64), (96, 3, 2, 72)),
}
generator = np.random.default_rng(0)


def half(*shape: int) -> np.ndarray:
    return (generator.standard_normal(shape) / 4).astype(np.float16)


@contextmanager
def proved(launches: list[str] | None = None) -> Iterator[None]:
    """Every launch inside is proved, on two multiprocessors, and computes what it computes.

    `launches` gets the kernels' names.
    """

    def launch(self: Kernel, grid: Any, /, *args: Any, **kwargs: Any) -> None:
        names = [p.name for p in self.parameters]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        compiled = self.compile(*args, **kwargs)
        values = [given[name] for name in compiled.spec.arguments]
        report = check(compiled.module("hopper"), grid_sizes(grid), values, multiprocessors=2)
        assert not report.cut
        if launches is not None:
            launches.append(self.__name__)

    before = Kernel._launch  # pyright: ignore
    Kernel._launch = launch  # pyright: ignore
    try:
        yield
    finally:
        Kernel._launch = before


@pytest.mark.parametrize("name", CASES)
def test_proved(name: str):
    tiling, steps = CASES[name]
    x = half(2, 18, 18, 64) if tiling else half(1, 9, 9, 64)
    w = half(64, 3, 3, 64 // steps.get("groups", 1))
    with proved():
        y = conv2d(x, w, None, tiling, **steps)
    assert np.abs(y - reference(x, w, **steps)).max() < 1e-2


@pytest.mark.parametrize("options", [(), PERSISTENT])
def test_tiles_of_the_last_wave_are_shared(options: Any, monkeypatch: pytest.MonkeyPatch):
    """The last of four tiles, by two programs, which end with all that a result may have."""
    monkeypatch.setattr(Tiling, "whole_tiles", lambda self, conv, chip: self.tiles(conv) - 1)
    x, w, bias = half(1, 8, 14, 64), half(40, 2, 2, 64), half(40)
    residual = half(1, 7, 13, 40)
    tiling = Tiling("taps", 1, 8, 8, 32, 64, options, 2)
    with proved():
        y = conv2d(x, w, None, tiling, bias=bias, residual=residual, relu=True)
    exact = reference(x, w) + bias.astype(float) + residual.astype(float)
    assert np.abs(y - np.maximum(exact, 0)).max() < 1e-2


@pytest.mark.parametrize("options", [(), PERSISTENT])
def test_tiles_of_the_last_wave_are_done_in_parts(options: Any, monkeypatch: pytest.MonkeyPatch):
    """The last of four tiles, by a launch of its own, with all that a result may have."""
    monkeypatch.setattr(Tiling, "whole_tiles", lambda self, conv, chip: self.tiles(conv) - 1)
    x, w, bias = half(2, 8, 14, 64), half(40, 2, 2, 64), half(40)
    residual = half(2, 7, 13, 40)
    tiling = Tiling("taps", 2, 8, 8, 32, 64, options, 1, (1, 8, 8, 16))
    launches: list[str] = []
    with proved(launches):
        y = conv2d(x, w, None, tiling, bias=bias, residual=residual, relu=True)
    exact = reference(x, w) + bias.astype(float) + residual.astype(float)
    assert np.abs(y - np.maximum(exact, 0)).max() < 1e-2
    assert launches == ["conv_taps", "conv_taps"]


@pytest.mark.parametrize("name", SHARINGS)
def test_the_gradient_of_filters_is_proved(name: str):
    sharing, taps = SHARINGS[name]
    x, dy = half(2, 10, 7 + taps, 64), half(2, 8, 8, 64)
    with proved():
        dw = conv_gradients.gradient_of_filters(dy, x, (64, 3, taps, 64), None, sharing)
    pixels = x[:, 1:9, taps - 1 : taps + 7]
    exact = np.einsum("npqk,npqc->kc", *(v.astype(float) for v in (dy, pixels)))
    assert np.abs(dw[:, 1, taps - 1] - exact).max() < 1e-2


@pytest.mark.parametrize("name", TURNED_BACK)
def test_the_gradient_of_images_reads_filters_where_they_lie(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(conv_gradients, "exchanged", None)
    tiling, (c, r, s, k) = TURNED_BACK[name]
    dy, w = half(1, 14, 14, k), half(k, r, s, c)
    with proved():
        dx = conv_gradients.gradient_of_images(dy, w, (1, 13 + r, 13 + s, c), None, tiling)
    turned = w[:, ::-1, ::-1].transpose(3, 1, 2, 0)
    assert np.abs(dx - reference(dy, turned, padding=(r - 1, s - 1))).max() < 1e-2


PLANES = {
    "three by three": ((1, 9, 12, 32), (64, 3, 3, 32), {"stride": 2, "padding": 1}),
    "one by one": ((2, 9, 8, 32), (64, 1, 1, 32), {"stride": (2, 1)}),
    "in groups": ((1, 7, 9, 64), (64, 3, 4, 32), {"stride": (2, 3), "groups": 2}),
}


@pytest.mark.parametrize("name", PLANES)
def test_planes_of_the_gradient_of_images_are_one_launch(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    """Sums of other lengths, one of none, in persistent programs that each take several."""
    monkeypatch.setattr(conv_gradients, "exchanged", None)
    shape, taps, steps = PLANES[name]
    y = reference(np.zeros(shape), np.zeros(taps), **steps).shape
    dy, w = half(*y), half(*taps)
    launches: list[str] = []
    with proved(launches):
        dx = conv_gradients.gradient_of_images(
            dy, w, shape, None, Tiling("taps", 1, 8, 8, 32, 32), **steps
        )
    assert launches == ["conv_planes"]
    given = {"padding": 0, "dilation": (1, 1), "groups": 1, **steps}
    stride = steps["stride"]
    given["stride"] = stride if isinstance(stride, tuple) else (stride, stride)
    case = Drawn(0, shape, taps, given, "float16", ())
    assert np.abs(dx - gradients(case, np.zeros(shape), w, dy)[0]).max() < 1e-2


def test_filters_of_every_second_tap_are_read_where_they_lie(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(conv_gradients, "exchanged", None)
    dy, w = half(1, 5, 5, 24), half(24, 3, 5, 16)
    dx = conv_gradients.gradient_of_images(dy, w, (1, 11, 13, 16), stride=2)
    apart = np.zeros((1, 9, 9, 24), np.float16)
    apart[:, ::2, ::2] = dy
    turned = w[:, ::-1, ::-1].transpose(3, 1, 2, 0)
    assert np.abs(dx - reference(apart, turned, padding=(2, 4))).max() < 1e-2


@pytest.mark.parametrize("own", [16, 3])
def test_taps_of_a_plane_share_a_window(own: int):
    x, dy = half(1, 21, 19, own), half(1, 11, 10, 32)
    sharing = Sharing(2, 64, 32, (1, 4, 8), 2, windows=True)
    dw = conv_gradients.gradient_of_filters(
        dy, x, (32, 3, 3, own), None, sharing, stride=2, padding=1
    )
    padded = np.pad(x.astype(float), ((0, 0), (1, 1), (1, 1), (0, 0)))
    for r, s in np.ndindex(3, 3):
        pixels = padded[:, r : r + 21 : 2, s : s + 19 : 2]
        exact = np.einsum("npqk,npqc->kc", dy.astype(float), pixels)
        assert np.abs(dw[:, r, s] - exact).max() < 1e-2
