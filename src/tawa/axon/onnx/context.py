"""What a rule for an operator can ask and say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple, cast

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, helper, numpy_helper

from tawa.axon.onnx.provided import Provided
from tawa.axon.onnx.values import UNKNOWN, Array, Dims, Value, object_array
from tawa.axon.sizes.constraints import AtLeast, Compatible
from tawa.axon.sizes.dims import ONE, Dim
from tawa.axon.sizes.monomials import Atom
from tawa.axon.sizes.products import primitive, times
from tawa.axon.sizes.solver import AxonSolver
from tawa.axon.sizes.state import MOST_AXES
from tawa.base.decorated import Registering
from tawa.base.errors import TawaError
from tawa.functional.terms import Origin, Term, Variable

MAX_CHOICES = 64
"""Sizes of which one is the size of what is broadcast: more are not kept."""


class IllFormed(Exception):
    """A node isn't as its operator demands; the message says what is wrong."""


class Undefined(Exception):
    """What a node gives isn't defined: runtimes differ."""


@dataclass(frozen=True)
class Branch:
    """What a graph that may not run would give: values, and what has to hold of outer sizes.

    No values if it can't run, for the reason `error`.
    """

    values: list[Value] | None
    learned: dict[Variable, Term]
    error: TawaError | None


class Room(NamedTuple):
    """How far a window can move: nobody knows how often it fits where that is below 0."""

    size: Dim
    stride: int

    def quotients(self) -> list[Atom]:
        """The rounded quotients that are only known where there is room, if it may be missing."""
        low = self.size.least()
        is_safe = self.stride == 1 or (low is not None and low >= 0)
        return [] if is_safe else list((self.size // self.stride).atoms())


Rule = Callable[["Context"], "list[Value] | Value | None"]
RULES: dict[str, Rule] = {}
"""The rule of each operator, by domain and name (`Conv`, `ai.onnx.ml:Binarizer`).

None or too few values mean that nothing more is known.
"""


rule = Registering(RULES)


@dataclass
class Context:
    """One node, the values of its inputs, and the solver."""

    node: NodeProto
    inputs: list[Value | None]
    solver: AxonSolver
    origin: Origin
    opset: int
    subgraph: Callable[[GraphProto, list[Value]], list[Value]]
    branch: Callable[[GraphProto, list[Value]], Branch]
    attributes: dict[str, AttributeProto]
    decoded: dict[str, Any] = field(default_factory=dict[str, Any])
    written: dict[Dim, Dim] = field(default_factory=dict[Dim, Dim])
    rooms: list[Room] = field(default_factory=list[Room])
    provided: Provided = field(default_factory=Provided)
    is_supposed: bool = False
    """Whether the node is inside of a graph that may not run."""
    unrolled: Iterator[int] = field(default_factory=count)
    """Counts the iterations of a loop of the model, and of those inside of it."""

    # What is given.

    def has(self, index: int) -> bool:
        """Whether an optional input is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def value(self, index: int) -> Value:
        """An input; an unknown value if it is missing."""
        found = self.inputs[index] if index < len(self.inputs) else None
        return UNKNOWN if found is None else found

    def dims(self, index: int) -> Dims | None:
        """The sizes of an input, with all that is known put in."""
        dims = self.value(index).dims
        return None if dims is None else self.resolved(dims)

    def resolved(self, dims: Dims) -> Dims:
        """Sizes as other nodes left them, with all that is known put in."""
        resolved = tuple([self.solver.dim(dim) for dim in dims])
        self.written.update(zip(resolved, dims, strict=True))
        return resolved

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute as a Python value."""
        found = self.attributes.get(name)
        if found is None:
            return default
        if name not in self.decoded:
            self.decoded[name] = _decoded(found)
        value = self.decoded[name]
        return list(cast("list[Any]", value)) if isinstance(value, list) else value

    def flag(self, name: str, default: bool = False) -> bool:
        """An attribute that is 0 or 1. Raises Undefined for other numbers."""
        found = self.attribute(name, int(default))
        if found not in (0, 1):
            raise Undefined(f"`{name}` is {found}, neither 0 nor 1")
        return bool(found)

    def sizes(self, index: int) -> list[Dim] | None:
        """The contents of an integer input, with all that is known put in."""
        found = self.value(index).sizes
        return None if found is None else [self.solver.dim(dim) for dim in found]

    def numbers(self, index: int) -> list[Any] | None:
        """The contents of a constant input, in one list."""
        found = self.value(index)
        if found.contents is not None and found.contents.dtype == object:
            sizes = [self.solver.dim(Dim.of(item)) for item in found.contents.ravel()]
            constants = [size.constant for size in sizes]
            return None if any(c is None for c in constants) else constants
        numbers = found.numbers
        return None if numbers is None else numbers.ravel().tolist()

    def number(self, index: int, default: Any = None) -> Any:
        """The only number of a constant input; the default if the input is missing."""
        if not self.has(index):
            return default
        numbers = self.numbers(index)
        return numbers[0] if numbers is not None and len(numbers) == 1 else None

    def setting(self, name: str, index: int) -> list[Any] | None:
        """What newer opsets give as an input and older ones as an attribute; None if unknown."""
        if name in self.attributes:
            value = self.attribute(name)
            return cast("list[Any]", value) if isinstance(value, list) else [value]
        return self.numbers(index) if self.has(index) else None

    # What can be said.

    def fresh(self) -> Dim:
        """A size that nothing is known of."""
        return self.solver.fresh_count()

    def bounded(self, dim: Dim) -> Dim:
        """A size, or one that nothing is known of in the place of what is too long to say."""
        chosen = dim.sole_factor if dim.chooses else None
        choices = len(chosen.parts()) if isinstance(chosen, Atom) else 1
        return self.fresh() if dim.is_long or choices > MAX_CHOICES else dim

    def fresh_dims(self, rank: int) -> list[Dim]:
        """Sizes that nothing is known of. Raises IllFormed for more than a tensor can have."""
        if rank > MOST_AXES:
            raise IllFormed(f"a tensor of {rank} dimensions, more than {MOST_AXES}")
        return [self.fresh() for _ in range(rank)]

    def equal(self, left: Dim, right: Dim) -> Dim:
        """Demand that two sizes are equal, and return one. Raises Clash.

        The solver is given the inputs' sizes as other nodes left them, not with all that is known
        put in: so its log says which nodes are behind them.
        """
        sides = (self.written.get(left, left), self.written.get(right, right))
        self.solver.unify(*sides, self.origin)
        return self.solver.dim(left)

    def least(self, dim: Dim) -> int | None:
        """A number that a size is not below, by what is known of the symbols in it.

        Or by what nodes have demanded of the same sum of symbols.
        """
        low = self.solver.least(dim)
        if dim.constant is not None:
            return low
        symbols, shared = primitive(dim) if self.solver.floors else (dim, 1)
        floor = self.solver.floors.get(symbols)
        if floor is None:
            return low
        demanded = floor * shared + dim.offset
        return demanded if low is None else max(demanded, low)

    def not_below(self, dim: Dim, bound: int) -> bool:
        """Whether a size is provably not below a number, by all that is known of its symbols.

        To look for an example that is takes less than to look for a proof in vain.
        """
        solver = self.solver
        is_demanded = bool(solver.floors) and primitive(dim)[0] in solver.floors
        if solver.bounds.keys().isdisjoint(dim.free.keys()) and not is_demanded:
            samples = dim.samples
            if samples is not None and min(samples) < bound:
                return False
        low = self.least(dim)
        return low is not None and low >= bound

    def has_elements(self, dims: Dims) -> bool:
        """Whether a tensor of these sizes surely has elements."""
        return all((self.least(dim) or 0) >= 1 for dim in dims)

    def same(self, *shapes: Dims | None) -> Dims | None:
        """Demand that shapes are equal, and return one; unknown ones don't matter."""
        found: Dims | None = None
        for shape in shapes:
            if found is None:
                found = shape
            elif shape is not None:
                if len(shape) != len(found):
                    raise IllFormed(f"{len(found)} and {len(shape)} dimensions should be as many")
                found = tuple(self.equal(a, b) for a, b in zip(found, shape, strict=True))
        return found

    def at_least(self, dim: Dim, bound: int) -> None:
        """Demand that a size is at least `bound`, unless it is for all symbols. Raises Clash."""
        low = dim.least()
        if low is not None and low >= bound:
            return
        self.solver.require(AtLeast(dim, bound, self.origin))
        self.solver.note_floor(self.solver.dim(dim), bound)

    def broadcast(self, *shapes: Dims | None) -> Dims | None:
        """The shape that shapes broadcast to; unknown if one is. Raises Clash."""
        result: list[Dim] = []
        for shape in shapes:
            if shape is None:
                return None
            longer, shorter = (result, list(shape)) if len(result) >= len(shape) else (
                list(shape), result)  # fmt: skip
            split = len(longer) - len(shorter)
            result = longer[:split] + [
                self.bounded(self.broadcast_dims(a, b))
                for a, b in zip(longer[split:], shorter, strict=True)
            ]
            self.solver.settle()
        return tuple(self.solver.dim(dim) for dim in result)

    def broadcast_dims(self, left: Dim, right: Dim) -> Dim:
        """What two sizes broadcast to. Raises Clash."""
        if left != right and ONE not in (left, right):
            self.solver.log.append(Compatible(left, right, self.origin))
        return self.solver.broadcast_dims(left, right, self.origin)

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from the front. Raises IllFormed if there is no such axis."""
        if not -rank <= axis < rank:
            raise IllFormed(f"there is no axis {axis} in a tensor of {rank} dimensions")
        return axis + rank if axis < 0 else axis

    def axes(self, axes: Iterable[int], rank: int) -> list[int]:
        """Different axes counted from the front. Raises IllFormed."""
        found = [self.axis(axis, rank) for axis in axes]
        if len(set(found)) < len(found):
            raise IllFormed("an axis is named twice")
        return found

    def ranked(self, index: int, *ranks: int) -> Dims | None:
        """The sizes of an input that has one of these numbers of dimensions. Raises IllFormed."""
        dims = self.dims(index)
        if dims is not None and len(dims) not in ranks:
            expected = " or ".join(str(rank) for rank in ranks)
            raise IllFormed(f"its input {index + 1} has {len(dims)} dimensions, not {expected}")
        return dims

    def chosen(self, name: str, default: str, *values: str) -> str:
        """An attribute that is one of some words. Raises IllFormed."""
        found = self.attribute(name, default)
        if found not in values:
            raise IllFormed(f"`{name}` is `{found}`, not {', '.join(values)}")
        return found

    def listed(self, name: str, count: int, default: int, least: int) -> list[int]:
        """An attribute of so many numbers, none below `least`. Raises IllFormed."""
        found = self.attribute(name)
        if found is None or (not found and count):
            return [default] * count
        if len(found) != count:
            raise IllFormed(f"`{name}` has {len(found)} numbers, not {count}")
        if any(number < least for number in found):
            raise IllFormed(f"`{name}` has a number below {least}")
        return found


LIST_TYPES = {
    AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS, AttributeProto.TENSORS,
    AttributeProto.GRAPHS,
}  # fmt: skip


def _decoded(attribute: AttributeProto) -> Any:
    """An attribute as a Python value."""
    value: Any = helper.get_attribute_value(attribute)
    if attribute.type == AttributeProto.TENSOR:
        return numpy_helper.to_array(value)
    if isinstance(value, bytes):
        return value.decode()
    return list(value) if attribute.type in LIST_TYPES else value


def product(dims: Sequence[Dim]) -> Dim:
    """The product of sizes."""
    return times(list(dims))


def dims_array(dims: Sequence[Dim]) -> Array:
    """Sizes as the contents of a one-dimensional tensor."""
    return object_array(list(dims), (len(dims),))


def is_integer(array: Array) -> bool:
    """Whether contents are integers or sizes."""
    return array.dtype == object or bool(np.issubdtype(array.dtype, np.integer))
