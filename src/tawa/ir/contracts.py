"""What passes promise each other: a pipeline whose order breaks a promise is refused.

A pass requires properties of the module, establishes some and invalidates others
([properties](properties.py) has them all). A pipeline is checked when it is built.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from xdsl.dialects.builtin import ModuleOp

from tawa.base.errors import TawaError


@dataclass(frozen=True)
class Property:
    """A fact about a module, as a clause of one sentence."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Contract:
    """What a pass needs of a module, and what it makes true and untrue of it."""

    requires: Collection[Property] = ()
    establishes: Collection[Property] = ()
    invalidates: Collection[Property] = ()


class Pass(Protocol):
    """IR in, IR out: changes the module, or returns a new one; what it decided it records."""

    name: ClassVar[str]
    contract: ClassVar[Contract]

    def apply(self, module: ModuleOp) -> ModuleOp | None:
        """Run it."""
        ...


class BrokenContract(TawaError):
    """A pass of the compiler's pipeline stands where what it requires does not hold."""

    explanation = (
        "The pipeline is checked when it is built: each pass says what it requires, establishes "
        "and invalidates. The message names the pass, the property that it would miss, and the "
        "pass that establishes or invalidates it. Whoever adds or moves a pass meets this error."
    )
    example = """
from tawa.aref.passes.cursors import Cursors
from tawa.ir.contracts import check
from tawa.partition.partition import Partition
from tawa.base.options import Options
from tawa.ir.decisions.decision import Decisions

check([Cursors(), Partition(Options(), Decisions())])
"""


@dataclass(frozen=True)
class Violation:
    """A property that does not hold where a pass requires it (or at the end of a pipeline)."""

    step: str
    missing: Property
    lost_to: str | None
    """The pass before it that invalidates the property."""
    makers: tuple[str, ...]
    """Passes that establish it."""

    def __str__(self) -> str:
        """The pass, the property, and who should have established it."""
        maker = " or ".join(self.makers) or "no pass"
        lost = f"; {self.lost_to} invalidated it" if self.lost_to else ""
        return f"{self.step} requires that {self.missing}, which {maker} establishes{lost}"


END = "the next level"
"""Who requires what has to hold at the end of a pipeline."""


def violations(
    steps: Sequence[Pass],
    given: Collection[Property] = (),
    wanted: Collection[Property] = (),
    known: Sequence[Pass] = (),
) -> Iterator[Violation]:
    """Where contracts are broken; a pass after a broken one is looked at as if nothing was.

    `given` holds before the first pass, and `wanted` has to hold after the last one. `known` are
    passes that may establish what is missing, besides those of the pipeline.
    """
    holding = set(given)
    lost: dict[Property, str] = {}
    everyone = {step.name: step for step in (*steps, *known)}.values()

    def missing(who: str, properties: Collection[Property]) -> Iterator[Violation]:
        for found in properties:
            if found not in holding:
                makers = [s.name for s in everyone if found in s.contract.establishes]
                yield Violation(who, found, lost.get(found), tuple(makers))

    for step in steps:
        yield from missing(step.name, step.contract.requires)
        for gone in step.contract.invalidates:
            holding.discard(gone)
            lost[gone] = step.name
        holding |= set(step.contract.establishes)
    yield from missing(END, wanted)


def check(
    steps: Sequence[Pass],
    given: Collection[Property] = (),
    wanted: Collection[Property] = (),
    known: Sequence[Pass] = (),
) -> None:
    """Refuse a pipeline that breaks a contract. Raises `BrokenContract`."""
    found = list(dict.fromkeys(violations(steps, given, wanted, known)))
    if found:
        raise BrokenContract(
            str(found[0]),
            expected="passes in an order in which each finds what it requires",
            found="; ".join(map(str, found)),
            hint="move the pass, or correct its contract",
        )
