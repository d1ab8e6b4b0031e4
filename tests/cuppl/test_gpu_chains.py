"""Chains on a GPU draw what chains on the CPU draw, bit for bit."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_device import HostChains

from tawa import cuppl
from tawa.base.errors import TawaError
from tawa.cuppl.gpu.chains import GpuChains
from tawa.cuppl.gpu.source import chains_source
from tawa.cuppl.inference import adaptation
from tawa.cuppl.inference.adaptation import near_others, pooled
from tawa.cuppl.inference.density import STEEP
from tawa.cuppl.lowering.continuous import lower_continuous
from tawa.cuppl.lowering.pipeline import Lowered
from tawa.cuppl.typing.errors import BadSetting, UnsupportedMethod
from tawa.runtime.nvrtc import compile_cuda

pytestmark = [
    pytest.mark.filterwarnings("ignore::tawa.cuppl.InferenceWarning"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler"),
]
PROGRAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "schools": (
        "input y : vector[float]\n"
        "def main () = let mu = sample (normal 0 5) in let tau = sample (half_cauchy 5) in\n"
        "  let z = sample (diagonal_normal (replicate 3 0.0) (replicate 3 1.0)) in\n"
        "  iteri (fn j v -> observe (normal (mu + tau * z.[j]) 10.0) v) y; (mu, tau)",
        {"y": [28.0, 8.0, -3.0]},
    ),
    "a recurrence": (
        "input y : vector[float]\n"
        "def main () = let a = sample (uniform 0 1) in let b = sample (exponential 1) in\n"
        "  let v = repeat 3 (fn () -> sample (normal 0 1)) in\n"
        "  let s = range_fold (fn s t -> let n = sqrt (b + a * s * s) in\n"
        "    observe (normal v.[0] n) y.[t]; n) 1.0 (length y) in (a, v, Some s, y)",
        {"y": [0.5, -1.0, 2.0, 0.1]},
    ),
}
WEDGE = (
    "def main () = let a = sample (flat (-infinity) infinity) in\n"
    "  let b = sample (flat (-infinity) infinity) in\n"
    "  factor (-0.5 * a * a - 0.5 * b * b * (exp (4.0 * a) + 0.01)); a"
)


def lowered(model: cuppl.Model) -> Lowered:
    """The differentiated program."""
    found = lower_continuous(model.elaborated)
    assert found is not None
    return found


def on_both(name: str, folder: Path, **options: Any) -> tuple[cuppl.Posterior, cuppl.Posterior]:
    """The same chains on the CPU and as a GPU's text."""
    source, data = PROGRAMS[name]
    model = cuppl.model(source)
    model.use_chains_device(HostChains(lowered(model), folder))
    given = {"draws": 12, "warm_up": 40, "chains": 5, "data": data, "seed": 1 << 40 | 3, **options}
    return model.nuts(threads=2, **given), model.nuts(device="gpu", **given)


def same(one: cuppl.Posterior, other: cuppl.Posterior) -> None:
    for name in one.statistics:
        assert np.array_equal(one.statistics[name], other.statistics[name]), name
    assert [repr(v) for v in one.values] == [repr(v) for v in other.values]


