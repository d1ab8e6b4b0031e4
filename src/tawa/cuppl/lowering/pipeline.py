"""The passes from an elaborated program to code for an inference method, in order."""

from __future__ import annotations

from dataclasses import dataclass

from tawa.cuppl.core.ir import Function, Program, Type
from tawa.cuppl.elaboration.shared import Elaborated
from tawa.cuppl.lowering.effects import lower_draws, lower_factors, weighs
from tawa.cuppl.lowering.frames import Machine
from tawa.cuppl.lowering.guards import guard_loop, guard_recursion, guard_steps, mark_fallible
from tawa.cuppl.lowering.machine import build_machine, build_segment
from tawa.cuppl.lowering.suspension import (
    choose_variants,
    recursive_functions,
    suspending_functions,
)
from tawa.cuppl.lowering.tail import expose_tail_calls, loop_self_calls
from tawa.cuppl.natives import frames as _frames  # registers its natives
from tawa.cuppl.translation.native import link, translate

__all__ = ["Lowered", "finish", "lower"]
assert _frames

MACHINE_NATIVES = (
    "restore_draw", "allocate", "find_mark", "new_continuation", "capture", "reinstate"
)  # fmt: skip


@dataclass(slots=True, repr=False)
class Lowered:
    """Code of a program for one inference method; `machine` if it can suspend."""

    elaborated: Elaborated
    program: Program
    machine: Machine | None
    segment: Function | None = None
    """The machine for particles side by side, if there may be one."""

    @property
    def results(self) -> tuple[Type, ...]:
        """The words of a run's result."""
        if self.machine is not None:
            return self.machine.results
        return self.program.functions[self.elaborated.main].results


def lower(
    elaborated: Elaborated, suspend_at_factors: bool, explicit_recursion: bool = False
) -> Lowered:
    """Lower for a method that draws from the prior: likelihood weighting, or SMC.

    With `explicit_recursion` (GPUs) no function calls itself: recursion that is not a loop goes
    through explicit frames, as if it could suspend.
    """
    program = elaborated.program.copy().reachable([elaborated.main])
    ends = not suspend_at_factors or weighs(program)  # what only rejects is to suspend somewhere
    for function in program.functions.values():
        lower_draws(function)
        lower_factors(function, suspend_at_factors, ends)
    return finish(elaborated, program, explicit_recursion)


def finish(elaborated: Elaborated, program: Program, explicit_recursion: bool = False) -> Lowered:
    """The passes that follow once draws and factors are settled."""
    main = elaborated.main
    suspending = suspending_functions(program, set())
    if explicit_recursion:
        suspending = suspending_functions(program, _true_recursion(program))
    choose_variants(program, suspending)
    program = program.reachable([main])
    suspending &= program.functions.keys()
    _guard(program, suspending)
    machine, segment = None, None
    if suspending:
        for name in MACHINE_NATIVES:
            program.functions.setdefault(name, translate(name).copy())
    link(program)
    mark_fallible(program)
    if main in suspending:
        segment = None if explicit_recursion else build_segment(program, suspending, main)
        machine = build_machine(program, suspending, main)
        program.add(machine.function)
        program = program.reachable([machine.function.name])
    mark_fallible(program)
    return Lowered(elaborated, program, machine, segment)


def _guard(program: Program, suspending: set[str]) -> None:
    """Make loops of tail calls, and let no recursion go on forever."""
    loops: set[str] = set()
    for function in program.functions.values():
        expose_tail_calls(function)
        if loop_self_calls(function):
            guard_loop(function)
            loops.add(function.name)
    for name in sorted(recursive_functions(program)):
        if name not in suspending:
            guard_recursion(program.functions[name])
        elif name not in loops:  # a loop's head counts its calls too
            guard_steps(program.functions[name])


def _true_recursion(program: Program) -> set[str]:
    """Functions that call themselves other than by a tail call."""
    probe = program.copy()
    for function in probe.functions.values():
        expose_tail_calls(function)
        loop_self_calls(function)
    return recursive_functions(probe)
