"""Exact answers on the kingfishers' tree, from quadrature over the closed-form likelihood."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tawa import cuppl

FOLDER = Path(__file__).parents[2] / "examples" / "cuppl"
LOG_Z, LAMBDA, MU = -307.273912, 0.1448894, 0.0270357
PURE_BIRTH = -304.46522

pytestmark = pytest.mark.filterwarnings("ignore::tawa.cuppl.InferenceWarning")


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("crbd_example", FOLDER / "crbd.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tree(example: ModuleType) -> Any:
    return example.read_tree(FOLDER / "data" / "alcedinidae.phyjson")


def inputs(example: ModuleType, tree: Any, form: str) -> dict[str, Any]:
    rho = {"rho": example.RHO}
    return {"tree": tree, **rho} if form == "crbd" else {"branches": example.branches(tree), **rho}


@pytest.mark.parametrize(("form", "particles", "runs"), [
    ("crbd", 10_000, 6), ("crbd_branches", 10_000, 6), ("crbd_branches", 60_000, 1),
])  # fmt: skip
def test_exact_evidence_and_means(
    form: str, particles: int, runs: int, example: ModuleType, tree: Any
) -> None:
    model = cuppl.load(FOLDER / f"{form}.ppl")
    found = model.smc(particles, runs=runs, data=inputs(example, tree, form), seed=100)
    assert abs(found.log_evidence - LOG_Z) < 3 * found.log_evidence_error
    for column, exact in (("lambda", LAMBDA), ("mu", MU)):
        mean, error = found.expectation(column)
        assert abs(mean - exact) < 3 * error


def test_both_forms_draw_the_same(example: ModuleType, tree: Any) -> None:
    found = [
        cuppl.load(FOLDER / f"{form}.ppl").smc(500, data=inputs(example, tree, form), seed=9)
        for form in ("crbd", "crbd_branches")
    ]
    assert found[0].log_evidence == found[1].log_evidence
    assert np.array_equal(found[0]["lambda"], found[1]["lambda"])


def test_pure_birth(example: ModuleType, tree: Any) -> None:
    text = (FOLDER / "crbd_branches.ppl").read_text()
    text = text.replace("let mu = sample (gamma 1.0 0.5) in", "let mu = 0.0 in")
    data = inputs(example, tree, "crbd_branches")
    found = cuppl.model(text).smc(20_000, runs=4, data=data, seed=1)
    assert abs(found.log_evidence - PURE_BIRTH) < 3 * found.log_evidence_error


def test_threads_change_nothing(example: ModuleType, tree: Any) -> None:
    model = cuppl.load(FOLDER / "crbd.ppl")
    data = inputs(example, tree, "crbd")
    one, three = (model.smc(1000, data=data, seed=2, threads=t) for t in (1, 3))
    assert one.log_evidence == three.log_evidence
    assert np.array_equal(one.runs[0].words, three.runs[0].words)


@pytest.mark.gpu
@pytest.mark.parametrize("particles", [10_000, 100_000, 1_000_000])
def test_exact_on_the_gpu(particles: int, example: ModuleType, tree: Any) -> None:
    model = cuppl.load(FOLDER / "crbd.ppl")
    runs = 6 if particles < 100_000 else 4
    found = model.smc(
        particles, runs=runs, data=inputs(example, tree, "crbd"), seed=100, device="gpu"
    )
    assert abs(found.log_evidence - LOG_Z) < 3 * found.log_evidence_error
    for column, exact in (("lambda", LAMBDA), ("mu", MU)):
        mean, error = found.expectation(column)
        assert abs(mean - exact) < 3 * error


@pytest.mark.gpu
def test_memory_of_ten_million_particles(example: ModuleType, tree: Any) -> None:
    model = cuppl.load(FOLDER / "crbd_branches.ppl")
    data = inputs(example, tree, "crbd_branches")
    found = model.smc(10_000_000, data=data, seed=1, device="gpu")
    assert found.runs[0].device_memory < 2 << 30
    assert abs(found.log_evidence - LOG_Z) < 0.2
