"""Reverse-mode differentiation of core functions, by a tape.

Each float register gets a companion that holds its place on the tape; each float in the heap has a
companion word at a fixed distance. A function `f` becomes `f.taped`, which takes and returns
places beside floats. Natives of one float stay as they are where another, `slope_f`, says their
derivative. Control flow needs nothing: the tape records what was executed.

The weight is the sum of all that is added to it, so what a term's derivatives are is known when it
is added: they never reach the tape (`LinearForms.weigh`).
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from tawa.cuppl.core.builder import targets
from tawa.cuppl.core.ir import (
    Alloc,
    Block,
    Call,
    Const,
    Copy,
    Fail,
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
from tawa.cuppl.lowering.activity import active_addresses
from tawa.cuppl.lowering.dataflow import live_at_entry, rename, used_by_terminator
from tawa.cuppl.lowering.effects import Splitter
from tawa.cuppl.lowering.invariants import hoist_invariants
from tawa.cuppl.lowering.linear_forms import LinearForms, place
from tawa.cuppl.translation.native import NATIVES, translate
from tawa.cuppl.translation.subset import VECTOR_OFFSET

__all__ = ["differentiate"]

F64, I64 = Type.F64, Type.I64


def differentiate(program: Program, main: str) -> Program:
    """The program with taped versions of `main` and of all that it calls."""
    out = Program(dict(program.functions))
    active = active_addresses(main, partial(_source, program))
    pending = [main]
    while pending:
        name = pending.pop()
        if taped(name) in out.functions:
            continue
        source = _source(program, name)
        function = Function(
            taped(name), _both(source.params), _both_types(source.results), dict(source.blocks),
            source.inline, False, source.recursive, source.site,
        )  # fmt: skip
        tape = _Tape(function, name, program, active)
        tape.run()
        hoist_invariants(function, partial(_source, program))
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


def _source(program: Program, name: str) -> Function:
    """A function of the program, or a native."""
    return program.functions.get(name) or translate(name)


class _Tape(Splitter):
    prefix = "tape"

    def __init__(
        self, function: Function, source: str, program: Program, active: dict[str, set[Reg]]
    ) -> None:
        super().__init__(function)
        self.all_active = active
        self.active = set(active[source])
        """Registers that may hold addresses of floats which are not constant."""
        self.program = program
        self.copies = 0
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
            case Get(dst, "weight"):
                self.emit(item)
                self.forms.put(dst, {})
            case Set("weight", src):
                self.emit(item)
                self.forms.weigh(src)
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
        """The end of a block; forms go on to blocks that only it leads to, or that fail."""
        following = targets(terminator)
        used = set(used_by_terminator(terminator)).union(*(self.live[t] for t in following))
        after = {t for t in following if not self.fails(t)}
        only = all(self.ways[t] == 1 and t not in self.blocks for t in after)
        if isinstance(terminator, Return) or not only:
            after = set[str]()
        self.forms.leave(used, sorted(after))
        if isinstance(terminator, Return):
            return Return(_both(terminator.values))
        return terminator

    def fails(self, name: str) -> bool:
        """Whether a block needs no derivatives, as the run ends there."""
        return isinstance(self.function.blocks[name].terminator, Fail)

    def number(self, value: float) -> Reg:
        return self.const(value, F64)

    def operation(self, dst: Reg, name: str, args: tuple[Reg, ...]) -> None:
        """A scalar operation with its derivatives."""
        self.emit(Op(dst, name, args))
        if name in ("floor", "float", "float_of_bits"):
            self.forms.put(dst, {})
        elif name == "selectf":
            self.forms.choose(dst, *args)
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
        if name == "take_value":
            dst = call.dsts[0]
            self.emit(call, Call((place(dst),), "taken_place", ()))
            self.forms.placed(dst)
            return
        if name == "dot_range":
            self.dot(call)
            return
        if f"slope_{name}" in NATIVES:
            self.known(call)
            return
        if name in _PLAIN or self.only_tells(name):
            self.emit(call)
            return
        source = _source(self.program, name)
        if len(source.blocks) == 1 and call.on_fail is None and not source.recursive:
            self.copy(source, call)
            return
        self.called.add(name)
        self.forms.materialise(*(r for r in call.args if r.type is F64))
        self.emit(Call(_both(call.dsts), taped(name), _both(call.args), call.on_fail))
        for dst in call.dsts:
            self.forms.placed(dst)

    def dot(self, call: Call) -> None:
        """A product of parts of two vectors: one entry, with the addresses of their elements."""
        v, i, w, j, count = call.args
        addresses = [self.element(v, i), self.element(w, j)]
        self.emit(call)
        dst = call.dsts[0]
        if v not in self.active and w not in self.active:
            self.forms.put(dst, {})
            return
        self.emit(Call((place(dst),), "tape_dot", (*addresses, count)))
        self.forms.placed(dst)

    def element(self, vector: Reg, index: Reg) -> Reg:
        """The address of an element of a vector."""
        base = self.reg(I64)
        self.emit(Copy(base, vector))
        start = self.op("muli", I64, index, self.const(8, I64))
        start = self.op("addi", I64, start, self.const(8 * VECTOR_OFFSET, I64))
        return self.op("addi", I64, base, start)

    def only_tells(self, name: str) -> bool:
        """Whether a function returns no floats or references, and changes nothing."""
        function = _source(self.program, name)
        if any(t in (F64, Type.REF) for t in function.results) or function.recursive:
            return False
        items = [item for block in function.blocks.values() for item in block.instructions]
        return all(
            self.only_tells(item.function) or f"slope_{item.function}" in NATIVES
            if isinstance(item, Call)
            else not isinstance(item, Store | Alloc | Set)
            for item in items
        )

    def copy(self, source: Function, call: Call) -> None:
        """The code of a function without control, so that forms go through it."""
        (block,) = source.blocks.values()
        end = block.terminator
        if not isinstance(end, Return):
            raise TypeError(f"{source.name} does not return")
        self.copies += 1
        prefix = f"copy{self.copies}_"
        self.active |= {Reg(prefix + r.name, r.type) for r in self.all_active[source.name]}
        for param, given in zip(source.params, call.args, strict=True):
            self.rewrite(Copy(Reg(prefix + param.name, param.type), given))
        for item in block.instructions:
            self.rewrite(rename(item, prefix))
        for dst, found in zip(call.dsts, end.values, strict=True):
            self.rewrite(Copy(dst, Reg(prefix + found.name, found.type)))

    def known(self, call: Call) -> None:
        """A call of a native of one float whose derivative is written down."""
        dst = call.dsts[0]
        (x,) = self.kept(dst, call.args)
        self.emit(Call(call.dsts, call.function, (x,), call.on_fail))
        slope = self.reg(F64)
        self.emit(Call((slope,), f"slope_{call.function}", (x, dst)))
        self.forms.combine(dst, (x, slope))

    def memory(self, item: Load | Store) -> None:
        reg = item.dst if isinstance(item, Load) else item.src
        if reg.type is not F64:
            self.emit(item)
            return
        if isinstance(item, Load) and item.base not in self.active:
            self.emit(item)
            self.forms.put(reg, {})
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
