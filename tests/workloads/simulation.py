"""Runs a workload's kernel at the tile and the hopper level, on NumPy arrays in storage form."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from workload import Array, Workload, as_float, relative_error

import tawa
from tawa.base.numerics import encode
from tawa.base.types import NAMES
from tawa.driver.compiled import Compiled
from tawa.driver.jit import Kernel
from tawa.driver.request import Request
from tawa.simulate.interpret.hopper import run as run_hopper
from tawa.simulate.interpret.tile import HostDescriptor
from tawa.simulate.interpret.tile import run as run_tile
from tawa.simulate.ptx.launch import run as run_ptx


class Stored(np.ndarray):
    """An array in storage form that knows its element type: NumPy has no bf16 and no fp8."""

    element: str

    def __array_finalize__(self, parent: Any) -> None:
        self.element = getattr(parent, "element", "")


def stored(values: np.ndarray, element: str, every: int = 1) -> Stored:
    """Values as an array of an element type; see `Array.every`."""
    dense = encode(values, NAMES[element])
    if every > 1:
        wide = np.zeros((dense.shape[0] * every, *dense.shape[1:]), dense.dtype)
        wide[::every] = dense
        dense = wide[::every]
    result = dense.view(Stored)
    result.element = element
    return result


@dataclass
class Recorded:
    """A launch that was asked for."""

    kernel: Kernel
    grid: tuple[int, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def compile(self) -> Compiled:
        """Compile for what the launch has."""
        return self.kernel.compile(*map(_type, self.args), **self.kwargs)

    def request(self) -> Request:
        """What that compilation depends on."""
        return self.kernel.request(*map(_type, self.args), **self.kwargs)

    def values(self, compiled: Compiled) -> list[Any]:
        """The run-time arguments that the compiled kernel takes."""
        names = [p.name for p in self.kernel.parameters]
        given = {**dict(zip(names, self.args, strict=False)), **self.kwargs}
        return [given[name] for name in compiled.spec.arguments]

    def run(self, compiled: Compiled, level: str, **options: Any) -> None:
        """Run a level's module on the launch's own arrays."""
        values = self.values(compiled)
        if level == "hopper":
            plain = [v.view(np.ndarray) if isinstance(v, Stored) else v for v in values]
            run_hopper(compiled.module("hopper"), self.grid, plain, **options)
            return
        if level == "ptx":
            plain = [v.view(np.ndarray) if isinstance(v, Stored) else v for v in values]
            run_ptx(str(compiled.stages["ptx"]), compiled.spec, self.grid, plain, **options)
            return
        host = [_host(value) for value in values]
        run_tile(compiled.module("tile"), self.grid, host)


def _type(value: Any) -> Any:
    if isinstance(value, Stored):
        return f"*{value.element}:16"
    if isinstance(value, tawa.TensorDescriptor):
        block = "x".join(map(str, value.block_shape))
        return f"desc<{value.base.element},{block}>"
    return value


def _host(value: Any) -> Any:
    if isinstance(value, tawa.TensorDescriptor):
        return HostDescriptor.of(value.base.view(np.ndarray))
    return value.view(np.ndarray) if isinstance(value, Stored) else value


@contextmanager
def recording() -> Generator[list[Recorded]]:
    """Launches inside are only recorded."""
    launches: list[Recorded] = []

    def record(self: Kernel, grid: Any, /, *args: Any, **kwargs: Any) -> None:
        launches.append(Recorded(self, grid, args, kwargs))

    before = Kernel._launch
    Kernel._launch = record  # pyright: ignore
    try:
        yield launches
    finally:
        Kernel._launch = before


def recorded(workload: Workload) -> tuple[Recorded, dict[str, Stored]]:
    """The workload's launch, and its arrays by name: outputs are poisoned."""
    arrays = {
        name: stored(workload.values[name], array.element, array.every)
        for name, array in workload.inputs.items()
    }
    for name, array in workload.outputs.items():
        arrays[name] = stored(array.poison, array.element, array.every)
    with recording() as launches:
        workload.launch(arrays)
    (launch,) = launches
    return launch, arrays


def results(workload: Workload, arrays: dict[str, Stored]) -> dict[str, np.ndarray]:
    """The outputs as float64."""
    return {
        name: as_float(arrays[name].view(np.ndarray), array.element)
        for name, array in workload.outputs.items()
    }


def simulate(workload: Workload, levels: Sequence[str], **options: Any) -> Compiled:
    """Compile a workload, run it at each level and compare; returns what was compiled."""
    launch, _ = recorded(workload)
    compiled = launch.compile()
    for level in levels:
        launch, arrays = recorded(workload)
        # Two CTAs, so that persistent kernels have several tiles each.
        few = {"multiprocessors": 2, **options} if level != "tile" else {}
        launch.run(compiled, level, **few)
        workload.check(results(workload, arrays))
    return compiled


def check(
    kernel: Kernel,
    grid: tuple[int, ...],
    args: Sequence[Any],
    expected: dict[int, np.ndarray],
    tolerance: float = 1e-3,
    levels: Sequence[str] = ("tile", "hopper"),
    **kwargs: Any,
) -> Compiled:
    """Run a launch at some levels; `expected` says what arguments (by position) hold after it.

    Arrays are `stored` ones, or descriptors on them.
    """
    launch = Recorded(kernel, grid, tuple(args), kwargs)
    compiled = launch.compile()
    arrays = {i: getattr(a, "base", a) if _described(a) else a for i, a in enumerate(args)}
    before = {i: a.copy() for i, a in arrays.items() if isinstance(a, Stored)}
    for level in levels:
        for i, start in before.items():
            arrays[i][...] = start
        launch.run(compiled, level)
        for i, values in expected.items():
            array = arrays[i]
            found = as_float(array.view(np.ndarray), array.element)
            error = relative_error(found, np.asarray(values, np.float64))
            assert error < tolerance, f"{level}: argument {i} is off by {error:.2e}"
    return compiled


def _described(value: Any) -> bool:
    return isinstance(value, tawa.TensorDescriptor)


class Arrays:
    """Makes arrays in storage form; each has other values."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)

    def random(self, element: str, *shape: int) -> Stored:
        """Standard normal values, or small integers."""
        return stored(Array(element, shape).values(self._rng), element)

    def output(self, element: str, *shape: int) -> Stored:
        """NaN, or -77 for integers."""
        return stored(Array(element, shape).poison, element)


def values(array: Stored) -> np.ndarray:
    """An array's values as float64."""
    return as_float(array.view(np.ndarray), array.element)


def block(array: Stored, *shape: int) -> tawa.TensorDescriptor:
    """A descriptor of an array with a block shape."""
    return tawa.TensorDescriptor.from_tensor(array, list(shape))
