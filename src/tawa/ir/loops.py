"""Structured control flow: values carried through loops and branches, and dead-code removal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.hints import isa

from tawa.ir.elementwise import scalar_constant
from tawa.ir.walking import every


def terminator(block: Block) -> Operation:
    """The last op of a block that has one."""
    assert block.last_op is not None
    return block.last_op


def users_in(value: SSAValue, home: Block) -> list[Operation]:
    """The ops of a block that use a value, themselves or by an op nested in them."""
    found: list[Operation] = []
    for use in value.uses:
        op: Operation | None = use.operation
        while op is not None and op.parent is not home:
            op = op.parent_op()
        if op is not None:
            found.append(op)
    return found


def integer_constant(value: int, type_: Attribute) -> arith.ConstantOp:
    """A constant of an integer type, such as a loop counter's."""
    assert isa(type_, IntegerType)
    return scalar_constant(IntegerAttr(value, type_))


def _replace(old: Operation, new: Operation) -> None:
    """Put `new` in the place of `old`, whose results are the first of `new`'s."""
    block = old.parent
    assert block is not None
    new.attributes |= old.attributes
    block.insert_op_before(new, old)
    for before, after in zip(old.results, new.results, strict=False):
        after.name_hint = before.name_hint
        before.replace_all_uses_with(after)
    old.detach()
    old.erase()


def extend_yield(block: Block, values: Sequence[SSAValue]) -> None:
    """Let the block's `scf.yield` pass on more values."""
    old = terminator(block)
    new = scf.YieldOp(*old.operands, *values)
    block.insert_op_before(new, old)
    old.detach()
    old.erase()


def carry(
    loop: scf.ForOp, inits: Sequence[SSAValue]
) -> tuple[scf.ForOp, list[BlockArgument], list[OpResult]]:
    """Carry more values through a loop; the caller extends its yield by the new values.

    Returns the loop that replaces `loop`, its new block arguments and its new results.
    """
    region = loop.detach_region(loop.body)
    block = region.block
    arguments = [block.insert_arg(v.type, len(block.args)) for v in inits]
    for argument, init in zip(arguments, inits, strict=True):
        argument.name_hint = init.name_hint
    count = len(loop.results)
    new = scf.ForOp(loop.lb, loop.ub, loop.step, [*loop.iter_args, *inits], region)
    _replace(loop, new)
    return new, arguments, list(new.results[count:])


def carry_if(branch: scf.IfOp, types: Sequence[Attribute]) -> tuple[scf.IfOp, list[OpResult]]:
    """Give a branch more results; the caller extends the yields of both its regions."""
    regions = [branch.detach_region(r) for r in list(branch.regions)]
    if not regions[1].blocks:
        regions[1].add_block(Block([scf.YieldOp()]))
    count = len(branch.results)
    old = [r.type for r in branch.results]
    new = scf.IfOp(branch.cond, [*old, *types], regions[0], regions[1])
    _replace(branch, new)
    return new, list(new.results[count:])


def carry_while(
    loop: scf.WhileOp, inits: Sequence[SSAValue]
) -> tuple[scf.WhileOp, list[BlockArgument], list[BlockArgument], list[OpResult]]:
    """Carry more values through a `while`; the caller extends its condition and its yield by them.

    Returns the new loop, its new arguments before and after the condition, and its new results.
    """
    before, after = (loop.detach_region(r) for r in list(loop.regions))
    types = [v.type for v in inits]
    first = [before.block.insert_arg(t, len(before.block.args)) for t in types]
    second = [after.block.insert_arg(t, len(after.block.args)) for t in types]
    count = len(loop.results)
    old = [r.type for r in loop.results]
    new = scf.WhileOp([*loop.arguments, *inits], [*old, *types], before, after)
    _replace(loop, new)
    return new, first, second, list(new.results[count:])


def extend_condition(block: Block, values: Sequence[SSAValue]) -> None:
    """Let the block's `scf.condition` pass on more values."""
    old = terminator(block)
    new = scf.ConditionOp(old.operands[0], *old.operands[1:], *values)
    block.insert_op_before(new, old)
    old.detach()
    old.erase()


