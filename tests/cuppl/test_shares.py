"""One population on several devices: the kernels' text on the host, with the bits of the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_device import HostDevice

from tawa import cuppl
from tawa.cuppl.cpu.memory import encode_inputs
from tawa.cuppl.gpu.shares import run_on_gpus
from tawa.cuppl.gpu.smc import GpuRun
from tawa.cuppl.gpu.source import cuda_source
from tawa.cuppl.inference.settings import Limits
from tawa.cuppl.typing.errors import UnsupportedMethod
from tawa.cuppl.typing.failures import AllWeightsZero, NaNWeight, UnboundedRecursion
from tawa.runtime.nvrtc import compile_cuda

pytestmark = pytest.mark.filterwarnings("ignore::tawa.cuppl.InferenceWarning")
WALK = (
    "input ys : vector[float]\n"
    "def step s y = let n = sample (normal s 1) in observe (student_t 4 n 0.5) y; n\n"
    "def main () = fold step 0 ys"
)
PROGRAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "a walk": (WALK, {"ys": [0.1, 0.8, -0.3, 2.0, 1.2, 0.4, 3.0]}),
    "recursion": (
        "def tree p = if flip p then tree p + tree p else 1\n"
        "def main () = let n = tree 0.4 in observe (poisson (float n)) 6; (n, sample (beta 2 3))",
        {},
    ),
    "weights in a recursion": (
        "def nest n = if n == 0 then 0 else let _ = factor 0.01 in 1 + nest (n - 1)\n"
        "def main () = let d = if flip 0.3 then sample (uniform_int 0 40) else 0 in\n"
        "  let x = nest d in factor (float x * 0.1); x",
        {},
    ),
    "weights of 0": (
        "def main () = let x = sample (uniform_int 0 9) in condition (x > 6);\n"
        "  let y = sample (normal (float x) 1) in observe (normal y 0.1) 8; (x, y)",
        {},
    ),
}


def shared(
    model: cuppl.Model, data: dict[str, Any], particles: int, count: int, folder: Path, **more: Any
) -> GpuRun:
    """A run on some devices."""
    lowered = model.gpu_code(True)
    devices: list[Any] = [HostDevice(lowered, folder, shares=True, **more) for _ in range(count)]
    image = encode_inputs(model.elaborated, data)
    found = run_on_gpus(devices, lowered, image, particles, 7, 1.0, Limits())
    assert not any(device.arrays for device in devices)
    return found


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_shares_have_the_bits_of_the_cpu(name: str, count: int, tmp_path: Path) -> None:
    source, data = PROGRAMS[name]
    model = cuppl.model(source)
    expected = model.smc(61, data=data, seed=7, ess_threshold=1.0)
    found = shared(model, data, 61, count, tmp_path)
    run = expected.runs[0]
    assert found.run.log_evidence == run.log_evidence
    assert np.array_equal(found.run.results, run.words)
    assert np.array_equal(found.run.ancestors, run.groups)
    assert found.run.resampled == run.resampled


def test_children_of_one_share_fill_the_other(tmp_path: Path) -> None:
    model = cuppl.model(
        "input known : vector[float]\n"
        "def main () = let x = sample (normal 0 1) in factor (if x > 1.7 then 0.0 else -90.0);\n"
        "  let y = sample (normal x 0.1) in iter (fn v -> observe (normal y 1) v) known; (x, y)"
    )
    data = {"known": [1.0, 2.0]}
    expected = model.smc(64, data=data, seed=7, ess_threshold=1.0).runs[0]
    found = shared(model, data, 64, 2, tmp_path, together=True).run
    assert any(expected.groups[:32] >= 32) or any(expected.groups[32:] < 32)
    assert np.array_equal(found.results, expected.words)
    assert found.log_evidence == expected.log_evidence


def test_rows_are_copied_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tawa.cuppl.gpu.smc.FREE_ROWS_BYTES", 8 * 31 * 2)
    source, data = PROGRAMS["a walk"]
    model = cuppl.model(source)
    expected = model.smc(61, data=data, seed=7, ess_threshold=1.0).runs[0]
    found = shared(model, data, 61, 2, tmp_path).run
    assert np.array_equal(found.results, expected.words)


def test_there_may_be_more_devices_than_particles(tmp_path: Path) -> None:
    source, data = PROGRAMS["a walk"]
    model = cuppl.model(source)
    found = shared(model, data, 5, 4, tmp_path).run
    expected = model.smc(5, data=data, seed=7, ess_threshold=1.0)
    assert found.log_evidence == expected.log_evidence


FAILURES: dict[str, tuple[str, Any]] = {
    "nothing is left": ("def main () = factor 0.0; condition (sample (beta 1 1) > 2.0)", AllWeightsZero),
    "not a number": (
        "def main () = let x = sample (normal 0 1) in factor 0.0; factor (log (x - 9.0)); x",
        NaNWeight,
    ),
    "without end": (
        "def f n = if n == 0 then 0 else f (n - 1) + f (n - 1)\ndef main () = factor 0.0; f 60",
        UnboundedRecursion,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_failures_give_all_memory_back(name: str, tmp_path: Path) -> None:
    source, error = FAILURES[name]
    model = cuppl.model(source)
    lowered = model.gpu_code(True)
    devices: list[Any] = [HostDevice(lowered, tmp_path, shares=True) for _ in range(2)]
    image = encode_inputs(model.elaborated, {})
    with pytest.raises(error):
        run_on_gpus(devices, lowered, image, 9, 7, 1.0, Limits(max_steps=1 << 12))
    assert not any(device.arrays for device in devices)


def test_the_kernels_of_shares_compile_for_the_gpu() -> None:
    text = cuda_source(cuppl.model(WALK).gpu_code(True), shares=True)
    compiled = compile_cuda(text, "sm_90a", options=("--fmad=false",))
    used = {function.name for function in compiled.report.functions}
    assert {"weigh_share", "decide_share", "count_share", "copy_share", "turn_share"} <= used


def test_objects_on_the_heap_stay_on_one_device(tmp_path: Path) -> None:
    model = cuppl.model("def main () = let v = repeat 3 (fn () -> flip 0.5) in factor 0.0; v")
    with pytest.raises(UnsupportedMethod, match="heap"):
        shared(model, {}, 9, 2, tmp_path)
