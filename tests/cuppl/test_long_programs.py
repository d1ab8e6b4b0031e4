"""Programs of many lines: what they compile to, and where they say that they went wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tawa import cuppl
from tawa.cuppl.cpu.executable import native_modules
from tawa.cuppl.lowering.pipeline import lower
from tawa.cuppl.typing.failures import InvalidParameter

LETS = 80


def scaled(bad: int) -> str:
    """Many draws, of which one has a scale that is not positive."""
    scales = ["(-w)" if k == bad else "w" for k in range(LETS)]
    lines = [f"  let x{k} = sample (normal 0 {scale}) in" for k, scale in enumerate(scales)]
    return "\n".join(["def main () =", "  let w = sample (uniform 1 2) in", *lines, "  x0"])


@pytest.mark.parametrize("bad", [0, 31, 32, 79])
def test_failures_that_share_their_code_say_where_they_are(bad: int) -> None:
    with pytest.raises(InvalidParameter) as caught:
        cuppl.model(scaled(bad)).importance(1)
    assert caught.value.span is not None
    assert caught.value.span.line == bad + 3


def text_of(source: str) -> str:
    modules = native_modules(lower(cuppl.model(source).elaborated, False))
    return next(m.text() for m in modules if not m.name)


def test_parameters_that_are_written_down_are_checked_once() -> None:
    assert "valid_location" not in text_of("def main () = sample (normal (-1) 2.5)")
    assert "valid_location" in text_of("def main () = sample (normal (sample (normal 0 1)) 2.5)")
    with pytest.raises(InvalidParameter):
        cuppl.model("def main () = sample (normal 0 0)").importance(1)


def test_a_thousand_lets_have_the_draws_of_a_loop() -> None:
    lets = "".join(f"  let x{k} = sample (normal 0 1) in\n" for k in range(1000))
    long = cuppl.model("def main () =\n" + lets + "  (x0, x999)").importance(3, threads=1)
    loop = cuppl.model(
        "def main () = let x = repeat 1000 (fn () -> sample (normal 0 1)) in (x.[0], x.[999])"
    ).importance(3, threads=1)
    assert (long[0] == loop[0]).all()
    assert (long[1] == loop[1]).all()


def test_an_array_without_dimensions_is_a_number() -> None:
    model = cuppl.model("input s : float input n : int def main () = s + float n")
    given = {"s": np.array(1.5), "n": np.array(2)}
    assert model.importance(4, data=given).values[0] == 3.5
