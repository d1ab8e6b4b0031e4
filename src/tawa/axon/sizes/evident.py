"""Which conditions of a type its arguments' sizes show already, as each is at least 1."""

from __future__ import annotations

from tawa.axon.sizes.constraints import AtLeast
from tawa.axon.sizes.dims import Dim, content
from tawa.axon.sizes.plain import argument_sizes
from tawa.functional.terms import Constraint, Scheme


def without_evident(scheme: Scheme) -> tuple[Constraint, ...]:
    """The conditions of a scheme but those that only say that an argument has no empty axis.

    They stay in the scheme, to be found violated as soon as sizes are known.
    """
    bounds = [_reduced(size - 1) for size in argument_sizes(scheme.type)]
    return tuple(
        constraint
        for constraint in scheme.constraints
        if not (isinstance(constraint, AtLeast) and _is_shown(constraint, bounds))
    )


def _reduced(bound: Dim) -> Dim:
    """What isn't negative if `bound` isn't: without the common factor of its symbols."""
    shared = content(bound)
    return bound // shared if shared > 1 else bound


def _is_shown(constraint: AtLeast, bounds: list[Dim]) -> bool:
    """Whether what is demanded is one of `bounds`, none of them negative, and maybe more."""
    demanded = constraint.dim - constraint.bound
    lowest = ((demanded - bound).least() for bound in bounds)
    return any(low is not None and low >= 0 for low in lowest)
