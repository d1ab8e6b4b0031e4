"""Signatures that stand alone, as of contracts and of operators: `{h} t[n, h*k] -> t[n, k]`."""

from __future__ import annotations

from typing import NamedTuple

from tawa.axon.sizes.solver import AxonSolver
from tawa.axon.typing.infer import AxonInference
from tawa.axon.typing.language import axon
from tawa.functional.recursion import deep
from tawa.functional.terms import Con, Scheme, Term


class StaticParameter(NamedTuple):
    """A parameter in braces: its name, its default, and what stands for it in the type."""

    name: str
    default: int | None
    term: Term


def read_signature(text: str, name: str, size_kind: str = "dim") -> Scheme:
    """The scheme that a signature says, with sizes of a kind. Raises FunctionalError.

    It may have static parameters in front (`{h} ...`) and conditions behind (`where n >= 2`), as
    the signatures of the prelude do. `name` is what messages call it.
    """
    text = text.strip()
    statics, body = "", text
    if text.startswith("{"):
        head, _, body = text.partition("}")
        statics = head + "}"
    module = axon().parse(f"val {name}{statics} : {body}", f"<{name}>")
    solver = AxonSolver()
    solver.size_kind = size_kind
    with deep():
        return AxonInference(solver, {}).module(module)[name]


def static_parameters(type_: Term) -> list[StaticParameter]:
    """The static parameters of a type; none of one that has none."""
    if not (isinstance(type_, Con) and type_.name.startswith("{")):
        return []
    texts = [text.partition("=") for text in type_.name[1:-1].split(",")]
    return [
        StaticParameter(name.lstrip("."), int(default) if default else None, term)
        for (name, _, default), term in zip(texts, type_.arguments[:-1], strict=True)
    ]
