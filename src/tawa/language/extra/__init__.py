"""Extensions of the tile language, named as in `triton.language.extra`."""

from tawa.language import libdevice
from tawa.language.extra import cuda

__all__ = ["cuda", "libdevice"]
