"""Simplification of tile modules: same meaning, less text.

One walk in the order of the text folds ops (`fold.py`), gives equal pure ops one name, moves
scalar loop-invariant ops out of loops and resolves control flow whose course is known; a walk
backwards drops what nothing uses. Repeated until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from xdsl.dialects import scf
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsolatedFromAbove, IsTerminator

from tawa.base.spans import LOC
from tawa.base.types import shape_of
from tawa.ir.contracts import Contract
from tawa.ir.effects import is_pure, may_drop
from tawa.ir.properties import ONE_PROGRAM, TIDY
from tawa.tile.dialect import ops
from tawa.tile.passes.fold import constant_of, fold

Known: TypeAlias = dict[Any, Operation]

MAX_ROUNDS = 8
"""At which two rewrites that undo each other are left; one round, two or three do for every kernel
of the examples and the suite, of which the last changes nothing (counted)."""


@dataclass(frozen=True)
class Simplify:
    """Fold constants, drop duplicates and dead ops, hoist scalars out of loops."""

    name: ClassVar[str] = "simplify"
    contract: ClassVar[Contract] = Contract(requires=(ONE_PROGRAM,), establishes=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Simplify in place."""
        simplify(module)


def simplify(module: ModuleOp) -> None:
    """Simplify a tile module in place."""
    for _ in range(MAX_ROUNDS):
        state = _Round()
        for region in module.regions:
            for block in region.blocks:
                state.forward(block, {})
        for region in module.regions:
            for block in region.blocks:
                state.sweep(block)
        if not state.changed:
            return


def _key(op: Operation) -> Any:
    """What makes two pure ops equal: everything but the span and names."""
    properties = tuple(sorted(op.properties.items(), key=lambda item: item[0]))
    results = tuple(r.type for r in op.results)
    return op.name, op.operands, properties, results


class _Round:
    """One round of simplification."""

    def __init__(self) -> None:
        self.changed = False

    def forward(self, block: Block, known: Known) -> None:
        """Fold and unify the ops of a block; `known` holds the pure ops that dominate it."""
        op = block.first_op
        while op is not None:
            following = op.next_op
            before = op.prev_op
            if self._visit(op, known):
                # New ops may stand where `op` stood: visit them too.
                op = before.next_op if before is not None else block.first_op
                self.changed = True
            else:
                op = following

    def _visit(self, op: Operation, known: Known) -> bool:
        """Simplify one op; true if the block changed at its place."""
        replacement = fold(op)
        if replacement is not None:
            _replace(op, [replacement])
            return True
        if op.regions:
            return self._visit_structured(op, known)
        if not is_pure(op) or not op.results:
            return False
        key = _key(op)
        twin = known.get(key)
        if twin is not None:
            _replace(op, list(twin.results))
            return True
        known[key] = op
        return False

    def _visit_structured(self, op: Operation, known: Known) -> bool:
        resolve = _RESOLVERS.get(type(op))
        if resolve is not None and resolve(op):
            return True
        for region in op.regions:
            for block in region.blocks:
                isolated = op.has_trait(IsolatedFromAbove)
                self.forward(block, {} if isolated else dict(known))
        if isinstance(op, scf.ForOp):
            self.changed |= _hoist(op)
        return False

    def sweep(self, block: Block) -> None:
        """Drop ops without effect whose results nobody uses, last first."""
        op = block.last_op
        while op is not None:
            before = op.prev_op
            for region in op.regions:
                for inner in region.blocks:
                    self.sweep(inner)
            if _is_dead(op):
                op.detach()
                op.erase()
                self.changed = True
            op = before


def _is_dead(op: Operation) -> bool:
    used = any(r.first_use is not None for r in op.results)
    return not used and not op.has_trait(IsTerminator) and may_drop(op)


def _replace(op: Operation, values: list[SSAValue]) -> None:
    """Use `values` in place of an op's results and drop the op; names are kept."""
    for result, value in zip(op.results, values, strict=True):
        if value.name_hint is None and not isinstance(value.owner, ConstantOp):
            value.name_hint = result.name_hint
        result.replace_all_uses_with(value)
    op.detach()
    op.erase()


# --- control flow -------------------------------------------------------------------------------


def _inline(op: Operation, block: Block, arguments: list[SSAValue]) -> None:
    """Put a block's ops in place of a structured op, which yields the block's results."""
    for argument, value in zip(block.args, arguments, strict=True):
        argument.replace_all_uses_with(value)
    parent = op.parent
    terminator = block.last_op
    assert parent is not None
    assert isinstance(terminator, scf.YieldOp)
    yielded = list(terminator.operands)
    terminator.detach()
    terminator.erase()
    for inner in list(block.ops):
        inner.detach()
        parent.insert_op_before(inner, op)
    _replace(op, yielded)


