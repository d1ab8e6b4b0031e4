"""The library means what it meant where it was written, whatever a program calls its own."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import pytest

from tawa import cuppl
from tawa.cuppl.typing.failures import AllWeightsZero
from tawa.functional.errors import DuplicateName, FunctionalError, ProgramSyntaxError

REDEFINED = {
    "length": (
        "data L = N | C(int, L)\n"
        "def length l = match l with | N -> 0 | C (_, r) -> 1 + length r end\n"
        "def main () = (length (C (1, N)), sum (map (fn x -> x) [1, 2, 3]))", (1, 6)),
    "min": ("def min a b = 0\ndef main () = length (zip [1, 2] [3, 4])", 2),
    "fold": ("def fold v z f = z\ndef main () = sum [1, 2, 3]", 6),
    "first'": ("def first' l d = 42\n"
               "def main () = (vector_of_list (Cons (1, Cons (2, Nil)))).[0]", 1),
    "bernoulli": ("def bernoulli p = uniform_int 1 1\ndef main () = flip 0.0", False),
    "tabulate": ("def tabulate n f = n\ndef main () = sum (range (tabulate 4 ()))", 6),
    "map": ("def map v f = 3\ndef main () = length (mapi (fn i x -> x) [1, 2]) + map () ()", 5),
    "constructors": (
        "data L = Nil | Cons(float, L)\ndef own l = match l with | Nil -> 0 | Cons (_, r) -> 1 + "
        "own r end\ndef main () = (own (Cons (1.0, Nil)), list_length (list_of_vector [1, 2]))",
        (1, 2)),
    "List": (
        "data List = Nil | Cons(float, List)\ndef own l = match l with | Nil -> 0 "
        "| Cons (_, r) -> 1 + own r end\n"
        "def main () = (own (Cons (1.0, Nil)), list_length (list_of_vector [1, 2]))", (1, 2)),
    "the same List": (
        "data List['a] = Nil | Cons('a, List['a])\n"
        "def main () = list_length (Cons (1.0, Cons (2.0, Nil)))", 2),
    "Option": (
        "data Option = None | Both(int, int)\n"
        "def main () = match Both (1, 2) with | None -> 0 | Both (a, b) -> a + b end", 3),
    "local names": ("def main () = let log = 3 in let length = 4 in sum [log, length]", 7),
    "a name of the library's own": ("def memo_with' x = x\ndef main () = letrec f = "
                                    "mem (fn n -> if n < 2 then n else f (n - 1) + f (n - 2)) in "
                                    "f 30 + memo_with' 1", 832041),
}  # fmt: skip


@pytest.mark.parametrize("name", REDEFINED)
@pytest.mark.parametrize("method", ["importance", "enumerate"])
def test_a_redefinition_changes_the_program_alone(name: str, method: str) -> None:
    source, expected = REDEFINED[name]
    model = cuppl.model(source)
    if method == "enumerate":
        assert model.enumerate().probabilities() == {expected: 1.0}
    else:
        assert set(model.importance(100).values) == {expected}


def test_conditions_stay_conditions() -> None:
    source = "def log x = x\ndef main () = let x = sample (normal 0 1) in condition false; x"
    with pytest.raises(AllWeightsZero):
        cuppl.model(source).importance(10)
    curried = "def log b x = x\ndef main () = let x = sample (normal 0 1) in condition (x > 0.0); x"
    assert abs(cuppl.model(curried).importance(10_000).log_evidence - math.log(0.5)) < 0.05
    largest = "def max a b = a\ndef main () = log_mean_exp [0.0, 2000.0]"
    assert cuppl.model(largest).importance(100).values[0] == pytest.approx(2000.0 - math.log(2.0))


def test_types_of_the_library_that_a_program_hides_are_told_apart() -> None:
    with pytest.raises(FunctionalError) as caught:
        cuppl.model("data List = N | C(int, List)\ndef main () = list_length (C (1, N))")
    assert "Library.List" in str(caught.value)


def test_recursion_by_a_mem_of_ones_own_is_refused() -> None:
    for own in ("def mem f = f\ndef main () = ", "def main () = let mem = fn f -> f in "):
        with pytest.raises(ProgramSyntaxError, match="defined by itself"):
            cuppl.model(own + "letrec f = mem (fn n -> f n) in f 1")


def test_modules_that_make_different_types_of_one_name(tmp_path: Path) -> None:
    (tmp_path / "a.ppl").write_text("data T = A | B\ndef fa x = match x with | A -> 1 | B -> 2 end")
    (tmp_path / "b.ppl").write_text("data T = C(int)\ndef fb x = match x with | C n -> n end")
    (tmp_path / "c.ppl").write_text("import a\ndef fc () = a.fa A")
    main = tmp_path / "main.ppl"
    main.write_text("import a\nimport b\ndef main () = a.fa A + b.fb (C 1)")
    with pytest.raises(DuplicateName, match="different types `T`"):
        cuppl.load(main)
    main.write_text("import a\nimport c\ndef main () = a.fa B + c.fc ()")
    assert cuppl.load(main).importance(100).values[0] == 3


def test_a_checked_program_from_another_process() -> None:
    model = cuppl.model("def main () = list_length (list_map (fn x -> x + 1) (Cons (1, Nil)))")
    model.module = pickle.loads(pickle.dumps(model.module))
    assert set(model.importance(100).values) == {1}