def passed_to(argument: BlockArgument) -> list[SSAValue]:
    """The values that a loop passes to an argument of its block, at first and later.

    A loop's counter, and an argument of another op's block, get none.
    """
    loop, index = argument.owner.parent_op(), argument.index
    if isinstance(loop, scf.ForOp) and index > 0:
        return [loop.iter_args[index - 1], terminator(loop.body.block).operands[index - 1]]
    if isinstance(loop, scf.WhileOp):
        before, after = loop.before_region.block, loop.after_region.block
        if argument.owner is after:
            return [terminator(before).operands[index + 1]]
        return [loop.arguments[index], terminator(after).operands[index]]
    return []


def passed_out(result: OpResult) -> list[SSAValue]:
    """The values of a loop's or branch's blocks that its result may be; [] for other ops."""
    op, index = result.op, result.index
    if isinstance(op, scf.ForOp):
        return [op.iter_args[index], terminator(op.body.block).operands[index]]
    if isinstance(op, scf.IfOp):
        return [terminator(r.block).operands[index] for r in op.regions if r.blocks]
    if isinstance(op, scf.WhileOp):
        return [terminator(op.before_region.block).operands[index + 1]]
    return []


class _Marks:
    """What the roots need: ops, and which values of loops and branches."""

    def __init__(self, top: Block) -> None:
        self.top = top
        self.ops: set[Operation] = set()
        self.values: set[SSAValue] = set()
        self.work: list[SSAValue] = []

    def op(self, op: Operation) -> None:
        """An op is needed, and so are the ops around it and its operands."""
        if op in self.ops:
            return
        self.ops.add(op)
        parent = op.parent_op()
        if parent is not None and op.parent is not self.top:
            self.op(parent)
        if isinstance(op, scf.ForOp):
            self.work += [op.lb, op.ub, op.step]
        elif isinstance(op, scf.IfOp):
            self.work.append(op.cond)
        elif isinstance(op, scf.WhileOp):
            self.work.append(terminator(op.before_region.block).operands[0])
        else:
            self.work += op.operands

    def value(self, value: SSAValue) -> None:
        """A value is needed: its op, or its way through a loop or branch."""
        if value in self.values:
            return
        self.values.add(value)
        if isinstance(value, BlockArgument):
            parent = value.block.parent_op()
            if isinstance(parent, scf.ForOp) and value.index > 0:
                self._carried(parent, value.index - 1)
            elif isinstance(parent, scf.WhileOp) and value.block is parent.before_region.block:
                self._turned(parent, value.index)
            elif isinstance(parent, scf.WhileOp):
                self._passed(parent, value.index)
            return
        owner = value.owner
        assert isinstance(owner, Operation)
        self.op(owner)
        assert isinstance(value, OpResult)
        if isinstance(owner, scf.ForOp):
            self._carried(owner, value.index)
        elif isinstance(owner, scf.IfOp):
            for region in owner.regions:
                self.work.append(terminator(region.block).operands[value.index])
        elif isinstance(owner, scf.WhileOp):
            self._passed(owner, value.index)

    def _carried(self, loop: scf.ForOp, index: int) -> None:
        block = loop.body.block
        self.work += [loop.iter_args[index], terminator(block).operands[index]]
        self.work += [block.args[index + 1], loop.results[index]]

    def _turned(self, loop: scf.WhileOp, index: int) -> None:
        """What an iteration of a `while` starts with: at first, and what the one before yields."""
        self.work += [loop.arguments[index], terminator(loop.after_region.block).operands[index]]

    def _passed(self, loop: scf.WhileOp, index: int) -> None:
        """What the condition of a `while` passes on, to the iteration and as a result."""
        self.work.append(terminator(loop.before_region.block).operands[index + 1])
        self.work += [loop.after_region.block.args[index], loop.results[index]]

    def run(self) -> None:
        """Follow values until nothing new is needed."""
        while self.work:
            self.value(self.work.pop())


def _marked(top: Block, is_root: Callable[[Operation], bool]) -> _Marks:
    marks = _Marks(top)
    for op in every(top):
        if is_root(op):
            marks.op(op)
    marks.run()
    return marks


def needed(
    top: Block, is_root: Callable[[Operation], bool]
) -> tuple[set[Operation], set[SSAValue]]:
    """The ops of a block (nested ones too) that the roots need, and the values that they need."""
    marks = _marked(top, is_root)
    return marks.ops, marks.values


