"""Files, data of other packages, the command line, ArviZ."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tawa import cuppl
from tawa.cuppl.cli import app, read_data
from tawa.cuppl.results.chains import effective_sample_size, r_hat
from tawa.cuppl.typing.errors import BadSetting, NoMain
from tawa.cuppl.typing.failures import UnboundedRecursion
from tawa.functional.errors import FunctionalError

PROGRAM = """# A normal mean.
input ys : vector[float]
def main () = let mu = sample (normal 0 2) in iter (fn y -> observe (normal mu 1) y) ys; mu
"""
REFUSED = [
    (["--device", "tpu"], "unknown device"),
    (["--device", "tpu", "--method", "mh"], "unknown device"),
    (["--device", "gpu", "--method", "mh"], "--device is not an option of mh"),
    (["--runs", "3", "--method", "mh"], "--runs is not an option of mh"),
    (["--particles", "many"], "--particles: not a number"),
    (["--particles", "0"], "`particles`"),
    (["--tolerance", "0.1"], "--tolerance is not an option of smc"),
    (["--output", "nowhere/out.json"], "there is no folder nowhere"),
    (["--data", "nowhere.json"], "there is no file nowhere.json"),
    (["--data", "model.ppl"], "model.ppl is not JSON"),
]
"""Options of `tawa cuppl run` that it can't do, and what it says."""
ANY = "input x : {type}\ndef main () = x"


@pytest.mark.parametrize(
    ("type_", "given", "back"),
    [
        ("float", 2, 2.0),
        ("int", np.int32(7), 7),
        ("bool", True, True),
        ("string", "ab", "ab"),
        ("(int, float)", [1, 2.5], (1, 2.5)),
        ("vector[int]", np.arange(3, dtype=np.int16), [0, 1, 2]),
        ("vector[float]", np.array([1.5, 2.5], dtype=np.float32), [1.5, 2.5]),
        ("vector[vector[float]]", np.eye(2), [[1.0, 0.0], [0.0, 1.0]]),
        ("vector[(int, bool)]", [(1, True), (2, False)], [(1, True), (2, False)]),
        ("Option[int]", {"Some": [3]}, ("Some", 3)),
        ("Option[int]", "None", "None"),
        ("List[float]", ("Cons", 1.0, "Nil"), ("Cons", 1.0, "Nil")),
    ],
)
def test_data_goes_in_and_comes_back(type_: str, given: object, back: object) -> None:
    found = cuppl.model(ANY.format(type=type_)).importance(2, data={"x": given})
    assert found.values == [back, back]


def test_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"ys": [1.0, 2.0, 0.5]})
    model = cuppl.model(PROGRAM)
    one = model.smc(2000, data={"ys": frame["ys"]}, threads=1)
    other = model.smc(2000, data={"ys": [1.0, 2.0, 0.5]}, threads=1)
    assert one.mean() == other.mean()


def test_results() -> None:
    model = cuppl.model(
        "def main () = let p = sample (beta 2 2) in let k = sample (binomial 5 p) in (p, k)"
    )
    found = model.importance(4000, seed=1)
    assert found.names == ["p", "k"]
    assert found["p"].dtype == np.float64
    assert found["k"].dtype == np.int64
    assert found.mean("k") == pytest.approx(2.5, abs=0.15)
    assert found.quantile(0.5, "p") == pytest.approx(0.5, abs=0.05)
    assert found.mean(lambda v: v[0] * 2) == pytest.approx(2 * found.mean("p"))
    assert "log evidence" in found.summary()


def test_seeds() -> None:
    model = cuppl.model("def main () = sample (normal 0 1)")
    a, b, c = (model.importance(100, seed=s)["result"] for s in (1, 1, 2))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)


