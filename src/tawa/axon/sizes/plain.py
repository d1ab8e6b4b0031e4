"""Restating a scheme so that its arguments have plain sizes: `t[h]`, not `t[h + 1 - k]`.

A size of an argument is at least 1, whatever it is called. Where it is a difference, the variable
in front gives way to a new one that stands for the whole: what had to hold for the difference to
be a size holds by itself then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.shapes import Shape
from tawa.functional.terms import Con, Scheme, Term, Variable

MOST_STEPS = 64
"""Variables of one scheme that are replaced."""


def with_plain_sizes(scheme: Scheme) -> tuple[Scheme, dict[Variable, Dim]]:
    """The scheme in other variables, with fewer differences among its arguments' sizes.

    Also what the variables that gave way are in terms of the new ones: the body still uses them.
    """
    replaced: dict[Variable, Dim] = {}
    for _ in range(MOST_STEPS):
        step = next(_steps(scheme), None)
        if step is None:
            break
        old, new, value = step
        scheme = _restated(scheme, old, new, value)
        replaced[old] = value
    return scheme, replaced


def _steps(scheme: Scheme) -> Iterator[tuple[Variable, Variable, Dim]]:
    """A variable, a new one, and what the old one is in terms of the new one."""
    for dim in argument_sizes(scheme.type):
        if all(c > 0 for _, c in dim.terms):
            continue
        for variable in [f for f in dim.factors if isinstance(f, Variable)]:
            linear = dim.linear_in(variable)
            if variable not in scheme.variables or variable.kind != "dim" or linear is None:
                continue
            slope, rest = linear
            plain = Variable("dim", variable.hint)
            value = Dim.of(plain) - rest
            if slope.constant == 1 and (value.least() or 0) >= 1:
                yield variable, plain, value


def argument_sizes(type_: Term) -> Iterator[Dim]:
    """The sizes of the tensors that a function takes, in order."""
    while isinstance(type_, Con) and type_.arguments:
        if type_.name == "->":
            yield from _sizes(type_.arguments[0])
        elif not type_.name.startswith("{"):
            return
        type_ = type_.arguments[-1]


def _sizes(term: Term) -> Iterator[Dim]:
    if isinstance(term, Shape):
        yield from (item for item in term.items if isinstance(item, Dim))
    elif isinstance(term, Con) and term.name != "->":
        for argument in term.arguments:
            yield from _sizes(argument)


def _restated(scheme: Scheme, old: Variable, new: Variable, value: Dim) -> Scheme:
    def put(variable: Variable) -> Dim | None:
        return value if variable is old else None

    return replace(
        scheme,
        variables=tuple(new if variable is old else variable for variable in scheme.variables),
        type=scheme.type.substitute(put),
        constraints=tuple(c.substitute(put, c.origin) for c in scheme.constraints),
    )