def prune(top: Block, is_root: Callable[[Operation], bool]) -> None:
    """Erase every op of a block (nested ones too) that no root needs."""
    _sweep(top, _marked(top, is_root))


def _sweep(block: Block, marks: _Marks) -> None:
    for op in reversed(list(block.ops)):
        if isinstance(op, scf.YieldOp | scf.ConditionOp):
            continue
        if op not in marks.ops:
            _erase(op)
            continue
        if isinstance(op, scf.ForOp):
            op = _sweep_for(op, marks)
        elif isinstance(op, scf.IfOp):
            op = _sweep_if(op, marks)
        elif isinstance(op, scf.WhileOp):
            op = _sweep_while(op, marks)
        elif op.has_trait(IsolatedFromAbove):
            continue  # its region is a part of what the op means
        for region in op.regions:
            for inner in region.blocks:
                _sweep(inner, marks)


def _erase(op: Operation) -> None:
    op.detach()
    op.drop_all_references()
    op.erase(safe_erase=False)


def _keep_operands(block: Block, keep: Iterable[int]) -> None:
    old = terminator(block)
    new = scf.YieldOp(*(old.operands[i] for i in keep))
    block.insert_op_before(new, old)
    _erase(old)


def _swap(old: Operation, new: Operation, keep: Sequence[int], marks: _Marks) -> None:
    block = old.parent
    assert block is not None
    new.attributes |= old.attributes
    block.insert_op_before(new, old)
    for index, result in zip(keep, new.results, strict=True):
        result.name_hint = old.results[index].name_hint
        old.results[index].replace_all_uses_with(result)
        marks.values.add(result)
    marks.ops.add(new)
    _erase(old)


def _sweep_for(loop: scf.ForOp, marks: _Marks) -> scf.ForOp:
    block = loop.body.block
    keep = [i for i, a in enumerate(block.args[1:]) if a in marks.values]
    if len(keep) == len(loop.results):
        return loop
    inits = [loop.iter_args[i] for i in keep]
    _keep_operands(block, keep)
    for i in reversed(range(len(loop.results))):
        if i not in keep:
            block.erase_arg(block.args[i + 1], safe_erase=False)
    region = loop.detach_region(loop.body)
    new = scf.ForOp(loop.lb, loop.ub, loop.step, inits, region)
    _swap(loop, new, keep, marks)
    return new


def _sweep_if(branch: scf.IfOp, marks: _Marks) -> scf.IfOp:
    keep = [i for i, r in enumerate(branch.results) if r in marks.values]
    if len(keep) == len(branch.results):
        return branch
    for region in branch.regions:
        _keep_operands(region.block, keep)
    regions = [branch.detach_region(r) for r in list(branch.regions)]
    types = [branch.results[i].type for i in keep]
    new = scf.IfOp(branch.cond, types, regions[0], regions[1])
    _swap(branch, new, keep, marks)
    return new


def _sweep_while(loop: scf.WhileOp, marks: _Marks) -> scf.WhileOp:
    """Keep what iterations start with and what conditions pass on; each drops what it can."""
    before, after = loop.before_region.block, loop.after_region.block
    starts = [i for i, a in enumerate(before.args) if a in marks.values]
    passes = [i for i, r in enumerate(loop.results) if r in marks.values]
    if len(starts) == len(before.args) and len(passes) == len(loop.results):
        return loop
    old = terminator(before)
    assert isinstance(old, scf.ConditionOp)
    new_condition = scf.ConditionOp(old.operands[0], *(old.operands[i + 1] for i in passes))
    before.insert_op_before(new_condition, old)
    _erase(old)
    _keep_operands(after, starts)
    for block, keep in ((before, starts), (after, passes)):
        for i in reversed(range(len(block.args))):
            if i not in keep:
                block.erase_arg(block.args[i], safe_erase=False)
    inits = [loop.arguments[i] for i in starts]
    types = [loop.results[i].type for i in passes]
    regions = [loop.detach_region(r) for r in list(loop.regions)]
    new = scf.WhileOp(inits, types, regions[0], regions[1])
    _swap(loop, new, passes, marks)
    return new
