"""tidy: drop what is computed twice or for nothing.

It finds what xDSL's passes `cse` and `dce` find. Those ask for the effects of an op several times,
and hash all that its attributes consist of, the place in the source among them; here each attribute
gets a number once, and what nothing uses is dropped in one walk backwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.traits import EffectInstance, IsolatedFromAbove, MemoryEffectKind

from tawa.ir.contracts import Contract
from tawa.ir.effects import FRAME, effects_of, is_terminator, leaves_nothing
from tawa.ir.properties import TIDY

Known: TypeAlias = dict[Any, Operation]
"""Ops that may stand for others, by all that makes them equal."""


class Tidy:
    """Drop what is computed twice or for nothing."""

    name: ClassVar[str] = "tidy"
    contract: ClassVar[Contract] = Contract(establishes=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Common subexpressions, then dead ops."""
        twins = _Twins()
        for region in module.regions:
            for block in region.blocks:
                twins.block(block, {})
        for op in twins.replaced:
            op.detach()
            op.erase()
        for region in module.regions:
            for block in region.blocks:
                _sweep(block)


class _Twins:
    """Lets equal ops be one: the first, where it dominates the other."""

    def __init__(self) -> None:
        self.replaced: list[Operation] = []
        """Ops whose results nothing uses any more."""
        self._numbers: dict[Attribute, int] = {}
        self._seen: dict[int, tuple[int, Attribute]] = {}
        """Numbers by identity, with what they keep alive."""

    def block(self, block: Block, known: Known) -> None:
        """Look at the ops of a block; `known` are those that dominate it."""
        for op in block.ops:
            if op.regions:
                isolated = op.has_trait(IsolatedFromAbove)
                for region in op.regions:
                    inner: Known = {} if isolated else dict(known)
                    if len(region.blocks) == 1:
                        self.block(region.block, inner)
            self._op(op, known)

    def _op(self, op: Operation, known: Known) -> None:
        if isinstance(op, FRAME) or is_terminator(op):
            return
        effects = effects_of(op)
        if effects is None or any(e.kind is not MemoryEffectKind.READ for e in effects):
            return
        if not _used(op) or any(len(region.blocks) > 1 for region in op.regions):
            return  # nobody uses it: dropped later
        key = self._key(op)
        twin = known.get(key)
        if twin is None or (effects and _may_differ(twin, op)):
            known[key] = op
            return
        for old, new in zip(op.results, twin.results, strict=True):
            old.replace_all_uses_with(new)
        self.replaced.append(op)

    def _key(self, op: Operation) -> Any:
        number = self._number
        return (
            type(op),
            tuple(op.operands),
            tuple(number(result.type) for result in op.results),
            frozenset((name, number(value)) for name, value in op.properties.items()),
            frozenset((name, number(value)) for name, value in op.attributes.items()),
            _Inside(op.regions) if op.regions else None,
        )

    def _number(self, attribute: Attribute) -> int:
        """The same for equal attributes."""
        seen = self._seen.get(id(attribute))
        if seen is None:
            number = self._numbers.setdefault(attribute, len(self._numbers))
            seen = self._seen[id(attribute)] = number, attribute
        return seen[0]


@dataclass(frozen=True)
class _Inside:
    """The regions of an op, which are equal where their ops are."""

    regions: tuple[Region, ...]

    def __hash__(self) -> int:
        return len(self.regions)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Inside):
            return False
        pairs = zip(self.regions, other.regions, strict=True)
        return all(mine.is_structurally_equivalent(its) for mine, its in pairs)


def _may_differ(first: Operation, last: Operation) -> bool:
    """Whether what an op reads may be written before an equal one reads it."""
    if first.parent is not last.parent:
        return True
    op: Operation | None = first
    while op is not None and op is not last:
        effects = None if isinstance(op, FRAME) else effects_of(op)
        if effects is None or any(e.kind is MemoryEffectKind.WRITE for e in effects):
            return True
        op = op.next_op
    return False


def _sweep(block: Block) -> None:
    """Drop ops that nobody misses and whose results nobody uses, last first."""
    op = block.last_op
    while op is not None:
        before = op.prev_op
        if not _used(op) and _missed_by_none(op):
            op.detach()
            op.erase()
        else:
            for region in op.regions:
                for inner in region.blocks:
                    _sweep(inner)
        op = before


def _used(op: Operation) -> bool:
    return any(result.first_use is not None for result in op.results)


def _missed_by_none(op: Operation) -> bool:
    if isinstance(op, FRAME) or is_terminator(op):
        return False
    effects: frozenset[EffectInstance] | None = effects_of(op)
    return effects is not None and all(leaves_nothing(effect, op) for effect in effects)
