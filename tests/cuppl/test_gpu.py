"""The GPU's code gives the CPU's draws, weights and resampling decisions, bit for bit."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_device import HostDevice

from tawa import cuppl
from tawa.cuppl.gpu.smc import run_on_gpu
from tawa.cuppl.gpu.source import cuda_source
from tawa.cuppl.inference.settings import Limits
from tawa.cuppl.memory import encode_inputs
from tawa.runtime.nvrtc import compile_cuda

pytestmark = pytest.mark.filterwarnings("ignore::tawa.cuppl.InferenceWarning")
PROGRAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "state space": (
        "input ys : vector[float]\n"
        "def step s y = let n = sample (normal s 1) in observe (student_t 4 n 0.5) y; n\n"
        "def main () = fold step 0 ys",
        {"ys": [0.3, 1.0, -2.0, 1.7]},
    ),
    "recursion before a weight": (
        "def tree p = if flip p then tree p + tree p else 1\n"
        "def main () = let n = tree 0.4 in observe (poisson (float n)) 6; n",
        {},
    ),
    "lists on the heap": (
        "def grow l n = if n == 0 then l else let x = sample (gamma 2 1) in\n"
        "  observe (exponential x) 1; grow (Cons (x, l)) (n - 1)\n"
        "def main () = let l = grow Nil 12 in (list_fold (fn a x -> a + x) 0 l, list_length l)",
        {},
    ),
    "memo": (
        "def main () = let f = mem (fn k -> sample (normal (float k) 1)) in\n"
        "  iter (fn k -> observe (normal (f (k % 2)) 1) 1) (range 4); (f 0, f 1)",
        {},
    ),
    "shift and reset": (
        "def main () = let p = prompt () in reset p (fn () ->\n"
        "  let x = shift p (fn k -> k 1.0 + k 2.0) in observe (normal x 1) 0.5; x * flip01 ())\n"
        "def flip01 () = if flip 0.5 then 1.0 else 2.0",
        {},
    ),
    "no weights": ("def main () = (sample (beta 2 3), sample (poisson 20), flip 0.2)", {}),
    "deep recursion": (
        "def deep n = if n == 0 then 0 else 1 + deep (n - 1)\n"
        "def main () = let d = deep (sample (uniform_int 0 300)) in factor 0.1; d",
        {},
    ),
}


def compare(model: cuppl.Model, data: dict[str, Any], device: Any, particles: int) -> None:
    """The same run on the CPU and on another device."""
    suspend = device.suspend
    image = encode_inputs(model.elaborated, data)
    run = run_on_gpu(device, device.lowered, image, particles, 5, 0.7, Limits()).run
    method = model.smc if suspend else model.importance
    options = {"ess_threshold": 0.7} if suspend else {}
    exact = method(particles, data=data, seed=5, threads=1, **options).runs[0]
    assert run.log_evidence == pytest.approx(exact.log_evidence, abs=1e-12)
    assert np.array_equal(run.results, exact.words)
    assert run.resampled == exact.resampled
    assert np.array_equal(run.ancestors, exact.groups)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_generated_text_agrees_with_the_cpu(name: str, tmp_path: Path) -> None:
    source, data = PROGRAMS[name]
    model = cuppl.model(source)
    suspend = "observe" in source or "factor" in source
    device = HostDevice(model.gpu_code(suspend), tmp_path)
    device.suspend = suspend
    compare(model, data, device, 40)


@pytest.mark.parametrize("name", ["lists on the heap", "shift and reset", "no weights"])
def test_it_compiles_for_the_gpu(name: str) -> None:
    source, _ = PROGRAMS[name]
    suspend = "observe" in source
    text = cuda_source(cuppl.model(source).gpu_code(suspend))
    compiled = compile_cuda(text, "sm_90a", options=("--fmad=false",))
    used = {f.name for f in compiled.report.functions}
    assert {"advance" if "observe" in source else "run_all", "weigh", "copy_states"} & used


@pytest.mark.gpu
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_gpu_agrees_with_the_cpu(name: str) -> None:
    source, data = PROGRAMS[name]
    model = cuppl.model(source)
    suspend = "observe" in source or "factor" in source
    lowered, device = model.gpu_device(suspend)
    device.lowered, device.suspend = lowered, suspend
    compare(model, data, device, 5000)
