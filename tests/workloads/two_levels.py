"""Small programs at the tile and at the hopper level, without machine code: both leave the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import tawa
from tawa.driver.compilation import Compilation
from tawa.driver.jit import Kernel
from tawa.frontend import lower_to_tile, parse_argument
from tawa.simulate.interpret import hopper, tile
from tawa.simulate.interpret.launch import kernel_of, spec_of
from tawa.simulate.interpret.tile import HostDescriptor


def modules(kernel: Kernel, *args: Any, **constants: Any) -> dict[str, ModuleOp]:
    """A kernel's module at each level, for some arguments."""
    request = kernel.request(*args, **constants)
    types = [parse_argument(text) for text in request.types.values()]
    work = Compilation(request.options)
    module = lower_to_tile(kernel, types, request.constants)
    found: dict[str, ModuleOp] = {}
    for level in ("tile", "aref", "hopper"):
        module = found[level] = work.level(level, module.clone())
    return found


def same_at_both(
    kernel: Kernel,
    grid: Sequence[int],
    *args: Any,
    tolerance: float = 0.0,
    **constants: Any,
) -> list[np.ndarray]:
    """Run a kernel at both levels; the arrays as they are afterwards, equal but for a tolerance."""
    made = modules(kernel, *args, **constants)
    arrays = [a.base if isinstance(a, tawa.TensorDescriptor) else a for a in args]
    before = [a.copy() if isinstance(a, np.ndarray) else None for a in arrays]
    names = [p.name for p in kernel.parameters]
    given = {**dict(zip(names, args, strict=False)), **constants}
    taken = spec_of(made["hopper"], kernel_of(made["hopper"])).arguments
    values = [given[name] for name in taken]
    host = [HostDescriptor.of(v.base) if isinstance(v, tawa.TensorDescriptor) else v
            for v in values]  # fmt: skip
    tile.run(made["tile"], tuple(grid), host)
    expected = [a.copy() if isinstance(a, np.ndarray) else a for a in arrays]
    for array, start in zip(arrays, before, strict=True):
        if start is not None:
            array[...] = start
    hopper.run(made["hopper"], tuple(grid), values)
    for found, exact in zip(arrays, expected, strict=True):
        if isinstance(found, np.ndarray):
            np.testing.assert_allclose(found, exact, rtol=tolerance, atol=tolerance)
    return expected
