"""Runs a random program at every level and says whether all do what Python and NumPy do."""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from lowering import kernel_in
from xdsl.dialects.builtin import ModuleOp

from tawa.base.attempts import NO_SLACK
from tawa.base.errors import TawaError
from tawa.base.options import Options
from tawa.driver.compilation import Compilation
from tawa.driver.jit import Kernel
from tawa.driver.pipeline import passes
from tawa.frontend import lower_to_tile, parse_argument
from tawa.ir.decisions.decision import Decisions, of_kind
from tawa.ir.decisions.roles import Specialised
from tawa.ir.kernels import argument_names
from tawa.runtime.overlaps import overlapping
from tawa.simulate.interpret import aref, hopper, tile
from tawa.simulate.interpret.errors import OutOfBounds, ProtocolError
from tawa.simulate.interpret.launch import kernel_of, spec_of
from tawa.simulate.interpret.memory import IllegalAccess
from tawa.simulate.ptx.launch import run as run_ptx
from tawa.tile.analysis.alias import APART, pairs
from tawa.tile.passes.overlaps import Overlaps

SECONDS = 60.0
"""Processor time after which a program counts as one that hangs."""
LEVELS = ("tile", "aref", "hopper")

GOOD = {"right", "refused", "outside"}
"""Verdicts that are no mistake of ours; the last is of an access outside its array that all see."""

CANNOT_BE_MET = {
    "BadOption", "ClusterNotPossible", "ConsumersNotPossible", "NoSuchSchedule", "NothingToAlternate",
    "NotSpecialisable", "PingPongNotPossible", "RegistersExceeded", "ScheduleRejected",
    "SharedMemoryExceeded", "SlicesNotPossible",
}  # fmt: skip
"""Errors that say that a combination of options is impossible."""


class Program(Protocol):
    """A source, how it is compiled, and what it is called with."""

    options: dict[str, Any]

    @property
    def names(self) -> Sequence[str]:
        """Of the memories."""
        ...

    @property
    def scalars(self) -> Sequence[str]:
        """Arguments that are numbers."""
        ...

    @property
    def source(self) -> str: ...
    @property
    def grid(self) -> tuple[int, ...]: ...
    def smaller(self) -> Iterator[Self]:
        """The same with one statement, nest or option less."""
        ...

    def memories(self) -> tuple[np.ndarray, ...]:
        """Flat memories before the program."""
        ...

    def arguments(self, memories: tuple[np.ndarray, ...]) -> dict[str, Any]:
        """What a launch is called with."""
        ...

    def expected(self) -> list[np.ndarray]:
        """The memories after the program, as Python and NumPy run it."""
        ...


Some = TypeVar("Some", bound=Program)


@dataclass(frozen=True)
class Outcome:
    """What became of a program."""

    verdict: str
    """`right`, `refused`, `outside`, `wrong`, `crash` or `hang`."""
    where: str = ""
    """The level that is wrong, or the error's class."""
    text: str = ""
    roles: bool = False
    """Whether it was specialised."""
    options: bool = True
    """Whether it was compiled with its options, not without them."""

    @property
    def bad(self) -> bool:
        return self.verdict not in GOOD


@dataclass(frozen=True)
class Lowered:
    """A program's module at each level, and the names of the arguments that the tile level takes."""

    modules: dict[str, ModuleOp]
    names: list[str]
    roles: bool


def lowered(program: Program, kernel: Kernel) -> Lowered:
    """Compile for the arrays as they overlap, as a launch does."""
    named = program.arguments(program.memories())
    request = kernel.request(**named, **program.options)
    types = [parse_argument(text) for text in request.types.values()]
    module = lower_to_tile(kernel, types, request.constants)
    every = list(combinations([name for name in request.types if name not in program.scalars], 2))
    met, same = overlapping(every, named)
    if met:  # those that matter to the kernel, which takes a look
        met, same = overlapping(_apart(module.clone(), request.options), named)
    work = Compilation(replace(request.options, may_overlap=met, same_array=same))
    modules = {"tile": work.level("tile", module)}
    modules["aref"] = work.level("aref", module.clone())
    modules["hopper"] = work.level("hopper", modules["aref"].clone())
    return Lowered(modules, list(request.types), bool(of_kind(work.decided.made, Specialised)))


def _apart(module: ModuleOp, options: Options) -> list[tuple[str, str]]:
    """Pairs of arguments that the kernel would take to be apart: what a launch compares."""
    module = Compilation(options).level("tile", module)
    for step in passes("aref", options, Decisions(), NO_SLACK):
        step.apply(module)
        if isinstance(step, Overlaps):
            break
    kernel = kernel_of(module)
    names = argument_names(kernel)
    return [(names[one], names[other]) for one, other in pairs(kernel, APART)]


