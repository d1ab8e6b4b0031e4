"""Streams: the address of the CUDA stream that a launch goes to."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from tawa.base.errors import TawaError
from tawa.runtime.driver import checked

DEFAULT = 0
"""The legacy default stream."""


class NotAStream(TawaError):
    """The `stream` of a launch is not a CUDA stream."""

    explanation = (
        "A stream is a stream object of PyTorch or CuPy, any object with `__cuda_stream__`, or the "
        "address of a CUstream as an integer."
    )
    example = """
from tawa.runtime.streams import stream_address

stream_address("main")
"""


def stream_address(stream: Any) -> int:
    """The address of a stream given as an integer or a stream object of any library."""
    if isinstance(stream, int):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        protocol: Any = stream.__cuda_stream__
        pair = cast("tuple[int, int]", protocol() if callable(protocol) else protocol)
        return int(pair[1])
    for field in ("cuda_stream", "ptr", "handle"):
        if hasattr(stream, field):
            return int(getattr(stream, field))
    raise NotAStream(
        "the launch's stream is not a CUDA stream",
        expected="a stream object or its address",
        found=f"a value of type {type(stream).__name__}",
    )


def is_capturing(stream: int) -> bool:
    """Whether launches to a stream are being captured in a graph, so that nothing may be loaded."""
    try:
        status = checked("cuStreamIsCapturing", stream)
    except TawaError:  # of the legacy stream, while another one is captured
        return True
    return int(status) != 0


def current_stream(library: str, device: int) -> Callable[[], int]:
    """A function that gives the address of `library`'s current stream on `device`."""
    module: Any = sys.modules.get(library)
    if module is not None and library == "torch":
        raw = module._C._cuda_getCurrentRawStream
        return partial(raw, device)
    if module is not None and library == "cupy":
        return lambda: module.cuda.get_current_stream().ptr
    return lambda: DEFAULT
