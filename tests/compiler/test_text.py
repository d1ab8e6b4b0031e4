"""Modules are printed as xDSL prints them, letter for letter."""

from __future__ import annotations

from io import StringIO

import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, StringAttr, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Region
from xdsl.printer import Printer

from tawa.ir.text import TextPrinter, text_of_op


@pytest.mark.parametrize("indent", [None, 0, 1, 3])
@pytest.mark.parametrize("deep", [0, 1, 2])
def test_texts_of_several_lines_are_indented(deep: int, indent: int | None) -> None:
    stream = StringIO()
    own, plain = TextPrinter(), Printer(stream=stream)
    for printer in (own, plain):
        printer._indent = deep
        printer.print_string("one\ntwo\n\nthree", indent=indent)
        printer._print_new_line(indent)
        printer.print_string("four")
    assert own.text() == stream.getvalue()


def test_modules_are_printed_alike() -> None:
    condition, bound = Made(result_types=[i32]), Made(result_types=[i32])
    inner = Block(
        [Made(attributes={"a": StringAttr("x\ny"), "b": DenseArrayBase.from_list(i32, [1, 2])})]
    )
    inner.add_op(scf.YieldOp())
    body = Block([Made(regions=[Region(inner)]), scf.YieldOp()], arg_types=[i32])
    loop = scf.ForOp(condition.results[0], bound.results[0], bound.results[0], [], body)
    module = ModuleOp([condition, bound, loop])
    assert text_of_op(module) == str(module)
    assert text_of_op(loop) == str(loop)