def test_files_and_imports(tmp_path: Path) -> None:
    (tmp_path / "coins.ppl").write_text("def both p = flip p && flip p\n")
    program = tmp_path / "main.ppl"
    program.write_text("import coins (both)\ndef main () = both 0.5\n")
    assert cuppl.load(program).enumerate().probabilities()[True] == pytest.approx(0.25)


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_the_command_line_refuses_what_it_has_not(
    options: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.ppl").write_text("def main () = let x = sample (normal 0 1) in factor x; x")
    found = CliRunner().invoke(app, ["run", "model.ppl", *options])
    assert isinstance(found.exception, BadSetting)
    assert said in str(found.exception)


def test_command_line(tmp_path: Path) -> None:
    program, data, output = (tmp_path / n for n in ("m.ppl", "d.json", "o.json"))
    program.write_text(PROGRAM)
    data.write_text(json.dumps({"ys": [1.0, 2.0, 0.5]}))
    runner = CliRunner()
    options = ["--data", str(data), "--particles", "2e4", "--seed", "3", "--output", str(output)]
    result = runner.invoke(app, ["run", str(program), *options])
    assert result.exit_code == 0, result.output
    assert json.loads(output.read_text())["columns"]["mu"]["mean"] == pytest.approx(
        14 / 13, abs=0.05
    )
    checked = runner.invoke(app, ["check", str(program)])
    assert "main : () -> float" in checked.output
    for stage in ("core", "llvm", "cuda"):
        assert len(runner.invoke(app, ["emit", str(program), "--stage", stage]).output) > 1000
    table = tmp_path / "d.csv"
    table.write_text("ys\n1.0\n2.0\n0.5\n")
    for method in ("importance", "mh", "nuts", "pimh", "gibbs"):
        more = ["--data", str(table), "--method", method, "--particles", "50", "--draws", "50"]
        assert runner.invoke(app, ["run", str(program), *more]).exit_code == 0


def test_arviz() -> None:
    pytest.importorskip("arviz")
    data = {"ys": [1.0, 2.0, 0.5]}
    chains = cuppl.model(PROGRAM).mh(500, data=data, chains=3).to_inference_data()
    assert chains.posterior["mu"].shape == (3, 500)
    weighted = cuppl.model(PROGRAM).smc(2000, data=data, runs=2).to_inference_data(draws=300)
    assert weighted.posterior["mu"].shape == (2, 300)


def test_chain_diagnostics() -> None:
    random = np.random.default_rng(0)
    independent = random.normal(size=(4, 1000))
    assert r_hat(independent) == pytest.approx(1.0, abs=0.01)
    assert effective_sample_size(independent) == pytest.approx(4000, rel=0.15)
    apart = independent + np.arange(4)[:, None]
    assert r_hat(apart) > 1.3
    slow = np.zeros((4, 4000))
    for k in range(1, 4000):
        slow[:, k] = 0.9 * slow[:, k - 1] + random.normal(size=4)
    assert effective_sample_size(slow) == pytest.approx(16000 * 0.1 / 1.9, rel=0.3)


def test_programs_are_laid_out_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "memo.ppl"
    path.write_text(
        "def main () =\n  letrec f = mem (fn i -> if i == 0 then 1 else f (i - 1)) in f 3"
    )
    done = CliRunner().invoke(app, ["format", str(path)])
    assert done.exit_code == 0, done.output
    assert "letrec f = mem (fn i ->" in done.output
    cuppl.model(done.output)


def test_inputs_and_sequences_are_laid_out_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "coin.ppl"
    text = """input heads : vector[bool]

# The bias.
def main () =
  let p = sample (beta 1 1) in
  (if p > 0.5 then condition true else ());
  iter (fn h -> observe (bernoulli p) h; ()) heads;
  p
"""
    path.write_text(text)
    done = CliRunner().invoke(app, ["format", str(path)])
    assert done.output == text


def test_truth_values_in_a_table(tmp_path: Path) -> None:
    (tmp_path / "heads.csv").write_text("heads\ntrue\nfalse\n")
    assert read_data(tmp_path / "heads.csv") == {"heads": [True, False]}


def test_an_endless_program_is_enumerated_to_a_tolerance(tmp_path: Path) -> None:
    path = tmp_path / "geometric.ppl"
    path.write_text("def g () = if flip 0.5 then 0 else 1 + g ()\ndef main () = g ()")
    given = ["run", str(path), "--method", "enumerate"]
    with pytest.raises(UnboundedRecursion, match="`tolerance`"):
        CliRunner().invoke(app, given, catch_exceptions=False)
    done = CliRunner().invoke(app, [*given, "--tolerance", "1e-6"])
    assert "mean 0.99" in done.output


@pytest.mark.parametrize("head", ["main x", "main x y", "main (x, y)"])
def test_main_takes_nothing(head: str) -> None:
    with pytest.raises(NoMain, match="takes an argument"):
        cuppl.model(f"def {head} = flip x").importance(10)


@pytest.mark.parametrize(
    ("body", "advice"),
    [
        ("observe 1.0 (normal 0 1)", "a distribution comes first"),
        ("1; 2", "only `()` can stand before a `;`"),
        ("map [1, 2] (fn x -> x)", "a function comes first"),
        ("list_length [1, 2]", "list_of_vector"),
        ("let f n = if n == 0 then 0 else f (n - 1) in f 3", "letrec f"),
        ("sample (gaussian 0 1)", "`normal mean sd`"),
        ("sample (normal mean=0 sd=1)", "arguments have no names"),
    ],
)
def test_what_newcomers_write(body: str, advice: str) -> None:
    with pytest.raises(FunctionalError, match=re.escape(advice)):
        cuppl.model(f"def main () = {body}")