def run_level(program: Program, found: Lowered, level: str, seed: int | None = None) -> list[Any]:
    """The memories after a run at one level."""
    memories = program.memories()
    named, module = program.arguments(memories), found.modules[level]
    if level == "hopper":
        order = spec_of(module, kernel_of(module)).arguments
        arguments = [named[n] for n in order]
        together = {"seed": seed, "multiprocessors": 2, "single_warps": True}
        hopper.run(module, program.grid, arguments, **together)
    elif level == "aref":
        aref.run(module, program.grid, [named[n] for n in found.names], multiprocessors=2)
    else:
        tile.run(module, program.grid, [named[n] for n in found.names])
    return list(memories)


def run_ptx_of(program: Program, kernel: Kernel) -> list[Any]:
    """The memories after a run of what the assembler gets."""
    memories = program.memories()
    named = program.arguments(memories)
    compiled = kernel.compile(**named, **program.options)
    arguments = [named[name] for name in compiled.spec.arguments]
    text = str(compiled.stages["ptx"])
    run_ptx(text, compiled.spec, program.grid, arguments, multiprocessors=2)
    return list(memories)


def compared(
    program: Program, folder: Path, seeds: tuple[int | None, ...] = (None,), *, ptx: bool = False
) -> Outcome:
    """Run a program at all levels, with `ptx` also by the PTX that NVRTC makes of it.

    Without what was asked for in vain, if its options are refused.
    """
    found = with_options(program, folder, seeds, ptx=ptx)
    if found.verdict != "refused":
        return found
    plain = copy(program)
    plain.options = {}
    plain = with_options(plain, folder, seeds, ptx=ptx)
    return replace(plain, options=False)


def outside(program: Program, found: Lowered) -> Outcome:
    """Whether every level sees that a program leaves an array, as Python does."""
    for level in LEVELS:
        try:
            run_level(program, found, level)
        except (IllegalAccess, OutOfBounds):
            continue
        return Outcome("wrong", level, "an access outside its array is not seen", found.roles)
    return Outcome("outside", roles=found.roles)


def with_options(
    program: Program, folder: Path, seeds: tuple[int | None, ...], *, ptx: bool = False
) -> Outcome:
    """Run a program at all levels; the last in several orders of its actors."""
    try:
        expected = program.expected()
    except IndexError:
        expected = None
    roles = False
    try:
        with limited(SECONDS):
            kernel = kernel_in(folder, program.source)
            found = lowered(program, kernel)
            roles = found.roles
            if expected is None:
                return outside(program, found)
            differs = first_difference(program, found, expected, seeds)
            if not differs and ptx and program.options.get("cluster", 1) == 1:
                text = difference(program.names, expected, run_ptx_of(program, kernel))
                differs = ("ptx", text) if text else None
    except TimeoutError as error:
        return Outcome("hang", text=str(error), roles=roles)
    except ProtocolError as error:
        return Outcome("crash", type(error).__name__, error.render(), roles)
    except TawaError as error:
        name = type(error).__name__
        verdict = "refused" if name in CANNOT_BE_MET else "crash"
        return Outcome(verdict, name, error.render(), roles)
    except Exception as error:
        return Outcome("crash", type(error).__name__, repr(error), roles)
    return Outcome("wrong", *differs, roles) if differs else Outcome("right", roles=roles)


def first_difference(
    program: Program, found: Lowered, expected: list[Any], seeds: tuple[int | None, ...]
) -> tuple[str, str] | None:
    """The first level that gives something else, and what differs."""
    for level in LEVELS:
        for seed in seeds if level == "hopper" else (None,):
            text = difference(program.names, expected, run_level(program, found, level, seed))
            if text:
                return level, text
    return None


@contextmanager
def limited(seconds: float) -> Generator[None]:
    """Raise TimeoutError in what takes longer (processor time; in the main thread alone)."""

    def over(*_: Any) -> None:
        raise TimeoutError(f"not done after {seconds} s of processor time")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def difference(names: Sequence[str], expected: list[Any], found: list[Any]) -> str:
    """Where memories differ."""
    lines = []
    for name, one, other in zip(names, expected, found, strict=True):
        places = np.flatnonzero(one != other)
        if len(places):
            at = places[:4]
            lines.append(f"{name}: {len(places)} of {one.size} differ, first at {at}: "
                         f"{other[at]} instead of {one[at]}")  # fmt: skip
    return "\n".join(lines)


def shrunk(program: Some, folder: Path, outcome: Outcome, *, ptx: bool = False) -> Some:
    """A program of fewer statements and options with the same verdict."""

    def same(candidate: Some) -> bool:
        try:
            got = compared(candidate, folder, (None, 0, 1), ptx=ptx)
        except (NameError, TypeError, IndexError, SyntaxError):  # Python itself does not run it
            return False
        return (got.verdict, got.where) == (outcome.verdict, outcome.where) and (
            got.verdict == "wrong" or got.text[:60] == outcome.text[:60]
        )

    smaller = True
    while smaller:
        smaller = False
        for candidate in program.smaller():
            if same(candidate):
                program, smaller = candidate, True
                break
    return program
