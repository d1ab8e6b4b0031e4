"""Axon's types and constraints as text."""

from __future__ import annotations

from tawa.axon.constraints import (
    AtLeast,
    Broadcast,
    Compatible,
    Divides,
    Equal,
    MatrixProduct,
    Position,
    SameShape,
)
from tawa.axon.dims import Dim, Factor, Floor, Largest, Monomial
from tawa.axon.measures import Rank, Size
from tawa.axon.shapes import Shape, tensor_parts
from tawa.functional.show import TypePrinter
from tawa.functional.terms import Con, Constraint, Term, Variable


class AxonPrinter(TypePrinter):
    """Prints `f32[..s, 2*k] -> f32[..s, k]`."""

    prefix = {"type": "'"}
    alphabets = {
        "type": "abcdefgh",
        "element": "tuvw",
        "dim": "abcdefghijklmnopqrstuvwxyz",
        "integer": "ijklmn",
        "shape": "srqpxyz",
    }

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
        ordered = sorted(dim.terms, key=lambda term: term[1] < 0)
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
                if all(next(iter(o.terms))[1] < 0 for o in options):
                    return f"-min({', '.join(self.dim(-option) for option in options)})"
                return f"max({', '.join(self.dim(option) for option in options)})"
            case Size(variable):
                return f"size(..{self.name(variable)})"
            case Rank(variable):
                return f"rank(..{self.name(variable)})"
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
            case _:
                return super().constraint(constraint)

    def _at_least(self, dim: Dim, least: int) -> str:
        symbols = dim - dim.offset
        more = Dim(tuple((monomial, c) for monomial, c in symbols.terms if c > 0))
        less = more - symbols
        if not more.terms:
            return f"{self.dim(less)} <= {dim.offset - least}"
        goal = less + (least - dim.offset)
        return f"{self.dim(more)} >= {self.dim(goal)}"
