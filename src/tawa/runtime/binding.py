"""Binds the arguments of a call to a kernel's parameters, and names what was called.

Python itself binds arguments best: for each kernel a function with the kernel's own parameter
list is written, whose body classifies the arguments. It costs a few hundred nanoseconds a call.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeAlias, cast

from tawa.base.exact import PLAIN, exact
from tawa.base.kernel_spec import SCALAR_CODES
from tawa.runtime.arguments import (
    CLASSIFIERS,
    INTEGER_KINDS,
    Classifier,
    classify,
    classify_part,
    classify_unaligned,
    classify_unspecialized,
    declared_classifier,
)
from tawa.runtime.arrays import DTYPE_NAMES, is_stand_in
from tawa.runtime.descriptor import TensorDescriptor
from tawa.runtime.kinds import Kind, TupleKind, fields_of, kind_of, parts_of, tuple_kind
from tawa.runtime.launch_errors import BadTypeText
from tawa.runtime.overlaps import end_of

RESERVED = ("stream", "device")
"""Keyword arguments of a launch that are neither parameters nor compile options."""


@dataclass(frozen=True)
class BoundParameter:
    """One parameter of a kernel, as far as a call is concerned.

    `specialize`: whether the kernel is compiled anew for its values 1 and multiples of 16;
    `align`: whether for multiples of 16; `declared`: the type (`i64`, `*f16`) that its annotation
    gives to every argument.
    """

    name: str
    constexpr: bool = False
    specialize: bool = True
    align: bool = True
    has_default: bool = False
    default: Any = None
    declared: str = ""

    @property
    def classifier(self) -> Classifier:
        """The function that tells the kinds of its arguments apart."""
        if self.declared:
            return declared_classifier(self.declared, self.specialize and self.align)
        if not self.specialize:
            return classify_unspecialized
        return classify if self.align else classify_unaligned


Call: TypeAlias = tuple[tuple[Any, ...], tuple[Any, ...], Any, tuple[Any, ...]]
"""The call's key (hashable), the launch values of its run-time parameters, its stream, and the
run-time arguments as they were given."""

Binder: TypeAlias = Callable[..., Call]


def compile_binder(parameters: Sequence[BoundParameter], name: str) -> Binder:
    """A function with the kernel's parameters that gives the `Call` of its arguments.

    It also takes `stream`, `device`, and any other keyword as a compile option, unless the kernel
    has a parameter of that name. Raises Python's own `TypeError` for arguments that don't fit.
    """
    own = {parameter.name for parameter in parameters}
    lines = [f"def {_function_name(name)}({_signature(parameters)}):"]
    key: list[str] = []
    passed: list[str] = []
    for number, parameter in enumerate(parameters):
        if parameter.constexpr:
            key += _constant_key(parameter.name)
            continue
        lines += _classification(parameter, number)
        key.append(f"_k{number}")
        passed.append(f"_v{number}")
    key += ["device"] if "device" not in own else []
    key += ["*_options.items()"]
    stream = "stream" if "stream" not in own else "None"
    given = [parameter.name for parameter in parameters if not parameter.constexpr]
    lines.append(
        f"    return ({', '.join(key)},), ({_listed(passed)}), {stream}, ({_listed(given)})"
    )
    return _define("\n".join(lines), name, parameters)


def compile_namer(parameters: Sequence[BoundParameter], name: str) -> Callable[..., dict[str, Any]]:
    """A function with the kernel's parameters that gives all arguments by name, in order."""
    pairs = "".join(f"{p.name!r}: {p.name}, " for p in parameters)
    text = (
        f"def {_function_name(name)}({_signature(parameters)}):\n    return {{{pairs}**_options}}"
    )
    return _define(text, name, parameters)


def _signature(parameters: Sequence[BoundParameter]) -> str:
    """The parameters of a kernel's call: its own, those of every launch, and its options."""
    own = {parameter.name for parameter in parameters}
    texts = [_parameter_text(number, p) for number, p in enumerate(parameters)]
    reserved = [f"{word}=None" for word in RESERVED if word not in own]
    return ", ".join([*texts, *(["*", *reserved] if reserved else []), "**_options"])


