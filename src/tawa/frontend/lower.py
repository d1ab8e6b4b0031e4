"""From a kernel's source to a tile module."""

from __future__ import annotations

import json
import math
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from tawa.base.knobs import VERIFY
from tawa.base.spans import set_span
from tawa.base.types import COPIED_BYTES, DescType, i32
from tawa.frontend.builtins import assembly as lower_assembly
from tawa.frontend.builtins import libdevice as lower_libdevice
from tawa.frontend.builtins import mapping as lower_mapping
from tawa.frontend.builtins import math as lower_math
from tawa.frontend.builtins import memory as lower_memory
from tawa.frontend.builtins import programs as lower_programs
from tawa.frontend.builtins import reductions as lower_reductions
from tawa.frontend.builtins import shapes as lower_shapes
from tawa.frontend.source.arguments import (
    ArgType,
    DescriptorArg,
    PointerArg,
    ScalarArg,
    missing_constants,
    run_time_parameters,
)
from tawa.frontend.source.errors import LaunchMismatch, TypeMismatch
from tawa.frontend.source.function import JITFunction
from tawa.frontend.syntax.calls import FunctionCompiler
from tawa.frontend.syntax.leaving import Returned
from tawa.frontend.values.builder import Builder, Defaults, hint
from tawa.frontend.values.scope import Scope
from tawa.frontend.values.values import Descriptor, Tensor, Value, ir_element, ir_type
from tawa.ir.kernels import AT_LEAST, DISJOINT, NAME, POSITIVE, RELEASES
from tawa.language.dtypes import pointer_type

MEANINGS = (
    lower_assembly, lower_libdevice, lower_mapping, lower_math, lower_memory, lower_programs,
    lower_reductions, lower_shapes,
)  # fmt: skip
"""The modules that register what the language's builtins mean."""

DIVISIBLE = "tawa.divisible"
"""Argument attribute: a number that divides the argument (a pointer in bytes)."""


def lower_to_tile(
    fn: JITFunction | Callable[..., Any],
    arg_types: Sequence[ArgType] | Mapping[str, ArgType],
    constants: Mapping[str, object],
    defaults: Defaults | None = None,
) -> ModuleOp:
    """Compile a kernel for argument types to a tile module with one function of its name.

    `constants` are the compile-time values by parameter name (`tl.constexpr` parameters, and
    arguments specialised to None or 1); `arg_types` are those of the other parameters in order,
    or by name; `defaults` are what options of the launch say to the program. The parts of a tuple
    `x` have names of their own: `x.0`, `x.1`, `x.1.0`.
    Raises a `KernelError` that points into the kernel's source.
    """
    function = fn if isinstance(fn, JITFunction) else JITFunction(fn)
    names, types = _named(function, arg_types, constants)
    read_only = {p.name for p in function.parameters if p.declared.const}
    block = Block(arg_types=[_ir_argument(a) for a in types])
    b = Builder(block, defaults)
    compiler = FunctionCompiler(b, function, Scope())
    compiler.stack = (function.fn,)
    span = compiler.span_of(function.source.tree)
    with b.at(span):
        parts: dict[str, Value] = {}
        for name, value in _constants(function, constants).items():
            if "." in name:
                parts[name] = compiler.given(value)
            else:
                compiler.bind_parameter(name, value, constant=True)
        for name, kind, argument in zip(names, types, block.args, strict=True):
            hint(argument, name.replace(".", "_"))
            parts[name] = _value(b, kind, argument, const=name in read_only)
        for name, value in _joined(parts).items():
            compiler.scope.set(name, value, span)
    result = compiler.run(function.source.tree.body)
    with b.at(span):
        if isinstance(result, Returned) and result.value is not None:
            raise TypeMismatch(
                "a kernel returns nothing", span=result.span, hint="store results with `tl.store`"
            )
        b.add(ReturnOp())
    return _module(compiler, block, names, types)


def _named(
    function: JITFunction,
    arg_types: Sequence[ArgType] | Mapping[str, ArgType],
    constants: Mapping[str, object],
) -> tuple[list[str], list[ArgType]]:
    """Names and types of the run-time arguments. Raises LaunchMismatch."""
    whole = {name.partition(".")[0] for name in constants}
    parameters = [p.name for p in run_time_parameters(function, constants)]
    if not isinstance(arg_types, Mapping):
        found = f"{len(arg_types)} argument types"
        fits = len(parameters) == len(arg_types)
        _check_launch(function, parameters, constants, None if fits else found)
        return parameters, list(arg_types)
    given = dict.fromkeys(name.partition(".")[0] for name in arg_types)
    wanted = [name for name in parameters if name in given or name not in whole]
    found = None if list(given) == wanted else f"types of ({', '.join(given)})"
    _check_launch(function, wanted, constants, found)
    return list(arg_types), list(arg_types.values())


def _joined(parts: Mapping[str, Value]) -> dict[str, Value]:
    """Arguments by name, with tuples made of their parts."""
    whole: dict[str, Value] = {}
    tuples: dict[str, dict[str, Value]] = {}
    for name, value in parts.items():
        first, dot, place = name.partition(".")
        if dot:
            tuples.setdefault(first, {})[place] = value
        else:
            whole[first] = value
    for name, places in tuples.items():
        joined = _joined(places)
        whole[name] = _tuple(joined)
    return whole


