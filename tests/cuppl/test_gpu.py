"""The GPU's code gives the CPU's draws, weights and resampling decisions, bit for bit."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_device import HostDevice

from tawa import cuppl
from tawa.cuppl.cpu.memory import encode_inputs
from tawa.cuppl.gpu.device import CudaDevice
from tawa.cuppl.gpu.smc import GpuMemory, GpuRun, run_on_gpu
from tawa.cuppl.gpu.source import BLOCK, cuda_source
from tawa.cuppl.inference.settings import Limits
from tawa.cuppl.typing.errors import BadSetting
from tawa.cuppl.typing.failures import DivisionByZero, NaNWeight, UnboundedRecursion
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
    "arguments passed on": (
        "def f n a b = if n < 1 then (if n == 0 then g a b 1 else a * b)\n"
        "  else if flip 0.3 then g (a + 1.0) b 1\n"
        "  else let x = f (n - 1) a b in observe (normal (x + a) 2.0) b;\n"
        "    let y = f (n - 3) a b in x + y * 0.5 + a * b\n"
        "def g a b k = if k == 0 then a + b else let z = f (0 - 1) (a * 0.5) (b + 1.0) in\n"
        "  if flip 0.5 then g z b (k - 1) else z\n"
        "def walk p a n = if n == 0 then shift p (fn k -> a * k 1.0 + k 2.0) else\n"
        "  let x = walk p a (n - 1) in let y = (if n == 2 then walk p a 1 else x) in x + y * a\n"
        "def main () = let p = prompt () in\n"
        "  let z = reset p (fn () -> walk p 0.5 2 + f (sample (uniform_int 1 5)) 0.5 1.5) in\n"
        "  observe (normal z 9.0) 1.0; z",
        {},
    ),
    "few are deep at rest": (
        "def nest n = if n == 0 then 0 else let _ = factor 0.01 in 1 + nest (n - 1)\n"
        "def main () = let d = if flip 0.06 then sample (uniform_int 0 90) else 0 in\n"
        "  factor 0.2; let n = nest d in factor (float n * 0.01); n + d",
        {},
    ),
    "all are deep at rest": (
        "def nest n = if n == 0 then 0 else let _ = factor 0.01 in\n"
        "  if flip 0.9 then 1 + nest (n - 1) else 0\n"
        "def main () = let n = nest 30 in factor (float n * 0.01); n",
        {},
    ),
}


def compare(model: cuppl.Model, data: dict[str, Any], device: Any, particles: int) -> GpuRun:
    """The same run on the CPU and on another device; what that one says of itself."""
    suspend = device.suspend
    image = encode_inputs(model.elaborated, data)
    found = run_on_gpu(device, device.lowered, image, particles, 5, 0.7, Limits())
    run = found.run
    method = model.smc if suspend else model.importance
    options = {"ess_threshold": 0.7} if suspend else {}
    exact = method(particles, data=data, seed=5, threads=1, **options).runs[0]
    assert run.log_evidence == pytest.approx(exact.log_evidence, abs=1e-12)
    assert np.array_equal(run.results, exact.words)
    assert run.resampled == exact.resampled
    assert np.array_equal(run.ancestors, exact.groups)
    return found


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_generated_text_agrees_with_the_cpu(name: str, tmp_path: Path) -> None:
    source, data = PROGRAMS[name]
    model = cuppl.model(source)
    suspend = "observe" in source or "factor" in source
    device = HostDevice(model.gpu_code(suspend), tmp_path)
    device.suspend = suspend
    compare(model, data, device, 40)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("name", ["recursion before a weight", "few are deep at rest"])
def test_lanes_that_wait_for_each_other_agree(name: str, tmp_path: Path) -> None:
    source, data = PROGRAMS[name]
    model = cuppl.model(source)
    device = HostDevice(model.gpu_code(True), tmp_path, stack_words=32, together=True)
    compare(model, data, device, 12)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_a_call_that_is_made_again_is_weighed_once(tmp_path: Path) -> None:
    model = cuppl.model(
        "def weigh n = observe (bernoulli 0.5) true; let v = tabulate 3 (fn i -> n + i) in v.[1]\n"
        "def down n = if n < 1 then 0 else 1 + weigh (down (n - 1))\ndef main () = down 3"
    )
    device = HostDevice(model.gpu_code(False), tmp_path)
    device.suspend = False
    compare(model, {}, device, 40)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_a_few_deep_particles_do_not_make_all_rows_longer(tmp_path: Path) -> None:
    source, data = PROGRAMS["few are deep at rest"]
    model = cuppl.model(source)
    device = HostDevice(model.gpu_code(True), tmp_path)
    found = compare(model, data, device, 80)
    assert "widen" not in device.launched[device.launched.index("resample") + 1 :]
    assert found.rows < 20
    deepest = 3 * max(n for n in found.run.results[0].tolist())
    assert found.sizes["pool 0"] + found.sizes["pool 1"] > 8 * deepest


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_rows_grow_when_most_particles_need_them(tmp_path: Path) -> None:
    source, data = PROGRAMS["all are deep at rest"]
    model = cuppl.model(source)
    device = HostDevice(model.gpu_code(True), tmp_path)
    found = compare(model, data, device, 40)
    assert "widen" in device.launched
    assert found.rows > 20


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_a_step_that_needs_more_rows_is_left_early(tmp_path: Path) -> None:
    source, data = PROGRAMS["all are deep at rest"]
    model = cuppl.model(source)
    device = HostDevice(model.gpu_code(True), tmp_path, patience=2)
    compare(model, data, device, 40)
    assert "widen" in device.launched


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_a_particle_keeps_its_weight_while_the_heap_is_collected(tmp_path: Path) -> None:
    model = cuppl.model(
        "data Tree = Leaf(float) | Node(Tree, Tree)\n"
        "def grow () = if flip 0.45 then Node (grow (), grow ())\n"
        "  else Leaf (sample (exponential 1))\n"
        "def total t = match t with | Leaf x -> x | Node (l, r) -> total l + total r end\n"
        "def main () = let t = grow () in observe (normal (total t) 2) 3;\n"
        "  let u = grow () in observe (normal (total u) 1) 4; total u"
    )
    device = HostDevice(model.gpu_code(False), tmp_path)
    device.suspend = False
    compare(model, {}, device, 33)


COLLECTED = {
    "shared, small and large": (
        "input y : vector[float]\n"
        "def main () =\n"
        "  let long = tabulate 40 (fn i -> sample (normal 0 1)) in\n"
        "  let (v, w, l) = fold (fn (v, w, l) x -> let k = sample (normal x 1) in observe (normal k 0.3) x;\n"
        "    (v ++ [k], map (fn u -> u + k) w, Cons (k, l))) ([0.5], long, Nil) y in\n"
        "  (sum v, sum w, w.[39], list_fold (fn a x -> a + x) 0.0 l)",
        {"y": [0.1 * k for k in range(12)]},
    ),
    "many references": (
        f"data Many = Many({', '.join(['vector[float]'] * 66)})\n"
        "def main () =\n"
        "  let v = [sample (normal 0 1)] in\n"
        f"  let m = Many ({', '.join(['v'] * 66)}) in\n"
        "  iter (fn k -> observe (normal k 9) 1) (tabulate 20 float);\n"
        f"  match m with Many ({', '.join(f'a{k}' for k in range(66))}) ->\n"
        "    (a0.[0], a62.[0], a63.[0], a64.[0], a65.[0]) end",
        {},
    ),
    "continuations": (
        "def main () = let p = prompt () in reset p (fn () ->\n"
        "  let v = [sample (normal 0 1), 2.0] in\n"
        "  let x = shift p (fn k -> let a = k 1.0 in observe (normal a 1) 0.5; a + k 2.0) in\n"
        "  let w = repeat 9 (fn () -> x) in observe (normal w.[8] 1) v.[0]; w.[0] + v.[1])",
        {},
    ),
}


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("name", list(COLLECTED))
def test_threads_move_what_is_alive_at_the_same_time(name: str, tmp_path: Path) -> None:
    source, data = COLLECTED[name]
    model = cuppl.model(source)
    device = HostDevice(model.gpu_code(True), tmp_path)
    compare(model, data, device, 61)
    assert "move_heap" in device.launched


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_results_are_moved_too(tmp_path: Path) -> None:
    model = cuppl.model("def main () = (tabulate 50 (fn i -> sample (normal 0 1)), [flip 0.5])")
    device = HostDevice(model.gpu_code(False), tmp_path)
    found = run_on_gpu(
        device, device.lowered, encode_inputs(model.elaborated, {}), 61, 5, 0.7, Limits()
    )
    assert "move_heap" in device.launched
    words = found.heap.view(np.float64)
    mine = [words[(a - found.heap_address) // 8 :][2:52] for a in found.run.results[0]]
    assert np.array_equal(np.array(mine), model.importance(61, seed=5)[0])


def test_frames_leave_out_what_is_passed_on() -> None:
    """The call of `tree` in its own left operand keeps `n` alone: `p` is in its register."""
    model = cuppl.model(
        "def tree p n = if flip p then tree p (n + 1) - tree p (n + 2) else n\n"
        "def main () = tree 0.4 0"
    )
    machine = model.gpu_code(False).machine
    assert machine is not None
    before_calls, calls = [3, 3], [1, 1]
    found = [len(frame.words) for frame in machine.frames[4:]]
    assert (found[::2], found[1::2]) == (before_calls, calls)


ENDLESS = {
    "functions in turns": (
        "def f x = g (x + 1)\ndef g x = f (x + 1)\n"
        "def main () = factor 0.0; if f 0 == 0 then 1 else 2",
        UnboundedRecursion,
    ),
    "shallow but endless": (
        "def f n = if n == 0 then 0 else f (n - 1) + f (n - 1)\ndef main () = factor 0.0; f 60",
        UnboundedRecursion,
    ),
    "not a number": (
        "def main () = let x = sample (normal 0 1) in factor 0.0; factor (log (x - 9.0)); x",
        NaNWeight,
    ),
}


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("name", ENDLESS)
def test_errors_are_those_of_the_cpu(name: str, tmp_path: Path) -> None:
    source, error = ENDLESS[name]
    model = cuppl.model(source)
    lowered, limits = model.gpu_code(True), Limits(max_steps=10_000)
    image = encode_inputs(model.elaborated, {})
    with pytest.raises(error) as caught:
        run_on_gpu(HostDevice(lowered, tmp_path), lowered, image, 5, 1, 1.0, limits)
    with pytest.raises(error) as exact:
        model.smc(5, seed=1, threads=1, limits=limits)
    assert caught.value.span is not None
    assert exact.value.span is not None
    assert caught.value.span.line == exact.value.span.line


class CountingDevice:
    """Gives addresses but no memory, so that sizes can be seen that do not fit here."""

    block, warp = BLOCK, CudaDevice.warp
    stack_words, pool_words = CudaDevice.stack_words, CudaDevice.pool_words
    stack_bytes, heap_words = CudaDevice.stack_bytes, CudaDevice.heap_words
    patience = CudaDevice.patience

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.now = self.most = 0

    def resident(self, kernel: str) -> int:
        """As many blocks as an H100 can hold at most of this size."""
        del kernel
        return 132 * 2048 // self.block

    def allocate(self, size: int) -> int:
        address = 1 + len(self.sizes)
        self.sizes[address] = size
        self.now += size
        self.most = max(self.most, self.now)
        return address

    def free(self, address: int) -> None:
        self.now -= self.sizes[address]

    def __getattr__(self, name: str) -> Any:
        assert name in ("write", "read", "move", "launch", "synchronize")
        return lambda *_arguments: None


EXAMPLES = Path(__file__).parents[2] / "examples" / "cuppl"


def birth_death(particles: int) -> tuple[CountingDevice, GpuMemory]:
    """A run with the rows that it needs, on a device without memory."""
    model = cuppl.load(EXAMPLES / "crbd_branches.ppl")
    image = encode_inputs(model.elaborated, {"branches": [(1.0, 0.0, True)], "rho": 0.5})
    device, limits = CountingDevice(), Limits(max_memory=1 << 40)
    run = GpuMemory(device, model.gpu_code(True), image, particles, 1, 1.0, limits)
    run.start()
    run.add_rows(13 - run.rows)
    return device, run


@pytest.mark.parametrize(("particles", "gibibytes"), [(10**7, 2), (10**9, 120)])
def test_what_many_particles_take(particles: int, gibibytes: int) -> None:
    """What a run owns is the sum of its allocations; rows are as many as the program uses."""
    device, run = birth_death(particles)
    assert device.most == run.peak
    assert run.peak < gibibytes << 30
    assert device.now == run.in_use()


def test_more_particles_than_ancestors_can_be_told_apart_are_refused() -> None:
    with pytest.raises(BadSetting, match="too many particles"):
        birth_death(1 << 30)


def test_an_epidemic_is_advanced_in_registers() -> None:
    """Almost: what is computed of very large counts alone is called, not inlined."""
    text = cuda_source(cuppl.load(EXAMPLES / "sir.ppl").gpu_code(True))
    report = compile_cuda(text, "sm_90a", options=("--fmad=false",)).report
    assert report.function("advance").spill_stores < 200


@pytest.mark.parametrize("name", ["lists on the heap", "shift and reset", "no weights"])
def test_it_compiles_for_the_gpu(name: str) -> None:
    source, _ = PROGRAMS[name]
    suspend = "observe" in source
    text = cuda_source(cuppl.model(source).gpu_code(suspend))
    compiled = compile_cuda(text, "sm_90a", options=("--fmad=false",))
    used = {f.name for f in compiled.report.functions}
    assert {"advance" if "observe" in source else "run_all", "weigh", "resample"} & used


@pytest.mark.gpu
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_gpu_agrees_with_the_cpu(name: str) -> None:
    source, data = PROGRAMS[name]
    model = cuppl.model(source)
    suspend = "observe" in source or "factor" in source
    lowered, device = model.gpu_device(suspend)
    device.lowered, device.suspend = lowered, suspend
    compare(model, data, device, 5000)


FAILING = {
    "at once": "def main () = 6 // sample (uniform_int 0 9)",
    "between weights": (
        "def main () = let x = sample (uniform_int 0 19) in factor (float x); let y = 6 // x in\n"
        "  factor (float y); 6 // sample (uniform_int 0 3)"
    ),
    "in recursion": "def down n = if n == 3 then 1 // 0 else if flip 0.4 then 1 + down (n + 1) else n\n"
    "def main () = let n = down 0 in factor (float n); n",
}


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize(
    ("name", "together"),
    [(n, t) for n in FAILING for t in (False, True) if not t or n != "at once"],
)
def test_the_first_particle_that_fails_is_named(name: str, together: bool, tmp_path: Path) -> None:
    """As on the CPU, whichever thread came first."""
    model = cuppl.model(FAILING[name])
    suspend = name != "at once"
    device = HostDevice(model.gpu_code(suspend), tmp_path, together=together)
    image = encode_inputs(model.elaborated, {})
    for seed in range(3):
        with pytest.raises(DivisionByZero) as exact:
            (model.smc if suspend else model.importance)(203, seed=seed)
        with pytest.raises(DivisionByZero) as found:
            run_on_gpu(device, device.lowered, image, 203, seed, 0.5, Limits())
        assert str(found.value) == str(exact.value)
