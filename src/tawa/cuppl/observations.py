"""The observations of a chain's draws, under names that the program has for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tawa.base.source import Span
from tawa.cuppl.cpu.executable import Executable
from tawa.cuppl.cpu.memory import encode_inputs
from tawa.cuppl.elaboration.elaborate import elaborate
from tawa.cuppl.inference.noted import Noted, run_again
from tawa.cuppl.inference.settings import Limits
from tawa.cuppl.lowering.continuous import lower_given
from tawa.cuppl.typing.errors import UnsupportedMethod
from tawa.functional import syntax as s
from tawa.functional.language import CheckedModule

__all__ = ["observations"]

LOOPS = ("iter", "iteri")
UNNAMED = "observed"


def observations(
    module: CheckedModule,
    main: str,
    data: Mapping[str, Any],
    positions: list[npt.NDArray[np.float64]],
    seed: int,
    limits: Limits,
) -> dict[str, Noted]:
    """What each `observe` of a program saw in the draws of some chains, by its name.

    An observation is called as what is observed: `y` in `observe d y`, in `observe d y.[i]` and in
    `iter (fn x -> observe d x) y`.
    """
    elaborated = elaborate(module, main, noting=True)
    lowered = lower_given(elaborated)
    if lowered is None:
        raise UnsupportedMethod("a program that uses `shift` can't be run again by its choices")
    executable = Executable.build(lowered, "run_noted", lanes=False)
    image = encode_inputs(elaborated, data)
    block = np.zeros(len(image.words), dtype=np.int64)
    block[:] = image.at(block.ctypes.data)
    words = len(elaborated.layouts.words(elaborated.result))
    found = run_again(executable, block.ctypes.data, words, positions, limits, seed)
    known = _names(module.syntax)
    names = _distinct(known.get(_key(one.span), UNNAMED) for one in found)
    return dict(zip(names, found, strict=True))


def _key(span: Span) -> tuple[str, int, int]:
    return span.file, span.line, span.column


def _names(module: s.Module) -> dict[tuple[str, int, int], str]:
    """Where an `observe` begins -> the name of what it observes."""
    found: dict[tuple[str, int, int], str] = {}
    elements: dict[int, str] = {}
    pending: list[object] = [module]
    while pending:
        node = pending.pop()
        match node:
            case s.Apply(s.Apply(s.Name(name=loop), s.Lambda() as body), s.Name(name=whole)):
                last = body.parameters[-1]
                if loop in LOOPS and isinstance(last, s.NamePattern):
                    _rename(body.body, last.name, whole, elements)
            case s.Apply(s.Apply(s.Name(name="observe"), _), value):
                name = elements.get(id(node)) or _name_of(value)
                if name:
                    found[_key(node.span)] = name
            case _:
                pass
        pending.extend(s.children(node))
    return found


def _rename(body: s.Node, element: str, whole: str, elements: dict[int, str]) -> None:
    """Observations of an element in the body of a loop are of the whole vector."""
    pending = [body]
    while pending:
        node = pending.pop()
        if isinstance(node, s.Apply) and _name_of(node.argument) == element:
            elements[id(node)] = whole
        pending.extend(s.children(node))


def _name_of(value: s.Expression) -> str:
    while isinstance(value, s.Index | s.Annotated | s.Project):
        value = value.subject
    return value.name if isinstance(value, s.Name) else ""


def _distinct(names: Iterable[str]) -> list[str]:
    """The names, those that came before with a number."""
    out: list[str] = []
    for name in names:
        taken, number = name, 2
        while taken in out:
            taken, number = f"{name}_{number}", number + 1
        out.append(taken)
    return out
