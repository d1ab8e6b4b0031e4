"""Calls that were made before are not traced again, and do the same."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from task_programs import case, gemm, stencil

from tawa.driver.jit import Kernel
from tawa.tasks import Instance, Mapping, plans


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls for which a program is looked for."""
    found: list[Any] = []
    whole = plans.program_for

    def counted(*args: Any) -> Any:
        found.append(args)
        return whole(*args)

    monkeypatch.setattr(plans, "program_for", counted)
    return found


def test_a_call_is_prepared_once(traced: list[Any]):
    gemm.gemm.__dict__.pop("plans", None)
    for seed in range(3):
        found = case("gemm", seed)
        found.check(gemm.gemm)
    assert len(traced) == 1
    mapping = Mapping(Instance("gemm_block", tunables={"W": 32}))
    for _ in range(2):
        found.check(lambda *a: gemm.gemm(*a, mapping=mapping))
    assert len(traced) == 2
    case("gemm", odd=True).check(gemm.gemm)
    assert len(traced) == 3


def test_numbers_that_decide_nothing_may_change(traced: list[Any]):
    stencil.diffuse.__dict__.pop("plans", None)
    x = np.random.default_rng(0).standard_normal((40, 66)).astype(np.float32)
    for steps, rate in ((2, 0.125), (2, 0.25), (3, 0.25), (2, 0.0625)):
        y = np.full_like(x, np.nan)
        stencil.diffuse(y, x, steps, rate)
        expected = stencil.reference(x.astype(np.float64), steps, rate)
        assert np.abs(y - expected).max() < 1e-5
    assert len(traced) == 2


def test_arrays_are_not_kept_alive():
    found = case("gemm", 5)
    out, (a, b) = np.empty_like(found.outputs[0]), found.inputs
    gemm.gemm(out, a, b)
    kept = weakref.ref(a)
    del a, found
    gc.collect()
    assert kept() is None


def test_what_a_prepared_call_costs(monkeypatch: pytest.MonkeyPatch):
    """Besides its launch: a look at the arguments, and a descriptor for each."""
    import timeit

    found = case("gemm")
    args = (*found.outputs, *found.inputs)
    gemm.gemm(*args)
    monkeypatch.setattr(Kernel, "_launch", lambda self, grid, *args, **options: None)
    gemm.gemm.__dict__.pop("plans")
    gemm.gemm(*args)
    best = min(timeit.repeat(lambda: gemm.gemm(*args), number=100, repeat=20)) / 100 * 1e6
    gemm.gemm.__dict__.pop("plans")  # it would launch nothing from now on
    assert best < 200
