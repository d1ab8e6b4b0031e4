"""`p.0` of a parameter: what tuple it is, callers say."""

from __future__ import annotations

import math

import pytest

from tawa import cuppl
from tawa.functional import errors

PROGRAMS = {
    "sum (map (fn p -> p.0 * p.1) (zip [1.0, 2.0] [3.0, 4.0]))": 11.0,
    "first (1.0, true) + (if first (true, 2) then 1.0 else 0.0)": 2.0,
    "float (both (1, 2)) + both (0.5, 0.25)": 3.75,
    "let f p = p.1.0 in f (1.0, (2.0, 3)) + f (true, (5.0, 3.0))": 7.0,
    "let v = tabulate 3 (fn i -> tabulate i (fn j -> (j, float i))) in v.[2].[1].1": 2.0,
    "let f = mem (fn p -> p.0 + p.1) in f (1.0, 2.0)": 3.0,
    "list_fold (fn s p -> s + p.1) 0.0 (Cons ((1, 2.0), Nil))": 2.0,
    "until (true, 1.0)": 2.0,
    "let r = fold (fn a x -> (a.0 + x, a.1 * x)) (0.0, 1.0) [2.0, 3.0] in r.0 + r.1": 11.0,
    "(fn p -> p.2) (1, 2, if flip 1 then 4.0 else 5.0)": 4.0,
}


@pytest.mark.parametrize("body", list(PROGRAMS))
def test_items_of_what_is_known_later(body: str) -> None:
    model = cuppl.model(f"""
def first p = p.0
def both p = p.0 + p.1
def until p = if p.0 then until (false, 2.0) else p.1
def main () = {body}
""")
    assert model.importance(4).values[0] == PROGRAMS[body]


@pytest.mark.parametrize(
    ("program", "kind", "part"),
    [
        ("def f p = p.0\ndef main () = f 3.0", errors.TypesDisagree, "no tuple"),
        ("def f p = p.2\ndef main () = f (1, 2)", errors.TypesDisagree, "no item 2"),
        ("def f p = p.0 + p.1\ndef main () = f (1.0, true)", errors.TypesDisagree, "float"),
        ("def main p = p.0", errors.NotATuple, "what tuple"),
    ],
)
def test_what_has_no_such_item_is_refused(
    program: str, kind: type[errors.FunctionalError], part: str
) -> None:
    with pytest.raises(kind) as caught:
        cuppl.model(program).importance(4)
    assert part in str(caught.value)
    assert caught.value.span is not None


def test_what_is_inferred_says_which_item() -> None:
    module = cuppl.model("def f p = p.1\ndef main () = f (1, 2.0)").module
    printer = module.inference.printer()
    assert printer.scheme(module.schemes["f"]) == "'a -> 'b where 'a.1 : 'b"


def test_the_log_of_a_sum_of_exponentials() -> None:
    model = cuppl.model("""
input v : vector[float]
def main () = log_sum_exp v
""")
    for values in ([-1000.0, -1000.0], [0.0], [], [-math.inf, -math.inf], [math.inf, 1.0]):
        found = model.importance(4, data={"v": values}).values[0]
        want = max(values, default=-math.inf) + (math.log(2) if values == [-1000.0] * 2 else 0)
        assert found == want
