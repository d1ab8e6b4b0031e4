"""What draws and factors do when nothing is traced: draw from the prior, add to the weight."""

from __future__ import annotations

import math
from collections import Counter

from tawa.cuppl.core.ir import (
    Block,
    Branch,
    Call,
    Const,
    Draw,
    Factor,
    Fail,
    Function,
    Get,
    Instruction,
    Jump,
    Op,
    Program,
    Reg,
    Set,
    Terminator,
    Type,
)
from tawa.cuppl.elaboration.builtins import FAMILIES
from tawa.cuppl.lowering.dataflow import defined
from tawa.cuppl.typing.failures import IMPROPER, NAN_WEIGHT, REJECTED

__all__ = ["lower_draws", "lower_factors", "weighs"]


class Splitter:
    """Rewrites a function's instructions; a rewrite may end the block and start another."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.count = 0
        self.here = Block("")
        self.blocks: dict[str, Block] = {}

    def run(self) -> None:
        """Rewrite all blocks."""
        for block in self.function.blocks.values():
            self.here = Block(block.name)
            self.blocks[block.name] = self.here
            for item in block.instructions:
                self.rewrite(item)
            self.here.terminator = self.end(block.terminator)
        self.function.blocks = self.blocks

    def rewrite(self, item: Instruction) -> None:
        """Emit what replaces an instruction."""
        self.emit(item)

    def end(self, terminator: Terminator | None) -> Terminator | None:
        """What replaces a terminator; may emit first."""
        return terminator

    def emit(self, *items: Instruction) -> None:
        """Append instructions."""
        self.here.instructions.extend(items)

    def reg(self, type_: Type) -> Reg:
        """A new register."""
        self.count += 1
        return Reg(f"{self.prefix}{self.count}", type_)

    prefix = "s"

    def split(self, terminator: Terminator, name: str) -> None:
        """End the block and go on in a new one."""
        self.here.terminator = terminator
        self.here = self.blocks[name] = Block(name)

    def label(self, hint: str) -> str:
        """A new block name."""
        self.count += 1
        return f"{hint}_{self.prefix}{self.count}"

    def fail_if(self, condition: Reg, code: int, site: int) -> None:
        """Fail where a condition holds."""
        bad, good = self.label("bad"), self.label("good")
        self.blocks[bad] = Block(bad, [], Fail(code, site))
        self.split(Branch(condition, bad, good), good)

    def stop(self, draw: Draw, code: int) -> None:
        """Fail instead of a draw; what follows can't be reached."""
        bad = self.label("bad")
        self.blocks[bad] = Block(bad, [], Fail(code, draw.site))
        self.split(Jump(bad), self.label("after"))
        self.emit(*(Const(d, 0.0 if d.type is Type.F64 else 0) for d in draw.dsts))

    def op(self, name: str, type_: Type, *args: Reg) -> Reg:
        """A scalar operation."""
        dst = self.reg(type_)
        self.emit(Op(dst, name, args))
        return dst

    def const(self, value: float | int, type_: Type) -> Reg:
        """A constant."""
        dst = self.reg(type_)
        self.emit(Const(dst, value))
        return dst


class _Draws(Splitter):
    prefix = "draw"

    def rewrite(self, item: Instruction) -> None:
        if isinstance(item, Draw):
            if FAMILIES[item.family].improper:
                self.stop(item, IMPROPER)
                return
            self.emit(Call(item.dsts, FAMILIES[item.family].sample, item.args))
        else:
            self.emit(item)


def lower_draws(function: Function) -> None:
    """Draw from the distributions themselves."""
    _Draws(function).run()


def _nothing(function: Function) -> set[Reg]:
    """Registers that are never anything but the logarithm of 0."""
    items = [item for block in function.blocks.values() for item in block.instructions]
    times = Counter(dst for item in items for dst in defined(item))
    values: dict[Reg, float] = {}
    for item in items:
        value = _value(item, values)
        values.update((dst, value) for dst in defined(item) if times[dst] == 1)
    return {reg for reg, value in values.items() if value == -math.inf}


def _value(item: Instruction, values: dict[Reg, float]) -> float:
    """What an instruction computes of known values; NaN if that is not known here."""
    match item:
        case Const(_, value):
            return float(value)
        case Op(_, "negf", (source,)):
            return -values.get(source, math.nan)
        case Op(_, "divf", (source, other)) if values.get(other) == 0.0:
            sign = math.copysign(1.0, values[other])
            return values.get(source, math.nan) * sign * math.inf
        case _:
            return math.nan


class _Factors(Splitter):
    prefix = "weigh"

    def __init__(self, function: Function, suspend: bool, ends: bool) -> None:
        super().__init__(function)
        self.suspend = suspend
        self.nothing = _nothing(function) if ends else set[Reg]()

    def rewrite(self, item: Instruction) -> None:
        if not isinstance(item, Factor):
            self.emit(item)
            return
        if item.weight in self.nothing:
            self.emit(Set("weight", item.weight))
            self.split(Fail(REJECTED, item.site), self.label("after"))
            return
        old = self.reg(Type.F64)
        self.emit(Get(old, "weight"))
        new = self.op("addf", Type.F64, old, item.weight)
        self.emit(Set("weight", new))
        self.reject(new, self.const(math.inf, Type.F64), item.site)
        if self.suspend:
            self.emit(item)

    def reject(self, weight: Reg, infinite: Reg, site: int) -> None:
        """End a run whose weight is 0, fail if it is none; one comparison finds both."""
        unusual, usual = self.label("unusual"), self.label("usual")
        size = self.op("absf", Type.F64, weight)
        self.split(Branch(self.op("ltf", Type.BOOL, size, infinite), usual, unusual), unusual)
        lost = self.const(-math.inf, Type.F64)
        rejected = self.op("eqf", Type.BOOL, weight, lost)
        self.fail_if(rejected, REJECTED, site)
        self.split(Fail(NAN_WEIGHT, site), usual)


def weighs(program: Program) -> bool:
    """Whether a program has weights that may be other than 0."""
    return any(
        isinstance(item, Factor) and item.weight not in nothing
        for function in program.functions.values()
        for nothing in [_nothing(function)]
        for block in function.blocks.values()
        for item in block.instructions
    )


def lower_factors(function: Function, suspend: bool, ends: bool = True) -> None:
    """Add to the weight and end a run that has none left; perhaps stay a point of suspension.

    With `ends`, a factor of 0 only ends the run: there is nothing to suspend.
    """
    _Factors(function, suspend, ends).run()
