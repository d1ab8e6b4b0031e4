"""Cases of kernels in the forms that public collections and engines have.

The kernels are those of the suite (`tests/workloads`), which the tests run in the simulator at
small sizes against NumPy; here they are compiled by both compilers and timed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from same_source_case import Case

import tawa
import tawa.language

sys.path.append(str(Path(__file__).parents[1] / "tests/workloads"))

F16, F32, BF16 = torch.float16, torch.float32, torch.bfloat16
Config = dict[str, Any]


def kernel_of(place: str) -> Any:
    """A kernel of the suite: `attention.decode_split`."""
    module, name = place.split(".")
    return getattr(import_module(f"suite_{module}"), name)


def form(
    place: str,
    kind: str,
    sizes: dict[str, Any],
    grid: Callable[[Config], tuple[int, ...]],
    args: list[Any],
    output: torch.Tensor,
    configurations: list[Config],
    exact: Callable[[], torch.Tensor] | None = None,
    **more: Any,
) -> Case:
    """A case that launches a kernel with the same arguments whatever the configuration."""
    kernel = kernel_of(place)

    def launch(function: Any, descriptor: Any, config: Config) -> Any:
        given = config if isinstance(function, tawa.Kernel) else in_triton(config)
        return partial(function[grid(config)], *args, **given)

    return Case(kernel.__name__, kind, sizes, kernel, launch, configurations, output, exact,
                source="form", **more)  # fmt: skip


def in_triton(config: Config) -> Config:
    """A configuration whose element types are Triton's."""
    import triton.language as tl

    own = type(tawa.language.float32)
    return {n: tl.dtype(v.name) if isinstance(v, own) else v for n, v in config.items()}


def warps(*counts: int, **constants: Any) -> list[Config]:
    """Configurations that differ in their warps."""
    return [{**constants, "num_warps": count} for count in counts]


def tiles(*shapes: tuple[int, int, int, int], **constants: Any) -> list[Config]:
    """Configurations of a product: BM, BN, BK and warps."""
    return [{"BM": m, "BN": n, "BK": k, "num_warps": w, **constants} for m, n, k, w in shapes]


def up(size: int, *blocks: int) -> tuple[int, ...]:
    """Rounded-up quotients."""
    return tuple(-(-size // block) for block in blocks)


def device() -> str:
    import same_source_case

    return same_source_case.DEVICE


def all_sizes(make: Callable[..., Case], *sizes: tuple[int, ...]) -> list[Callable[[], Case]]:
    return [partial(make, *size) for size in sizes]
