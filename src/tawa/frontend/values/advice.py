"""What to do instead: hints for names and syntax that other languages have and kernels do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from tawa import language
from tawa.frontend.values.values import Descriptor, Tensor, Value, describe, is_array_of_host
from tawa.language.dtypes import pointer_type

NOT_YET: dict[str, str] = {
    "float8e4b15": "use `tl.float8e4nv`, Hopper's own format",
    "float8e4b8": "use `tl.float8e4nv`, Hopper's own format",
    "float8e5b16": "use `tl.float8e5`, Hopper's own format",
}
"""Names of Triton's language that are not there, and what to write instead."""

SYNTAX = {
    "Lambda": "define a function with `@tawa.jit`",
    "GeneratorExp": "use `tl.static_range`, and tuples",
    "DictComp": "use several variables",
    "Dict": "use several variables, or a tuple",
    "Set": "use a tuple",
    "NamedExpr": "assign in a statement of its own, before",
    "Match": "use `if` and `elif`",
    "Await": "loads are made asynchronous by the compiler",
    "Yield": "return a tuple",
    "Try": "check with `tl.device_assert`",
    "With": "write the block without `with`",
    "Delete": "leave the variable alone",
    "Raise": "check with `tl.device_assert` or `tl.static_assert`",
    "ClassDef": "pass several arguments, or a tuple",
}
"""What to write in the place of a syntax, by the name of its node."""


WORDS = {
    "Lambda": "`lambda`",
    "SetComp": "a set comprehension",
    "DictComp": "a dict comprehension",
    "GeneratorExp": "a generator expression",
    "Dict": "a dict",
    "Set": "a set",
    "NamedExpr": "`:=`",
    "Await": "`await`",
    "Yield": "`yield`",
    "JoinedStr": "a formatted text",
}
"""What expressions that kernels don't have are called, by the name of their node."""


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """The known name that is most like `name`, as a question; else what to do without one."""
    near = get_close_matches(name, list(known), n=1)
    return f"did you mean `{near[0]}`?" if near else otherwise


def shown_call(arguments: Sequence[Value], keywords: Mapping[str, Value]) -> str:
    """What a call was given: its values in words, by position and by name."""
    given = [describe(value) for value in arguments]
    given += [f"{name}={describe(value)}" for name, value in keywords.items()]
    return ", ".join(given) or "no arguments"


def keyword_hint(keywords: Iterable[str], known: Iterable[str]) -> str:
    """What to do about a call that does not fit a function with the parameters `known`."""
    names = list(known)
    strange = [keyword for keyword in keywords if keyword not in names]
    otherwise = "pass each parameter once, by position or by name"
    return did_you_mean(strange[0], names, otherwise) if strange else otherwise


def attribute_hint(value: Value, name: str) -> str | None:
    """What to do when a value has no such attribute."""
    if isinstance(value, tuple):
        return "a list is a tuple in a kernel: write `parts = parts + (x,)`"
    if isinstance(value, Tensor) and isinstance(value.dtype, pointer_type):
        if name in ("load", "store"):
            return (
                f"use `tl.{name}(pointer + offsets, ...)`, or pass a `tawa.TensorDescriptor` "
                f"and use `.{name}`"
            )
        return "load through the pointer first, with `tl.load`"
    if isinstance(value, Tensor) and hasattr(language, name):
        return f"call it as a function: `tl.{name}(...)`"
    return None


def operand_hint(value: Value) -> str | None:
    """What to do with a value that is no number and no tensor."""
    if isinstance(value, Descriptor):
        return "load a block first, as in `desc.load([row, column])`; pointers are other arguments"
    if value is None:
        return "it is None in this launch: test it, as in `if x is not None`"
    if isinstance(value, tuple):
        return "take an element of the tuple, as in `x[0]`"
    if is_array_of_host(value):
        return "pass the array to the kernel, as an argument that is no `tl.constexpr`"
    return None


def call_hint(name: str) -> str | None:
    """What to call in the place of a function that kernels can't call."""
    for place, text in ((language, "tl"), (language.math, "tl.math")):
        if not name.startswith("_") and callable(getattr(place, name, None)):
            return f"use `{text}.{name}`"
    return None
