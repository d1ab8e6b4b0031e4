"""Types and operators of the Python that natives are written in."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable

from tawa.cuppl.core.ir import Branch, Jump, Terminator, Type

__all__ = [
    "ANNOTATIONS",
    "BINARY",
    "COMPARE",
    "ELEMENTS",
    "PRIMITIVES",
    "VECTOR_OFFSET",
    "WORDS_HEADER",
    "annotation",
    "result_types",
    "signature",
    "source_of",
    "targets",
    "type_of",
]

VECTOR_OFFSET = 2
"""Words before the elements of a vector: header and length."""

WORDS_HEADER = 2  # header(layout=0, tag=VECTOR_TAG)
"""Header of a vector whose elements are plain words (layout 0, see `layout.py`)."""

ANNOTATIONS = {
    "float": Type.F64,
    "int": Type.I64,
    "bool": Type.BOOL,
    "FloatVector": Type.REF,
    "IntVector": Type.REF,
    "Floats": Type.I64,
    "Ints": Type.I64,
}
ELEMENTS = {
    "FloatVector": (Type.F64, VECTOR_OFFSET),
    "IntVector": (Type.I64, VECTOR_OFFSET),
    "Floats": (Type.F64, 0),
    "Ints": (Type.I64, 0),
}
BINARY: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("addf", "addi"),
    ast.Sub: ("subf", "subi"),
    ast.Mult: ("mulf", "muli"),
    ast.Div: ("divf", ""),
    ast.FloorDiv: ("", "divi"),
    ast.Mod: ("", "modi"),
    ast.BitAnd: ("", "andi"),
    ast.BitOr: ("", "ori"),
    ast.BitXor: ("", "xori"),
    ast.LShift: ("", "shl"),
    ast.RShift: ("", "shr"),
}
COMPARE: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("eqf", "eqi"),
    ast.NotEq: ("nef", "nei"),
    ast.Lt: ("ltf", "lti"),
    ast.LtE: ("lef", "lei"),
    ast.Gt: ("gtf", "gti"),
    ast.GtE: ("gef", "gei"),
}
PRIMITIVES = {
    "fma", "sqrt", "floor", "int_in_range", "bits_of", "float_of_bits", "shru", "swap_halves"
}  # fmt: skip


def signature(function: Callable[..., object]) -> tuple[list[Type], tuple[Type, ...]]:
    """Types of a native's parameters and results."""
    annotations = dict(function.__annotations__)
    returned = result_types(ast.parse(str(annotations.pop("return")), mode="eval").body)
    names = [str(a) for a in annotations.values()]
    return [ANNOTATIONS[n] for n in names if n != "Context"], returned


def annotation(node: ast.expr | None) -> str:
    """The name that an annotation is."""
    if isinstance(node, ast.Name):
        return node.id
    raise ValueError("a native's parameters need annotations")


def result_types(node: ast.expr | None) -> tuple[Type, ...]:
    """Types of what an annotation says is returned."""
    match node:
        case None | ast.Constant(value=None):
            return ()
        case ast.Name(id=name):
            return (ANNOTATIONS[name],)
        case ast.Subscript(slice=ast.Tuple(elts=elts)):
            return tuple(ANNOTATIONS[annotation(e)] for e in elts)
        case _:
            return ()


def type_of(value: float | int | bool) -> Type:
    """The type of a constant."""
    if isinstance(value, bool):
        return Type.BOOL
    return Type.I64 if isinstance(value, int) else Type.F64


def targets(terminator: Terminator | None, name: str) -> bool:
    """Whether a terminator may go to a block."""
    match terminator:
        case Jump(target):
            return target == name
        case Branch(_, then, other):
            return name in (then, other)
        case _:
            return False


def source_of(function: Callable[..., object]) -> str:
    """The text of a top-level function: up to the next line that is not indented.

    `inspect.getsource` would find the same, by breaking the file into tokens.
    """
    code = function.__code__  # type: ignore[attr-defined]
    lines = linecache.getlines(code.co_filename)
    first = last = code.co_firstlineno - 1
    while not lines[last].startswith("def "):
        last += 1
    last += 1
    while last < len(lines) and (lines[last][:1] in " )\n" or not lines[last].strip()):
        last += 1
    return "".join(lines[first:last])
