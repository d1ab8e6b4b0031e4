"""Which texts the compiler has assembled: none twice, none that must spill as another did."""

from __future__ import annotations

from dataclasses import replace

import pytest
from catalogue import BY_NAME
from simulation import recorded
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region

from tawa.base.attempts import ATTEMPTS, Slack
from tawa.driver.attempts import Attempts
from tawa.driver.candidates import Candidate, Tried
from tawa.driver.compilation import Compilation
from tawa.driver.compiled import read_module
from tawa.hopper.dialect.core import number
from tawa.hopper.dialect.structure import Role
from tawa.hopper.emit import emit
from tawa.ir.decisions.assembling import AttemptLeftOut
from tawa.ir.decisions.decision import Decisions
from tawa.machine.chips import H100


def candidate(*kept: int, warps: int = 4) -> Candidate:
    """A kernel whose loading roles keep so many registers."""
    roles = [Role(f"load{i}", 4 * i, 4, 1, gives=True, registers=n) for i, n in enumerate(kept)]
    body = Region(Block([*roles, Role("math", 4 * len(kept), warps, 1), func.ReturnOp()]))
    kernel = func.FuncOp("kernel", ([], []), body)
    sizes = {"threads": 128, "cluster": 1, "ctas_per_sm": 1}
    kernel.attributes |= {f"hopper.{key}": number(value) for key, value in sizes.items()}
    module = ModuleOp([kernel])
    return Candidate(Slack(), Decisions(), module, module, emit(module))


def test_a_text_is_assembled_once():
    tried = Tried(H100, seen=[candidate(40)])
    assert tried.has(candidate(40))
    assert not tried.has(candidate(40, warps=8))
    assert not tried.has(candidate())


def test_fewer_registers_for_loading_roles_alone_do_not_help():
    tried = Tried(H100, seen=[candidate(40, 40)])
    assert tried.has(candidate(24, 40))
    assert not tried.has(candidate(56, 40))
    assert not tried.has(candidate(56, 24))


def test_a_text_that_the_user_gave_is_compared_as_it_is():
    given = replace(candidate(40), text="x", given=True)
    tried = Tried(H100, seen=[given])
    assert tried.has(replace(candidate(24), text="x", given=True))
    assert not tried.has(replace(candidate(24), text="y", given=True))


def attempts_of(name: str) -> Attempts:
    """The attempts at one of the examples."""
    launch, _ = recorded(BY_NAME[name])
    tile = read_module(str(launch.compile().stages["tile"]), "tile")
    return Attempts(Compilation(launch.request().options), name, tile)


def test_attempts_whose_choices_were_tried_are_not_lowered(monkeypatch: pytest.MonkeyPatch):
    """What is left out would have been a text that was looked at, or had no schedule."""
    attempts = attempts_of("attention-full-64")  # some come to the same
    lowered: list[Candidate] = []
    plain = Attempts.lowered

    def noted(*given: object) -> Candidate:
        lowered.append(plain(*given))  # pyright: ignore
        return lowered[-1]

    with monkeypatch.context() as patched:
        patched.setattr(Attempts, "lowered", noted)
        found = [candidate.text for candidate in attempts.candidates()]
    assert len(found) <= len(lowered) < len(ATTEMPTS)
    every = [attempts.lowered(attempts.scheduled(slack, Decisions())) for slack in ATTEMPTS]
    tried, expected = Tried(H100), list[str]()
    for made in every:
        if not tried.has(made):
            tried.seen.append(made)
            expected.append(made.text)
    assert found == expected


def test_what_is_left_out_is_said():
    *_, last = attempts_of("attention-one-role").candidates()
    assert 8 in [found.slack.registers for found in last.decided.of(AttemptLeftOut)]
