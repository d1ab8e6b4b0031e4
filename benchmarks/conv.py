"""Convolutions: forward and both gradients, beside cuDNN through PyTorch.

All contenders of a case get the same channels-last tensors, are captured in CUDA graphs, and take
turns: soak, measure, forward and backward, each execution with a cold L2 cache. Results of two
images are checked against float64 before anything is timed. `tawa` is what `conv2d` chooses;
`tawa-best` the fastest of the first tilings that its model ranks (`--tune`, 0 for none): how far
the choice is from it shows what the model misses. `cudnn` is eager PyTorch with
`benchmark = True`, `cudnn-fused` `cudnn_convolution_relu`, `torch-compile` "max-autotune".
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TWELVE = {
    1: (3, 227, 96, 11, 4), 2: (3, 231, 96, 11, 4), 3: (3, 227, 64, 7, 2),
    4: (64, 224, 64, 7, 2), 5: (96, 24, 256, 5, 1), 6: (256, 12, 512, 3, 1),
    7: (3, 224, 64, 3, 1), 8: (64, 112, 128, 3, 1), 9: (64, 56, 64, 3, 1),
    10: (128, 28, 128, 3, 1), 11: (256, 14, 256, 3, 1), 12: (512, 7, 512, 3, 1),
}  # fmt: skip
"""Channels, rows and columns, filters, taps each way, and stride of the twelve layers."""

VGG16 = [(3, 224, 64), (64, 224, 64), (64, 112, 128), (128, 112, 128), (128, 56, 256),
         (256, 56, 256), (256, 28, 512), (512, 28, 512), (512, 14, 512)]  # fmt: skip
RESNET50 = [
    (3, 224, 64, 7, 2), (64, 56, 64, 1, 1), (64, 56, 64, 3, 1), (64, 56, 256, 1, 1),
    (256, 56, 64, 1, 1), (256, 56, 128, 1, 1), (128, 56, 128, 3, 2), (256, 56, 512, 1, 2),
    (128, 28, 512, 1, 1), (512, 28, 128, 1, 1), (128, 28, 128, 3, 1), (512, 28, 256, 1, 1),
    (256, 28, 256, 3, 2), (512, 28, 1024, 1, 2), (256, 14, 1024, 1, 1), (1024, 14, 256, 1, 1),
    (256, 14, 256, 3, 1), (1024, 14, 512, 1, 1), (512, 14, 512, 3, 2), (1024, 14, 2048, 1, 2),
    (512, 7, 2048, 1, 1), (2048, 7, 512, 1, 1), (512, 7, 512, 3, 1),
]  # fmt: skip
DEPTHWISE = [(32, 112, 3, 1), (96, 112, 3, 2), (144, 56, 3, 1), (144, 56, 5, 2), (240, 28, 5, 1),
             (240, 28, 3, 2), (480, 14, 3, 1), (480, 14, 5, 1), (672, 14, 5, 1), (672, 14, 5, 2),
             (1152, 7, 5, 1), (1152, 7, 3, 1)]  # fmt: skip
"""EfficientNet-B0's: channels, rows and columns, taps, stride."""

MAX_ERROR = 2e-3
"""Relative Frobenius error against float64 above which a contender is not timed."""
SOME = 4
"""Executions by whose median tilings are ranked."""


