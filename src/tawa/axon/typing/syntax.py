"""The syntax that Axon adds: sizes, shapes, static arguments, conditions."""

from __future__ import annotations

from dataclasses import dataclass

from tawa.functional.syntax import Condition, Definition, Expression, Name, Node, Signature


class DimSyntax(Node):
    """A size as it is written."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class DimNumber(DimSyntax):
    """A number."""

    value: int


@dataclass(frozen=True, slots=True, eq=False)
class DimName(DimSyntax):
    """A name for a size; `?n` is flexible: it may turn out to be a number or another size."""

    name: str
    is_flexible: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class DimWildcard(DimSyntax):
    """`_`: a size to be inferred."""


@dataclass(frozen=True, slots=True, eq=False)
class DimOperation(DimSyntax):
    """`left operator right`."""

    left: DimSyntax
    operator: str
    right: DimSyntax


@dataclass(frozen=True, slots=True, eq=False)
class DimCall(DimSyntax):
    """`max(a, b)` or `min(a, b)`."""

    function: str
    arguments: tuple[DimSyntax, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Spread(Node):
    """`..s`, or `..s & ..t`: the shape that both broadcast to."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class DimMeasure(DimSyntax):
    """`size(..s)` or `rank(..s)`."""

    function: str
    shape: Spread


@dataclass(frozen=True, slots=True, eq=False)
class ShapeSyntax(Node):
    """`[..s, n]`."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class StringSyntax(Node):
    """A pattern of `einsum` or `rearrange`."""

    value: str


@dataclass(frozen=True, slots=True, eq=False)
class Static(Node):
    """A static argument, with its name if it is given by name."""

    name: str | None
    value: Node


@dataclass(frozen=True, slots=True, eq=False)
class StaticApply(Expression):
    """`function{arguments}`."""

    function: Name
    arguments: tuple[Static, ...]


@dataclass(frozen=True, slots=True, eq=False)
class StaticParameter(Node):
    """`name`, `name = default`, or `..name` for a shape."""

    name: str
    default: DimSyntax | None
    is_shape: bool


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StaticDefinition(Definition):
    """A definition with static parameters."""

    statics: tuple[StaticParameter, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StaticSignature(Signature):
    """A signature with static parameters."""

    statics: tuple[StaticParameter, ...]


@dataclass(frozen=True, slots=True, eq=False)
class DimCondition(Condition):
    """`left = right`, `left >= right` or `left divides right`."""

    left: DimSyntax
    relation: str
    right: DimSyntax


@dataclass(frozen=True, slots=True, eq=False)
class PositionCondition(Condition):
    """`axis splits ..before ..after`."""

    axis: DimSyntax
    before: str
    after: str


@dataclass(frozen=True, slots=True, eq=False)
class ProductCondition(Condition):
    """`..result = ..left @ ..right`."""

    result: str
    left: str
    right: str


@dataclass(frozen=True, slots=True, eq=False)
class StackCondition(Condition):
    """`'whole stacks count 'part`."""

    whole: str
    count: str
    part: str
