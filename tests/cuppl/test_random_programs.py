"""Some of the random programs that `random_programs.py` can write without end."""

from __future__ import annotations

import pytest
from random_programs import problems, program

pytestmark = pytest.mark.filterwarnings("ignore::tawa.cuppl.InferenceWarning")


@pytest.mark.parametrize("seed", range(12))
def test_methods_agree(seed: int) -> None:
    assert problems(program(seed)) == [], program(seed)


def test_a_wrong_answer_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    import random_programs

    source = "def main () = (flip 0.5, 1)"
    assert problems(source) == []
    right = random_programs.outcome

    def wrong(source: str, method: str) -> tuple[random_programs.Outcome, float]:
        if method == "smc":
            return {(True, 1): 0.9, (False, 1): 0.1}, 4000.0
        return right(source, method)

    monkeypatch.setattr(random_programs, "outcome", wrong)
    assert len(problems(source)) == 2
