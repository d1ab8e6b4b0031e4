"""Meaning of `tl.map_elementwise`: a function of scalars on the elements of tensors.

The function is compiled for scalars, where its branches are ordinary ones, and what that gives is
then done on whole tensors: both sides of a branch are computed, and each element takes its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.dialects.arith import ConstantOp
from xdsl.ir import Block, SSAValue

from tawa import language as tl
from tawa.frontend.builtins.shapes import reshape, tensor_argument
from tawa.frontend.source.errors import BadArgument, NotSupported, TypeMismatch
from tawa.frontend.source.registry import lowers
from tawa.frontend.syntax.calls import FunctionCompiler
from tawa.frontend.values import conversion
from tawa.frontend.values.arithmetic import constant_int
from tawa.frontend.values.builder import Builder
from tawa.frontend.values.conversion import fail
from tawa.frontend.values.values import (
    ElementType,
    Tensor,
    Value,
    describe,
    ir_element,
    items_of,
)
from tawa.ir.elementwise import Map
from tawa.tile.dialect import ops

NAME = "tl.map_elementwise"


@lowers(tl.map_elementwise)
def map_elementwise(f: FunctionCompiler, scalar_fn: Value, args: Value, pack: Value) -> Value:
    """`tl.map_elementwise`."""
    count = constant_int(f.b, pack, f"`pack` of `{NAME}`")
    values = conversion.broadcast(f.b, *(tensor_argument(f, v, NAME) for v in items_of(args)))
    _check_pack(f, values, count)
    parts = [part for value in values for part in _neighbours(f, value, count)]
    with f.b.inside(Block(arg_types=[ir_element(p.dtype) for p in parts])) as block:
        elements = [Tensor(a, p.dtype) for a, p in zip(block.args, parts, strict=True)]
        results = items_of(f.call(scalar_fn, elements, {}))
        types = _types(f, results, count)
    replay = _Replay(f.b, parts[0].shape)
    known: dict[SSAValue, SSAValue] = dict(zip(block.args, (p.ssa for p in parts), strict=True))
    replay.run(f, block, known)
    found = [
        Tensor(replay.tensor(known, r.ssa), t, parts[0].shape)
        for r, t in zip(results, types, strict=True)
    ]
    shape = values[0].shape
    groups = [found[first : first + count] for first in range(0, len(found), count)]
    whole = [reshape(f, _side_by_side(f, g), shape, can_reorder=False) for g in groups]
    return whole[0] if len(whole) == 1 else tuple(whole)


def _check_pack(f: FunctionCompiler, values: Sequence[Tensor], count: int) -> None:
    last = values[0].shape[-1] if values and values[0].shape else 0
    if not last or count < 1 or count & (count - 1) or last % count:
        raise fail(
            f.b,
            BadArgument,
            f"`{NAME}` with pack={count}",
            expected="tensors, whose last dimension is a multiple of `pack`, a power of two",
            found=", ".join(v.describe() for v in values) or "no tensor",
        )


def _types(f: FunctionCompiler, results: Sequence[Value], count: int) -> list[ElementType]:
    """The types of what the function gives: scalars, `pack` of them for each result."""
    fits = bool(results) and len(results) % count == 0
    groups = [results[first : first + count] for first in range(0, len(results), count)]
    for group in groups:
        same = all(isinstance(r, Tensor) and not r.shape for r in group)
        fits = fits and same and len({r.dtype for r in group}) == 1
    if not fits:
        raise fail(
            f.b,
            TypeMismatch,
            f"the function of `{NAME}` gives what no tensor can be made of",
            expected="scalars, as many of one type as `pack` says for each result",
            found=", ".join(describe(r) for r in results) or "nothing",
        )
    return [r.dtype for r in results]


class _Replay:
    """Does on tensors of one shape what a block does on scalars."""

    def __init__(self, b: Builder, shape: tuple[int, ...]) -> None:
        self.b = b
        self.shape = shape

    def tensor(self, known: dict[SSAValue, SSAValue], value: SSAValue) -> SSAValue:
        """What stands for a scalar of the block; one of the kernel is the same everywhere."""
        if value not in known:
            known[value] = self.b.add(ops.Splat(value, self.shape)).result
        return known[value]

    def run(self, f: FunctionCompiler, block: Block, known: dict[SSAValue, SSAValue]) -> None:
        """Do the ops of a block; `known` has the tensors that stand for scalars."""
        for op in block.ops:
            if isinstance(op, Map):
                operands = [self.tensor(known, v) for v in op.arguments]
                known[op.result] = self.b.map(
                    op.function.data, *operands, result=op.result.type
                )  # fmt: skip
            elif isinstance(op, ConstantOp | ops.ProgramId | ops.NumPrograms):
                scalar = self.b.add(op.clone()).results[0]
                known[op.results[0]] = self.b.add(ops.Splat(scalar, self.shape)).result
            elif isinstance(op, scf.IfOp):
                self._choose(f, op, known)
            elif not isinstance(op, scf.YieldOp):
                message = f"`{op.name}` in the function of `{NAME}`"
                raise fail(f.b, NotSupported, message, expected="arithmetic and branches")

    def _choose(self, f: FunctionCompiler, op: scf.IfOp, known: dict[SSAValue, SSAValue]) -> None:
        sides: list[list[SSAValue]] = []
        for region in op.regions:
            if not region.blocks:
                continue
            inner = dict(known)
            self.run(f, region.block, inner)
            last = region.block.last_op
            assert isinstance(last, scf.YieldOp)
            sides.append([self.tensor(inner, v) for v in last.operands])
        test = self.tensor(known, op.cond)
        for result, *pair in zip(op.results, *sides, strict=True):
            known[result] = self.b.map("select", test, *pair)


# --- elements side by side ----------------------------------------------------------------------


def _neighbours(f: FunctionCompiler, value: Tensor, count: int) -> list[Tensor]:
    """Tensors of the first, second, ... of each `count` elements along the last dimension."""
    if count == 1:
        return [value]
    *rest, last = value.shape
    bits = count.bit_length() - 1
    return _split(
        f, reshape(f, value, (*rest, last // count, *[2] * bits), can_reorder=False), bits
    )


def _split(f: FunctionCompiler, value: Value, bits: int) -> list[Tensor]:
    if not bits:
        return [value]
    sides = [_split(f, side, bits - 1) for side in f.call(tl.split, [value], {})]
    return [part for pair in zip(*sides, strict=True) for part in pair]


def _side_by_side(f: FunctionCompiler, parts: list[Tensor]) -> Tensor:
    """The opposite of `_neighbours`, but for the shape."""
    if len(parts) == 1:
        return parts[0]
    sides = [_side_by_side(f, parts[first::2]) for first in (0, 1)]
    return f.call(tl.join, list(sides), {})
