"""Bad input ends in an error with the source line, never in a hang or a wrong number."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tawa
from tawa import cuppl
from tawa.cuppl.typing import errors, failures
from tawa.functional.errors import FunctionalError

PROGRAMS = {
    "unbounded recursion": (
        "def f x = 1 + f (x + 1)\ndef main () = f 0", failures.UnboundedRecursion, "f"),
    "endless loop": (
        "def f x = f (x + 1)\ndef main () = if f 0 == 0 then 1 else 2", failures.UnboundedRecursion,
        "f"),
    "recursion through observations": (
        "def f x = let y = f (x + 1) in factor 0.0; y + 1\ndef main () = f 0",
        failures.UnboundedRecursion, ""),
    "endless growth": (
        "def f l n = f (Cons (n, l)) (n + 1)\ndef main () = list_length (f Nil 0)",
        failures.UnboundedRecursion, ""),
    "NaN weight": (
        "def main () =\n  let x = sample (normal 0 1) in\n  factor (log (-1.0 - x * x)); x",
        failures.NaNWeight, "factor (log (-1.0 - x * x))"),
    "infinite weight": ("def main () = factor (1.0 / 0.0)", failures.NaNWeight, "factor"),
    "all weights zero": (
        "def main () = let x = sample (normal 0 1) in condition (x > 99.0); x",
        failures.AllWeightsZero, ""),
    "all weights zero at once": ("def main () = factor (log 0.0)", failures.AllWeightsZero, ""),
    "negative scale": (
        "def main () = let s = -1.0 in sample (normal 0 s)", failures.InvalidParameter,
        "sample (normal 0 s)"),
    "negative scale observed": (
        "def main () = observe (normal 0 (-1)) 2", failures.InvalidParameter, "observe"),
    "bad weights": (
        "def main () = sample (categorical [0, 0])", failures.InvalidParameter, "sample"),
    "index": ("def main () = [1, 2].[3 - 1]", failures.IndexOutOfRange, "[1, 2].[3 - 1]"),
    "division": ("def main () = 1 // (2 - 2)", failures.DivisionByZero, "1 // (2 - 2)"),
    "negative size": ("def main () = length (tabulate (-1) (fn i -> i))", failures.NegativeSize,
                      "tabulate"),
    "endless turns": (
        "def main () = range_fold (fn a i -> a + i) 0 100000000000", failures.UnboundedRecursion,
        "range_fold"),
    "endless turns within turns": (
        "def main () = range_fold (fn a i -> range_fold (fn b j -> b + j % 3) a 100000) 0 100000",
        failures.UnboundedRecursion, "range_fold"),
    "own failure": ('def main () = if flip 1.0 then fail "no luck" else 1', failures.ProgramFailed,
                    "fail"),
    "shift outside": (
        "def main () = let p = prompt () in 1 + shift p (fn k -> k 1)", failures.ShiftOutsideReset,
        "shift"),
}  # fmt: skip


@pytest.mark.parametrize("method", ["importance", "smc"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_running(name: str, method: str) -> None:
    source, error, text = PROGRAMS[name]
    limits = cuppl.Limits(max_memory=1 << 26, max_depth=1 << 18, max_steps=1 << 22)
    with pytest.raises(error) as caught:
        getattr(cuppl.model(source), method)(20, limits=limits, threads=2)
    assert isinstance(caught.value, FunctionalError)
    if text:
        span = caught.value.span
        assert span is not None
        assert span.line <= len(source.splitlines())
        assert text in source.splitlines()[span.line - 1]
        assert "replay with seed=0: particle" in str(caught.value)


def test_a_particle_replays_alone() -> None:
    source = "def main () = let x = sample (uniform 0 1) in sample (normal 0 (x - 0.001))"
    with pytest.raises(failures.InvalidParameter) as caught:
        cuppl.model(source).importance(5000, seed=3, threads=1)
    note = str(caught.value)
    particle = int(note.split("particle ")[1].split(",")[0])
    # As many particles as come before it are fine; with one more, it fails again.
    cuppl.model(source).importance(particle, seed=3, threads=1)
    with pytest.raises(failures.InvalidParameter):
        cuppl.model(source).importance(particle + 1, seed=3, threads=1)


def test_enumeration_that_can_not_end() -> None:
    infinite = cuppl.model("def main () = let k = sample (poisson 2) in k")
    with pytest.raises(failures.InfiniteSupport) as caught:
        infinite.enumerate()
    assert caught.value.span is not None
    endless = cuppl.model("def f () = if flip 0.5 then 0 else 1 + f ()\ndef main () = f ()")
    with pytest.raises(failures.UnboundedRecursion):
        endless.enumerate()
    continuous = cuppl.model("def main () = sample (normal 0 1)")
    with pytest.raises(failures.InfiniteSupport):
        continuous.enumerate()


def test_texts_that_are_read_and_are_not(tmp_path: Path) -> None:
    """A byte order mark at the beginning of a file is no part of the program."""
    (tmp_path / "marked.ppl").write_bytes(b"\xef\xbb\xbfdef main () = 3")
    assert cuppl.load(tmp_path / "marked.ppl").importance(2).values[0] == 3
    with pytest.raises(FunctionalError, match="Unicode"):
        cuppl.model("def main () = 3 # \ud800")


CHECKED = {
    "ill-typed": ("def main () = 1 + true", "TypeMismatch"),
    "branches": ("def main () = if flip 0.5 then 1 else false", "TypesDisagree"),
    "unknown": ("def main () = sampel (normal 0 1)", "UnboundName"),
    "no main": ("def f x = x", "NoMain"),
    "effect in a constant": ("def x = flip 0.5\ndef main () = x", "EffectInConstant"),
    "memo in a constant": ("def f = mem (fn x -> x)\ndef main () = f 1", "EffectInConstant"),
    "functions compared": ("def main () = (fn x -> x + 1) == (fn x -> x)", "UnsupportedValue"),
    "syntax": ("def main () = let x = in x", "ProgramSyntaxError"),
    "observed type": ("def main () = observe (normal 0 1) true", ""),
    "a number without end": ("def main () = -1e400", "ProgramSyntaxError"),
    "case missing": ("def main () = match Some 1 with | None -> 1 end", "UncoveredCase"),
}


@pytest.mark.parametrize("name", CHECKED)
def test_checking(name: str) -> None:
    source, error = CHECKED[name]
    with pytest.raises(FunctionalError) as caught:
        cuppl.model(source).importance(1)
    assert not error or error in {type(caught.value).__name__, "TypeMismatch"}
    assert caught.value.span is not None


VECTOR = "input x : vector[float]\ndef main () = sum x"
MATRIX = "input x : matrix\ndef main () = sum (entries x)"
DATA = {
    "missing": ("input x : float\ndef main () = x", {}),
    "unknown": ("def main () = 1", {"x": 1}),
    "type": ("input x : float\ndef main () = x", {"x": "a"}),
    "fraction for int": ("input x : int\ndef main () = x", {"x": 1.5}),
    "tuple length": ("input x : (float, float)\ndef main () = x", {"x": [1.0]}),
    "element": ("input x : vector[int]\ndef main () = x.[0]", {"x": [1, "b"]}),
    "constructor": ("input x : Option[int]\ndef main () = x", {"x": {"Sme": [1]}}),
    "a set": (VECTOR, {"x": {1.0, 2.0}}),
    "no dimension": (VECTOR, {"x": np.array(1.0)}),
    "complex entries": (MATRIX, {"x": np.array([[1j, 2.0]])}),
    "entries that are text": (MATRIX, {"x": [["1", "2"]]}),
    "truth values": (MATRIX, {"x": np.array([[True, False]])}),
    "dates": (MATRIX, {"x": np.array([["2020-01-01"]], dtype="datetime64[D]")}),
    "nothing": (MATRIX, {"x": [[None, 1.0]]}),
}


@pytest.mark.parametrize("name", DATA)
def test_data(name: str) -> None:
    source, data = DATA[name]
    with pytest.raises(errors.InputMismatch):
        cuppl.model(source).importance(1, data=data)


def test_methods_refuse_what_they_can_not_run() -> None:
    with pytest.raises(errors.UnsupportedMethod) as caught:
        cuppl.model("def main () = flip 0.5").nuts(10)
    assert caught.value.span is not None
    changing = (
        "def main () = let x = sample (normal 0 1) in if x > 0.0 then x else sample (normal x 1)"
    )
    with pytest.raises(errors.UnsupportedMethod):
        cuppl.model(changing).nuts(200, warm_up=100)
    control = "def main () = let p = prompt () in reset p (fn () -> 1)"
    with pytest.raises(errors.UnsupportedMethod):
        cuppl.model(control).nuts(10)
    with pytest.raises(errors.UnsupportedMethod):
        cuppl.model("def main () = flip 0.5").pimh(10)


def test_doubtful_estimates_warn() -> None:
    hard = cuppl.model(
        "def main () = let x = sample (normal 0 1) in observe (normal x 0.001) 3.5; x"
    )
    with pytest.warns(cuppl.InferenceWarning):
        hard.importance(1000)
    with pytest.warns(cuppl.InferenceWarning, match="R-hat"):
        hard.mh(50, burn=0)


@pytest.mark.filterwarnings("ignore::tawa.cuppl.InferenceWarning")
def test_deep_recursion_is_no_error() -> None:
    deep = "def f n = if n == 0 then 0 else 1 + f (n - 1)\ndef main () = f 200000"
    assert cuppl.model(deep).importance(1).values == [200000]
    suspended = (
        "def f n = if n == 0 then 0 else (let r = f (n - 1) in factor 0.0; 1 + r)\n"
        "def main () = f 3000"
    )
    assert set(cuppl.model(suspended).smc(4).values) == {3000}


@pytest.mark.filterwarnings("ignore::tawa.cuppl.InferenceWarning")
def test_memory_is_collected() -> None:
    # Each step makes a list that is dropped: far more than the heap may hold in all.
    source = """
