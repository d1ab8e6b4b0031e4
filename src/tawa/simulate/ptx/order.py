"""In which order the threads of a warp that have branched apart go on, so that they meet again.

A block that every path from another one reaches (its post-dominator) is where threads meet. So
those go on first that have not reached it: blocks are put in order with post-dominators behind all
that they post-dominate, and as they stand in the text otherwise. Compilers move blocks, so that a
meeting may stand before the branch.
"""

from __future__ import annotations

import heapq
from itertools import pairwise

from tawa.simulate.ptx.program import Kernel

ENDS = ("ret", "exit", "trap")


def ranks(kernel: Kernel) -> list[int]:
    """Of each instruction, and of the end, its place in the order: the smallest goes on first."""
    starts, following = _blocks(kernel)
    found = [0] * (len(kernel.code) + 1)
    ends, next_rank = [*starts[1:], len(found)], 0
    for block in _ordered(_meetings(following)):
        for place in range(starts[block], ends[block]):
            found[place] = next_rank
            next_rank += 1
    return found


def _blocks(kernel: Kernel) -> tuple[list[int], list[list[int]]]:
    """Where straight pieces of code begin, the last at the program's end; and what follows each."""
    code, end = kernel.code, len(kernel.code)
    targets = {
        n: kernel.target(i.operands[0], i.scope) for n, i in enumerate(code) if i.opcode[0] == "bra"
    }
    leaving = [n for n, i in enumerate(code) if i.opcode[0] in ("bra", *ENDS)]
    starts = sorted({0, end, *targets.values(), *(n + 1 for n in leaving)})
    block_at = {start: number for number, start in enumerate(starts)}
    following: list[list[int]] = []
    for _, after in pairwise(starts):
        last = code[after - 1]
        onwards: list[int] = []
        if after - 1 in targets:
            onwards.append(block_at[targets[after - 1]])
        elif last.opcode[0] in ENDS:
            onwards.append(len(starts) - 1)
        if not onwards or last.guard is not None:
            onwards.append(block_at[after])
        following.append(onwards)
    return starts, [*following, []]


def _meetings(following: list[list[int]]) -> list[int]:
    """The nearest block that all paths from each reach; of the last block, which ends, itself.

    Cooper, Harvey and Kennedy, "A simple, fast dominance algorithm", on the edges turned round.
    A block without a way to the end meets others nowhere but there.
    """
    end = len(following) - 1
    before: list[list[int]] = [[] for _ in following]
    for block, onwards in enumerate(following):
        for target in onwards:
            before[target].append(block)
    order = _postorder(before, end)
    number = {block: place for place, block in enumerate(order)}
    meeting = {end: end}
    changed = True
    while changed:
        changed = False
        for block in reversed(order[:-1]):
            known = [target for target in following[block] if target in meeting]
            new = known[0]
            for other in known[1:]:
                while new != other:
                    if number[new] < number[other]:
                        new = meeting[new]
                    else:
                        other = meeting[other]
            changed |= meeting.get(block) != new
            meeting[block] = new
    return [meeting.get(block, end) for block in range(len(following))]


def _postorder(edges: list[list[int]], root: int) -> list[int]:
    """Blocks that are reached from the root, each behind those reached through it."""
    found: list[int] = []
    seen, work = {root}, [(root, iter(edges[root]))]
    while work:
        block, left = work[-1]
        target = next((t for t in left if t not in seen), None)
        if target is None:
            found.append(block)
            work.pop()
        else:
            seen.add(target)
            work.append((target, iter(edges[target])))
    return found


def _ordered(meetings: list[int]) -> list[int]:
    """Blocks with each one's meeting behind it, otherwise as they are numbered."""
    end = len(meetings) - 1
    left = [0] * len(meetings)
    for block in range(end):
        left[meetings[block]] += 1
    free = [block for block, count in enumerate(left) if count == 0]
    found: list[int] = []
    while free:
        block = heapq.heappop(free)
        found.append(block)
        if block != end:
            meeting = meetings[block]
            left[meeting] -= 1
            if left[meeting] == 0:
                heapq.heappush(free, meeting)
    return found
