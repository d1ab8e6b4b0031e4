from __future__ import annotations

import pytest
from conformance_discrete import CASES
from conformance_tables import Case

from tawa import cuppl

PARTICLES = 10_000


def distance(found: dict[object, float], exact: dict[object, float]) -> float:
    """Largest difference between the probabilities of a value."""
    keys = set(found) | set(exact)
    return max(abs(found.get(k, 0.0) - exact.get(k, 0.0)) for k in keys)


@pytest.mark.parametrize("case", [c for c in CASES if c.enumerable], ids=lambda c: c.name)
def test_enumeration_is_exact(case: Case) -> None:
    model = cuppl.model(case.source)
    result = model.enumerate(data=case.data, tolerance=case.tolerance)
    # What was dropped bounds the error of the rest, up to the normalisation.
    assert (
        distance(result.probabilities(), case.posterior) < 1e-9 + 3 * result.diagnostics["pruned"]
    )
    assert result.diagnostics["pruned"] < 1e-3


@pytest.mark.filterwarnings("ignore::tawa.cuppl.InferenceWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_smc_is_close(case: Case) -> None:
    model = cuppl.model(case.source)
    found = model.smc(PARTICLES, data=case.data, seed=1, threads=1).probabilities()
    # Five standard deviations of a proportion, with room for the correlation of resampling.
    assert distance(found, case.posterior) < 5 * (0.25 / PARTICLES) ** 0.5 * 1.5
