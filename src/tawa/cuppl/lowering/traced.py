"""Draws that are recorded: for Metropolis-Hastings, and for exact enumeration.

Each family gets one core function that makes a choice from it; every draw calls it with its site.
"""

from __future__ import annotations

from collections.abc import Callable

from tawa.cuppl.core.builder import FunctionBuilder
from tawa.cuppl.core.ir import (
    Call,
    Draw,
    Function,
    Get,
    Instruction,
    Program,
    Reg,
    Return,
    Set,
    Type,
)
from tawa.cuppl.elaboration.builtins import FAMILIES
from tawa.cuppl.elaboration.shared import Elaborated
from tawa.cuppl.lowering.effects import Splitter, lower_factors
from tawa.cuppl.lowering.pipeline import Lowered, finish
from tawa.cuppl.lowering.tail import expose_tail_calls, is_tail_call
from tawa.cuppl.typing.failures import IMPROPER, INFINITE_SUPPORT, REJECTED, TRACE_FULL

__all__ = ["lower_enumerated", "lower_traced"]

F64, I64, BOOL, REF = Type.F64, Type.I64, Type.BOOL, Type.REF


def lower_traced(elaborated: Elaborated) -> Lowered:
    """Lower for re-execution with recorded choices."""
    return _lower(elaborated, _traced_choice, addresses=True)


def lower_enumerated(elaborated: Elaborated) -> Lowered:
    """Lower for enumeration: choices go through their supports."""
    return _lower(elaborated, _enumerated_choice, addresses=False)


def _lower(
    elaborated: Elaborated,
    write: Callable[[str, tuple[Type, ...]], Function],
    addresses: bool,
) -> Lowered:
    program = elaborated.program.copy().reachable([elaborated.main])
    drawing = _drawing(program)
    families: dict[str, tuple[Type, ...]] = {}
    for function in list(program.functions.values()):
        expose_tail_calls(function)
        _Choices(function, families, drawing if addresses else set()).run()
        lower_factors(function, suspend=False)
    for stem, results in families.items():
        program.add(write(stem, results))
    return finish(elaborated, program)


def _drawing(program: Program) -> set[str]:
    """Functions that may draw, directly or not."""
    found = {
        f.name
        for f in program.functions.values()
        if any(isinstance(i, Draw) for b in f.blocks.values() for i in b.instructions)
    }
    changed = True
    while changed:
        more = {f.name for f in program.functions.values() if f.callees() & found}
        changed = not more <= found
        found |= more
    return found


class _Choices(Splitter):
    """Draws become calls of choices; calls of drawing functions extend the address."""

    prefix = "choice"

    def __init__(
        self, function: Function, families: dict[str, tuple[Type, ...]], drawing: set[str]
    ) -> None:
        super().__init__(function)
        self.families = families
        self.drawing = drawing
        self.finite = not drawing
        self.calls = 0
        self.tails = {
            id(block.instructions[-1])
            for block in function.blocks.values()
            if block.instructions and is_tail_call(block, len(block.instructions) - 1)
        }

    def rewrite(self, item: Instruction) -> None:
        if isinstance(item, Draw) and self.finite and FAMILIES[item.family].support != "finite":
            self.stop(item, INFINITE_SUPPORT)
        elif isinstance(item, Draw) and FAMILIES[item.family].improper:
            self.stop(item, IMPROPER)
        elif isinstance(item, Draw):
            self.families[item.family] = tuple(d.type for d in item.dsts)
            site = self.const(2 * item.site + (item.dsts[0].type is F64), I64)
            self.emit(Call(item.dsts, f"choose_{item.family}", (site, *item.args)))
        elif isinstance(item, Call) and item.function in self.drawing:
            self.calls += 1
            old = self.reg(I64)
            self.emit(Get(old, "address"))
            mixed = self.reg(I64)
            place = self.const(hash_text(f"{self.function.name} {self.calls}"), I64)
            self.emit(Call((mixed,), "hash_mix", (old, place)), Set("address", mixed), item)
            if id(item) not in self.tails:  # after a tail call, the caller restores its own
                self.emit(Set("address", old))
        else:
            self.emit(item)


