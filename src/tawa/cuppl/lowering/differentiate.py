"""Reverse-mode differentiation of core functions, by a tape.

Each float register gets a companion that holds its place on the tape; each float in the heap has a
companion word at a fixed distance. A function `f` becomes `f.taped`, which takes and returns
places beside floats. Functions with known derivatives (`log`, `exp`, `lgamma`...) stay as they
are. Control flow needs nothing: the tape records what was executed.
"""

from __future__ import annotations

from collections import Counter

from tawa.cuppl.core.builder import targets
from tawa.cuppl.core.ir import (
    Alloc,
    Block,
    Call,
    Const,
    Copy,
    Function,
    Get,
    Instruction,
    Load,
    Op,
    Program,
    Reg,
    Return,
    Set,
    Store,
    Table,
    Terminator,
    Type,
)
from tawa.cuppl.lowering.dataflow import live_at_entry, used_by_terminator
from tawa.cuppl.lowering.effects import Splitter
from tawa.cuppl.lowering.linear_forms import LinearForms, place
from tawa.cuppl.translation.native import translate

__all__ = ["differentiate"]

F64, I64 = Type.F64, Type.I64
DERIVATIVES = {"log", "exp", "lgamma", "take_value", "log1p"}
"""Natives of one float whose derivative is written down here (or is the value taken)."""


def differentiate(program: Program, main: str) -> Program:
    """The program with taped versions of `main` and of all that it calls."""
    out = Program(dict(program.functions))
    pending = [main]
    while pending:
        name = pending.pop()
        if taped(name) in out.functions:
            continue
        source = program.functions.get(name) or translate(name)
        function = Function(
            taped(name), _both(source.params), _both_types(source.results), dict(source.blocks),
            source.inline, False, source.recursive, source.site,
        )  # fmt: skip
        tape = _Tape(function)
        tape.run()
        out.add(function)
        pending.extend(tape.called)
    return out


def taped(name: str) -> str:
    """Name of the differentiated version of a function."""
    return f"{name}_taped"


def _both(regs: tuple[Reg, ...]) -> tuple[Reg, ...]:
    """Registers, then the companions of the floats among them."""
    return (*regs, *(place(r) for r in regs if r.type is F64))


def _both_types(types: tuple[Type, ...]) -> tuple[Type, ...]:
    return (*types, *(I64 for t in types if t is F64))


