"""What `triton.language.extra.cuda` offers: libdevice and programmatic dependent launch."""

from typing import Any

from tawa.language import core, libdevice
from tawa.language.builtin import builtin, composite
from tawa.language.dtypes import int32, int64

__all__ = ["gdc_launch_dependents", "gdc_wait", "globaltimer", "libdevice", "num_threads",
           "num_warps", "smid"]  # fmt: skip


@composite
def globaltimer() -> Any:
    """Nanoseconds of the device's clock, as int64."""
    return core.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], int64, False, 1)


@composite
def smid() -> Any:
    """The number of the multiprocessor that the program runs on, as int32."""
    return core.inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], int32, True, 1)


@builtin
def num_threads() -> Any:
    """32 times the launch's `num_warps`, a compile-time value; warps that only load come on top."""


@builtin
def num_warps() -> Any:
    """The launch's `num_warps`, a compile-time value."""


@builtin
def gdc_wait() -> None:
    """Wait for the kernels before this one; a launch with `launch_pdl` begins with it."""


@builtin
def gdc_launch_dependents() -> None:
    """Let the next kernel begin, if launched with `launch_pdl`; it waits for this one's end."""
