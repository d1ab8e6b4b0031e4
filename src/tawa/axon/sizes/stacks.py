"""Trees of tensors with one more axis than others: what `vmap` is given, and what it gives."""

from __future__ import annotations

from tawa.axon.sizes.constraints import Stacked
from tawa.axon.sizes.shapes import append, shape, tensor, tensor_parts
from tawa.axon.sizes.state import SolverState
from tawa.functional.solver import Clash, Violation
from tawa.functional.terms import Con, Term, product


def stack(solver: SolverState, constraint: Stacked) -> bool:
    """Take two trees apart as far as one of them is known. Raises Clash."""
    whole, part = solver.prune(constraint.whole), solver.prune(constraint.part)
    known = [tree for tree in (whole, part) if isinstance(tree, Con)]
    if not known:
        return False
    if any(tree.name != known[0].name for tree in known):
        raise Clash(whole, part, constraint.origin)
    if tensor_parts(known[0]) is not None:
        _stack_tensors(solver, whole, part, constraint)
    elif known[0].name == "tuple":
        _stack_tuples(solver, whole, part, constraint)
    else:
        what = "a function" if known[0].name == "->" else "a value of a datatype"
        raise Violation(constraint, f"{what} is no tensor, and no tuple of them")
    return True


def _stack_tensors(solver: SolverState, whole: Term, part: Term, constraint: Stacked) -> None:
    """The whole tensor has an axis in front of those of a part."""
    element, of = solver.fresh("element"), solver.fresh_shape()
    solver.equate(part, tensor(element, of), constraint.origin)
    solver.equate(whole, tensor(element, append(shape(constraint.count), of)), constraint.origin)


def _stack_tuples(solver: SolverState, whole: Term, part: Term, constraint: Stacked) -> None:
    """Item by item."""
    count = next(len(tree.arguments) for tree in (whole, part) if isinstance(tree, Con))
    pairs = [(solver.fresh(), solver.fresh()) for _ in range(count)]
    solver.equate(whole, product(*(one for one, _ in pairs)), constraint.origin)
    solver.equate(part, product(*(other for _, other in pairs)), constraint.origin)
    for one, other in pairs:
        solver.demand(Stacked(one, constraint.count, other, constraint.origin))
