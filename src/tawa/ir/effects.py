"""What ops read and write, and what passes may therefore do with them.

Every op of every level declares its effects as a trait, each on a resource and, where there is one,
on the operand through which it reaches it:

    traits = traits_def(Effects(reads(GLOBAL, "ptr")))

`Pure` declares that there are none. A pass asks the questions below and never for names of ops, so
an op that it has not heard of is treated by its effects. An op that declares nothing may do
anything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import (
    EffectInstance,
    IsTerminator,
    MemoryEffect,
    MemoryEffectKind,
    OpTrait,
    Pure,
    RecursiveMemoryEffect,
    Resource,
    get_effects,
)

from tawa.ir.walking import every, has

READ, WRITE = MemoryEffectKind.READ, MemoryEffectKind.WRITE
ALLOC, FREE = MemoryEffectKind.ALLOC, MemoryEffectKind.FREE

Alias: TypeAlias = Callable[[SSAValue | None, SSAValue | None], bool]
"""Whether memory reached through one value may be memory reached through another; None is any."""


@dataclass(frozen=True)
class Named(Resource):
    """A resource that is known by its name."""

    what: str

    def name(self) -> str:
        """The name."""
        return self.what


GLOBAL = Named("global memory")
"""Reached through a pointer or a descriptor."""
SHARED = Named("shared memory")
"""Reached through a tile's place in it."""
SLOT = Named("slot")
"""The contents of a ring's slot, or of a staging buffer, reached through a view; returning a slot
frees it."""
TAKEN = Named("slots taken")
"""How many slots of a ring a role has taken."""
FILLED = Named("slots filled")
"""How many slots of a ring a role has filled."""
REGISTERS = Named("registers")
"""Registers that stand for a value of their own, though another may be equal."""
BARRIER = Named("barrier")
"""Arrivals at a barrier that others wait for."""
PHASE = Named("phase")
"""Which phase of a barrier a thread has waited for."""
MEETING = Named("meeting")
"""Threads that wait for each other: who comes writes it, who waits for the others reads it."""
VOTE = Named("vote")
"""Lanes of a warp that answer a question: all of them have to come, and nothing else is ordered."""
COPYING = Named("copies")
"""Asynchronous copies that a thread has under way."""
PRODUCTS = Named("products")
"""Matrix instructions that a warp group has in flight."""
OPERANDS = Named("operands")
"""What matrix instructions see of registers that threads wrote: a fence writes it, they read it."""
PROXY = Named("proxy")
"""What asynchronous copies and matrix instructions see of what threads wrote to shared memory."""
GLOBAL_PROXY = Named("proxy of global memory")
"""What asynchronous copies see of what threads wrote to global memory."""
OUTPUT = Named("output")
"""What the host sees: text, a failed assertion, a timeline."""
ORDER = Named("order")
"""The order in which others see accesses: fences, volatile accesses, assembly with effects.

Who writes it orders accesses; who reads it acquires, so that what others have released may lie
anywhere in memory afterwards.
"""
HINT = Named("hint")
"""What is said to the compiler or a cache; it changes no result."""


@dataclass(frozen=True)
class Effect:
    """One declared effect: on a resource, through an operand or result of that name."""

    kind: MemoryEffectKind
    resource: Resource
    through: str | None = None
    condition: Callable[[Any], bool] | None = None

    def when(self, condition: Callable[[Any], bool]) -> Effect:
        """The effect, for ops of which the condition holds."""
        return Effect(self.kind, self.resource, self.through, condition)

    def if_set(self, name: str) -> Effect:
        """The effect, for ops that have an optional property."""
        return self.when(lambda op: getattr(op, name) is not None)

    def on(self, resource: Resource, kind: MemoryEffectKind | None) -> bool:
        """Whether it is an effect (of a kind) on a resource."""
        return self.resource == resource and kind in (None, self.kind)

    def instances(self, op: Operation) -> Iterator[EffectInstance]:
        """The effect of one op; through several operands, one each."""
        for value in self.values(op):
            yield EffectInstance(self.kind, value, self.resource)

    def values(self, op: Any) -> Sequence[SSAValue | None]:
        """The values through which one op has the effect, None for any; none if it has it not."""
        if self.condition is not None and not self.condition(op):
            return ()
        found = getattr(op, self.through) if self.through else None
        return found if isinstance(found, Sequence) else (found,)  # pyright: ignore[reportUnknownVariableType]


def reads(resource: Resource, through: str | None = None) -> Effect:
    """The op reads it."""
    return Effect(READ, resource, through)


def writes(resource: Resource, through: str | None = None) -> Effect:
    """The op changes it."""
    return Effect(WRITE, resource, through)


def makes(resource: Resource, through: str) -> Effect:
    """The op makes a new one, its result."""
    return Effect(ALLOC, resource, through)


def frees(resource: Resource, through: str) -> Effect:
    """The op gives it up."""
    return Effect(FREE, resource, through)


