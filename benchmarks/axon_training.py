"""Training of a model that is written in Axon beside the same model in PyTorch.

Both start with the same values and see the same batches; the optimiser is AdamW. A row has both
losses of each step, and the milliseconds a step takes: on a GPU, PyTorch's is compiled by
`torch.compile`, with a fused AdamW. With `--profile`, a step's time by kernel follows, for both;
with `--plan`, only what Axon launches and moves is told, which needs no GPU. With `--seeds N`,
both train N models, each from values of its own, on the same batches. The N runs of PyTorch span a
band, and the row says how far means of ten losses of each run of Axon leave it (and two of its
standard deviations), and those of each run of PyTorch the band of its others. `--warm` only
compiles, for both, into the caches on disk.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import Tensor, nn

from tawa import axon
from tawa.axon.gpu import library
from tawa.axon.gpu.ahead import compile_ahead
from tawa.axon.gpu.compile import plan_for_device
from tawa.axon.gpu.graph.recompute import bytes_read

DECAY = 0.1
WARM_UP = 40
"""Steps in which the learning rate rises to the largest."""

Step = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Training:
    """What is trained: a model of PyTorch's of a size on a device, and the same in Axon."""

    size: Any
    program: str
    """Its function `step` takes rate, decay, the state and weights, and a batch."""
    make: Callable[[str], nn.Module]
    """A model with new values, on a device. It gives the loss of a batch."""
    weights_of: Callable[[Any], Any]
    """Copies of a model's weights, as the program takes them."""
    batches: Callable[[str], Iterator[tuple[Tensor, Tensor]]]
    shaped: Callable[[], tuple[Any, Any, Any]]
    """Weights and a batch that take no memory until they are read."""
    rate: float
    """The largest learning rate, which steps have after `WARM_UP`."""
    statics: dict[str, int] = field(default_factory=dict[str, int])
    clip: float | None = None
    """The norm to which the program shrinks all derivatives together."""

    def rate_of(self, number: int) -> float:
        """The learning rate of a step."""
        return self.rate * min(1.0, (number + 1) / WARM_UP)


def torch_step(training: Training, model: nn.Module, device: str, compiles: bool) -> Step:
    """A step of training in PyTorch."""
    on_gpu = device != "cpu"
    weights = list(model.parameters())
    optimiser = torch.optim.AdamW(weights, training.rate, weight_decay=DECAY, fused=on_gpu)
    run = torch.compile(model) if compiles else model
    numbers = itertools.count()

    def step(given: Tensor, wanted: Tensor) -> Tensor:
        optimiser.param_groups[0]["lr"] = training.rate_of(next(numbers))
        with torch.autocast(device, torch.bfloat16):
            value = run(given, wanted)
        value.backward()
        if training.clip is not None:
            nn.utils.clip_grad_norm_(weights, training.clip, foreach=on_gpu)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return value.detach()

    return step


