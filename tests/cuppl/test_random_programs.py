"""Some of the random programs that `scripts/cuppl_programs.py` tries without end."""

from __future__ import annotations

import mixed_writer
import pytest
import random_programs
import random_writer
from random_programs import problems, run_once, same

from tawa import cuppl

pytestmark = pytest.mark.filterwarnings("ignore::tawa.cuppl.InferenceWarning")


@pytest.mark.parametrize("seed", range(12))
def test_methods_agree(seed: int) -> None:
    source = random_writer.program(seed)
    assert problems(source) == [], source


@pytest.mark.parametrize("seed", range(18))
def test_densities_agree_with_finite_twins(seed: int) -> None:
    source, finite = mixed_writer.pair(seed)
    assert problems(source, finite) == [], source


def test_a_wrong_answer_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "def main () = (flip 0.5, 1)"
    assert problems(source) == []
    right = random_programs.outcome

    def wrong(
        model: cuppl.Model, method: str, *more: int
    ) -> tuple[random_programs.Outcome, float, float]:
        if method == "smc":
            return {(True, 1): 0.9, (False, 1): 0.1}, 0.1, 4000.0
        return right(model, method, *more)

    monkeypatch.setattr(random_programs, "outcome", wrong)
    assert len(problems(source)) == 3


def test_a_twin_says_what_is_right() -> None:
    assert problems("def main () = sample (uniform 0 1) < 0.3", "def main () = flip 0.3") == []
    assert problems("def main () = sample (uniform 0 1) < 0.3", "def main () = flip 0.4") != []


def test_other_bits_are_a_problem() -> None:
    one, other = (
        run_once(model, model.executable(suspend=True))
        for p in (0.4, 0.5)
        for model in [cuppl.model(f"def main () = let c = flip {p} in factor (float 1); c")]
    )
    assert same(one, one)
    assert not same(one, other)
    assert not same(one, "all weights are zero")
