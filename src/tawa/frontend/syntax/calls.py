"""Calls: builtins of the language, inlined functions, and a few of Python's own functions."""

from __future__ import annotations

import builtins as python
import inspect
from collections.abc import Callable
from typing import Any

from tawa import language
from tawa.base.decorated import computed_while_compiling
from tawa.base.errors import TawaError
from tawa.frontend.source.errors import (
    BadArgument,
    NotCallable,
    NotSupported,
    Recursion,
    UnknownAttribute,
    WrongArguments,
)
from tawa.frontend.source.function import (
    JITFunction,
    is_constexpr_annotation,
    is_jit_function,
    jit_function,
)
from tawa.frontend.source.registry import LOWERINGS
from tawa.frontend.syntax.expressions import PYTHON_NAMES, methods_of
from tawa.frontend.syntax.leaving import Returned
from tawa.frontend.syntax.statements import Statements
from tawa.frontend.values import conversion, foreign
from tawa.frontend.values.advice import call_hint, keyword_hint, shown_call
from tawa.frontend.values.conversion import fail
from tawa.frontend.values.scope import Scope
from tawa.frontend.values.values import (
    BlockPointer,
    BoundMethod,
    Descriptor,
    Tensor,
    Value,
    describe,
    is_number,
    is_runtime,
    items_of,
)
from tawa.language import dtypes
from tawa.language.builtin import Builtin, Composite, LanguageFunction
from tawa.language.host import ConstexprFunction

MAX_DEPTH = 64
"""Calls within calls; more than this is taken for recursion."""


