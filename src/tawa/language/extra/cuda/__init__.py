"""What `triton.language.extra.cuda` offers: libdevice and programmatic dependent launch."""

from tawa.language import libdevice
from tawa.language.builtin import builtin

__all__ = ["gdc_launch_dependents", "gdc_wait", "libdevice"]


@builtin
def gdc_wait() -> None:
    """Wait for the launches that this one depends on; nothing to do without such launches."""


@builtin
def gdc_launch_dependents() -> None:
    """Let dependent launches start; nothing to do without such launches."""
