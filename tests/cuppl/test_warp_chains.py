"""Chains that have all lanes of a warp draw what chains on the CPU draw, bit for bit."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import host_device
import numpy as np
import pytest
from host_device import HostChains

from tawa import cuppl
from tawa.base.errors import TawaError
from tawa.cuppl.core.ir import print_function
from tawa.cuppl.gpu.chains import ENDED, FIRST, LAST, RUN, GpuChains, threads_of_a_block
from tawa.cuppl.gpu.gather import MOST_SLOTS, gathered_loops
from tawa.cuppl.gpu.source import (
    LANES_TOGETHER,
    block_of_warps,
    chains_program,
    chains_source,
    shared_slots,
)
from tawa.cuppl.inference.settings import Limits
from tawa.cuppl.lowering.continuous import lower_continuous
from tawa.cuppl.lowering.pipeline import Lowered
from tawa.cuppl.natives import nuts
from tawa.runtime.nvrtc import compile_cuda

pytestmark = [
    pytest.mark.filterwarnings("ignore::tawa.cuppl.InferenceWarning"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler"),
]
Y = np.round(np.random.default_rng(4).normal(size=21), 3).tolist()
SHARED: dict[str, tuple[str, dict[str, Any]]] = {
    "a regression": (
        "input y : vector[float]\ninput x : vector[float]\n"
        "def main () = let a = sample (normal 0 2) in let s = sample (half_cauchy 1) in\n"
        "  iteri (fn i v -> observe (normal (a * x.[i]) s) v) y; (a, s)",
        {"y": Y, "x": Y[::-1]},
    ),
    "lags": (
        "input y : vector[float]\n"
        "def main () = let b = repeat 2 (fn () -> sample (normal 0 1)) in\n"
        "  iter (fn t ->\n"
        "    let m = range_fold (fn m k -> m + b.[k] * y.[t + 1 - k]) 0.1 2 in\n"
        "    observe (normal m 1) y.[t + 2]) (range (length y - 2)); (b.[0], b.[1])",
        {"y": Y},
    ),
    "two terms a turn, of the same values": (
        "input y : vector[float]\n"
        "def main () = let a = sample (normal 0 2) in let b = sample (normal a 1) in\n"
        "  iter (fn v -> observe (normal a 1) v; observe (normal (a * b) 2) (v + 1.0)) y; (a, b)",
        {"y": Y},
    ),
    "a term in some turns": (
        "input y : vector[float]\n"
        "def main () = let a = sample (normal 0 2) in let b = sample (normal 0 1) in\n"
        "  iter (fn v -> if v > 0.0 then observe (normal a 1) v else observe (normal b 2) v) y;\n"
        "  (a, b)",
        {"y": Y},
    ),
    "a value for each turn": (
        "input y : vector[float]\n"
        "def main () = let m = sample (normal 0 2) in\n"
        "  let z = repeat 21 (fn () -> sample (normal m 1)) in\n"
        "  iteri (fn j v -> observe (normal (z.[j] + m) 1) v) y; (m, z.[3])",
        {"y": Y},
    ),
    "values of groups": (
        "input y : vector[float]\ninput g : vector[int]\n"
        "def main () = let s = sample (half_cauchy 1) in\n"
        "  let z = repeat 4 (fn () -> sample (normal 0 1)) in\n"
        "  iteri (fn j v -> observe (normal z.[g.[j]] s) v) y; (s, z.[3])",
        {"y": Y, "g": [(7 * k) % 5 % 4 for k in range(21)]},
    ),
    "a mixture": (
        "input y : vector[float]\n"
        "def main () = let m = sample (normal 0 2) in let t = sample (beta 2 2) in\n"
        "  iter (fn v ->\n"
        "    let a = log t + log_density (normal m 1) v in\n"
        "    let b = log1p (-t) + log_density (normal (-m) 2) v in\n"
        "    factor (max a b + log1p (exp (-(abs (a - b)))))) y; (m, t)",
        {"y": Y},
    ),
}
ALONE: dict[str, tuple[str, dict[str, Any]]] = {
    "neighbours, whose adjoints are in two slots": (
        "input y : vector[float]\n"
        "def main () = let z = repeat 9 (fn () -> sample (normal 0 1)) in\n"
        "  iter (fn j -> observe (normal (z.[j] - z.[j + 1]) 1) y.[j]) (range 8); z.[3]",
        {"y": Y},
    ),
    "a recurrence": (
        "input y : vector[float]\n"
        "def main () = let a = sample (uniform 0 1) in let b = sample (exponential 1) in\n"
        "  range_fold (fn s t -> let n = sqrt (b + a * s * s) in\n"
        "    observe (normal 0 n) y.[t]; n) 1.0 (length y)",
        {"y": Y},
    ),
}


def lowered(model: cuppl.Model) -> Lowered:
    """The differentiated program."""
    found = lower_continuous(model.elaborated)
    assert found is not None
    return found


def on_both(
    source: str, data: dict[str, Any], lanes: int, folder: Path, **options: Any
) -> tuple[cuppl.Posterior, cuppl.Posterior, HostChains]:
    """The same chains on the CPU and as a GPU's text."""
    model = cuppl.model(source)
    device = HostChains(lowered(model), folder, lanes)
    model.use_chains_device(device)
    given: dict[str, Any] = {"warm_up": 30, "chains": 3, "data": data, "seed": 1 << 40 | 3}
    given |= options
    return model.nuts(8, threads=1, **given), model.nuts(8, device="gpu", **given), device