def _tuple(parts: Mapping[str, Value]) -> Value:
    """The tuple of parts that are called `0`, `1`, or `0_size`, `1_step` where they have names."""
    places = {int(name.partition("_")[0]): name for name in parts}
    values = [parts[places[number]] for number in sorted(places)]
    fields = [places[number].partition("_")[2] for number in sorted(places)]
    return _named_tuple(tuple(fields))(*values) if all(fields) else tuple(values)


@cache
def _named_tuple(fields: tuple[str, ...]) -> Callable[..., Value]:
    """A class of tuples whose parts have these names."""
    return namedtuple("Parts", fields)  # pyright: ignore[reportUntypedNamedTuple]  # of any values


def _module(
    compiler: FunctionCompiler, block: Block, names: Sequence[str], arg_types: Sequence[ArgType]
) -> ModuleOp:
    function = compiler.function
    facts = [
        _facts(name, kind, argument, compiler.b)
        for name, kind, argument in zip(names, arg_types, block.args, strict=True)
    ]
    func = FuncOp(
        function.__name__,
        FunctionType.from_lists([a.type for a in block.args], []),
        Region(block),
        arg_attrs=ArrayAttr(facts) if any(f.data for f in facts) else None,
    )
    if compiler.b.releases:
        func.attributes[RELEASES] = UnitAttr()
    if compiler.b.disjoint:
        pairs = sorted({(names[a.index], names[b.index]) for a, b in compiler.b.disjoint})
        func.attributes[DISJOINT] = StringAttr(json.dumps(pairs))
    set_span(func, compiler.span_of(function.source.tree))
    module = ModuleOp([func])
    if VERIFY.get():  # else the driver does, after the first level's passes
        try:
            module.verify()
        except VerifyException as error:  # a mistake of ours: the front end checks what it builds
            message = f"the front end built an invalid module: {error}\n{module}"
            raise AssertionError(message) from error
    return module


def _facts(name: str, kind: ArgType, argument: BlockArgument, b: Builder) -> DictionaryAttr:
    divisible = math.lcm(getattr(kind, "divisible", 1), b.divisors.get(argument, 1))
    bound = b.promised.get(argument)
    found: dict[str, Attribute] = {}
    if argument.name_hint != name:
        found[NAME] = StringAttr(name)
    if divisible > 1:
        found[DIVISIBLE] = IntegerAttr(divisible, i32)
    if getattr(kind, "positive", False):
        found[POSITIVE] = UnitAttr()
    if bound is not None:
        found[AT_LEAST] = IntegerAttr(bound, i32)
    return DictionaryAttr(found)


def require_whole_rows(kind: ArgType) -> None:
    """Raise `LaunchMismatch` for a descriptor whose block no copy can move, such as `[1, 1]`."""
    if not isinstance(kind, DescriptorArg):
        return
    row = kind.block_shape[-1] * kind.element.itemsize
    if row % COPIED_BYTES:
        raise LaunchMismatch(
            f"a row of a descriptor's block {list(kind.block_shape)} has {row} bytes",
            expected=f"a multiple of {COPIED_BYTES} bytes, as the copy engine moves",
            found=f"{kind.element} elements",
            hint="assign `block_shape` before the launch, for example in a hook of the tuner",
        )


def _ir_argument(kind: ArgType) -> Attribute:
    if isinstance(kind, DescriptorArg):
        return DescType(TensorType(ir_element(kind.element), kind.block_shape))
    return ir_type(kind.type)


def _value(b: Builder, kind: ArgType, argument: SSAValue, *, const: bool) -> Value:
    if isinstance(kind, DescriptorArg):
        return Descriptor(argument, kind.element, kind.block_shape)
    if isinstance(kind, ScalarArg) and kind.unit:
        return Tensor(b.constant(1, _ir_argument(kind)), kind.type)
    if isinstance(kind, PointerArg) and const:
        return Tensor(argument, pointer_type(kind.element, const=True))
    return Tensor(argument, kind.type)


def _constants(function: JITFunction, constants: Mapping[str, object]) -> dict[str, object]:
    """Given compile-time values, and defaults of the `tl.constexpr` parameters left out."""
    values: dict[str, object] = dict(constants)
    for parameter in function.parameters:
        if parameter.is_constexpr and parameter.name not in values:
            values[parameter.name] = parameter.default
    return values


def _check_launch(
    function: JITFunction,
    names: Sequence[str],
    constants: Mapping[str, object],
    found: str | None,
) -> None:
    """Raise `LaunchMismatch` for types or compile-time values that do not fit."""
    own = function.arg_names
    unknown = [name for name in constants if name.partition(".")[0] not in own]
    missing = missing_constants(function, constants)
    if unknown or missing or found is not None:
        if unknown:
            found = f"no parameter {', '.join(unknown)}"
        elif missing:
            found = f"no value of {', '.join(missing)}"
        raise LaunchMismatch(
            f"the arguments do not match `{function.__name__}`",
            expected=f"types of ({', '.join(names)}) and values of the `tl.constexpr` parameters "
            f"({', '.join(function.constexpr_names)})",
            found=found,
        )
