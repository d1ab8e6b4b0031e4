"""When a kernel is assembled again with fewer registers, so that more CTAs share a multiprocessor."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tawa.driver import reassembling
from tawa.driver.reassembling import reassembled


@dataclass(frozen=True)
class Log:
    """What the assembler said."""

    functions: tuple[str, ...] = ("k",)
    registers: int = 142

    def function(self, _entry: str) -> Any:
        return self


@dataclass(frozen=True)
class Product:
    """The machine code's log."""

    report: Log = Log()


@dataclass(frozen=True)
class Spec:
    """How a kernel is launched."""

    entry: str = "k"
    threads: int = 256
    shared_bytes: int = 0


@dataclass(frozen=True)
class Built:
    """A compiled kernel."""

    spec: Spec = Spec()
    product: Product = Product()
    findings: tuple[Any, ...] = ()
    decisions: tuple[Any, ...] = ()
    stages: dict[str, str] = field(default_factory=dict[str, str])
    name: str = "k"

    def module(self, _level: str) -> Any:
        return self

    def clone(self) -> Any:
        return self


@dataclass
class Work:
    """A compilation: what it is asked to assemble gets these findings, in turn."""

    found: list[tuple[Any, ...]]
    options: Any
    ends_in_text: bool = False
    stages: dict[str, str] = field(default_factory=dict[str, str])
    asked: list[int] = field(default_factory=list[int])

    def run(self, steps: list[Any], _module: Any) -> None:
        self.asked += [step.ctas for step in steps]

    def finish(self, _name: str, _module: Any) -> Built:
        return Built(findings=self.found.pop(0))


@dataclass(frozen=True)
class Asked:
    """Options."""

    ctas_per_sm: int = 1
    machine: Any = None


@pytest.fixture
def of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels for which three and two CTAs may be asked for."""

    class Taken:
        more = (3, 2)

    monkeypatch.setattr(reassembling, "may_share", lambda module: module.stages != {"no": ""})
    monkeypatch.setattr(reassembling.Occupancy, "of", lambda *given: Taken())


CLEAN, SPILLED = (), ("a spill",)


@pytest.mark.usefixtures("of_two")
@pytest.mark.parametrize(
    ("found", "asked", "taken"),
    [([CLEAN], [3], 3), ([SPILLED, CLEAN], [3, 2], 2), ([SPILLED, SPILLED], [3, 2], None)],
)
def test_the_first_that_finds_room_is_taken(
    found: list[tuple[Any, ...]], asked: list[int], taken: int | None
):
    work, built = Work(list(found), Asked()), Built(stages={"hopper": "text"})
    result: Any = reassembled(work, built)  # pyright: ignore
    assert work.asked == asked
    if taken is None:
        assert result is built
        assert work.stages == built.stages
    else:
        (said,) = result.decisions
        assert said.ctas == taken


@pytest.mark.usefixtures("of_two")
@pytest.mark.parametrize("why", ["ends in text", "asked for", "not ordinary", "no log"])
def test_others_stay_as_they_are(why: str):
    work = Work([], Asked(2 if why == "asked for" else 1), why == "ends in text")
    built = Built(stages={"no": ""} if why == "not ordinary" else {})
    if why == "no log":
        built = replace(built, product=Product(Log(())))
    assert reassembled(work, built) is built  # pyright: ignore
    assert not work.asked
