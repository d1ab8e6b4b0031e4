"""What follows for a modulo schedule from what is known of it.

Each rule says more of the differences, or that nothing has them (`Contradiction`):

- a node's stage is known when its start leaves no other;
- two nodes of the issuing thread are in order when the other order is impossible, and what lies
  between them takes its time;
- products run in the order in which they are issued;
- values that are held together in any case fit the registers, and so do all of them in the long
  run: registers times time;
- an iteration is as short as it was asked to be;
- enough differs from the schedules that were found before.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from tawa.pipeline.differences import ORIGIN, Contradiction, Numbers
from tawa.pipeline.modulo_problem import (
    DIFFERENCES,
    PROMPT,
    UNKNOWN,
    Part,
    Problem,
    Start,
    early_of,
)


def follow(problem: Problem, part: Part, allowed: int | None) -> None:
    """Let a part know what follows from what it knows. Raises `Contradiction`.

    With `allowed`, an iteration is no longer than this (as `Aim.EARLY` counts).
    """
    changed = True
    while changed:
        changed = _find_stages(problem, part)
        changed |= _order_thread(problem, part)
        changed |= _order_products(problem, part)
        if allowed is not None:
            changed |= _stay_early(problem, part, allowed)
    _fit_registers(problem, part)
    for other in problem.others:
        if likeness(problem, part, other)[0] > _places(problem) - DIFFERENCES:
            raise Contradiction
    if problem.others and all(part.stage[i] > 0 for i in problem.costly):
        raise Contradiction


def choose_stage(problem: Problem, part: Part, node: int, stage: int) -> None:
    """Let a node have a stage. Raises `Contradiction`."""
    known, period = part.known, problem.period
    part.stage[node] = stage
    start = problem.start(node)
    known.raises(ORIGIN, start, period * stage)
    known.raises(start, ORIGIN, problem.room(node) - period * (stage + 1))
    if node not in problem.products:
        known.raises(start, problem.latency, problem.thread[node] - period * stage)
        return
    run, took = problem.run(node), problem.tensor[node] + problem.tail
    known.raises(run, ORIGIN, took - period * (stage + 1))
    known.raises(run, problem.latency, took - period * stage)


def stages_left(problem: Problem, part: Part, node: int) -> range:
    """The stages that a node may have."""
    start, period = problem.start(node), problem.period
    least = part.known.least(start) + problem.room(node) - period
    return range(-(-least // period), part.known.most(start) // period + 1)


def apart(problem: Problem, part: Part, nodes: Numbers) -> Numbers:
    """How much later than the first of two nodes the second is in an iteration, at least.

    Of nodes whose stages are known.
    """
    starts, stage = problem.starts[nodes], part.stage[nodes]
    shift = problem.period * (stage[:, None] - stage[None, :])
    return part.known.above[starts[:, None], starts] + shift


def order(problem: Problem, part: Part, first: int, second: int, least: int) -> bool:
    """Let a node be so much after another in an iteration; whether that was not known.

    Their stages are known. Raises `Contradiction`.
    """
    shift = problem.period * int(part.stage[first] - part.stage[second])
    return part.known.raises(problem.start(first), problem.start(second), least - shift)


def _find_stages(problem: Problem, part: Part) -> bool:
    changed = False
    for node in np.flatnonzero(part.stage == UNKNOWN):
        left = stages_left(problem, part, int(node))
        if len(left) == 1:
            choose_stage(problem, part, int(node), left[0])
            changed = True
        elif not left:
            raise Contradiction
    return changed


def _order_thread(problem: Problem, part: Part) -> bool:
    """One node after the other on the issuing thread, with time for what is between them."""
    known = part.stage[problem.busy] != UNKNOWN
    nodes, sizes = problem.busy[known], problem.sizes[known]
    least = apart(problem, part, nodes)
    before = least >= sizes[:, None]  # no node is before itself, since all take time
    forced = (least > -sizes) & ~before
    np.fill_diagonal(forced, False)
    if forced.any():
        for a, b in np.argwhere(forced):
            order(problem, part, int(nodes[a]), int(nodes[b]), int(sizes[a]))
        return True
    counted = before.astype(np.int64)
    needed = sizes[:, None] + (counted * sizes) @ counted
    changed = False
    for a, b in np.argwhere(before & (least < needed)):
        changed |= order(problem, part, int(nodes[a]), int(nodes[b]), int(needed[a, b]))
    return changed | _leave_room(problem, part, nodes, sizes @ counted, sizes + counted @ sizes)


def _leave_room(
    problem: Problem, part: Part, nodes: Numbers, before: Numbers, rest: Numbers
) -> bool:
    """Nodes start after those that come before, and early enough for them and those that follow."""
    starts, above = problem.starts[nodes], part.known.above
    behind = problem.period * part.stage[nodes] + before
    ahead = rest - problem.period * (part.stage[nodes] + 1)
    changed = False
    for i in np.flatnonzero(above[ORIGIN, starts] < behind):
        changed |= part.known.raises(ORIGIN, int(starts[i]), int(behind[i]))
    for i in np.flatnonzero(above[starts, ORIGIN] < ahead):
        changed |= part.known.raises(int(starts[i]), ORIGIN, int(ahead[i]))
    return changed


def _order_products(problem: Problem, part: Part) -> bool:
    """Products run in the order in which they are issued, and are issued as they run."""
    changed, known = False, part.known
    placed = [i for i in problem.products if part.stage[i] != UNKNOWN]
    for a in placed:
        for b in placed:
            if a == b:
                continue
            shift = problem.period * int(part.stage[a] - part.stage[b])
            first, second = problem.run(a), problem.run(b)
            if known.above[problem.start(a), problem.start(b)] + shift > 0:
                changed |= known.raises(first, second, problem.tensor[a] - shift)
            elif known.above[first, second] + shift > -problem.tensor[b]:
                changed |= order(problem, part, a, b, problem.room(a))
    return changed


def _stay_early(problem: Problem, part: Part, allowed: int) -> bool:
    """What one product or the latency may be later, if all others are as early as they can."""
    known = part.known
    left = allowed - early_of(problem, known.values, part.stage)
    if left < 0:
        raise Contradiction
    latest = known.least(problem.latency) + left
    changed = known.raises(problem.latency, ORIGIN, -latest)
    for i in problem.products:
        if part.stage[i] != UNKNOWN:
            start = problem.start(i)
            changed |= known.raises(start, ORIGIN, -known.least(start) - left // PROMPT)
    return changed


def _fit_registers(problem: Problem, part: Part) -> None:
    """What is held in any case when a value begins fits the registers of a thread."""
    kept = np.array(problem.kept, dtype=np.int64)
    known = part.stage[kept] != UNKNOWN
    if not known.any():
        return
    kept, ends, period = kept[known], problem.ends[known], problem.period
    later = apart(problem, part, kept)
    stage = part.stage[kept]
    shift = period * (stage[:, None] - stage[None, :])
    # How much later than the second of two values begins the first one ends.
    past = part.known.above[problem.starts[kept][:, None], ends].T - shift
    held = (later >= 0) & (past > 0) | (later.T > 0) & (past > period)
    registers = problem.taken[known]
    if (registers @ held.astype(np.int64)).max() > problem.capacity:
        raise Contradiction


def too_like(problem: Problem, schedule: Sequence[Start], other: Sequence[Start]) -> bool:
    """Whether two schedules differ in too few places."""
    same = sum((schedule[i].stage == 0) == (other[i].stage == 0) for i in problem.costly)
    for a, b in combinations(problem.costly, 2):
        earlier = schedule[a].offset < schedule[b].offset
        same += earlier == (other[a].offset < other[b].offset)
    return same > _places(problem) - DIFFERENCES


def _places(problem: Problem) -> int:
    """Places in which schedules may differ: stages of costly nodes, and orders of two of them."""
    count = len(problem.costly)
    return count + count * (count - 1) // 2


def likeness(
    problem: Problem, part: Part, other: Sequence[Start]
) -> tuple[int, tuple[int, int] | None]:
    """In how many places a part is like another schedule; two nodes whose order is not known."""
    placed = [i for i in problem.costly if part.stage[i] != UNKNOWN]
    same = sum((part.stage[i] == 0) == (other[i].stage == 0) for i in placed)
    least = apart(problem, part, np.array(placed, dtype=np.int64))
    unordered = None
    for (x, a), (y, b) in combinations(enumerate(placed), 2):
        if least[x, y] > 0 or least[y, x] > 0:
            same += bool(least[x, y] > 0) == (other[a].offset < other[b].offset)
        else:
            unordered = unordered or (a, b)
    return same, unordered
