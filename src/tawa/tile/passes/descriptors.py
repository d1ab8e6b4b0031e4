"""Descriptors made in the kernel become arguments: the host makes them from the launch's arguments.

A descriptor that the kernel computes from its arguments is the same in every program, so its tensor
map can be encoded once, on the host. Nothing is written to global memory for it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from tawa.base.errors import TawaError
from tawa.base.spans import span_of
from tawa.ir.contracts import Contract
from tawa.ir.kernels import add_arguments, let_host_make
from tawa.ir.properties import ARGUMENT_DESCRIPTORS, ONE_PROGRAM, TIDY
from tawa.ir.walking import every
from tawa.tile.analysis.host_expressions import host_base, host_expression, size_expression
from tawa.tile.dialect.ops import DescBase, DescSize, MakeDesc


class DescriptorNotUniform(TawaError):
    """A descriptor that a loop carries or a branch chooses depends on more than the arguments."""

    explanation = (
        "Where a program chooses among descriptors of several paddings, the host makes them, once "
        "a launch. So their bases, shapes and strides may only use the kernel's arguments, "
        "constants and integer arithmetic on them. The same holds for a descriptor that is asked "
        "for its sizes. Give all descriptors one `padding_option`."
    )
    example = """
import tawa
import tawa.language as tl


@tawa.jit
def either(x, y, n, N: tl.constexpr):
    start = tl.program_id(0) * n
    first = tl.make_tensor_descriptor(x + start, [N, n], [n, 1], [N, 64], "nan")
    second = tl.make_tensor_descriptor(y + start, [N, n], [n, 1], [N, 64])
    tiles = first if n > 64 else second
    tiles.store([0, 0], tiles.load([0, 0]))


either.compile("*f16:16", "*f16:16", "i32:16", 64)
"""


def _number(op: DescSize) -> str:
    value = size_expression(op)
    if value is None:
        raise DescriptorNotUniform(
            "the size of a descriptor that differs from iteration to iteration",
            span=span_of(op),
            expected="a descriptor that the launch passes",
            found="one that a loop or a branch chooses",
            hint="choose among sizes instead",
        )
    return json.dumps({"value": value})


def _base(op: DescBase) -> str:
    desc = op.desc
    assert isinstance(desc, BlockArgument)
    return json.dumps({"base": desc.index})


def _recipe(op: MakeDesc) -> str:
    base = host_base(op.base)
    shape = [host_expression(v) for v in op.shape]
    strides = [host_expression(v) for v in op.strides]
    if base is None or None in shape or None in strides:
        part = "base" if base is None else "shape" if None in shape else "strides"
        raise DescriptorNotUniform(
            f"the {part} of this descriptor is not computed from the kernel's arguments alone",
            span=span_of(op),
            expected="arguments, constants and integer arithmetic on them",
            found="a value that depends on the program or on loaded data",
            hint="give the descriptors that are chosen from one `padding_option`",
        )
    padding = op.padding.data if op.padding else "zero"
    record = {
        "arg": base[0],
        "offset": base[1],
        "shape": shape,
        "strides": strides,
        "fill": padding,
    }
    return json.dumps(record)


def _how(op: DescBase | DescSize | MakeDesc) -> str:
    match op:
        case DescBase():
            return _base(op)
        case DescSize():
            return _number(op)
        case MakeDesc():
            return _recipe(op)


@dataclass(frozen=True)
class HoistDescriptors:
    """Turn every descriptor that is made, and parts of those given, into arguments of the host."""

    name: ClassVar[str] = "hoist-descriptors"
    contract: ClassVar[Contract] = Contract(
        requires=(ONE_PROGRAM,), establishes=(ARGUMENT_DESCRIPTORS,), invalidates=(TIDY,)
    )

    def apply(self, module: ModuleOp) -> None:
        """Rewrite the module's kernel; its attribute `tawa.made` lists the recipes in order."""
        for kernel in module.ops:
            if isinstance(kernel, func.FuncOp):
                self._kernel(kernel)

    def _kernel(self, kernel: func.FuncOp) -> None:
        made: dict[tuple[str, str], SSAValue] = {}
        given = len(kernel.args)
        found = [op for op in every(kernel) if isinstance(op, DescBase | DescSize | MakeDesc)]
        # All recipes first: what they are made of is replaced.
        recipes = [_how(op) for op in found]
        for op, recipe in zip(found, recipes, strict=True):
            key = (recipe, str(op.result.type))
            if key not in made:
                (made[key],) = add_arguments(kernel, [op.result.type])
                made[key].name_hint = op.result.name_hint
            op.result.replace_all_uses_with(made[key])
        for op in reversed(found):
            _erase(op)
        let_host_make(kernel, given, [recipe for recipe, _ in made])


def _erase(op: Operation) -> None:
    op.detach()
    op.erase()
