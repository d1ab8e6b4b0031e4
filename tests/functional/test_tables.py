"""The loop over plain tables makes the tree that lark makes, with the same places and comments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tawa.cuppl.typing.language import LIBRARY, Cuppl
from tawa.cuppl.typing.prelude import PRELUDE
from tawa.functional import parser as parsing
from tawa.functional.errors import ProgramSyntaxError

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "cuppl").glob("*.ppl"))
TEXTS = {
    **{path.name: path.read_text() for path in (*EXAMPLES, LIBRARY)},
    "prelude": PRELUDE,
    "nothing": "",
    "a comment only": "# nothing\n",
    "places over lines": 'def f (x, _)\n  : int\n  = # why\n  if x == 1 then -x else\n    "a\\"b" |> g',
    "a keyword inside a name": "def lets inputs = let' (input' inputs)\ndef let' = fn x -> x.0.[1]",
    "operators as names": "def (+) a b = (||) a (- b) ** 2.5e-3",
    "missing parts": "data T = A | B(int)\ndef f = [] ++ [()]\ndef g : (int -> int) = (fn x -> x)",
}


@pytest.fixture(scope="module")
def parser() -> parsing.Parser:
    return Cuppl().parser


@pytest.mark.parametrize("name", TEXTS)
def test_both_make_the_same_tree(
    name: str, parser: parsing.Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = TEXTS[name]
    quick = parser.module(text, "a.ppl")
    used: list[str] = []
    slow = parser._parse_by_lark

    def watched(text: str, file: str, start: str) -> object:
        used.append(start)
        return slow(text, file, start)

    def unused(text: str, start: str, builder: object) -> object:
        raise parsing.Unexpected

    monkeypatch.setattr(parser, "_parse_by_lark", watched)
    assert repr(parser.module(text, "a.ppl")) == repr(quick)
    assert used == []
    monkeypatch.setattr(parser._tables, "parse", unused)
    by_lark = parser.module(text, "a.ppl")
    assert used == ["start"]
    assert repr(by_lark) == repr(quick)


@pytest.mark.parametrize("text", ["def f =", "def f = )", "def f = 1 \\ 2", "let x = 1"])
def test_lark_says_what_is_wrong(text: str, parser: parsing.Parser) -> None:
    with pytest.raises(ProgramSyntaxError) as caught:
        parser.module(text, "a.ppl")
    assert caught.value.found
