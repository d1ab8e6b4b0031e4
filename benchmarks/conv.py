"""Convolutions: forward and both gradients, beside cuDNN through PyTorch; and a whole ResNet-50.

    python benchmarks/conv.py --network twelve --passes forward,fused,dgrad,wgrad --compile
    python benchmarks/conv.py --network resnet50,vgg16,unet --images 1,32,256
    python benchmarks/conv.py --network efficientnet,video,sequences --images 1,32
    python benchmarks/conv.py --whole                 ResNet-50, inference and a training step
    for i in 0 1 2 3; do python benchmarks/conv.py --warm $i/4 & done; wait      compile first
    python benchmarks/conv.py --predict --network twelve        without a device

All contenders of a case get the same channels-last tensors, are captured in CUDA graphs, and take
turns: soak, measure, forward and backward, each execution with a cold L2 cache. Results of two
images are checked against float64 before anything is timed. `tawa` is what the library chooses;
`tawa-best` the fastest of the first tilings that its model ranks (`--tune`, 0 for none): how far
the choice is from it shows what the model misses. `cudnn` is eager PyTorch with
`benchmark = True`, `cudnn-fused` `cudnn_convolution_relu`, `torch-compile` "max-autotune",
`causal-conv1d` that package. Rows have the bytes that a contender allocates beside its result, and
for `tawa` the bytes that its tiles load from L2 (`--profile` prints a command that counts them).
What fails becomes a row with `error_text`. `--warm i/N` compiles a share of the kernels into
the cache on disk, and no more: a run with the same options then has its time for the device.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from conv_cases import Case, cases
from conv_launches import launched, predicted, warmed

MAX_ERROR = {"fp16": 2e-3, "bf16": 1.2e-2}
"""Relative Frobenius error against float64 above which a contender is not timed."""
SOME = 4
"""Executions by whose median tilings are ranked."""
TYPES = {"fp16": "float16", "bf16": "bfloat16"}


def captured(work: Callable[[], Any]) -> Callable[[], Any]:
    """The work as a CUDA graph, which gives what the work gave; it holds what the work reads."""
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        work()
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        found = work()
    kept = graph, work, found

    def replay() -> Any:
        kept[0].replay()
        return kept[-1]

    return replay


class Tensors:
    """The tensors of a case, channels last in memory, in PyTorch's order and in memory's."""

    def __init__(self, case: Case, dtype: str, *, bias: bool) -> None:
        import torch

        options: dict[str, Any] = {"device": "cuda", "dtype": getattr(torch, TYPES[dtype])}
        scale = math.sqrt(math.prod(case.w[1:]))
        self.nhwc = torch.randn(*case.x, **options), torch.randn(*case.w, **options) / scale
        self.x, self.w = (t.movedim(-1, 1) for t in self.nhwc)
        self.bias = torch.randn(case.w[0], **options) if bias else None
        self.results = torch.randn(case.x[0], *case.results, case.w[0], **options)
        self.dy = self.results.movedim(-1, 1)


def ours(case: Case, t: Tensors, what: str, config: Any = None) -> Callable[[], Any]:
    """This project's work; gives a tensor in PyTorch's order."""
    work = launched(case, (*t.nhwc, t.results, t.bias), what, config)
    return lambda: work().movedim(-1, 1)


def plain(case: Case, x: Any, w: Any, bias: Any) -> Any:
    """PyTorch's convolution; more padding on one side is a copy of its own."""
    import torch.nn.functional as F

    work = (F.conv1d, F.conv2d, F.conv3d)[case.dimensions - 1]
    pad: Any = tuple(before for before, _ in case.pad)
    if case.causal:
        x, pad = F.pad(x, [side for pair in reversed(case.pad) for side in pair]), 0
    return work(x, w, bias, case.stride, pad, 1, case.groups)


