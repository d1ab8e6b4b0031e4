"""Axon's types and constraints as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tawa.axon.sizes.choices import Joined, Largest
from tawa.axon.sizes.chunks import Chunk
from tawa.axon.sizes.conditional import Unless
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
from tawa.axon.sizes.dims import Dim, Floor
from tawa.axon.sizes.evident import without_evident
from tawa.axon.sizes.measures import Rank, Size
from tawa.axon.sizes.monomials import Factor, Monomial
from tawa.axon.sizes.scaled import Scaled
from tawa.axon.sizes.shapes import Shape, tensor_parts
from tawa.base.source import Span
from tawa.functional.show import TypePrinter
from tawa.functional.terms import Con, Constraint, Origin, Scheme, Term, Variable

NOWHERE = Origin(Span("<shown>", 1, 0), "shown")


def _static_sizes(type_: Term) -> Iterator[tuple[str, Variable, int]]:
    """The static numbers that are a size, or a size and a constant: name, size, constant."""
    if not isinstance(type_, Con) or not type_.name.startswith("{"):
        return
    names = type_.name[1:-1].split(",")
    seen: set[Variable] = set()
    for name, value in zip(names, type_.arguments, strict=False):
        if not isinstance(value, Dim):
            continue
        variable = value.symbols.sole_variable
        if variable is not None and variable.kind == "dim" and variable not in seen:
            seen.add(variable)
            yield name.partition("=")[0], variable, value.offset


def _is_minimum(factor: Factor) -> bool:
    """Whether a factor is shown as the minimum of what it is the maximum of, with another sign."""
    return isinstance(factor, Largest) and all(
        option.terms and option.terms[0][1] < 0 for option in factor.options
    )


def _is_negated(monomial: Monomial) -> bool:
    """Whether the factors of a product are shown with another sign."""
    return sum(power for factor, power in monomial if _is_minimum(factor)) % 2 == 1


class AxonPrinter(TypePrinter):
    """Prints `f32[..s, 2*k] -> f32[..s, k]`."""

    prefix = {"type": "'"}
    alphabets = {
        "type": "abcdefgh",
        "element": "tuvw",
        "dim": "abcdefghijklmnopqrstuvwxyz",
        "count": "abcdefghijklmnopqrstuvwxyz",
        "integer": "ijklmn",
        "shape": "srqpxyz",
    }

    def scheme(self, scheme: Scheme) -> str:
        """A type with its conditions; sizes are shown in terms of the static numbers."""
        for name, variable, offset in _static_sizes(scheme.type):
            if not offset:
                self.call(variable, name)
                continue
            number = Dim.of(Variable("integer", name))

            def put(
                v: Variable, old: Variable = variable, new: Dim = number - offset
            ) -> Term | None:
                return new if v is old else None

            least = AtLeast(number, 1 + offset, NOWHERE)
            constraints = (*(c.substitute(put, c.origin) for c in scheme.constraints), least)
            scheme = Scheme(scheme.variables, constraints, scheme.type.substitute(put))
        return super().scheme(replace(scheme, constraints=without_evident(scheme)))

    def applied(self, term: Con) -> str:
        """A tensor type, or an element type."""
        parts = tensor_parts(term)
        if parts is not None:
            element, of = parts
            return f"{self.type(element)}{self.shape(of)}"
        if term.name.startswith("{"):
            return self._static(term)
        return super().applied(term)

    def _static(self, term: Con) -> str:
        names = term.name[1:-1].split(",")
        *values, result = term.arguments
        shown: list[str] = []
        for name, value in zip(names, values, strict=True):
            plain, _, default = name.partition("=")
            text = self.term(value)
            same = text.strip("[]").lstrip(".") == plain.lstrip(".")
            shown.append(
                (plain if same else f"{plain}: {text}") + (f" = {default}" * bool(default))
            )
        return f"{{{', '.join(shown)}}} {self.type(result)}"

    def term(self, term: Term) -> str:
        """A variable, a size or a shape."""
        if isinstance(term, Dim):
            return self.dim(term)
        if isinstance(term, Shape):
            return self.shape(term)
        if isinstance(term, Variable) and term.kind == "shape":
            return f"[..{self.name(term)}]"
        return super().term(term)

    def shape(self, of: Shape) -> str:
        """`[..s, m, k]`."""
        items = (
            self.dim(item) if isinstance(item, Dim) else f"..{self.name(item)}" for item in of.items
        )
        return f"[{', '.join(items)}]"

    def dim(self, dim: Dim) -> str:
        """A polynomial, positive terms first."""
        if not dim.terms:
            return "0"
        signed = [(m, -c if _is_negated(m) else c) for m, c in dim.terms]
        ordered = sorted(signed, key=lambda term: term[1] < 0)
        text = ""
        for monomial, c in ordered:
            part = self.monomial(monomial, abs(c))
            if not text:
                text = part if c > 0 else f"-{part}"
            else:
                text += f" + {part}" if c > 0 else f" - {part}"
        return text

    def monomial(self, monomial: Monomial, coefficient: int) -> str:
        """`2*a*b*b`."""
        parts = [str(coefficient)] if coefficient != 1 or not monomial else []
        for factor, power in monomial:
            parts.extend([self.factor(factor)] * power)
        return "*".join(parts)

    def factor(self, factor: Factor) -> str:
        """A variable, a quotient, a maximum, or the size or rank of a shape."""
        match factor:
            case Variable():
                return self.name(factor)
            case Floor(numerator, denominator):
                return f"({self._side(numerator)}//{self._side(denominator)})"
            case Largest(options):
                if _is_minimum(factor):
                    return f"min({', '.join(self.dim(-option) for option in options)})"
                return f"max({', '.join(self.dim(option) for option in options)})"
            case Chunk():
                return self.dim(factor.chosen)
            case Joined(options):
                return f"({' & '.join(self.dim(option) for option in options)})"
            case Scaled(dim, scale):
                return f"floor({scale:.7g}*{self._side(dim)})"
            case Unless(dim, _, _):
                inner = dim.sole_factor
                return self.factor(inner) if isinstance(inner, Unless) else f"({self.dim(dim)})"
            case Size(variable) | Rank(variable):
                return f"{type(factor).__name__.lower()}(..{self.name(variable)})"
            case _:
                return str(factor)

    def _side(self, dim: Dim) -> str:
        text = self.dim(dim)
        simple = len(dim.terms) == 1 and sum(power for _, power in dim.terms[0][0]) <= 1
        return text if simple and "*" not in text else f"({text})"

    def constraint(self, constraint: Constraint) -> str | None:
        """What has to hold, as text."""
        match constraint:
            case Equal(left, right):
                return f"{self.dim(left)} = {self.dim(right)}"
            case SameShape(left, right):
                return f"{self.shape(left)} = {self.shape(right)}"
            case Broadcast(left, right, result):
                return f"{self.shape(result)} = {self.shape(left)} & {self.shape(right)}"
            case Compatible(left, right):
                return f"{self.dim(left)} ~ {self.dim(right)}"
            case Divides(divisor, dividend):
                return f"{self.dim(divisor)} divides {self.dim(dividend)}"
            case AtLeast(dim, least):
                return self._at_least(dim, least)
            case Position(axis, before, after):
                return f"{self.dim(axis)} splits {self.shape(before)} {self.shape(after)}"
            case MatrixProduct(left, right, result):
                return f"{self.shape(result)} = {self.shape(left)} @ {self.shape(right)}"
            case Stacked(whole, count, part):
                return f"{self.operand(whole)} stacks {self.dim(count)} {self.operand(part)}"
            case _:
                return super().constraint(constraint)

    def _at_least(self, dim: Dim, least: int) -> str:
        symbols = dim.symbols
        more = Dim(tuple((monomial, c) for monomial, c in symbols.terms if c > 0))
        less = more - symbols
        if not more.terms:
            return f"{self.dim(less)} <= {dim.offset - least}"
        goal = less + (least - dim.offset)
        return f"{self.dim(more)} >= {self.dim(goal)}"
