"""Axon's source in one canonical layout."""

from __future__ import annotations

from tawa.axon.typing import syntax as x
from tawa.functional import syntax as s
from tawa.functional.format import ATOM, Formatter, literal

DIM_LEVELS = {"+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "%": 2}


class AxonFormatter(Formatter):
    """Lays out Axon's own syntax too."""

    def static_parameters(self, definition: s.Definition) -> str:
        """`{h, d = 64}`."""
        if not isinstance(definition, x.StaticDefinition):
            return ""
        return self._statics(definition.statics)

    def _statics(self, parameters: tuple[x.StaticParameter, ...]) -> str:
        shown: list[str] = []
        for parameter in parameters:
            text = f"..{parameter.name}" if parameter.is_shape else parameter.name
            if parameter.default is not None:
                text += f" = {self.dim(parameter.default)}"
            shown.append(text)
        return "{" + ", ".join(shown) + "}"

    def signature(self, signature: s.Signature) -> str:
        """`val name{axis = -1} : type where conditions`."""
        text = super().signature(signature)
        if not isinstance(signature, x.StaticSignature):
            return text
        name = f"val {self.name(signature.name)}"
        return name + self._statics(signature.statics) + text.removeprefix(name)

    def condition(self, condition: s.Condition) -> str:
        """A condition on sizes."""
        match condition:
            case x.DimCondition(left, relation, right):
                return f"{self.dim(left)} {relation} {self.dim(right)}"
            case x.PositionCondition(axis, before, after):
                return f"{self.dim(axis)} splits ..{before} ..{after}"
            case x.ProductCondition(result, left, right):
                return f"..{result} = ..{left} @ ..{right}"
            case _:
                return super().condition(condition)

    def expression_extension(self, expression: s.Expression) -> tuple[str, int]:
        """`function{arguments}`."""
        if not isinstance(expression, x.StaticApply):
            return super().expression_extension(expression)
        shown = [
            (f"{a.name} = " if a.name else "") + self._static(a.value) for a in expression.arguments
        ]
        return f"{expression.function.name}{{{', '.join(shown)}}}", ATOM

    def _static(self, value: s.Node) -> str:
        match value:
            case x.ShapeSyntax(items):
                return f"[{', '.join(self.type_argument(item) for item in items)}]"
            case x.StringSyntax(text):
                return literal(text)
            case _:
                return self.type_argument(value)

    def type_argument(self, argument: s.Node) -> str:
        """A size or `..s`."""
        if isinstance(argument, x.Spread):
            return " & ".join(f"..{name}" for name in argument.names)
        if isinstance(argument, x.DimSyntax):
            return self.dim(argument)
        return super().type_argument(argument)

    def dim(self, dim: x.DimSyntax, level: int = 0) -> str:
        """A size."""
        match dim:
            case x.DimNumber(value):
                return str(value)
            case x.DimName(name, True):
                return f"?{name}"
            case x.DimName(name):
                return name
            case x.DimWildcard():
                return "_"
            case x.DimCall(function, arguments):
                return f"{function}({', '.join(self.dim(a) for a in arguments)})"
            case x.DimMeasure(function, shape):
                return f"{function}({self.type_argument(shape)})"
            case x.DimOperation(x.DimNumber(0), "-", right):
                return f"-{self.dim(right, 3)}"
            case x.DimOperation(left, operator, right):
                own = DIM_LEVELS[operator]
                space = " " if own == 1 else ""
                text = f"{self.dim(left, own)}{space}{operator}{space}{self.dim(right, own + 1)}"
                return f"({text})" if own < level else text
            case _:
                raise TypeError(f"no layout for {type(dim).__name__}")


def format_source(text: str, file: str = "<string>") -> str:
    """Axon source in canonical layout. Raises ProgramSyntaxError."""
    from tawa.axon.typing.language import axon

    return AxonFormatter(axon().parse(text, file)).module()
