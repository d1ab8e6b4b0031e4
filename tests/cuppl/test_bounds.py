"""At the ends of what 64 bits, memory and probability hold: the right answer or a clear error."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from tests.work import calls_made

from tawa import cuppl
from tawa.cuppl.typing import errors, failures
from tawa.functional.errors import FunctionalError

pytestmark = pytest.mark.filterwarnings("ignore::tawa.cuppl.InferenceWarning")
LEAST = "(-9223372036854775807 - 1)"

OVERFLOWS = [
    "9223372036854775807 + 1", f"{LEAST} - 1", "3037000500 * 3037000500",
    "(-3037000500) * 3037000500", f"{LEAST} * (-1)", f"-{LEAST}", f"abs {LEAST}",
    f"{LEAST} // (-1)", "product (tabulate 30 (fn i -> i + 1))", "sum [9223372036854775807, 1, -1]",
    "floor 1e19", "truncate (0.0 / 0.0)", "floor (-9.3e18)",
    "let n = sample (uniform_int 1 9) in 9223372036854775807 + n",
    "support_size (uniform_int (-1) 9223372036854775807)",
    "support_size (binomial 9223372036854775807 0.5)",
    "support_size (hypergeometric 9223372036854775807 3 9223372036854775807)",
]  # fmt: skip

INTEGERS = {
    "3037000499 * 3037000499": 9223372030926249001,
    "4611686018427387904 * (-2)": -(1 << 63),
    f"{LEAST} % (-1)": 0,
    f"{LEAST} % 7": -(1 << 63) % 7,
    f"{LEAST} // 2": -(1 << 62),
    f"{LEAST} + 9223372036854775807": -1,
    "floor (-9223372036854775808.0)": -(1 << 63),
    "7 % (-3)": -2,
    "negate (-9223372036854775807)": (1 << 63) - 1,
    "support_size (uniform_int (-4611686018427387904) 4611686018427387902)": (1 << 63) - 1,
}


@pytest.mark.parametrize("method", ["importance", "smc"])
@pytest.mark.parametrize("text", OVERFLOWS)
def test_overflow_is_an_error(text: str, method: str) -> None:
    source = f"def main () =\n  let () = factor 0.0 in\n  {text}"
    with pytest.raises(failures.IntegerOverflow) as caught:
        getattr(cuppl.model(source), method)(20)
    assert caught.value.span is not None
    assert caught.value.span.line == 3


@pytest.mark.parametrize("text", INTEGERS)
def test_integers_up_to_the_ends(text: str) -> None:
    assert set(cuppl.model(f"def main () = {text}").importance(20).values) == {INTEGERS[text]}


def test_vectors_beyond_all_memory_are_refused() -> None:
    for size in (1 << 61, 1 << 62, 1 << 41):
        for element in ("i", "(i, i)"):
            with pytest.raises(failures.UnboundedRecursion, match="more memory"):
                cuppl.model(f"def main () = tabulate {size} (fn i -> {element})").importance(
                    1, limits=cuppl.Limits(max_memory=1 << 24)
                )


@pytest.mark.parametrize(
    ("low", "high"), [(0, (1 << 63) - 2), (-5 * 10**18, 5 * 10**18), (-(1 << 62), 10), (3, 1 << 53)]
)
def test_whole_numbers_of_any_range(low: int, high: int) -> None:
    found = cuppl.model(f"def main () = sample (uniform_int ({low}) {high})").importance(20_000)
    values = (np.array(found.values, dtype=object) - low).astype(float) / (high - low)
    assert values.min() >= 0.0
    assert values.max() <= 1.0
    assert abs(values.mean() - 0.5) < 0.01
    assert abs(values.std() - math.sqrt(1 / 12)) < 0.01


@pytest.mark.parametrize("rate", [1e6, 1e12, 1e15, 1e16, 1e17])
def test_counts_of_any_size(rate: float) -> None:
    for text, mean, spread in (
        (f"poisson {rate:.1f}", rate, math.sqrt(rate)),
        (f"binomial {int(rate)} 0.3", 0.3 * rate, math.sqrt(0.21 * rate)),
    ):
        found = cuppl.model(f"def main () = sample ({text})").importance(20_000)
        values = (np.array(found.values, dtype=float) - mean) / spread
        assert abs(values.mean()) < 0.03
        assert abs(values.std() - 1.0) < 0.03


def test_log_probabilities_of_large_counts() -> None:
    scipy = pytest.importorskip("scipy.stats")
    for text, value, expected in (
        ("poisson 1e6", 10**6 + 2000, scipy.poisson(1e6).logpmf(10**6 + 2000)),
        ("binomial 1000000 0.3", 300500, scipy.binom(10**6, 0.3).logpmf(300500)),
    ):
        found = cuppl.model(f"def main () = log_density ({text}) {value}").importance(1).values[0]
        assert found == pytest.approx(expected, rel=1e-8)
    # The normal limit, where differences of lgamma have lost all digits.
    large = cuppl.model("def main () = log_density (poisson 1e17) 100000000316227766").importance(1)
    assert large.values[0] == pytest.approx(-0.5 * (math.log(math.tau * 1e17) + 1.0), abs=1e-6)


@pytest.mark.parametrize("text", ["poisson 1e19", "geometric 1e-30", "negative_binomial 1e300 0.5"])
def test_draws_beyond_64_bits_are_refused(text: str) -> None:
    with pytest.raises(failures.InvalidParameter):
        cuppl.model(f"def main () = sample ({text})").importance(1)


def test_directions_of_any_concentration() -> None:
    assert abs(cuppl.model("def main () = sample (von_mises 0 1e300)").importance(10).mean()) < 1e-9
    for concentration in (1e9, 1e12):
        found = cuppl.model(f"def main () = sample (von_mises 0 {concentration})").importance(4000)
        assert found.std(0) * math.sqrt(concentration) == pytest.approx(1.0, abs=0.06)


DIES = "def main () = let a = sample (uniform_int 0 3) in condition (a > 0); 12 // a"
METHODS: list[tuple[str, dict[str, float]]] = [
    ("importance", {}), ("smc", {"ess_threshold": 1.0}), ("smc", {"ess_threshold": 0.5}),
    ("smc", {"ess_threshold": 0.0}), ("mh", {}), ("pimh", {"particles": 10}),
    ("particle_gibbs", {"particles": 10}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "options"), METHODS)
def test_runs_of_weight_0_end_there(method: str, options: dict[str, float]) -> None:
    found = getattr(cuppl.model(DIES), method)(3000, seed=1, **options)
    assert abs(found.mean(0) - 22 / 3) < 0.4
    positive = "def main () = let a = sample (normal 0 1) in condition (a > 0.0); log a"
    assert math.isfinite(getattr(cuppl.model(positive), method)(300, seed=1, **options).mean(0))


IMPOSSIBLE = {
    "def f n = if sample (categorical [1.0, 0.0]) == 1 then f (n + 1) else n\ndef main () = f 0": 0,
    "def f n = if flip 0.0 then f (n + 1) else n\ndef main () = f 0": 0,
    'def main () = if sample (categorical [1.0, 0.0]) == 1 then fail "never" else 3': 3,
    "def f n = if flip 1.0 then n else f (n + 1)\ndef main () = f 7": 7,
    "def main () = sample (binomial 3 0.0) + sample (binomial 2 1.0)": 2,
}


@pytest.mark.parametrize("source", IMPOSSIBLE)
@pytest.mark.parametrize("tolerance", [0.0, 1e-300])
def test_enumeration_leaves_out_what_has_probability_0(source: str, tolerance: float) -> None:
    found = cuppl.model(source).enumerate(tolerance=tolerance)
    assert found.probabilities() == {IMPOSSIBLE[source]: 1.0}


def test_enumeration_ends_after_as_many_paths_as_it_may_follow() -> None:
    for body in ("if flip 0.5 then f (n + 1) else n",
                 "if flip 0.5 then f (n + 1) else (condition (n > 100000); n)"):  # fmt: skip
        model = cuppl.model(f"def f n = {body}\ndef main () = f 0")
        with pytest.raises(failures.UnboundedRecursion):
            model.enumerate(max_paths=50)
        with pytest.raises(failures.UnboundedRecursion):
            model.enumerate(limits=cuppl.Limits(max_steps=1 << 20))


def test_main_of_anything() -> None:
    assert cuppl.model("def main x = x").importance(2).values == [(), ()]
    assert cuppl.model("def main x = (x, 1)").enumerate().probabilities() == {((), 1): 1.0}


NESTED = """
def count n l = if n == 0 then l else count (n - 1) (Cons (n, l))
def main () = if flip 0.5 then count 200000 Nil else count 2 Nil
"""


def test_results_of_any_depth() -> None:
    found = cuppl.model(NESTED).importance(6)
    table = found.probabilities()
    assert len(table) == 2
    assert ("Cons", 1, ("Cons", 2, "Nil")) in table
    assert len(repr(table)) < 1000
    assert len(found.summary()) < 1000
    assert pickle.loads(pickle.dumps(found.values)) == found.values
    assert len(cuppl.model(NESTED).enumerate().probabilities()) == 2


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("importance", {"particles": 10**12}), ("smc", {"particles": 10**9}),
        ("mh", {"draws": 10**12}), ("nuts", {"draws": 10**12}), ("pimh", {"draws": 10**12}),
        ("particle_gibbs", {"draws": 2, "particles": 10**12}),
    ],
)  # fmt: skip
def test_what_memory_does_not_hold_is_refused_before_it_is_asked_for(
    method: str, options: dict[str, int]
) -> None:
    model = cuppl.model("def main () = let x = sample (normal 0 1) in factor x; x")
    with pytest.raises(errors.BadSetting) as caught:
        getattr(model, method)(**options)
    assert "at most" in str(caught.value)


def test_vectors_of_different_lengths_are_not_put_together() -> None:
    for text in ("zip [1, 2] [1]", "map2 (fn a b -> a + b) [1] (range 3)"):
        with pytest.raises(failures.ProgramFailed, match="different lengths") as caught:
            cuppl.model(f"def main () = {text}", file="<test>").importance(1)
        assert caught.value.span is not None
        assert caught.value.span.file == "<test>"


def chain(count: int, last: str = "") -> str:
    """A program of many draws, each of which depends on the one before it."""
    lines = ["def main () =", "  let x0 = sample (normal 0.0 1.0) in"]
    lines += [f"  let x{n} = sample (normal x{n - 1} 1.0) in" for n in range(1, count)]
    return "\n".join([*lines, last or f"  x{count - 1}"])


def test_programs_of_many_draws_take_time_in_proportion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAWA_CACHE_DIR", str(tmp_path))
    assert abs(cuppl.model(chain(6000)).importance(200).std(0) / math.sqrt(6000) - 1.0) < 0.2
    sources = {count: chain(count) for count in (100, 400)}
    work = [
        calls_made(lambda text=text: cuppl.model(text).importance(200)) for text in sources.values()
    ]
    assert work[1] < 6 * work[0]


def test_results_of_many_parts() -> None:
    names = ", ".join(f"x{n}" for n in range(600))
    found = cuppl.model(chain(600, f"  ({names})")).importance(500)
    assert len(found.names) == 600
    assert abs(found.std("x99") - 10.0) < 1.5
    assert (np.diff(np.array([found["x1"], found["x2"]]), axis=0) != 0.0).all()


def test_recursion_with_large_frames() -> None:
    lets = "".join(f"  let x{n} = sample (normal 0.0 1.0) in\n" for n in range(500))
    total = " + ".join(f"x{n}" for n in range(500))
    body = f"  if k == 0 then 0.0 else\n{lets}  let r = f (k - 1) in r + {total}"
    source = f"def f k =\n{body}\ndef main () = f 8000"
    assert cuppl.model(source).importance(1).values[0] != 0.0
    with pytest.raises(FunctionalError):
        cuppl.model(source).mh(2, chains=1, burn=0, limits=cuppl.Limits(max_depth=1 << 13))


def test_models_and_results_introduce_themselves_briefly() -> None:
    model = cuppl.model("def main () = flip 0.5", file="coin.ppl")
    assert repr(model) == "<model coin.ppl: main : () -> bool>"
    found = model.importance(10)
    assert repr(found) == "<importance: 10 draws of result>"
    assert repr(found.runs[0]) == "<run: 10 draws, log evidence 0>"


@pytest.mark.parametrize("result", ["1", "1.5", "Cons (1, Nil)"])
def test_runs_that_weigh_without_end(result: str) -> None:
    """No function of the first returns, so that nothing gives its result a value."""
    limits = cuppl.Limits(max_steps=2000)
    endless = "def loop x = factor 0.0; loop x\ndef main () = loop 1"
    chosen = f"def loop x = factor 0.0; if x > 5 then {result} else loop (x - 1)\n"
    for source in (endless, chosen + "def main () = loop 1"):
        with pytest.raises(failures.UnboundedRecursion, match="steps"):
            cuppl.model(source).smc(20, limits=limits)


@pytest.mark.parametrize("kind", ["int", "float", "vector[float]", "vector[int]"])
def test_numbers_that_no_word_holds_do_not_fit(kind: str) -> None:
    model = cuppl.model(f"input v : {kind}\ndef main () = v")
    for number in (10**400, -(10**400)):
        with pytest.raises(errors.InputMismatch, match="fit"):
            model.importance(10, data={"v": [number] if "vector" in kind else number})


def test_the_mean_of_exponentials_that_are_all_zero() -> None:
    found = cuppl.model("def main () = log_mean_exp [log 0.0, log 0.0]").importance(10)
    assert found.values[0] == -math.inf


def test_long_programs_load_and_run_in_time_that_grows_with_their_length() -> None:
    lets = "".join(f"  let x{i} = sample (normal 0 1) in\n" for i in range(4000))
    model = cuppl.model(f"def main () =\n{lets}  x0 + x3999")
    assert calls_made(lambda: model.importance(10)) < 40_000_000
    assert np.isfinite(model.importance(10).mean(0))
