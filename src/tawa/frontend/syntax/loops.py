"""What a `for` statement iterates over: a run-time range, or counters to unroll over."""

from __future__ import annotations

import ast
import builtins as python
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects.builtin import BoolAttr, IntegerAttr
from xdsl.ir import Attribute

from tawa import language
from tawa.base.errors import TawaError
from tawa.frontend.source.errors import BadArgument, UnsupportedSyntax
from tawa.frontend.syntax.expressions import Expressions
from tawa.frontend.values import arithmetic, conversion
from tawa.frontend.values.builder import Builder
from tawa.frontend.values.conversion import fail
from tawa.frontend.values.values import Tensor, Value, describe, is_runtime, is_tuple
from tawa.language.dtypes import dtype, int64

_WISHES = (
    "num_stages", "loop_unroll_factor", "disallow_acc_multi_buffer", "flatten", "warp_specialize",
    "disable_licm",
)  # fmt: skip


@dataclass(frozen=True)
class ForLoop:
    """Bounds of one type; `mirrored` says that the counter runs from the upper end down.

    `scf.for` compares signed numbers. So a loop over unsigned ones of up to 32 bits runs in 64
    bits, and one over 64 bits counts its iterations.
    """

    lower: Tensor
    upper: Tensor
    step: Tensor
    mirrored: bool = False
    attributes: dict[str, Attribute] = field(default_factory=dict[str, Attribute])
    row_ends: Tensor | None = None
    """Where the iterations end that change a row, of the counter's type."""

    @property
    def _counts_iterations(self) -> bool:
        element = self.lower.dtype
        return element.is_int_unsigned() and element.primitive_bitwidth == 64

    def bounds(self, b: Builder) -> tuple[Tensor, Tensor, Tensor]:
        """Signed bounds and step of the op."""
        given = (self.lower, self.upper, self.step)
        if not self.lower.dtype.is_int_unsigned():
            return given
        if not self._counts_iterations:
            lower, upper, step = (conversion.cast(b, value, int64) for value in given)
            return lower, upper, step
        span = arithmetic.subtract(b, arithmetic.subtract(b, self.upper, self.lower), 1)
        iterations = arithmetic.add(b, arithmetic.floor_divide(b, span, self.step), 1)
        some = arithmetic.compare(b, "<", self.lower, self.upper)
        zero, one = (conversion.scalar(b, number, int64) for number in (0, 1))
        return zero, arithmetic.where(b, some, conversion.cast(b, iterations, int64), zero), one

    def counter(self, b: Builder, raw: Tensor) -> Tensor:
        """The counter that the kernel sees."""
        raw = conversion.cast(b, raw, self.lower.dtype)
        if self._counts_iterations:
            raw = arithmetic.add(b, arithmetic.multiply(b, raw, self.step), self.lower)
        if not self.mirrored:
            return raw
        return arithmetic.add(b, arithmetic.subtract(b, self.upper, raw), self.lower)


def loop_of(compiler: Expressions, node: ast.expr) -> ForLoop | Sequence[int]:
    """What the iterator of a `for` describes: a `ForLoop`, or the counters to unroll over."""
    b = compiler.b
    if not isinstance(node, ast.Call):
        value = compiler.eval(node)
        if is_tuple(value) and not is_runtime(value):
            return value
        raise _not_a_range(b, describe(value))
    function: Value = compiler.eval(node.func)
    args = [compiler.eval(item) for item in node.args]
    keywords = {k.arg: compiler.eval(k.value) for k in node.keywords if k.arg}
    with b.at(compiler.span_of(node)):
        if function is python.range:
            function = cast(Any, language.range)
        if function not in (language.range, language.static_range):
            raise _not_a_range(b, ast.unparse(node.func))
        arguments = compiler.bind(function, args, keywords)
        lower, upper, step = _bounds(arguments)
        if function is language.static_range:
            names = ("start", "end", "step")
            numbers = [
                arithmetic.constant_int(b, v, f"the {n} of `tl.static_range`")
                for n, v in zip(names, (lower, upper, step), strict=True)
            ]
            return python.range(*numbers)
        return _run_time_loop(b, lower, upper, step, arguments)


def _not_a_range(b: Builder, found: str) -> TawaError:
    expected = "`range(...)`, `tl.range(...)` or `tl.static_range(...)`"
    message = "a `for` loop iterates over a range"
    return fail(b, UnsupportedSyntax, message, expected=expected, found=found)


def _bounds(arguments: dict[str, Value]) -> tuple[Value, Value, Value]:
    step = 1 if arguments["step"] is None else arguments["step"]
    if arguments["arg2"] is None:
        return 0, arguments["arg1"], step
    return arguments["arg1"], arguments["arg2"], step


def _run_time_loop(
    b: Builder, lower: Value, upper: Value, step: Value, arguments: dict[str, Value]
) -> ForLoop:
    mirrored = isinstance(step, int) and step < 0
    if mirrored:
        lower, upper, step = upper, lower, -step
    if step == 0 and not is_runtime(step):
        raise fail(b, BadArgument, "the step of a range must not be 0")
    bounds = [arithmetic.integer_operand(b, v, "a bound of a range") for v in (lower, upper, step)]
    element = arithmetic.common_integer(b, *bounds)
    start, end, stride = (conversion.cast(b, v, element) for v in bounds)
    rows = arguments.get("row_ends")
    if rows is not None:
        rows = _row_ends(b, rows, element, mirrored)
    return ForLoop(start, end, stride, mirrored, _attributes(arguments), rows)


def _row_ends(b: Builder, rows: Value, element: dtype, mirrored: bool) -> Tensor:
    """The ends of rows in the counter's type."""
    given = isinstance(rows, Tensor) and rows.dtype.is_int() and len(rows.shape) == 1
    if not given:
        expected, found = "a tensor of one integer for each row", describe(rows)
    elif mirrored or element.is_int_unsigned():
        expected = "a signed counter that grows"
        found = "a step below 0" if mirrored else f"a counter of {element}"
    else:
        return conversion.cast(b, rows, element)
    message = "the loop can't have these `row_ends`"
    raise fail(b, BadArgument, message, expected=expected, found=found)


def _attributes(arguments: dict[str, Any]) -> dict[str, Attribute]:
    """Wishes that were made, as attributes `tawa.<name>` of the loop."""
    attributes: dict[str, Attribute] = {}
    for name in _WISHES:
        value = arguments.get(name)
        if value is None or value is False:
            continue
        if isinstance(value, bool):
            attributes[f"tawa.{name}"] = BoolAttr.from_bool(value)
        else:
            attributes[f"tawa.{name}"] = IntegerAttr(int(value), 32)
    return attributes
