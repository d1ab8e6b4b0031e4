"""The variables of a function that is being compiled, and where each got its value."""

from __future__ import annotations

from dataclasses import dataclass

from tawa.base.spans import Span
from tawa.frontend.values.values import Undefined, Value


@dataclass(frozen=True)
class Binding:
    """The value of a name, the source range that gave it, and whether it is declared constant."""

    value: Value
    span: Span | None
    constant: bool = False


class Scope:
    """Names of one function call; copies are taken for the sides of an `if` and for loops."""

    def __init__(self, bindings: dict[str, Binding] | None = None) -> None:
        self.bindings = bindings if bindings is not None else {}

    def copy(self) -> Scope:
        """A scope with the same names, to be changed separately."""
        return Scope(dict(self.bindings))

    def get(self, name: str) -> Binding | None:
        """The binding of a name; None if it was never assigned."""
        return self.bindings.get(name)

    def is_defined(self, name: str) -> bool:
        """Whether the name has a value."""
        binding = self.bindings.get(name)
        return binding is not None and not isinstance(binding.value, Undefined)

    def set(self, name: str, value: Value, span: Span | None, *, constant: bool = False) -> None:
        """Give a name a value."""
        self.bindings[name] = Binding(value, span, constant)

    def undefine(self, name: str, reason: str, span: Span | None) -> None:
        """Take a name's value away; its use is an error that says `reason`."""
        self.bindings[name] = Binding(Undefined(reason, span), span)