@pytest.mark.parametrize("pooled", [False, True])
def test_chains_that_diverge_in_the_warm_up_agree(
    pooled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = cuppl.model(WEDGE)
    model.use_chains_device(HostChains(lowered(model), tmp_path))
    given = {"draws": 20, "warm_up": 300, "chains": 3, "seed": 1, "pooled": pooled}
    there = model.nuts(device="gpu", **given)
    same(model.nuts(threads=2, **given), there)
    monkeypatch.setattr(adaptation, "STRICTEST", 0.8)
    assert (model.nuts(threads=2, **given)["a"] != there["a"]).any()


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_generated_text_agrees_with_the_cpu(name: str, pooled: bool, tmp_path: Path) -> None:
    same(*on_both(name, tmp_path, pooled=pooled))
    same(*on_both(name, tmp_path, pooled=pooled, metric="low_rank"))


def test_chains_of_a_fixed_length_agree(tmp_path: Path) -> None:
    source, data = PROGRAMS["a recurrence"]
    model = cuppl.model(source)
    model.use_chains_device(HostChains(lowered(model), tmp_path))
    given: dict[str, Any] = {"leapfrogs": 3, "chains": 2, "warm_up": 30, "data": data}
    same(model.hmc(15, **given), model.hmc(15, device="gpu", **given))


GROWING = """
def main () =
  let x = sample (normal 0 1) in
  let n = if x > 0.3 then 90 else 1 in
  let v = tabulate n (fn k -> x * float k) in
  factor (log_density (normal 0 100) (range_fold (fn a k -> a * 0.5 + v.[k] * x) 0.0 n));
  x
"""


def test_tapes_and_heaps_grow_while_chains_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some chains need more room than any start did; the others do not run again."""
    make = GpuChains.make_room
    monkeypatch.setattr(GpuChains, "make_room", lambda self, *_: make(self, 0, 0))
    model = cuppl.model(GROWING)
    device = HostChains(lowered(model), tmp_path)
    model.use_chains_device(device)
    given: dict[str, Any] = {"warm_up": 0, "chains": 3, "seed": 4}
    same(model.nuts(20, **given), model.nuts(20, device="gpu", **given))
    assert device.launched.count("run_chains") > 3


STEEP_STARTS = """
def main () =
  let x = sample (flat (-infinity) infinity) in
  (if x < -1.0 then factor (-infinity) else factor (-exp (10.0 * x) - 0.5 * x * x));
  x
"""


@pytest.mark.parametrize("lanes", [0, 4])
def test_chains_leave_steep_starts_on_the_device(
    lanes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fourth of the starts is impossible, and more are steep; the CPU looks for one alone."""
    find, found = GpuChains.find_start, list[int]()

    def find_start(self: GpuChains, chain: int) -> tuple[int, int]:
        found.append(chain)
        return find(self, chain)

    monkeypatch.setattr(GpuChains, "find_start", find_start)
    model = cuppl.model(STEEP_STARTS)
    device = HostChains(lowered(model), tmp_path, lanes)
    model.use_chains_device(device)
    given: dict[str, Any] = {"warm_up": 0, "chains": 30, "seed": 5 << 40 | 3}
    same(model.nuts(3, **given), model.nuts(3, device="gpu", **given))
    assert found == [0]
    density, _ = model.density({}, 0)
    steep, impossible = 0, 0
    for seed in range(3, 33):
        density.restart(5 << 40 | seed)
        impossible += density.attempts > 1
        steep += density(density.position[:1])[1][0] < -STEEP
    assert steep > 3
    assert impossible > 3


FAILING = {
    "def main () = let x = sample (normal 0 1) in\n"
    "  if x > 1.5 then fail \"too large\" else x": "too large",
    "def main () = let x = sample (normal 0 1) in\n"
    "  if x > 1.5 then x + sample (normal 0 1) else x": "number of choices",
}  # fmt: skip


@pytest.mark.parametrize("source", FAILING)
def test_errors_are_those_of_the_cpu(source: str, tmp_path: Path) -> None:
    model = cuppl.model(source)
    model.use_chains_device(HostChains(lowered(model), tmp_path))
    given: dict[str, Any] = {"warm_up": 100, "chains": 1, "seed": 1}
    errors: list[str] = []
    for device in ("cpu", "gpu"):
        with pytest.raises(TawaError, match=FAILING[source]) as found:
            model.nuts(400, device=device, **given)
        errors.append(str(found.value))
    assert errors[0] == errors[1]


def test_recursion_is_refused() -> None:
    model = cuppl.model(
        "def f n = if n == 0 then 0.0 else 1.0 + f (n - 1)\n"
        "def main () = let x = sample (normal 0 1) in f 5 + x"
    )
    with pytest.raises(UnsupportedMethod, match="recurses"):
        model.nuts(2, device="gpu")


def test_islands_do_not_learn_together() -> None:
    islands = cuppl.Islands(cuppl.model("def main () = sample (normal 0 1)"), LocalExecutor())
    with pytest.raises(BadSetting, match="learn together"):
        islands.nuts(2, pooled=True)


class LocalExecutor:
    """Tasks one after the other, here."""

    def map(self, work: Any, tasks: Any) -> list[Any]:
        return [work(task) for task in tasks]


def test_pooled_moments_are_those_of_all_positions() -> None:
    random = np.random.default_rng(3)
    n, sizes = 3, [4, 7, 1]
    rows: list[np.ndarray] = []
    points = [random.normal(size=(size, 2 * n)) for size in sizes]
    for some in points:
        apart = some - some.mean(0)
        squares = (apart**2).sum(0)
        products = (apart[:, :n].T @ apart[:, :n]).reshape(-1)
        mean = some.mean(0)
        rows.append(np.concatenate([mean[:n], squares[:n], mean[n:], squares[n:], products]))
    chosen = np.array([True, True, False])
    count, found = pooled(np.array(sizes)[chosen], np.array(rows)[chosen], n, products=True)
    whole = np.concatenate(points[:2])
    apart = whole - whole.mean(0)
    assert count == 11
    assert found[:n] == pytest.approx(whole.mean(0)[:n])
    assert found[n : 2 * n] == pytest.approx((apart**2).sum(0)[:n])
    assert found[3 * n : 4 * n] == pytest.approx((apart**2).sum(0)[n:])
    assert found[4 * n :] == pytest.approx((apart[:, :n].T @ apart[:, :n]).reshape(-1))


def test_chains_that_are_stuck_teach_the_others_nothing() -> None:
    """Also where they are most; chains that have arrived are all near, whatever their dimension."""
    random = np.random.default_rng(5)
    for n in (1, 5, 30):
        arrived = -0.5 * random.chisquare(n, size=2000)
        assert near_others(arrived, n).all()
        stuck = -1e4 - 100.0 * random.random(1200)
        both = near_others(np.concatenate([arrived, stuck]), n)
        assert both[:2000].all()
        assert not both[2000:].any()


def test_a_warm_up_together_frees_chains_that_start_far_away() -> None:
    """Two fifths of the starts have a density that is lower by thousands than that of the others."""
    data = {"x": np.linspace(60, 140, 60).tolist()}
    data["y"] = [20.0 + 0.6 * x + 15.0 * np.sin(7 * x) for x in data["x"]]
    model = cuppl.model(
        "input x : vector[float]\ninput y : vector[float]\n"
        "def main () = let a = sample (normal 0 100) in let b = sample (normal 0 100) in\n"
        "  let s = sample (half_cauchy 2.5) in\n"
        "  iteri (fn i v -> observe (normal (a + b * x.[i]) s) v) y; (a, b, s)"
    )
    found = model.nuts(25, warm_up=100, chains=48, data=data, pooled=True, seed=1)
    assert found.statistics["n_steps"].mean() < 8
    assert max(found.r_hat(name) for name in found.columns) < 1.1


def test_many_chains_learn_a_covariance_in_a_short_warm_up() -> None:
    """The sum of twelve values is known to 0.01: alone, a chain can't see that in 30 transitions."""
    model = cuppl.model(
        "def main () = let v = repeat 12 (fn () -> sample (normal 0 1)) in\n"
        "  observe (normal (sum v) 0.01) 1.0; v.[0]"
    )
    given: dict[str, Any] = {"warm_up": 30, "chains": 64, "seed": 2}
    together, alone = (model.nuts(20, pooled=p, **given) for p in (True, False))
    assert together.statistics["n_steps"].mean() < 0.3 * alone.statistics["n_steps"].mean()
    assert 0.7 < together.diagnostics["accepted"] < 0.9
    draws = together[0]
    assert draws.mean() == pytest.approx(1 / 12, abs=0.08)
    assert draws.std() == pytest.approx((11 / 12) ** 0.5, rel=0.06)


@pytest.mark.parametrize("name", ["a recurrence"])
def test_it_compiles_for_the_gpu(name: str) -> None:
    text = chains_source(lowered(cuppl.model(PROGRAMS[name][0])))
    assert compile_cuda(text, "sm_90a", options=("--fmad=false",)).cubin


@pytest.mark.gpu
@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_gpu_agrees_with_the_cpu(name: str, pooled: bool) -> None:
    source, data = PROGRAMS[name]
    model = cuppl.model(source)
    given: dict[str, Any] = {"warm_up": 60, "chains": 70, "data": data, "pooled": pooled}
    same(model.nuts(30, **given), model.nuts(30, device="gpu", **given))
