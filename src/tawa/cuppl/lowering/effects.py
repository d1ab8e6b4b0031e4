"""What draws and factors do when nothing is traced: draw from the prior, add to the weight."""

from __future__ import annotations

import math

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
    Reg,
    Set,
    Terminator,
    Type,
)
from tawa.cuppl.elaboration.builtins import FAMILIES
from tawa.cuppl.typing.failures import IMPROPER, NAN_WEIGHT, REJECTED

__all__ = ["lower_draws", "lower_factors"]


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


class _Factors(Splitter):
    prefix = "weigh"

    def __init__(self, function: Function, suspend: bool) -> None:
        super().__init__(function)
        self.suspend = suspend

    def rewrite(self, item: Instruction) -> None:
        if not isinstance(item, Factor):
            self.emit(item)
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


def lower_factors(function: Function, suspend: bool) -> None:
    """Add to the weight and end a run that has none left; perhaps stay a point of suspension."""
    _Factors(function, suspend).run()
