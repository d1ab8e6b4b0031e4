"""Copies and texts of IR are xDSL's own, made with less work; so is what `isinstance` says."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import pytest
from plain_products import gemm
from tests.work import calls_made
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, ParametrizedAttribute, Region

from tawa.ir.copying import copied, copied_region
from tawa.ir.instances import ByBases, ask_bases
from tawa.ir.text import text_of_op
from tawa.ir.walking import every

GEMM = ("desc<f16,128x64>", "desc<f16,128x64>", "desc<f16,128x128>", "i32")


def uses(top: Operation) -> list[Any]:
    """Who uses each value, in order, by number."""
    ops = every(top)
    numbers = {op: number for number, op in enumerate(ops)}
    values = [v for op in ops for v in (*op.results, *(a for r in op.regions for b in r.blocks for a in b.args))]  # fmt: skip
    return [[(numbers[use.operation], use.index) for use in value.uses] for value in values]


@pytest.mark.parametrize("level", ["tile", "aref", "hopper"])
def test_copies_are_the_same(level: str) -> None:
    module = gemm.compile(*GEMM).module(level)
    other, plain = copied(module), module.clone()
    assert str(other) == str(plain) == str(module)
    assert uses(other) == uses(plain)
    for op, twin in zip(every(module), every(other), strict=True):
        assert op is not twin
        assert op.properties is not twin.properties
        assert op.attributes is not twin.attributes
    other.verify()
    assert calls_made(lambda: copied(module)) < 0.75 * calls_made(lambda: module.clone())
    assert text_of_op(module) == str(module)
    assert calls_made(lambda: text_of_op(module)) < 0.8 * calls_made(lambda: str(module))


def test_a_region_uses_what_is_outside() -> None:
    outside = Made(result_types=[i32])
    block = Block(arg_types=[i32])
    block.add_op(Made([block.args[0], outside.results[0]], [i32]))
    block.add_op(Made([block.first_op.results[0]]))  # type: ignore[union-attr]
    region = Region(block)
    copy = copied_region(region)
    first, last = copy.block.ops
    assert first.operands[0] is copy.block.args[0]
    assert first.operands[1] is outside.results[0]
    assert last.operands[0] is first.results[0]
    assert len(list(outside.results[0].uses)) == 2
    assert copy.parent is None


def test_instances_are_those_that_inherit() -> None:
    ask_bases()
    constant = arith.ConstantOp.from_int_and_width(1, i32)

    class Late(Made):
        """A class of later."""

    class Unfinished(ParametrizedAttribute):
        """A class that says less than it has to."""

        @abstractmethod
        def more(self) -> None: ...

    for kind in (Late, Unfinished, scf.ForOp, ModuleOp, type(i32), Block):
        assert type(kind) is ByBases
    assert isinstance(constant, Operation | Block)
    assert isinstance(constant, arith.ConstantOp)
    assert not isinstance(constant, scf.ForOp | Late)
    assert issubclass(Late, Made)
    assert not issubclass(Made, Late)
    with pytest.raises(TypeError, match="abstract"):
        Unfinished()
    asked = calls_made(lambda: isinstance(constant, scf.ForOp))
    assert asked == calls_made(lambda: isinstance(constant, int))
