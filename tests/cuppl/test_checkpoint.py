"""Runs that are broken off go on with the same bits, wherever their memory lies then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tawa import cuppl
from tawa.cuppl.cli import app
from tawa.cuppl.inference import checkpoint as kept_in
from tawa.cuppl.typing.errors import BadSetting

pytestmark = pytest.mark.filterwarnings("ignore::tawa.cuppl.InferenceWarning")
YS = [0.3, -0.7, 1.9, 0.0, 2.5, -1.1, 0.4, 0.8]
WALK = """
input ys : vector[float]
def main () =
  fold (fn x y -> let n = sample (normal (0.9 * x) 0.5) in observe (normal n 0.7) y; n)
    (sample (normal 0 1)) ys
"""
LISTS = """
data Tree = Leaf(float) | Node(Tree, vector[float], Tree)
input ys : vector[float]
def grow x = if x > 0.5 then Node (Leaf x, [x, 2.0 * x], Leaf (x - 1.0)) else Leaf x
def total t = match t with
  | Leaf x -> x | Node (a, v, b) -> total a + sum v + total b end
def main () =
  let f = mem (fn k -> sample (normal 0 1)) in
  let l = fold (fn l y ->
    let x = sample (normal (f (length ys % 3)) 1) in
    let t = grow (x + y) in
    observe (normal (total t) 2) y;
    Cons (t, l)) Nil ys in
  (list_fold (fn a t -> a + total t) 0.0 l, f 1, ys.[0])
"""
SCALES = """
input ys : vector[float]
def main () =
  let m = sample (normal 0 1) in
  let s = sample (log_normal 0 0.3) in
  let z = map (fn y -> sample (normal y 0.5)) ys in
  iter (fn y -> observe (normal m s) y) ys;
  (m, s, z)
"""


class Stopped(Exception):
    """Stands for whatever breaks a run off."""


def stop_after(monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    """Break off when the state has been written so often."""
    save, count = kept_in.Place.save, [0]

    def counted(place: kept_in.Place, arrays: dict[str, Any]) -> None:
        save(place, arrays)
        count[0] += 1
        if count[0] == writes:
            raise Stopped

    monkeypatch.setattr(kept_in.Place, "save", counted)


def broken_off(run: Callable[..., cuppl.Posterior], folder: Path, writes: int) -> cuppl.Posterior:
    """What a run says that was broken off once."""
    every = cuppl.Checkpoint(folder, seconds=0.0)
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, writes)
        with pytest.raises(Stopped):
            run(checkpoint=every)
    return run(checkpoint=every)


@pytest.mark.parametrize("source", [WALK, LISTS])
@pytest.mark.parametrize("writes", [1, 5])
def test_smc(source: str, writes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tawa.cuppl.inference import smc

    monkeypatch.setattr(smc, "TURNS_APART", 1)
    model = cuppl.model(source)

    def run(**more: Any) -> cuppl.Posterior:
        return model.smc(300, data={"ys": YS}, seed=4, runs=2, threads=2, **more)

    whole, again = run(), broken_off(run, tmp_path, writes)
    assert again.log_evidence == whole.log_evidence
    for column in whole.columns:
        assert (again[column] == whole[column]).all()
    for one, other in zip(whole.runs, again.runs, strict=True):
        assert (one.weights == other.weights).all()


@pytest.mark.parametrize("writes", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("pooled", [False, True])
def test_nuts(writes: int, pooled: bool, tmp_path: Path) -> None:
    model = cuppl.model(SCALES)

    def run(**more: Any) -> cuppl.Posterior:
        return model.nuts(
            250, warm_up=230, data={"ys": YS}, seed=3, chains=2, threads=1, pooled=pooled, **more
        )

    whole, again = run(), broken_off(run, tmp_path, writes if not pooled else min(writes, 4))
    for column in whole.columns:
        assert (again[column] == whole[column]).all()
    assert again.diagnostics == whole.diagnostics


def test_what_is_finished_is_not_drawn_again(tmp_path: Path) -> None:
    model = cuppl.model(WALK.replace("observe (normal n 0.7) y", "observe (normal n 0.8) y"))
    every = cuppl.Checkpoint(tmp_path, seconds=0.0)
    first = model.hmc(150, warm_up=50, data={"ys": YS}, chains=1, checkpoint=every)
    again = model.hmc(150, warm_up=50, data={"ys": YS}, chains=1, checkpoint=every)
    assert (np.asarray(first[0]) == np.asarray(again[0])).all()


def test_another_run_is_refused(tmp_path: Path) -> None:
    model = cuppl.model(WALK)
    every = cuppl.Checkpoint(tmp_path, seconds=0.0)
    model.hmc(120, warm_up=20, data={"ys": YS}, chains=1, checkpoint=every)
    for other in ({"seed": 1}, {"data": {"ys": YS[1:]}}, {"warm_up": 21}):
        options: dict[str, Any] = {"warm_up": 20, "data": {"ys": YS}, "chains": 1, **other}
        with pytest.raises(BadSetting, match="of another run"):
            model.hmc(120, checkpoint=every, **options)
    (tmp_path / "chain-0.npz").write_bytes(b"PK\x03\x04 torn")
    with pytest.raises(BadSetting, match="can't be read"):
        model.hmc(120, warm_up=20, data={"ys": YS}, chains=1, checkpoint=tmp_path)
    every = cuppl.Checkpoint("/proc/nowhere", seconds=0.0)
    with pytest.raises(BadSetting, match="can't be written"):
        model.hmc(120, warm_up=20, data={"ys": YS}, chains=1, checkpoint=every)
    with pytest.raises(BadSetting, match="on the CPU"):
        model.smc(100, data={"ys": YS}, device="gpu", checkpoint=tmp_path)
    with pytest.raises(BadSetting, match="is a folder"):
        model.smc(100, data={"ys": YS}, checkpoint=tmp_path / "chain-0.npz")


def test_command_line(tmp_path: Path) -> None:
    (tmp_path / "walk.ppl").write_text(WALK)
    (tmp_path / "ys.json").write_text('{"ys": [0.5, 1.0]}')
    given = ["run", str(tmp_path / "walk.ppl"), "--data", str(tmp_path / "ys.json")]
    folder = ["--checkpoint", str(tmp_path / "kept")]
    shown = CliRunner().invoke(app, [*given, "--method", "nuts", "--draws", "100", *folder])
    plain = CliRunner().invoke(app, [*given, "--method", "nuts", "--draws", "100"])
    assert shown.exit_code == 0
    assert shown.output == plain.output
    refused = CliRunner().invoke(app, [*given, "--method", "pimh", *folder])
    assert refused.exit_code != 0
    assert isinstance(refused.exception, BadSetting)
