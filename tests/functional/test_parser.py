"""Parsing: what is read, where it stands, and what is refused."""

from __future__ import annotations

import pytest

from tawa.functional import syntax as s
from tawa.functional.errors import ProgramSyntaxError
from tawa.functional.format import Formatter
from tawa.functional.language import core


def tree(text: str) -> object:
    return s.structure(core().parser.expression(text))


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a + b * c", "a + (b * c)"),
        ("a - b - c", "(a - b) - c"),
        ("f x y", "(f x) y"),
        ("-f x", "-(f x)"),
        ("-a ** b", "-(a ** b)"),
        ("a ** b ** c", "a ** (b ** c)"),
        ("a ++ b ++ c", "a ++ (b ++ c)"),
        ("f x.0.1", "f ((x.0).1)"),
        ("a || b && c == d", "a || (b && (c == d))"),
        ("x |> f |> g", "(x |> f) |> g"),
        ("f v.[i + 1]", "f (v.[i + 1])"),
        ("fn x -> fn y -> x + y", "fn x -> (fn y -> (x + y))"),
        ("a // b * c", "(a // b) * c"),
    ],
)
def test_precedence(text: str, same: str):
    assert tree(text) == tree(same)


def test_comparisons_dont_chain():
    with pytest.raises(ProgramSyntaxError):
        tree("a < b < c")


def test_spans_are_exact():
    module = core().parse("def f x =\n  x +\n    1\n", "a.ml")
    (definition,) = module.definitions()
    assert isinstance(definition.body, s.Binary)
    span = definition.body.span
    assert (span.line, span.column, span.end_line, span.end_column) == (2, 2, 3, 5)
    assert definition.name_span.column == 4


def test_doc_comments_and_comments():
    module = core().parse("## One.\n## Two.\ndef f x = x # three\n\n## Not this.\n\ndef g = 1\n")
    f, g = module.definitions()
    assert (f.doc, g.doc) == ("One.\nTwo.", "")
    assert [c.own_line for c in module.comments] == [True, True, False, True]


def test_deep_programs_need_no_recursion():
    lines = ["def f x0 =", *(f"  let x{i + 1} = x{i} + 1 in" for i in range(3000)), "  x3000"]
    checked = core().check("\n".join(lines))
    assert str(checked.inference.printer().scheme(checked.schemes["f"])) == "int -> int"


@pytest.mark.parametrize(
    ("text", "line", "column", "found"),
    [
        ("def f x =\n  let y = 2\n  y", 3, 3, "the end of the text"),
        ("def f x = (1,", 1, 13, "the end of the text"),
        ("def f x = x $ y", 1, 12, "the character '$'"),
        ("def f x = if x then 1", 1, 21, "the end of the text"),
        ("def = 1", 1, 4, "`=`"),
        ("def f x = match x with | 1 -> 2", 1, 31, "the end of the text"),
    ],
)
def test_syntax_errors(text: str, line: int, column: int, found: str):
    with pytest.raises(ProgramSyntaxError) as raised:
        core().parse(text, "a.ml")
    span = raised.value.span
    assert span is not None
    assert (span.line, span.column, raised.value.found) == (line, column, found)


def test_annotations_inside_a_tuple_pattern():
    checked = core().check("def f (x: int, y, (z: bool)) = if z then x else y")
    assert checked.inference.printer().scheme(checked.schemes["f"]) == "(int, int, bool) -> int"
    again = Formatter(core().parse("def f (x: int, y) = x")).module()
    assert again == "def f ((x: int), y) = x\n"