def same(one: cuppl.Posterior, other: cuppl.Posterior) -> None:
    for name in one.statistics:
        assert np.array_equal(one.statistics[name], other.statistics[name]), name
    assert [repr(v) for v in one.values] == [repr(v) for v in other.values]


@pytest.mark.parametrize("lanes", [4, 8])
@pytest.mark.parametrize("name", SHARED)
def test_lanes_share_the_likelihood(name: str, lanes: int, tmp_path: Path) -> None:
    source, data = SHARED[name]
    one, other, device = on_both(source, data, lanes, tmp_path)
    same(one, other)
    steps = one.statistics["n_steps"].sum()
    if lanes == 8:
        assert device.rounds >= 2 * steps


@pytest.mark.parametrize("name", ALONE)
def test_turns_that_depend_on_each_other_are_run_one_by_one(name: str, tmp_path: Path) -> None:
    source, data = ALONE[name]
    same(*on_both(source, data, 4, tmp_path)[:2])


@pytest.mark.parametrize("warps", [2, 3])
@pytest.mark.parametrize("name", ["values of groups", "a value for each turn"])
def test_warps_of_a_block_meet(name: str, warps: int, tmp_path: Path) -> None:
    """Chains whose trajectories differ in length, some in a block with a warp that has no chain."""
    source, data = SHARED[name]
    model = cuppl.model(source)
    device = HostChains(lowered(model), tmp_path, 4, warps, most=4)
    model.use_chains_device(device)
    given: dict[str, Any] = {"warm_up": 20, "chains": 5, "data": data, "seed": 7}
    one = model.nuts(12, threads=1, **given)
    assert device.meetings == 0
    same(one, model.nuts(12, device="gpu", **given))
    assert len({*one.statistics["n_steps"].sum(1)}) > 1
    assert device.meetings >= one.statistics["n_steps"][::warps].sum()