def peers(case: Case, t: Tensors, what: str, *, compiled: bool) -> dict[str, Callable[[], Any]]:
    """PyTorch's work."""
    import torch
    import torch.nn.functional as F

    aten, count = torch.ops.aten, case.dimensions
    steps, pads, ones = (case.stride,) * count, [b for b, _ in case.pad], (1,) * count

    def eager(x: Any, w: Any, bias: Any) -> Any:
        y = plain(case, x, w, bias)
        return F.relu(y, inplace=True) if bias is not None else y

    if what != "forward":
        mask = [what == "dgrad", what == "wgrad", False]
        place = 0 if what == "dgrad" else 1
        return {
            "cudnn": lambda: aten.convolution_backward(
                t.dy, t.x, t.w, None, steps, pads, ones, False, (0,) * count, case.groups, mask
            )[place]
        }
    found: dict[str, Callable[[], Any]] = {"cudnn": lambda: eager(t.x, t.w, t.bias)}
    if t.bias is not None and not case.causal:
        found["cudnn-fused"] = lambda: aten.cudnn_convolution_relu(
            t.x, t.w, t.bias, steps, pads, ones, case.groups
        )
    if compiled:
        fast = torch.compile(eager, mode="max-autotune-no-cudagraphs")
        found["torch-compile"] = lambda: fast(t.x, t.w, t.bias)
    if count == 1 and case.causal and case.groups > 1 and t.bias is None:
        found["causal-conv1d"] = causal(t)
    return found


def causal(t: Tensors) -> Callable[[], Any]:
    """The package's kernel; an ImportError when it is called where there is none."""

    def work() -> Any:
        from causal_conv1d import causal_conv1d_fn  # pyright: ignore

        return causal_conv1d_fn(t.x, t.w[:, 0])

    return work


def exact(case: Case, t: Tensors, what: str) -> Any:
    """The result in float64, of two images; all of them for filters."""
    import torch
    import torch.nn.functional as F

    if what == "forward":
        bias = None if t.bias is None else t.bias.double()
        with torch.backends.cudnn.flags(enabled=False):
            y = plain(case, t.x[:2].double(), t.w.double(), bias)
        return F.relu(y) if bias is not None else y
    mask, count = [what == "dgrad", what == "wgrad", False], case.dimensions
    found = torch.zeros((), device="cuda")
    with torch.backends.cudnn.flags(enabled=False):  # which would try all algorithms in float64
        for first in range(0, case.x[0], 8) if what == "wgrad" else [0]:
            part = slice(first, first + 8) if what == "wgrad" else slice(2)
            grads = torch.ops.aten.convolution_backward(
                t.dy[part].double(), t.x[part].double(), t.w.double(), None, (case.stride,) * count,
                [b for b, _ in case.pad], (1,) * count, False, (0,) * count, case.groups, mask,
            )  # fmt: skip
            found = found + grads[0 if what == "dgrad" else 1]
    return found


def error_of(found: Any, expected: Any) -> float:
    """The relative Frobenius error of as many images as are expected."""
    found = found[: expected.shape[0]].double()
    return float((found - expected).norm() / expected.norm())


def sizes_of(case: Case) -> Any:
    """The case as the library's model sees it."""
    from tawa.kernels.convolution.shapes import convolution_of

    class Shaped:
        def __init__(self, shape: tuple[int, ...]) -> None:
            self.shape = shape

    steps = case.stride, case.pad, 1, case.groups
    return convolution_of(Shaped(case.x), Shaped(case.w), *steps)


def chosen(case: Case, count: int) -> list[Any]:
    """The first tilings that the model ranks, where blocks of the image are read."""
    from tawa.kernels.convolution.kernels import conv_taps
    from tawa.kernels.convolution.plans import ranked

    if case.x[-1] < 8 or case.groups > 1:
        return []
    return list(ranked(sizes_of(case), conv_taps.chip, 2)[:count])


def tuned(
    case: Case, t: Tensors, watch: Any, expected: Any, count: int, most: float
) -> tuple[Any, Any]:
    """The fastest of the first tilings, and its work."""
    from tawa import TawaError
    from tawa.runtime.timing import Timing

    best: tuple[float, Any, Any] = (math.inf, None, None)
    for tiling in chosen(case, count):
        try:
            work = ours(case, t, "forward", tiling)
            if error_of(work(), expected) > most:
                print(f"    WRONG {tiling}", flush=True)
                continue
            graph = captured(work)
        except TawaError as problem:
            print(f"    {tiling}: {type(problem).__name__}", flush=True)
            continue
        median = Timing(tuple(watch.times(graph, SOME))).median
        best = min(best, (median, tiling, graph), key=lambda b: b[0])
    return best[1], best[2]


