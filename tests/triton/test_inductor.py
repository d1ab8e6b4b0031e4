"""Kernels of code that TorchInductor generates, on CPU tensors, in the simulator."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tawa
from tawa.triton import workers

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

GENERATED = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_heuristics
from torch._inductor.runtime.hints import DeviceProperties
from torch._inductor.runtime.triton_helpers import math as tl_math

CPU = DeviceProperties(
    type="cpu", index=0, multi_processor_count=132, cc=90, major=9,
    regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, warp_size=32,
)


@triton_heuristics.pointwise(
    size_hints={"x": 1024},
    filename=__file__,
    triton_meta={
        "signature": {
            "in_ptr0": "*fp32", "out_ptr0": "*fp32", "ks0": "i64", "xnumel": "i32",
            "XBLOCK": "constexpr",
        },
        "device": CPU,
        "constants": {},
        "configs": [{(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]}],
    },
    inductor_meta={
        "grid_type": "Grid1D", "autotune_hints": set(), "kernel_name": "fused_sin_0",
        "mutated_arg_names": [], "num_load": 1, "num_reduction": 0, "backend_hash": "x",
        "autotune_local_cache": False, "autotune_pointwise": True, "store_cubin": False,
    },
    min_elem_per_thread=0,
)
@triton.jit
def fused_sin_0(in_ptr0, out_ptr0, ks0, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    value = tl_math.sin(tl.load(in_ptr0 + xindex, xmask))
    tl.store(out_ptr0 + xindex, value + (ks0 * ks0).to(tl.float32), xmask)
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_generated_kernels_are_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signature declares `ks0` as i64, so its square is not cut off."""
    from torch._dynamo.device_interface import CpuInterface

    for name in ("exchange_device", "maybe_exchange_device"):  # Inductor expects them of devices
        monkeypatch.setattr(CpuInterface, name, staticmethod(lambda number: -1))
    with tawa.enable(strict=True) as takeover:
        generated = tmp_path / "generated.py"
        generated.write_text(GENERATED)
        spec: Any = importlib.util.spec_from_file_location("generated", generated)
        module: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        x, y = torch.randn(1000), torch.zeros(1000)
        module.fused_sin_0.run(x, y, 100_000, 1000, stream=0)
    assert torch.equal(y, x.sin() + 1e10)
    (row,) = takeover.summary()
    assert (row.kernel, row.place) == ("fused_sin_0", "simulator")
    assert row.launches >= 1


SUBMITTING = """
import os
import sys
import time
from pathlib import Path

import torch
from torch._dynamo.device_interface import CpuInterface
from torch._inductor.async_compile import AsyncCompile

import tawa


def files():
    return {p for p in Path(os.environ["TAWA_CACHE_DIR"]).rglob("*") if p.is_file()}


def main(source):
    for name in ("exchange_device", "maybe_exchange_device"):
        setattr(CpuInterface, name, staticmethod(lambda number: -1))
    AsyncCompile.warm_pool()
    while not AsyncCompile.use_process_pool():
        time.sleep(0.1)
    takeover = tawa.enable(strict=True)
    future = AsyncCompile().triton("fused_sin_0", source, "cpu")
    future.future.result()
    compiled_there = files()
    kernel = future.result()
    assert compiled_there and files() == compiled_there
    x, y = torch.randn(1000), torch.zeros(1000)
    kernel.run(x, y, 100_000, 1000, stream=0)
    assert torch.equal(y, x.sin() + 1e10)
    assert [(row.kernel, row.place) for row in takeover.summary()] == [("fused_sin_0", "simulator")]


if __name__ == "__main__":
    main(Path(sys.argv[1]).read_text())
"""


@pytest.mark.parametrize("enabled", ["", "strict"])
def test_processes_of_inductor_compile(tmp_path: Path, enabled: str) -> None:
    """What they compiled is taken from the cache, also where the environment enables Tawa."""
    program, source = tmp_path / "submitting.py", tmp_path / "generated.py"
    program.write_text(SUBMITTING)
    source.write_text(GENERATED)
    folders = {"TAWA_CACHE_DIR": str(tmp_path / "ours"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    path = os.pathsep.join([str(Path(tawa.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, **folders, "TAWA_ENABLE": enabled, "PYTHONPATH": path}
    subprocess.run([sys.executable, program, source], env=environment, check=True, timeout=120)


@pytest.mark.parametrize(("left", "stored"), [({"fused_sin_0"}, False), (set[str](), True)])
def test_what_stays_with_triton_is_compiled_by_it(left: set[str], stored: bool) -> None:
    function = SimpleNamespace(__name__="fused_sin_0")
    tuner = SimpleNamespace(fn=function, inductor_meta={"store_cubin": stored})
    asked: list[Any] = []

    def triton(*given: Any) -> str:
        asked.append(given)
        return "of Triton"

    def load() -> Any:
        return tuner

    assert workers.compile_there(triton, frozenset(left), "h100", load, {}, {}) == "of Triton"
    assert asked == [(load, {}, {})]


def test_a_configuration_that_nobody_compiles_spoils_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tawa compiles the second of two; Triton fails at the first, as Tawa does."""
    tried: list[str] = []

    def compile_for(kernel: Any, types: Any, meta: str, **_: Any) -> None:
        if meta == "first":
            raise ValueError(meta)

    def precompile(configuration: str) -> None:
        tried.append(configuration)
        raise ValueError(configuration)

    monkeypatch.setattr(workers.inductor, "compile_for", compile_for)
    monkeypatch.setattr(workers.inductor, "types_of", lambda meta: {})
    monkeypatch.setattr(workers, "Adopted", lambda function, types: SimpleNamespace(kernel=None))
    tuner = SimpleNamespace(
        fn=SimpleNamespace(__name__="sums"), inductor_meta={}, configs=["first", "second"],
        _create_compile_meta=lambda configuration: configuration,
        _precompile_config=precompile, prepare_for_pickle=lambda: None,
    )  # fmt: skip
    found, _ = workers.compile_there(lambda *_: None, frozenset(), "h100", lambda: tuner, {}, {})
    assert found is tuner
    assert tried == ["first"]
