"""Sizes and indices that are known when a program is launched: expressions over the arguments.

An inner variant runs once for all sizes. What it computes with is a `Size`: it has a value, of the
launch that it is traced for, and a text, for all launches. Where Python asks for the value (in an
`if`, in `range`), the answer is kept as a `Guard`: the trace holds for launches that give the same
answers. An index of `srange` or `prange` has no value, since the loop's body is traced for all its
iterations.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import gcd, isfinite
from typing import TYPE_CHECKING, Any, TypeAlias

from tawa.base.user_frames import users_place
from tawa.tasks.language.errors import IndexNotConstant

if TYPE_CHECKING:
    from typing import Never

Number: TypeAlias = "int | float | Size"

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": lambda a, b: a // b,
    "%": operator.mod,
    "/": lambda a, b: a / b,
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
}
"""What the operators of sizes mean."""


@dataclass(frozen=True)
class Guard:
    """An answer that a trace depends on: `left OP right` was `holds`."""

    op: str
    left: Number
    right: Number
    holds: bool

    def admits(self, values: Mapping[str, Any]) -> bool:
        """Whether a launch's values give the same answer."""
        return BINARY[self.op](value(self.left, values), value(self.right, values)) == self.holds

    def __str__(self) -> str:
        return f"{'' if self.holds else 'not '}{text(self.left)} {self.op} {text(self.right)}"


@dataclass
class Known:
    """The values of one launch, and what a trace has asked of them."""

    values: dict[str, Any]
    guards: dict[str, Guard] = field(default_factory=dict[str, Guard])
    pinned: dict[str, Any] = field(default_factory=dict[str, Any])
    """Names whose values the trace is for, and no others: their texts are these numbers."""
    scalars: set[str] = field(default_factory=set[str])
    """Names of scalar arguments, which may be negative; sizes and indices are not."""
    extents: dict[str, Number] = field(default_factory=dict[str, "Number"])
    """How many values each loop's index has."""

    def ask(self, op: str, left: Number, right: Number) -> bool:
        """An answer, which the trace depends on from now on. Raises `IndexNotConstant`."""
        asked = (*names(left), *names(right))
        for name in sorted(asked, key=lambda name: not name.endswith("[]")):
            if name.endswith("[]"):
                raise IndexNotConstant(
                    f"an element of `{name[:-2]}` is asked for",
                    span=users_place(),
                    expected="arithmetic that holds whatever the elements are",
                    found=f"{text(left)} {op} {text(right)}",
                    hint="use it as a size, an extent or a number of a launch, or branch in a leaf",
                )
            if name not in self.values:
                raise IndexNotConstant(
                    f"the value of the loop index `{name}` is asked for",
                    span=users_place(),
                    expected="arithmetic that holds for every iteration",
                    found=f"{text(left)} {op} {text(right)}",
                    hint="pass the index to a leaf, which may branch on it, or unroll with `range`",
                )
        holds = bool(BINARY[op](value(left, self.values), value(right, self.values)))
        guard = Guard(op, left, right, holds)
        self.guards.setdefault(str(guard), guard)
        return holds


@dataclass(frozen=True, eq=False)
class Size:
    """A whole number (or a scalar argument): a name, or an operator on two others."""

    known: Known
    op: str
    """`name`, one of `BINARY`, or `at`: an element of a tensor."""
    name: str = ""
    left: Number = 0
    right: Number = 0
    source: Any = None
    """Of an element: the buffer that it lies in, at the index `left`; it is at most `right`."""

    def __add__(self, other: Number) -> Number:
        return combined("+", self, other)

    def __radd__(self, other: Number) -> Number:
        return combined("+", other, self)

    def __sub__(self, other: Number) -> Number:
        return combined("-", self, other)

    def __rsub__(self, other: Number) -> Number:
        return combined("-", other, self)

    def __mul__(self, other: Number) -> Number:
        return combined("*", self, other)

    def __rmul__(self, other: Number) -> Number:
        return combined("*", other, self)

    def __floordiv__(self, other: Number) -> Number:
        return combined("//", self, other)

    def __rfloordiv__(self, other: Number) -> Number:
        return combined("//", other, self)

    def __mod__(self, other: Number) -> Number:
        return combined("%", self, other)

    def __rmod__(self, other: Number) -> Number:
        return combined("%", other, self)

    def __truediv__(self, other: Number) -> Number:
        return combined("/", self, other)

    def __neg__(self) -> Number:
        return combined("-", 0, self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int | float | Size):
            return False
        return text(self) == text(other) or self.known.ask("==", self, other)

    def __lt__(self, other: Number) -> bool:
        return self.known.ask("<", self, other)

    def __le__(self, other: Number) -> bool:
        return self.known.ask("<=", self, other)

    def __gt__(self, other: Number) -> bool:
        return self.known.ask("<", other, self)

    def __ge__(self, other: Number) -> bool:
        return self.known.ask("<=", other, self)

    def __hash__(self) -> int:
        return hash(text(self))

    def __bool__(self) -> bool:
        return not self.known.ask("==", self, 0)

    def __index__(self) -> int:
        for name in names(self):
            number = self.known.values.get(name, 0)
            self.known.ask("==", Size(self.known, "name", name), number)
            self.known.pinned[name] = number
        return int(value(self, self.known.values))

    def __int__(self) -> int:
        return self.__index__()

    def __float__(self) -> Never:
        raise TypeError("a scalar argument has no value of its own in an inner variant")

    def __repr__(self) -> str:
        return text(self)