class FunctionCompiler(Statements):
    """Compiles one call of a function: its own scope, in the blocks of its caller."""

    stack: tuple[Any, ...] = ()

    def call(self, function: Value, args: list[Value], keywords: dict[str, Value]) -> Value:
        """Call a value with evaluated arguments."""
        if isinstance(function, BoundMethod):
            return self._call_method(function, args, keywords)
        if isinstance(function, Builtin):
            return self._call_builtin(function, args, keywords)
        if isinstance(function, Composite):
            return self._call_composite(function, args, keywords)
        if isinstance(function, ConstexprFunction) or _is_dtype_method(function):
            return self._call_static(function, args, keywords)
        written = computed_while_compiling(function)
        if written is not None:
            return self._call_static(ConstexprFunction(written), args, keywords)
        if is_jit_function(function):
            return self._inline(jit_function(function), args, keywords, decays=True)
        if function in PYTHON_FUNCTIONS:
            return self._call_python(function, args, keywords)
        return self._call_type(function, args, keywords)

    def _call_type(self, function: Value, args: list[Value], keywords: dict[str, Value]) -> Value:
        """Make a value of a type: `tl.constexpr(4)`, `tl.float32(x)`, a named tuple."""
        if function is dtypes.constexpr and len(args) == 1:
            return args[0]
        if function in (dtypes.pointer_type, dtypes.constexpr_type):
            return function(args[0])
        if is_named_tuple(function):
            return self._make_named_tuple(function, args, keywords)
        if function is dtypes.dtype and len(args) == 1 and isinstance(args[0], str):
            return self._named_type(args[0])
        if isinstance(function, dtypes.dtype) and len(args) == 1:
            return self.call(language.cast, [args[0], function], keywords)
        fixed = not any(is_runtime(v) for v in (*args, *keywords.values()))
        if fixed and callable(function) and not inspect.isfunction(function):
            return self._call_static(function, args, keywords)  # `math.sqrt(2)`, `name.upper()`
        raise self._not_callable(function)

    def _named_type(self, name: str) -> Value:
        """`tl.dtype("int8")`."""
        try:
            return self.usable_type(dtypes.dtype(name))
        except ValueError as error:
            names = ", ".join(t.name for t in dtypes.DTYPES.values())
            raise fail(self.b, BadArgument, str(error), expected=names, found=repr(name)) from None

    def _make_named_tuple(
        self, function: Any, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        try:
            return function(*args, **keywords)
        except TypeError as error:
            raise fail(
                self.b,
                WrongArguments,
                f"call of `{function.__name__}`: {error}",
                expected=f"{function.__name__}({', '.join(function._fields)})",
                found=shown_call(args, keywords),
                hint=keyword_hint(keywords, function._fields),
            ) from error

    def _not_callable(self, function: Value) -> TawaError:
        name = getattr(function, "__name__", None) or describe(function)
        if inspect.isfunction(function):
            return fail(
                self.b,
                NotCallable,
                f"`{name}` is a plain Python function",
                expected="a function decorated with `@tawa.jit`",
                hint="decorate it; or with `tl.constexpr_function` if it only computes "
                "compile-time values",
            )
        return fail(
            self.b,
            NotCallable,
            f"`{name}` can't be called in a kernel",
            expected="a function of `tawa.language`, a jitted function, or one of "
            + ", ".join(sorted(PYTHON_NAMES)),
            hint=call_hint(name),
        )

    def bind(
        self, function: LanguageFunction, args: list[Value], keywords: dict[str, Value]
    ) -> dict[str, Value]:
        """Arguments by name, defaults included; raises WrongArguments."""
        known = function.signature.parameters
        keywords = {k: v for k, v in keywords.items() if k in known or k not in _IGNORED_KEYWORDS}
        try:
            bound = function.signature.bind(*args, **keywords)
        except TypeError as error:
            raise fail(
                self.b,
                WrongArguments,
                f"call of `{function.name}`: {error}",
                expected=_shown_signature(function),
                found=shown_call(args, keywords),
                hint=keyword_hint(keywords, known),
            ) from error
        bound.apply_defaults()
        return dict(bound.arguments)

    def _call_builtin(
        self, function: Builtin, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        lowering = LOWERINGS.get(function)
        if lowering is None:
            raise fail(self.b, NotSupported, f"`tl.{function.name}` is not supported here")
        return lowering(self, **self.bind(function, args, keywords))

    def _call_method(
        self, method: BoundMethod, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        function = (
            methods_of(method.owner)[method.name]
            if isinstance(method.owner, Tensor | Descriptor | BlockPointer)
            else None
        )
        return self.call(function, [method.owner, *args], keywords)

    def _call_composite(
        self, function: Composite, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        bound = self.bind(function, args, keywords)
        fixed = all(is_number(v) or v is None or isinstance(v, str) for v in bound.values())
        if fixed and function.name == "cdiv":
            return -(-bound["x"] // bound["div"])
        return self._inline(JITFunction(function.function), args, keywords, decays=False)

    def _call_static(self, function: Any, args: list[Value], keywords: dict[str, Value]) -> Value:
        if any(is_runtime(v) for v in (*args, *keywords.values())):
            if getattr(function, "__name__", "") == "cdiv":
                return self.call(language.cdiv, args, keywords)
            if getattr(function, "function", None) is dtypes.unwrap:
                return args[0]  # a run-time value is wrapped in nothing
            raise fail(
                self.b,
                NotCallable,
                f"`{function.__name__}` takes compile-time values only",
                found=", ".join(describe(v) for v in args),
            )
        if foreign.speaks_triton(getattr(function, "function", None)):
            args = [foreign.theirs(value) for value in args]
            keywords = {name: foreign.theirs(value) for name, value in keywords.items()}
        try:
            return self.given(function(*args, **keywords))
        except TawaError:
            raise
        except Exception as error:  # a function of Python's or of the user's: it may raise anything
            name = getattr(function, "__name__", None) or describe(function)
            raise fail(self.b, WrongArguments, f"call of `{name}`: {error}") from error

    # --- inlining -------------------------------------------------------------------------------

    def _inline(
        self, function: JITFunction, args: list[Value], keywords: dict[str, Value], *, decays: bool
    ) -> Value:
        """Compile a function's body in place of its call."""
        if function.fn in self.stack or len(self.stack) >= MAX_DEPTH:
            raise fail(self.b, Recursion, f"`{function.__name__}` calls itself", hint="use a loop")
        keywords = {
            k: v for k, v in keywords.items()
            if k in function.signature.parameters or k not in _IGNORED_KEYWORDS
        }  # fmt: skip
        try:
            bound = function.signature.bind(*args, **keywords)
        except TypeError as error:
            raise fail(
                self.b,
                WrongArguments,
                f"call of `{function.__name__}`: {error}",
                expected=f"{function.__name__}{function.signature}",
                found=shown_call(args, keywords),
                hint=keyword_hint(keywords, function.signature.parameters),
            ) from error
        bound.apply_defaults()
        callee = FunctionCompiler(self.b, function, Scope())
        callee.stack = (*self.stack, function.fn)
        for name, value in bound.arguments.items():
            annotation = function.signature.parameters[name].annotation
            callee.bind_parameter(name, value, constant=is_constexpr_annotation(annotation))
        return self._run_inlined(callee, decays=decays)

    def _run_inlined(self, callee: FunctionCompiler, *, decays: bool) -> Value:
        call_span = self.b.span
        try:
            result = callee.run(callee.source.tree.body)
        except TawaError as error:
            if len(error.notes) < 8:  # a chain of calls is shown up to this length
                error.with_note(f"in the call of `{callee.function.__name__}` here", call_span)
            raise
        value = result.value if isinstance(result, Returned) else None
        return self.decay(value) if decays else value

    def bind_parameter(self, name: str, value: Value, *, constant: bool) -> None:
        """Give a parameter its value.

        As in Triton, run-time values may be passed to helpers' `tl.constexpr` parameters.
        """
        value = self.given(value)
        span = self.span_of(self.source.tree)
        fixed = (constant and not is_runtime(value)) or is_number(value)
        self.scope.set(name, value, span, constant=fixed)

    def given(self, value: Any) -> Value:
        """A value that comes from outside: of a launch, or of a call."""
        value = self.usable_type(dtypes.unwrap(value))
        return self.ours(foreign.translate(value)) if foreign.is_foreign(value) else value

    # --- Python's own functions -----------------------------------------------------------------

    def _call_python(self, function: Any, args: list[Value], keywords: dict[str, Value]) -> Value:
        if function in (python.min, python.max):
            return self._fold_extreme(function, args)
        if function is python.isinstance:
            return _is_instance(*args)
        if function is python.print:
            return self.call(language.device_print, ["", *args], {})
        if function in (python.getattr, python.hasattr):
            return self._ask_attribute(function, args)
        if any(isinstance(v, Tensor) for v in args):
            return self._convert_run_time(function, args)
        try:
            return function(*args, **keywords)
        except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise fail(self.b, WrongArguments, f"call of `{function.__name__}`: {error}") from error

    def _ask_attribute(self, function: Any, args: list[Value]) -> Value:
        """`getattr(x, "name")`, with a default too, and `hasattr(x, "name")`."""
        if len(args) not in (2, 3) or not isinstance(args[1], str):
            raise fail(
                self.b,
                WrongArguments,
                f"call of `{function.__name__}`",
                expected="a value and a name known when the kernel is compiled",
                found=shown_call(args, {}),
            )
        try:
            found = self.attribute(args[0], args[1])
        except (UnknownAttribute, NotSupported):
            if function is python.hasattr:
                return False
            if len(args) == 3:
                return args[2]
            raise
        return True if function is python.hasattr else found

    def _convert_run_time(self, function: Any, args: list[Value]) -> Value:
        """`int(x)`, `float(x)`, `bool(x)`, `abs(x)`, `len(x)` of a run-time value."""
        value = args[0]
        targets = {int: dtypes.int32, float: dtypes.float32, bool: dtypes.int1}
        if function is python.abs:
            return self.call(language.abs, [value], {})
        if function is python.len and isinstance(value, Tensor) and value.shape:
            return value.shape[0]
        if function in targets and isinstance(value, Tensor):
            return conversion.cast(self.b, value, targets[function])
        raise fail(
            self.b,
            WrongArguments,
            f"`{function.__name__}` of a run-time value",
            found=describe(value),
        )

    def _fold_extreme(self, function: Any, args: list[Value]) -> Value:
        values = list(items_of(args[0])) if len(args) == 1 else args
        if not any(is_runtime(v) for v in values):
            return function(values)
        lowering = language.minimum if function is python.min else language.maximum
        result: Value = values[0]
        for value in values[1:]:
            result = self.call(lowering, [result, value], {})
        return result


PYTHON_FUNCTIONS: set[Callable[..., Any]] = {getattr(python, name) for name in PYTHON_NAMES}

_IGNORED_KEYWORDS = {"_semantic", "_builder", "_generator"}
"""Keywords of Triton's internals that kernels pass at times."""


def _is_dtype_method(function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    return isinstance(owner, dtypes.dtype | dtypes.pointer_type | dtypes.block_type)


def is_named_tuple(function: Any) -> bool:
    """Whether a value is a class of tuples whose parts have names."""
    fields = getattr(function, "_fields", None)
    return fields is not None and inspect.isclass(function) and issubclass(function, tuple)


def _is_instance(value: Value, kinds: Any) -> bool:
    """`isinstance` of a kernel's value; numbers are `tl.constexpr` too."""
    for kind in items_of(kinds):
        name = getattr(kind, "__name__", "")
        if name == "constexpr" and not is_runtime(value):
            return True
        if name == "tensor" and isinstance(value, Tensor):
            return True
        if name in ("tensor_descriptor", "tensor_descriptor_base") and isinstance(
            value, Descriptor
        ):
            return True
        if inspect.isclass(kind) and isinstance(value, kind):
            return True
    return False


def _shown_signature(function: LanguageFunction) -> str:
    names = [str(p).split(":")[0] for p in function.signature.parameters.values()]
    defaults = [
        f"{p.name}={p.default!r}" if p.default is not inspect.Parameter.empty else names[i]
        for i, p in enumerate(function.signature.parameters.values())
    ]
    return f"{function.name}({', '.join(defaults)})"
