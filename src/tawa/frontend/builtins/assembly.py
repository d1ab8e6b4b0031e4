"""Meaning of inline assembly."""

from __future__ import annotations

from tawa import language as tl
from tawa.frontend.builtins.shapes import dtype_argument, tensor_argument
from tawa.frontend.source.errors import BadArgument
from tawa.frontend.source.registry import lowers
from tawa.frontend.syntax.calls import FunctionCompiler
from tawa.frontend.values import conversion
from tawa.frontend.values.arithmetic import constant_int
from tawa.frontend.values.conversion import fail
from tawa.frontend.values.values import Tensor, Value, describe, ir_element, is_tuple, items_of
from tawa.ir.scalars.assembly import Assembly
from tawa.language.dtypes import dtype, int1
from tawa.tile.dialect import ops


@lowers(tl.inline_asm_elementwise)
def inline_asm_elementwise(
    f: FunctionCompiler,
    asm: Value,
    constraints: Value,
    args: Value,
    dtype: Value,
    is_pure: Value,
    pack: Value,
) -> Value:
    """`tl.inline_asm_elementwise`."""
    for value, name in ((asm, "asm"), (constraints, "constraints")):
        if not isinstance(value, str):
            raise fail(
                f.b,
                BadArgument,
                f"`{name}` of `tl.inline_asm_elementwise` is a compile-time string",
                found=describe(value),
            )
    operands = [tensor_argument(f, v, "tl.inline_asm_elementwise") for v in items_of(args)]
    operands = conversion.broadcast(f.b, *operands) if operands else []
    types = [dtype_argument(f, t) for t in (items_of(dtype) if is_tuple(dtype) else (dtype,))]
    shape = operands[0].shape if operands else ()
    text = Assembly(str(asm), str(constraints), constant_int(f.b, pack, "`pack`"))
    elements = [ir_element(t) for t in types]
    _check(f, text, types, operands)
    kind = ops.Asm if is_pure else ops.AsmEffect
    op = f.b.add(kind(text, [v.ssa for v in operands], elements, shape))
    found = [Tensor(r, t, shape) for r, t in zip(op.outputs, types, strict=True)]
    return tuple(found) if is_tuple(dtype) else found[0]


def _check(f: FunctionCompiler, text: Assembly, types: list[dtype], operands: list[Tensor]) -> None:
    """Raise BadArgument where registers and constraints do not agree."""
    if any(t == int1 for t in (*types, *(v.dtype for v in operands))):
        problem = "a bool has no register"
    elif text.pack < 1:
        problem = f"`pack` is {text.pack}"
    else:
        found = [ir_element(v.dtype) for v in operands]
        problem = text.problem([ir_element(t) for t in types], found)
    if problem is not None:
        raise fail(
            f.b,
            BadArgument,
            "the constraints of `tl.inline_asm_elementwise` do not fit its types",
            expected="one constraint for each register, results (`=r`) first; `pack` elements of "
            "fewer than 32 bits share 32-bit registers",
            found=f"{problem}: {text.constraints!r} with pack={text.pack}",
        )
