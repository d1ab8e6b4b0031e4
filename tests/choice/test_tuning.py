"""`tawa.tune`: candidates in order, results in a file, kernels that are tuned as they run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.base.errors import TawaError
from tawa.base.knobs import CACHE_DIR
from tawa.cli.tuning import tune_example
from tawa.driver import tuning
from tawa.driver.compile_processes import compile_variants

EXAMPLES = Path(__file__).parents[2] / "examples"


@tawa.jit
def double(x, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, 2 * tl.load(x + i, mask=i < N), mask=i < N)


CONFIGS = [tawa.Config({"BLOCK": block}) for block in (3, 64, 1024)]


def grid(given: dict[str, Any]) -> tuple[int]:
    return (tawa.cdiv(given["N"], given["BLOCK"]),)


def tuned(n: int = 2**20, **more: Any) -> tawa.Tuned:
    return tawa.tune(double, np.empty(n, np.float32), n, grid=grid, configs=CONFIGS, **more)


def test_the_best_is_predicted_fastest_and_failures_are_named() -> None:
    found = tuned()
    times = [trial.predicted for trial in found.trials if not trial.error]
    assert times == sorted(times)
    assert found.options == {"BLOCK": 1024}
    assert [trial.options for trial in found.trials if trial.error] == [{"BLOCK": 3}]
    assert all(trial.measured is None for trial in found.trials)
    shown = found.render()
    assert shown.splitlines()[0] == "double on h100"
    assert "BLOCK=1024" in shown
    assert "tl.arange(0, 3)" in shown


def test_results_are_kept_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a later run, for the same sizes up to two leading bits, and for no others."""
    file = tmp_path / "tuned.json"
    first = tuned(file=file)
    monkeypatch.setattr(tuning, "_replayed", lambda *_: pytest.fail("it is in the file"))
    assert tuned(file=file) == first
    assert tuned(2**20 - 512, file=file) == first
    assert len(json.loads(file.read_text())) == 1
    monkeypatch.undo()
    tuned(2**14, file=file)
    assert len(json.loads(file.read_text())) == 2


def test_a_file_of_something_else_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "tuned.json"
    file.write_text('{"double-0": 3}')
    with pytest.raises(tuning.BadTuningFile):
        tuned(file=file)


def test_launches_of_a_tuned_kernel_take_the_best(tmp_path: Path) -> None:
    made: Any = tawa.jit(tune=tmp_path / "tuned.json", configs=CONFIGS[1:])(double.fn)
    x = np.arange(500, dtype=np.float32)
    made[grid](x, 500)
    made[grid](x, 500)
    assert np.array_equal(x, 4 * np.arange(500))
    (found,) = made.found.values()
    assert found == tawa.tune(double, x, 500, grid=grid, configs=CONFIGS[1:])
    assert made.predict(x, 500, grid=grid).us > 0


def test_options_that_a_launch_leaves_open_are_tried() -> None:
    sys.path.append(str(EXAMPLES))
    from gemm import gemm

    arrays = [np.empty((2048, 2048), np.float16) for _ in range(3)]
    a, b, c = (tawa.TensorDescriptor.from_tensor(x, [128, n])
               for x, n in zip(arrays, (64, 64, 128), strict=True))  # fmt: skip
    sizes = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8}
    found = tawa.tune(gemm, a, b, c, 2048, 2048, 2048, grid=(256,), num_stages=4, **sizes)
    tried = [trial.options for trial in found.trials]
    assert {} in tried
    assert {"persistent": True} in tried
    assert all("num_stages" not in options for options in tried)


def test_variants_are_compiled_by_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sys.path.append(str(EXAMPLES))
    from vector_add import vector_add

    monkeypatch.setenv(CACHE_DIR.name, str(tmp_path))
    monkeypatch.setattr("tawa.driver.compile_processes.free_cores", lambda: 2)
    types = dict(zip(vector_add.arg_names, ["*f32:16"] * 3 + ["i32"], strict=False))
    variants = [{**types, "BLOCK": 2**e, "num_warps": 2} for e in range(7, 11)]
    assert compile_variants(vector_add, variants) == 2
    assert all(vector_add.is_compiled(vector_add.request(**v)) for v in variants)
    assert compile_variants(vector_add, variants) == 0


def test_the_command_tunes_the_example(tmp_path: Path) -> None:
    file = tmp_path / "tuned.json"
    shown = tune_example(str(EXAMPLES / "vector_add.py") + ":vector_add", file, [], None, 4)
    assert shown.startswith("vector_add on h100")
    assert file.exists()


def test_nothing_that_works_is_an_error() -> None:
    with pytest.raises(TawaError, match="no way to compile"):
        tawa.tune(double, np.zeros(3, np.float32), 3, grid=(1,), configs=CONFIGS[:1])


def test_what_was_measured_comes_before_what_was_predicted() -> None:
    slow, fast, guess = (
        tuning.Trial({"a": 1}, 1.0, 9.0),
        tuning.Trial({"a": 2}, 8.0, 3.0),
        tuning.Trial({"a": 3}, 2.0),
    )
    none, first, failed = (
        tuning.Trial({"b": 1}),
        tuning.Trial({"a": 4}, 2.0),
        tuning.Trial({"c": 1}, error="spills"),
    )
    order = sorted([failed, none, first, guess, slow, fast], key=lambda trial: trial.time)
    assert order == [fast, slow, guess, first, none, failed]
    assert [t.text for t in (fast, tuning.Trial({}))] == ["a=2", "as written"]
