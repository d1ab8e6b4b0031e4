"""Compiles every kernel of the device's attention tests, and says what the assembler reports.

    python tests/kernels/attention_machine_code.py [part of a name]

Needs no GPU. Prints a line a kernel, and fails if one spills, or has products that are serialised.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from tawa.driver.compiled import Compiled
from tawa.driver.jit import Kernel
from tawa.kernels.attention import attention
from tawa.kernels.attention_kernel import alibi, masked

DEVICE_TESTS = Path(__file__).parents[1] / "gpu" / "test_attention_on_device.py"
DTYPES = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
}


def device_tests() -> ModuleType:
    """The module of the device's tests."""
    spec = importlib.util.spec_from_file_location("attention_on_device", DEVICE_TESTS)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cases(module: ModuleType) -> dict[str, tuple[Any, dict[str, Any]]]:
    """A case and more options, by name."""
    found: dict[str, tuple[Any, dict[str, Any]]] = {n: (c, {}) for n, c in module.CASES.items()}
    bias = np.broadcast_to(np.zeros((1, 1, 1, 1000), np.float16), (2, 1, 513, 1000))
    small = module.Case(513, 1000, batch=2, d=64)
    found["bias"] = small, {"score_mod": masked, "captured": (bias, 513000, 0, 1000, 1)}
    captured = (np.zeros(4, np.float32), 300)
    causal = module.Case(700, 1000, heads=4, options={"causal": True})
    found["alibi"] = causal, {"score_mod": alibi, "captured": captured}
    factors = tuple(np.ones((2, 2), np.float32) for _ in range(3))
    fp8 = module.Case(500, 700, heads=4, kv_heads=2, batch=2, dtype="float8_e4m3fn")
    found["factors"] = fp8, {"descale": factors}
    return found


def compiled_kernel(case: Any, more: dict[str, Any]) -> Compiled:
    """What the case would launch."""
    found: list[Compiled] = []

    def record(kernel: Kernel, grid: Any, /, *args: Any, **kwargs: Any) -> None:
        found.append(kernel.compile(*args, **kwargs))

    heads = (case.heads, case.kv_heads or case.heads, case.kv_heads or case.heads)
    rows, widths = (case.queries, case.keys, case.keys), (case.d, case.d, case.dv or case.d)
    dtype = DTYPES[case.dtype]
    arrays = [
        np.zeros((case.batch, n, d[0], d[1]), dtype)
        for n, d in zip(heads, zip(rows, widths, strict=True), strict=True)
    ]
    launch, Kernel._launch = Kernel._launch, record  # pyright: ignore
    try:
        attention(*arrays, return_lse=True, **case.options, **more)
    finally:
        Kernel._launch = launch
    return found[0]


def main() -> int:
    """Compile what the argument names, or all; the number of kernels with findings."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    bad = 0
    for name, (case, more) in cases(device_tests()).items():
        if wanted not in name:
            continue
        start = time.perf_counter()
        compiled = compiled_kernel(case, more)
        seconds = time.perf_counter() - start
        bad += bool(compiled.findings)
        print(f"{name:36} {seconds:5.1f} s  {'; '.join(compiled.findings) or 'clean'}", flush=True)
    print(f"{bad} kernels with findings")
    return bad


if __name__ == "__main__":
    sys.exit(min(main(), 1))
