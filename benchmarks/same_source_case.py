"""A kernel at one size, to be compiled by Triton and by Tawa, and the kernels of either."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

import tawa

DEVICE = "cuda"
"""Where arrays lie; `cpu` where nothing is timed."""

CONTENTS = True
"""Whether arrays have contents; else only their sizes count."""

TUNING = 0.01
"""Seconds of launches from which a configuration of a package's tuned kernel is judged, after as
many to warm up; with 0 each is launched once, and the first is taken."""


@dataclass(frozen=True)
class Case:
    """A kernel at one size: how to launch it with a configuration, and what it should give."""

    kernel: str
    kind: str
    sizes: dict[str, Any]
    function: Any
    """A plain function, or a kernel of Tawa's, which Triton gets with its own language."""
    launch: Callable[[Any, Any, dict[str, Any]], Any]
    """Takes the compiled function, the class of descriptors and a configuration."""
    configurations: list[dict[str, Any]]
    output: torch.Tensor
    exact: Callable[[], torch.Tensor] | None
    """None where the two compilers are compared with each other: the tests have the reference."""
    tolerance: float = 5e-3
    flops: int | None = None
    bytes: int | None = None
    source: str = "plain"
    op: Callable[[], Any] | None = None
    """Of an operator of a package: its call. Such a case has no function of its own."""

    @property
    def row(self) -> dict[str, Any]:
        """What result rows say of it."""
        named = {"kernel": self.kernel, "source": self.source, "kind": self.kind}
        return named | self.sizes

    def __str__(self) -> str:
        return f"{self.kernel} {' '.join(f'{k}={v}' for k, v in self.sizes.items())}"


@cache
def compiled_by(impl: str, function: Any) -> Any:
    """A kernel of one compiler."""
    if impl == "tawa":
        return function if isinstance(function, tawa.Kernel) else tawa.jit(function)
    import triton

    plain = in_triton(function) if isinstance(function, tawa.Kernel) else function
    return triton.jit(plain)


@cache
def in_triton(kernel: Any) -> Any:
    """The function of a kernel of Tawa's where the names of the language are Triton's."""
    import triton
    import triton.language as tl

    plain = kernel.fn
    names = dict(plain.__globals__)
    for name in plain.__code__.co_names:
        value = names.get(name)
        if isinstance(value, tawa.Kernel):
            names[name] = triton.jit(in_triton(value))
        elif isinstance(value, types.ModuleType) and value.__name__ == "tawa.language":
            names[name] = tl
    found = types.FunctionType(plain.__code__, names, plain.__name__, plain.__defaults__)
    found.__module__, found.__qualname__ = plain.__module__, plain.__qualname__
    found.__annotations__ = plain.__annotations__
    return found


@cache
def descriptors_of(impl: str) -> Any:
    """The class of tensor descriptors of one compiler."""
    if impl == "tawa":
        return tawa.TensorDescriptor
    from triton.tools.tensor_descriptor import TensorDescriptor

    return TensorDescriptor


def random(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    """Standard normal numbers."""
    if not CONTENTS:
        return empty(*shape, dtype=dtype)
    return torch.randn(shape, device=DEVICE, dtype=torch.float32).to(dtype)


def empty(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    """Zeros to be written over."""
    return torch.zeros(shape, device=DEVICE, dtype=dtype)
