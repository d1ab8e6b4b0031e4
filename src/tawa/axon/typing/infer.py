"""Axon's inference: Hindley-Milner with sizes, shapes and static arguments.

The type of a function with static parameters is the constructor `{axis=-1,k}` applied to their
values and to the type of the function itself. A use of such a name is given its static arguments
at once: they are never passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tawa.axon.sizes.choices import largest, smallest
from tawa.axon.sizes.constraints import (
    AtLeast,
    Broadcast,
    Divides,
    MatrixProduct,
    Position,
    Stacked,
)
from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.measures import Rank, Size
from tawa.axon.sizes.patterns import PatternError, parse_pattern, pattern_scheme
from tawa.axon.sizes.shapes import Item, Shape, tensor
from tawa.axon.sizes.show import AxonPrinter
from tawa.axon.sizes.solver import AxonSolver
from tawa.axon.typing import syntax as x
from tawa.axon.typing.blame import shape_error
from tawa.axon.typing.errors import BadPattern, StaticArgumentError
from tawa.axon.typing.layout import Layouts
from tawa.axon.typing.rigid import identified, identified_error, stretched, stretched_error
from tawa.axon.typing.slips import KEPT
from tawa.base.source import Span
from tawa.functional import syntax as s
from tawa.functional.errors import UnknownType
from tawa.functional.infer import Inference
from tawa.functional.solver import Clash
from tawa.functional.terms import Among, Con, Instance, Origin, Scheme, Term, Variable

FLOATS = ("f32", "f16", "bf16", "f64")
INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
ELEMENTS = (*FLOATS, *INTEGERS, "bool")
CLASSES = {"num": FLOATS + INTEGERS, "float": FLOATS, "int": INTEGERS}
BOOLEAN = tensor(Con("bool"), Shape(()))
PATTERNED = ("einsum", "rearrange")
KINDS = {
    "type": "a type", "element": "an element type", "dim": "a size", "integer": "a size",
    "count": "a size", "shape": "a shape",
}  # fmt: skip
"""What variables of a kind stand for, in messages."""

FOREIGN = {
    **dict.fromkeys(("float", "float32", "fp32", "single", "real"), "f32"),
    **dict.fromkeys(("half", "float16", "fp16"), "f16"),
    **dict.fromkeys(("double", "float64", "fp64"), "f64"),
    **dict.fromkeys(("bfloat16", "bfloat"), "bf16"),
    **dict.fromkeys(("int", "int64", "long", "integer"), "i64"),
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("boolean", "bool_"), "bool"),
    "tensor": "f32",
}
"""Other languages' names of element types, which would otherwise stand for any type."""


def static_constructor(parameters: tuple[x.StaticParameter, ...]) -> str:
    """The name of the constructor for functions with these static parameters."""
    shown: list[str] = []
    for parameter in parameters:
        text = f"..{parameter.name}" if parameter.is_shape else parameter.name
        if parameter.default is not None:
            text += f"={default_number(parameter.default)}"
        shown.append(text)
    return "{" + ",".join(shown) + "}"


def default_number(syntax: x.DimSyntax) -> int:
    """The default of a static parameter. Raises StaticArgumentError unless it is a number."""
    match syntax:
        case x.DimNumber(value):
            return value
        case x.DimOperation(x.DimNumber(0), "-", x.DimNumber(value)):
            return -value
        case _:
            raise StaticArgumentError("a default is a number", span=syntax.span)


