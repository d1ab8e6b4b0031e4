"""`tawa.language.libdevice` under the name that `triton.language.extra` gives it."""

from tawa.language import libdevice
from tawa.language.libdevice import *  # noqa: F403

__doc__ = libdevice.__doc__
