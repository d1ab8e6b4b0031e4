"""Modules named `triton...` that stand for ours, where Triton is not installed.

A file of kernels written for Triton begins with `import triton` and `import triton.language as
tl`. With Triton installed these imports work, and the front end resolves what they bring by name.
Without it, `provide` puts modules of these names into `sys.modules`, so that the file can be
imported unchanged.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
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
    `autotune`, ...), in `triton.tools.tensor_descriptor`, and so on. A name in it wins over a
    module of that name inside a package, as `triton.runtime.driver` does.
    """
    if is_installed():
        return False
    modules = {path: _module(path, names) for path, names in contents.items()} | _modules()
    sys.modules.update(modules)
    for path, module in modules.items():
        parent, _, child = path.rpartition(".")
        if parent in modules and modules[parent] is not language:
            modules[parent].__dict__.setdefault(child, module)
    version = str(contents.get("triton", {}).get("__version__", ""))
    sys.meta_path.append(_Distributions(version))
    return True


class _Distribution(importlib.metadata.Distribution):
    """What `importlib.metadata` says of Triton: its name, and the version that is understood."""

    def __init__(self, version: str) -> None:
        self.text = f"Metadata-Version: 2.1\nName: triton\nVersion: {version}\n"

    def read_text(self, filename: str) -> str | None:
        """The text of a file of the distribution: there is one."""
        return self.text if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        """Where a file of the distribution lies: nowhere."""
        return Path(path)


class _Distributions(importlib.metadata.DistributionFinder):
    """Finds the distribution of Triton."""

    def __init__(self, version: str) -> None:
        self.version = version

    def find_spec(self, *_: Any) -> None:
        """Modules are found in `sys.modules`."""

    def find_distributions(
        self, context: importlib.metadata.DistributionFinder.Context | None = None
    ) -> Iterator[importlib.metadata.Distribution]:
        """Triton's, if it is asked for."""
        if context is not None and context.name == "triton":
            yield _Distribution(self.version)


def _modules() -> dict[str, ModuleType]:
    extra = language.extra
    return {
        "triton.language": language,
        "triton.language.core": language.core,
        "triton.language.math": language.math,
        "triton.language.standard": language.standard,
        "triton.language.random": language.standard,
        "triton.language.extra": extra,
        "triton.language.extra.libdevice": language.libdevice,
        "triton.language.extra.cuda": extra.cuda,
        "triton.language.extra.cuda.libdevice": language.libdevice,
    }


def _module(name: str, contents: Mapping[str, Any]) -> ModuleType:
    """A module that is a package too, so that importing what is not in it is Python's own error."""
    module = ModuleType(name, f"Stands for Triton's `{name}`; made by Tawa.")
    module.__path__ = []
    module.__spec__ = ModuleSpec(name, None, is_package=True)
    module.__dict__.update(contents)
    module.__dict__[PROVIDED] = True
    return module
