"""Unification, waiting constraints, and generalisation by levels.

The solver knows what variables stand for. A constraint that can't be decided yet waits and is
tried again when one of its variables gets bound. A variable's level is the depth of the `let`
that made it; what is deeper than the surroundings of a definition is generalised (D. Rémy,
"Extension of ML type system with a sorted equational theory on types", 1992).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from copy import copy
from typing import Any

from tawa.functional.terms import (
    Among,
    Con,
    Constraint,
    Instance,
    Origin,
    Scheme,
    Term,
    Variable,
)


class Clash(Exception):
    """Terms that should agree don't; `path` is the pair of whole types that were unified."""

    def __init__(self, left: Term, right: Term, origin: Origin, reason: str = "") -> None:
        super().__init__(reason or f"{left} is not {right}")
        self.left, self.right, self.origin, self.reason = left, right, origin, reason
        self.whole = (left, right)
        self.inner: Clash | None = None

    def within(self, left: Term, right: Term, origin: Origin, reason: str) -> Clash:
        """The clash of larger terms that this one is the cause of."""
        outer = Clash(left, right, origin, reason)
        outer.inner = self
        return outer


class Cycle(Clash):
    """A variable would have to contain itself."""


class Violation(Clash):
    """A constraint can't be satisfied."""

    def __init__(self, constraint: Constraint, reason: str = "") -> None:
        unknown = Con("?")
        super().__init__(unknown, unknown, constraint.origin, reason)
        self.constraint = constraint


Entry = tuple[Term, Term, Origin] | Constraint
"""One thing that was asked of a solver: an equation or a constraint."""

MUCH = 8
"""Constraints that wait for one variable, from which it is not bound to another."""