class _Tape(Splitter):
    prefix = "tape"

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self.called: set[str] = set()
        self.live = live_at_entry(function)
        self.forms = LinearForms(self)
        first = next(iter(function.blocks))
        follow = [t for block in function.blocks.values() for t in targets(block.terminator)]
        self.ways = Counter([first, *follow])

    def run(self) -> None:
        """Rewrite all blocks."""
        for block in self.function.blocks.values():
            self.here = self.blocks[block.name] = Block(block.name)
            self.forms.enter(block.name)
            for item in block.instructions:
                self.rewrite(item)
            self.here.terminator = self.end(block.terminator)
        self.function.blocks = self.blocks

    def rewrite(self, item: Instruction) -> None:
        match item:
            case Op(dst, name, args):
                if dst.type is F64:
                    self.operation(dst, name, self.kept(dst, args))
                else:
                    self.emit(item)
            case Const(dst, _) | Table(dst, _, _):
                self.emit(item)
                if dst.type is F64:
                    self.forms.put(dst, {})
            case Copy(dst, src):
                self.emit(item)
                if dst.type is F64 and dst != src:
                    self.forms.put(dst, self.forms.of(src))
            case Call():
                self.call(item)
            case Load() | Store():
                self.memory(item)
            case _:
                self.other(item)

    def kept(self, dst: Reg, args: tuple[Reg, ...]) -> tuple[Reg, ...]:
        """The operands, copied if the result replaces one: slopes are computed of them."""
        if dst not in args:
            return args
        old = self.reg(F64)
        self.emit(Copy(old, dst))
        self.forms.put(old, self.forms.of(dst))
        return tuple(old if a == dst else a for a in args)

    def other(self, item: Instruction) -> None:
        """The weight, and instructions that have nothing to do with floats."""
        match item:
            case Get(dst, name):
                self.emit(item)
                if dst.type is F64:
                    self.emit(Get(place(dst), f"tape_{name}"))
                    self.forms.placed(dst)
            case Set(name, src):
                self.emit(item)
                if src.type is F64:
                    self.forms.materialise(src)
                    self.emit(Set(f"tape_{name}", place(src)))
            case _:
                assert isinstance(item, Alloc)
                self.emit(item)

    def end(self, terminator: Terminator | None) -> Terminator | None:
        used = set(used_by_terminator(terminator))
        for target in targets(terminator):
            used |= self.live[target]
        after = set(targets(terminator))
        only = all(self.ways[t] == 1 and t not in self.blocks for t in after)
        if isinstance(terminator, Return) or not only:
            after = set[str]()
        self.forms.leave(used, sorted(after))
        if isinstance(terminator, Return):
            return Return(_both(terminator.values))
        return terminator

    def number(self, value: float) -> Reg:
        return self.const(value, F64)

    def operation(self, dst: Reg, name: str, args: tuple[Reg, ...]) -> None:
        """A scalar operation with its derivatives."""
        if name == "selectf":
            self.forms.materialise(args[1], args[2])
        self.emit(Op(dst, name, args))
        if name in ("floor", "float", "float_of_bits"):
            self.forms.put(dst, {})
        elif name == "selectf":
            self.emit(Op(place(dst), "selecti", (args[0], place(args[1]), place(args[2]))))
            self.forms.placed(dst)
        else:
            self.forms.combine(dst, *self.slopes(dst, name, args))

    def slopes(
        self, dst: Reg, name: str, args: tuple[Reg, ...]
    ) -> tuple[tuple[Reg, Reg | None], ...]:
        """The operands, each with the derivative of the result by it (None is 1)."""
        a = args[0]
        match name:
            case "addf":
                return (a, None), (args[1], None)
            case "subf":
                return (a, None), (args[1], self.number(-1.0))
            case "mulf":
                return (a, args[1]), (args[1], a)
            case "fma":
                return (a, args[1]), (args[1], a), (args[2], None)
            case "divf":
                inverse = self.op("divf", F64, self.number(1.0), args[1])
                ratio = self.op("mulf", F64, dst, inverse)
                return (a, inverse), (args[1], self.op("negf", F64, ratio))
            case "negf":
                return ((a, self.number(-1.0)),)
            case "sqrt":
                return ((a, self.op("divf", F64, self.number(0.5), dst)),)
            case "absf":
                positive = self.op("gef", Type.BOOL, a, self.number(0.0))
                sign = self.op("selectf", F64, positive, self.number(1.0), self.number(-1.0))
                return ((a, sign),)
            case _:
                raise ValueError(f"no derivative of {name}")

    def call(self, call: Call) -> None:
        name = call.function
        if name in DERIVATIVES:
            self.known(call)
            return
        floats = [r for r in (*call.args, *call.dsts) if r.type is F64]
        if not floats and name in _PLAIN:
            self.emit(call)
            return
        self.called.add(name)
        self.forms.materialise(*(r for r in call.args if r.type is F64))
        self.emit(Call(_both(call.dsts), taped(name), _both(call.args), call.on_fail))
        for dst in call.dsts:
            self.forms.placed(dst)

    def known(self, call: Call) -> None:
        """A call with a derivative of its own."""
        dst = call.dsts[0]
        if call.function == "take_value":
            self.emit(call, Call((place(dst),), "taken_place", ()))
            self.forms.placed(dst)
            return
        (x,) = self.kept(dst, call.args)
        self.emit(Call(call.dsts, call.function, (x,), call.on_fail))
        match call.function:
            case "log":
                slope = self.op("divf", F64, self.number(1.0), x)
            case "log1p":
                shifted = self.op("addf", F64, self.number(1.0), x)
                slope = self.op("divf", F64, self.number(1.0), shifted)
            case "exp":
                slope = dst
            case _:
                slope = self.reg(F64)
                self.emit(Call((slope,), "digamma", (x,)))
        self.forms.combine(dst, (x, slope))

    def memory(self, item: Load | Store) -> None:
        reg = item.dst if isinstance(item, Load) else item.src
        if reg.type is not F64:
            self.emit(item)
            return
        eight = self.const(8, I64)
        address = self.reg(I64)
        self.emit(Copy(address, item.base))
        if item.index is not None:
            address = self.op("addi", I64, address, self.op("muli", I64, item.index, eight))
        address = self.op("addi", I64, address, self.const(8 * item.offset, I64))
        self.emit(item)
        if isinstance(item, Load):
            self.emit(Call((place(reg),), "shadow_load", (address,)))
            self.forms.placed(reg)
        else:
            self.forms.materialise(reg)
            self.emit(Call((), "shadow_store", (address, place(reg))))


_PLAIN = {"memo_find", "memo_insert", "hash_mix"}
"""Natives without floats, which need no taped version."""
