"""Hindley-Milner inference, modules, coverage of matches, and what errors say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tawa.base.errors import TawaError
from tawa.functional import errors
from tawa.functional.language import core


def types(text: str) -> dict[str, str]:
    checked = core().check(text)
    return {n: checked.inference.printer().scheme(t) for n, t in checked.schemes.items()}


def type_of(text: str) -> str:
    return types(f"def it = {text}")["it"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fn x -> x", "'a -> 'a"),
        ("fn f g x -> f (g x)", "('a -> 'b) -> ('c -> 'a) -> 'c -> 'b"),
        ("fn f x -> f (f x)", "('a -> 'a) -> 'a -> 'a"),
        ("let id x = x in (id 1, id true)", "(int, bool)"),
        ("fn x -> let y = x in (y, y)", "'a -> ('a, 'a)"),
        ("fn x -> let f y = (x, y) in (f 1, f true)", "'a -> (('a, int), ('a, bool))"),
        ("letrec f n = if n < 1 then 0 else g (n - 1) and g n = f n in f", "int -> int"),
        ("fn p -> let a, b = p in (b, a)", "('a, 'b) -> ('b, 'a)"),
        ("fn (x, (y, _)) -> x + y", "(int, (int, 'a)) -> int"),
        ("[1, 2].[0]", "int"),
        ("(1, true).1", "bool"),
        ("(+) 1", "int -> int"),
        ("!(1 == 2) && true", "bool"),
        ("3 |> negate", "int"),
        ("fn (x: 'a) (y: 'a) -> x", "'a -> 'a -> 'a"),
        ("match (1, true) with (n, true) -> n | (_, false) -> 0 end", "int"),
    ],
)
def test_types(text: str, expected: str):
    assert type_of(text) == expected


def test_definitions_are_inferred_in_order_of_dependence():
    found = types("""
def use = (twice negate 1, twice not true)
def even n = if n == 0 then true else odd (n - 1)
def odd n = if n == 0 then false else even (n - 1)
def twice f x = f (f x)
""")
    assert found["use"] == "(int, bool)"
    assert found["odd"] == "int -> bool"


def test_datatypes():
    found = types("""
data Tree['a] = Leaf | Node(Tree['a], 'a, Tree['a])
def insert x t = match t with
  | Leaf -> Node (Leaf, x, Leaf)
  | Node (l, y, r) -> if x < y then Node (insert x l, y, r) else Node (l, y, insert x r)
  end
def map f t = match t with Leaf -> Leaf | Node (l, x, r) -> Node (map f l, f x, map f r) end
""")
    assert found["Node"] == "(Tree['a], 'a, Tree['a]) -> Tree['a]"
    assert found["insert"] == "int -> Tree[int] -> Tree[int]"
    assert found["map"] == "('a -> 'b) -> Tree['a] -> Tree['b]"


LIST = "data List['a] = Nil | Cons('a, List['a])\n"


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("def f x = y", errors.UnboundName, "nothing is called `y`"),
        ("def foo x = x\ndef g x = fo x", errors.UnboundName, "did you mean `foo`?"),
        ("def f x = x\ndef f y = y", errors.DuplicateName, "defined twice"),
        ("def f (x, x) = x", errors.DuplicateName, "bound twice"),
        ("def f (x: quux) = x", errors.UnknownType, "no type `quux`"),
        ("def f (x: vector) = x", errors.UnknownType, "given 0 arguments"),
        ("def f x = match x with Leaf -> 1 end", errors.UnknownConstructor, "`Leaf`"),
        (LIST + "def f x = match x with Cons -> 1 | Nil -> 2 end", errors.UnknownConstructor,
         "takes an argument"),
        ("def f x = x x", errors.InfiniteType, "contain itself"),
        ("def f x = x.0", errors.NotATuple, "isn't known"),
        ("def f = (1, 2).2", errors.NotATuple, "no item 2"),
        ("def f x = match x with true -> 1 end", errors.UncoveredCase, "`false`"),
        ("def f x = match x with _ -> 1 | true -> 2 end", errors.UncoveredCase, "reached"),
        (LIST + "def f x = match x with Nil -> 1 | Cons (_, Nil) -> 2 end",
         errors.UncoveredCase, "`Cons (_, Cons _)`"),
        ("def f x = match x with (true, _) -> 1 | (_, false) -> 2 end",
         errors.UncoveredCase, "`(false, true)`"),
        ("def f n = match n with 0 -> 1 | -1 -> 2 end", errors.UncoveredCase, "`_`"),
        ("def f = if 1 then 2 else 3", errors.TypesDisagree, "condition"),
        ("def f x = if x then 1 else true", errors.TypesDisagree, "branch of this `if`"),
        ("def f = 1 2", errors.TypesDisagree, "the function"),
        ("import nowhere", errors.ImportNotFound, "nowhere.ml"),
    ],
)  # fmt: skip
def test_errors(text: str, error: type[TawaError], says: str):
    with pytest.raises(error) as raised:
        core().check(text, "a.ml")
    assert says in str(raised.value)
    assert raised.value.span is not None


def test_a_mismatch_names_all_places_that_fix_the_types():
    text = "def f x y =\n  let a = x + 1 in\n  let b = y + 2 in\n  let c = (x, y) in\n  !c.0\n"
    with pytest.raises(errors.TypesDisagree) as raised:
        core().check(text, "a.ml")
    lines = {note.span.line for note in raised.value.notes if note.span is not None}
    assert raised.value.span is not None
    assert raised.value.span.line == 5
    assert lines == {2, 4, 5}  # not line 3


def test_imports(tmp_path: Path):
    (tmp_path / "one.ml").write_text("data Box = Box(int)\ndef inc x = x + 1\n")
    (tmp_path / "two.ml").write_text(
        "import one\ndef f = one.inc 1\ndef g b = match b with Box n -> n end\n"
    )
    (tmp_path / "three.ml").write_text("import one (inc)\ndef f = inc 1\n")
    for name in ("two", "three"):
        checked = core().check_file(tmp_path / f"{name}.ml")
        assert checked.inference.printer().scheme(checked.schemes["f"]) == "int"
    (tmp_path / "four.ml").write_text("import one (dec)\n")
    with pytest.raises(errors.ImportNotFound, match="defines no `dec`"):
        core().check_file(tmp_path / "four.ml")
    (tmp_path / "one.ml").write_text("import two\n")
    with pytest.raises(errors.ImportCycle, match="-> two"):
        core().check_file(tmp_path / "two.ml")
