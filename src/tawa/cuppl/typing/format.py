"""CuPPL's source in one canonical layout."""

from __future__ import annotations

from tawa.cuppl.typing.language import Input, Sequence
from tawa.functional import syntax as s
from tawa.functional.format import PIPE, STEP, WIDTH, Formatter

__all__ = ["CupplFormatter"]


class CupplFormatter(Formatter):
    """Lays out inputs and sequences too."""

    def signature(self, signature: s.Signature) -> str:
        """`input name : type`."""
        text = super().signature(signature)
        return f"input{text.removeprefix('val')}" if isinstance(signature, Input) else text

    def _let(self, let: s.Let, indent: str) -> list[str]:
        if not isinstance(let, Sequence):
            return super()._let(let, indent)
        first = let.bindings[0].value
        lines = self._taken(first.span.line, indent)
        flat = self.flat(first, PIPE)
        if len(indent) + len(flat) < WIDTH and "\n" not in flat:
            text = flat
        elif isinstance(first, s.If | s.Match | s.Lambda | s.Let):
            text = f"(\n{self.block(first, indent + STEP)}\n{indent})"
        else:
            text = self._broken(first, indent)
        return [*lines, f"{indent}{text};"]

    def _flat_open(self, expression: s.Expression) -> str:
        if not isinstance(expression, Sequence):
            return super()._flat_open(expression)
        first = expression.bindings[0].value
        return f"{self.flat(first, PIPE)}; {self.flat(expression.body, 0)}"