Guard: TypeAlias = Callable[[Sequence[Any], Sequence[Any]], tuple[tuple[str, str], ...] | None]
"""Of a call's launch values and what was given for them: pairs that are one array, and of their
equal integers; None if others may meet."""


def compile_guard(
    parameters: Sequence[BoundParameter],
    pairs: Sequence[tuple[str, str]],
    kinds: Mapping[str, Kind],
    name: str,
    alike: Sequence[tuple[str, str, str, str]] = (),
) -> Guard:
    """A function that takes a quick look at the arrays of a call, pair by pair.

    It looks no further than where the lower of two ends, and knows descriptors and PyTorch's
    tensors: pairs of which it says None may be apart all the same.
    """
    lines = [f"def {_function_name(name)}(_values, _given):", "    _same = ()"]
    numbers = {p.name: n for n, p in enumerate(q for q in parameters if not q.constexpr)}
    ends: dict[str, str] = {}
    for argument in sorted({name for pair in pairs for name in pair}):
        number = numbers[argument]
        value, begin, array = f"_values[{number}]", f"_p{number}", f"_a{number}"
        described = is_descriptor(kinds[argument])
        lines.append(f"    {begin} = {value}{'.pointer()' if described else ''}")
        if described:
            ends[argument] = f"{begin} + {value}.geometry.reach <= "
        else:
            lines.append(f"    {array} = _given[{number}]")
            nearby = f"{begin} + {array}.nbytes if {array}.is_contiguous() else _end({array})"
            ends[argument] = f"({nearby}) <= "
    for one, other in pairs:
        a, b = numbers[one], numbers[other]
        if kinds[one].text == kinds[other].text:
            shape = f" and _values[{a}].geometry is _values[{b}].geometry"
            met = f"_p{a} == _p{b}{shape if is_descriptor(kinds[one]) else ''}"
            lines.append(f"    if {met}: _same += (({one!r}, {other!r}),)")
        lines += [
            f"    {'elif' if kinds[one].text == kinds[other].text else 'if'} _p{a} <= _p{b}:",
            f"        if not ({ends[one]}_p{b}): return None",
            f"    elif not ({ends[other]}_p{a}): return None",
        ]
    for one, other, first, second in alike:
        values = f"_given[{numbers[first]}] == _given[{numbers[second]}]"
        pair = f"({first!r}, {second!r})"
        met = f"_same and ({one!r}, {other!r}) in _same and {pair} not in _same and {values}"
        lines.append(f"    if {met}: _same += ({pair},)")
    return _define("\n".join([*lines, "    return _same"]), name, parameters)


def is_descriptor(kind: Kind) -> bool:
    """Whether an argument is a tensor descriptor."""
    return kind.text.startswith("desc<")


def _classification(parameter: BoundParameter, number: int) -> list[str]:
    """Lines that put the argument's kind and its launch value into variables.

    Integers, None and descriptors, which are passed as they are, need no call.
    """
    kind, passed, name = f"_k{number}", f"_v{number}", parameter.name
    if parameter.classifier is not classify:
        return [f"    {kind}, {passed} = _classify{number}({name})"]
    return [
        f"    if {name}.__class__ is _int: {kind} = _integer_kinds[{name}]; {passed} = {name}",
        f"    elif {name} is None: {kind} = _none; {passed} = None",
        f"    elif {name}.__class__ is _descriptor: {kind} = {name}.kind; {passed} = {name}",
        f"    else: {kind}, {passed} = _classifiers[{name}.__class__]({name})",
    ]


def _constant_key(name: str) -> list[str]:
    """What of a call's key stands for a constant: what most are needs no call."""
    kind = f"{name}.__class__"
    return [kind, f"{name} if {kind} in _plain else _exact({name})"]


