"""Modules named `triton...` that stand for ours, where Triton is not installed.

A file of kernels written for Triton begins with `import triton` and `import triton.language as
tl`. With Triton installed these imports work, and the front end resolves what they bring by name.
Without it, `provide` puts modules of these names into `sys.modules`, so that the file can be
imported unchanged.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from tawa import language

PROVIDED = "__tawa__"
"""Attribute that marks a module as one of ours."""


def is_installed() -> bool:
    """Whether `import triton` gives the real one."""
    module = sys.modules.get("triton")
    if module is not None:
        return not hasattr(module, PROVIDED)
    return importlib.util.find_spec("triton") is not None


def provide(contents: Mapping[str, Mapping[str, Any]]) -> bool:
    """Make `import triton` work where Triton is not installed; false if it is.

    `contents` says what is in each module besides those of the language: in `triton` (`jit`,
    `autotune`, ...), in `triton.tools.tensor_descriptor`, and so on.
    """
    if is_installed():
        return False
    modules = {path: _module(path, names) for path, names in contents.items()} | _modules()
    sys.modules.update(modules)
    for path, module in modules.items():
        parent, _, child = path.rpartition(".")
        if parent in modules and modules[parent] is not language:
            setattr(modules[parent], child, module)
    return True


def _modules() -> dict[str, ModuleType]:
    extra = language.extra
    return {
        "triton.language": language,
        "triton.language.core": language.core,
        "triton.language.math": language.math,
        "triton.language.standard": language.standard,
        "triton.language.extra": extra,
        "triton.language.extra.libdevice": language.libdevice,
        "triton.language.extra.cuda": extra.cuda,
        "triton.language.extra.cuda.libdevice": language.libdevice,
    }


def _module(name: str, contents: Mapping[str, Any]) -> ModuleType:
    module = ModuleType(name, f"Stands for Triton's `{name}`; made by Tawa.")
    module.__dict__.update(contents)
    module.__dict__[PROVIDED] = True
    return module
