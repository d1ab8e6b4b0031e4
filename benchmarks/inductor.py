r"""A transformer under `torch.compile`, with Inductor's kernels compiled by Triton and by Tawa.

    python benchmarks/inductor.py [--mode max-autotune] [--layers 4] [--rows FOLDER]
    python benchmarks/inductor.py --only triton --turn FILE & python benchmarks/inductor.py \
        --only tawa --turn FILE    # both compile at once, and time one after the other

All have the same values and the same batch. A step is a forward and a backward pass; steps are
timed in turn, PyTorch's own kernels in CUDA graphs among them. Loss and gradients are compared with
those of float64. Tawa's summary says which kernels it ran, and which were left to Triton, and why.
"""

from __future__ import annotations

import argparse
import copy
import fcntl
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FunctionType
from typing import Any

import torch
from rows import Run
from torch import Tensor, nn
from torch._inductor import config
from torch._inductor.template_heuristics.triton import BaseConfigHeuristic
from torch._inductor.utils import fresh_cache

import tawa
from tawa.runtime.timing import interleaved

Step = Callable[[], Tensor]


def transformer(layers: int, width: int) -> nn.Module:
    """Encoder layers with norms in front, heads of 64 and no dropout, in bf16."""
    layer = nn.TransformerEncoderLayer(
        width, width // 64, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
    )
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).cuda().bfloat16()


def loss_of(model: Callable[[Tensor], Tensor], x: Tensor, wanted: Tensor) -> Tensor:
    """The mean of squared differences, in f32."""
    return (model(x).float() - wanted).square().mean()


def step_of(model: nn.Module, run: Callable[[Tensor], Tensor], x: Tensor, wanted: Tensor) -> Step:
    """A forward and a backward pass; gradients stay with the model."""

    def step() -> Tensor:
        torch.compiler.cudagraph_mark_step_begin()
        model.zero_grad(set_to_none=True)
        loss = loss_of(run, x, wanted)
        loss.backward()
        return loss

    return step


def run_of(model: nn.Module, name: str) -> Callable[[Tensor], Any]:
    """The model as a function with code of its own, so that no other's compilation serves it."""

    def run(x: Tensor) -> Any:
        return model(x)

    code = run.__code__.replace(co_name=f"run_{name}")
    return FunctionType(code, run.__globals__, closure=run.__closure__)


@contextmanager
def largest_tiles(most: int | None) -> Generator[None, None, None]:
    """Let Inductor measure only so many configurations of a product, the last of its list."""
    heuristics = BaseConfigHeuristic
    original = heuristics.preprocess_mm_configs

    def preprocess(self: Any, m: int, n: int, k: int, configs: list[Any], **more: Any) -> Any:
        return original(self, m, n, k, configs[-most:] if most else configs, **more)

    heuristics.preprocess_mm_configs = preprocess
    try:
        yield
    finally:
        heuristics.preprocess_mm_configs = original


@contextmanager
def turns(path: Path | None) -> Generator[Callable[[], None], None, None]:
    """A call that waits for the others that share a file: until each is ready too, or done."""
    with path.open("w") if path else nullcontext() as file:
        if file is not None:
            fcntl.flock(file, fcntl.LOCK_SH)
        yield lambda: fcntl.flock(file, fcntl.LOCK_EX) if file is not None else None


def errors(
    model: nn.Module, loss: Tensor, exact: nn.Module, exact_loss: Tensor
) -> dict[str, float]:
    """Relative error of the loss, and the largest one of a parameter's gradient, as norms."""
    found = [
        float((p.grad.double() - e.grad).norm() / e.grad.norm())
        for p, e in zip(model.parameters(), exact.parameters(), strict=True)
        if p.grad is not None and e.grad is not None
    ]
    return {
        "loss_error": float(
            abs(loss.detach().double() - exact_loss.detach()) / exact_loss.detach()
        ),
        "gradient_error": max(found),
    }


def compiled(step: Step, ours: bool) -> tuple[float, str]:
    """Compile a step and let CUDA graphs record it: seconds, and Tawa's summary."""
    start = time.perf_counter()
    with fresh_cache(), tawa.enable() if ours else nullcontext() as takeover:
        for _ in range(4):
            step()
        torch.cuda.synchronize()
        told = str(takeover.summary()) if takeover is not None else ""
    return time.perf_counter() - start, told


def run(arguments: argparse.Namespace, my_turn: Callable[[], None]) -> None:
    """Compile and check all, and time them in turn."""
    torch.manual_seed(0)
    model = transformer(arguments.layers, arguments.width)
    x = torch.randn(arguments.batch, arguments.length, arguments.width, device="cuda").bfloat16()
    wanted = torch.randn_like(x).float()
    exact = copy.deepcopy(model).double()
    exact_loss = loss_of(exact, x.double(), wanted.double())
    exact_loss.backward()
    ways: dict[str, dict[str, Any]] = {"pytorch": {"backend": "cudagraphs"}}
    ways |= {name: {"mode": arguments.mode} for name in arguments.only or ("triton", "tawa")}
    steps: dict[str, Step] = {}
    more: dict[str, dict[str, Any]] = {}
    for name, way in ways.items():
        own = copy.deepcopy(model)
        steps[name] = step_of(own, torch.compile(run_of(own, name), **way), x, wanted)
        seconds, told = compiled(steps[name], name == "tawa")
        print(f"{name}: compiled in {seconds:.1f} s\n{told}", flush=True)
        more[name] = errors(own, steps[name](), exact, exact_loss)
        more[name] |= {"compile_s": round(seconds, 1), "summary": told.splitlines()}
    my_turn()
    times = interleaved(steps)
    case = {k: v for k, v in vars(arguments).items() if k not in ("rows", "only", "turn")}
    rows = Run("inductor", arguments.rows)
    for name, timing in times.items():
        print(name, timing.median, {k: v for k, v in more[name].items() if k != "summary"})
        rows.add({"case": "transformer", **case}, name, timing, **more[name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", default="max-autotune")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--most", type=int, help="configurations of a product that are measured")
    parser.add_argument("--unfused", action="store_true", help="measure no products with epilogues")
    parser.add_argument("--only", choices=("triton", "tawa"), action="append")
    parser.add_argument("--turn", type=Path, help="a file by which processes take turns to time")
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    arguments = parser.parse_args()
    kept = {"benchmark_epilogue_fusion": False} if arguments.unfused else {}
    with (
        turns(arguments.turn) as my_turn,
        largest_tiles(arguments.most),
        config.patch(kept),
    ):
        run(arguments, my_turn)


if __name__ == "__main__":
    main()
