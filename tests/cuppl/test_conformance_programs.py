from __future__ import annotations

import pytest
from conformance_programs import PROGRAMS, Program
from conformance_worlds import WORLDS

from tawa import cuppl

pytestmark = pytest.mark.filterwarnings("ignore::tawa.cuppl.InferenceWarning")


@pytest.mark.parametrize("program", [*PROGRAMS, *WORLDS], ids=lambda p: p.name)
def test_methods_agree(program: Program) -> None:
    exact, evidence = program.exact()
    model = cuppl.model(program.source)
    found = model.smc(10_000, data=program.data, seed=3, threads=1)
    mean, error = found.expectation()
    assert abs(mean - exact) < 4.5 * error
    assert abs(found.log_evidence - evidence) < 4.5 * found.log_evidence_error
    if program.mixes:
        chain = model.mh(6000, data=program.data, seed=4, chains=2, thin=2, threads=1)
        mean, error = chain.expectation()
        assert abs(mean - exact) < 4.5 * error
    if program.finite is not None:
        table = model.enumerate(data=program.data, tolerance=program.finite)
        assert table.mean() == pytest.approx(exact, abs=1e-9)
        assert table.log_evidence == pytest.approx(evidence, abs=1e-9)
