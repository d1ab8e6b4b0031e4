"""Every example runs on the device: what it returns is compared as `tawa run` does.

An example calls its module's `launch` with NumPy arrays; here `launch` copies them to the device,
strides included, runs there, and copies the results back.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tawa.cli.run import relative_error

pytestmark = pytest.mark.gpu

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(
    path.stem for path in FOLDER.glob("*.py") if f"def example_{path.stem}" in path.read_text()
)
OTHERS = {"control_flow": "example_newton_root"}
"""Examples that are not named after their file."""

MATRIX_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"specialize": False},
    {"persistent": True},
    {"num_stages": 2},
    {"consumers": 1},
    {"consumers": 2},
    {"mma_depth": 0},
    {"mma_depth": 1, "num_stages": 3},
)
MATRIX_EXAMPLES = ("gemm", "gemm_layouts", "gemm_gelu", "gemm_bias", "dual_gemm", "batched_gemm")

TOLERANCE = 1e-2


def load(name: str) -> ModuleType:
    """The example's module, afresh."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def to_device(torch: Any, array: np.ndarray) -> Any:
    """A tensor on the device with the array's shape, strides and values."""
    strides = tuple(stride // array.itemsize for stride in array.strides)
    dtype = torch.from_numpy(np.zeros(1, array.dtype)).dtype
    tensor = torch.empty_strided(array.shape, strides, dtype=dtype, device="cuda")
    tensor.copy_(torch.from_numpy(np.ascontiguousarray(array)))
    return tensor


def device_launch(torch: Any, launch: Callable[..., Any], options: dict[str, Any]) -> Any:
    """`launch` for NumPy arrays that runs on the device."""

    def start(*args: Any, **kwargs: Any) -> None:
        arrays = [(i, a) for i, a in enumerate(args) if isinstance(a, np.ndarray)]
        tensors = {i: to_device(torch, a) for i, a in arrays}
        passed = [tensors.get(i, a) for i, a in enumerate(args)]
        launch(*passed, **{**kwargs, **options})
        torch.cuda.synchronize()
        for i, array in arrays:
            if array.flags.writeable:
                array[...] = tensors[i].cpu().numpy()

    return start


def run(name: str, options: dict[str, Any]) -> None:
    """Run an example on the device and compare what it returns."""
    torch = pytest.importorskip("torch")
    module = load(name)
    module.launch = device_launch(torch, module.launch, options)
    example = getattr(module, OTHERS.get(name, f"example_{name}"))
    results = example()
    assert results
    errors = {key: relative_error(*pair) for key, pair in results.items()}
    assert {key: error for key, error in errors.items() if not error < TOLERANCE} == {}


@pytest.mark.parametrize("name", sorted({*EXAMPLES, *OTHERS}))
def test_example(name: str) -> None:
    run(name, {})


@pytest.mark.parametrize("options", MATRIX_OPTIONS[1:], ids=str)
@pytest.mark.parametrize("name", MATRIX_EXAMPLES)
def test_matrix_example_with_options(name: str, options: dict[str, Any]) -> None:
    run(name, options)