def checked(work: Callable[[], Any], expected: Any, most: float) -> tuple[float, int]:
    """The error of a contender, and the bytes that it allocates beside its result."""
    import torch

    work()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = work()
    torch.cuda.synchronize()
    used = torch.cuda.max_memory_allocated() - before - result.numel() * result.element_size()
    error = error_of(result, expected)
    if error > most:
        raise ArithmeticError(f"relative error {error:.1e}: not timed")
    return error, max(used, 0)


def measure(run: Any, case: Case, what: str, options: Any, *, bias: bool) -> None:
    """Check and time all contenders of one pass of one layer."""
    import torch

    from tawa.runtime.timing import Stopwatch, interleaved

    t = Tensors(case, options.dtype, bias=bias)
    expected, most = exact(case, t, what), MAX_ERROR[options.dtype]
    watch, works, seen = Stopwatch(), {}, {}
    offers = {"tawa": ours(case, t, what), **peers(case, t, what, compiled=options.compile)}
    row = case.row(what, bias=bias, dtype=options.dtype)
    for name, work in offers.items():
        try:
            seen[name] = checked(work, expected, most)
            works[name] = captured(work)
        except Exception as problem:
            failed(run, row, name, problem)
    configs: dict[str, str] = {}
    if options.tune and what == "forward" and case.groups == 1:
        config, work = tuned(case, t, watch, expected, options.tune, most)
        if config is not None:
            works["tawa-best"], configs["tawa-best"] = work, str(config)
            configs["tawa"] = str(chosen(case, 1)[0])
    with run.sampler.sampling():
        times = interleaved(
            works, soak=options.soak, window=options.window, on_turn=run.sampler.turn, watch=watch
        )
    for name, timing in times.items():
        error, used = seen.get(name, (None, None))
        loads = loaded(case) if name == "tawa" and what == "forward" else None
        run.add(
            row, name, timing, flops=sizes_of(case).flops, config=configs.get(name),
            error={"relative_frobenius": error, "reference": "float64"}, workspace_bytes=used,
            l2_loads=loads, **run.sampler.readings(name),
        )  # fmt: skip
    show(case, what, times, bias=bias)
    del t, works, offers
    torch.cuda.empty_cache()


def failed(run: Any, row: dict[str, Any], name: str, problem: BaseException) -> None:
    """A row for what could not be measured."""
    text = f"{type(problem).__name__}: {problem}".split("\n")[0][:200]
    run.add(row, name, None, error_text=text)
    print(f"  {row['layer']} {name}: {text}", flush=True)


def show(case: Case, what: str, times: dict[str, Any], *, bias: bool) -> None:
    """A line of what was measured."""
    base = times["tawa"].median if "tawa" in times else math.nan
    shown = "  ".join(f"{n} {v.median * 1e3:.1f} us" for n, v in times.items())
    best = min((v.median for n, v in times.items() if not n.startswith("tawa")), default=math.nan)
    ends = " bias" if bias else ""
    print(f"{case.layer} N={case.x[0]} {what}{ends}: x{best / base:.2f}  {shown}", flush=True)


def loaded(case: Case) -> dict[str, int] | None:
    """Bytes that the chosen tiles load from L2 into shared memory, and by a load for each tap."""
    tilings = chosen(case, 1)
    if not tilings:
        return None
    conv = sizes_of(case)
    return {"chosen": tilings[0].loads(conv, 2), "by_taps": tilings[0].loads(conv, 2, reuse=False)}


