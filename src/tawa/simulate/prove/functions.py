"""Loads and loops that give every actor the same: functions of numbers that actors share.

Each role of a kernel has copies of what it computes. What is loaded from one address, of an array
that the kernel does not write, is one number for all. A loop in which nobody communicates, such as
the search for a group by its offsets, is a function of what it is given. Loops that are alike are
one function, so that actors that run copies of it go the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.dialects import arith, func, scf
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import EffectInstance

from tawa.base.kernel_spec import KernelSpec, PointerParam, TensorMapParam
from tawa.base.types import PtrType, element_of
from tawa.hopper.dialect.global_memory import ScalarLoad
from tawa.hopper.dialect.types import TensorMapType
from tawa.ir.effects import GLOBAL, READ, effects_of
from tawa.ir.elementwise import Map
from tawa.ir.walking import every
from tawa.simulate.prove.unknowns import Number, term

if TYPE_CHECKING:
    from tawa.simulate.prove.code import Instruction

ANY = -1
"""Stands for all arguments, where it is not known which array it is."""


@dataclass
class Steady:
    """What of a kernel is the same whenever, and by whomever, it is computed."""

    kernel: func.FuncOp
    spec: KernelSpec
    written: set[int] = field(default_factory=set[int])
    """The arguments whose arrays the kernel writes; with `ANY`, it may be any."""
    names: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    """Loops' results, by what they compute."""

    def __post_init__(self) -> None:
        parameters = zip(self.kernel.args, self.spec.parameters, strict=True)
        self._arrays = dict[SSAValue, int]()
        for value, parameter in parameters:
            if isinstance(parameter, PointerParam | TensorMapParam):
                self._arrays[value] = parameter.arg
        for op in every(self.kernel):
            effects = frozenset[EffectInstance]() if op.regions else effects_of(op)
            if effects is None:
                self.written.add(ANY)
            for effect in effects or ():
                if effect.resource == GLOBAL and effect.kind is not READ:
                    self.written |= self.arrays(effect.value)

    def arrays(self, value: SSAValue | Attribute | None) -> set[int]:
        """The arguments whose arrays are reached through a value, such as pointers in registers."""
        if not isinstance(value, SSAValue):
            return {ANY}
        if isinstance(value.owner, Block):
            return {self._arrays.get(value, ANY)}
        found = {ANY} if value.owner.regions else set[int]()
        for operand in value.owner.operands:
            if isinstance(element_of(operand.type), PtrType | TensorMapType):
                found |= self.arrays(operand)
        return found or {ANY}

    def loads(self, op: Operation) -> bool:
        """Whether an op loads a number that the kernel does not write."""
        if not isinstance(op, ScalarLoad) or ANY in self.written:
            return False
        found = self.arrays(op.pointer)
        return ANY not in found and found.isdisjoint(self.written)

    def computes(self, loop: scf.ForOp) -> bool:
        """Whether a loop does nothing but compute its results."""
        kinds = Map, arith.ConstantOp, scf.YieldOp
        return all(isinstance(op, kinds) or self.loads(op) for op in loop.body.block.ops)

    def function(self, loop: scf.ForOp, place: int) -> tuple[str, list[SSAValue]]:
        """What gives a result of such a loop, by a name, and what it is given."""
        text = _Text(loop)
        body = text.carried(place)
        number = self.names.setdefault(body, len(self.names))
        return f"loop {number}", text.given

    def results(
        self, step: Instruction, number: Callable[[SSAValue], Number]
    ) -> dict[SSAValue, Number]:
        """The results of a loop that only computes them, which the step's moves name."""
        loop, found = step.op, dict[SSAValue, Number]()
        assert isinstance(loop, scf.ForOp)
        for place, result in enumerate(loop.results):
            if any(name is result for name, _ in step.moves):
                name, given = self.function(loop, place)
                found[result] = term("op", name, str(result.type), *map(number, given))
        return found


def loaded(op: Operation, number: Callable[[SSAValue], Number]) -> Number:
    """What such a load gives."""
    return term("op", "load", str(op.results[0].type), number(op.operands[0]))


class _Text:
    """What a loop computes, in terms of what it is given."""

    def __init__(self, loop: scf.ForOp) -> None:
        self.loop, self.block = loop, loop.body.block
        self.given: list[SSAValue] = []
        self.order: list[int] = []
        self.known: dict[SSAValue, Hashable] = {}

    def carried(self, place: int) -> Hashable:
        """All carried values that one depends on: how each begins, and goes on."""
        self.order.append(place)
        bounds = [self.of(v) for v in (self.loop.lb, self.loop.ub, self.loop.step)]
        last = self.block.last_op
        assert last is not None
        parts: list[Hashable] = []
        for one in self.order:  # it grows meanwhile
            parts.append((self.of(self.loop.iter_args[one]), self.of(last.operands[one])))
        return (*bounds, *parts)

    def of(self, value: SSAValue) -> Hashable:
        """A value by what makes it; those from outside by their number."""
        if value not in self.known:
            self.known[value] = self._made(value)
        return self.known[value]

    def _made(self, value: SSAValue) -> Hashable:
        owner = value.owner
        if owner is self.block:
            place = self.block.args.index(value) - 1  # pyright: ignore[reportArgumentType]
            if place < 0:
                return "index"
            if place not in self.order:
                self.order.append(place)
            return "carried", self.order.index(place)
        if isinstance(owner, Operation) and isinstance(owner, arith.ConstantOp):
            return str(owner.value)
        if isinstance(owner, Block) or owner.parent is not self.block:
            self.given.append(value)
            return "given", len(self.given) - 1
        names = sorted((name, str(attribute)) for name, attribute in owner.properties.items())
        kinds = tuple(str(result.type) for result in owner.results)
        return owner.name, tuple(names), kinds, tuple(self.of(v) for v in owner.operands)
