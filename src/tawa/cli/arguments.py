"""Argument types, constants and launch options as they are written on the command line.

--arg a=desc:f16[128,64]   a tensor descriptor of f16 with blocks of 128 x 64
--arg x=ptr:f32            a pointer to f32 (Triton's `*fp32` is understood too)
--arg n=i32                a number
--const BLOCK=128          a constexpr parameter: a Python literal
--option num_stages=4      a launch option: a field of `tawa.base.options.Options`
"""

from __future__ import annotations

import ast
import re
import typing
from collections.abc import Iterable
from dataclasses import fields
from difflib import get_close_matches
from types import NoneType
from typing import Any

from tawa.base.errors import TawaError
from tawa.base.options import Options
from tawa.runtime.arrays import ELEMENT_BYTES

ALIASES = {
    "fp16": "f16",
    "fp32": "f32",
    "fp64": "f64",
    "fp8e4nv": "e4m3",
    "fp8e5": "e5m2",
    "int1": "i1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
}
"""Triton's names of element types, by the names used here."""

FORMS = "`desc:f16[128,64]`, `ptr:f32` or `i32`"

TYPE = re.compile(
    r"""
    (?P<desc>desc) (?: : (?P<element>\w+) \[ (?P<extents>[\d,]+) \]
                     | < (?P<element_>\w+) , (?P<extents_>[\dx]+) > )
    | (?P<pointer>\*|ptr:)? (?P<scalar>\w+) (?P<divisible>:16)?
    """,
    re.VERBOSE,
)


class NotAnAssignment(TawaError):
    """An option of the command line that takes NAME=VALUE has no `=`."""

    explanation = (
        "`--arg`, `--const` and `--option` each take a name and a value, joined by `=`: "
        "`--const BLOCK=128`."
    )
    example = """
from tawa.cli.arguments import assignments

assignments("--const", ["BLOCK"])
"""


class BadArgumentType(TawaError):
    """The type of a kernel argument on the command line can't be read."""

    explanation = (
        "A kernel argument is a tensor descriptor (`desc:f16[128,64]`, with the shape of its "
        "blocks), a pointer (`ptr:f32`) or a number (`i32`). Element types are "
        f"{', '.join(f'`{name}`' for name in ELEMENT_BYTES)}."
    )
    example = """
from tawa.cli.arguments import argument_type

argument_type("a", "tensor:half")
"""


class BadConstant(TawaError):
    """The value of a constexpr parameter on the command line is not a Python literal."""

    explanation = (
        "`--const NAME=VALUE` takes a number, `True`, `False`, `None`, a quoted string, or a tuple "
        "of these."
    )
    example = """
from tawa.cli.arguments import constant

constant("BLOCK", "4 * 32")
"""


class UnknownOption(TawaError):
    """There is no launch option of this name."""

    explanation = (
        "`--option NAME=VALUE` sets a launch option: a field of `tawa.Options`, such as "
        "`num_stages`, `consumers` or `persistent`."
    )
    example = """
from tawa.cli.arguments import option_values

option_values({"num_stage": "4"})
"""


class BadOptionValue(TawaError):
    """The value of a launch option has the wrong type."""

    explanation = (
        "Launch options are whole numbers, `True` or `False`, or names; many also take `None`, "
        "which leaves the choice to the compiler."
    )
    example = """
from tawa.cli.arguments import option_values

option_values({"num_stages": "many"})
"""


def assignments(option: str, texts: Iterable[str]) -> dict[str, str]:
    """The names and values of `NAME=VALUE` texts given to `option`."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise NotAnAssignment(
                f"{option} needs a name and a value",
                expected=f"{option} NAME=VALUE",
                found=f"{option} {text}",
            )
        found[name.strip()] = value.strip()
    return found


def argument_type(name: str, text: str) -> str:
    """The type that `text` names, as `kernel.compile` takes it. Raises `BadArgumentType`."""
    match = TYPE.fullmatch(text.replace(" ", ""))
    if match is not None:
        written = match["element"] or match["element_"] or match["scalar"]
        element = ALIASES.get(written, written)
        extents = re.findall(r"\d+", match["extents"] or match["extents_"] or "")
        if element in ELEMENT_BYTES and bool(extents) == bool(match["desc"]):
            if match["desc"]:
                return f"desc<{element},{'x'.join(extents)}>"
            return ("*" if match["pointer"] else "") + element + (match["divisible"] or "")
    raise BadArgumentType(
        f"the type of argument `{name}` can't be read",
        expected=FORMS,
        found=f"`{text}`",
        hint=f"element types are {', '.join(ELEMENT_BYTES)}",
    )


def constant(name: str, text: str) -> Any:
    """The value of the constexpr parameter `name`. Raises `BadConstant`."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:
        raise BadConstant(
            f"the value of `{name}` is not a Python literal",
            expected="a number, True, False, None, a quoted string, or a tuple of these",
            found=f"`{text}`",
            hint="compute it first; quote a text for the shell: --const \"NAME='text'\"",
        ) from error


def option_values(texts: dict[str, str]) -> dict[str, Any]:
    """The values of launch options given as text. Raises `UnknownOption`, `BadOptionValue`."""
    hints = typing.get_type_hints(Options)
    known = {field.name: hints[field.name] for field in fields(Options)}
    return {name: _option_value(name, text, known) for name, text in texts.items()}


def _option_value(name: str, text: str, known: dict[str, Any]) -> Any:
    if name not in known:
        close = get_close_matches(name, known, n=1)
        raise UnknownOption(
            f"there is no launch option `{name}`",
            expected=f"one of {', '.join(known)}",
            found=f"`{name}`",
            hint=f"did you mean `{close[0]}`?" if close else "leave it out",
        )
    types = typing.get_args(known[name]) or (known[name],)
    value = text if types == (str,) else _literal(text)
    if type(value) not in types:
        wanted = " or ".join("None" if kind is NoneType else kind.__name__ for kind in types)
        raise BadOptionValue(
            f"launch option `{name}`",
            expected=wanted,
            found=f"`{text}`",
            hint=f"leave `{name}` out for its default",
        )
    return value


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
