"""The pattern languages of `einsum` and `rearrange`: each pattern is read as a signature.

`einsum{"..b i, i h -> ..b h"}` has the type `t[..b, i] -> t[i, h] -> t[..b, h]`, and
`rearrange{"..b (h d) -> h ..b d"}` has `t[..b, h*d] -> t[h, ..b, d]`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.products import times
from tawa.axon.sizes.shapes import Item, Shape, tensor
from tawa.functional.terms import Origin, Scheme, Variable, arrows

TOKEN = re.compile(r"\s*(\(|\)|\.\.\.|\.\.[A-Za-z_]\w*|[A-Za-z_]\w*|\d+|.)")
Group = tuple[str, ...]


class PatternError(Exception):
    """A pattern is not one."""


@dataclass(frozen=True)
class Pattern:
    """`inputs -> output`: each a list of groups of axis names; `..b` names several axes."""

    inputs: tuple[tuple[Group, ...], ...]
    output: tuple[Group, ...]

    def names(self) -> dict[str, None]:
        """All names, in order."""
        sides = (*self.inputs, self.output)
        return {name: None for side in sides for group in side for name in group}


def parse_pattern(text: str) -> Pattern:
    """Read a pattern. Raises PatternError."""
    if text.count("->") != 1:
        raise PatternError("a pattern has one `->`")
    left, right = text.split("->")
    inputs = tuple(_side(part) for part in left.split(","))
    output = _side(right)
    known = {name for side in inputs for group in side for name in group}
    for group in output:
        for name in group:
            if name not in known and not name.isdigit():
                raise PatternError(f"`{name}` is not in an input")
    flat = [name for group in output for name in group if not name.isdigit()]
    if len(set(flat)) != len(flat):
        raise PatternError("a name stands twice in the output")
    return Pattern(inputs, output)


def _side(text: str) -> tuple[Group, ...]:
    groups: list[Group] = []
    inner: list[str] | None = None
    for token in TOKEN.findall(text.rstrip()):
        if token == "(":
            if inner is not None:
                raise PatternError("groups are not nested")
            inner = []
        elif token == ")":
            if inner is None:
                raise PatternError("`)` without `(`")
            groups.append(tuple(inner))
            inner = None
        elif re.fullmatch(r"\.\.\.|\.\.\w+|\w+", token):
            name = "..." if token == "..." else token
            if inner is None:
                groups.append((name,))
            else:
                inner.append(name)
        else:
            raise PatternError(f"unexpected `{token}`")
    if inner is not None:
        raise PatternError("`(` without `)`")
    return tuple(groups)


def pattern_scheme(pattern: Pattern, origin: Origin) -> tuple[Scheme, dict[str, Variable]]:
    """The type of the operation that a pattern describes, and the variables of its names."""
    variables: dict[str, Variable] = {}
    for name in pattern.names():
        if not name.isdigit():
            hint = name.lstrip(".") or None
            variables[name] = Variable("shape" if name.startswith("..") else "dim", hint)
    element = Variable("element", "t")

    def side(groups: tuple[Group, ...]) -> Shape:
        return Shape(tuple(item(group) for group in groups))

    def item(group: Group) -> Item:
        if len(group) == 1 and group[0].startswith(".."):
            return variables[group[0]]
        return times(
            int(n) if n.isdigit() else Shape((variables[n],)).size() if n.startswith("..")
            else Dim.of(variables[n])
            for n in group
        )  # fmt: skip

    inputs = [tensor(element, side(groups)) for groups in pattern.inputs]
    type_ = arrows(list(inputs), tensor(element, side(pattern.output)))
    return Scheme((element, *variables.values()), (), type_), variables
