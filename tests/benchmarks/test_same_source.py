"""The benchmark of the same source: its cases, and a share of them in the simulator."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytest.importorskip("triton")
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import same_source_case  # noqa: E402
import same_source_memory as memory  # noqa: E402
import same_source_products as products  # noqa: E402


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    same_source_case.DEVICE = "cpu"
    torch.manual_seed(0)
    yield
    same_source_case.DEVICE = "cuda"


SMALL = {
    "int4_matmul": (16, 64, 128),
    "rms_norm_rows": (3, 200),
    "top_k_gating": (3, 50, 4),
    "conv1d_causal": (20, 64),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_form_gives_what_it_should(name: str) -> None:
    """One configuration of each, in the simulator, against the case's own reference."""
    case = getattr(products if hasattr(products, name) else memory, name)(*SMALL[name])
    config = case.configurations[-1]
    function = same_source_case.compiled_by("tawa", case.function)
    case.launch(function, same_source_case.descriptors_of("tawa"), config)()
    exact = case.exact()
    assert (case.output.double() - exact).norm() < case.tolerance * exact.norm()


def test_triton_gets_the_same_function_with_its_own_language() -> None:
    import triton.language as tl

    case = memory.rms_norm_rows(3, 200)
    function = same_source_case.compiled_by("triton", case.function)
    assert function.fn.__globals__["tl"] is tl
    assert function.arg_names == case.function.arg_names


def test_every_kernel_has_three_sizes() -> None:
    counts = Counter(make.func.__name__ for make in [*products.CASES, *memory.CASES])
    assert set(counts.values()) == {3}
