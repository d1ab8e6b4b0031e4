"""How many slots each ring has: as asked, or as many as shared memory holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.ir import BlockArgument, Operation
from xdsl.rewriter import Rewriter

from tawa.aref.ops import Consumed, Create, GetEnter, PutEnter, RefType, WarpGroup
from tawa.aref.shared_memory import slot_bytes
from tawa.base.loops import terminator
from tawa.base.options import Options
from tawa.base.remarks import Remarks
from tawa.base.target import TARGETS
from tawa.base.types import byte_size, element_of, shape_of
from tawa.tile.ops import DescStore

MOST = 8
"""Slots beyond this hide no more latency."""


def nesting(op: Operation) -> int:
    """Loops around an op."""
    count, parent = 0, op.parent_op()
    while parent is not None:
        count += isinstance(parent, scf.ForOp | scf.WhileOp)
        parent = parent.parent_op()
    return count


@dataclass(frozen=True)
class Depths:
    """Choose D for every ring: the innermost loops' rings share what memory is left."""

    options: Options
    remarks: Remarks
    reserve: int = 0
    """Bytes that the rest of the kernel turned out to need."""
    name: ClassVar[str] = "depths"

    def apply(self, module: ModuleOp) -> None:
        """Set the depth in every ring's type."""
        rings = [op for op in module.walk() if isinstance(op, Create)]
        if not rings:
            return
        depths, looped = self.chosen(module, rings)
        for ring, depth in depths.items():
            self._set(ring, depth)
        if looped:
            chosen = "asked for" if self.options.num_stages else "what shared memory holds"
            slot = sum(slot_bytes(r.ref) for r in looped)
            text = f"{depths[looped[0]]} slots of {slot} bytes in the loop ({chosen})"
            self.remarks.say(self.name, text)

    def chosen(
        self, module: ModuleOp, rings: Sequence[Create]
    ) -> tuple[dict[Create, int], list[Create]]:
        """The depth of each ring, and the rings of the innermost loops."""
        deepest = {
            r: max(nesting(u.operation) for u in r.ref.uses if isinstance(u.operation, PutEnter))
            for r in rings
        }
        inner = max(deepest.values())
        sizes = {r: slot_bytes(r.ref) for r in rings}
        teams = max(g.teams.value.data for g in module.walk() if isinstance(g, WarpGroup))
        outer_depth = {r: min(2, max(1, deepest[r] + 1)) if teams == 1 else 2 for r in rings}
        looped = [r for r in rings if deepest[r] == inner and inner > 0]
        fixed = sum(sizes[r] * outer_depth[r] for r in rings if r not in looped)
        free = TARGETS[self.options.target].shared_bytes - fixed - self._staging(module, teams)
        slot = sum(sizes[r] for r in looped)
        least = 1 + max(map(self._lag, looped), default=0)
        most = max(least, min(MOST, (free - self.reserve - 1024) // slot)) if slot else 1
        depth = self.options.num_stages or most
        return {r: depth if r in looped else outer_depth[r] for r in rings}, looped

    def _lag(self, ring: Create) -> int:
        """Slots that a loop holds while it waits for another: those of products in flight."""
        found = 0
        for use in ring.ref.uses:
            op = use.operation
            if isinstance(op, Consumed) and isinstance(op.token, BlockArgument):
                loop = op.token.owner.parent_op()
                if not isinstance(loop, scf.ForOp):
                    continue
                token, steps = op.token, 1
                following = terminator(loop.body.block).operands[token.index - 1]
                while isinstance(following, BlockArgument) and steps < len(loop.body.block.args):
                    following = terminator(loop.body.block).operands[following.index - 1]
                    steps += 1
                found = max(found, steps)
        return found

    def _staging(self, module: ModuleOp, teams: int) -> int:
        """Bytes that descriptor stores will stage their tiles in, at least."""
        total = 0
        buffers = self.options.staging or 2
        for group in [op for op in module.walk() if isinstance(op, WarpGroup)]:
            groups = max(1, group.warps.value.data // 4) * group.teams.value.data
            shapes = {
                (shape_of(op.value.type), element_of(op.value.type))
                for op in group.walk()
                if isinstance(op, DescStore)
            }
            for shape, element in shapes:
                whole = byte_size(element)
                for extent in shape:
                    whole *= extent
                by_group = buffers * groups * 64 * 128
                has_loop = any(isinstance(op, GetEnter) for op in group.walk())
                total = max(total, min(by_group, whole * teams) if has_loop else whole)
        return total + 1024

    def _set(self, ring: Create, depth: int) -> None:
        assert isinstance(ring.ref.type, RefType)
        new = RefType(IntAttr(depth), ring.ref.type.tiles)
        Rewriter.replace_value_with_new_type(ring.ref, new)