def work n = let v = map (fn i -> float i) (range 200) in sum v
def main () = range_fold (fn a _ -> let s = work 1 in factor 0.0; a + s) 0.0 300
"""
    limits = cuppl.Limits(max_memory=1 << 24)
    found = cuppl.model(source).smc(50, limits=limits)
    assert np.allclose(found["result"], 300 * 199 * 100)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("def main () = length (repeat (-1) (fn _ -> 1))", "repeat (-1) (fn _ -> 1)"),
        ("def main () = flip 1.5", "flip 1.5"),
        ("def main () = list_map (fn x -> flip x) (Cons (2.0, Nil))", "flip x"),
        ("def f v = v |> log_mean_exp\ndef main () = f (slice 0 0 [1.0])", "log_mean_exp"),
    ],
)
def test_failures_of_the_library_are_those_of_the_call(source: str, text: str) -> None:
    with pytest.raises(FunctionalError) as caught:
        cuppl.model(source, file="<test>").importance(10, threads=1)
    span = caught.value.span
    assert span is not None
    assert span.file == "<test>"
    line = source.splitlines()[span.line - 1]
    assert text in line[span.column : span.end_column]


SETTINGS = [
    ("smc", {"particles": 0}),
    ("smc", {"particles": 2.5}),
    ("smc", {"runs": 0}),
    ("smc", {"seed": 1 << 64}),
    ("smc", {"device": "tpu"}),
    ("smc", {"ess_threshold": float("nan")}),
    ("importance", {"threads": -1}),
    ("mh", {"draws": 0}),
    ("mh", {"thin": 0}),
    ("nuts", {"chains": 0}),
    ("nuts", {"warm_up": -1}),
    ("particle_gibbs", {"particles": True}),
    ("smc", {"device": "tpu"}),
    ("importance", {"device": "GPU"}),
    ("smc", {"ess_threshold": 1.5}),
    ("smc", {"threads": 0}),
    ("smc", {"devices": 2}),
    ("smc", {"devices": 0, "device": "gpu"}),
    ("smc", {"seed": "one"}),
    ("nuts", {"target": 2.0}),
    ("hmc", {"leapfrogs": 0}),
    ("mh", {"burn": -1}),
    ("enumerate", {"tolerance": -0.1}),
]


@pytest.mark.parametrize(("method", "setting"), SETTINGS)
def test_settings_that_mean_nothing_are_refused(method: str, setting: dict[str, object]) -> None:
    model = cuppl.model("def main () = let x = sample (normal 0 1) in factor x; x")
    with pytest.raises(errors.BadSetting):
        getattr(model, method)(**setting)


def test_an_unknown_device_is_answered_with_those_there_are() -> None:
    model = cuppl.model("def main () = let x = sample (normal 0 1) in factor x; x")
    with pytest.raises(errors.BadSetting) as caught:
        model.smc(10, device="tpu")
    assert (caught.value.expected, caught.value.found) == ("'cpu' or 'gpu'", "'tpu'")


def test_limits_are_numbers_above_zero() -> None:
    with pytest.raises(errors.BadSetting):
        cuppl.Limits(max_depth=0)


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        ("def main () = let n = sample (poisson 3) in n / 2.0", "`float n`"),
        ("def main () = flip 0.5; 1", "`let _ = ... in`"),
        ("def main () = observe (normal 0 1); 1", "an argument is missing"),
        ("def main () = sample (gamma 2)", "an argument is missing"),
        ("input v : vector[float] def main () = observe (normal 0 1) v; 1", "`iter (fn x"),
        ("def main () = 99999999999999999999", "float"),
        ("def main () = sample (uniform -1 1)", "need parentheses"),
        ("def main () = let x = 1.0 in sample (normal x + 1.0 2)", "need parentheses"),
        ("def main () = let v = [true] in v[0]", "`v.[i]`"),
        ("def main () = let v = [true, false] in v.1", "`v.[1]`"),
        ("def main () = sample (categorical (0.2, 0.8))", "in brackets"),
        ("data P = P(bool, bool) def main () = P true false", "one argument"),
        ("def main () = let x = 2 in let b = x = 1 in b", "`==`"),
        ("def main () = let a = flip 0.5 in let b = a and true in b", "`&&`"),
        ("def main () = score 0.5", "`factor w`"),
    ],
)
def test_errors_say_what_to_do(source: str, advice: str) -> None:
    with pytest.raises(FunctionalError) as caught:
        cuppl.model(source)
    assert caught.value.hint is not None
    assert advice in caught.value.hint


def test_only_functions_are_defined_by_themselves() -> None:
    with pytest.raises(FunctionalError, match="not a function"):
        cuppl.model("def main () = letrec x = 1 in x")
    factorial = "letrec f = fn n -> if n == 0 then 1 else n * f (n - 1) in f 5"
    found = cuppl.model(f"def main () = {factorial}").importance(100, threads=1)
    assert set(found.values) == {120}


def test_parts_that_are_no_numbers_are_named() -> None:
    found = cuppl.model("def main () = ([1], true)").importance(100, threads=1)
    with pytest.raises(errors.NoColumn, match="`0` is a vector") as caught:
        found.mean("0")
    assert caught.value.hint is not None
    assert "posterior['0']" in caught.value.hint
    assert found["0"].shape == (len(found["1"]), 1)
    assert found.mean("1") == pytest.approx(1)


@pytest.mark.filterwarnings("ignore::tawa.cuppl.InferenceWarning")
def test_particle_chains_look_for_a_first_run_with_weight() -> None:
    rare = cuppl.model("def main () = let x = flip 0.02 in condition x; x")
    for chain in (rare.pimh, rare.particle_gibbs):
        assert set(chain(20, particles=10, chains=1, seed=1).values) == {True}


@pytest.mark.parametrize("method", ["importance", "smc"])
def test_the_first_particle_that_fails_is_named(method: str) -> None:
    source = "def main () = let x = sample (normal 0 1) in factor x; let y = 1 // floor x in y"
    found: set[str] = set()
    for threads in (1, 2, 3):
        with pytest.raises(failures.DivisionByZero) as caught:
            getattr(cuppl.model(source), method)(1000, seed=3, threads=threads)
        found.add(str(caught.value))
    assert len(found) == 1


def test_what_is_kept_names_the_files_of_its_own_installation(tmp_path: Path) -> None:
    """Two installations share a cache: neither points into the other's library."""
    package = Path(tawa.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(package, tmp_path / "other" / "tawa", ignore=ignored)
    check = "from tawa import cuppl; found = cuppl.model('def main () = flip 1.5', file='<test>')"
    run = (
        f"{check}\n"
        "from tawa.base.errors import TawaError\n"
        "try:\n"
        "    found.importance(10)\n"
        "except TawaError as error:\n"
        "    print(error.span.file)\n"
    )
    printed: list[str] = []
    for root, script in ((package.parent, check), (tmp_path / "other", run)):
        environment = os.environ | {"PYTHONPATH": str(root), "TAWA_CACHE_DIR": str(tmp_path / "c")}
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        printed.append(done.stdout.strip())
    assert printed == ["", "<test>"]
