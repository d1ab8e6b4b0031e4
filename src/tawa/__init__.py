"""Tawa: sequential tile kernels in Python, compiled to warp-specialised GPU code.

    import tawa
    import tawa.language as tl

    @tawa.jit
    def kernel(...): ...

    kernel[grid](...)

Importing this package loads neither the compiler nor a device.
"""

from tawa.base.errors import TawaError
from tawa.base.options import Options
from tawa.jit import Kernel, jit
from tawa.language.host import cdiv, next_power_of_2
from tawa.runtime.autotune import Autotuner, Config, Heuristics, autotune, heuristics
from tawa.runtime.descriptor import TensorDescriptor

__version__ = "0.1.0"

__all__ = [
    "Autotuner",
    "Config",
    "Heuristics",
    "Kernel",
    "Options",
    "TawaError",
    "TensorDescriptor",
    "autotune",
    "cdiv",
    "heuristics",
    "jit",
    "next_power_of_2",
]