@dataclass(frozen=True)
class Case:
    """One layer of one network."""

    layer: str
    n: int
    c: int
    size: int
    k: int
    taps: int
    stride: int
    pad: int
    groups: int = 1

    def row(self, what: str, *, bias: bool) -> dict[str, Any]:
        """What names the work."""
        shape = [self.n, self.size, self.size, self.c], [self.k, self.taps, self.taps]
        return {
            "layer": self.layer, "pass": what, "bias": bias, "dtype": "fp16", "x": shape[0],
            "w": [*shape[1], self.c // self.groups], "stride": self.stride, "pad": self.pad,
            "groups": self.groups,
        }  # fmt: skip

    @property
    def arguments(self) -> dict[str, Any]:
        """Of `conv2d`."""
        return {"stride": self.stride, "padding": self.pad, "groups": self.groups}


def cases(network: str, images: list[int]) -> Iterator[Case]:
    """The layers of a network."""
    for n in images:
        if network == "twelve":
            for number, (c, size, k, taps, stride) in TWELVE.items():
                yield Case(f"conv{number}", n, c, size, k, taps, stride, 0)
        elif network == "vgg16":
            for c, size, k in VGG16:
                yield Case(f"vgg16 {c}-{k} {size}", n, c, size, k, 3, 1, 1)
        elif network == "resnet50":
            for c, size, k, taps, stride in RESNET50:
                name = f"resnet50 {c}-{k} {size} {taps}x{taps}/{stride}"
                yield Case(name, n, c, size, k, taps, stride, taps // 2)
        elif network == "efficientnet":
            for c, size, taps, stride in DEPTHWISE:
                name = f"efficientnet {c} {size} {taps}x{taps}/{stride}"
                yield Case(name, n, c, size, c, taps, stride, taps // 2, c)


def captured(work: Callable[[], Any]) -> Callable[[], Any]:
    """The work as a CUDA graph."""
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        work()
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        work()
    return graph.replay


class Tensors:
    """The tensors of a case, channels last, in PyTorch's order and in memory's."""

    def __init__(self, case: Case, *, bias: bool) -> None:
        import torch

        last = {"memory_format": torch.channels_last}
        options: dict[str, Any] = {"device": "cuda", "dtype": torch.float16}
        shape = case.k, case.c // case.groups, case.taps, case.taps
        self.x = torch.randn(case.n, case.c, case.size, case.size, **options).contiguous(**last)
        scale = math.sqrt(case.taps**2 * shape[1])
        self.w = (torch.randn(*shape, **options) / scale).contiguous(**last)
        self.bias = torch.randn(case.k, **options) if bias else None
        p = (case.size + 2 * case.pad - case.taps) // case.stride + 1
        self.dy = torch.randn(case.n, case.k, p, p, **options).contiguous(**last)

    @staticmethod
    def nhwc(tensor: Any) -> Any:
        """The tensor in the order in which it lies."""
        return tensor.permute(0, 2, 3, 1)


def ours(case: Case, t: Tensors, what: str, config: Any = None) -> Callable[[], Any]:
    """This project's work; gives a tensor in PyTorch's order."""
    from tawa.kernels.conv import conv2d
    from tawa.kernels.conv_gradients import gradient_of_filters, gradient_of_images

    x, w, dy = map(t.nhwc, (t.x, t.w, t.dy))
    if what == "forward":
        finish = {"bias": t.bias, "relu": t.bias is not None}
        return lambda: conv2d(x, w, None, config, **finish, **case.arguments).permute(0, 3, 1, 2)
    if what == "dgrad":
        shape = tuple(x.shape)
        return lambda: gradient_of_images(dy, w, shape, **case.arguments).permute(0, 3, 1, 2)
    shape = tuple(w.shape)
    return lambda: gradient_of_filters(dy, x, shape, **case.arguments).permute(0, 3, 1, 2)


def peers(case: Case, t: Tensors, what: str, *, compiled: bool) -> dict[str, Callable[[], Any]]:
    """PyTorch's work."""
    import torch
    import torch.nn.functional as F

    aten, steps = torch.ops.aten, (case.stride,) * 2
    pads, ones = (case.pad,) * 2, (1, 1)

    def eager(x: Any, w: Any, bias: Any) -> Any:
        y = F.conv2d(x, w, bias, case.stride, case.pad, 1, case.groups)
        return F.relu(y, inplace=True) if bias is not None else y

    if what != "forward":
        mask = [what == "dgrad", what == "wgrad", False]
        place = 0 if what == "dgrad" else 1
        return {
            "cudnn": lambda: aten.convolution_backward(
                t.dy, t.x, t.w, None, steps, pads, ones, False, (0, 0), case.groups, mask
            )[place]
        }
    found: dict[str, Callable[[], Any]] = {"cudnn": lambda: eager(t.x, t.w, t.bias)}
    if t.bias is not None:
        found["cudnn-fused"] = lambda: aten.cudnn_convolution_relu(
            t.x, t.w, t.bias, steps, pads, ones, case.groups
        )
    if compiled:
        fast = torch.compile(eager, mode="max-autotune-no-cudagraphs")
        found["torch-compile"] = lambda: fast(t.x, t.w, t.bias)
    return found


def exact(case: Case, t: Tensors, what: str) -> Any:
    """The result in float64, of two images; all of them for filters."""
    import torch
    import torch.nn.functional as F

    arguments = case.stride, case.pad, 1, case.groups
    if what == "forward":
        bias = None if t.bias is None else t.bias.double()
        y = F.conv2d(t.x[:2].double(), t.w.double(), bias, *arguments)
        return F.relu(y) if bias is not None else y
    mask = [what == "dgrad", what == "wgrad", False]
    some = slice(2) if what == "dgrad" else slice(None)
    found = torch.zeros((), device="cuda")
    rows = range(0, case.n, 8) if what == "wgrad" else [0]
    for first in rows:
        part = slice(first, first + 8) if what == "wgrad" else some
        grads = torch.ops.aten.convolution_backward(
            t.dy[part].double(), t.x[part].double(), t.w.double(), None, (case.stride,) * 2,
            (case.pad,) * 2, (1, 1), False, (0, 0), case.groups, mask,
        )  # fmt: skip
        found = found + grads[0 if what == "dgrad" else 1]
    return found


def error_of(found: Any, expected: Any) -> float:
    """The relative Frobenius error of as many images as are expected."""
    found = found[: expected.shape[0]].double()
    return float((found - expected).norm() / expected.norm())


def chosen(case: Case, count: int) -> list[Any]:
    """The first tilings that the model ranks, where blocks of the image are read."""
    from tawa.kernels.conv_kernels import conv_taps
    from tawa.kernels.conv_plans import ranked
    from tawa.kernels.conv_shapes import Convolution

    if case.c < 8 or case.groups > 1:
        return []
    pad = (case.pad, case.pad)
    conv = Convolution(
        case.n, case.size, case.size, case.c, case.k, case.taps, case.taps, (case.stride,) * 2,
        (pad, pad),
    )  # fmt: skip
    return ranked(conv, conv_taps.chip, 2)[:count]


def tuned(case: Case, t: Tensors, watch: Any, expected: Any, count: int) -> tuple[Any, Any]:
    """The fastest of the first tilings, and its work."""
    from tawa import TawaError
    from tawa.runtime.timing import Timing

    best: tuple[float, Any, Any] = (math.inf, None, None)
    for tiling in chosen(case, count):
        try:
            work = ours(case, t, "forward", tiling)
            if error_of(work(), expected) > MAX_ERROR:
                print(f"    WRONG {tiling}", flush=True)
                continue
            graph = captured(work)
        except TawaError as problem:
            print(f"    {tiling}: {type(problem).__name__}", flush=True)
            continue
        median = Timing(tuple(watch.times(graph, SOME))).median
        best = min(best, (median, tiling, graph), key=lambda b: b[0])
    return best[1], best[2]


def measure(run: Any, case: Case, what: str, options: Any, *, bias: bool) -> None:
    """Check and time all contenders of one pass of one layer."""
    import torch

    from tawa.runtime.timing import Stopwatch, interleaved

    t = Tensors(case, bias=bias)
    expected = exact(case, t, what)
    watch, works, errors = Stopwatch(), {}, {}
    offers = {"tawa": ours(case, t, what), **peers(case, t, what, compiled=options.compile)}
    row = case.row(what, bias=bias)
    for name, work in offers.items():
        try:
            errors[name] = error_of(work(), expected)
            if errors[name] > MAX_ERROR:
                raise ArithmeticError(f"relative error {errors[name]:.1e}")
            works[name] = captured(work)
        except Exception as problem:
            run.add(row, name, None, error_text=str(problem).split("\n")[0][:200])
            print(f"  {name}: {type(problem).__name__}: {str(problem)[:300]}", flush=True)
    configs: dict[str, str] = {}
    if options.tune and what == "forward" and case.groups == 1:
        config, work = tuned(case, t, watch, expected, options.tune)
        if config is not None:
            works["tawa-best"], configs["tawa-best"] = work, str(config)
            configs["tawa"] = str(chosen(case, 1)[0])
    with run.sampler.sampling():
        times = interleaved(
            works, soak=options.soak, window=options.window, on_turn=run.sampler.turn, watch=watch
        )
    p = t.dy.shape[2]
    flops = 2 * case.n * p * p * case.k * case.taps**2 * case.c // case.groups
    for name, timing in times.items():
        run.add(
            row, name, timing, flops=flops, config=configs.get(name),
            error={"relative_frobenius": errors.get(name), "reference": "float64"},
            **run.sampler.readings(name),
        )  # fmt: skip
    base = times["tawa"].median if "tawa" in times else math.nan
    shown = "  ".join(f"{n} {v.median * 1e3:.1f} us" for n, v in times.items())
    best = min((v.median for n, v in times.items() if not n.startswith("tawa")), default=math.nan)
    print(f"{case.layer} N={case.n} {what}{' bias' if bias else ''}: x{best / base:.2f}  {shown}")
    print(f"    {configs}", flush=True)
    del t, works, offers
    torch.cuda.empty_cache()


def main() -> None:
    """Run the suite."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", default="twelve")
    parser.add_argument("--layers", default="", help="comma-separated parts of names")
    parser.add_argument("--images", default="128", help="comma-separated batch sizes")
    parser.add_argument("--passes", default="forward", help="forward,fused,dgrad,wgrad")
    parser.add_argument("--tune", type=int, default=0, help="tilings that are tried")
    parser.add_argument("--compile", action="store_true", help="with torch.compile")
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--soak", type=float, default=0.3)
    parser.add_argument("--window", type=float, default=0.3)
    options = parser.parse_args()
    os.environ.setdefault("TORCHINDUCTOR_MAX_AUTOTUNE_GEMM", "1")
    import torch
    from rows import Run

    torch.backends.cudnn.benchmark = True
    run = Run("conv" if options.network == "twelve" else "conv-models", options.rows)
    wanted = [part for part in options.layers.split(",") if part]
    for case in cases(options.network, [int(n) for n in options.images.split(",")]):
        if wanted and not any(case.layer == part or part in case.layer.split() for part in wanted):
            continue
        for what in options.passes.split(","):
            name = "forward" if what == "fused" else what
            measure(run, case, name, options, bias=what == "fused")


if __name__ == "__main__":
    main()
