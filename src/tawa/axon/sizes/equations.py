"""Equations between dimensions: `p = 0` for a polynomial p, over the integers.

Each rule is a function that either solves the equation (by binding variables and demanding what
remains) and returns True, or leaves it. What no rule solves waits until more is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, lcm

from tawa.axon.sizes.constraints import AtLeast, Divides, Equal
from tawa.axon.sizes.dims import (
    ZERO,
    Dim,
    Floor,
    content,
    divide_monomial,
    exact_quotient,
)
from tawa.axon.sizes.measures import Rank, Size
from tawa.axon.sizes.monomials import Factor, Monomial, factor_least, kind_least
from tawa.axon.sizes.polynomials import common_monomial
from tawa.axon.sizes.products import times
from tawa.axon.sizes.state import SolverState
from tawa.functional.solver import Clash
from tawa.functional.terms import Origin, Variable

MAX_DIVISOR = 64
"""Remainders of division by larger numbers aren't tried."""

MAX_ROOT = 10_000
"""Constant terms above this aren't searched for divisors."""


def equal(state: SolverState, constraint: Equal) -> bool:
    """Decide that two dimensions are equal, if that can be done now."""
    return solve(state, constraint.left, constraint.right, constraint.origin)


def solve(state: SolverState, left: Dim, right: Dim, origin: Origin) -> bool:
    """Make two dimensions equal: True when dealt with, False when that has to wait.

    Raises Clash when they can't be equal.
    """
    known, unknown = state.dim(left), state.dim(right)
    difference = known - unknown
    variable = unknown.sole_variable
    if variable is not None and _is_next(state, variable, known):
        state.set_dim(variable, known, origin, difference)
        return True
    equation = Equation(state, left, right, difference, origin)
    return equation.solve(difference)


def _order(state: SolverState, variable: Variable) -> tuple[bool, int, int]:
    """Orders variables: the best to eliminate is last."""
    return variable.kind == "integer", state.levels.get(variable, 0), variable.id


def _is_next(state: SolverState, variable: Variable, known: Dim) -> bool:
    """Whether the rules would let a variable stand for a size: they need not be tried then."""
    if variable in state.declared or variable in known.free or variable.kind == "shape":
        return False
    low = known.least()
    if low is None or low < (kind_least(variable.kind) or 0):
        return False
    mine, declared = _order(state, variable), state.declared
    return all(
        mine > _order(state, factor)
        for factor in known.factors
        if isinstance(factor, Variable) and factor not in declared
    )


