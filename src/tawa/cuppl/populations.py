"""Posteriors of particles on GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tawa.cuppl.cpu.memory import encode_inputs
from tawa.cuppl.inference.settings import Limits
from tawa.cuppl.results.posterior import Posterior, Run

if TYPE_CHECKING:
    from tawa.cuppl.gpu.smc import GpuRun
    from tawa.cuppl.lowering.pipeline import Lowered
    from tawa.cuppl.model import Model

__all__ = ["device_for", "gpu_posterior"]


def device_for(lowered: Lowered, devices: int) -> Any:
    """A program's kernels on the first GPU; a list for several, on each of the first ones."""
    from tawa.cuppl.gpu.device import CudaDevice, devices_together
    from tawa.cuppl.gpu.source import cuda_source

    if devices == 1:
        return CudaDevice(cuda_source(lowered))
    return devices_together(cuda_source(lowered, shares=True), devices)


def _runner(model: Model, method: str, devices: int) -> tuple[Callable[..., GpuRun], Any, Lowered]:
    from tawa.cuppl.gpu.shares import run_on_gpus
    from tawa.cuppl.gpu.smc import run_on_gpu

    lowered, device = model.gpu_device(method == "smc")
    if devices == 1 or lowered.machine is None:
        return run_on_gpu, device, lowered
    lowered, several = model.gpu_device(method == "smc", devices)
    return run_on_gpus, several, lowered


def gpu_posterior(
    model: Model, method: str, particles: int, data: Mapping[str, Any] | None, seed: int,
    runs: int, threshold: float, limits: Limits | None, devices: int = 1,
) -> Posterior:  # fmt: skip
    """Runs on the first GPU, or each of them on some; a program without weights needs but one."""
    run_one, device, lowered = _runner(model, method, devices)
    image = encode_inputs(model.elaborated, data or {})
    found: list[Run] = []
    for run in range(runs):
        one = run_one(device, lowered, image, particles, seed + run, threshold, limits or Limits())
        found.append(Run.of(one.run))
        found[-1].copies = [(one.heap_address, one.heap)]
        found[-1].device_memory, found[-1].device_seconds = one.memory, one.seconds
        found[-1].device_rows, found[-1].device_sizes = one.rows, one.sizes
    posterior = Posterior(model.elaborated, found, model.names, f"{method} on the GPU")
    posterior.warn()
    return posterior
