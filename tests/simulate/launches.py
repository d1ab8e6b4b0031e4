"""Small launches of every library and example kernel, and the option sets that they ship."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

ROOT = Path(__file__).parents[2]
for folder in (ROOT / "examples", ROOT / "tests" / "workloads"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))

from simulation import Recorded, recording  # noqa: E402

from tawa.cli.check_sweep import Chosen, Row, Sweep  # noqa: E402
from tawa.simulate.interpret.limits import Limits  # noqa: E402

BOUND = 2000
"""States that one combination's search may visit."""

PROVE = 0.0
"""Seconds for the proof of every launch of one combination; 0 leaves it out."""

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
    pairs: bool = False
    """Whether every pair of `VALUES` is checked as well."""
    bases: tuple[Chosen, ...] = (PERSISTENT, CLUSTER, {"persistent": True, "cluster": 2})

    def sweep(self) -> Sweep:
        """The launch, ready to be checked."""
        record = self.recorded()
        own = [p.name for p in record.kernel.parameters]
        defaults = {p.name: p.default for p in record.kernel.parameters if p.has_default}
        given = {**defaults, **dict(zip(own, record.args, strict=False)), **record.kwargs}
        named = {name: given[name] for name in own}
        grid = record.grid(named) if callable(record.grid) else record.grid
        return Sweep(record.kernel, tuple(grid), named, Limits(BOUND), PROVE)

    def rows(self) -> list[Row]:
        """What the tests know of it."""
        return self.rows_of(self.sweep())

    def rows_of(self, sweep: Sweep) -> list[Row]:
        """The shipped option sets, then pairs."""
        rows = list(sweep.all_of({**self.fixed, **options} for options in self.shipped))
        return rows + (list(sweep.pairs(self.fixed, self.bases, VALUES)) if self.pairs else [])

    def recorded(self) -> Recorded:
        """The launch, which is not made; the kernel's name picks one of several."""
        with recording() as launches:
            self.launch()
        return next((r for r in launches if r.kernel.__name__ == self.name), launches[0])


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


VALUES: dict[str, tuple[Any, ...]] = {
    "specialize": (None, False),
    "num_stages": (None, 1, 3),
    "mma_depth": (None, 0, 2),
    "consumers": (None, 1, 2),
    "ping_pong": (None, True),
    "persistent": (None, True),
    "cluster": (1, 2),
    "staging": (None, 1),
    "overlap": (None, False),
}
"""What the tests vary; `tawa check --pairs` and `--all` have more values."""

USUAL: tuple[Chosen, ...] = (
    {}, {"specialize": False}, PERSISTENT, {"num_stages": 1, "mma_depth": 0}, {"consumers": 1},
    {"persistent": True, "num_stages": 2, "staging": 1}, CLUSTER, PING_PONG, {"overlap": False},
)  # fmt: skip
"""What the kernels that are not swept in pairs are checked with."""

A, B = _random(128, 160), _random(128, 160)
C = (256, 128)
Q = _random(3, 2, 128, 64)


def _attention(
    dtype: Any = np.float16, arrays: Any = Q, rows: int = 64, **options: Any
) -> Callable[[], Any]:
    """The library's attention on small tiles."""
    from tawa.kernels.attention import Configuration, attention

    def launch() -> Any:
        q, k, v = (x[:, None].astype(dtype) for x in arrays)
        return attention(q, k, v, using=Configuration(rows, 32, {}, rows > 64), **options)

    return launch


def _conv(
    tiling: tuple[Any, ...], x: tuple[int, ...], w: tuple[int, ...], dtype: Any = np.float16,
    **arguments: Any,
) -> Callable[[], Any]:  # fmt: skip
    """The library's convolution by one kernel and tile."""
    from tawa.kernels import conv

    work = {4: conv.conv2d, 5: conv.conv3d}[len(x)]
    return lambda: work(
        _random(*x, dtype=dtype), _random(*w, dtype=dtype), None, conv.Tiling(*tiling), **arguments
    )


def _conv_filters(x: tuple[int, ...], w: tuple[int, ...], **arguments: Any) -> Callable[[], Any]:
    """The gradient of filters."""
    from tawa.kernels.conv_gradients import gradient_of_filters

    dy = _random(x[0], x[1] - w[1] + 1, x[2] - w[2] + 1, w[0])
    return lambda: gradient_of_filters(dy, _random(*x), w, **arguments)


IMAGE, TAPS = (1, 17, 9, 64), (64, 2, 2, 64)
NARROW = ml_dtypes.float8_e4m3fn