def _parameter_text(number: int, parameter: BoundParameter) -> str:
    return parameter.name + (f"=_default{number}" if parameter.has_default else "")


def _function_name(name: str) -> str:
    """The kernel's name, which Python's messages about wrong arguments then show."""
    return name if name.isidentifier() and not keyword.iskeyword(name) else "kernel"


def _listed(values: Sequence[str]) -> str:
    return "".join(f"{value}, " for value in values)


def _define(text: str, name: str, parameters: Sequence[BoundParameter]) -> Any:
    scope: dict[str, Any] = {
        "_int": int,
        "_integer_kinds": INTEGER_KINDS,
        "_none": classify(None)[0],
        "_descriptor": TensorDescriptor,
        "_classifiers": CLASSIFIERS,
        "_exact": exact,
        "_plain": PLAIN,
        "_end": end_of,
    }
    scope.update({f"_classify{number}": p.classifier for number, p in enumerate(parameters)})
    scope.update({f"_default{number}": p.default for number, p in enumerate(parameters)})
    exec(compile(text, f"<tawa: binder of {name}>", "exec"), scope)
    return scope[_function_name(name)]


def example_kind(name: str, given: Any, parameter: BoundParameter | None) -> Kind | TupleKind:
    """The kind of an example value, or of what the text of its type says.

    `parameter` is that of an argument, None for a part of a tuple. Raises `BadTypeText`.
    """
    if isinstance(given, tuple) and given:
        parts = cast("tuple[Any, ...]", given)
        kinds = tuple(example_kind(name, part, None) for part in parts)
        return tuple_kind(kinds, fields_of(given))
    if isinstance(given, str):
        return type_kind(name, given)
    element = _element_of_stand_in(given)
    if element is not None:
        return kind_of(f"*{element}", divisible=True)
    return (classify_part if parameter is None else parameter.classifier)(given)[0]


def _element_of_stand_in(given: Any) -> str | None:
    """The element type if a dtype, or an object with nothing but one, stands for an array."""
    stands = is_stand_in(given)
    dtype = given.dtype if stands else given
    if not stands and type(dtype).__name__ != "dtype":
        return None
    name = str(dtype).removeprefix("torch.")
    return DTYPE_NAMES.get(name, {"fp16": "f16", "fp32": "f32", "fp64": "f64"}.get(name, name))


def type_kind(name: str, text: str) -> Kind:
    """The kind that a type's text names. Raises `BadTypeText`."""
    type_, _, rest = text.partition(":")
    known = type_.startswith(("*", "desc<")) or type_ in SCALAR_CODES
    if not known or rest not in ("", "16", "1", "=1", "+"):
        raise BadTypeText(
            f"the type of argument `{name}` can't be read",
            expected="`*f16`, `desc<f16,128x64>`, `i32` or `f32`",
            found=repr(text),
            hint="give an array or a number instead, and its type is taken",
        )
    divisible, positive, unit = rest == "16", rest == "+", rest == "=1"
    return kind_of(type_, divisible, rest == "1", positive=positive, unit=unit)


def selected(
    names: Sequence[str], wanted: Sequence[str]
) -> Callable[[Sequence[Any]], tuple[Any, ...]] | None:
    """A function that picks, of a call's values, those of some arguments and of parts of tuples.

    None if that is all of them in order.
    """
    pick = selector([names.index(name) for name in wanted], len(names))
    if not any("." in name for name in names):
        return pick

    def of_parts(values: Sequence[Any]) -> tuple[Any, ...]:
        parts = tuple(parts_of(values))
        return parts if pick is None else pick(parts)

    return of_parts


def selector(
    numbers: Sequence[int], count: int
) -> Callable[[Sequence[Any]], tuple[Any, ...]] | None:
    """A function that picks these of `count` values; None if that is all of them in order."""
    if list(numbers) == list(range(count)):
        return None
    if len(numbers) == 1:
        only = numbers[0]
        return lambda values: (values[only],)
    return itemgetter(*numbers) if numbers else lambda values: ()