def hash_text(text: str) -> int:
    """A number for a text that is the same in every process (FNV-1a)."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value >> 3


def _parameter_types(stem: str) -> tuple[Type, ...]:
    kinds = {"float": F64, "int": I64, "bool": BOOL}
    return tuple(kinds.get(kind, REF) for _, kind in FAMILIES[stem].parameters)


def _traced_choice(stem: str, results: tuple[Type, ...]) -> Function:
    """`choose_stem(site, parameters)`: the old value if it is to be reused, else a new draw."""
    family = FAMILIES[stem]
    b = FunctionBuilder(f"choose_{stem}", (I64, *_parameter_types(stem)), results)
    site, *parameters = b.params
    key, found = b.call("trace_find", [site], [I64, I64])
    b.fail_if(b.op("lti", found, b.const(-1)), TRACE_FULL, 0)
    reuse, fresh, done = b.name("reuse"), b.name("fresh"), b.name("done")
    out, index = b.reg(results[0], "value"), b.reg(I64, "index")
    b.copy([index], [found])
    b.branch(b.op("gei", found, b.const(0)), reuse, fresh)
    b.open(reuse)
    b.copy([out], [_recall(b, found, results[0])])
    b.jump(done)
    b.open(fresh)
    if results[0] is F64:
        _walk(b, family.log_density, parameters, key, index, out)
    b.copy([out], b.call(family.sample, parameters, results))
    b.jump(done)
    b.open(done)
    _record(b, b.call(family.drawn_density, [out, *parameters], [F64])[0], key, index, out)
    return b.finish()


def _record(b: FunctionBuilder, density: Reg, key: Reg, index: Reg, out: Reg) -> None:
    """Note a choice and return it; one that is impossible now ends the run, to be rejected."""
    lost = b.op("not", b.op("gtf", density, b.const(float("-inf"), F64)))
    b.fail_if(lost, REJECTED, 0)
    b.call("trace_add", [key, _word(b, out), density, index], [])
    b.end(Return((out,)))


def _walk(
    b: FunctionBuilder, log_density: str, parameters: list[Reg], key: Reg, index: Reg, out: Reg
) -> None:
    """Draw a float near the old one and return it, if it is to walk; else go on."""
    walked = b.call("trace_walk", [key], [I64])[0]
    walk, draw = b.name("walk"), b.name("draw")
    b.branch(b.op("gei", walked, b.const(0)), walk, draw)
    b.open(walk)
    b.copy([index], [walked])
    b.copy([out], b.call("walk_from", [walked, key], [F64]))
    _record(b, b.call(log_density, [out, *parameters], [F64])[0], key, index, out)
    b.open(draw)


def _recall(b: FunctionBuilder, index: Reg, type_: Type) -> Reg:
    if type_ is REF:
        return b.convert(b.call("trace_vector", [index], [I64])[0], REF)
    word = b.call("trace_word", [index], [I64])[0]
    if type_ is F64:
        return b.op("float_of_bits", word)
    return b.op("nei", word, b.const(0)) if type_ is BOOL else word


def _word(b: FunctionBuilder, value: Reg) -> Reg:
    if value.type is REF:
        place = b.call("pool_vector", [b.convert(value, I64)], [I64])[0]
        b.fail_if(b.op("lti", place, b.const(0)), TRACE_FULL, 0)
        return place
    return b.word(value)


def _enumerated_choice(stem: str, results: tuple[Type, ...]) -> Function:
    """`choose_stem(site, parameters)`: the value that this path takes."""
    family = FAMILIES[stem]
    b = FunctionBuilder(f"choose_{stem}", (I64, *_parameter_types(stem)), results)
    _, *parameters = b.params
    if results[0] is BOOL:
        size = b.const(2)
    else:
        size = b.call(family.count, parameters, [I64])[0]
        unknown = b.op("lti", size, b.const(0))
        size = b.op("selecti", unknown, b.const((1 << 63) - 1), size)
    chosen = b.call("enumerate_choice", [size], [I64])[0]
    b.fail_if(b.op("lti", chosen, b.const(0)), TRACE_FULL, 0)
    if results[0] is BOOL:
        value = b.op("nei", chosen, b.const(0))
    else:
        value = b.op("addi", chosen, parameters[0]) if family.first == "low" else chosen
    density = b.call(family.log_density, [value, *parameters], [F64])[0]
    kept = b.call("enumerate_weigh", [density], [BOOL])[0]
    b.fail_if(b.op("not", kept), REJECTED, 0)
    b.end(Return((value,)))
    return b.finish()
