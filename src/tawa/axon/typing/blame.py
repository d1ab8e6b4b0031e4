"""From a clash of shapes to an error that names both, and all places that are to blame."""

from __future__ import annotations

from tawa.axon.sizes.advice import advice
from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.shapes import Shape, tensor_parts
from tawa.axon.sizes.show import AxonPrinter
from tawa.axon.sizes.solver import AxonSolver
from tawa.axon.typing.errors import ShapeMismatch
from tawa.base.source import Span
from tawa.functional.mismatch import conflict_origins, explain_clash
from tawa.functional.show import TypePrinter
from tawa.functional.solver import Clash, Cycle, Violation
from tawa.functional.terms import Con, Term, Variable

MOST_PLACES = 3
"""Of the places that are to blame, how many a message shows."""


def shape_error(clash: Clash, solver: AxonSolver, printer: TypePrinter) -> Exception:
    """The error for a clash: of shapes or sizes here, of types as in every language."""
    if isinstance(clash, (Cycle, Violation)) or not isinstance(printer, AxonPrinter):
        return explain_clash(clash, solver, printer)
    if not all(_is_measure(side) for side in (clash.left, clash.right)):
        return explain_clash(clash, solver, printer)
    # Shapes and sizes are kept as they were before the attempt to make them equal.
    left, right = (
        solver.resolve(side) if isinstance(side, (Con, Variable)) else side
        for side in (clash.left, clash.right)
    )
    origin = clash.origin
    expected, found = (printer.type(solver.resolve(side)) for side in clash.whole)
    inner = [printer.term(side) for side in (left, right)]
    reason = f": {clash.reason}" if clash.reason else ""
    error = ShapeMismatch(
        f"{origin.what}: {inner[0]} does not fit {inner[1]}{reason}",
        span=origin.span,
        expected=expected if expected != inner[0] else None,
        found=found if found != inner[1] else None,
    )
    whole = [solver.resolve(side) for side in clash.whole]
    error.hint = advice(origin.what, whole[0], whole[1]) or advice(origin.what, left, right)
    inside = clash
    while inside.inner is not None:
        inside = inside.inner
    if inside.origin.cause is not None:
        error.with_note(f"by the {inside.origin.cause.what} there", inside.origin.cause.span)
    reasons: dict[Span, list[str]] = {}
    for other in conflict_origins(solver):
        if other.span != origin.span:
            reasons.setdefault(other.span, []).append(other.what)
    for span, texts in list(reasons.items())[:MOST_PLACES]:
        error.with_note(f"fixed by {', '.join(dict.fromkeys(texts))}", span)
    if len(reasons) > MOST_PLACES:
        rest = len(reasons) - MOST_PLACES
        error.with_note(f"and by {'another place' if rest == 1 else f'{rest} other places'}")
    return error


def _is_measure(term: Term) -> bool:
    if isinstance(term, Con):
        return tensor_parts(term) is not None
    return isinstance(term, (Dim, Shape)) or (isinstance(term, Variable) and term.kind != "type")
