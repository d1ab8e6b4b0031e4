"""Axon as a language: the parts put together."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tawa.axon.sizes.solver import AxonSolver
from tawa.axon.typing.builder import AxonBuilder
from tawa.axon.typing.infer import AxonInference
from tawa.axon.typing.slips import AXON_SLIPS
from tawa.functional.language import Language

FOLDER = Path(__file__).parent


class Axon(Language):
    """The Axon language."""

    name = "axon"
    extension = ".ax"
    additions = (FOLDER / "grammar.lark").read_text()
    slips = AXON_SLIPS
    builder = AxonBuilder
    inference = AxonInference
    solver = AxonSolver
    prelude = (FOLDER / "prelude.ax").read_text()


@cache
def axon() -> Axon:
    """The language; built once."""
    return Axon()