@dataclass(frozen=True, init=False)
class Effects(MemoryEffect):
    """Declares all effects of an op."""

    declared: tuple[Effect, ...] = field(default=())

    def __init__(self, *declared: Effect) -> None:
        object.__setattr__(self, "declared", declared)

    def get_effects(self, op: Operation) -> frozenset[EffectInstance]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The effects of one op: the trait is an object here, and not a class alone."""
        return frozenset(found for effect in self.declared for found in effect.instances(op))


@dataclass(frozen=True)
class Collective(OpTrait):
    """Threads of several warps do the op together: elements travel between them.

    So all of a team must come to it, and a single thread can't do it.
    """


class CollectiveOfRows(Collective):
    """Each warp group does the part of its own rows, unless an operand says otherwise."""


FRAME = (func.FuncOp, func.ReturnOp, ModuleOp)
"""What holds and ends a program; xDSL declares nothing of them."""


@cache
def _declared(kind: type[Operation]) -> tuple[Effect, ...] | None:
    """All effects that ops of a class have; None if other ops or nothing say which."""
    traits = kind.get_traits_of_type(MemoryEffect)
    if not traits or not all(isinstance(trait, Pure | Effects) for trait in traits):
        return None
    return tuple(e for trait in traits if isinstance(trait, Effects) for e in trait.declared)


@cache
def _has_those_inside(kind: type[Operation]) -> bool:
    """Whether ops of a class have the effects of the ops in their regions, and no others."""
    if issubclass(kind, FRAME):
        return True
    traits = kind.get_traits_of_type(MemoryEffect)
    return bool(traits) and all(isinstance(trait, RecursiveMemoryEffect) for trait in traits)


NOTHING: frozenset[EffectInstance] = frozenset()


def effects_of(op: Operation) -> frozenset[EffectInstance] | None:
    """The effects of an op and of those in its regions; None if they are not known."""
    declared = _declared(type(op))
    if declared is not None:
        return frozenset(f for e in declared for f in e.instances(op)) if declared else NOTHING
    if not _has_those_inside(type(op)):
        found = get_effects(op)
        return None if found is None else frozenset(found)
    all_inside: set[EffectInstance] = set()
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                found = effects_of(inner)
                if found is None:
                    return None
                all_inside |= found
    return frozenset(all_inside)


def is_pure(op: Operation) -> bool:
    """Whether an op only computes its results from its operands: it may be done more often."""
    declared = _declared(type(op))
    if declared is None:
        return effects_of(op) == NOTHING
    return not any(effect.values(op) for effect in declared)


def is_terminator(op: Operation) -> bool:
    """Whether an op ends its block."""
    return op.has_trait(IsTerminator)


def only_reads(op: Operation) -> bool:
    """Whether an op changes nothing: it may be done again, or left out if its results are unused.

    Whether it may move is another question: what it reads may be written.
    """
    found = effects_of(op)
    return found is not None and all(effect.kind is READ for effect in found)


def only_on(op: Operation, resources: Collection[Resource]) -> bool:
    """Whether all effects of an op are known, and on these resources."""
    declared = _declared(type(op))
    if declared is not None:
        return all(e.resource in resources or not e.values(op) for e in declared)
    found = effects_of(op)
    return found is not None and all(effect.resource in resources for effect in found)


def may_drop(op: Operation) -> bool:
    """Whether nobody misses an op whose results are not used.

    Nor does anybody miss what it makes for itself. A hint is missed, and so is a loop that may wait
    for others.
    """
    if isinstance(op, FRAME):
        return False  # a kernel that does nothing is one all the same
    found = effects_of(op)
    ends = not has(op, scf.WhileOp)
    return ends and found is not None and all(leaves_nothing(effect, op) for effect in found)


def leaves_nothing(effect: EffectInstance, op: Operation) -> bool:
    """Whether an effect of an op is gone with its results."""
    made = isinstance(effect.value, SSAValue) and op.is_ancestor(effect.value.owner)
    return effect.kind is READ or (effect.kind is ALLOC and made)


def has_effect(op: Operation) -> bool:
    """Whether an op, apart from its place in loops and branches, is there for what it changes."""
    return not op.regions and not isinstance(op, FRAME) and not may_drop(op)


def is_collective(op: Operation) -> bool:
    """Whether warps have to do the op, or one of those in it, together."""
    return any(inner.has_trait(Collective) for inner in every(op))


def touches(op: Operation, resource: Resource, kind: MemoryEffectKind | None = None) -> bool:
    """Whether an op may have an effect (of a kind) on a resource."""
    declared = _declared(type(op))
    if declared is not None:
        return any(e.on(resource, kind) and e.values(op) for e in declared)
    return any(True for _ in through(op, resource, kind))


def acquires(op: Operation) -> bool:
    """Whether what comes after an op may read what others wrote before they released it."""
    return touches(op, ORDER, READ)


def through(
    op: Operation, resource: Resource, kind: MemoryEffectKind | None = None
) -> Iterator[SSAValue | None]:
    """The values through which an op may have an effect (of a kind) on a resource; None is any."""
    declared = _declared(type(op))
    if declared is not None:
        for effect in declared:
            if effect.on(resource, kind):
                yield from effect.values(op)
        return
    found = effects_of(op)
    if found is None:
        yield None
        return
    for effect in found:
        if effect.resource == resource and kind in (None, effect.kind):
            yield effect.value if isinstance(effect.value, SSAValue) else None


def in_order(first: Operation, second: Operation, alias: Alias) -> bool:
    """Whether two ops have to keep their order, for what they do to the same resource.

    What is given up has to be given up after it was read, which the tokens of slots say.
    """
    one, other = effects_of(first), effects_of(second)
    if one is None or other is None:
        return not (one == frozenset() or other == frozenset())
    return any(_meet(a, b, alias) for a in one for b in other)


_MEMORY = (GLOBAL, SHARED, SLOT)


def _meet(a: EffectInstance, b: EffectInstance, alias: Alias) -> bool:
    for effect, other in ((a, b), (b, a)):
        if effect.resource in (ORDER, MEETING) and other.resource in (*_MEMORY, ORDER, OUTPUT):
            return True
    if a.resource != b.resource or WRITE not in (a.kind, b.kind):
        return False
    first, second = (v if isinstance(v, SSAValue) else None for v in (a.value, b.value))
    if a.resource in _MEMORY:
        return alias(first, second) if a.resource == GLOBAL else True
    return first is None or second is None or first is second
