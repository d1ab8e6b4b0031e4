"""Which texts the compiler has assembled: none twice, none that must spill as another did."""

from __future__ import annotations

from dataclasses import replace

import pytest
from catalogue import BY_NAME
from simulation import recorded
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region

from tawa.base.attempts import ATTEMPTS, MANY_SPILLED, Slack
from tawa.driver import attempts as driver
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
from tawa.runtime.assemble import Here
from tawa.runtime.compile_log import CompileReport, FunctionUsage
from tawa.runtime.nvrtc import CompiledCuda


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


def assembled(
    monkeypatch: pytest.MonkeyPatch, *spilled: int, one_role: bool = True, stack: int = 0
) -> tuple[list[str], Attempts]:
    """The texts that are assembled where the first ones spill so many bytes.

    All later ones spill as much as the last of these; arrays take so much of the stack.
    """
    texts, attempts = list[str](), attempts_of("pointers-8-warps")

    def product(text: str, *_: str) -> CompiledCuda:
        texts.append(text)
        now = spilled[min(len(texts), len(spilled)) - 1]
        usage = FunctionUsage("kernel", stack=stack, spill_stores=now)
        return CompiledCuda(b"", "", "", CompileReport((usage,)), 0.0)

    class Job(Here):
        def __init__(self, *given: str) -> None:
            self._work = lambda: product(*given)

    if not one_role:
        monkeypatch.setattr(Candidate, "one_role", False)
    monkeypatch.setattr(driver, "Here", Job)
    monkeypatch.setattr(driver, "start", Job)
    attempts.best()
    return texts, attempts


def test_what_spills_much_at_first_and_at_last_is_not_tried_in_between(monkeypatch):
    texts, attempts = assembled(monkeypatch, MANY_SPILLED)
    left_out = attempts.compilation.decided.of(AttemptLeftOut)
    assert len(texts) == 2
    assert [d.slack for d in left_out] == [*ATTEMPTS[1:-1]]
    assert texts[-1] == attempts.compilation.stages["cu"]


@pytest.mark.parametrize(("spilled", "texts"), [((0,), 1), ((4, 0), 2)])
def test_no_schedule_mends_an_array_that_is_indexed(monkeypatch, spilled, texts: int):
    assert len(assembled(monkeypatch, *spilled, stack=32)[0]) == texts


def test_which_kernels_have_one_role():
    assert next(attempts_of("attention-one-role").candidates()).one_role
    assert not next(attempts_of("attention-full-64").candidates()).one_role


@pytest.mark.parametrize("spilled", [(MANY_SPILLED - 4, 0), (MANY_SPILLED, 0)])
def test_schedules_are_tried_where_they_may_help(monkeypatch, spilled: tuple[int, ...]):
    texts, attempts = assembled(monkeypatch, *spilled)
    assert len(texts) == len(spilled)
    expected = [c.text for c, _ in zip(attempts.candidates(), range(2), strict=False)]
    assert [texts[0], texts[-1]] == expected
    assert attempts.compilation.stages["cu"] == expected[-1]


@pytest.mark.parametrize(("spilled", "one_role"), [(MANY_SPILLED - 4, True), (MANY_SPILLED, False)])
def test_no_text_is_assembled_again(monkeypatch, spilled: int, one_role: bool):
    texts, attempts = assembled(monkeypatch, spilled, one_role=one_role)
    every = [c.text for c in attempts.candidates()]
    assert texts == [*dict.fromkeys(every)]
    assert attempts.compilation.stages["cu"] == every[-1]


@pytest.mark.parametrize(
    ("gave_up", "stages", "left_out"),
    [([False, True], 2, True), ([False, True], 1, False), ([True, True], 2, False),
     ([False, False], 2, False), ([True], 2, False)],
)  # fmt: skip
def test_attempts_without_a_schedule(gave_up: list[bool], stages: int, left_out: bool) -> None:
    """Fewer stages are tried where one fails, unless the first attempt had no schedule either."""
    tried = Tried(H100)
    slack = Slack(stages=stages)
    found = [
        tried.needless(Scheduled(slack, gave))  # type: ignore[arg-type]
        for gave in gave_up
    ]
    assert found == [False] * (len(gave_up) - 1) + [left_out]
    assert tried.exhausted is left_out
    assert tried.hopeless is gave_up[0]
    assert len(tried.left_out) == left_out


class Scheduled:
    """Stands for a schedule that was made under some slack."""

    def __init__(self, slack: Slack, gave_up: bool) -> None:
        self.slack, self.gave_up, self.choices = slack, gave_up, ()
