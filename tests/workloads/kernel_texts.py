"""Texts of kernels at each level, as digests: a change of the compiler that meets a kernel is seen.

Each room of the compiler has some kernels of the suite and of the examples, and compares the level
that it ends at with a line of its `goldens/texts.txt` (`--update` writes it). A digest does not say
what has changed: `python scripts/hash_kernels.py` does so for all kernels, and from one checkout to
another; the ops of the suite's kernels are counted in `op_census`.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from catalogue import WORKLOADS
from op_census import Lines
from simulation import Arrays, Recorded, recorded
from suite import cases
from xdsl.dialects.builtin import ModuleOp

from tawa.driver.compilation import Compilation
from tawa.frontend import lower_to_tile, parse_argument
from tawa.hopper.emit import emit
from tawa.kernels.gemm import gemm
from tawa.language import float32

LEVELS = ("tile", "aref", "hopper")
LONG = ("attention_backward_of_keys", "sorted_rows", "sort")
"""What takes long to compile."""


@cache
def kernels() -> dict[str, Callable[[], Recorded]]:
    """A launch of each kernel of the suite and of the examples, by name."""

    def of_suite(name: str) -> Recorded:
        launch = cases()[name](Arrays())
        return Recorded(launch.kernel, launch.grid, tuple(launch.args), dict(launch.constants))

    found: dict[str, Callable[[], Recorded]] = {
        name: lambda name=name: of_suite(name) for name in cases() if not name.startswith(LONG)
    }
    found |= {f"example {w.name}": lambda w=w: recorded(w)[0] for w in WORKLOADS}
    return found


OPTIONS: dict[str, dict[str, Any]] = {
    "persistent": {"persistent": True},
    "dealt in pairs": {"persistent": True, "deal": 2},
    "dealt evenly": {"persistent": True, "deal": "even"},
    "two consumers": {"consumers": 2},
    "alternating": {"consumers": 2, "alternate": True},
    "teams": {"persistent": True, "consumers": 2, "ping_pong": True},
    "teams of few slots": {"persistent": True, "consumers": 2, "ping_pong": True, "num_stages": 2},
    "none in flight": {"mma_depth": 0},
    "two in flight": {"mma_depth": 2, "num_stages": 4},
    "clusters": {"cluster": 2},
    "persistent clusters": {"cluster": 2, "persistent": True},
    "staged twice": {"staging": 2, "persistent": True},
    "one role": {"specialize": False},
    "loaded together": {"load_together": True},
    "sliced along K": {"slice_k": 2},
    "no overlap": {"overlap": False},
    "two CTAs": {"ctas_per_sm": 2},
    "turned": {"TRANSPOSE_A": True, "TRANSPOSE_B": False},
    "of f32, A turned": {"element": "f32", "TRANSPOSE_A": True},
    "of f32, B turned": {"element": "f32", "TRANSPOSE_B": False},
    "of bytes, A turned": {"element": "e4m3", "TRANSPOSE_A": True},
    "of bytes, both turned": {"element": "e4m3", "TRANSPOSE_A": True, "TRANSPOSE_B": False},
}
"""Options of a product, its constants and its element: names of `products`."""


TRIED_TWICE = "example linear_attention-128"
"""It does not fit in shared memory as it is lowered first."""


def products() -> list[str]:
    """The library's product with one option or another."""
    return [f"gemm {name}" for name in OPTIONS]


def product(options: dict[str, Any]) -> Recorded:
    """The library's product of tiles of 128 x 128."""
    sizes: dict[str, Any] = {
        "TRANSPOSE_A": False, "TRANSPOSE_B": True, "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64,
        "GROUP_M": 8, "ACCUMULATOR": float32, **options,
    }  # fmt: skip
    element = sizes.pop("element", "f16")
    a = "64x128" if sizes["TRANSPOSE_A"] else "128x64"
    b = "128x64" if sizes["TRANSPOSE_B"] else "64x128"
    types = *(f"desc<{element},{block}>" for block in (a, b)), "desc<f16,128x128>"
    return Recorded(gemm, (1,), (*types, *["i32:16"] * 3), sizes)


def dealt(share: int, of: int) -> list[str]:
    """The kernels of one share of so many: the same whatever kernels there are besides."""
    names = sorted(kernels().keys() - {TRIED_TWICE})
    return [name for name in names if zlib.crc32(name.encode()) % of == share]


def text_of(name: str, level: str) -> str:
    """A kernel at a level, without places in files; `cu` is what the assembler gets."""
    options = OPTIONS.get(name.removeprefix("gemm "))
    asked = kernels()[name]() if options is None else product(options)
    request = asked.request()
    work = Compilation(request.options)
    types = [parse_argument(text) for text in request.types.values()]
    module = lower_to_tile(asked.kernel, types, request.constants)
    for step in LEVELS[: 1 + min(len(LEVELS) - 1, (*LEVELS, "cu").index(level))]:
        module = work.level(step, module)
    return emit(module) if level == "cu" else _printed(module)


def _printed(module: ModuleOp) -> str:
    for op in module.walk():
        op.attributes.pop("loc", None)
    return str(module)


def held(request: pytest.FixtureRequest, name: str, level: str) -> None:
    """Compare a kernel's text at a level with the digest that is kept beside the test."""
    lines = Lines(Path(request.path).parent / "goldens" / "texts.txt")
    found = hashlib.sha256(text_of(name, level).encode()).hexdigest()[:16]
    if request.config.getoption("--update"):
        lines.put(name, found)
    assert lines.line(name) == found, f"{name} has another text at the {level} level: --update"
