"""Launches of a compiled kernel by itself: `compiled[grid](*arguments)`, as Triton's are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tawa.driver.compiled import Compiled
    from tawa.driver.jit import Kernel


@dataclass(frozen=True, eq=False)
class Relaunch:
    """The kernel that was compiled, and the options that its launch gave."""

    kernel: Kernel
    options: Mapping[str, Any]

    def __call__(self, grid: Any, *args: Any, **kwargs: Any) -> Compiled:
        """Launch with all arguments, `tl.constexpr` ones too.

        They are passed by name, since a parameter may have the name of an option, `num_stages`,
        and be both.
        """
        named = dict(zip(self.kernel.arg_names, args, strict=False))
        rest = args[len(named) :]
        return self.kernel[grid](*rest, **{**self.options, **named, **kwargs})
