"""Enables Tawa when Triton is imported, where the environment asks for it.

The file `tawa.pth`, which is installed beside the package, imports this module when Python starts,
if `TAWA_ENABLE` is set: the program itself need not know of Tawa.
"""

from __future__ import annotations

from tawa.base.knobs import ENABLE
from tawa.triton.imports import when_imported


def enable_with_triton() -> None:
    """Call `tawa.enable()` as soon as Triton is imported. Raises `BadKnob`."""
    if ENABLE.get():
        when_imported("triton", _enable)


def _enable() -> None:
    from tawa.language.shim import is_installed
    from tawa.triton.enabling import enable, enabled

    if is_installed() and enabled() is None:
        enable(strict=ENABLE.get() == "strict")


enable_with_triton()
