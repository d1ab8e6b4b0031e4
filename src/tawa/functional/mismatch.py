"""From a clash in the solver to an error that a user can act on."""

from __future__ import annotations

from tawa.functional.errors import InfiniteType, TypesDisagree
from tawa.functional.show import TypePrinter
from tawa.functional.solver import Clash, Cycle, Entry, Solver, Violation, smallest_conflict
from tawa.functional.terms import Constraint, Origin

SLICE = 40
"""How many of the nearest entries of the log are searched first for the conflict."""

MOST_PLACES = 3
"""Of the places that are to blame, how many a message shows."""


def explain_clash(clash: Clash, solver: Solver, printer: TypePrinter) -> Exception:
    """The error for a clash: both types, the place, and the smallest set of places that clash."""
    left, right = (printer.type(solver.resolve(term)) for term in clash.whole)
    inner = [printer.type(solver.resolve(term)) for term in (clash.left, clash.right)]
    origin = clash.origin
    if isinstance(clash, Cycle):
        error: TypesDisagree | InfiniteType = InfiniteType(
            f"the type of {_named(origin)} would contain itself", span=origin.span,
            expected=left, found=right,
        )  # fmt: skip
    elif isinstance(clash, Violation):
        error = TypesDisagree(f"{origin.what}: {clash.reason}", span=origin.span)
    else:
        error = TypesDisagree(
            f"{_named(origin)} has the wrong type", span=origin.span,
            expected=left, found=right,
        )  # fmt: skip
        if inner != [left, right]:
            error.with_note(f"`{inner[0]}` is not `{inner[1]}`")
    others = [reason for reason in conflict_origins(solver) if reason.span != origin.span]
    for reason in others[:MOST_PLACES]:
        error.with_note(f"fixed by {_named(reason)}", reason.span)
    if len(others) > MOST_PLACES:
        rest = len(others) - MOST_PLACES
        error.with_note(f"and by {'another place' if rest == 1 else f'{rest} other places'}")
    return error


def _named(origin: Origin) -> str:
    """A place in a sentence: what has a number of its own has no article."""
    return origin.what if origin.what.startswith("argument ") else f"the {origin.what}"


def conflict_origins(solver: Solver) -> list[Origin]:
    """The places of the smallest set of demands that contradict each other.

    The last entry of the solver's log is the one that failed. The search grows a neighbourhood
    of it in the graph of shared variables until that fails alone.
    """

    def fails(entries: list[Entry]) -> bool:
        return solver.replayed(entries) is not None

    for entries in neighbourhoods(solver.log):
        if fails(entries):
            found = smallest_conflict(entries, fails)
            origins = [origin_of(entry) for entry in found]
            return list({(o.span, o.what): o for o in origins}.values())
    return []


def neighbourhoods(log: list[Entry]) -> list[list[Entry]]:
    """Growing parts of a log: the entries that share variables with its last one, and so on."""
    if not log:
        return []
    by_variable: dict[object, list[int]] = {}
    for index, entry in enumerate(log):
        for variable in variables_of(entry):
            by_variable.setdefault(variable, []).append(index)
    order = [len(log) - 1]
    seen = set(order)
    for index in order:
        linked = {n for v in variables_of(log[index]) for n in by_variable[v]} - seen
        order.extend(sorted(linked, reverse=True))
        seen |= linked
    sizes = [SLICE]
    while sizes[-1] < len(order):
        sizes.append(4 * sizes[-1])
    return [[log[i] for i in sorted(order[:size])] for size in sizes]


def variables_of(entry: Entry) -> set[object]:
    """The variables that an entry of the log mentions."""
    if isinstance(entry, Constraint):
        return set(entry.variables())
    return {*entry[0].variables(), *entry[1].variables()}


def origin_of(entry: Entry) -> Origin:
    """Why an entry of the log was made."""
    return entry.origin if isinstance(entry, Constraint) else entry[2]
