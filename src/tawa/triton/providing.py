"""`tawa.provide_triton()`: `import triton` where Triton is not installed."""

from __future__ import annotations

from typing import Any

from tawa.base.user_frames import entry
from tawa.language.shim import provide
from tawa.triton import inductor
from tawa.triton.imports import when_imported
from tawa.triton.modules import contents
from tawa.triton.objects import NotProvided
from tawa.triton.takeover import Takeover


@entry
def provide_triton() -> bool:
    """Make `import triton` and `import triton.language as tl` work where Triton isn't installed.

    The names then stand for ours, so that a file of kernels written for Triton can be imported as
    it is. Does nothing and gives False where Triton is installed: its kernels are accepted too.
    """
    if not provide(contents()):
        return False
    when_imported(inductor.HEURISTICS, _take_inductor)
    return True


def _take_inductor() -> None:
    """Inductor expects compiled kernels that its own launchers can start: it gets ours."""
    inductor.take(Takeover(_without_triton, _without_triton, lambda _: None, strict=True))


def _without_triton(*_: Any, **__: Any) -> Any:
    raise NotProvided("there is no Triton to run a kernel")
