"""The formatter keeps the tree and the comments, and what it makes it leaves alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tawa.functional import syntax as s
from tawa.functional.format import Formatter
from tawa.functional.language import core

names = st.sampled_from(["a", "b", "f", "g", "x'"])


def format_text(text: str) -> str:
    return Formatter(core().parse(text)).module()


def parenthesised(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = st.sampled_from(["+", "-", "*", "//", "==", "&&", "||", "++", "**", "|>"])
    pattern = st.sampled_from(["x", "_", "(x, (y, z))", "(x: int)"])
    return st.one_of(
        st.tuples(inner, binary, inner).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
        st.tuples(inner, inner).map(lambda t: f"({t[0]}) ({t[1]})"),
        st.tuples(pattern, inner).map(lambda t: f"fn {t[0]} -> {t[1]}"),
        st.tuples(pattern, inner, inner).map(lambda t: f"let {t[0]} = {t[1]} in {t[2]}"),
        st.tuples(inner, inner, inner).map(lambda t: f"if {t[0]} then {t[1]} else {t[2]}"),
        st.tuples(inner, inner).map(lambda t: f"match {t[0]} with Some x -> {t[1]} | _ -> 1 end"),
        st.tuples(inner, inner).map(lambda t: f"({t[0]}, {t[1]}).1"),
        inner.map(lambda t: f"-({t})"),
        inner.map(lambda t: f"[{t}].[0]"),
        inner.map(lambda t: f"letrec f n = {t} and g n = 2 in f"),
    )


expressions = st.recursive(st.one_of(names, st.just("1.5"), st.just("true")), parenthesised)


@settings(max_examples=200, deadline=None)
@given(expressions)
def test_formatting_keeps_the_tree(text: str):
    source = f"def f x = {text}"
    formatted = format_text(source)
    assert s.structure(core().parse(formatted)) == s.structure(core().parse(source))
    assert format_text(formatted) == formatted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def   f  x=x+1", "def f x = x + 1\n"),
        ("def f x = ((x) + ((1)))", "def f x = x + 1\n"),
        ("def f x = let y=1 in y", "def f x =\n  let y = 1 in\n  y\n"),
        ("# a\n\n\n## b\ndef f = 1 # c\n# d", "# a\n\n## b\n# c\ndef f = 1\n\n# d\n"),
        ("def f = 1\ndef g = 2", "def f = 1\n\ndef g = 2\n"),
        ("import a\nimport b (c,d)", "import a\nimport b (c, d)\n"),
        ("data T = A|B(int)", "data T = A | B(int)\n"),
        ("", ""),
        (
            f"def f x = (if x then {'a' * 50} else {'b' * 50}) |> g",
            f"def f x =\n  (if x then {'a' * 50} else {'b' * 50})\n  |> g\n",
        ),
    ],
)
def test_layout(text: str, expected: str):
    assert format_text(text) == expected
