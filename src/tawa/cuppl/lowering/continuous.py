"""Draws as functions of unconstrained reals: for Hamiltonian Monte Carlo."""

from __future__ import annotations

import math
from collections.abc import Callable

from tawa.cuppl.core.builder import FunctionBuilder
from tawa.cuppl.core.ir import (
    Call,
    Draw,
    Function,
    Instruction,
    Reg,
    Return,
    Set,
    Type,
)
from tawa.cuppl.elaboration.builtins import FAMILIES
from tawa.cuppl.elaboration.shared import Elaborated
from tawa.cuppl.lowering.differentiate import differentiate, taped
from tawa.cuppl.lowering.effects import Splitter, lower_factors
from tawa.cuppl.lowering.guards import guard_loop, guard_recursion, mark_fallible
from tawa.cuppl.lowering.pipeline import Lowered
from tawa.cuppl.lowering.suspension import (
    choose_variants,
    recursive_functions,
    suspending_functions,
)
from tawa.cuppl.lowering.tail import expose_tail_calls, loop_self_calls
from tawa.cuppl.lowering.unrolled import unroll_loops
from tawa.cuppl.typing.failures import DISCRETE_CHOICE

__all__ = ["lower_continuous", "lower_given"]

F64, I64, REF = Type.F64, Type.I64, Type.REF
ENDS = {"interval": (0, 1), "line": (0, 1), "truncated": (2, 3), "bounded": (0, 2)}
"""Which parameters are the ends of a bounded support."""


def lower_continuous(elaborated: Elaborated) -> Lowered | None:
    """Lower to a differentiated log density; None if the program uses `shift`."""
    lowered = lower_given(elaborated)
    if lowered is None:
        return None
    main = elaborated.main
    for function in lowered.program.functions.values():
        unroll_loops(function)
    program = differentiate(lowered.program, main).reachable([taped(main)])
    mark_fallible(program)
    return Lowered(elaborated, program, None)


def lower_given(elaborated: Elaborated) -> Lowered | None:
    """Lower to a run whose draws are functions of given reals; None if it uses `shift`."""
    program = elaborated.program.copy().reachable([elaborated.main])
    families: dict[str, tuple[Type, ...]] = {}
    for function in program.functions.values():
        _Values(function, families).run()
        lower_factors(function, suspend=False)
    for stem, results in families.items():
        program.add(_choice(stem, results))
    if suspending_functions(program, set()):
        return None
    choose_variants(program, set())
    program = program.reachable([elaborated.main])
    for function in program.functions.values():
        expose_tail_calls(function)
        if loop_self_calls(function):
            guard_loop(function)
    for name in sorted(recursive_functions(program)):
        guard_recursion(program.functions[name])
    return Lowered(elaborated, program, None)


class _Values(Splitter):
    prefix = "value"

    def __init__(self, function: Function, families: dict[str, tuple[Type, ...]]) -> None:
        super().__init__(function)
        self.families = families

    def rewrite(self, item: Instruction) -> None:
        if not isinstance(item, Draw):
            self.emit(item)
            return
        if FAMILIES[item.family].support in ("finite", "naturals", "counts"):
            self.stop(item, DISCRETE_CHOICE)
            return
        self.families[item.family] = tuple(d.type for d in item.dsts)
        self.emit(Call(item.dsts, f"value_{item.family}", item.args))


def _choice(stem: str, results: tuple[Type, ...]) -> Function:
    """`value_stem(parameters)`: the next values, constrained; their density joins the weight."""
    family = FAMILIES[stem]
    kinds = {"float": F64, "int": I64}
    types = [kinds.get(kind, REF) for _, kind in family.parameters]
    b = FunctionBuilder(f"value_{stem}", types, results)
    if results[0] is REF:
        order = _order(b, [kind for _, kind in family.parameters])
        free, value, jacobian = _vector(b, family.support, order)
    else:
        free, value, jacobian = _scalar(b, family.support)
    old = b.get("weight", F64)
    if family.free_density is not None:
        density = b.call(family.free_density, [free, *b.params], [F64])[0]
        total = b.op("addf", old, density)
    else:
        density = b.call(family.log_density, [value, *b.params], [F64])[0]
        total = b.op("addf", b.op("addf", old, density), jacobian())
    b.put(Set("weight", total))
    b.end(Return((value,)))
    return b.finish()


Choice = tuple[Reg, Reg, Callable[[], Reg]]
"""The unconstrained number or vector, the value, and the log of the derivative or determinant."""


def _scalar(b: FunctionBuilder, support: str) -> Choice:
    q = b.call("take_value", [], [F64])[0]
    if support == "real":
        return q, q, lambda: b.const(0.0, F64)
    if support == "positive":
        return q, b.call("exp", [q], [F64])[0], lambda: q
    if support == "above":
        grown = b.call("exp", [q], [F64])[0]
        return q, b.op("addf", b.params[1], grown), lambda: q
    if support in ENDS:
        low, high = (b.params[k] for k in ENDS[support])
    else:
        bounds = (-math.pi, math.pi) if support == "circle" else (0.0, 1.0)
        low, high = (b.const(v, F64) for v in bounds)
    name = "within" if support in ("truncated", "line") else "between"
    value = b.call(name, [low, high, q], [F64])[0]
    return q, value, lambda: b.call(f"{name}_density", [low, high, q], [F64])[0]


def _vector(b: FunctionBuilder, support: str, order: Reg) -> Choice:
    if support == "reals":
        free = b.call("take_vector", [order], [REF])[0]
        return free, free, lambda: b.const(0.0, F64)
    room = b.call(f"room_{support}", [order], [I64])[0]
    free = b.call("take_vector", [room], [REF])[0]
    value = b.call(f"to_{support}", [free, order], [REF])[0]
    return free, value, lambda: b.call(f"{support}_density", [free, order], [F64])[0]


def _order(b: FunctionBuilder, kinds: list[str]) -> Reg:
    """The first integer among the parameters, or the length of the first vector."""
    given = zip(kinds, b.params, strict=True)
    reg = next(reg for kind, reg in given if kind == "int" or " " in kind)
    return reg if reg.type is I64 else b.load(reg, 1, I64)
