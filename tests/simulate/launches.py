"""Small launches of every library and example kernel, and the option sets that they ship."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
for folder in (ROOT / "examples", ROOT / "tests" / "workloads"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))

from simulation import recording  # noqa: E402

from tawa.cli.check_sweep import Chosen, Sweep  # noqa: E402
from tawa.frontend.function import is_jit_function  # noqa: E402
from tawa.simulate.limits import Limits  # noqa: E402

BOUND = 300_000
"""States that one combination's search may visit."""

PERSISTENT: Chosen = {"persistent": True}
PING_PONG: Chosen = {"persistent": True, "ping_pong": True}
CLUSTER: Chosen = {"cluster": 2}


@dataclass(frozen=True)
class Small:
    """A launch of few programs with few turns each, and what its options are varied around."""

    name: str
    launch: Callable[[], Any]
    fixed: Chosen = field(default_factory=dict)
    """Options that stay as they are."""
    shipped: tuple[Chosen, ...] = ()
    """Option sets that the kernel's own configurations and examples use."""
    bases: tuple[Chosen, ...] = (PERSISTENT, CLUSTER, {"persistent": True, "cluster": 2})

    def sweep(self) -> Sweep:
        """The launch, ready to be checked."""
        with recording() as launches:
            self.launch()
        (record,) = launches
        own = [p.name for p in record.kernel.parameters]
        defaults = {p.name: p.default for p in record.kernel.parameters if p.has_default}
        given = {**defaults, **dict(zip(own, record.args, strict=False)), **record.kwargs}
        named = {name: given[name] for name in own}
        grid = record.grid(named) if callable(record.grid) else record.grid
        return Sweep(record.kernel, tuple(grid), named, Limits(BOUND))

    @property
    def kernel_name(self) -> str:
        """The kernel that is launched."""
        with recording() as launches:
            self.launch()
        return launches[0].kernel.__name__


def _random(*shape: int, dtype: Any = np.float16) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def _empty(*shape: int, dtype: Any = np.float16) -> Any:
    return np.full(shape, np.nan, dtype)


def _example(module: str, *args: Any, **kwargs: Any) -> Callable[[], Any]:
    return lambda: importlib.import_module(module).launch(*args, **kwargs)


def _matmul(m: int, n: int, k: int, block: tuple[int, int, int]) -> Callable[[], Any]:
    from tawa.kernels.gemm import Configuration, matmul

    return lambda: matmul(_random(m, k), _random(k, n), None, Configuration(*block))


def _configurations() -> tuple[Chosen, ...]:
    from tawa.kernels.gemm import configurations

    found = [c.options for c in configurations()]
    return tuple(f for i, f in enumerate(found) if f not in found[:i])


A, B = _random(128, 160), _random(128, 160)

LIBRARY = (
    Small(
        "kernels/gemm",
        _matmul(256, 128, 160, (128, 64, 32)),
        shipped=_configurations(),
        bases=(PERSISTENT, PING_PONG, CLUSTER, {"persistent": True, "cluster": 2}),
    ),
    Small("kernels/gemm, three consumers", _matmul(192, 128, 96, (192, 64, 32)), {"consumers": 3}),
)
EXAMPLES = (
    Small("gemm", _example("gemm", _random(256, 160), B, _empty(256, 128), (128, 64, 32)),
          bases=(PERSISTENT, PING_PONG, CLUSTER, {"persistent": True, "cluster": 2})),
    Small("attention", _example("attention", *_random(3, 2, 128, 64), _empty(2, 128, 64),
                                causal=True, block=(64, 32)),
          shipped=(PERSISTENT, {"num_stages": 2})),
)  # fmt: skip
LAUNCHES = (*LIBRARY, *EXAMPLES)
