"""GEMM contenders: cuBLAS, Triton and Tawa, each a function that enqueues one multiplication."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import product
from typing import Any

import gemm_kernels as kernels
import torch

import tawa
from tawa.runtime import driver

Work = Callable[[], Any]
ROWS = 1024
"""Rows of C that are computed or compared at a time in float64."""


@dataclass(frozen=True)
class Problem:
    """C[M, N] = A[M, K] B[N, K]^T with random normal inputs; C starts as NaN."""

    a: torch.Tensor
    b: torch.Tensor
    c: torch.Tensor

    @staticmethod
    def random(m: int, n: int, k: int, dtype: torch.dtype) -> Problem:
        """A problem of this size."""
        a, b = (torch.randn(size, k, device="cuda", dtype=dtype) for size in (m, n))
        return Problem(a, b, torch.full((m, n), float("nan"), device="cuda", dtype=dtype))

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, N and K."""
        return self.a.shape[0], self.b.shape[0], self.a.shape[1]

    @property
    def flops(self) -> int:
        """Floating-point operations of the multiplication."""
        m, n, k = self.shape
        return 2 * m * n * k

    @cached_property
    def exact(self) -> torch.Tensor:
        """The product, computed in float64 from these inputs."""
        b = self.b.double().T
        parts = [self.a[i : i + ROWS].double() @ b for i in range(0, self.c.shape[0], ROWS)]
        return torch.cat(parts)

    def error(self, work: Work) -> dict[str, Any]:
        """Errors of what `work` writes to C, as the field of a row; inf for NaN.

        The reference is computed in float64 and rounded once to C's type; `unrounded` is the
        distance to the float64 result itself, which no result of C's type can get below the
        rounding's 2e-4 (fp16) or 1.7e-3 (bf16).
        """
        self.c.fill_(float("nan"))
        work()
        sums = torch.zeros(4, dtype=torch.float64, device="cuda")
        for exact, c in zip(self.exact.split(ROWS), self.c.split(ROWS), strict=True):
            rounded = exact.to(c.dtype).double()
            found = c.double()
            terms = found - rounded, rounded, found - exact, exact
            sums += torch.stack([term.square().sum() for term in terms])
        distance, norm, unrounded, exact_norm = sums.tolist()
        return {
            "relative_frobenius": relative(distance, norm),
            "unrounded": relative(unrounded, exact_norm),
            "reference": f"float64, rounded to {self.c.dtype}",
        }


def relative(distance: float, norm: float) -> float:
    """The root of a ratio of sums of squares; inf for NaN, the distance where the norm is 0."""
    error = (distance / norm) ** 0.5 if norm else distance**0.5
    return error if error == error else float("inf")


