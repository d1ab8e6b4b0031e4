"""Products of named sizes say how an axis is laid out: the first factor is the outermost.

`t[b, h*k]` is an axis of `h` groups of `k` numbers. A pattern that takes it apart as `(k h)` has
the right sizes and the wrong numbers, which nothing else would notice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.patterns import Group, Pattern
from tawa.axon.sizes.solver import AxonSolver
from tawa.axon.typing import syntax as x
from tawa.axon.typing.errors import OtherLayout
from tawa.base.source import Span
from tawa.functional.terms import Variable

Factors = list["Counter[Variable]"]
"""The variables in each factor of a product."""


@dataclass(frozen=True)
class Written:
    """A product in an annotation, and its factors, outermost first."""

    syntax: x.DimSyntax
    factors: tuple[Dim, ...]


@dataclass(frozen=True)
class Taken:
    """A group of names in a pattern, the size of each, and the sizes of the pattern's groups."""

    group: Group
    sizes: tuple[Dim, ...]
    span: Span
    beside: list[tuple[Dim, ...]]


@dataclass
class Layouts:
    """The products that a definition writes, and the groups of its patterns."""

    written: list[Written] = field(default_factory=list[Written])
    taken: list[Taken] = field(default_factory=list[Taken])

    def write(self, syntax: x.DimSyntax, read: Callable[[x.DimSyntax], Dim]) -> None:
        """Remember a product of an annotation; one with flexible names says nothing of an order."""
        factors = list(_factors_of(syntax))
        if len(factors) > 1 and all(_is_plain(factor) for factor in factors):
            self.written.append(Written(syntax, tuple(map(read, factors))))

    def take(self, pattern: Pattern, sizes: dict[str, Variable], span: Span) -> None:
        """Remember the groups of a pattern."""
        beside: list[tuple[Dim, ...]] = []
        for group in (group for side in (*pattern.inputs, pattern.output) for group in side):
            names = [name for name in group if name in sizes]
            if len(names) > 1 and all(sizes[name].kind == "dim" for name in names):
                beside.append(tuple(Dim.of(sizes[name]) for name in names))
                self.taken.append(Taken(group, beside[-1], span, beside))

    def check(self, solver: AxonSolver) -> None:
        """Raise OtherLayout for a group in another order than all products of its factors.

        A pattern with a group in either order changes the one into the other.
        """
        for taken in self.taken:
            group = _factors(solver, taken.sizes)
            if group is None:
                continue
            written = [(w, _factors(solver, w.factors)) for w in self.written]
            same = [(w, f) for w, f in written if f and _ends(f)[-1] == _ends(group)[-1]]
            groups = [_factors(solver, sizes) for sizes in taken.beside]
            if same and not any(_is_finer(f, g) for _, f in same for g in groups if g):
                raise _error(taken, same[0][0])


def _factors(solver: AxonSolver, sizes: Iterable[Dim]) -> Factors | None:
    """The variables of each factor; None if one is no product of variables and a number."""
    found: Factors = []
    for size in sizes:
        terms = solver.dim(size).terms
        factors = terms[0][0] if len(terms) == 1 else None
        if factors is None or not all(isinstance(factor, Variable) for factor, _ in factors):
            return None
        found.append(Counter({f: n for f, n in factors if isinstance(f, Variable)}))
    return found


def _ends(factors: Factors) -> list[Counter[Variable]]:
    """What is multiplied up to the end of each factor; of none, nothing."""
    ends, before = [Counter[Variable]()], Counter[Variable]()
    for factor in factors:
        before = before + factor
        ends.append(before)
    return ends


def _is_finer(written: Factors, group: Factors) -> bool:
    """Whether each name of a group ends where a factor does that is written."""
    ends = _ends(written)
    return all(end in ends for end in _ends(group))


def _is_plain(syntax: x.DimSyntax) -> bool:
    return isinstance(syntax, x.DimNumber) or (
        isinstance(syntax, x.DimName) and not syntax.is_flexible
    )


def _factors_of(syntax: x.DimSyntax) -> Iterator[x.DimSyntax]:
    """The factors of a product as it is written."""
    if isinstance(syntax, x.DimOperation) and syntax.operator == "*":
        yield from _factors_of(syntax.left)
        yield from _factors_of(syntax.right)
    else:
        yield syntax


def _error(taken: Taken, written: Written) -> OtherLayout:
    group = f"({' '.join(taken.group)})"
    product = "*".join(_text(factor) for factor in _factors_of(written.syntax))
    return OtherLayout(
        f"`{group}` is not how `{product}` is laid out",
        span=taken.span,
        expected="factors in the order in which the annotation has them, the outermost first",
        hint=f"change the order of {group}, or of `{product}`",
    ).with_note(f"`{product}` is written here", written.syntax.span)


def _text(factor: x.DimSyntax) -> str:
    return factor.name if isinstance(factor, x.DimName) else str(getattr(factor, "value", ""))
