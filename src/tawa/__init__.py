"""Tawa: sequential tile kernels in Python, compiled to warp-specialised GPU code.

    import tawa
    import tawa.language as tl

    @tawa.jit
    def kernel(...): ...

    kernel[grid](...)

Importing this package loads neither the compiler nor a device, and each name's module only when
the name is first used. `typing` takes longest to load, so only type checkers see it here.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from tawa.base.errors import TawaError
    from tawa.base.options import Options
    from tawa.driver.decorator import jit
    from tawa.driver.jit import Kernel
    from tawa.driver.tuning import Tuned, tune
    from tawa.language.host import cdiv, next_power_of_2
    from tawa.runtime.autotune import Autotuner, Config, Heuristics, autotune, heuristics
    from tawa.runtime.descriptor import TensorDescriptor
    from tawa.runtime.timeline import Timeline
    from tawa.triton.enabling import disable, enable, enabled
    from tawa.triton.providing import provide_triton

__version__ = "0.1.0"

__all__ = [
    "Autotuner",
    "Config",
    "Heuristics",
    "Kernel",
    "Options",
    "TawaError",
    "TensorDescriptor",
    "Timeline",
    "Tuned",
    "autotune",
    "cdiv",
    "disable",
    "enable",
    "enabled",
    "heuristics",
    "jit",
    "next_power_of_2",
    "provide_triton",
    "tune",
]


HOMES = {
    "tawa.base.errors": ("TawaError",),
    "tawa.base.options": ("Options",),
    "tawa.driver.decorator": ("jit",),
    "tawa.driver.jit": ("Kernel",),
    "tawa.driver.tuning": ("Tuned", "tune"),
    "tawa.language.host": ("cdiv", "next_power_of_2"),
    "tawa.runtime.autotune": ("Autotuner", "Config", "Heuristics", "autotune", "heuristics"),
    "tawa.runtime.descriptor": ("TensorDescriptor",),
    "tawa.runtime.timeline": ("Timeline",),
    "tawa.triton.enabling": ("disable", "enable", "enabled"),
    "tawa.triton.providing": ("provide_triton",),
}
"""Modules and what they give to this package, when it is first asked for."""

PARTS = "axon", "cuppl", "kernels", "language", "tasks"
"""Packages inside this one that users import."""


def __getattr__(name: str) -> Any:
    for home, names in HOMES.items():
        if name in names:
            value = getattr(import_module(home), name)
            setattr(sys.modules[__name__], name, value)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """What is public, and the parts of the package that are to be imported by name and were."""
    return [*__all__, "__version__", *(part for part in PARTS if part in globals())]


if os.environ.get("TAWA_ENABLE"):
    from tawa.triton.startup import enable_with_triton

    enable_with_triton()
