"""What the rules of Axon's solver share: the state of the solver, and how variables get bound."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tawa.axon.sizes.constraints import AtLeast, Equal
from tawa.axon.sizes.dims import Dim, Floor
from tawa.axon.sizes.monomials import kind_least
from tawa.axon.sizes.products import factored, primitive
from tawa.axon.sizes.shapes import Shape, as_shape
from tawa.functional.solver import Clash, Solver, Violation
from tawa.functional.terms import Origin, Variable

MOST_AXES = 64
"""NumPy's limit."""


LOW_HIGH = (0, 1)
"""The ends of a pair of bounds."""

NO_BOUNDS = (None, None)
"""The bounds of a variable of which none are known."""


def _moved(bound: int | None, by: int, divisor: int = 1) -> int | None:
    """The bound of a quotient plus a number, from the numerator's."""
    return None if bound is None else bound // divisor + by


class SolverState(Solver):
    """A solver with variables for dimensions, integers and shapes.

    Variables in `declared` are inputs that somebody else named: others are eliminated first, and
    a dimension that depends on a declared one is expressed by it, never the other way round.
    """

    size_kind = "dim"
    """The kind of sizes of which nothing else is known: of arrays without elements, `"count"`."""

    def __init__(self) -> None:
        super().__init__()
        self.declared: set[Variable] = set()
        self.bounds: dict[Variable, tuple[int | None, int | None]] = {}
        self.facts: dict[Variable, Dim] = {}
        self.floors: dict[Dim, int] = {}
        """What sums without a number or a common factor have been demanded not to be below."""
        self._rests: dict[Variable, Variable] = {}
        """How far variables are from a bound."""

    def fresh_dim(self, hint: str | None = None) -> Dim:
        """A new unknown dimension, at least 1."""
        return Dim.of(self.fresh("dim", hint))

    def fresh_size(self) -> Dim:
        """A new unknown dimension of the kind that sizes are here."""
        return Dim.of(self.fresh(self.size_kind))

    def fresh_count(self, hint: str | None = None) -> Dim:
        """A new unknown dimension, at least 0."""
        return Dim.of(self.fresh("count", hint))

    def fresh_shape(self, hint: str | None = None) -> Shape:
        """A new unknown shape of unknown rank."""
        return Shape((self.fresh("shape", hint),))

    def dim(self, dim: Dim) -> Dim:
        """The dimension with all that is known put in."""
        if dim.constant is not None:
            return dim
        if self.bindings.keys().isdisjoint(dim.free.keys()):  # so the shorter is looked through
            return self._decided(dim) if self.bounds and dim.chooses else dim
        resolved = self.resolve(dim)
        if not isinstance(resolved, Dim):
            raise TypeError(f"{resolved} is no dimension")
        return self._decided(resolved) if self.bounds and resolved.chooses else resolved

    def least(self, dim: Dim) -> int | None:
        """A number that the dimension is not below, by all that is known of its variables."""
        if dim.constant is not None:
            return dim.constant
        exact = self._exact(dim)
        if exact is not None:
            return exact[0]
        lows = [low for view in self._views(dim) if (low := view.least()) is not None]
        return max(lows) if lows else self.least_of_product(dim)

    def least_of_product(self, dim: Dim) -> int | None:
        """The bound of a product of two sums of the same sign, plus a number."""
        for offset in dict.fromkeys((0, dim.offset)):
            factors = factored(dim - offset)
            for sign in (1, -1) if factors else ():
                lows = [self.least(factor * sign) for factor in factors]
                known = [low for low in lows if low is not None and low >= 0]
                if len(known) == len(lows):
                    return prod(known) + offset
        return None

    def limits(self, dim: Dim) -> list[tuple[int | None, int | None]]:
        """Numbers that a dimension is not below and not above, by different bounds."""
        exact = self._exact(dim)
        if exact is not None:
            return [exact]
        return [(view.least(), view.most()) for view in self._views(dim)]

    def _exact(self, dim: Dim) -> tuple[int | None, int | None] | None:
        """The bounds of one variable, or of one quotient by a number, plus a number."""
        factor = dim.counted_factor
        if isinstance(factor, Variable):
            low, high = self._bounds(factor)
            return _moved(low, dim.offset), _moved(high, dim.offset)
        if isinstance(factor, Floor) and (divisor := factor.denominator.constant) is not None:
            low, high = self._exact(factor.numerator) or self._closest(factor.numerator)
            return _moved(low, dim.offset, divisor), _moved(high, dim.offset, divisor)
        return None

    def _closest(self, dim: Dim) -> tuple[int | None, int | None]:
        """The best of the bounds of a sum."""
        found = self.limits(dim)
        low = max((low for low, _ in found if low is not None), default=None)
        high = min((high for _, high in found if high is not None), default=None)
        return low, high

    def _views(self, dim: Dim) -> Iterator[Dim]:
        """A sum as it is, and with variables counted from a bound of theirs."""
        yield dim
        if self.bounds.keys().isdisjoint(dim.free):
            return
        for end in LOW_HIGH:
            counted, back = self._counted(dim, end)
            if back:
                yield counted

    def note_floor(self, dim: Dim, bound: int) -> None:
        """Keep that a dimension is at least `bound`, where bounds of its variables don't say so."""
        symbols, shared = primitive(dim)
        if symbols.terms and symbols.sole_variable is None:
            bound = -((dim.offset - bound) // shared)
            self.floors[symbols] = max(bound, self.floors.get(symbols, bound))

    def _decided(self, dim: Dim) -> Dim:
        """The dimension without the choices that its variables' bounds decide."""
        for end in LOW_HIGH:
            counted, back = self._counted(dim, end)
            if back:
                dim = counted.substitute(lambda v, back=back: back.get(v))
        return dim

    def _counted(self, dim: Dim, end: int) -> tuple[Dim, dict[Variable, Dim]]:
        """The dimension with variables counted from their bounds, and what undoes that."""
        back: dict[Variable, Dim] = {}
        moved: dict[Variable, Dim] = {}
        if self.bounds.keys().isdisjoint(dim.free):
            return dim, back
        sign = -1 if end else 1
        for variable in dim.free:
            limit = self.bounds.get(variable, NO_BOUNDS)[end]
            if limit is None or (end == 0 and limit == kind_least(variable.kind)):
                continue
            rest = self._rests.get(variable)
            if rest is None:
                rest = self._rests[variable] = self.fresh("count", variable.hint)
            back[rest] = (Dim.of(variable) - limit) * sign
            moved[variable] = Dim.of(rest) * sign + limit
        return dim.substitute(moved.get) if moved else dim, back

    def shape(self, shape: Shape) -> Shape:
        """The shape with all that is known put in."""
        return as_shape(self.resolve(shape))

    def set_dim(
        self, variable: Variable, value: Dim, origin: Origin, fact: Dim, positive: bool = False
    ) -> None:
        """Let a variable stand for a dimension, because `fact` is 0.

        What isn't known to be `positive`, and isn't provably at least 1, is demanded to be.
        Raises Clash.
        """
        least, ceiling = kind_least(variable.kind), (-value).least()
        if least is not None and ceiling is not None and -ceiling < least:
            reason = f"a size would have to be below {least}"
            raise Clash(Dim.of(variable), value, origin, reason)
        self.bind(variable, value, origin)
        self.facts[variable] = fact
        low, high = self._bounds(variable)
        if low is not None and not (positive and low <= 1):
            self.demand(AtLeast(value, low, origin))
        if high is not None:
            self.demand(AtLeast(-value, -high, origin))

    def _bounds(self, variable: Variable) -> tuple[int | None, int | None]:
        """The least and the largest number that a variable can be, where that is known."""
        low, high = self.bounds.get(variable, (None, None))
        least = kind_least(variable.kind)
        return (least if low is None else max(low, least or low)), high

    def narrow(self, bound: AtLeast, variable: Variable, slope: int, rest: int) -> bool:
        """Use `slope * variable + rest >= bound`: True if the variable is thereby decided."""
        limit = bound.bound - rest
        low, high = self.bounds.get(variable, (None, None))
        if slope > 0:
            new = -(-limit // slope)
            low = new if low is None else max(low, new)
        else:
            new = limit // slope
            high = new if high is None else min(high, new)
        self.bounds[variable] = (low, high)
        low, high = self.bounds[variable] = self._bounds(variable)
        if low is not None and high is not None and low > high:
            raise Violation(bound, f"no size can be at least {low} and at most {high}")
        decided = low is not None and low == high
        if not (decided or variable.kind == "integer" or (variable.kind == "count" and low)):
            return False
        return self._restated(bound, variable)

    def _restated(self, bound: AtLeast, variable: Variable) -> bool:
        """Let a variable stand for a number, or for one that its bounds make a size."""
        low, high = self.bounds[variable]
        fact = Dim.of(variable) - (low or 0)
        if low is not None and low == high:
            self.set_dim(variable, Dim.of(low), bound.origin, fact)
            return True
        if variable.kind == "count" and low is not None and low >= 1:
            positive = self.fresh_dim(variable.hint)
            named = next(positive.variables())
            self.levels[named] = self.levels.get(variable, 0)
            self.bounds[named] = self.bounds.pop(variable)
            if variable in self.declared:
                self.declared.add(named)
            self.set_dim(variable, positive, bound.origin, fact, positive=True)
            return low == 1 and high is None
        if variable.kind == "integer" and low is not None:
            shifted = self.fresh_dim(variable.hint)
            self.levels[next(shifted.variables())] = self.levels.get(variable, 0)
            self.set_dim(variable, shifted + low - 1, bound.origin, fact)
            return high is None
        if variable.kind == "integer" and high is not None:
            shifted = self.fresh_dim(variable.hint)
            self.levels[next(shifted.variables())] = self.levels.get(variable, 0)
            self.set_dim(variable, Dim.of(high) + 1 - shifted, bound.origin, fact)
            return True
        return False

    def equate_dims(self, left: Dim, right: Dim, origin: Origin) -> None:
        """Make two dimensions equal, now or later. Raises Clash."""
        self.demand(Equal(left, right, origin))

    def equate_shapes(self, left: Shape, right: Shape, origin: Origin) -> None:
        """Make two shapes equal, now or later. Raises Clash."""
        raise NotImplementedError

    def set_shape(self, variable: Variable, value: Shape, origin: Origin) -> None:
        """Let a shape variable stand for a shape that doesn't contain it."""
        self.bind(variable, value, origin)

    def fix_rank(self, variable: Variable, rank: int, origin: Origin) -> None:
        """Let a shape variable stand for `rank` new dimensions."""
        if rank > MOST_AXES:
            reason = f"a tensor has at most {MOST_AXES} axes"
            raise Clash(Dim.of(rank), Dim.of(MOST_AXES), origin, reason)
        level = self.levels.get(variable, 0)
        items = tuple(self.fresh_size() for _ in range(rank))
        for item in items:
            self.levels[next(item.variables())] = level
        self.set_shape(variable, Shape(items), origin)
