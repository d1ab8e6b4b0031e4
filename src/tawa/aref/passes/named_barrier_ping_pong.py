"""Named-barrier ping-pong within a tile: the warp groups of a team take turns to issue products.

A group holds the iteration from a loop's first product to the last of those that follow it with
nothing costly in between. So the tensor core works for one group while the others run ordinary
code, from the first iteration of the loop on, and not only once the groups have drifted apart by
themselves. All groups of a team run the same iterations, so each passes the turn as often as it
waits for it; one that leaves a turn out (`own_turns`) still waits for it and passes it on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, Region

from tawa.aref.dialect.ops import (
    DotIssue,
    DotWait,
    GroupTurn,
    WarpGroup,
)
from tawa.aref.passes.last_iteration_peeling import LEFT_OUT
from tawa.base.options import Options, RequestUnmet
from tawa.base.spans import span_of
from tawa.base.types import shape_of
from tawa.ir.contracts import Contract
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.loops import ProductsInTurns
from tawa.ir.effects import GLOBAL, MEETING, WRITE, is_collective, is_pure, touches
from tawa.ir.loops import terminator
from tawa.ir.properties import ASYNCHRONOUS, OWN_ENDS, TIDY
from tawa.ir.walking import all_of, has
from tawa.tile.dialect.ops import spreads


class NothingToAlternate(RequestUnmet):
    """Consumers can't take turns on the products of this kernel."""

    explanation = (
        "`alternate=True` has the consumers that share a tile take turns to issue the products of "
        "a loop. It needs two to four consumers that are one team (no `ping_pong`), and a loop "
        "with products."
    )
    example = """
import tawa
import tawa.language as tl


@tawa.jit
def square(a, c, M: tl.constexpr):
    x = a.load([0, 0])
    c.store([0, 0], tl.dot(x, x.T).to(tl.float16))


square.compile("desc<f16,128x128>", "desc<f16,128x128>", 128, alternate=True)
"""


@dataclass(frozen=True)
class NamedBarrierPingPong:
    """Have the groups of a team take turns, where the option `alternate` asks for it."""

    options: Options
    decided: Decisions
    name: ClassVar[str] = "named-barrier-ping-pong"
    contract: ClassVar[Contract] = Contract(requires=(ASYNCHRONOUS, OWN_ENDS), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Rewrite the loops with products of every team of several groups."""
        if not self.options.alternate:
            return
        found = False
        for group in all_of(module, WarpGroup):
            if group.computes and group.warps.value.data > 4 and group.teams.value.data == 1:
                loops = all_of(group, scf.ForOp)
                rewritten = [loop for loop in loops if _take_turns(loop)]
                if _pass_turns_left_out(loops) and _has_short_form(group):
                    raise NothingToAlternate(
                        "consumers that leave turns out can't take turns in this loop",
                        span=span_of(rewritten[0]) if rewritten else None,
                        expected="a pipeline of at most two stages, the same for all consumers",
                        found="a deeper one, which those with few turns do not enter",
                        hint="leave `alternate` unset",
                    )
                if rewritten:
                    found = True
                    _start(group)
                    self.decided.add(ProductsInTurns(tuple(map(span_of, rewritten))))
        if not found:
            raise NothingToAlternate(
                "there are no consumers that could take turns",
                expected="a loop with products in two to four consumers that share a tile",
                found="no such loop",
                hint="leave `alternate` unset",
            )


def _take_turns(loop: scf.ForOp) -> bool:
    """Let the loop's first products be issued in turn; whether it has any."""
    body = loop.body.block
    first = next((op for op in body.ops if isinstance(op, DotIssue)), None)
    if first is None:
        return False
    last: Operation = first
    op = first.next_op
    while op is not None and not _is_costly(op):
        if isinstance(op, DotIssue):
            last = op
        op = op.next_op
    body.insert_op_before(GroupTurn("wait"), first)
    body.insert_op_after(GroupTurn("pass"), last)
    return True


def _has_short_form(group: WarpGroup) -> bool:
    """Whether there is a loop for few iterations and another one for many."""

    def takes_turns(region: Region) -> bool:
        return has(region, GroupTurn)

    branches = all_of(group, scf.IfOp)
    return any(all(map(takes_turns, branch.regions)) for branch in branches)


def _pass_turns_left_out(loops: Sequence[scf.ForOp]) -> bool:
    """Have groups that leave a turn out pass it on as soon as it is theirs; whether any do."""
    marked = [loop for loop in loops if LEFT_OUT in loop.attributes]
    for home in dict.fromkeys(loop.parent for loop in marked):
        first = next(loop for loop in marked if loop.parent is home).body.block
        end = terminator(first)
        first.insert_ops_before([GroupTurn("wait"), GroupTurn("pass")], end)
    return bool(marked)


def _is_costly(op: Operation) -> bool:
    """Whether a group passes the turn on before an op, which waits, writes or computes tiles.

    Where all groups meet, those that are behind could not come before they have had their turn.
    """
    meets = touches(op, MEETING) or is_collective(op)
    if op.regions or isinstance(op, DotWait) or meets or touches(op, GLOBAL, WRITE):
        return True
    on_tiles = any(shape_of(v.type) for v in op.operands)
    return on_tiles and is_pure(op) and not spreads(op)


def _start(group: WarpGroup) -> None:
    block = group.body.block
    first = block.first_op
    assert first is not None
    block.insert_op_before(GroupTurn("start"), first)