LIBRARY = (
    Small(
        "kernels/gemm",
        _matmul(256, 128, 160, (128, 64, 32)),
        shipped=_configurations(),
        bases=(PERSISTENT, PING_PONG, CLUSTER, {"persistent": True, "cluster": 2}),
        pairs=True,
    ),
    Small(
        "kernels/attention",
        _attention(causal=True),
        shipped=({}, PERSISTENT, {"num_stages": 1, **PERSISTENT}),
    ),
    Small(
        "kernels/attention, e4m3",
        _attention(ml_dtypes.float8_e4m3fn, causal=True),
        shipped=({}, PERSISTENT, {"num_stages": 1, **PERSISTENT}, {"specialize": False}),
    ),
    Small(
        "kernels/attention, four consumers",
        _attention(arrays=_random(3, 3, 256, 32), rows=256, causal=True),
        {"consumers": 4, "load_together": True},
        shipped=(PERSISTENT, {"deal": "even", **PERSISTENT}),
    ),
    Small(
        "kernels/conv, windows",
        _conv(("windows", 1, 16, 8, 64, 64), IMAGE, TAPS, relu=True),
        shipped=({}, PING_PONG),
    ),
    Small(
        "kernels/conv, windows of planes, with a residual",
        _conv(("windows", 1, 8, 8, 64, 64), IMAGE, TAPS, stride=2, residual=_random(1, 8, 4, 64)),
        shipped=({},),
    ),
    Small(
        "kernels/conv, windows of three dimensions",
        _conv(
            ("windows", 1, 8, 8, 32, 32),
            (1, 1, 8, 9, 32),
            (32, 2, 1, 2, 32),
            padding=((1, 0), 0, 0),
        ),
        shipped=({},),
    ),
    Small(
        "kernels/conv, windows of 8 bits",
        _conv(("windows", 1, 16, 8, 32, 128), (1, 17, 9, 128), (32, 2, 2, 128), NARROW),
        shipped=({},),
    ),
    Small(
        "kernels/conv, kept filters",
        _conv(("resident", 1, 16, 8, 64, 64), IMAGE, TAPS),
        shipped=({},),
    ),
    Small(
        "kernels/conv, taps",
        _conv(("taps", 1, 16, 8, 64, 64), IMAGE, TAPS),
        shipped=({},),
    ),
    Small(
        "kernels/conv, filters by taps", _conv_filters(IMAGE, TAPS, dtype="float16"), shipped=({},)
    ),
    Small(
        "kernels/conv, filters by rows",
        _conv_filters((1, 17, 9, 32), (64, 2, 2, 32)),
        shipped=({},),
    ),
    Small(
        "kernels/gemm, three consumers",
        _matmul(192, 128, 96, (192, 64, 32)),
        {"consumers": 3},
        shipped=({}, PERSISTENT, {"num_stages": 2}, {"num_stages": 1, "mma_depth": 0}),
    ),
)
SMALL = (
    Small("gemm", _example("gemm", _random(256, 160), B, _empty(*C), (128, 64, 32)), pairs=True,
          bases=(PERSISTENT, PING_PONG, CLUSTER, {"persistent": True, "cluster": 2})),
    Small("gemm, odd tiles", _example("gemm", _random(192, 160), B, _empty(192, 128), (64, 64, 32)),
          shipped=(PERSISTENT, {**PERSISTENT, "cluster": 2}, PING_PONG)),
    Small("attention", _example("attention", *Q, _empty(2, 128, 64), causal=True, block=(64, 32)),
          shipped=({}, PERSISTENT, {"specialize": False}, {"num_stages": 1, "mma_depth": 0},
                   {"overlap": False}, {"persistent": True, "num_stages": 2, "staging": 1})),
    Small("gemm_bias", _example("gemm_bias", A, B, _random(128, dtype=np.float32),
                                _empty(128, 128, dtype=np.float32), (64, 64, 32)), shipped=USUAL),
    Small("gemm_gelu", _example("gemm_gelu", A, B, _random(128, 128), _empty(128, 128),
                                (64, 64, 32)), shipped=USUAL),
    Small("persistent_gemm", _example("persistent_gemm", A, B, _empty(128, 128), (64, 64, 32),
                                      programs=2), shipped=USUAL),
)  # fmt: skip


FEW = {"attention_dk_dv": (1,), "attention_dq": (1,)}
"""Depths with which an example's groups once waited for each other for ever."""


def _as_launched() -> Iterator[Small]:
    """Every example as its file launches it, and changed a little."""
    for path in sorted((ROOT / "examples").glob("*.py")):
        for name in re.findall(r"^def example_(\w+)\(", path.read_text(), re.MULTILINE):
            small = Small(name, _example_of(path.stem, name))
            record = small.recorded()
            own = {p.name for p in record.kernel.parameters}
            used = {key: value for key, value in record.kwargs.items() if key not in own}
            few = tuple({**used, "num_stages": n} for n in FEW.get(name, ()))
            yield replace(small, shipped=(used, {**used, "num_stages": 2, "staging": 1}, *few))


def _example_of(module: str, name: str) -> Callable[[], Any]:
    return lambda: getattr(importlib.import_module(module), f"example_{name}")()


EXAMPLES = tuple(_as_launched())
LAUNCHES = (*LIBRARY, *SMALL, *EXAMPLES)