def combined(op: str, left: Number, right: Number) -> Number:
    """`left OP right`, computed where both are numbers and simplified where that is plain."""
    if not isinstance(left, Size) and not isinstance(right, Size):
        return BINARY[op](left, right)
    if not isinstance(right, Size) and (
        (op in "+-" and right == 0) or (op in ("*", "//") and right == 1)
    ):
        return left
    if not isinstance(left, Size) and ((op == "*" and left == 1) or (op == "+" and left == 0)):
        return right
    nothing = [x for x in (left, right) if not isinstance(x, Size) and x == 0]
    if nothing and (op == "*" or (op in ("//", "%") and nothing[0] is left)):
        return 0
    if op == "-" and text(left) == text(right):
        return 0
    if (
        op in "+-"
        and isinstance(left, Size)
        and left.op in ("+", "-")
        and isinstance(left.right, int)
        and isinstance(right, int)
    ):  # constants together: (x + 128) - 1
        moved = (left.right if left.op == "+" else -left.right) + (right if op == "+" else -right)
        return combined("+" if moved >= 0 else "-", left.left, abs(moved))
    known = next(side.known for side in (left, right) if isinstance(side, Size))
    return Size(known, op, "", left, right)


def cdiv(a: Any, b: Any) -> Any:
    """How many pieces of `b` cover `a`."""
    return (a + b - 1) // b


def value(size: Number, values: Mapping[str, Any]) -> Any:
    """The number that a size is for a launch's values (and those of loop indices)."""
    if not isinstance(size, Size):
        return size
    if size.op == "name":
        return values[size.name]
    if size.op == "at":
        raise IndexNotConstant(
            f"{text(size)} is known only when the program runs",
            expected="a number that follows from the launch's sizes",
            found=text(size),
        )
    return BINARY[size.op](value(size.left, values), value(size.right, values))


def text(size: Number) -> str:
    """A size as Python writes it. Equal texts are equal sizes."""
    if not isinstance(size, Size):
        infinite = isinstance(size, float) and not isfinite(size)
        return f'float("{size}")' if infinite else repr(size)
    if size.op == "name":
        pinned = size.known.pinned
        return repr(pinned[size.name]) if size.name in pinned else size.name
    if size.op == "at":
        return f"{size.name}[{plain(size.left)}]"
    if not names(size):
        return repr(value(size, {**size.known.values}))
    return f"({text(size.left)} {size.op} {text(size.right)})"


def kernel_text(size: Number, elements: Mapping[str, str] | None = None) -> str:
    """A size as the tile language writes it, whose division rounds to zero, not down.

    `elements` are variables that elements of tensors were loaded into, by these elements' texts.
    """
    if not isinstance(size, Size) or not names(size) or size.op == "name":
        return text(size)
    if size.op == "at":
        loaded = f"tl.load({size.name} + {kernel_text(size.left, elements)}).to(tl.int32)"
        return (elements or {}).get(text(size), loaded)
    left, right = kernel_text(size.left, elements), kernel_text(size.right, elements)
    if size.op in ("//", "%") and least(size.left) is None:
        rest = f"(({left} % {right} + {right}) % {right})"
        return rest if size.op == "%" else f"(({left} - {rest}) // {right})"
    return f"({left} {size.op} {right})"


def least(size: Number) -> int | None:
    """A number that a size is not below, from 0; None if it may be negative.

    Tensors' sizes and loops' indices are not negative; of scalar arguments nothing is known.
    """
    if not isinstance(size, Size):
        return int(size) if size >= 0 else None
    number = constant(size)
    if number is not None:
        return number if number >= 0 else None
    if size.op == "name":
        return None if size.name in size.known.scalars else 0
    if size.op == "at" or rows_of_group(size) is not None:
        return 0
    left, right = least(size.left), least(size.right)
    if size.op == "-":
        taken = constant(size.right)
        return left - taken if left is not None and taken is not None and left >= taken else None
    if left is None or right is None:
        return None
    if size.op == "+":
        return left + right
    return left * right if size.op == "*" else 0


def divisor(size: Number) -> int:
    """A number that divides a size in all launches, the greatest that its text shows; 0 of zero."""
    number = constant(size)
    if number is not None:
        return abs(number)
    assert isinstance(size, Size)
    if size.op not in BINARY or size.op == "/":
        return 1
    left, right = divisor(size.left), divisor(size.right)
    if size.op == "*":
        return left * right
    if size.op == "//":
        return left // right if constant(size.right) and left % right == 0 else 1
    return gcd(left, right)