def test_a_chain_that_ends_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One fails in its first transitions, one has nothing to do, and the others go on."""
    source, data = SHARED["a regression"]
    model = cuppl.model(source)
    model.use_chains_device(HostChains(lowered(model), tmp_path, 4, 4))
    run, seen = GpuChains.run_kernel, list[list[tuple[int, int]]]()

    def run_kernel(self: GpuChains, what: int) -> None:
        if what == RUN and not seen:
            self.words[1, nuts.FUEL] = 10
            self.own[2, FIRST] = self.control[LAST]
        run(self, what)
        if what == RUN:
            left = self.control[LAST] - self.own[:, FIRST]
            seen.append(list(zip(self.own[:, ENDED].tolist(), left.tolist(), strict=True)))

    monkeypatch.setattr(GpuChains, "run_kernel", run_kernel)
    with pytest.raises(TawaError, match="steps"):
        model.nuts(12, warm_up=0, chains=4, data=data, seed=7, device="gpu")
    assert seen == [[(0, 0), (nuts.FAILED, 12), (0, 0), (0, 0)]]


def test_chains_that_need_more_room_are_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each launch ends some chains of a block; the next one goes on with them."""
    make = GpuChains.make_room

    def little(self: GpuChains, *_: int) -> None:
        make(self, 0, 0)

    monkeypatch.setattr(GpuChains, "make_room", little)
    source = (
        "def main () = let x = sample (normal 0 1) in\n"
        "  let n = if x > 0.3 then 90 else 1 in let v = tabulate n (fn k -> x * float k) in\n"
        "  factor (log_density (normal 0 100) (range_fold (fn a k -> a * 0.5 + v.[k] * x) 0.0 n)); x"
    )
    model = cuppl.model(source)
    device = HostChains(lowered(model), tmp_path, 4, 3)
    model.use_chains_device(device)
    given: dict[str, Any] = {"warm_up": 0, "chains": 5, "seed": 4}
    same(model.nuts(20, **given), model.nuts(20, device="gpu", **given))
    assert device.launched.count("run_chains") > 3