class Equation:
    """One equation on its way through the rules."""

    def __init__(
        self, state: SolverState, left: Dim, right: Dim, difference: Dim, origin: Origin
    ) -> None:
        self.state = state
        self.left, self.right = left, right
        self.origin = origin
        self.fact = difference
        self._linear: dict[tuple[Dim, Variable], tuple[Dim, Dim] | None] = {}
        self._positive: dict[Dim, bool] = {}

    def clash(self, reason: str = "") -> Clash:
        """The error that the two sides can't be equal."""
        return Clash(self.state.dim(self.left), self.state.dim(self.right), self.origin, reason)

    def solve(self, p: Dim) -> bool:
        """Solve p = 0."""
        constant = p.constant
        if constant is not None:
            if constant:
                raise self.clash()
            return True
        p = self._reduced(p)
        if p.constant is not None:
            raise self.clash()
        rules = (
            self._rank, self._isolate, self._floor, self._residues, self._factor, self._euclid,
            self._roots,
        )  # fmt: skip
        return any(rule(p) for rule in rules) or self._quotient(p) or self._declared(p)

    def _reduced(self, p: Dim) -> Dim:
        """p without factors that can't be 0. Raises Clash if p can't be 0."""
        low, high = p.least(), p.most()
        if (low is not None and low > 0) or (high is not None and high < 0):
            raise self.clash("one side is always larger")
        shared = content(p)
        if p.offset % shared:
            raise self.clash(f"it has no solution in whole numbers (everything else is a "
                             f"multiple of {shared})")  # fmt: skip
        if shared > 1:
            p = Dim(tuple((monomial, c // shared) for monomial, c in p.terms))
        positive = [(f, n) for f, n in common_monomial(p) if (factor_least(f) or 0) >= 1]
        return divide_monomial(p, tuple(positive)) if positive else p

    def _unknowns(self, p: Dim, declared: bool = False) -> Iterator[tuple[Variable, Dim, Dim]]:
        """The variables in which p is linear, with slope and rest; best to eliminate first."""
        state = self.state
        found = [f for f in p.factors if isinstance(f, Variable) and f.kind != "shape"]
        if not declared:
            found = [variable for variable in found if variable not in state.declared]
        found.sort(key=lambda variable: _order(state, variable), reverse=True)
        for variable in found:
            if (p, variable) not in self._linear:
                self._linear[p, variable] = p.linear_in(variable)
            linear = self._linear[p, variable]
            if linear is not None:
                yield variable, *linear

    def _set(self, variable: Variable, value: Dim) -> bool:
        self._positive.clear()
        self.state.set_dim(variable, value, self.origin, self.fact)
        return True

    def _rank(self, p: Dim) -> bool:
        """One unknown rank: the shape variable becomes that many dimensions."""
        ranks = [factor for factor in p.factors if isinstance(factor, Rank)]
        if len(ranks) != 1 or len(p.factors) != 1:
            return False
        linear = p.linear_in(ranks[0])
        if linear is None:
            return False
        slope, rest = linear[0].constant or 1, linear[1].constant or 0
        if rest % slope or -rest // slope < 0:
            raise self.clash("the numbers of dimensions differ")
        self.state.fix_rank(ranks[0].shape, -rest // slope, self.origin)
        return True

    def _isolate(self, p: Dim, declared: bool = False) -> bool:
        """A variable with coefficient 1 or -1 becomes the rest."""
        for variable, slope, rest in self._unknowns(p, declared):
            if slope.constant in (1, -1):
                return self._set(variable, -rest * (slope.constant or 1))
        return False

    def _floor(self, p: Dim) -> bool:
        """`d * (e // d) = e - r`: then d divides e - r, and r is a rest of division by d."""
        for floor in p.factors:
            linear = p.linear_in(floor) if isinstance(floor, Floor) else None
            if linear is None or not isinstance(floor, Floor):
                continue
            slope, rest = linear
            remainder = (floor.denominator * rest + slope * floor.numerator).constant
            if remainder is None:
                continue
            step = slope.constant
            if remainder and (step is None or remainder % step):
                if step is None:
                    continue
                raise self.clash("it has no solution in whole numbers")
            rest_of_division = remainder // step if step else 0
            divisor = floor.denominator.constant
            if rest_of_division < 0 or (divisor is not None and rest_of_division >= divisor):
                raise self.clash("no whole number solves it")
            if divisor is None and rest_of_division:
                larger = AtLeast(floor.denominator, rest_of_division + 1, self.origin)
                self.state.demand(larger)
            dividend = floor.numerator - rest_of_division
            self.state.demand(Divides(floor.denominator, dividend, self.origin))
            return True
        return False

    def _residues(self, p: Dim) -> bool:
        """Quotients of one variable by numbers: which remainders of the variable solve p = 0."""
        floors = [factor for factor in p.factors if isinstance(factor, Floor)]
        inside = {variable for floor in floors for variable in floor.variables()}
        divisor = 1
        for floor in floors:
            divisor = lcm(divisor, floor.denominator.constant or MAX_DIVISOR + 1)
        if len(inside) != 1 or divisor > MAX_DIVISOR:
            return False
        variable = inside.pop()
        if variable.kind == "shape":
            return False
        quotient = Dim.of(self.state.fresh("integer"))
        solutions: list[int] = []
        for rest in range(divisor):
            value = quotient * divisor + rest
            found = p.substitute(lambda v, value=value: value if v is variable else None).constant
            if found is None:
                return False
            if found == 0:
                solutions.append(rest)
        if not solutions:
            raise self.clash("no whole number solves it")
        if len(solutions) > 1:
            return len(solutions) == divisor
        dividend = Dim.of(variable) - solutions[0]
        self.state.demand(Divides(Dim.of(divisor), dividend, self.origin))
        return True

    def _is_positive(self, dim: Dim) -> bool:
        """Whether a dimension is at least 1, by all that is known of its variables."""
        found = self._positive.get(dim)
        if found is None:
            found = self._positive[dim] = (self.state.least(dim) or 0) >= 1
        return found

    def _factor(self, p: Dim, declared: bool = False) -> bool:
        """`a * x = a * b` for polynomials: then x is b."""
        for variable, slope, rest in self._unknowns(p, declared):
            value = exact_quotient(-rest, slope) if self._is_positive(slope) else None
            if value is None and self._is_positive(-slope):
                value = exact_quotient(rest, -slope)
            if value is not None:
                return self._set(variable, value)
        return False

    def _euclid(self, p: Dim) -> bool:
        """A linear equation without a coefficient of 1: one step of Euclid's algorithm."""
        linear = all(
            sum(power for _, power in monomial) <= 1
            and all(isinstance(factor, Variable) for factor, _ in monomial)
            for monomial, _ in p.terms
        )
        if not linear or any(v in self.state.declared for v in p.variables()):
            return False
        coefficients = {monomial: c for monomial, c in p.terms if monomial}
        pivot = min(coefficients, key=lambda monomial: abs(coefficients[monomial]))
        variable, by = pivot[0][0], coefficients[pivot]
        if not isinstance(variable, Variable) or len(coefficients) < 2:
            return False
        parameter = self.state.fresh("integer")
        self.state.levels[parameter] = self.state.levels.get(variable, 0)
        others = [(monomial, c) for monomial, c in p.terms if monomial != pivot]
        whole = [(monomial, c // by) for monomial, c in others if c // by]
        self._set(variable, Dim.of(parameter) - Dim(tuple(whole)))
        return self.solve(self.state.dim(p))

    def _roots(self, p: Dim) -> bool:
        """An equation in one variable: the whole number that solves it, if there is just one."""
        factors = list(p.factors)
        if len(factors) != 1 or not isinstance(factors[0], Variable) or not p.offset:
            return False
        variable = factors[0]
        if variable.kind not in ("dim", "count") or abs(p.offset) > MAX_ROOT:
            return False
        roots = [n for n in divisors(p.offset) if self._value(p, variable, n) == 0]
        if not roots:
            raise self.clash("no whole number solves it")
        return len(roots) == 1 and self._set(variable, Dim.of(roots[0]))

    @staticmethod
    def _value(p: Dim, variable: Factor, number: int) -> int:
        return sum(
            times([c, *((Dim.of(number), power) for _, power in monomial)]).constant or 0
            for monomial, c in p.terms
        )

    def _quotient(self, p: Dim) -> bool:
        """`a * x = b`: x becomes the quotient, and a has to divide b."""
        for variable, slope, rest in self._unknowns(p):
            sign = 1 if self._is_positive(slope) else -1
            divisor, dividend = slope * sign, rest * -sign
            if not self._is_positive(divisor) or dividend == ZERO:
                continue
            if variable in dividend.variables() or variable in divisor.variables():
                continue
            if variable.hint is not None and any(isinstance(f, Size) for f in dividend.factors):
                continue  # a named size is no quotient of what isn't known yet
            self.state.demand(Divides(divisor, dividend, self.origin))
            positive = (dividend.least() or 0) >= 1
            value = dividend // divisor
            self.state.set_dim(variable, value, self.origin, self.fact, positive)
            return True
        return False

    def _declared(self, p: Dim) -> bool:
        """As a last resort, an equation says what a declared variable must be."""
        return bool(self.state.declared) and (self._isolate(p, True) or self._factor(p, True))


def divisors(number: int) -> list[int]:
    """The positive divisors of a number other than 0."""
    number = abs(number)
    return [n for n in range(1, number + 1) if number % n == 0]


def divide(state: SolverState, constraint: Divides) -> bool:
    """Decide that one dimension divides another, if that can be done now."""
    divisor, dividend = state.dim(constraint.divisor), state.dim(constraint.dividend)
    number = divisor.constant
    if number == 0:
        raise Clash(divisor, dividend, constraint.origin, "0 divides nothing")
    if exact_quotient(dividend, divisor) is not None:
        return True
    rest = dividend if number is None else remainder(dividend, number)
    if number is not None:
        shared = gcd(content(rest), number)
        if rest.constant == 0:
            return True
        if rest.offset % shared:
            raise Clash(divisor, dividend, constraint.origin, f"{number} doesn't divide it")
    if any(variable in state.declared for variable in rest.variables()):
        return False
    for variable in dict.fromkeys(rest.variables()):
        linear = rest.linear_in(variable)
        if linear is None or variable in divisor.variables():
            continue
        if linear[0].constant in (1, -1) and (number is not None or rest.sole_variable):
            alone = rest.sole_variable
            quotient = state.fresh(alone.kind if alone else "integer", variable.hint)
            state.levels[quotient] = state.levels.get(variable, 0)
            state.equate_dims(rest, divisor * Dim.of(quotient), constraint.origin)
            return True
    return False


def remainder(dim: Dim, number: int) -> Dim:
    """A small dimension that differs from `dim` by a multiple of `number`."""
    terms: list[tuple[Monomial, int]] = []
    for monomial, c in dim.terms:
        rest = c % number
        if 2 * rest > number:
            rest -= number
        if rest:
            terms.append((monomial, rest))
    return Dim(tuple(terms))


def _sign(state: SolverState, dim: Dim, constraint: AtLeast) -> bool:
    """Whether a positive factor of a bound by 0 or 1 could be left out."""
    goal = constraint.bound - dim.offset
    if goal not in (0, 1) or len(dim.terms) < 2 + bool(dim.offset):
        return False
    symbols = dim.symbols
    shared = common_monomial(symbols)
    positive = tuple((f, n) for f, n in shared if (factor_least(f) or 0) >= 1)
    if not positive:
        return False
    state.demand(AtLeast(divide_monomial(symbols, positive), goal, constraint.origin))
    return True


def _factors_at_least_one(state: SolverState, product: Monomial, origin: Origin) -> bool:
    """Demand what makes a product at least 1 whose factors aren't negative."""
    if any(factor_least(factor) != 0 for factor, _ in product):
        return False
    for factor, _ in product:
        state.demand(AtLeast(Dim.of(factor), 1, origin))
    return True


def _quotient_at_least(state: SolverState, lone: Monomial, bound: int, origin: Origin) -> bool:
    """Demand of a quotient's numerator what makes the quotient at least `bound`."""
    if len(lone) != 1 or lone[0][1] != 1 or not isinstance(lone[0][0], Floor):
        return False
    floor = lone[0][0]
    if (floor.denominator.least() or 0) < 1:
        return False
    number = floor.denominator.constant
    if number is not None:
        state.demand(AtLeast(floor.numerator, number * bound, origin))
    else:
        state.demand(AtLeast(floor.numerator - floor.denominator * bound, 0, origin))
    return True


def _is_known(state: SolverState, dim: Dim, constraint: AtLeast) -> bool:
    """Whether a bound holds by what is known. Raises Clash if it can't."""
    for low, high in state.limits(dim):
        if low is not None and low >= constraint.bound:
            return True
        if high is not None and high < constraint.bound:
            raise Clash(dim, Dim.of(constraint.bound), constraint.origin, "a size is too small")
    low = state.least_of_product(dim)
    return low is not None and low >= constraint.bound


def bound(state: SolverState, constraint: AtLeast) -> bool:
    """Decide that a dimension has a lower bound, if that can be done now."""
    dim = state.dim(constraint.dim)
    if _is_known(state, dim, constraint) or _sign(state, dim, constraint):
        return True
    symbolic = [(monomial, c) for monomial, c in dim.terms if monomial]
    if len(symbolic) != 1:
        return False
    monomial, slope = symbolic[0]
    if slope > 0 and _quotient_at_least(
        state, monomial, -(-(constraint.bound - dim.offset) // slope), constraint.origin
    ):
        return True
    if dim.offset == 0 and 1 <= constraint.bound <= slope:
        monomial = tuple(f for f in monomial if (factor_least(f[0]) or 0) < 1)
        if len(monomial) > 1 and _factors_at_least_one(state, monomial, constraint.origin):
            return True
    if len(monomial) != 1:
        return False
    factor, power = monomial[0]
    if power != 1 or not isinstance(factor, Variable):
        return False
    return state.narrow(constraint, factor, slope, dim.offset)
