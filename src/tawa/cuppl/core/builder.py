"""Builds one function of the core, block by block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tawa.cuppl.core.ir import (
    Alloc,
    Block,
    Branch,
    Call,
    Const,
    Copy,
    Fail,
    Function,
    Get,
    Instruction,
    Jump,
    Load,
    Op,
    Reg,
    Store,
    Switch,
    Terminator,
    Type,
)
from tawa.cuppl.core.scalars import SCALARS

__all__ = ["FunctionBuilder"]


class FunctionBuilder:
    """A function under construction; `here` is the block that instructions go to.

    Instructions after a terminator can't be reached and are dropped.
    """

    def __init__(self, name: str, params: Sequence[Type], results: Iterable[Type]) -> None:
        self.count = 0
        self.constants: dict[Reg, float | int | bool] = {}
        """The registers that `const` has set."""
        self.params = tuple(self.reg(t, "p") for t in params)
        self.function = Function(name, self.params, tuple(results))
        self.here = Block("entry")
        self.function.blocks["entry"] = self.here

    # Blocks.

    def name(self, hint: str) -> str:
        """A name for a new block."""
        self.count += 1
        return f"{hint}{self.count}"

    def open(self, name: str) -> None:
        """Continue in a new block."""
        self.here = self.function.blocks[name] = Block(name)

    def end(self, terminator: Terminator) -> None:
        """End the block, unless it has ended."""
        if self.here.terminator is None:
            self.here.terminator = terminator

    def jump(self, target: str) -> None:
        """End the block with a jump."""
        self.end(Jump(target))

    def branch(self, condition: Reg, then: str, other: str) -> None:
        """End the block with a branch."""
        self.end(Branch(condition, then, other))

    def switch(self, value: Reg, cases: dict[int, str], default: str) -> None:
        """End the block with a switch."""
        self.end(Switch(value, cases, default))

    def fail(self, code: int, site: int) -> None:
        """End the block with a failure."""
        self.end(Fail(code, site))

    def fail_if(self, condition: Reg, code: int, site: int) -> None:
        """Fail where a condition holds, else go on."""
        bad, good = self.name("bad"), self.name("good")
        self.branch(condition, bad, good)
        self.open(bad)
        self.fail(code, site)
        self.open(good)

    @property
    def ended(self) -> bool:
        """Whether what comes next can't be reached."""
        return self.here.terminator is not None

    # Instructions.

    def reg(self, type_: Type, hint: str = "t") -> Reg:
        """A new register."""
        self.count += 1
        return Reg(f"{hint}{self.count}", type_)

    def regs(self, types: Iterable[Type], hint: str = "t") -> tuple[Reg, ...]:
        """New registers."""
        return tuple(self.reg(t, hint) for t in types)

    def put(self, item: Instruction) -> None:
        """Append an instruction."""
        if self.here.terminator is None:
            self.here.instructions.append(item)

    def const(self, value: float | int | bool, type_: Type = Type.I64) -> Reg:
        """A constant."""
        reg = self.reg(type_, "c")
        self.put(Const(reg, value))
        self.constants[reg] = value
        return reg

    def op(self, name: str, *args: Reg) -> Reg:
        """A scalar operation."""
        reg = self.reg(SCALARS[name].result)
        self.put(Op(reg, name, args))
        return reg

    def call(self, function: str, args: Sequence[Reg], results: Iterable[Type]) -> tuple[Reg, ...]:
        """Call a function."""
        dsts = self.regs(results)
        self.put(Call(dsts, function, tuple(args)))
        return dsts

    def copy(self, targets: Sequence[Reg], sources: Sequence[Reg]) -> None:
        """`targets = sources`, all at once."""
        moved = [(t, s) for t, s in zip(targets, sources, strict=True) if t != s]
        if any(s in targets for _, s in moved):
            held = self.fresh_copy([s for _, s in moved])
            moved = [(t, h) for (t, _), h in zip(moved, held, strict=True)]
        for target, source in moved:
            self.put(Copy(target, source))

    def fresh_copy(self, sources: Sequence[Reg], hint: str = "v") -> tuple[Reg, ...]:
        """New registers with the values of others."""
        targets = self.regs((s.type for s in sources), hint)
        for target, source in zip(targets, sources, strict=True):
            self.put(Copy(target, source))
        return targets

    def convert(self, reg: Reg, type_: Type) -> Reg:
        """The same word as another type of register (REF and I64)."""
        if reg.type is type_:
            return reg
        out = self.reg(type_)
        self.put(Copy(out, reg))
        return out

    def word(self, reg: Reg) -> Reg:
        """What a register holds, as an integer register: the bits of a float."""
        if reg.type is Type.F64:
            return self.op("bits_of", reg)
        return self.op("int_of_bool", reg) if reg.type is Type.BOOL else self.convert(reg, Type.I64)

    def load(self, base: Reg, offset: int, type_: Type, index: Reg | None = None) -> Reg:
        """A word of memory."""
        reg = self.reg(type_)
        self.put(Load(reg, base, index, offset))
        return reg

    def load_words(
        self, base: Reg, offset: int, types: Iterable[Type], index: Reg | None = None
    ) -> tuple[Reg, ...]:
        """Consecutive words of memory."""
        return tuple(self.load(base, offset + k, t, index) for k, t in enumerate(types))

    def store(self, base: Reg, offset: int, src: Reg, index: Reg | None = None) -> None:
        """Write a word of memory."""
        self.put(Store(base, src, index, offset))

    def alloc(self, words: Reg | int, header: int) -> Reg:
        """A new heap object."""
        reg = self.reg(Type.REF, "h")
        self.put(Alloc(reg, words))
        self.store(reg, 0, self.const(header))
        return reg

    def get(self, field: str, type_: Type) -> Reg:
        """A field of the context."""
        reg = self.reg(type_)
        self.put(Get(reg, field))
        return reg

    def finish(self) -> Function:
        """The function, without blocks that can't be reached."""
        function = self.function
        reached: set[str] = set()
        stack = ["entry"]
        while stack:
            name = stack.pop()
            if name not in reached:
                reached.add(name)
                stack.extend(targets(function.blocks[name].terminator))
        function.blocks = {n: b for n, b in function.blocks.items() if n in reached}
        return function


def targets(terminator: Terminator | None) -> tuple[str, ...]:
    """The blocks that a terminator may go to."""
    match terminator:
        case Jump(target):
            return (target,)
        case Branch(_, then, other):
            return (then, other)
        case Switch(_, cases, default):
            return (*cases.values(), default)
        case _:
            return ()
