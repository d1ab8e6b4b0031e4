"""Launches that do not fit their kernel: what is wrong."""

from __future__ import annotations

from typing import Any

from tawa.base.errors import TawaError

SHARED_OPTIONS = ("num_warps", "num_stages")
"""Options that are set too where a `tl.constexpr` parameter of their name is, as in Triton."""

NEUTRAL_OPTIONS: dict[str, tuple[Any, ...]] = {
    "debug": (True, False), "sanitize_overflow": (True, False),
    "arch": (None, "sm90"), "ir_override": (None,), "enable_reflect_ftz": (True,),
    "ptx_version": (None,), "ptx_options": (None,), "instrumentation_mode": ("",),
    "warp_size": (32,), "backend_name": ("cuda",),
}  # fmt: skip
"""Options of Triton that mean nothing here, and the values with which they may be given."""

TRITON_OPTIONS = {
    "num_consumer_groups": "use `consumers`",
    "num_buffers_warp_spec": "use `num_stages`",
    "enable_warp_specialization": "use `specialize`",
    "waves_per_eu": "this is an option for AMD's GPUs; leave it out",
    "matrix_instr_nonkdim": "this is an option for AMD's GPUs; leave it out",
}
"""What to write in the place of options of Triton's that do not exist here."""


class UnknownLaunchOption(TawaError):
    """A launch has a keyword that is neither a parameter of the kernel nor an option."""

    explanation = (
        "Keywords of a launch are the kernel's parameters, the fields of `tawa.Options` "
        "(`num_stages`, `consumers`, `persistent`, ...), `stream` and `device`."
    )
    example = """
import numpy as np
import tawa


@tawa.jit
def nothing(x):
    pass


nothing[(1,)](np.zeros(4, np.float32), num_stage=3)
"""


class WrongLaunchArguments(TawaError, TypeError):
    """The arguments of a launch do not fit the kernel's parameters, or there is no grid."""

    explanation = (
        "A kernel is launched as `kernel[grid](*arguments, NAME=VALUE, ...)`. Each of its "
        "parameters, constexpr ones too, is given once, by position or by name."
    )
    example = """
import numpy as np
import tawa
import tawa.language as tl


@tawa.jit
def fill(x, value, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), value)


fill[(1,)](np.zeros(4, np.float32), N=4)
"""


class ConstantNotSpecialized(TawaError):
    """A constexpr parameter is listed among those that are not specialized."""

    explanation = (
        "A kernel is compiled for each value of its constexpr parameters, so `do_not_specialize`, "
        "which keeps values out of the code, can name run-time parameters only. Take the parameter "
        "off the list, or drop its annotation `tl.constexpr`."
    )
    example = """
import tawa
import tawa.language as tl


@tawa.jit(do_not_specialize=("BLOCK",))
def nothing(x, BLOCK: tl.constexpr):
    pass


nothing.compile("*f32", BLOCK=64)
"""


class ConstantNotHashable(TawaError):
    """The value of a constexpr parameter can't be part of a key."""

    explanation = (
        "A kernel is compiled once for each value of its constexpr parameters, so these have to be "
        "hashable: numbers, strings, tuples, dtypes, functions. Pass a tuple instead of a list."
    )
    example = """
import numpy as np
import tawa
import tawa.language as tl


@tawa.jit
def nothing(x, SHAPE: tl.constexpr):
    pass


nothing[(1,)](np.zeros(4, np.float32), SHAPE=[4, 4])
"""


class BadTypeText(TawaError):
    """The type of a kernel's argument can't be read."""

    explanation = (
        "`kernel.compile` takes, for each run-time parameter, an example value or the text of a "
        "type: `*f16` (an array), `desc<f16,128x64>` (a tensor descriptor with its block shape), "
        "or a scalar type such as `i32` or `f32`. `:16` after it says that the address or integer "
        "is a multiple of 16."
    )
    example = """
import tawa


@tawa.jit
def nothing(x):
    pass


nothing.compile("pointer")
"""
