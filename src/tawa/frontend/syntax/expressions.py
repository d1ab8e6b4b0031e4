"""Evaluating expressions: compile-time ones are folded, run-time ones become ops."""

from __future__ import annotations

import ast
import builtins as python
import inspect
import math
import operator
from collections.abc import Callable
from types import ModuleType
from typing import Any

from xdsl.dialects import scf
from xdsl.ir import Block, Region

from tawa import language
from tawa.base.spans import Span
from tawa.frontend.source.errors import (
    BadArgument,
    NotSupported,
    TileShapeMismatch,
    TypeMismatch,
    UndefinedName,
    UnknownAttribute,
    UnsupportedSyntax,
    UnusedResult,
)
from tawa.frontend.source.function import JITFunction, is_jit_function
from tawa.frontend.syntax.global_values import require_usable
from tawa.frontend.values import arithmetic, conversion, foreign
from tawa.frontend.values.advice import (
    NOT_YET,
    SYNTAX,
    WORDS,
    attribute_hint,
    call_hint,
    did_you_mean,
)
from tawa.frontend.values.builder import Builder
from tawa.frontend.values.conversion import fail
from tawa.frontend.values.operators import DYNAMIC, STATIC, SYMBOLS
from tawa.frontend.values.scope import Scope
from tawa.frontend.values.values import (
    BlockPointer,
    BoundMethod,
    Descriptor,
    Tensor,
    Undefined,
    Value,
    describe,
    flatten,
    is_number,
    is_runtime,
    is_tuple,
    rebuild,
    same_type,
    tuple_like,
)
from tawa.language import dtypes
from tawa.language.builtin import LanguageFunction
from tawa.language.host import ConstexprFunction

PYTHON_NAMES = {"min", "max", "int", "float", "bool", "len", "range", "isinstance", "abs", "print",
                "getattr", "hasattr", "tuple", "list", "str"}  # fmt: skip
"""Python's builtins that kernels may use."""

EXPRESSIONS = "arithmetic, comparisons, `and or not`, `a if c else b`, calls, subscripts, literals"


