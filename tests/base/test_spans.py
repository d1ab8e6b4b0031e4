import ast
import linecache
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects import test
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.ir import Dialect, Region
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from tawa.base.source import remember_source
from tawa.base.spans import Span, SpanAttr, copy_span, set_span, source_line, span_of
from tawa.functional.parser import remember_program


def context() -> Context:
    made = Context()
    for dialect in (Builtin, test.Test, Dialect("tawa", [], [SpanAttr])):
        made.load_dialect(dialect)
    return made


numbers = st.integers(0, 2**31)
files = st.text(st.characters(codec="utf-8"), min_size=1)
spans = st.builds(Span, files, numbers, numbers, numbers, numbers)


@given(spans)
def test_text_round_trip(span: Span):
    attribute = SpanAttr(span)
    assert attribute.span == span
    assert Parser(context(), str(attribute)).parse_attribute() == attribute


def test_text_form():
    span = Span("kernel.py", 12, 4, 12, 20)
    assert str(SpanAttr(span)) == '#tawa.span<"kernel.py", 12, 4, 12, 20>'


@pytest.mark.parametrize("text", ['<"a", 1, 2, 3>', "<1, 2, 3, 4, 5>", '<"a", 1, 2, 3, x>'])
def test_bad_text_is_refused(text: str):
    with pytest.raises(ParseError):
        Parser(context(), f"#tawa.span{text}").parse_attribute()


def test_ops_take_the_span_around_them():
    span = Span("kernel.py", 3)
    inner, outer = test.TestOp(), test.TestOp(regions=[Region()])
    outer.regions[0].add_block(ModuleOp([inner]).body.detach_block(0))
    assert span_of(inner) is None
    set_span(outer, span)
    assert span_of(inner) == span
    set_span(inner, None)
    assert "loc" not in inner.attributes


def test_copy_keeps_what_is_there():
    source, bare, own = test.TestOp(), test.TestOp(), test.TestOp()
    set_span(source, Span("kernel.py", 3))
    set_span(own, Span("kernel.py", 4))
    copy_span(source, [bare, own])
    assert [span_of(bare), span_of(own)] == [Span("kernel.py", 3), Span("kernel.py", 4)]


def test_an_op_with_a_span_round_trips():
    op = test.TestOp()
    set_span(op, Span("kernel.py", 3, 1, 3, 9))
    module = ModuleOp([op])
    again = Parser(context(), str(module)).parse_module()
    assert span_of(next(iter(again.ops))) == Span("kernel.py", 3, 1, 3, 9)


def test_nodes_of_an_indented_function(tmp_path: Path):
    path = tmp_path / "kernel.py"
    path.write_text(
        "class A:\n"
        "    def f(größe):\n"
        "        return 'ä', größe + 1\n"
    )  # fmt: skip
    lines = path.read_text().splitlines()
    tree = ast.parse(textwrap.dedent("\n".join(lines[1:])))
    sums = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp)]
    span = Span.of_node(sums[0], str(path), first_line=2, indent=4)
    assert (span.line, span.end_line) == (3, 3)
    assert lines[2][span.column : span.end_column] == "größe + 1"
    assert str(span) == f"{path}:3:21"


def test_joining():
    assert Span("f", 1, 2, 1, 3).to(Span("f", 4, 5, 4, 9)) == Span("f", 1, 2, 4, 9)


def test_source_is_read_again_after_a_change(tmp_path: Path):
    path = tmp_path / "kernel.py"
    path.write_text("one\n")
    assert source_line(str(path), 1) == "one"
    path.write_text("other\n")
    assert source_line(str(path), 1) == "other"
    assert source_line(str(path), 9) is None


def test_the_lines_of_a_text_that_is_no_file_are_not_lost(monkeypatch: pytest.MonkeyPatch):
    """Though others clear what Python keeps of sources: it does so itself when memory runs out."""
    monkeypatch.setattr(linecache, "cache", {})
    remember_source("<a text>", "one\ntwo\n")
    linecache.clearcache()
    assert source_line("<a text>", 2) == "two"


def test_a_file_is_read_again_once_it_is_saved(tmp_path: Path):
    path = tmp_path / "program.ax"
    path.write_text("def g y = y\n")
    remember_program(str(path), "# not saved\n")
    assert source_line(str(path), 1) == "# not saved"
    remember_program(str(path), path.read_text())
    assert source_line(str(path), 1) == "def g y = y"
