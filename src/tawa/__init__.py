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
from tawa.language.shim import provide as _provide
from tawa.runtime.autotune import Autotuner, Config, Heuristics, autotune, heuristics
from tawa.runtime.descriptor import TensorDescriptor
from tawa.runtime.timeline import Timeline

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
    "autotune",
    "cdiv",
    "heuristics",
    "jit",
    "next_power_of_2",
    "provide_triton",
]


def provide_triton() -> bool:
    """Make `import triton` and `import triton.language as tl` work where Triton isn't installed.

    The names then stand for ours, so that a file of kernels written for Triton can be imported as
    it is. Does nothing and gives False where Triton is installed: its kernels are accepted too.
    """
    names = {
        "Config": Config,
        "autotune": autotune,
        "cdiv": cdiv,
        "heuristics": heuristics,
        "jit": jit,
        "next_power_of_2": next_power_of_2,
    }
    return _provide(names, {"TensorDescriptor": TensorDescriptor})