class AxonInference(Inference):
    """The inference of one Axon module."""

    printer = AxonPrinter
    boolean = BOOLEAN
    attributes = {
        "T": "write `transpose {}`",
        "shape": "name its sizes, `({}: f32[b, n])`; `dim{{b}}` is a size as a number",
        "size": "name its sizes, `({}: f32[b, n])`; `dim{{b}}` is a size as a number",
        "dtype": "name its element type, `({}: t[b, n])`",
    }
    solver: AxonSolver

    def __init__(self, solver: AxonSolver, environment: dict[str, Scheme]) -> None:
        super().__init__(solver, environment)
        self.solver = solver
        self.statics: dict[s.Name, dict[str, Term]] = {}
        self.patterns: dict[s.Name, str] = {}
        self._in_signature = False
        self._reading: Span | None = None
        self._sizes: dict[Variable, Span] = {}
        self._flexible: set[Variable] = set()
        self._layouts = Layouts()
        solver.explain = self.clash_error
        self.named_sizes: dict[str, dict[str, Variable]] = {}
        """The sizes that each definition names in its annotations."""

    # Declarations.

    def module(self, module: s.Module) -> dict[str, Scheme]:
        """The schemes of what a module defines. Raises a TawaError."""
        schemes = super().module(module)
        for constraint in self.solver.waiting():
            if self.solver.default(constraint):
                self.solver.settle()
        for name, scheme in schemes.items():  # now the types of values' numbers are known
            schemes[name] = replace(scheme, type=self.solver.resolve(scheme.type))
        return schemes

    def _definition_group(self, group: Sequence[s.Definition]) -> None:
        self._layouts = Layouts()
        super()._definition_group(group)

    def definition(self, definition: s.Definition) -> Term:
        """The type of a definition, with its static parameters."""
        if isinstance(definition, x.StaticDefinition):
            statics = self._static_variables(definition.statics)
            body = super().definition(definition)
            found: Term = Con(static_constructor(definition.statics), (*statics, body))
        else:
            found = super().definition(definition)
        sizes = {name: v for name, v in self._named.items() if v.kind == "dim"}
        self.named_sizes[definition.name] = sizes
        return found

    def signature_type(self, signature: s.Signature) -> Term:
        """The type of a built-in, with its static parameters."""
        self._in_signature = True
        try:
            if not isinstance(signature, x.StaticSignature):
                return super().signature_type(signature)
            statics = self._static_variables(signature.statics)
            found = super().signature_type(signature)
            return Con(static_constructor(signature.statics), (*statics, found))
        finally:
            self._in_signature = False

    def _static_variables(self, parameters: tuple[x.StaticParameter, ...]) -> list[Term]:
        return [
            self.named(p.name, "shape") if p.is_shape else Dim.of(self.named(p.name, "integer"))
            for p in parameters
        ]

    def condition(self, condition: s.Condition) -> None:
        """Demand what a signature's `where` says."""
        origin = Origin(condition.span, "condition")
        match condition:
            case s.ClassCondition(name, s.NamedType(element, None)) if name in CLASSES:
                term = self.named(element, "element")
                self.solver.require(Among(term, name, CLASSES[name], origin))
            case x.DimCondition(left, "=", right):
                self.agree(self.read_dim(left), self.read_dim(right), condition.span, "condition")
            case x.DimCondition(left, ">=", right):
                difference = self.read_dim(left) - self.read_dim(right)
                self.solver.require(AtLeast(difference, 0, origin))
            case x.DimCondition(left, "divides", right):
                one, other = self.read_dim(left), self.read_dim(right)
                self.solver.require(Divides(one, other, origin))
            case x.PositionCondition(axis, before, after):
                one, other = (self._shape_named(name) for name in (before, after))
                self.solver.require(Position(self.read_dim(axis), one, other, origin))
            case x.ProductCondition(result, left, right):
                one, other, found = (self._shape_named(name) for name in (left, right, result))
                self.solver.require(MatrixProduct(one, other, found, origin))
            case x.StackCondition(whole, count, part):
                number = Dim.of(self.named(count, self.solver.size_kind))
                trees = (self.named(whole), self.named(part))
                self.solver.require(Stacked(trees[0], number, trees[1], origin))
            case _:
                super().condition(condition)

    # Types.

    def named_type(self, syntax: s.NamedType) -> Term:
        """A tensor type: `f32[..s, n]`, `t[n]`, or `f32` for a scalar."""
        self._reading = syntax.span
        if syntax.arguments is None and syntax.name not in ELEMENTS:
            hint = f"write `{syntax.name}[]` for a scalar of any element type"
            raise UnknownType(f"there is no type `{syntax.name}`", span=syntax.span, hint=hint)
        known = syntax.name in ELEMENTS
        if syntax.name in FOREIGN:
            raise UnknownType(
                f"there is no element type `{syntax.name}`", span=syntax.span,
                expected=", ".join(ELEMENTS), hint=f"did you mean `{FOREIGN[syntax.name]}`?",
            )  # fmt: skip
        if not known and not syntax.name.islower():
            raise UnknownType(f"there is no element type `{syntax.name}`", span=syntax.span)
        element = Con(syntax.name) if known else self.named(syntax.name, "element")
        return tensor(element, self.read_shape(syntax.arguments or ()))

    def read_shape(self, items: tuple[s.Node, ...]) -> Shape:
        """The shape that sizes and spreads mean."""
        return Shape(tuple(self._item(item) for item in items))

    def _item(self, item: s.Node) -> Item:
        self._reading = item.span
        if isinstance(item, x.DimSyntax):
            self._layouts.write(item, self.read_dim)
            return self._positive(self.read_dim(item), item)
        if isinstance(item, x.Spread):
            return self._spread(item)
        raise UnknownType("this is no size", span=item.span)

    def _positive(self, dim: Dim, syntax: x.DimSyntax) -> Dim:
        """A static number that a program uses as a size is at least 1.

        The built-ins' signatures say themselves what they demand.
        """
        variable = dim.sole_variable
        if variable is not None and variable.kind == "integer" and not self._in_signature:
            self.solver.require(AtLeast(dim, 1, Origin(syntax.span, "size")))
        return dim

    def _spread(self, spread: x.Spread) -> Variable:
        found = self.named(spread.names[0], "shape")
        for name in spread.names[1:]:
            result = self.solver.fresh("shape")
            self.solver.levels[result] = self.solver.levels[found]
            origin = Origin(spread.span, "broadcast")
            other = self._shape_named(name)
            self.solver.require(Broadcast(Shape((found,)), other, Shape((result,)), origin))
            found = result
        return found

    def _shape_named(self, name: str) -> Shape:
        return Shape((self.named(name, "shape"),))

    def read_dim(self, syntax: x.DimSyntax) -> Dim:
        """The size that a piece of syntax means."""
        match syntax:
            case x.DimNumber(value):
                return Dim.of(value)
            case x.DimName(name, is_flexible):
                variable = self.named(name, self.solver.size_kind)
                if variable.kind == "dim" and not self._in_signature:
                    self._sizes.setdefault(variable, syntax.span)
                    self._flexible.update([variable] if is_flexible else ())
                return Dim.of(variable)
            case x.DimWildcard():
                return self.solver.fresh_size()
            case x.DimOperation():
                return self._dim_operation(syntax)
            case x.DimCall(function, arguments) if function in ("max", "min"):
                choose = largest if function == "max" else smallest
                return choose([self.read_dim(argument) for argument in arguments])
            case x.DimMeasure(function, x.Spread((name,))) if function in ("size", "rank"):
                variable = self.named(name, "shape")
                return Dim.of(Size(variable) if function == "size" else Rank(variable))
            case _:
                raise UnknownType(
                    "there is no such function of sizes", span=syntax.span,
                    expected="`max`, `min`, `size(..s)` or `rank(..s)`",
                )  # fmt: skip

    def _dim_operation(self, syntax: x.DimOperation) -> Dim:
        left, right = self.read_dim(syntax.left), self.read_dim(syntax.right)
        if syntax.operator in ("/", "//", "%") and right.constant == 0:
            raise UnknownType("a size is divided by 0", span=syntax.span)
        operations: dict[str, Callable[[], Dim]] = {
            "+": lambda: left + right,
            "-": lambda: left - right,
            "*": lambda: left * right,
            "//": lambda: left // right,
            "%": lambda: left % right,
            "/": lambda: self._exact(left, right, syntax),
        }
        return operations[syntax.operator]()

    def _exact(self, left: Dim, right: Dim, syntax: x.DimOperation) -> Dim:
        quotient = self.solver.fresh_size()
        self.agree(left, right * quotient, syntax.span, "division without a rest")
        return quotient

    def named(self, name: str, kind: str = "type") -> Variable:
        """The variable of a name, which stands for one kind of thing in a definition."""
        found = super().named(name, kind)
        if KINDS[found.kind] != KINDS[kind]:
            raise UnknownType(
                f"`{name}` is {KINDS[found.kind]} and {KINDS[kind]} here", span=self._reading,
                hint="one name stands for one thing in a definition: choose another",
            )  # fmt: skip
        return found

    def check_names(self, names: dict[str, Variable]) -> None:
        """Refuse named sizes that turned out to be a number, or what other names say."""
        self._layouts.check(self.solver)
        free = self._flexible | self.solver.restated
        rigid = {n: v for n, v in names.items() if v in self._sizes and v not in free}
        found = identified(self.solver, rigid)
        if found is not None:
            raise identified_error(found, self.solver, rigid, self._sizes)
        wide = stretched(self.solver, rigid)
        if wide is not None:
            raise stretched_error(wide, self._sizes[rigid[wide.name]])

    # Expressions.

    def generalises(self, value: s.Expression) -> bool:
        """Numbers are general too: `def half = 0.5` is of any floating-point type."""
        return isinstance(value, s.Literal) or super().generalises(value)

    def literal(self, literal: s.Literal) -> Term:
        """Numbers are scalars of any fitting element type."""
        if isinstance(literal.value, bool):
            return BOOLEAN
        if isinstance(literal.value, str):
            raise UnknownType("Axon has no strings", span=literal.span)
        label = "float" if isinstance(literal.value, float) else "num"
        element = self.solver.fresh("element")
        origin = Origin(literal.span, "number")
        self.solver.require(Among(element, label, CLASSES[label], origin))
        return tensor(element, Shape(()))

    def extension(self, expression: s.Expression) -> Term:
        """Static application, `[a, b]` (a stack of tensors) and `x.[i]` (a choice of slices)."""
        match expression:
            case x.StaticApply(function, arguments):
                found = self._static_apply(function, arguments)
                self.types[function] = found
                return found
            case s.Vector(items):
                element, of = self.solver.fresh("element"), self.solver.fresh_shape()
                for item in items:
                    part = tensor(element, of)
                    self.agree(part, self.infer(item), item.span, "item of the stack")
                return tensor(element, Shape((Dim.of(len(items)), *of.items)))
            case s.Index(subject, (index,)):
                take = s.Name("take", span=expression.span)
                return self.call(self.name(take), "`.[ ]`", (subject, index))
            case _:
                return super().extension(expression)

    def called(self, function: s.Expression) -> str:
        """What a function is called in messages."""
        return super().called(
            function.function if isinstance(function, x.StaticApply) else function
        )

    def name(self, name: s.Name) -> Term:
        """The type of a use of a name, with the defaults of its static parameters."""
        return self._static_apply(name, ())

    def _static_apply(self, name: s.Name, arguments: tuple[x.Static, ...]) -> Term:
        if name.name in PATTERNED:
            return self._patterned(name, arguments)
        if name.name == "dim":
            return self._dim_value(name, arguments)
        if name.name == "cast":
            return self._cast(name, arguments)
        written = super().name(name)
        found = self.solver.prune(written)
        if not (isinstance(found, Con) and found.name.startswith("{")):
            if arguments:
                raise StaticArgumentError(
                    f"`{name.name}` takes no static arguments", span=arguments[0].span
                )
            return written
        parameters = found.name[1:-1].split(",")
        *values, result = found.arguments
        self._give(name, parameters, values, arguments)
        return result

    def _give(
        self, name: s.Name, parameters: list[str], values: list[Term],
        arguments: tuple[x.Static, ...],
    ) -> None:  # fmt: skip
        """Set the static parameters of a function to what is given, else to their defaults."""
        plain = [parameter.partition("=")[0].lstrip(".") for parameter in parameters]
        given: dict[str, x.Static] = {}
        for argument in arguments:
            free = [parameter for parameter in plain if parameter not in given]
            key = argument.name or (free[0] if free else None)
            if key is None or key not in plain or key in given:
                raise StaticArgumentError(
                    f"`{name.name}` has no such static parameter", span=argument.span,
                    expected=", ".join(f"`{parameter}`" for parameter in plain),
                    found=f"`{key}`" if key else "one too many",
                    hint=f"a shape stands in brackets: `{name.name}{{[a, b]}}`"
                    if parameters[0].startswith("..")
                    else KEPT if (key or "").startswith("keepdim") else None,
                )  # fmt: skip
            given[key] = argument
        self.statics[name] = dict(zip(plain, values, strict=True))
        for parameter, key, value in zip(parameters, plain, values, strict=True):
            default = parameter.partition("=")[2]
            if key in given:
                term = self._static_value(given[key], parameter.startswith(".."))
                self.agree(value, term, given[key].span, f"static argument of `{name.name}`")
            elif default:
                what = f"the default `{parameter}` of `{name.name}`"
                self.agree(value, Dim.of(int(default)), name.span, what)

    def _static_value(self, argument: x.Static, is_shape: bool) -> Term:
        if is_shape and isinstance(argument.value, x.ShapeSyntax):
            return self.read_shape(argument.value.items)
        if not is_shape and isinstance(argument.value, x.DimSyntax):
            return self.read_dim(argument.value)
        expected = "a shape, `[..s, n]`" if is_shape else "a number"
        raise StaticArgumentError("a static argument of the wrong kind", span=argument.span,
                                  expected=expected)  # fmt: skip

    def _patterned(self, name: s.Name, arguments: tuple[x.Static, ...]) -> Term:
        first = arguments[0].value if arguments else None
        if not isinstance(first, x.StringSyntax):
            raise BadPattern(f"`{name.name}` needs a pattern", span=name.span)
        try:
            pattern = parse_pattern(first.value)
            if name.name == "rearrange" and len(pattern.inputs) != 1:
                raise PatternError("`rearrange` has one input")
        except PatternError as error:
            raise BadPattern(str(error), span=first.span) from None
        scheme, variables = pattern_scheme(pattern, Origin(first.span, f"`{name.name}`"))
        origin = Origin(name.span, f"`{name.name}`")
        instance = self.solver.instantiate(scheme, origin)
        self.instances[name] = instance
        self.patterns[name] = first.value
        sizes = {key: instance.mapping[v] for key, v in variables.items()}
        self._layouts.take(pattern, sizes, first.span)
        self.statics[name] = {**sizes}
        for argument in arguments[1:]:
            if argument.name not in variables:
                raise BadPattern("the pattern has no such name", span=argument.span)
            variable = instance.mapping[variables[argument.name]]
            value = self._static_value(argument, variable.kind == "shape")
            self.agree(variable, value, argument.span, f"size of `{argument.name}`")
        return instance.type

    def _dim_value(self, name: s.Name, arguments: tuple[x.Static, ...]) -> Term:
        if len(arguments) != 1:
            raise StaticArgumentError("`dim{n}` takes one size", span=name.span)
        value = self._static_value(arguments[0], False)
        element = self.solver.fresh("element")
        origin = Origin(name.span, "number")
        self.solver.require(Among(element, "num", CLASSES["num"], origin))
        self.statics[name] = {"value": value}
        type_ = tensor(element, Shape(()))
        self.instances[name] = Instance(Scheme((), (), type_), {}, type_)
        return type_

    def _cast(self, name: s.Name, arguments: tuple[x.Static, ...]) -> Term:
        to = self._element_argument(name, arguments)
        self.statics[name] = {"to": to}
        element, of = self.solver.fresh("element"), self.solver.fresh_shape()
        type_ = Con("->", (tensor(element, of), tensor(to, of)))
        self.instances[name] = Instance(Scheme((), (), type_), {}, type_)
        return type_

    def _element_argument(self, name: s.Name, arguments: tuple[x.Static, ...]) -> Term:
        """An element type, or the name that an annotation gave one."""
        value = arguments[0].value if len(arguments) == 1 else None
        if isinstance(value, x.DimName) and value.name in ELEMENTS:
            return Con(value.name)
        own = self._named.get(value.name) if isinstance(value, x.DimName) else None
        if own is not None and own.kind == "element":
            return own
        hint = None if own is None else f"this is {KINDS[own.kind]} here"
        if isinstance(value, x.DimName) and own is None:
            like = FOREIGN.get(value.name)
            hint = f"did you mean `{like}`?" if like else (
                f"to take that of a parameter, name it: `(x: {value.name}[..s])`"
            )  # fmt: skip
        raise StaticArgumentError(
            "`cast{f32}` takes an element type", span=arguments[0].span if arguments else name.span,
            expected=", ".join(ELEMENTS), hint=hint,
        )  # fmt: skip

    # Errors.

    def clash_error(self, clash: Clash) -> Exception:
        """The error that tells the user of a clash."""
        printer = self.printer()
        for variable in self._named.values():  # the program's own names go first
            if variable not in self.solver.bindings:
                printer.name(variable)
        return shape_error(clash, self.solver, printer)
