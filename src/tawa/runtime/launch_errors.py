"""Launches that do not fit their kernel: what is wrong, and where the program launches it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tawa.base.errors import TawaError
from tawa.base.source import Span

SHARED_OPTIONS = ("num_warps", "num_stages")
"""Options that are set too where a `tl.constexpr` parameter of their name is, as in Triton."""

NEUTRAL_OPTIONS: dict[str, tuple[Any, ...]] = {
    "num_ctas": (1,), "maxnreg": (None,), "launch_pdl": (True, False),
    "launch_cooperative_grid": (False,), "debug": (True, False),
}  # fmt: skip
"""Options of Triton that mean nothing here, and the values with which they may be given."""

TRITON_OPTIONS = {
    "num_ctas": "programs that share their loads are asked for with `cluster`",
    "maxnreg": "registers are split by the compiler; leave it out",
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
        "A kernel is launched as `kernel[grid](*arguments, NAME=VALUE, ...)`: its parameters, "
        "constexpr ones too, by position or by name, each once."
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


def launch_place() -> Span | None:
    """Where the user's program stands: the innermost call that no file of this package makes."""
    own = str(Path(__file__).parents[1])
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_code.co_filename.startswith(own):
        frame = frame.f_back
    if frame is None:
        return None
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    line, end_line, column, end_column = (n if n is not None else 0 for n in positions)
    if not line:
        return None
    return Span(frame.f_code.co_filename, line, column, end_line, end_column)
