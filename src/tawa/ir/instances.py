"""`isinstance` of xDSL's classes by their bases alone.

xDSL's ops, values and attributes are abstract classes, of which Python asks whether others were
registered as theirs: a call in Python for each question, and passes ask a hundred thousand of them
for a kernel. Nobody registers any, so the bases say the same. Abstract methods stay abstract.
"""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

TOPS = Operation, Block, Region, Attribute, SSAValue
"""The classes whose subclasses, those of later too, are asked for by their bases."""


class ByBases(ABCMeta):
    """The class of abstract classes that have no subclasses but those that inherit from them."""

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


def ask_bases() -> None:
    """Let `isinstance` and `issubclass` look at bases alone, for `TOPS` and what inherits."""
    for top in TOPS:
        _ask_bases(top)


def _ask_bases(kind: Any) -> None:
    if type(kind) is ABCMeta:
        kind.__class__ = ByBases
    for inheriting in type.__subclasses__(kind):
        _ask_bases(inheriting)
