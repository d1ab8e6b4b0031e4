"""Matrix products on the device against float64: layouts, types, odd and tiny sizes, options.

C lies inside a larger buffer. C starts as NaN, so that every element must be written, and what
lies around it must stay as it was.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tawa
from tawa.kernels.gemm import Configuration, matmul

pytestmark = pytest.mark.gpu

FOLDER = Path(__file__).parents[2] / "examples"
LIMIT = 1e-3
"""Relative Frobenius error against the float64 product, rounded once to C's type."""

AROUND = 12.5


@cache
def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"gpu_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def torch() -> Any:
    module = pytest.importorskip("torch")
    module.manual_seed(0)
    return module


def matrix(torch: Any, rows: int, columns: int, dtype: Any) -> Any:
    """Random normal values; rows start at multiples of 16 bytes, with other values between them."""
    pitch = -(-columns // 8) * 8 + 8
    return torch.randn(rows, pitch, device="cuda").to(dtype)[:, :columns]


class Result:
    """C, all NaN, inside a larger buffer."""

    def __init__(self, torch: Any, rows: int, columns: int, dtype: Any) -> None:
        pitch = -(-columns // 8) * 8 + 16
        self.torch = torch
        self.buffer = torch.full((rows + 2, pitch), AROUND, device="cuda", dtype=dtype)
        self.c = self.buffer[1 : rows + 1, 8 : columns + 8]
        self.c.fill_(float("nan"))

    def check(self, exact: Any) -> None:
        """Compare with the float64 product, and look at what lies around C."""
        self.torch.cuda.synchronize()
        rounded = exact.to(self.c.dtype).double()
        distance = (self.c.double() - rounded).norm()
        norm = rounded.norm()
        assert float(distance) <= LIMIT * float(norm), (float(distance), float(norm))
        self.c.fill_(AROUND)
        assert bool((self.buffer == AROUND).all()), "something was written outside of C"


SHAPES = (
    (16, 16, 16),
    (1, 8, 8),
    (128, 128, 0),
    (130, 264, 72),
    (513, 136, 999),
    (4095, 4104, 1000),
)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize("form", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_layouts_and_sizes(torch: Any, shape: tuple[int, int, int], form: str, dtype: str) -> None:
    m, n, k = shape
    kind = getattr(torch, dtype)
    a = matrix(torch, *((k, m) if form[0] == "T" else (m, k)), kind)
    b = matrix(torch, *((n, k) if form[1] == "T" else (k, n)), kind)
    result = Result(torch, m, n, kind)
    example("gemm_layouts").launch(a, b, result.c, form)
    left = a.double().T if form[0] == "T" else a.double()
    right = b.double().T if form[1] == "T" else b.double()
    result.check(left @ right)


OPTIONS: tuple[tuple[tuple[int, int, int], dict[str, Any]], ...] = (
    ((128, 128, 64), {"specialize": False}),
    ((64, 64, 32), {"specialize": False, "num_stages": 1}),
    ((64, 256, 64), {"consumers": 1}),
    ((128, 256, 64), {"consumers": 2}),
    ((256, 128, 64), {"consumers": 2, "num_stages": 2, "mma_depth": 0}),
    ((128, 256, 64), {"consumers": 2, "num_stages": 4, "mma_depth": 1}),
    ((192, 128, 64), {"consumers": 3}),
    ((128, 256, 64), {"persistent": True}),
    ((128, 128, 128), {"persistent": True, "num_stages": 2}),
    ((128, 192, 64), {"persistent": True, "consumers": 2, "ping_pong": True}),
    (
        (128, 192, 64),
        {
            "persistent": True,
            "consumers": 2,
            "ping_pong": True,
            "staging": 4,
            "stream_stores": True,
        },
    ),
    ((256, 200, 64), {"persistent": True, "consumers": 2, "num_stages": 3}),
    ((128, 256, 64), {"persistent": True, "cluster": 2}),
    ((128, 192, 64), {"persistent": True, "cluster": 2, "consumers": 2, "ping_pong": True}),
)


@pytest.mark.parametrize(
    "shape", [(1000, 1032, 520), (4095, 4104, 1000), (8192, 2048, 64)], ids=str
)
@pytest.mark.parametrize(("block", "options"), OPTIONS, ids=str)
def test_options(
    torch: Any, shape: tuple[int, int, int], block: tuple[int, int, int], options: dict[str, Any]
) -> None:
    m, n, k = shape
    a, b = (matrix(torch, size, k, torch.float16) for size in (m, n))
    result = Result(torch, m, n, torch.float16)
    for _ in range(3):  # a race shows as an error that comes and goes
        result.c.fill_(float("nan"))
        example("gemm").launch(a, b, result.c, block, **options)
    result.check(a.double() @ b.double().T)


@pytest.mark.parametrize("programs", [1, 7, 132])
def test_a_tile_loop_of_its_own(torch: Any, programs: int) -> None:
    m, n, k = 1000, 776, 200
    a, b = (torch.randn(size, k, device="cuda").half() for size in (m, n))
    c = torch.full((m, n), float("nan"), device="cuda").half()
    example("persistent_gemm").launch(a, b, c, programs=programs)
    exact = a.double() @ b.double().T
    assert float((c.double() - exact).norm()) < LIMIT * float(exact.norm())


def test_rows_that_end_inside_a_piece_are_stored_by_threads(torch: Any) -> None:
    a, b = (matrix(torch, size, 64, torch.float16) for size in (64, 129))
    result = Result(torch, 64, 129, torch.float16)
    exact = a.double() @ b.double().T
    for _ in range(2):
        example("gemm").launch(a, b, result.c)
        result.check(exact)


def test_batch_strides(torch: Any) -> None:
    a = torch.randn(6, 200, 136, device="cuda").half()[::2, :, :72]
    b = torch.randn(4, 264, 72, device="cuda").half()[1:]
    c = torch.full((3, 200, 264), float("nan"), device="cuda").half()
    example("batched_gemm").launch(a, b, c)
    exact = a.double() @ b.double().transpose(1, 2)
    assert float((c.double() - exact).norm()) < LIMIT * float(exact.norm())


def test_kernels_are_captured_in_a_graph(torch: Any) -> None:
    a, b = (matrix(torch, 512, 256, torch.float16) for _ in range(2))
    result = Result(torch, 512, 512, torch.float16)
    launch = example("gemm").launch
    launch(a, b, result.c)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch(a, b, result.c)
    result.c.fill_(float("nan"))
    graph.replay()
    result.check(a.double() @ b.double().T)


def test_no_device_memory_is_allocated(torch: Any) -> None:
    a, b = (matrix(torch, 512, 256, torch.float16) for _ in range(2))
    result = Result(torch, 512, 512, torch.float16)
    launch = example("gemm").launch
    launch(a, b, result.c)
    torch.cuda.synchronize()
    free, allocated = torch.cuda.mem_get_info()[0], torch.cuda.memory_allocated()
    for _ in range(10):
        launch(a, b, result.c)
    torch.cuda.synchronize()
    assert torch.cuda.mem_get_info()[0] == free
    assert torch.cuda.memory_allocated() == allocated


def test_a_tensor_on_the_cpu_is_named(torch: Any) -> None:
    a, b = (matrix(torch, 64, 64, torch.float16) for _ in range(2))
    c = torch.empty(64, 64, dtype=torch.float16)
    with pytest.raises(tawa.TawaError, match="argument `c_desc` lies on another device"):
        example("gemm").launch(a, b, c)


def test_a_row_pitch_that_the_copy_engine_can_t_take_is_explained(torch: Any) -> None:
    a = torch.randn(64, 63, device="cuda").half()
    with pytest.raises(tawa.TawaError, match="multiple of 16 bytes"):
        example("gemm").launch(a, a, torch.empty(64, 64, device="cuda").half())


def test_unaligned_memory_is_explained(torch: Any) -> None:
    a = torch.randn(64 * 64 + 1, device="cuda").half()[1:].view(64, 64)
    with pytest.raises(tawa.TawaError, match="multiple of 16 bytes"):
        example("gemm").launch(a, a, torch.empty(64, 64, device="cuda").half())


MATMULS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "odd sizes": lambda r: (r(70, 37), r(37, 45)),
    "steps": lambda r: (r(140, 37)[::2], r(37, 135)[:, ::3]),
    "unaligned": lambda r: (r(1, 64 * 72 + 1)[0, 1:].view(64, 72), r(72, 64)),
    "no K": lambda r: (r(70, 0), r(0, 48)),
    "few rows": lambda r: (r(3, 8192), r(4096, 8192).T),
    "few columns": lambda r: (r(4096, 8192), r(8192, 24)),
    "one wave": lambda r: (r(2048, 384).T, r(2048, 1536)),
    "split": lambda r: (r(72, 8200), r(136, 8200).T),
    "batch": lambda r: (r(5, 200, 136), r(5, 264, 136).mT),
    "batch of odd sizes": lambda r: (r(4, 70, 37), r(37, 45)),
    "linear": lambda r: (r(4, 333, 512), r(1032, 512).T),
}


@pytest.mark.parametrize("name", MATMULS)
def test_matmul_of_any_arrays(torch: Any, name: str) -> None:
    a, b = MATMULS[name](lambda *shape: torch.randn(*shape, device="cuda").half())
    exact = a.double() @ b.double()
    out = torch.full(exact.shape, float("nan"), device="cuda", dtype=a.dtype)
    matmul(a, b, out)
    assert float((out.double() - exact).norm()) <= LIMIT * float(exact.norm())


def test_matmul_into_any_strides(torch: Any) -> None:
    a, b = torch.randn(70, 40, device="cuda").half(), torch.randn(40, 48, device="cuda").half()
    exact = a.double() @ b.double()
    wide = torch.full((140, 96), AROUND, device="cuda").half()
    for out in (wide[::2, ::2], torch.empty(48, 70, device="cuda").half().T):
        matmul(a, b, out)
        assert float((out.double() - exact).norm()) <= LIMIT * float(exact.norm())
    assert bool((wide[1::2] == AROUND).all())
    assert bool((wide[:, 1::2] == AROUND).all())


@pytest.mark.parametrize("copied", [(False, False), (True, False), (False, True), (True, True)])
def test_integers_that_lie_across_k(torch: Any, copied: tuple[bool, bool]) -> None:
    a, b = (torch.randint(-9, 9, (272, 272), device="cuda").to(torch.int8) for _ in range(2))
    out = torch.zeros(272, 272, device="cuda", dtype=torch.int32)
    matmul(a.T, b, out, Configuration(64, 128, 128, group_m=0, copied=copied))
    assert torch.equal(out.double(), a.T.double() @ b.double())