def test_threads_that_wait_for_ever_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first lane waits for the others of its warp, which have ended."""
    end = "  if (lane != 0) return;\n"

    def broken(*given: Any) -> str:
        text = chains_source(*given)
        assert text.count(end) == 1
        return text.replace(end, end + "  warp_sync();\n")

    monkeypatch.setattr(host_device, "chains_source", broken)
    source, data = SHARED["a regression"]
    with pytest.raises(AssertionError, match="wait for each other"):
        on_both(source, data, 4, tmp_path)


def test_blocks_have_as_many_warps_as_run_at_once() -> None:
    """All multiprocessors get some chains before one gets many; shared memory may halve a block."""
    assert [threads_of_a_block(n, 132, 256) for n in (1, 132, 133, 1024, 1056, 8000)] == [
        32, 32, 64, 256, 256, 256
    ]  # fmt: skip
    assert [block_of_warps(n) for n in (0, 8, 23, 24, MOST_SLOTS)] == [256, 256, 256, 128, 128]


@pytest.mark.parametrize("options", [{"pooled": True}, {"metric": "low_rank"}])
def test_metrics_are_shared_too(options: dict[str, Any], tmp_path: Path) -> None:
    source, data = SHARED["a value for each turn"]
    same(*on_both(source, data, 4, tmp_path, **options)[:2])


def test_only_sums_over_data_are_shared() -> None:
    assert all(shared_slots(lowered(cuppl.model(source))) for source, _ in SHARED.values())
    assert not shared_slots(lowered(cuppl.model(ALONE["a recurrence"][0])))


def test_slots_are_terms_and_partial_derivatives() -> None:
    program = chains_program(lowered(cuppl.model(SHARED["a regression"][0])), together=True)
    loops = [
        found for f in program.functions.values() for found in gathered_loops(f, program).values()
    ]
    (loop,) = loops
    assert (len(loop.weights), len(loop.partials)) == (1, 2)


OVERFLOWS = (
    "input y : vector[float]\n"
    "def main () = let a = sample (normal 0 3) in\n"
    "  iteri (fn i v -> observe (normal 0 (if i == 13 then a else 1.0)) v) y; a"
)


def test_a_turn_that_fails_rejects_the_trajectory(tmp_path: Path) -> None:
    """A scale below 0 in the middle of a round: the loop then runs turn by turn."""
    one, other, device = on_both(OVERFLOWS, {"y": Y}, 8, tmp_path)
    same(one, other)
    assert device.rounds > 0


@pytest.mark.parametrize("lanes", [4, 8])
def test_errors_are_those_of_the_cpu(lanes: int, tmp_path: Path) -> None:
    source = (
        "input y : vector[float]\n"
        "def main () = let a = sample (normal 0 1) in\n"
        '  iter (fn v -> if a * v > 9.0 then fail "large" else observe (normal a 1) v) y; a'
    )
    model = cuppl.model(source)
    model.use_chains_device(HostChains(lowered(model), tmp_path, lanes))
    data = {"y": [*Y, 3.5, -0.5, 0.25]}
    errors: list[str] = []
    for device in ("cpu", "gpu"):
        with pytest.raises(TawaError, match="large") as found:
            model.nuts(400, chains=1, warm_up=50, data=data, seed=2, device=device)
        errors.append(str(found.value))
    assert errors[0] == errors[1]


FUEL = (
    "input y : vector[float]\n"
    "def main () = let a = sample (normal 0 1) in\n"
    "  let n = if a > 0.3 then 6 else 2 in\n"
    "  iter (fn v -> let m = range_fold (fn m k -> m + k) 0 n in\n"
    "    observe (normal a (1.0 + float m)) v) y; a"
)


def test_fuel_ends_where_it_does_on_the_cpu(tmp_path: Path) -> None:
    """Limits that chains keep, and some that they break in the middle of a round."""
    model = cuppl.model(FUEL)
    device = HostChains(lowered(model), tmp_path, 8)
    model.use_chains_device(device)
    given: dict[str, Any] = {"warm_up": 5, "chains": 1, "data": {"y": Y}}
    ends: dict[str, list[str]] = {"cpu": [], "gpu": []}
    for trial in range(60):
        for where, found in ends.items():
            limits = Limits(max_steps=80 + 10 * (trial % 10))
            try:
                drawn = model.nuts(4, device=where, limits=limits, seed=trial // 10, **given)
                found.append(repr(drawn.values))
            except TawaError as error:
                found.append(str(error))
    assert ends["cpu"] == ends["gpu"]
    assert device.rounds > 0
    assert sum("steps" in one for one in ends["cpu"]) > 10


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_sums_that_overflow_reject_the_trajectory(tmp_path: Path) -> None:
    """Each term is finite where the weight no longer is."""
    source = (
        "input y : vector[float]\n"
        "def main () = let a = sample (normal 0 1) in\n"
        "  iter (fn v -> factor (1e307 * (a - 0.5) * v * v)) y; a"
    )
    one, other, device = on_both(source, {"y": Y}, 8, tmp_path)
    same(one, other)
    assert device.rounds > 0
    assert np.isfinite(one.statistics["lp"]).all()


def test_products_by_rows_have_the_bits_of_those_by_columns() -> None:
    random = np.random.default_rng(2)
    for n in (1, 2, 7, 33):
        matrix, v = random.normal(size=n * n), random.normal(size=n)
        one, other = np.zeros(n), np.ones(n)
        nuts.product(n, matrix, v, one)
        nuts.product_by_rows(n, matrix, v, other)
        assert np.array_equal(one, other)


def test_a_loop_that_only_fills_a_vector_is_shared() -> None:
    program = chains_program(lowered(cuppl.model(SHARED["lags"][0])), together=True)
    filling = [f for f in program.functions.values() if f.apart and "alloc" in print_function(f)]
    assert filling


@pytest.mark.parametrize("name", [*SHARED][:2])
def test_the_text_is_cuda(name: str) -> None:
    text = chains_source(lowered(cuppl.model(SHARED[name][0])), together=LANES_TOGETHER)
    assert "gather<" in text
    assert compile_cuda(text, "sm_90a", name="cuppl.cu", options=("--fmad=false",)).cubin
