"""Runs a function once a module has been imported, now or later."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


def when_imported(name: str, then: Callable[[], None]) -> None:
    """Call `then` when the module `name` is in `sys.modules` and complete."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    if module is not None and not getattr(spec, "_initializing", False):
        then()
    elif not any(isinstance(f, _Watcher) and f.watches(name, then) for f in sys.meta_path):
        sys.meta_path.insert(0, _Watcher(name, then))


class _Watcher(importlib.abc.MetaPathFinder):
    """Finds one module as the others do, with a loader that calls a function at the end."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self.name = name
        self.then = then

    def watches(self, name: str, then: Callable[[], None]) -> bool:
        """Whether this watcher waits for a module to call a function."""
        return self.name == name and self.then == then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's own spec, its loader watched; None for any other module."""
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)
            return spec
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            self.then()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # of this spec alone
        return spec
