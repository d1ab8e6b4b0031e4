"""What the annotation of a parameter says about the arguments it takes, by Triton's rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tawa.language import dtypes
from tawa.language.dtypes import dtype

PYTHON_NAMES = {"int": "int32", "float": "float32", "half": "float16", "double": "float64"}
"""Names of types besides those of the language."""


@dataclass(frozen=True)
class Declaration:
    """What an annotation declares besides `tl.constexpr`.

    `type`: the type in signature notation (`i64`, `*f16`) that every argument is passed as, empty
    if the argument decides; `const`: nothing may be stored through the pointer.
    """

    type: str = ""
    const: bool = False


def declaration_of(annotation: Any) -> Declaration:
    """What an annotation declares; annotations that are not Triton's declare nothing."""
    text = _normalized(annotation)
    const = text.startswith("*k") or text == "const"
    stars = len(text) - len(text.lstrip("*"))
    name = text.lstrip("*").removeprefix("k") if const else text.lstrip("*")
    try:
        element = dtypes.dtype_named(PYTHON_NAMES.get(name, name))
    except KeyError:
        return Declaration(const=const)
    if stars > 1 or (element.is_fp8() and not stars):
        return Declaration(const=const)
    return Declaration("*" * stars + signature_name(element), const)


def signature_name(element: dtype) -> str:
    """A type in signature notation: `i64`, `u8`, `f16`, `bf16`."""
    if element.is_int():
        return (
            f"{'u' if not element.signed and not element.is_int1() else 'i'}{element.int_bitwidth}"
        )
    if element.is_fp8() or element.is_bf16():
        return {"fp8e4nv": "e4m3", "fp8e5": "e5m2"}.get(element.name, element.name)
    return f"f{element.primitive_bitwidth}"


def _normalized(annotation: Any) -> str:
    """The annotation as text: `*k` before the element of a pointer that is only read."""
    if isinstance(annotation, str):
        return _of_text(annotation.strip())
    element = getattr(annotation, "element_ty", None)
    if element is not None:
        return ("*k" if getattr(annotation, "const", False) else "*") + _normalized(element)
    name = getattr(annotation, "name", None) or getattr(annotation, "__name__", None)
    return name.removesuffix("_t") if isinstance(name, str) else ""


def _of_text(text: str) -> str:
    if text.startswith("const "):
        pointer = _of_text(text.removeprefix("const ").strip())
        return f"*k{pointer.removeprefix('*')}"
    if text.endswith("*"):
        return "*" + _of_text(text.removesuffix("*").strip())
    if text.startswith("*"):
        return "*" + _of_text(text[1:])
    return text.removeprefix("tl.").removesuffix("_t")
