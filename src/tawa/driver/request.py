"""What is compiled of a kernel: types, constants and options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tawa.base.exact import exact
from tawa.base.options import Options


@dataclass(frozen=True)
class Request:
    """What a compilation depends on besides the kernel itself.

    `types` has the type of each run-time argument by name, in order; `constants` the values of
    constexpr parameters and of arguments that are compiled in (1 and None).
    """

    types: dict[str, str]
    constants: dict[str, Any]
    options: Options

    @property
    def key(self) -> tuple[Any, ...]:
        """A hashable form."""
        fixed = ((n, value.__class__, exact(value)) for n, value in self.constants.items())
        return (*self.types.items(), *fixed, self.options)