@dataclass(frozen=True)
class Tile:
    """A configuration: block sizes and how many rows of tiles form a group, and options."""

    m: int
    n: int
    k: int = 64
    group: int = 8
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        options = ",".join(f"{key}={value}" for key, value in self.options.items())
        return f"{self.m}x{self.n}x{self.k} g{self.group} {options}".strip()

    @property
    def constants(self) -> dict[str, int]:
        """The kernel's constexpr arguments."""
        return {"BLOCK_M": self.m, "BLOCK_N": self.n, "BLOCK_K": self.k, "GROUP_M": self.group}

    def programs(self, problem: Problem) -> int:
        """Tiles of C."""
        m, n, _ = problem.shape
        return -(-m // self.m) * -(-n // self.n)


def cublas(problem: Problem) -> Work:
    """`torch.matmul` into C."""
    return lambda: torch.matmul(problem.a, problem.b.T, out=problem.c)


TRITON_PLAIN = (
    Tile(128, 256, options={"num_warps": 8, "num_stages": 3}),
    Tile(128, 256, options={"num_warps": 8, "num_stages": 4}),
    Tile(256, 128, options={"num_warps": 8, "num_stages": 3}),
    Tile(128, 128, options={"num_warps": 4, "num_stages": 4}),
    Tile(128, 128, options={"num_warps": 8, "num_stages": 4}),
)
TRITON_PERSISTENT = (
    Tile(128, 256, options={"num_warps": 8, "num_stages": 3}),
    Tile(128, 128, options={"num_warps": 8, "num_stages": 4}),
    Tile(128, 128, options={"num_warps": 4, "num_stages": 4}),
)


def triton_contenders(problem: Problem, warmup: bool = False) -> Iterator[tuple[str, Work]]:
    """Triton with each of its configurations: plain grids, and a persistent tile loop.

    With `warmup` the work only compiles; the problem's arrays may be on the host then.
    """
    from triton.tools.tensor_descriptor import TensorDescriptor

    plain, persistent = _triton_kernels()
    for tile in TRITON_PLAIN:
        args = _arguments(problem, tile, TensorDescriptor)
        grid = (tile.programs(problem),)
        yield f"plain {tile}", _triton_work(plain, grid, args, tile, {}, warmup)
    sms = driver.device().multiprocessors
    for tile in TRITON_PERSISTENT:
        args = _arguments(problem, tile, TensorDescriptor)
        grid = (min(sms, tile.programs(problem)),)
        for flatten in (True, False):
            more = {"PROGRAMS": grid[0], "FLATTEN": flatten}
            name = f"persistent {tile} flatten={flatten}"
            yield name, _triton_work(persistent, grid, args, tile, more, warmup)


def _triton_work(
    kernel: Any, grid: Any, args: Any, tile: Tile, more: dict[str, Any], warmup: bool
) -> Work:
    keywords = {**tile.constants, **more, **tile.options}
    if warmup:
        return lambda: kernel.warmup(*args, grid=grid, **keywords)
    return lambda: kernel[grid](*args, **keywords)


@cache
def _triton_kernels() -> tuple[Any, Any]:
    import triton

    return triton.jit(kernels.gemm), triton.jit(kernels.gemm_persistent)


TAWA_TILES: tuple[Tile, ...] = (
    Tile(128, 256, options={"persistent": True, "consumers": 2, "num_stages": 4, "mma_depth": 1}),
    Tile(
        *(128, 192),
        options={
            "persistent": True,
            "consumers": 2,
            "ping_pong": True,
            "num_stages": 4,
            "staging": 4,
            "stream_stores": True,
        },
    ),
    Tile(
        *(128, 192),
        options={
            "persistent": True,
            "consumers": 2,
            "ping_pong": True,
            "num_stages": 5,
            "staging": 1,
        },
    ),
    Tile(
        *(128, 192),
        options={
            "persistent": True,
            "consumers": 2,
            "ping_pong": True,
            "num_stages": 5,
            "staging": 1,
            "cluster": 2,
        },
    ),
    Tile(256, 200, options={"persistent": True, "consumers": 2, "num_stages": 3}),
    Tile(256, 200, group=11, options={"persistent": True, "consumers": 2, "num_stages": 3}),
)
"""Tawa's tuned configurations; block sizes need not be powers of two."""


def tawa_contenders(problem: Problem) -> Iterator[tuple[str, Work]]:
    """Tawa with each of its configurations, from the plain kernel."""
    for tile in TAWA_TILES:
        yield str(tile), tawa_work(problem, tile)


def tawa_work(problem: Problem, tile: Tile) -> Work:
    """Tawa with one configuration."""
    kernel, grid = tawa_kernel(), (tile.programs(problem),)
    args = _arguments(problem, tile, tawa.TensorDescriptor)
    return lambda: kernel[grid](*args, **tile.constants, **tile.options)


@cache
def tawa_kernel() -> Any:
    """The plain kernel, compiled by Tawa."""
    return tawa.jit(kernels.gemm)


DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
ELEMENTS = {"fp16": "f16", "bf16": "bf16"}


def compile_all(dtypes: list[str], sizes: tuple[int, int, int], impls: list[str]) -> None:
    """Compile every configuration into the caches, in processes that end before any is timed.

    The kernels are those of all products whose sizes are multiples of 16 and fill the device.
    Call it before anything in this process uses CUDA. What fails here fails again, and gets its
    row, where it is checked.
    """
    counts = {"tawa": len(TAWA_TILES), "triton": len(TRITON_PLAIN) + 2 * len(TRITON_PERSISTENT)}
    places = [
        (impl, number, dtype, sizes)
        for impl, dtype in product(impls, dtypes)
        for number in range(counts[impl])
    ]
    with ProcessPoolExecutor() as pool:
        list(pool.map(_compile_one, places))


def _compile_one(place: tuple[str, int, str, tuple[int, int, int]]) -> None:
    impl, number, dtype, (m, n, k) = place
    try:
        if impl == "tawa":
            compile_tawa(TAWA_TILES[number], ELEMENTS[dtype])
        else:
            shapes = (m, k), (n, k), (m, n)
            problem = Problem(*(torch.empty(shape, dtype=DTYPES[dtype]) for shape in shapes))
            list(triton_contenders(problem, warmup=True))[number][1]()
    except Exception as error:  # a peer's compiler may raise anything
        print(f"  {impl} {number} {dtype}: {type(error).__name__}: {error}"[:300], flush=True)


def compile_tawa(tile: Tile, element: str) -> Any:
    """Tawa's kernel with one configuration, as launches on large matrices compile it."""
    blocks = (tile.m, tile.k), (tile.n, tile.k), (tile.m, tile.n)
    described = [f"desc<{element},{rows}x{columns}>" for rows, columns in blocks]
    integers = ["i32:16"] * 3
    return tawa_kernel().compile(*described, *integers, **tile.constants, **tile.options)


def _arguments(problem: Problem, tile: Tile, descriptor: Any) -> tuple[Any, ...]:
    a = descriptor.from_tensor(problem.a, [tile.m, tile.k])
    b = descriptor.from_tensor(problem.b, [tile.n, tile.k])
    c = descriptor.from_tensor(problem.c, [tile.m, tile.n])
    return (a, b, c, *problem.shape)