def rows_of_group(size: Number) -> Size | None:
    """The offset at which a group ends, if a size is how many rows the group has."""
    if not isinstance(size, Size) or size.op != "-":
        return None
    high, low = size.left, size.right
    if not isinstance(high, Size) or not isinstance(low, Size) or not high.op == low.op == "at":
        return None
    same_tensor = high.source is low.source
    return high if same_tensor and text(high.left) == text(low.left + 1) else None


def plain(size: Number) -> str:
    """The text of a size without the parentheses around all of it."""
    found = text(size)
    return found[1:-1] if isinstance(size, Size) and size.op != "name" else found


def names(size: Number) -> tuple[str, ...]:
    """The arguments' sizes and indices that a size is made of, in order.

    Tensors that it takes elements of are named too, as `offsets[]`.
    """
    if not isinstance(size, Size):
        return ()
    if size.op == "name":
        return () if size.name in size.known.pinned else (size.name,)
    if size.op == "at":
        return (*names(size.left), f"{size.name}[]")
    return tuple(dict.fromkeys((*names(size.left), *names(size.right))))


def is_fraction(size: Any) -> bool:
    """Whether a size comes of `/`, which may leave no whole number."""
    if not isinstance(size, Size) or size.op in ("name", "at"):
        return False
    return size.op == "/" or is_fraction(size.left) or is_fraction(size.right)


def is_whole(given: Any) -> bool:
    """Whether something is a whole number, known now or in a launch."""
    return isinstance(given, int | Size) and not is_fraction(given)


def not_empty(extent: Number) -> list[Size]:
    """The tensors' sizes in an extent that are above zero: the trace is for such launches alone."""
    if not isinstance(extent, Size):
        return []
    values, scalars = extent.known.values, extent.known.scalars
    sizes = (name for name in names(extent) if name in values and name not in scalars)
    named = (Size(extent.known, "name", name) for name in sizes)
    return [size for size in named if size > 0]


def is_of_data(size: Number) -> bool:
    """Whether a size follows from the elements of tensors."""
    return next(elements_of(size), None) is not None


def elements_of(size: Number) -> Iterator[Size]:
    """The elements of tensors that a size is made of."""
    if isinstance(size, Size) and size.op == "at":
        yield size
    if isinstance(size, Size):
        yield from elements_of(size.left)
        if size.op != "at":
            yield from elements_of(size.right)


def with_index(size: Number, name: str, index: Number) -> Number:
    """A size for another value of a loop's index."""
    if not isinstance(size, Size) or name not in names(size):
        return size
    if size.op == "name":
        return index
    left = with_index(size.left, name, index)
    if size.op == "at":
        return replace(size, left=left)
    return combined(size.op, left, with_index(size.right, name, index))


def constant(size: Number) -> int | None:
    """The number that a size is for all launches of its trace, if it is one."""
    if not isinstance(size, Size):
        return int(size)
    return None if names(size) else int(value(size, size.known.values))


def same(left: Iterable[Number], right: Iterable[Number]) -> bool:
    """Whether sizes are the same for all launches, as their texts show."""
    return [text(size) for size in left] == [text(size) for size in right]


def extreme(size: Number, *, most: bool) -> Number | None:
    """The least or the most that a size is over all indices of its loops; None if not plain."""
    if not isinstance(size, Size) or not names(size):
        return size
    if size.op == "name":
        extent = size.known.extents.get(size.name)
        if extent is None:
            return size
        largest = extreme(extent, most=True) if most else None
        return 0 if not most else None if largest is None else largest - 1
    turned = size.op == "-"
    left, right = extreme(size.left, most=most), extreme(size.right, most=most != turned)
    if left is None or right is None:
        return None
    if size.op in "+-":
        return combined(size.op, left, right)
    growing = least(size.left) is not None and least(size.right) is not None
    if size.op == "*" and growing:
        return combined("*", left, right)
    fixed = constant(size.right)
    if size.op == "//" and fixed is not None and fixed > 0:
        return combined("//", left, fixed)
    return None


def last_of(index: Size) -> Number | None:
    """The greatest that an index is, or a sum of indices of loops whose extents are sizes.

    None for other sizes, where loops are not as long each time, and where data decides.
    """
    extents = index.known.extents
    own = [name for name in names(index) if name in extents]
    if not own or any(
        name not in extents and name not in index.known.values for name in names(index)
    ):
        return None
    around = [name for one in own for name in names(extents[one])]
    if any(name not in index.known.values for name in around):
        return None
    return extreme(index, most=True)


def coefficient(size: Number, name: str) -> int | None:
    """By how much a size grows with an index: a number, or None where that is not plain.

    Affine sizes have one; the coefficients of other names do not matter.
    """
    if name not in names(size):
        return 0
    assert isinstance(size, Size)
    if size.op == "name":
        return 1
    left, right = size.left, size.right
    if size.op in "+-":
        first, second = coefficient(left, name), coefficient(right, name)
        if first is None or second is None:
            return None
        return first + second if size.op == "+" else first - second
    if size.op == "*":
        for factor, other in ((left, right), (right, left)):
            number = constant(factor)
            if number is not None:
                inner = coefficient(other, name)
                return None if inner is None else number * inner
    return None
