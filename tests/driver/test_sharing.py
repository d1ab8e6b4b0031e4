"""When a kernel is assembled again with fewer registers, so that more CTAs share a multiprocessor."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tawa.driver import reassembling
from tawa.driver.reassembling import MOST_SAVED, reassembled


@dataclass(frozen=True)
class Usage:
    """What a function of the machine code takes."""

    spill_stores: int = 0


@dataclass(frozen=True)
class Log:
    """What the assembler said."""

    functions: tuple[Usage, ...] = (Usage(),)
    registers: int = 142
    found: tuple[Any, ...] = ()

    def findings(self) -> tuple[Any, ...]:
        return self.found

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


@dataclass
class Work:
    """A compilation: what it is asked to assemble gets these findings, in turn."""

    found: list[tuple[Any, ...]]
    options: Any
    ends_in_text: bool = False
    stages: dict[str, str] = field(default_factory=dict[str, str])
    asked: list[int] = field(default_factory=list[int])
    whole: int = 0
    """How often C++ was compiled."""

    def run(self, steps: list[Any], _module: Any) -> None:
        """Pass over nothing."""

    def timed(self, _stage: str, work: Any) -> Any:
        return work()

    def keep(self, stage: str, content: Any) -> None:
        self.stages[stage] = content

    def emitted(self, _module: Any) -> str:
        return "text"

    def built(self, _name: str, _spec: Any, product: Product) -> Built:
        return Built(product=product)

    def finish(self, _name: str, _module: Any) -> Built:
        self.whole += 1
        return Built(findings=self.found.pop(0))


@dataclass(frozen=True)
class Asked:
    """Options."""

    ctas_per_sm: int = 1
    machine: Any = None
    target: str = "sm_90a"


class Taken:
    """Three and two CTAs may be asked for, of a kernel whose warps do not meet."""

    more = (3, 2)
    meets = by_warps = False


@pytest.fixture
def of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels for which three and two CTAs may be asked for."""
    monkeypatch.setattr(reassembling, "may_share", lambda module: module.stages != {"no": ""})
    monkeypatch.setattr(reassembling.Occupancy, "of", lambda *given: Taken())
    monkeypatch.setattr(reassembling, "spec_of", lambda _module: Spec())
    monkeypatch.setattr(reassembling, "copied", lambda module: module)


CLEAN, SPILLED = (), ("a spill",)


@pytest.mark.usefixtures("of_two")
@pytest.mark.parametrize("taken_apart", [True, False])
@pytest.mark.parametrize(
    ("found", "asked", "taken"),
    [([CLEAN], [3], 3), ([SPILLED, CLEAN], [3, 2], 2), ([SPILLED, SPILLED], [3, 2], None)],
)
def test_the_first_that_finds_room_is_taken(
    monkeypatch: pytest.MonkeyPatch,
    found: list[tuple[Any, ...]],
    asked: list[int],
    taken: int | None,
    taken_apart: bool,
):
    """Of the PTX by itself; of the whole C++ if that can't be."""
    work, built = Work(list(found), Asked()), Built(stages={"hopper": "text"})

    def bounded(_product: Any, _target: str, ctas: int, _name: str) -> Product | None:
        work.asked.append(ctas)
        return Product(Log(found=work.found.pop(0))) if taken_apart else None

    monkeypatch.setattr(reassembling, "bounded", bounded)
    result: Any = reassembled(work, built)  # pyright: ignore
    assert work.asked == asked
    assert work.whole == (0 if taken_apart else len(asked))
    if taken is None:
        assert result is built
        assert work.stages == built.stages
    else:
        (said,) = result.decisions
        assert said.ctas == taken


@pytest.mark.usefixtures("of_two")
def test_where_warps_meet_the_compiler_may_help(monkeypatch: pytest.MonkeyPatch):
    """PTX that spills a little is compiled again as C++, for the most CTAs only."""

    def spilling(count: int) -> Product:
        return Product(Log((Usage(count),), found=SPILLED))

    monkeypatch.setattr(Taken, "meets", True)
    built = Built(stages={"hopper": "text"})
    monkeypatch.setattr(reassembling, "bounded", lambda *given: spilling(MOST_SAVED))
    for found, whole in (([CLEAN], 3), ([SPILLED], None)):
        work = Work(list(found), Asked())
        result: Any = reassembled(work, built)  # pyright: ignore
        assert work.whole == 1
        assert [said.ctas for said in result.decisions] == ([whole] if whole else [])
    for spilled, by_warps in ((MOST_SAVED + 4, False), (4, True)):
        monkeypatch.setattr(reassembling, "bounded", lambda *given, n=spilled: spilling(n))
        monkeypatch.setattr(Taken, "by_warps", by_warps)
        work = Work([], Asked())
        assert reassembled(work, built) is built  # pyright: ignore
        assert work.whole == 0


@pytest.mark.usefixtures("of_two")
@pytest.mark.parametrize("why", ["ends in text", "asked for", "not ordinary", "no log"])
def test_others_stay_as_they_are(why: str):
    work = Work([], Asked(2 if why == "asked for" else 1), why == "ends in text")
    built = Built(stages={"no": ""} if why == "not ordinary" else {})
    if why == "no log":
        built = replace(built, product=Product(Log(())))
    assert reassembled(work, built) is built  # pyright: ignore
    assert not work.asked