def _resolve_if(op: Operation) -> bool:
    assert isinstance(op, scf.IfOp)
    condition = constant_of(op.cond)
    if condition is None:
        return False
    region = op.true_region if condition else op.false_region
    if region.blocks:
        _inline(op, region.block, [])
    else:
        _replace(op, [])
    return True


def _resolve_for(op: Operation) -> bool:
    """A loop of no or one iteration is resolved; variables that it doesn't change leave it."""
    assert isinstance(op, scf.ForOp)
    bounds = [constant_of(v) for v in (op.lb, op.ub, op.step)]
    known = [int(b) for b in bounds if b is not None]
    if len(known) == 3 and not any(k < 0 for k in known) and known[2] > 0:
        trips = -(-max(0, known[1] - known[0]) // known[2])
        if trips == 0:
            _replace(op, list(op.iter_args))
            return True
        if trips == 1:
            _inline(op, op.body.block, [op.lb, *op.iter_args])
            return True
    return _drop_unchanged(op)


def _drop_unchanged(op: scf.ForOp) -> bool:
    """Remove loop-carried variables that the body passes on as they are, or that nobody reads."""
    block = op.body.block
    terminator = block.last_op
    assert isinstance(terminator, scf.YieldOp)
    keep: list[int] = []
    for index, start in enumerate(op.iter_args):
        argument, yielded, result = (
            block.args[index + 1], terminator.operands[index], op.results[index],
        )  # fmt: skip
        unused = argument.first_use is None and result.first_use is None
        circular = result.first_use is None and _only_feeds_itself(argument, terminator, index)
        if yielded is argument or yielded is start:
            argument.replace_all_uses_with(start)
            result.replace_all_uses_with(start)
        elif not unused and not circular:
            keep.append(index)
    if len(keep) == len(op.iter_args):
        return False
    _rebuild(op, keep, terminator)
    return True


def _only_feeds_itself(argument: SSAValue, terminator: Operation, index: int) -> bool:
    """Whether a loop variable is used by nothing but the pure op that computes its next value.

    An op of several results, a loop say, may compute another variable's next value of it.
    """
    owner = terminator.operands[index].owner
    if not isinstance(owner, Operation) or not is_pure(owner):
        return False
    return all(use.operation is owner for use in argument.uses) and all(
        use.operation is terminator and use.index == index
        for result in owner.results
        for use in result.uses
    )


def _rebuild(op: scf.ForOp, keep: list[int], terminator: Operation) -> None:
    """Replace a loop by one that carries only the variables `keep`."""
    block, parent = op.body.block, op.parent
    assert parent is not None
    kept_starts = [op.iter_args[i] for i in keep]
    fresh = Block(arg_types=[block.args[0].type, *(v.type for v in kept_starts)])
    for new, old in zip(
        fresh.args, [block.args[0], *(block.args[i + 1] for i in keep)], strict=True
    ):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    dropped = [a for i, a in enumerate(block.args[1:]) if i not in keep]
    starts = [v for i, v in enumerate(op.iter_args) if i not in keep]
    location = terminator.attributes.get(LOC)
    yielded = [terminator.operands[i] for i in keep]  # which may be arguments, now the new ones
    terminator.detach()
    terminator.erase()
    for argument, start in zip(dropped, starts, strict=True):
        argument.replace_all_uses_with(start)
    for inner in list(block.ops):
        inner.detach()
        fresh.add_op(inner)
    new_yield = scf.YieldOp(*yielded)
    if location is not None:
        new_yield.attributes[LOC] = location
    fresh.add_op(new_yield)
    loop = scf.ForOp(op.lb, op.ub, op.step, kept_starts, fresh)
    loop.attributes |= op.attributes
    parent.insert_op_before(loop, op)
    results = iter(loop.results)
    _replace(op, [next(results) if i in keep else op.iter_args[i] for i in range(len(op.results))])


_RESOLVERS: dict[type[Operation], Callable[[Operation], bool]] = {
    scf.IfOp: _resolve_if,
    scf.ForOp: _resolve_for,
}


def _hoist(loop: scf.ForOp) -> bool:
    """Move pure scalar ops that depend on nothing in the loop before it.

    Tensors stay: outside they would only hold registers for longer.
    """
    moved = False
    parent = loop.parent
    assert parent is not None
    for op in list(loop.body.block.ops):
        scalar = all(not shape_of(r.type) for r in op.results)
        if not op.results or op.regions or not scalar or not is_pure(op):
            continue
        if isinstance(op, ops.Reduce):
            continue
        if any(_defined_inside(operand, loop) for operand in op.operands):
            continue
        op.detach()
        parent.insert_op_before(op, loop)
        moved = True
    return moved


def _defined_inside(value: SSAValue, loop: scf.ForOp) -> bool:
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent
    while block is not None:
        if block is loop.body.block:
            return True
        parent = block.parent_op()
        block = parent.parent if parent is not None else None
    return False
