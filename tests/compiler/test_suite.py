"""Kernels as public collections have them: the same results at the tile and the hopper level.

How many of each op they become is compared with goldens/suite_ops.txt (`--update` writes it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from op_census import Lines, census, difference
from simulation import Arrays, Recorded, Stored, as_float, relative_error
from suite import cases

import tawa
from tawa.driver.compilation import Compilation
from tawa.frontend import lower_to_tile, parse_argument
from tawa.simulate.interpret.hopper import run as run_hopper

OPS = Lines(Path(__file__).parent / "goldens" / "suite_ops.txt")

SLOW = (
    "attention_", "sorted_rows", "concatenation", "pointers_and_order", "retention", "nucleus",
    "stream_of_k",
)  # fmt: skip
"""What a device runs, and no simulator in every test.

The same ops stand in other cases; programs that wait for later ones run together only there.
"""

NAMES = [name for name in cases() if not name.startswith(SLOW)]


def base(value: Any) -> Any:
    """The array of a descriptor, anything else as it is."""
    return value.base if isinstance(value, tawa.TensorDescriptor) else value


def plain(values: Sequence[Any]) -> list[Any]:
    """Arrays as NumPy's own."""
    return [v.view(np.ndarray) if isinstance(v, Stored) else v for v in values]


@pytest.fixture
def counted(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a module's ops with those of the kernel's line."""

    def check(key: str, found: str) -> None:
        if request.config.getoption("--update"):
            OPS.put(key, found)
        changed = difference(OPS.line(key), found)
        assert not changed, f"{key} has other ops; look, then --update:\n{changed}"

    return check


@pytest.mark.parametrize("name", NAMES)
def test_case(name: str, counted: Callable[[str, str], None]) -> None:
    launch = cases()[name](Arrays())
    asked = Recorded(launch.kernel, launch.grid, tuple(launch.args), dict(launch.constants))
    request = asked.request()
    work = Compilation(request.options)
    types = [parse_argument(text) for text in request.types.values()]
    tile = work.level("tile", lower_to_tile(launch.kernel, types, request.constants))
    module = work.level("aref", tile)
    ops = {"aref": census(module)}
    module = work.level("hopper", module)
    ops["hopper"] = census(module)
    named = dict(zip((p.name for p in launch.kernel.parameters), launch.args, strict=False))
    run_hopper(module, launch.grid, plain([named[n] for n in request.types]))
    for i, expected in launch.expected.items():
        array = base(launch.args[i])
        found = as_float(array.view(np.ndarray), array.element)
        error = relative_error(found, np.asarray(expected, np.float64))
        assert error < launch.tolerance, f"argument {i} is off by {error:.2e}"
    for level, found in ops.items():
        counted(f"{name} {level}", found)
