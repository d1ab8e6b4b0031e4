"""Axon's solver: unification of shapes, and when the constraints can be decided.

Shapes are words over dimensions and shape variables. Equal ends are cancelled; lengths are a
linear equation, which often fixes ranks; a shape variable alone on one side is bound. What is then
left has several solutions, and waits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from tawa.axon.sizes import equations, stacks
from tawa.axon.sizes.choices import is_cut, is_not_one, joined
from tawa.axon.sizes.constraints import (
    AtLeast,
    Broadcast,
    Compatible,
    Divides,
    Equal,
    MatrixProduct,
    Position,
    SameShape,
    Stacked,
)
from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.measures import Rank
from tawa.axon.sizes.plain import with_plain_sizes
from tawa.axon.sizes.shapes import Item, Shape, append, as_shape
from tawa.axon.sizes.state import MOST_AXES, SolverState
from tawa.axon.sizes.tidy import tidied
from tawa.functional.solver import Clash, Violation
from tawa.functional.terms import Among, Con, Constraint, Origin, Scheme, Term, Variable

NUMBERS = ("dim", "count", "integer")
"""The kinds of variables that stand for a number."""

DEFAULTS = {"num": "i64", "float": "f32"}
"""The element types of numbers that nothing determines."""


def _itself(clash: Clash) -> Exception:
    return clash


class AxonSolver(SolverState):
    """Solves types, shapes and dimensions together.

    `explain` makes the user's error of a clash that comes up when a definition is generalised.
    """

    explain: Callable[[Clash], Exception] = staticmethod(_itself)

    def __init__(self) -> None:
        super().__init__()
        self._broadcasts: dict[frozenset[Shape], tuple[int, Shape]] = {}
        """Of operands that wait to be broadcast: the constraint's key, and the result."""
        self.restated: set[Variable] = set()
        """Sizes that gave way to others when a scheme was restated; nothing is required of them."""

    def successor(self) -> AxonSolver:
        """A new solver with the same declared variables."""
        solver = type(self)()
        solver.declared, solver.size_kind = self.declared, self.size_kind
        return solver

    def unify_other(self, left: Term, right: Term, origin: Origin) -> None:
        """Make dimensions, shapes or element types equal."""
        if isinstance(left, Dim) or isinstance(right, Dim):
            self.equate_dims(_dim(left), _dim(right), origin)
        elif isinstance(left, Shape) or isinstance(right, Shape):
            self.equate_shapes(as_shape(left), as_shape(right), origin)
        elif isinstance(left, Variable):
            self._equate_variable(left, right, origin)
        elif isinstance(right, Variable):
            self._equate_variable(right, left, origin)
        else:
            raise Clash(left, right, origin)

    def _equate_variable(self, variable: Variable, other: Term, origin: Origin) -> None:
        if variable.kind in NUMBERS:
            self.equate_dims(Dim.of(variable), _dim(other), origin)
        elif variable.kind == "shape":
            self.equate_shapes(as_shape(variable), as_shape(other), origin)
        elif isinstance(other, Con) and other.arguments:
            raise Clash(variable, other, origin, "an element type is expected")
        else:
            self.bind(variable, other, origin)

    def attempt(self, constraint: Constraint) -> bool:
        """Decide a constraint if that can be done now."""
        rule = self.rules.get(type(constraint))
        return super().attempt(constraint) if rule is None else rule(self, constraint)

    def default(self, constraint: Constraint) -> bool:
        """Numbers of no known element type are `i64`, those with a point `f32`.

        The right operand of `@` is a matrix if nothing says that it has more axes.
        """
        if isinstance(constraint, MatrixProduct):
            self.equate_shapes(constraint.right, Shape(()), constraint.origin)
            return True
        if not isinstance(constraint, Among) or constraint.label not in DEFAULTS:
            return False
        if not isinstance(self.prune(constraint.term), Variable):
            return False  # another default has decided it
        self.equate(constraint.term, Con(DEFAULTS[constraint.label]), constraint.origin)
        return True

    def generalise(self, type_: Term, since: int) -> Scheme:
        """The scheme of a type, with conditions that follow from others left out.

        What a definition multiplies by is decided in it: a matrix, unless it is known to be more.
        """
        for constraint in self.waiting(since):
            if isinstance(constraint, MatrixProduct) and self._is_own(constraint):
                try:
                    self.default(constraint)
                    self.settle()
                except Clash as clash:
                    raise self.explain(clash) from None
        scheme, replaced = with_plain_sizes(super().generalise(type_, since))
        self.bindings.update(replaced)
        self._bound += 1
        self.restated.update(replaced)
        return replace(scheme, constraints=tidied(scheme.constraints))

    def _is_own(self, product: MatrixProduct) -> bool:
        """Whether a product belongs to the definition that is being generalised."""
        if product.origin.what == "condition":
            return False  # of a signature, which says what `@` is
        return all(self._is_deep(v) for v in self.shape(product.right).variables())

    def _matrix_product(self, constraint: MatrixProduct) -> bool:
        right, origin = self.shape(constraint.right), constraint.origin
        if right.dims is None:
            return False
        if not right.items:
            self.equate_shapes(constraint.result, constraint.left, origin)
            return True
        stack, rows, result = self.fresh_shape(), self.fresh_size(), self.fresh_shape()
        self.equate_shapes(constraint.left, append(stack, Shape((rows,))), origin)
        self.equate_shapes(constraint.result, append(result, Shape((rows,))), origin)
        self.demand(Broadcast(stack, right, result, origin))
        return True

    # Shapes.

    def equate_shapes(self, left: Shape, right: Shape, origin: Origin) -> None:
        """Make two shapes equal, now or later. Raises Clash."""
        self.demand(SameShape(left, right, origin))

    def _same_shape(self, constraint: SameShape) -> bool:
        whole = left, right = self.shape(constraint.left), self.shape(constraint.right)
        origin = constraint.origin
        if left.dims is not None and right.dims is not None and len(left.dims) != len(right.dims):
            raise Clash(*whole, origin, "the numbers of dimensions differ")
        while True:
            one, other = self._cancelled(left, right, whole, origin)
            if not one or not other:
                self._empty(one or other, whole, origin)
                return True
            for lone, rest in ((one, other), (other, one)):
                if len(lone) != 1 or not isinstance(lone[0], Variable):
                    continue
                found = self.shape(Shape(rest))  # of sizes that equal ends have just decided
                if lone[0] not in found.variables():
                    self.set_shape(lone[0], found, origin)
                    return True
            if not self._ranks_progress(Shape(one), Shape(other), whole, origin):
                return self._overlap(one, other, whole, origin)
            left, right = self.shape(left), self.shape(right)

    def _cancelled(
        self, left: Shape, right: Shape, whole: tuple[Shape, Shape], origin: Origin
    ) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
        """Both shapes without their equal ends; dimensions that meet are made equal."""
        one, other = left.items, right.items
        for end in (0, -1):
            while one and other:
                first, second = one[end], other[end]
                if isinstance(first, Dim) and isinstance(second, Dim):
                    try:
                        self.equate_dims(first, second, origin)
                    except Clash as clash:
                        raise clash.within(*whole, origin, _reason(clash)) from None
                elif first is not second:
                    break
                one, other = (one[1:], other[1:]) if end == 0 else (one[:-1], other[:-1])
        return one, other

    def _empty(self, rest: tuple[Item, ...], whole: tuple[Shape, Shape], origin: Origin) -> None:
        """What is left when one shape is used up must be empty."""
        if any(isinstance(item, Dim) for item in rest):
            raise Clash(*whole, origin, "the numbers of dimensions differ")
        for item in dict.fromkeys(rest):
            if isinstance(item, Variable):
                self.set_shape(item, Shape(()), origin)

    def _ranks_progress(
        self, one: Shape, other: Shape, whole: tuple[Shape, Shape], origin: Origin
    ) -> bool:
        """Whether the equation of lengths fixes a rank."""
        difference = self.dim(one.rank()) - self.dim(other.rank())
        for side in (difference, -difference):
            low = side.least()
            if low is not None and low > 0:
                raise Clash(*whole, origin, "the numbers of dimensions differ")
        unknown = [f for f in difference.factors if isinstance(f, Rank)]
        if len(unknown) != 1:
            return False
        return equations.solve(self, difference, Dim.of(0), origin)

    def _overlap(
        self,
        one: tuple[Item, ...],
        other: tuple[Item, ...],
        whole: tuple[Shape, Shape],
        origin: Origin,
    ) -> bool:
        """`..s, x = ..s, y` in the middle: the same variable on both sides, ends of equal length.

        Happens when a variable occurs in both words; then only lengths can refute it.
        """
        for item in one:
            if isinstance(item, Variable) and item in other and len(one) == 1:
                extra = [i for i in other if i is not item]
                if any(isinstance(i, Dim) for i in extra):
                    raise Clash(*whole, origin, "a shape would have to contain itself")
                self._empty(tuple(extra), whole, origin)
                return True
        return False

    # Broadcasting.

    def _park(self, constraint: Constraint) -> None:
        """Let a constraint wait; broadcasts of the same shapes have the same result."""
        if isinstance(constraint, Broadcast):
            pair = frozenset((self.shape(constraint.left), self.shape(constraint.right)))
            key, result = self._broadcasts.get(pair, (-1, constraint.result))
            if key in self._parked:
                self.equate_shapes(constraint.result, result, constraint.origin)
                return
            self._broadcasts[pair] = self.mark, constraint.result
        super()._park(constraint)

    def _broadcast(self, constraint: Broadcast) -> bool:
        origin = constraint.origin
        left, right = self.shape(constraint.left), self.shape(constraint.right)
        one, other = list(left.items), list(right.items)
        ends: list[Item] = []
        while one and other:
            first, second = one[-1], other[-1]
            if not (isinstance(first, Dim) and isinstance(second, Dim)):
                break
            try:
                ends.append(self.broadcast_dims(first, second, origin))
            except Clash as clash:
                raise clash.within(left, right, origin, _reason(clash)) from None
            one.pop()
            other.pop()
        tail = Shape(tuple(reversed(ends)))
        if one == other or not other:
            self.equate_shapes(constraint.result, append(Shape(tuple(one)), tail), origin)
            return True
        if not one:
            self.equate_shapes(constraint.result, append(Shape(tuple(other)), tail), origin)
            return True
        if not ends:
            return self._broadcast_backward(one, other, constraint)
        result = self.fresh_shape()
        self.equate_shapes(constraint.result, append(result, tail), origin)
        rest = Broadcast(Shape(tuple(one)), Shape(tuple(other)), result, origin)
        self.demand(rest)
        return True

    def _broadcast_backward(
        self, one: list[Item], other: list[Item], constraint: Broadcast
    ) -> bool:
        """Ranks that follow: of two operands, one has the result's rank."""
        result = self.shape(constraint.result)
        if not result.items:
            for rest in (one, other):
                self.equate_shapes(Shape(tuple(rest)), result, constraint.origin)
            return True
        for side in (one, other):
            if all(isinstance(item, Dim) for item in side) and result.dims is not None:
                missing = other if side is one else one
                if len(result.items) > len(side):
                    rank = Shape(tuple(missing)).rank()
                    goal = Dim.of(len(result.items))
                    if self.dim(rank) != goal:
                        equations.solve(self, rank, goal, constraint.origin)
                        if self.dim(rank) == goal:
                            return self._broadcast(constraint)
        return False

    def broadcast_dims(self, left: Dim, right: Dim, origin: Origin) -> Dim:
        """The dimension that two dimensions broadcast to. Raises Clash."""
        left, right = self.dim(left), self.dim(right)
        if left == right or right.constant == 1:
            return left
        if left.constant == 1:
            return right
        self.demand(Compatible(left, right, origin))
        left, right = self.dim(left), self.dim(right)
        return joined([left, right])

    def _compatible(self, constraint: Compatible) -> bool:
        left, right = self.dim(constraint.left), self.dim(constraint.right)
        if left == right or left.constant == 1 or right.constant == 1:
            return True
        for one, other in ((left, right), (right, left)):
            bounds = is_cut(one, other)
            if bounds is not None:  # what cuts it doesn't
                for limit in bounds:
                    self.demand(AtLeast(limit - other, 0, constraint.origin))
                return True
        if is_not_one(right) and is_not_one(left):
            self.equate_dims(left, right, constraint.origin)
            return True
        return False

    def _position(self, constraint: Position) -> bool:
        axis = self.dim(constraint.axis).constant
        if axis is None:
            return False
        side = constraint.before if axis >= 0 else constraint.after
        distance = axis if axis >= 0 else -axis - 1
        try:
            self.equate_dims(self.shape(side).rank(), Dim.of(distance), constraint.origin)
        except Clash:
            rank = self.dim(append(constraint.before, constraint.after).rank() + 1).constant
            where = (
                f"in a tensor of {rank} dimensions" if rank else f"(they are {MOST_AXES} at most)"
            )
            raise Violation(constraint, f"there is no axis {axis} {where}") from None
        return True

    rules: ClassVar[dict[type[Constraint], Callable[..., bool]]] = {
        Equal: equations.equal,
        Divides: equations.divide,
        AtLeast: equations.bound,
        Compatible: _compatible,
        SameShape: _same_shape,
        Broadcast: _broadcast,
        Position: _position,
        MatrixProduct: _matrix_product,
        Stacked: stacks.stack,
    }
    """What decides a constraint of each kind."""


def _reason(clash: Clash) -> str:
    if clash.reason:
        return clash.reason
    left, right = clash.left, clash.right
    if isinstance(left, Dim) and isinstance(right, Dim):
        one, other = left.constant, right.constant
        if one is not None and other is not None:
            return f"{one} is not {other}"
    return ""


def _dim(term: Term) -> Dim:
    if isinstance(term, Dim):
        return term
    if isinstance(term, Variable) and term.kind in NUMBERS:
        return Dim.of(term)
    raise TypeError(f"{term} is no dimension")
