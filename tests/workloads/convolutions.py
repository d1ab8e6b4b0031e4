"""Convolutions of random sizes, forward and both gradients, against float64."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
from simulation import Recorded

from tawa.driver.compilation import Compilation
from tawa.driver.compiler import tile_level
from tawa.driver.host_launch import stored
from tawa.driver.jit import Kernel
from tawa.kernels.conv import ConvolutionNotPossible, conv1d, conv2d, conv3d, reference
from tawa.kernels.conv_gradients import conv_transpose, gradient_of_filters, gradient_of_images
from tawa.kernels.convolution.shapes import Convolution, convolution_of
from tawa.runtime.arrays import host_array
from tawa.runtime.launch import grid_sizes
from tawa.simulate.interpret.tile import run as run_tile

TYPES = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
}
ROUNDING = {"float16": 2e-3, "bfloat16": 1.2e-2, "float8_e4m3fn": 1.2e-2}
"""Errors that the rounding of results explains, relative to the largest result."""
CONVOLUTIONS = {3: conv1d, 4: conv2d, 5: conv3d}
EXACT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda y: np.maximum(y, 0),
    "silu": lambda y: y / (1 + np.exp(-y)),
    "relu6": lambda y: np.clip(y, 0, 6),
}


@dataclass(frozen=True)
class Drawn:
    """Shapes of images and filters, the other arguments of `conv2d`, and what ends it."""

    seed: int
    x: tuple[int, ...]
    w: tuple[int, ...]
    arguments: dict[str, Any]
    dtype: str
    ends: tuple[str, ...]

    def array(self, *shape: int, scale: float = 1.0) -> Any:
        """Random numbers, other ones for other shapes."""
        rng = np.random.default_rng([self.seed, *shape])
        return (scale * rng.standard_normal(shape)).astype(TYPES[self.dtype])

    @property
    def images(self) -> Any:
        """`x`."""
        return self.array(*self.x)

    @property
    def filters(self) -> Any:
        """`w`, scaled so that results are about 1."""
        return self.array(*self.w, scale=1 / np.sqrt(np.prod(self.w[1:])))

    @property
    def convolution(self) -> Convolution:
        """Its sizes; raises ConvolutionNotPossible."""
        return convolution_of(Shaped(self.x), Shaped(self.w), *self.arguments.values())


class Shaped:
    """A shape without elements."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


def drawn(seed: int, largest: int = 14) -> Drawn:
    """Sizes that nobody chose: odd, unaligned, filters larger than images, strides above filters.

    A few are not possible at all.
    """
    rnd = random.Random(seed)
    found = _sizes(seed, rnd, largest)
    while not _fits(found) and rnd.random() < 0.95:
        found = _sizes(seed, rnd, largest)
    return found


def _fits(case: Drawn) -> bool:
    try:
        return case.convolution.k > 0
    except ConvolutionNotPossible:
        return False


