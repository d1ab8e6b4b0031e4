"""Every CuPPL example is run: the epidemic here, the trees in tests/cuppl/test_birth_death.py."""

from pathlib import Path

import numpy as np
import pytest

from tawa import cuppl

FOLDER = Path(__file__).parents[2] / "examples" / "cuppl"
PEOPLE = 1000


@pytest.fixture(scope="module")
def epidemic() -> cuppl.Model:
    return cuppl.load(FOLDER / "sir.ppl")


def posterior(epidemic: cuppl.Model, cases: list[int]) -> cuppl.Posterior:
    return epidemic.smc(4000, data={"cases": cases, "population": PEOPLE}, seed=1)


def test_all_are_run():
    assert {path.stem for path in FOLDER.glob("*.ppl")} == {"crbd", "crbd_branches", "sir"}


def test_nobody_is_lost(epidemic: cuppl.Model):
    found = posterior(epidemic, [0, 1, 0, 1, 1])
    everybody = found["s"] + found["i"] + found["r"]
    assert np.array_equal(everybody, np.full(len(everybody), PEOPLE))
    assert (found["i"] >= 0).all()


def test_more_reports_are_a_faster_epidemic(epidemic: cuppl.Model):
    slow, fast = (posterior(epidemic, cases) for cases in ([0, 0, 0, 1], [1, 2, 2, 3]))
    (few, one), (many, other) = slow.expectation("beta"), fast.expectation("beta")
    assert many - few > 3 * (one + other)
