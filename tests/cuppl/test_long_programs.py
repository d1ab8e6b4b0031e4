"""Programs of many lines: what they compile to, and where they say that they went wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tawa import cuppl
from tawa.cuppl.cpu.executable import native_modules
from tawa.cuppl.lowering.pipeline import lower
from tawa.cuppl.typing.errors import InputMismatch
from tawa.cuppl.typing.failures import InvalidParameter

LETS = 80


def scaled(bad: int) -> str:
    """Many draws, of which one has a scale that is not positive."""
    scales = ["(-w)" if k == bad else "w" for k in range(LETS)]
    lines = [f"  let x{k} = sample (normal 0 {scale}) in" for k, scale in enumerate(scales)]
    return "\n".join(["def main () =", "  let w = sample (uniform 1 2) in", *lines, "  x0"])


@pytest.mark.parametrize("bad", [0, 31, 32, 79])
def test_failures_that_share_their_code_say_where_they_are(bad: int) -> None:
    with pytest.raises(InvalidParameter) as caught:
        cuppl.model(scaled(bad)).importance(4)
    assert caught.value.span is not None
    assert caught.value.span.line == bad + 3


def text_of(source: str) -> str:
    modules = native_modules(lower(cuppl.model(source).elaborated, False))
    return next(m.text() for m in modules if not m.name)


def test_parameters_that_are_written_down_are_checked_once() -> None:
    assert "valid_location" not in text_of("def main () = sample (normal (-1) 2.5)")
    assert "valid_location" in text_of("def main () = sample (normal (sample (normal 0 1)) 2.5)")
    with pytest.raises(InvalidParameter):
        cuppl.model("def main () = sample (normal 0 0)").importance(4)


def test_a_thousand_lets_have_the_draws_of_a_loop() -> None:
    lets = "".join(f"  let x{k} = sample (normal 0 1) in\n" for k in range(1000))
    long = cuppl.model("def main () =\n" + lets + "  (x0, x999)").importance(3, threads=1)
    loop = cuppl.model(
        "def main () = let x = repeat 1000 (fn () -> sample (normal 0 1)) in (x.[0], x.[999])"
    ).importance(3, threads=1)
    assert (long[0] == loop[0]).all()
    assert (long[1] == loop[1]).all()


def test_an_array_without_dimensions_is_a_number() -> None:
    model = cuppl.model("input s : float input n : int def main () = s + float n")
    given = {"s": np.array(1.5), "n": np.array(2)}
    assert model.importance(4, data=given).values[0] == 3.5


def test_masked_values_are_refused() -> None:
    model = cuppl.model("input v : vector[float] def main () = sum v")
    mask = np.ma.masked_array([1.0, 2.0], [False, True])
    for given in (mask, list(mask)):
        with pytest.raises(InputMismatch, match=r"1 of .* masked"):
            model.importance(4, data={"v": given})
    whole = np.ma.masked_array([1.0, 2.0], [False, False])
    assert model.importance(4, data={"v": whole}).values[0] == 3.0


MANY = 70
"""Vectors: more than a word has bits."""


@pytest.mark.filterwarnings("ignore::tawa.cuppl.InferenceWarning")
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("smc", {"particles": 50, "threads": 1}),
        ("importance", {"particles": 50, "threads": 1}),
        ("mh", {"draws": 60, "chains": 1}),
        ("nuts", {"draws": 20, "warm_up": 20, "chains": 1}),
    ],
)
def test_more_vectors_may_be_alive_than_a_word_has_bits(
    method: str, settings: dict[str, int]
) -> None:
    """While a heap that is full many times is emptied, in a frame and in the result."""
    vectors = "".join(f"  let v{k} = [x, {k}.0] in\n" for k in range(MANY))
    model = cuppl.model(f"""
def busy x k = let v = repeat 200 (fn () -> x) in observe (normal v.[k] 9) 1
def main () =
  let x = sample (normal 0 1) in
{vectors}  iter (busy x) (tabulate 40 (fn k -> k));
  ({", ".join(f"v{k}" for k in range(MANY))})
""")
    found = getattr(model, method)(**settings)
    first = found[0][:, 0]
    for k in range(MANY):
        assert (found[k] == np.stack([first, np.full(len(first), float(k))], axis=1)).all()


def test_an_object_may_have_more_references_than_a_word_has_bits() -> None:
    fields = [f"a{k}" for k in range(MANY)]
    model = cuppl.model(f"""
data Many = Many({", ".join(["vector[float]"] * MANY)})
def make k = Many({", ".join(f"repeat 2 (fn () -> float (k + {k}))" for k in range(MANY))})
def last m = match m with Many({", ".join(fields)}) -> a62.[0] + a63.[1] + a64.[0] + a69.[1] end
def main () =
  let all = tabulate 30 make in
  sum (map (fn m -> observe (normal 0 1) 0; last m) all)
""")
    found = model.smc(100, threads=1)
    assert (np.array(found.values) == sum(4 * k + 62 + 63 + 64 + 69 for k in range(30))).all()


@pytest.mark.parametrize("test", ["x > {k}.0", "flip 0.5", "k{k} > 0.5"])
def test_functions_that_call_the_one_before_twice_take_no_longer_the_more_they_are(
    test: str,
) -> None:
    """Forty of them, 2^40 paths: whether it ends at all."""
    lines = ["input " + f"k{k} : float" for k in range(40)] + ["def f0 x = x + 1.0"]
    lines += [
        f"def f{k + 1} x = if {test.format(k=k)} then f{k} (x - 1.0) else f{k} (x + 1.0)"
        for k in range(40)
    ]
    model = cuppl.model("\n".join([*lines, "def main () = f40 (sample (normal 0 0.1))"]))
    found = model.importance(64, data={f"k{k}": float(k % 2) for k in range(40)})
    assert (abs(np.array(found.values) - 1) <= 41).all()
