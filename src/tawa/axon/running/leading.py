"""Which operators do with each part along leading axes what they do with the whole.

That is read off their signatures: `sum : t[..p, n, ..q] -> t[..p, ..q]` does the same along any
number of axes in front, and `max_pool : t[b, c, h, w] -> t[b, c, ...]` for any `b`. What the
operators of the language are made of has signatures here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tawa.axon.sizes.constraints import Broadcast
from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.shapes import Shape, as_shape, tensor_parts
from tawa.axon.typing.language import axon
from tawa.functional.terms import Con, Scheme, Term, Variable

INNER = """
val cast : t[..s] -> u[..s]
val order : t[..p, n, ..q] -> i64[..p, n, ..q]
val choose : t[..p, n, ..q] -> i64[..p, m, ..q] -> t[..p, m, ..q]
val unchoose : t[..p, m, ..q] -> i64[..p, m, ..q] -> t[..p, n, ..q]
val windows : t[b, ..s] -> t[b, ..r]
val overlap : t[b, ..s] -> t[b, ..r]
val image_slopes : t[b, ..r] -> t[..w] -> t[b, ..s]
val attention_slopes : t[..b, q, d] -> t[..b, k, d] -> t[..b, k, v] -> t[..b, q, v] -> t[..b, q, v]
  -> (t[..b, q, d], t[..b, k, d], t[..b, k, v])
"""
"""The signatures of operators that have no name in the language."""


@dataclass(frozen=True)
class Leading:
    """The parameters with leading axes, which the result has in front, too.

    For each, how many axes follow at least; None for parameters without. The leading axes
    are `broadcast`, or equal; there is exactly `one`, or any number of them.
    """

    follow: tuple[int | None, ...]
    broadcast: bool
    one: bool


@cache
def leading(name: str) -> Leading | None:
    """The leading axes of an operator; None if what it does is not the same along any."""
    scheme = _inner().get(name) or axon().built_ins.get(name)
    return None if scheme is None else _of(scheme)


@cache
def _inner() -> dict[str, Scheme]:
    return axon().check(INNER, "<inner operators>").schemes


def _of(scheme: Scheme) -> Leading | None:
    parameters, results = _tensors(scheme.type)
    if parameters is None or not results:
        return None
    fronts = [_front(shape) for shape in results]
    sources = _sources(fronts[0], scheme)
    if not sources or any(front is not fronts[0] for front in fronts):
        return None
    mine = [_front(shape) in sources for shape in parameters]
    if not any(mine):
        return None
    is_one = fronts[0] is not None and fronts[0].kind != "shape"
    if is_one and _count(fronts[0], (*parameters, *results)) != sum(mine) + len(results):
        return None
    follow = tuple(
        len(shape.items) - 1 if own else None for shape, own in zip(parameters, mine, strict=True)
    )
    return Leading(follow, fronts[0] not in [_front(shape) for shape in parameters], is_one)


def _tensors(type_: Term) -> tuple[list[Shape] | None, list[Shape]]:
    """The shapes of a function's parameters, and of its results; none for other functions."""
    parameters: list[Shape] = []
    while isinstance(type_, Con) and (type_.name == "->" or type_.name.startswith("{")):
        parts = tensor_parts(type_.arguments[0]) if type_.name == "->" else None
        if parts is not None:
            parameters.append(parts[1])
        elif type_.name == "->":
            return None, []
        type_ = type_.arguments[-1]
    items = type_.arguments if isinstance(type_, Con) and type_.name == "tuple" else (type_,)
    found = [tensor_parts(item) for item in items]
    return parameters, [parts[1] for parts in found if parts is not None]


def _front(shape: Shape) -> Variable | None:
    """The shape variable that a shape begins with, or the size that is a variable."""
    first = shape.items[0] if shape.items else None
    return first.sole_variable if isinstance(first, Dim) else first


def _sources(front: Variable | None, scheme: Scheme) -> set[Variable]:
    """The variables that are broadcast to what the result begins with, or that itself."""
    found, work = set[Variable](), [] if front is None else [front]
    while work:
        variable = work.pop()
        sides = [
            as_shape(side).items[0]
            for c in scheme.constraints
            if isinstance(c, Broadcast) and as_shape(c.result).items[0] is variable
            for side in (c.left, c.right)
        ]
        work.extend(side for side in sides if isinstance(side, Variable))
        found.update(() if sides else (variable,))
    return found


def _count(variable: Variable | None, shapes: tuple[Shape, ...]) -> int:
    """How often a variable occurs in shapes."""
    return sum(inner is variable for shape in shapes for inner in shape.variables())