class Expressions:
    """Evaluates the expressions of one function; `Statements` completes the class."""

    def __init__(self, b: Builder, function: JITFunction, scope: Scope) -> None:
        self.b = b
        self.function = function
        self.scope = scope
        self.source = function.source
        self.unused: ast.expr | None = None
        """The expression that is a statement of its own."""

    def bind(
        self, function: LanguageFunction, args: list[Value], keywords: dict[str, Value]
    ) -> dict[str, Value]:
        """Arguments of a function of the language by name; see `calls.FunctionCompiler`."""
        raise NotImplementedError

    def call(self, function: Value, args: list[Value], keywords: dict[str, Value]) -> Value:
        """Call a value; see `calls.FunctionCompiler`."""
        raise NotImplementedError

    def span_of(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> Span:
        """The source range of a node."""
        source = self.source
        first, indent = source.first_line, source.indent
        if not source.is_ascii or node.end_lineno is None or node.end_col_offset is None:
            return Span.of_node(node, source.file, first_line=first, indent=indent)
        # As `Span.of_node`, which reads the file to count characters: not needed for ASCII.
        above = first - 1
        return Span(
            source.file,
            node.lineno + above,
            node.col_offset + indent,
            node.end_lineno + above,
            node.end_col_offset + indent,
        )

    def eval(self, node: ast.expr) -> Value:
        """The value of an expression; ops are appended to the current block."""
        method = getattr(self, f"eval_{type(node).__name__}", None)
        with self.b.at(self.span_of(node)):
            if method is None:
                name = WORDS.get(type(node).__name__, f"`{type(node).__name__}`")
                raise fail(
                    self.b,
                    UnsupportedSyntax,
                    f"{name} is not supported here",
                    expected=EXPRESSIONS,
                    found=f"`{ast.unparse(node)}`",
                    hint=SYNTAX.get(type(node).__name__),
                )
            return method(node)

    # --- names and literals ---------------------------------------------------------------------

    def eval_Constant(self, node: ast.Constant) -> Value:
        """A literal."""
        if isinstance(node.value, complex | bytes) or node.value is ...:
            raise fail(self.b, UnsupportedSyntax, f"the literal `{node.value!r}` is not supported")
        return node.value

    def eval_Name(self, node: ast.Name) -> Value:
        """A variable, a global or one of Python's builtins."""
        binding = self.scope.get(node.id)
        if binding is not None:
            if isinstance(binding.value, Undefined):
                message, hint = f"`{node.id}` has no value here", "give it a value before"
                error = UndefinedName(message, span=self.b.span, hint=hint)
                raise error.with_note(f"`{node.id}` {binding.value.reason}", binding.value.span)
            return binding.value
        own = node.id in self.function.fn.__code__.co_varnames
        if node.id in self.function.namespace and not own:
            return self.usable_global(node.id, self.function.namespace[node.id])
        if node.id in PYTHON_NAMES:
            return getattr(python, node.id)
        if hasattr(python, node.id):
            raise fail(
                self.b,
                UndefinedName,
                f"Python's `{node.id}` is not available in kernels",
                expected=f"one of {', '.join(sorted(PYTHON_NAMES))}",
                found=f"`{node.id}`",
                hint=call_hint(node.id) or "compute it before the launch, and pass the result",
            )
        known = sorted(n for n in self.scope.bindings if self.scope.is_defined(n))
        raise fail(
            self.b,
            UndefinedName,
            f"`{node.id}` is not defined",
            expected=f"a variable or parameter ({', '.join(known)}) or a global",
            found=f"`{node.id}`",
            hint=did_you_mean(node.id, known, "give it a value before, or make it a parameter"),
        )

    def usable_global(self, name: str, value: Any) -> Value:
        """A global as a value; plain numbers and unknown objects are rejected."""
        constant = isinstance(value, dtypes.constexpr)
        value = dtypes.unwrap(value)
        theirs = foreign.is_foreign(value) and not isinstance(value, ModuleType)
        if theirs and not self.is_jit(value):
            return self.usable_type(static_function(self.ours(foreign.translate(value))))
        if constant or isinstance(value, dtypes.dtype):
            return self.usable_type(static_function(value))
        require_usable(self.b, name, value)
        return value

    def usable_type(self, value: Value) -> Value:
        """A value that is no element type of other chips; raises NotSupported."""
        if isinstance(value, dtypes.dtype) and value in dtypes.ELSEWHERE:
            name = f"float8{value.name.removeprefix('fp8')}"
            message = f"`tl.{name}` is a format of other chips, not supported in this architecture"
            raise fail(self.b, NotSupported, message, hint=NOT_YET[name])
        return value

    @staticmethod
    def is_jit(value: Any) -> bool:
        """Whether a value is a jitted function of a user (not of Triton's own library)."""
        if not is_jit_function(value):
            return False
        module = getattr(getattr(value, "fn", None), "__module__", "") or ""
        return not module.startswith("triton.language")

    def ours(self, value: Any) -> Value:
        """The translation of something of Triton's, which must exist."""
        if isinstance(value, foreign.Missing):
            names = sorted(n for n in vars(language) if not n.startswith("_"))
            raise fail(
                self.b,
                NotSupported if value.name in NOT_YET else UnknownAttribute,
                f"`triton.language` name `{value.name}` is unknown here",
                expected=_close(value.name, names),
                hint=NOT_YET.get(value.name),
            )
        return value

    def eval_Tuple(self, node: ast.Tuple) -> Value:
        """A tuple of values."""
        return tuple(self.eval(item) for item in node.elts)

    def eval_List(self, node: ast.List) -> Value:
        """A list literal (used for shapes) is a tuple."""
        return tuple(self.eval(item) for item in node.elts)

    def eval_ListComp(self, node: ast.ListComp) -> Value:
        """`[f(v) for v in values]` of a tuple is a tuple; the name is bound inside it alone."""
        (first, *more), target = node.generators, node.generators[0].target
        values = self.eval(first.iter)
        if more or first.ifs or not isinstance(target, ast.Name) or not is_tuple(values):
            raise fail(
                self.b,
                UnsupportedSyntax,
                "a list comprehension goes over one tuple, with one name and no condition",
                expected="as in `[v + 1 for v in values]`",
                found=f"`{ast.unparse(node)}`",
                hint="use `tl.static_range`, and tuples",
            )
        outside = self.scope
        results: list[Value] = []
        for value in values:
            self.scope = outside.copy()
            self.scope.set(target.id, value, self.span_of(target))
            results.append(self.eval(node.elt))
        self.scope = outside
        return tuple(results)

    def eval_JoinedStr(self, node: ast.JoinedStr) -> Value:
        """An f-string of compile-time values."""
        parts: list[str] = []
        for item in node.values:
            if isinstance(item, ast.FormattedValue):
                value = self.eval(item.value)
                parts.append(describe(value) if is_runtime(value) else str(value))
            else:
                parts.append(str(self.eval(item)))
        return "".join(parts)

    # --- operators ------------------------------------------------------------------------------

    def eval_BinOp(self, node: ast.BinOp) -> Value:
        """`a + b` and the like."""
        return self.operate(SYMBOLS.get(type(node.op), "@"), self.eval(node.left),
                            self.eval(node.right))  # fmt: skip

    def operate(self, symbol: str, x: Value, y: Value) -> Value:
        """Apply a binary operator."""
        if isinstance(x, tuple) and isinstance(y, tuple | int) and symbol in ("+", "*", "==", "!="):
            return STATIC[symbol](x, y)
        if not is_runtime(x) and not is_runtime(y):
            return self.fold(symbol, x, y)
        if symbol not in DYNAMIC:
            hint = {"**": "multiply, or use `tl.exp2(y * tl.log2(x))`", "@": "use `tl.dot`"}
            raise fail(
                self.b,
                UnsupportedSyntax,
                f"`{symbol}` of run-time values is not supported",
                hint=hint.get(symbol),
            )
        return DYNAMIC[symbol](self.b, x, y)

    def fold(self, symbol: str, x: Value, y: Value) -> Value:
        """A binary operator on compile-time values, as Python does it."""
        try:
            return STATIC[symbol](x, y)
        except (TypeError, ArithmeticError, ValueError, KeyError) as error:
            raise fail(
                self.b, BadArgument, f"`{describe(x)} {symbol} {describe(y)}`: {error}"
            ) from error

    def eval_Compare(self, node: ast.Compare) -> Value:
        """One comparison."""
        if len(node.ops) != 1:
            raise fail(
                self.b,
                UnsupportedSyntax,
                "chained comparisons are not supported",
                hint="write `(a < b) & (b < c)`",
            )
        x, y = self.eval(node.left), self.eval(node.comparators[0])
        symbol = SYMBOLS.get(type(node.ops[0]))
        if symbol is None:
            return arithmetic.is_among(self.b, x, y) == isinstance(node.ops[0], ast.In)
        if symbol in ("is", "is not"):
            fixed = not is_runtime(x) and not is_runtime(y)
            same = x is y or (fixed and type(x) is type(y) and x == y)
            return same if symbol == "is" else not same
        return self.operate(symbol, x, y)

    def eval_BoolOp(self, node: ast.BoolOp) -> Value:
        """`and` / `or`: compile-time operands decide early, run-time ones are all evaluated."""
        symbol = SYMBOLS[type(node.op)]
        result: Value = symbol == "and"
        for item in node.values:
            value = self.eval(item)
            if not is_runtime(value):
                if bool(value) != (symbol == "and"):
                    return value
                result = result if is_runtime(result) else value
            elif is_runtime(result):
                result = arithmetic.logical(self.b, symbol, result, value)
            else:
                result = arithmetic.condition(self.b, value, symbol)
        return result

    def eval_UnaryOp(self, node: ast.UnaryOp) -> Value:
        """`-x`, `+x`, `~x`, `not x`."""
        value = self.eval(node.operand)
        if not isinstance(value, Tensor):
            return self._fold_unary(node.op, value)
        if isinstance(node.op, ast.USub):
            return arithmetic.negate(self.b, value)
        if isinstance(node.op, ast.Invert):
            return arithmetic.invert(self.b, value)
        if isinstance(node.op, ast.Not):
            return arithmetic.invert(self.b, arithmetic.condition(self.b, value, "not"))
        return value

    def _fold_unary(self, op: ast.unaryop, value: Value) -> Value:
        functions: dict[type[ast.unaryop], Callable[[Any], Any]] = {
            ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_,
        }  # fmt: skip
        if isinstance(op, ast.Invert):
            return not value if isinstance(value, bool) else ~value
        try:
            return functions[type(op)](value)
        except TypeError as error:
            raise fail(self.b, BadArgument, str(error)) from error

    def eval_IfExp(self, node: ast.IfExp) -> Value:
        """`a if c else b`: one side is compiled, or a run-time choice of equal types."""
        test = self.eval(node.test)
        if not is_runtime(test):
            return self.eval(node.body if test else node.orelse)
        chosen = self.truth(test, "the condition of `a if c else b`", "use `tl.where`")
        sides: list[tuple[Block, Value]] = []
        for branch in (node.body, node.orelse):
            with self.b.inside(Block()) as block:
                sides.append((block, self.decay(self.eval(branch))))
        (_, then_value), (_, else_value) = sides
        if not same_type(then_value, else_value):
            raise fail(
                self.b,
                TypeMismatch,
                "Ternary expression with dynamic condition has inconsistent types",
                found=f"{describe(then_value)} and {describe(else_value)}",
                hint="convert one of them, or use `tl.where`",
            )
        for block, value in sides:
            block.add_op(scf.YieldOp(*flatten(value)))
        types = [ssa.type for ssa in flatten(then_value)]
        then, other = (Region(block) for block, _ in sides)
        op = self.b.add(scf.IfOp(chosen.ssa, types, then, other))
        return rebuild(then_value, iter(op.results))

    def decay(self, value: Value) -> Value:
        """What a plain assignment makes of a value: numbers become run-time scalars."""
        if is_tuple(value):
            return tuple_like(value, (self.decay(item) for item in value))
        return conversion.to_tensor(self.b, value) if is_number(value) else value

    def truth(self, test: Value, what: str, hint: str) -> Tensor:
        """A run-time condition as a scalar int1; a tensor of one element is one."""
        if not isinstance(test, Tensor) or math.prod(test.shape) != 1:
            raise fail(
                self.b,
                TypeMismatch,
                f"{what} must be a scalar",
                expected="one truth value, known when compiled or not",
                found=describe(test),
                hint=hint,
            )
        return conversion.cast(self.b, conversion.only_element(self.b, test), dtypes.int1)

    # --- subscripts, attributes, calls ----------------------------------------------------------

    def eval_Subscript(self, node: ast.Subscript) -> Value:
        """`x[:, None]`, or an element of a compile-time tuple."""
        value = self.eval(node.value)
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if isinstance(value, Tensor):
            return self._insert_dimensions(value, items)
        if not is_tuple(value) and not isinstance(value, str):
            raise fail(
                self.b,
                TypeMismatch,
                "only tensors and tuples have subscripts",
                found=describe(value),
            )
        index = self._static_index(node.slice)
        try:
            return value[index]
        except (IndexError, TypeError) as error:
            raise fail(self.b, BadArgument, f"{error}", found=f"index {index!r}") from error

    def _static_index(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Slice):
            return slice(*(self._static_index(end) if end else None for end in _ends_of(node)))
        return arithmetic.constant_int(self.b, self.eval(node), "an index into a tuple")

    def _insert_dimensions(self, value: Tensor, items: list[ast.expr]) -> Tensor:
        result = value
        for axis, item in enumerate(items):
            whole = isinstance(item, ast.Slice) and not any(map(_says, _ends_of(item)))
            new = isinstance(item, ast.Constant) and item.value is None
            if new:
                result = conversion.expand_dims(self.b, result, axis)
            elif not whole:
                raise fail(
                    self.b,
                    UnsupportedSyntax,
                    "unsupported tensor index: only `None` and `:` are taken",
                    expected="as in `x[:, None]`",
                    found=f"`{ast.unparse(item)}`",
                    hint="load the elements that you need, or reduce",
                )
        kept = sum(isinstance(item, ast.Slice) for item in items)
        if value.shape and kept > len(value.shape):
            raise fail(
                self.b, TileShapeMismatch, f"{kept} dimensions are indexed", found=value.describe()
            )
        return result

    def eval_Attribute(self, node: ast.Attribute) -> Value:
        """`tl.load`, `x.dtype`, `x.sum`."""
        return self.attribute(self.eval(node.value), node.attr)

    def attribute(self, value: Value, name: str) -> Value:
        """An attribute of a value."""
        if isinstance(value, Tensor | Descriptor | BlockPointer):
            return self._runtime_attribute(value, name)
        if isinstance(value, ModuleType):
            return self._module_attribute(value, name)
        if name == "value" and not hasattr(value, "value"):
            return value  # a compile-time value is its own, as that of a `tl.constexpr`
        if name == "type" and not hasattr(value, "type"):
            return dtypes.constexpr_type(value)
        if name in ("to", "cast") and is_number(value):
            return BoundMethod(conversion.to_tensor(self.b, value), name)
        if name.startswith("_") or not hasattr(value, name):
            message, hint = (
                f"{describe(value)} has no attribute `{name}`",
                attribute_hint(value, name),
            )
            raise fail(self.b, UnknownAttribute, message, hint=hint)
        found = getattr(value, name)
        return found.value if isinstance(found, dtypes.constexpr) else found

    def _module_attribute(self, module: ModuleType, name: str) -> Value:
        if foreign.is_foreign(module):
            return self.ours(foreign.attribute(module, name))
        if not module.__name__.startswith("tawa.language"):
            return self._plain_module_attribute(module, name)
        for place in (module, *ALSO_IN.get(module.__name__, ())):
            if hasattr(place, name):
                return self.usable_type(dtypes.unwrap(getattr(place, name)))
        names = [n for n in dir(module) if not n.startswith("_")]
        message = f"module `{module.__name__}` has no `{name}`"
        if name in NOT_YET:
            raise fail(self.b, NotSupported, message, hint=NOT_YET[name])
        raise fail(
            self.b,
            UnknownAttribute,
            message,
            expected=_close(name, names),
            found=f"`{name}`",
            hint=did_you_mean(name, names, f"`dir({module.__name__})` lists what there is"),
        )

    def _plain_module_attribute(self, module: ModuleType, name: str) -> Value:
        if not hasattr(module, name):
            message = f"module `{module.__name__}` has no `{name}`"
            raise fail(self.b, UnknownAttribute, message)
        found = getattr(module, name)
        fixed = isinstance(found, bool | int | float | str)  # as in Triton: `math.pi`, `own.SIZE`
        return found if fixed else self.usable_global(name, static_function(found))

    def _runtime_attribute(self, value: Value, name: str) -> Value:
        simple = {"dtype": "dtype", "type": "type", "shape": "shape", "block_shape": "block_shape"}
        simple |= {"type": "dtype"} if isinstance(value, BlockPointer) else {}
        if name == "T" and isinstance(value, Tensor):
            return self.call(language.trans, [value], {})
        if name in ("shape", "strides") and isinstance(value, Descriptor):
            known = value.sizes if name == "shape" else value.steps
            return known or conversion.passed_sizes(self.b, value, strides=name == "strides")
        if name == "handle":
            return value
        if name == "numel" and isinstance(value, Tensor):
            return dtypes.block_type(value.dtype, value.shape).numel
        if name in simple and hasattr(value, simple[name]):
            return getattr(value, simple[name])
        known = methods_of(value)
        if name not in known:
            hint = attribute_hint(value, name)
            raise fail(
                self.b,
                UnknownAttribute,
                f"a {describe(value)} has no attribute `{name}`",
                expected=None if hint else _close(name, [*known, "dtype", "shape", "T"]),
                hint=hint,
            )
        return BoundMethod(value, name)

    def eval_Call(self, node: ast.Call) -> Value:
        """A call; see `call`."""
        function = self.eval(node.func)
        why = getattr(function, "_must_use_result", False)
        if why and node is self.unused:
            name = ast.unparse(node.func)
            message = f"The result of {name} is not being used."
            hint = f"assign it, as in `x = {ast.unparse(node)}`"
            message = f"{message} {why}" if isinstance(why, str) else message
            raise fail(self.b, UnusedResult, message, hint=hint)
        args: list[Value] = []
        for item in node.args:
            if isinstance(item, ast.Starred):
                args.extend(self.eval(item.value))
            else:
                args.append(self.eval(item))
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise fail(self.b, UnsupportedSyntax, "`**` in a call is not supported")
            keywords[keyword.arg] = self.eval(keyword.value)
        return self.call(function, args, keywords)


def methods_of(value: Value) -> dict[str, Any]:
    """The methods of a run-time value: name -> function of the language."""
    if isinstance(value, Tensor):
        return TENSOR_METHODS
    if isinstance(value, BlockPointer):
        return BLOCK_POINTER_METHODS
    return DESCRIPTOR_METHODS if isinstance(value, Descriptor) else {}


def _ends_of(node: ast.Slice) -> tuple[ast.expr | None, ...]:
    return node.lower, node.upper, node.step


def _says(end: ast.expr | None) -> bool:
    """Whether an end of a slice is something else than none, which may be written out."""
    return end is not None and not (isinstance(end, ast.Constant) and end.value is None)


def static_function(value: Value) -> Value:
    """A plain Python function as one of compile-time values; any other value as it is."""
    return ConstexprFunction(value) if inspect.isfunction(value) else value


def _close(name: str, names: list[str]) -> str:
    """The names most like `name`."""
    import difflib

    found = difflib.get_close_matches(name, names, 3, 0.4)
    return " or ".join(f"`{n}`" for n in found) if found else ", ".join(sorted(names)[:40])


ALSO_IN: dict[str, tuple[ModuleType, ...]] = {
    "tawa.language.core": (language,),
    "tawa.language.standard": (language,),
    "tawa.language.math": (language.libdevice,),
}
"""Where else the names of a module are looked for; earlier versions of Triton had them there."""

TENSOR_METHODS: dict[str, LanguageFunction] = {
    name: value
    for module in (language, language.core)
    for name, value in vars(module).items()
    if isinstance(value, LanguageFunction) and value.is_method
}
TENSOR_METHODS["cast"] = TENSOR_METHODS["to"]
BLOCK_POINTER_METHODS: dict[str, Any] = {
    "advance": language.advance,
    "store": language.store,
}
DESCRIPTOR_METHODS: dict[str, Any] = {
    "load": language.load_tensor_descriptor,
    "store": language.store_tensor_descriptor,
    **{
        f"atomic_{what}": getattr(language.core, f"descriptor_atomic_{what}")
        for what in ("add", "max", "min", "and", "or", "xor")
    },
}