class Solver:
    """The state of inference; a language derives from it to add kinds of terms and constraints.

    It overrides `unify_other` (terms that aren't types), `attempt` (its constraints) and
    `default` (what to do with a constraint on variables that nothing determines).
    """

    lasting: frozenset[str] = frozenset({"log"})
    """The attributes that a supposition leaves as they are."""

    def __init__(self) -> None:
        self.bindings: dict[Variable, Term] = {}
        self._bound = 0
        """How often a variable was bound."""
        self._resolved_at: dict[Variable, int] = {}
        """That number when what a variable stands for was last resolved."""
        self.reasons: dict[Variable, Origin] = {}
        self.levels: dict[Variable, int] = {}
        self.level = 0
        self.log: list[Entry] = []
        self._parked: dict[int, Constraint] = {}
        self._watchers: dict[Variable, list[int]] = {}
        self._ready: list[int] = []
        self._next = 0

    # Variables and terms.

    def fresh(self, kind: str = "type", hint: str | None = None) -> Variable:
        """A new unknown at the current level."""
        variable = Variable(kind, hint)
        self.levels[variable] = self.level
        return variable

    def prune(self, term: Term) -> Term:
        """What a variable stands for, as far as it is known; other terms as they are."""
        while isinstance(term, Variable):
            found = self.bindings.get(term)
            if found is None:
                return term
            term = found
        return term

    def resolve(self, term: Term) -> Term:
        """The term with all that is known put in."""
        return term.substitute(self._known)

    def _known(self, variable: Variable) -> Term | None:
        """What a variable stands for, if that is known; the next to ask finds it resolved."""
        found = self.bindings.get(variable)
        if found is None or self._resolved_at.get(variable) == self._bound:
            return found
        resolved = found.substitute(self._known)
        if resolved is not found:
            self.bindings[variable] = resolved
        self._resolved_at[variable] = self._bound
        return resolved

    def free_variables(self, term: Term) -> dict[Variable, None]:
        """The unknowns in a term, in order."""
        return dict.fromkeys(self.resolve(term).variables())

    @contextmanager
    def supposed(self) -> Generator[None]:
        """What is asked and found out in the meantime is forgotten at the end.

        For what may never happen, as one branch of two.
        """
        saved: dict[str, Any] = {n: v for n, v in vars(self).items() if n not in self.lasting}
        for name, value in saved.items():
            if isinstance(value, (dict, list, set)):
                saved[name] = copy(value)  # pyright: ignore[reportUnknownArgumentType]
        length = len(self.log)
        try:
            yield
        finally:
            del self.log[length:]
            vars(self).update(saved)

    # Equations.

    def unify(self, left: Term, right: Term, origin: Origin) -> None:
        """Make two terms equal. Raises Clash."""
        self.log.append((left, right, origin))
        try:
            self.equate(left, right, origin)
        except Clash as clash:
            clash.whole = (left, right)
            raise
        self.settle()

    def equate(self, left: Term, right: Term, origin: Origin) -> None:
        """`unify` for use inside the solver: not recorded, waiting constraints not tried."""
        left, right = self.prune(left), self.prune(right)
        if left is right:
            return
        if isinstance(left, Variable) and left.kind == "type":
            if isinstance(right, Variable) and self._much_awaited(left, right):
                left, right = right, left
            self._bind_type(left, right, origin)
        elif isinstance(right, Variable) and right.kind == "type":
            self._bind_type(right, left, origin)
        elif isinstance(left, Con) and isinstance(right, Con):
            if left.name != right.name or len(left.arguments) != len(right.arguments):
                raise Clash(left, right, origin)
            for one, other in zip(left.arguments, right.arguments, strict=True):
                self.equate(one, other, origin)
        else:
            self.unify_other(left, right, origin)

    def _much_awaited(self, one: Variable, other: Variable) -> bool:
        """Whether so much waits for a variable that the other should be bound to it instead.

        Each of a thousand items of a vector waits to be a number.
        """
        waiting = len(self._watchers.get(one, ()))
        return (
            waiting > MUCH
            and other.kind == one.kind
            and waiting > len(self._watchers.get(other, ()))
        )

    def unify_other(self, left: Term, right: Term, origin: Origin) -> None:
        """Make two terms equal that aren't types. The base has none."""
        raise Clash(left, right, origin)

    def _bind_type(self, variable: Variable, term: Term, origin: Origin) -> None:
        term = self.resolve(term)
        if variable in term.variables():
            raise Cycle(variable, term, origin)
        self.bind(variable, term, origin)

    def bind(self, variable: Variable, term: Term, origin: Origin) -> None:
        """Let `variable` stand for `term`, in which it doesn't occur; wake what waits for it."""
        level = self.levels.get(variable, 0)
        for inner in term.variables():
            if self.levels.get(inner, 0) > level:
                self.levels[inner] = level
        self.bindings[variable] = term
        self._bound += 1
        self.reasons[variable] = origin
        self._ready.extend(self._watchers.pop(variable, ()))

    # Constraints.

    def require(self, constraint: Constraint) -> None:
        """Ask for a constraint. Raises Clash if it can't hold."""
        self.log.append(constraint)
        self.demand(constraint)
        self.settle()

    def demand(self, constraint: Constraint) -> None:
        """`require` for use inside the solver: not recorded, others not tried."""
        if not self.attempt(constraint):
            self._park(constraint)

    def attempt(self, constraint: Constraint) -> bool:
        """Try to decide a constraint: True if it is dealt with, False if it has to wait.

        May bind variables and demand other constraints. Raises Clash.
        """
        if not isinstance(constraint, Among):
            raise TypeError(f"no rule for {type(constraint).__name__}")
        term = self.prune(constraint.term)
        if isinstance(term, Variable):
            return False
        if not isinstance(term, Con) or term.name not in constraint.names:
            among = ", ".join(constraint.names)
            found = f"`{term.name}`" if isinstance(term, Con) else "this"
            raise Violation(constraint, f"{found} is not `{constraint.label}` ({among})")
        return True

    def settle(self) -> None:
        """Try the constraints that wait for variables bound in the meantime."""
        while self._ready:
            constraint = self._parked.pop(self._ready.pop(), None)
            if constraint is not None:
                self.demand(constraint)

    def waiting(self, since: int = 0) -> list[Constraint]:
        """The undecided constraints, of those made after the mark `since`."""
        return [self._parked[key] for key in self._parked if key >= since]

    @property
    def mark(self) -> int:
        """Now, for `waiting` and `generalise`."""
        return self._next

    def _park(self, constraint: Constraint) -> None:
        key = self._next
        self._next += 1
        self._parked[key] = constraint
        watchers = self._watchers
        for variable in self.constraint_variables(constraint):
            waiting = watchers.get(variable)
            if waiting is None:
                watchers[variable] = [key]
            else:
                waiting.append(key)

    def constraint_variables(self, constraint: Constraint) -> dict[Variable, None]:
        """The unknowns that a constraint depends on."""
        found: dict[Variable, None] = {}
        variables = constraint.unknowns()
        if self.bindings.keys().isdisjoint(variables):
            return variables
        for variable in variables:
            known = self._known(variable)
            if known is None:
                found[variable] = None
            else:
                found.update(dict.fromkeys(known.variables()))
        return found

    def default(self, constraint: Constraint) -> bool:
        """Decide a constraint whose variables nothing else determines; False leaves it.

        The base leaves all: a language may say, for example, that a number is a `float`.
        """
        return False

    # Schemes.

    def instantiate(self, scheme: Scheme, origin: Origin) -> Instance:
        """The scheme's type with fresh variables; its constraints become demands here."""
        if not scheme.variables:
            return Instance(scheme, {}, scheme.type)
        mapping = {v: self.fresh(v.kind, v.hint) for v in scheme.variables}
        replace = mapping.get
        instance = Instance(scheme, mapping, scheme.type.substitute(replace))
        for constraint in scheme.constraints:
            here = Origin(origin.span, origin.what, constraint.origin)
            self.require(constraint.substitute(replace, here))
        return instance

    def generalise(self, type_: Term, since: int) -> Scheme:
        """The scheme of a type, quantified over what is deeper than the current level.

        Constraints made after the mark `since` that mention such variables move into the scheme.
        """
        self._apply_defaults(type_, since)
        type_ = self.resolve(type_)
        variables = {v: None for v in type_.variables() if self._is_deep(v)}
        taken: list[Constraint] = []
        for key in [key for key in self._parked if key >= since]:
            inner = self.constraint_variables(self._parked[key])
            if any(self._is_deep(variable) for variable in inner):
                taken.append(self._parked.pop(key))
                variables.update((v, None) for v in inner if self._is_deep(v))
        resolved = (self._resolved(constraint) for constraint in taken)
        return Scheme(tuple(variables), tuple(resolved), type_)

    def _resolved(self, constraint: Constraint) -> Constraint:
        return constraint.substitute(self._known, constraint.origin)

    def kept(self, type_: Term) -> Term:
        """The type, resolved, whose unknowns nobody may quantify over: one type for all uses."""
        type_ = self.resolve(type_)
        for variable in type_.variables():
            self.levels[variable] = min(self.level, self.levels.get(variable, 0))
        return type_

    def _is_deep(self, variable: Variable) -> bool:
        return self.levels.get(variable, 0) > self.level

    def _apply_defaults(self, type_: Term, since: int) -> None:
        """Decide the constraints that share no variable, directly or not, with the type."""
        determined = self._connected(self.free_variables(type_), self.waiting(since))
        for key in [key for key in self._parked if key >= since]:
            constraint = self._parked.get(key)
            if constraint is None:
                continue
            inner = self.constraint_variables(constraint)
            if all(self._is_deep(v) and v not in determined for v in inner) and self.default(
                constraint
            ):
                self._parked.pop(key, None)
                self.settle()

    def _connected(
        self, roots: Iterable[Variable], constraints: list[Constraint]
    ) -> dict[Variable, None]:
        """`roots` and the variables that constraints link with them."""
        groups = [self.constraint_variables(constraint) for constraint in constraints]
        linked: dict[Variable, list[int]] = {}
        for index, group in enumerate(groups):
            for variable in group:
                linked.setdefault(variable, []).append(index)
        reached = dict.fromkeys(roots)
        work = list(reached)
        while work:
            for index in linked.pop(work.pop(), ()):
                fresh = [variable for variable in groups[index] if variable not in reached]
                reached.update(dict.fromkeys(fresh))
                work.extend(fresh)
        return reached

    def successor(self) -> Solver:
        """A new solver that starts as this one did."""
        return type(self)()

    def replayed(self, entries: Iterable[Entry]) -> Clash | None:
        """What goes wrong when a new solver of this class is asked `entries`, if anything."""
        solver = self.successor()
        try:
            for entry in entries:
                if isinstance(entry, Constraint):
                    solver.require(entry)
                else:
                    solver.unify(*entry)
        except Clash as clash:
            return clash
        return None


def smallest_conflict(entries: list[Entry], fails: Callable[[list[Entry]], bool]) -> list[Entry]:
    """A subset of `entries` that fails and of which no part fails.

    QuickXplain (U. Junker, AAAI 2004); prefers entries that come late in the list.
    """

    def explain(background: list[Entry], added: bool, rest: list[Entry]) -> list[Entry]:
        if added and fails(background):
            return []
        if len(rest) == 1:
            return rest
        middle = len(rest) // 2
        late, early = rest[middle:], rest[:middle]
        first = explain(background + late, True, early)
        second = explain(background + first, bool(first), late)
        return first + second

    return explain([], False, entries) if entries else []