def axon_step(training: Training, compiled: Any, weights: Any, device: str) -> Step:
    """A step of training in Axon by its compiled program: on a GPU, or in the simulator."""

    def array(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(array(item) for item in value)
        if device != "cpu":
            return value
        if value.dtype == torch.bfloat16:  # which NumPy has only as a type of another package's
            return value.float().numpy().astype(ml_dtypes.bfloat16)
        return value.numpy()

    def zeros(value: Any) -> Any:
        return tuple(map(zeros, value)) if isinstance(value, tuple) else torch.zeros_like(value)

    done = torch.zeros((), dtype=torch.int64, device=device)
    now = [array(((done, zeros(weights), zeros(weights)), weights))]
    rates = [array(torch.tensor(training.rate_of(n), device=device)) for n in range(WARM_UP)]
    decay, numbers = array(torch.tensor(DECAY, device=device)), itertools.count()

    def step(given: Tensor, wanted: Tensor) -> Tensor:
        rate = rates[min(next(numbers), WARM_UP - 1)]
        batch = rate, decay, now[0], array(given), array(wanted)
        value, now[0] = compiled(*batch, **training.statics)
        return torch.as_tensor(value)

    return step


def losses(
    step: Step, training: Training, steps: int, device: str
) -> tuple[list[float], float, float]:
    """The loss of each step, seconds of the first step, and the others' median milliseconds."""
    found: list[Tensor] = []
    times: list[float] = []
    for number, (given, wanted) in enumerate(training.batches(device)):
        if number == steps:
            break
        wait(device)
        start = time.perf_counter()
        found.append(step(given, wanted))
        wait(device)
        times.append(time.perf_counter() - start)
    later = sorted(times[3:] or times)
    return [float(v) for v in found], times[0], 1000 * later[len(later) // 2]


def profile(step: Step, training: Training, device: str) -> list[tuple[str, int, float]]:
    """Name, launches and milliseconds of each kernel of a step, the longest first."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as recording

    given, wanted = next(training.batches(device))
    with recording(activities=[ProfilerActivity.CUDA]) as record:
        step(given, wanted)
        wait(device)
    rows = [(e.key, e.count, e.self_device_time_total / 1000) for e in record.key_averages()]
    return sorted(rows, key=lambda row: -row[2])


def other_seeds(
    training: Training, compiled: Any, seeds: int, steps: int, device: str
) -> list[dict[str, list[float]]]:
    """Losses of both from the initial values of seeds after the first."""
    found: list[dict[str, list[float]]] = []
    for seed in range(1, seeds):
        torch.manual_seed(seed)
        model = training.make(device)
        each = {
            "axon": axon_step(training, compiled, training.weights_of(model), device),
            "torch": torch_step(training, model, device, compiles=False),
        }
        found.append({k: losses(step, training, steps, device)[0] for k, step in each.items()})
        print(json.dumps({"seed": seed, **found[-1]}), flush=True)
    return found


def means(losses: list[float], width: int = 10) -> np.ndarray:
    """Of each `width` neighbouring losses."""
    return np.convolve(losses, np.ones(width) / width, "valid")


def beyond_band(losses: list[float], band: list[list[float]]) -> float:
    """How far means of ten losses leave the span of the band's; 0 within it."""
    found, spans = means(losses), np.stack([means(values) for values in band])
    return float(np.maximum(spans.min(0) - found, found - spans.max(0)).clip(0).max())


def beyond_deviations(losses: list[float], band: list[list[float]]) -> float:
    """How far means of ten losses lie beyond two standard deviations of the band's; 0 within."""
    found, spans = means(losses), np.stack([means(values) for values in band])
    room = 2 * spans.std(0, ddof=1)
    return float((np.abs(found - spans.mean(0)) - room).clip(0).max())


def said_of_seeds(runs: list[dict[str, list[float]]]) -> dict[str, Any]:
    """How far each run leaves the band of PyTorch's (its own from the others'), and its end."""
    band = [run["torch"] for run in runs]
    others = [band[:n] + band[n + 1 :] for n in range(len(runs))]
    return {
        "beyond_band": [beyond_band(run["axon"], band) for run in runs],
        "beyond_deviations": [beyond_deviations(run["axon"], band) for run in runs],
        "torch_beyond_others": [beyond_band(*both) for both in zip(band, others, strict=True)],
        "largest_differences": [
            max(abs(a - b) for a, b in zip(run["axon"], run["torch"], strict=True)) for run in runs
        ],
        "ends": {
            name: [float(np.mean(run[name][-10:])) for run in runs] for name in ("axon", "torch")
        },
    }


def print_profile(name: str, rows: list[tuple[str, int, float]]) -> None:
    """The kernels that take the most, and the sum of all."""
    launches, total = sum(row[1] for row in rows), sum(row[2] for row in rows)
    print(f"{name}: {launches} launches, {total:.2f} ms in kernels")
    for kernel, count, milliseconds in rows[:45]:
        print(f"  {milliseconds:8.3f} ms {count:5} x  {kernel[:100]}")


def plan_rows(plan: Any) -> list[tuple[str, int, float]]:
    """Kernel, launches, and bytes moved by all of them, the most first."""
    found: dict[str, tuple[int, float]] = {}
    for launch in plan.launches:
        call = launch.call
        moved = sum(bytes_read(call.group.members).values())
        moved += sum(node.bytes for node in call.group.outputs)
        kernel = library.kernel_of(call).fn.__name__
        name = f"{kernel} {call.group.space[0]} x {call.group.space[1]} {call.variant.name}"
        count, total = found.get(name, (0, 0.0))
        found[name] = count + 1, total + moved
    return sorted(((name, *row) for name, row in found.items()), key=lambda row: -row[2])


def print_plan(plan: Any) -> None:
    """What a step launches and moves."""
    rows = plan_rows(plan)
    total = sum(row[2] for row in rows) / 1e9
    print(f"plan: {len(plan.launches)} launches, {total:.2f} GB moved, "
          f"{plan.memory.size / 1e9:.2f} GB of intermediate results")  # fmt: skip
    for name, count, moved in rows:
        print(f"  {moved / 1e6:9.1f} MB {count:5} x  {name}")


def arguments_of(training: Training) -> tuple[Any, ...]:
    """Arguments of a step that take no memory until they are read."""
    weights, *batch = training.shaped()
    state = (np.zeros((), np.int64), weights, weights)
    number = np.zeros((), np.float32)
    return number, number, (state, weights), *batch


def wait(device: str) -> None:
    """Until the device is done."""
    if device != "cpu":
        torch.cuda.synchronize()


def warm(training: Training, device: str) -> None:
    """Compile both into the caches on disk; Axon's kernels need no device."""
    start = time.perf_counter()
    step = axon.compile(axon.load(training.program)["step"])
    plan = plan_for_device(step, arguments_of(training), training.statics)
    calls = [launch.call for launch in plan.launches]
    processes = compile_ahead(calls, {}, chosen=True)
    for call in calls:
        library.compiled(call, call.variant, {})
    print(f"{axon.compilations()} kernels by {1 + processes} processes in "
          f"{time.perf_counter() - start:.1f} s", flush=True)  # fmt: skip
    if device != "cpu":
        step_of_torch = torch_step(training, training.make(device), device, compiles=True)
        losses(step_of_torch, training, 2, device)
        print(f"and PyTorch's in {time.perf_counter() - start:.1f} s", flush=True)


def compared(training: Training, arguments: argparse.Namespace, device: str) -> dict[str, Any]:
    """Train both, and say how far they are apart."""
    torch.manual_seed(0)
    model = training.make(device)
    weights = training.weights_of(model)
    row: dict[str, Any] = {
        "size": asdict(training.size), "steps": arguments.steps, "rate": training.rate
    }  # fmt: skip
    if device == "cuda":
        row["device"] = torch.cuda.get_device_name()
    compiled = axon.compile(axon.load(training.program)["step"])
    compiles = device == "cuda" and not arguments.eager
    steps: dict[str, Callable[[], Step]] = {
        "axon": lambda: axon_step(training, compiled, weights, device),
        "torch": lambda: torch_step(training, model, device, compiles),
    }
    for name, make in steps.items():
        step = make()
        found, first, milliseconds = losses(step, training, arguments.steps, device)
        row[name] = {"losses": found, "first_s": round(first, 2), "ms": round(milliseconds, 2)}
        text = json.dumps({name: row[name]})
        print(text, flush=True)
        if arguments.profile:
            print_profile(name, profile(step, training, device))
        with arguments.out.open("a") if arguments.out else nullcontext() as out:
            if out is not None:
                out.write(text + "\n")
    one, other = row["axon"]["losses"], row["torch"]["losses"]
    row["largest_difference"] = max(abs(a - b) for a, b in zip(one, other, strict=True))
    row["ratio"] = round(row["torch"]["ms"] / row["axon"]["ms"], 3)
    if arguments.seeds > 1:
        runs = [{"axon": one, "torch": other}]
        runs += other_seeds(training, compiled, arguments.seeds, arguments.steps, device)
        row |= {"seeds": runs, **said_of_seeds(runs)}
    return row


def run(described: str, training_of: Callable[[Any], Training], full: Any, small: Any) -> None:
    """The command: train both and print a row."""
    parser = argparse.ArgumentParser(description=described)
    parser.add_argument("--small", action="store_true", help="a tiny model, in the simulator")
    parser.add_argument("--layers", type=int, help="fewer layers or stages")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--profile", action="store_true", help="a step's time by kernel")
    parser.add_argument("--plan", action="store_true", help="what a step launches and moves")
    parser.add_argument("--warm", action="store_true", help="only compile, into caches on disk")
    parser.add_argument("--seeds", type=int, default=1, help="models that both train, for a band")
    parser.add_argument("--rate", type=float, help="another largest learning rate")
    parser.add_argument("--eager", action="store_true", help="PyTorch does not compile")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    size = small if arguments.small else full
    size = replace(size, batch=arguments.batch or size.batch)
    if arguments.layers:
        size = size.cut(arguments.layers)
    training = training_of(size)
    training = replace(training, rate=arguments.rate or training.rate)
    if arguments.plan:
        step = axon.compile(axon.load(training.program)["step"])
        print_plan(plan_for_device(step, arguments_of(training), training.statics))
        return
    device = "cpu" if arguments.small or not torch.cuda.is_available() else "cuda"
    if device == "cuda":
        torch.set_float32_matmul_precision("high")
    if arguments.warm:
        warm(training, device)
        return
    row = compared(training, arguments, device)
    told = ("largest_difference", "ratio", "beyond_band", "beyond_deviations",
            "torch_beyond_others", "ends")  # fmt: skip
    print(json.dumps({key: row[key] for key in told if key in row}), flush=True)
    if arguments.out:
        with arguments.out.open("a") as out:
            out.write(json.dumps(row) + "\n")