def predictions(case: Case) -> Iterator[str]:
    """A line of a table: predicted microseconds by the timing model, and what bounds the layer."""
    from tawa.kernels.convolution.kernels import conv_taps

    chip, sizes = conv_taps.chip, sizes_of(case)
    moved = 2 * (math.prod(case.x) + case.x[0] * math.prod(case.results) * case.w[0])
    floor = max(moved / chip.memory_gbs / 1e3, sizes.flops / 989e6)
    model = chosen(case, 1)[0].microseconds(sizes, chip, 2) if chosen(case, 1) else math.nan
    found = predicted(case, "forward")
    total = sum(time for _, time in found)
    kernels = ", ".join(f"{name} {time:.1f}" for name, time in found)
    yield f"| {case.layer} N={case.x[0]} | {floor:.1f} | {model:.1f} | {total:.1f} | {kernels} |"


def selected(options: Any) -> list[Case]:
    """The cases that were asked for, in the order of `--layers`."""
    images = [int(n) for n in options.images.split(",")]
    found = [case for network in options.network.split(",") for case in cases(network, images)]
    wanted = [part for part in options.layers.split(",") if part]
    if not wanted:
        return found
    return [case for p in wanted for case in found if p in (case.layer, *case.layer.split())]


def arguments() -> Any:
    """What was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--network", default="twelve", help="comma-separated: see conv_cases.py")
    parser.add_argument("--layers", default="", help="comma-separated parts of names")
    parser.add_argument("--images", default="128", help="comma-separated batch sizes")
    parser.add_argument("--passes", default="forward", help="forward,fused,dgrad,wgrad")
    parser.add_argument("--dtype", default="fp16", choices=list(TYPES))
    parser.add_argument("--tune", type=int, default=0, help="tilings that are tried")
    parser.add_argument("--compile", action="store_true", help="with torch.compile")
    parser.add_argument("--whole", action="store_true", help="ResNet-50 in place of layers")
    parser.add_argument("--parts", default="inference,step", help="of ResNet-50")
    parser.add_argument("--modes", default="", help="of ResNet-50, see conv_models.py")
    parser.add_argument("--warm", default="", help="i/N: only compile, of N shares number i")
    parser.add_argument("--predict", action="store_true", help="by the timing model, no device")
    parser.add_argument("--profile", action="store_true", help="print how to count bytes from L2")
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--soak", type=float, default=0.3)
    parser.add_argument("--window", type=float, default=0.3)
    return parser.parse_args()


PROFILE = (
    "ncu --cache-control none --kernel-name regex:conv_ --metrics "
    "l1tex__m_xbar2l1tex_read_bytes.sum,lts__t_bytes_op_read.sum python benchmarks/conv.py "
    "--network {network} --layers {layers} --soak 0 --window 0.01"
)


def main() -> None:
    """Run the suite."""
    options = arguments()
    if options.profile:
        print(PROFILE.format(network=options.network, layers=options.layers or "conv9"))
        return
    if options.predict:
        print("| layer | floor (us) | model (us) | timing model (us) | kernels (us) |")
        print("|---|---|---|---|---|")
        for case in selected(options):
            print(*predictions(case), sep="\n", flush=True)
        return
    wanted = [p for p in options.passes.split(",") if p]
    if options.warm and not options.whole:
        jobs = [
            (case, what, tiling)
            for case in selected(options)
            for what in filter(case.passes, wanted)
            for tiling in (None, *(chosen(case, options.tune)[1:] if what == "forward" else ()))
        ]
        warmed(jobs, options.dtype, options.warm)
        return
    import torch
    from rows import Run

    torch.backends.cudnn.benchmark = True
    if options.whole:
        from conv_models import whole

        whole(None if options.warm else Run("conv-whole", options.rows), options)
        return
    os.environ.setdefault("TORCHINDUCTOR_MAX_AUTOTUNE_GEMM", "1")
    run = Run("conv" if options.network == "twelve" else "conv-models", options.rows)
    for case in selected(options):
        for what in filter(case.passes, wanted):
            name, bias = ("forward" if what == "fused" else what), what == "fused"
            try:
                measure(run, case, name, options, bias=bias)
            except Exception as problem:
                failed(run, case.row(name, bias=bias, dtype=options.dtype), "tawa", problem)
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
