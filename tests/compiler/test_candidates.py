"""Which texts the compiler has assembled: none twice, none that must spill as another did."""

from __future__ import annotations

import pytest
from catalogue import BY_NAME
from simulation import recorded
from xdsl.dialects.builtin import ModuleOp

from tawa.base.attempts import ATTEMPTS
from tawa.base.remarks import Remarks
from tawa.driver.candidates import Candidate, Tried
from tawa.driver.compiled import read_module
from tawa.driver.compiler import Pipeline
from tawa.machine.target import SM90A


def text(*kept: int, body: str = "x") -> str:
    """A kernel whose loading roles keep so many registers."""
    return body + "".join(f"set_registers_down<{count}>();" for count in kept)


def test_a_text_is_assembled_once():
    tried = Tried(SM90A)
    tried.add_text(text(40))
    assert tried.has(text(40))
    assert not tried.has(text(40, body="y"))


def test_fewer_registers_for_loading_roles_alone_do_not_help():
    tried = Tried(SM90A)
    tried.add_text(text(40, 40))
    assert tried.has(text(24, 40))
    assert not tried.has(text(56, 40))
    assert not tried.has(text(56, 24))


@pytest.fixture(scope="module")
def attention() -> tuple[Pipeline, ModuleOp]:
    """A compilation of attention whose attempts come to the same more than once."""
    launch, _ = recorded(BY_NAME["attention-full-64"])
    pipeline = Pipeline(launch.request().options)
    return pipeline, read_module(str(launch.compile().stages["tile"]), "tile")


def test_attempts_whose_choices_were_tried_are_not_lowered(
    attention: tuple[Pipeline, ModuleOp], monkeypatch: pytest.MonkeyPatch
):
    """What is left out would have been a text that was looked at, or had no schedule."""
    pipeline, tile = attention
    lowered: list[Candidate] = []
    plain = Pipeline._lowered

    def noted(*given: object) -> Candidate:
        lowered.append(plain(*given))  # pyright: ignore
        return lowered[-1]

    with monkeypatch.context() as patched:
        patched.setattr(Pipeline, "_lowered", noted)
        found = [candidate.text for candidate in pipeline._candidates(tile)]
    assert len(found) <= len(lowered) < len(ATTEMPTS)
    every = [
        pipeline._lowered(tile, pipeline._scheduled(tile, slack, Remarks())) for slack in ATTEMPTS
    ]
    tried, expected = Tried(SM90A), list[str]()
    for candidate in every:
        if not tried.has(candidate.text):
            tried.add_text(candidate.text)
            expected.append(candidate.text)
    assert found == expected


def test_what_is_left_out_is_said():
    launch, _ = recorded(BY_NAME["attention-one-role"])
    pipeline = Pipeline(launch.request().options)
    tile = read_module(str(launch.compile().stages["tile"]), "tile")
    *_, last = pipeline._candidates(tile)
    assert any("left out with 8 registers to spare" in line for line in last.remarks.lines)
