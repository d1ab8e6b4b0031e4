"""Kernels brought to a level without machine code, ready to be simulated."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tawa.driver.compilation import Compilation
from tawa.driver.jit import Kernel
from tawa.frontend import lower_to_tile, parse_argument
from tawa.simulate.interpret.launch import kernel_of, spec_of

_NUMBERS = itertools.count()

HEAD = "import tawa\nimport tawa.language as tl\n\n\n@tawa.jit\n"


def kernel_in(folder: Path, source: str) -> Kernel:
    """The function `kernel` of a source text; the front end needs a file."""
    path = folder / f"kernel_{next(_NUMBERS)}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def modules(kernel: Kernel, named: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The kernel's module at every level; `named` are its arguments and constants."""
    request = kernel.request(**named, **options)
    work = Compilation(request.options)
    types = [parse_argument(text) for text in request.types.values()]
    found = {"tile": work.level("tile", lower_to_tile(kernel, types, request.constants))}
    found["aref"] = work.level("aref", found["tile"].clone())
    found["hopper"] = work.level("hopper", found["aref"].clone())
    return found


def run_time_arguments(module: ModuleOp, named: Mapping[str, Any]) -> list[Any]:
    """What a launch of a hopper module takes, in order."""
    return [named[name] for name in spec_of(module, kernel_of(module)).arguments]