def _sizes(seed: int, rnd: random.Random, largest: int) -> Drawn:
    dimensions = rnd.choice([1, 2, 2, 2, 2, 2, 3])
    groups = rnd.choice([1, 1, 1, 1, 1, 2, 3, 4])
    own = rnd.choice([1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 20, 24, 33, 48, 64, 72])
    ours = rnd.choice([1, 2, 3, 5, 8, 10, 13, 16, 24, 31, 40, 64, 72])
    if groups > 1 and rnd.random() < 0.4:
        groups, own, ours = rnd.choice([3, 8, 20, 33]), 1, rnd.choice([1, 1, 1, 2, 3])
    most = {1: 4 * largest, 2: largest, 3: max(2, largest // 2)}[dimensions]

    def each(*choices: int) -> tuple[int, ...]:
        return tuple(rnd.choice(choices) for _ in range(dimensions))

    def sides() -> Any:
        if rnd.random() < 0.2:
            return tuple(each(0, 1, 2, 3)[:1] + each(0, 1, 2)[:1] for _ in range(dimensions))
        return each(0, 0, 1, 2, 3) if rnd.random() < 0.5 else rnd.choice([0, 0, 1, 2, 3])

    taps = each(1, 1, 2, 3, 3, 3, 5) if dimensions == 3 else each(1, 1, 2, 3, 3, 4, 5, 7)
    arguments = {
        "stride": each(1, 1, 1, 2, 3, 4), "padding": sides(), "dilation": each(1, 1, 1, 2, 3),
        "groups": groups,
    }  # fmt: skip
    x = rnd.choice([1, 1, 2, 3, 5]), *(rnd.randint(1, most) for _ in taps), own * groups
    dtype = rnd.choice(["float16", "float16", "bfloat16", "bfloat16", "float8_e4m3fn"])
    names = ("scale", "bias", "residual")
    ends = [name for name in names if rnd.random() < 0.3] + rnd.choice(
        [[], [], *([e] for e in EXACT)]
    )
    return Drawn(seed, x, (ours * groups, *taps, own), arguments, dtype, tuple(ends))


@contextmanager
def launched_at(level: str) -> Generator[None]:
    """Launches inside run at a level: `tile` (only that is compiled), `hopper` or `ptx`."""
    known: dict[Any, Any] = {}

    def launch(self: Kernel, grid: Any, /, *args: Any, **kwargs: Any) -> None:
        names = [p.name for p in self.parameters]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        sizes = grid_sizes(grid(given) if callable(grid) else grid)
        request = self.request(*args, **kwargs)
        key = self, request.key
        if level == "tile":
            if key not in known:
                work = Compilation(request.options)
                known[key] = tile_level(work, self, request.types, request.constants)
            run_tile(known[key], sizes, [_held(given[name]) for name in request.types])
            return
        if key not in known:
            known[key] = self.compile(*args, **kwargs)
        plain = Recorded(
            self, sizes, tuple(map(_held, args)), {k: _held(v) for k, v in kwargs.items()}
        )
        plain.run(known[key], level)

    before = Kernel._launch  # pyright: ignore
    Kernel._launch = launch  # pyright: ignore
    try:
        yield
    finally:
        Kernel._launch = before


def _held(value: Any) -> Any:
    """An argument as the simulator takes it, of NumPy or PyTorch."""
    return host_array(value) if hasattr(value, "data_ptr") else stored(value)


def verdict(case: Drawn, passes: tuple[str, ...] = ("forward", "images", "filters")) -> str:
    """`right`, `refused` (as it should be), or what is wrong with which pass."""
    try:
        case.convolution  # noqa: B018
    except ConvolutionNotPossible:
        return "refused" if _refused(case) else "WRONG: it was not refused"
    narrow = case.dtype == "float8_e4m3fn"
    blocks = not case.w[-1] % 32 and not case.w[0] // case.arguments["groups"] % 16
    if narrow and case.arguments["groups"] > 1 and not case.convolution.depthwise and not blocks:
        return "refused" if _refused(case) else "WRONG: it was not refused"
    for name in passes if not narrow else ("forward",):
        work, exact = _work(case, name)
        found = work()
        wrong = error_of(found, exact, ROUNDING[case.dtype])
        if wrong:
            return f"WRONG: {name}: {wrong}"
    return "right"


def _refused(case: Drawn) -> bool:
    try:
        CONVOLUTIONS[len(case.x)](case.images, case.filters, **case.arguments)
    except ConvolutionNotPossible:
        return True
    return False


def _work(case: Drawn, name: str) -> tuple[Callable[[], Any], np.ndarray]:
    """What is computed, and what it should give."""
    x, w, given = case.images, case.filters, case.arguments
    expected = reference(x, w, **given)
    if name == "forward":
        return _forward(case, expected)
    dy = case.array(*expected.shape)
    dx, dw = gradients(case, x, w, dy)
    if name == "images":
        return lambda: gradient_of_images(dy, w, case.x, **given), dx
    return lambda: gradient_of_filters(dy, x, case.w, **given), dw


def _forward(case: Drawn, exact: np.ndarray) -> tuple[Callable[[], Any], np.ndarray]:
    ends: dict[str, Any] = {}
    wider = case if case.dtype != "float8_e4m3fn" else replace(case, dtype="bfloat16")
    if "scale" in case.ends:
        ends["scale"] = wider.array(case.w[0])
        exact = exact * ends["scale"].astype(np.float64)
    if "bias" in case.ends:
        ends["bias"] = wider.array(case.w[0], scale=2.0)
        exact = exact + ends["bias"].astype(np.float64)
    if "residual" in case.ends:
        ends["residual"] = wider.array(*exact.shape)
        exact = exact + ends["residual"].astype(np.float64)
    for activation, meaning in EXACT.items():
        if activation in case.ends:
            ends["activation"] = activation
            exact = meaning(exact)
    work = CONVOLUTIONS[len(case.x)]
    return lambda: work(case.images, case.filters, **case.arguments, **ends), exact


def transposed(case: Drawn) -> str:
    """As `verdict`, of the transposed convolution with a bias and a function."""
    conv = case.convolution
    results = reference(case.images, case.filters, **case.arguments).shape
    y, bias = case.array(*results), case.array(conv.c)
    dx, _ = gradients(case, case.images, case.filters, y)
    rest = [  # the pixels beyond the last window are not of the result
        (n - 1) * s + d * (t - 1) + 1 - sum(p)
        for n, s, d, t, p in zip(results[1:-1], *_steps(case), strict=True)
    ]
    if min(rest) < 1:
        return "refused"
    exact = np.maximum(dx[(slice(None), *map(slice, rest))] + bias.astype(np.float64), 0)
    found = conv_transpose(y, case.filters, bias=bias, relu=True, **case.arguments)
    wrong = error_of(found, exact, ROUNDING[case.dtype])
    return f"WRONG: transposed: {wrong}" if wrong else "right"


def _steps(case: Drawn) -> tuple[Any, ...]:
    """Strides, dilations, taps and paddings of the dimensions that there are."""
    count, padding = len(case.x) - 2, case.arguments["padding"]
    padding = (padding,) * count if isinstance(padding, int) else padding
    pads = tuple((p, p) if isinstance(p, int) else p for p in padding)
    return case.arguments["stride"], case.arguments["dilation"], case.w[1:-1], pads


def error_of(found: Any, exact: np.ndarray, rounding: float) -> str:
    """What is wrong with a result, if anything."""
    if found.shape != exact.shape:
        return f"shape {found.shape}, not {exact.shape}"
    error = np.abs(found.astype(np.float64) - exact).max(initial=0)
    bound = rounding * max(1.0, np.abs(exact).max(initial=0))
    return "" if error <= bound else f"off by {error:.3g}, {bound:.2g} allowed"


def gradients(case: Drawn, x: Any, w: Any, dy: Any) -> tuple[Any, Any]:
    """Both gradients in float64, tap by tap."""
    strides, dilations, taps, pads = _steps(case)
    groups, results = case.arguments["groups"], dy.shape[1:-1]
    wide = np.pad(np.asarray(x, np.float64), ((0, 0), *pads, (0, 0)))
    dx, dw = np.zeros(wide.shape), np.zeros(w.shape)
    grouped = dw.reshape(groups, -1, *w.shape[1:])
    filters = np.asarray(w, np.float64).reshape(grouped.shape)
    split = np.asarray(dy, np.float64).reshape(-1, groups, w.shape[0] // groups)
    for at in np.ndindex(*taps):
        axes = zip(at, dilations, results, strides, strict=True)
        part = tuple(slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in axes)
        pixels = wide[:, *part].reshape(len(split), groups, -1)
        grouped[:, :, *at] = np.einsum("pgk,pgc->gkc", split, pixels)
        back = np.einsum("pgk,gkc->pgc", split, filters[:, :, *at])
        dx[:, *part] += back.reshape(*dy.shape[:-1], -1)
    inside = (slice(before, before + n) for (before, _), n in zip(pads, case.x[1:-1], strict=True))
    return dx[:, *inside], dw
