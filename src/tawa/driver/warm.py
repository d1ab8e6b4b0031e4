"""What a warm-up gives: a compiled kernel that can be launched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tawa.driver.compiled import Compiled
    from tawa.driver.jit import Kernel


class Warm:
    """A compiled kernel, with the options it was compiled with: `warm[grid](*arguments)` runs it.

    Everything else is the compiled kernel's: `n_regs`, `metadata`, `asm`, ...
    """

    def __init__(self, compiled: Compiled, kernel: Kernel, options: Mapping[str, Any]) -> None:
        self.compiled = compiled
        self._kernel = kernel
        self._options = dict(options)

    def __getitem__(self, grid: Any) -> Callable[..., Compiled]:
        """With its grid, ready to be called with all arguments, `tl.constexpr` ones too."""

        def start(*args: Any, **kwargs: Any) -> Compiled:
            # By name, since a parameter may have the name of an option, `num_stages`, and be both.
            named = dict(zip(self._kernel.arg_names, args, strict=False))
            rest = args[len(named) :]
            return self._kernel[grid](*rest, **{**self._options, **named, **kwargs})

        return start

    def __getattr__(self, name: str) -> Any:
        return getattr(self.compiled, name)

    def __repr__(self) -> str:
        return repr(self.compiled)
