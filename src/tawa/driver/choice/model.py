"""How long a launch takes with each candidate: a few terms, each a figure of the machine.

Of an iteration the tensor core's part and ordinary code's are known. One warp group alone does them
one after the other and then waits for what it asked for; several fill each other's gaps. A program
that starts on its own has its loads' latency before it and its stores behind it, unless another CTA
of the multiprocessor works meanwhile, or a persistent CTA has loaded ahead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import heapify, heapreplace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tawa.base.tile_scheduler import EVEN
from tawa.driver.choice.candidates import PAIR, Candidate, is_crowded
from tawa.driver.choice.profile import Cost, Loop, Profile, Sizes
from tawa.machine.chips import Chip

Cycles = NDArray[np.float64]


@dataclass(frozen=True)
class Prediction:
    """What the model says of a candidate."""

    candidate: Candidate
    microseconds: float


def predicted(profile: Profile, sizes: Sizes, candidate: Candidate, chip: Chip) -> Prediction:
    """The time of a launch, at the clock that the power limit leaves large products."""
    profile = replace(profile, groups=candidate.groups)
    cycles = launch_cycles(profile, sizes, candidate, chip)
    return Prediction(candidate, cycles / chip.capped_ghz / 1e3)


def launch_cycles(profile: Profile, sizes: Sizes, candidate: Candidate, chip: Chip) -> float:
    """Cycles until the last program is done."""
    count = sizes.programs
    own = _programs(profile, sizes, candidate, candidate.resident, chip)
    places = chip.multiprocessors * candidate.resident
    if profile.differs and count > places:
        static = _static(profile, candidate, chip)
        return static * candidate.resident * _dealt(own, places, candidate)
    whole, rest = divmod(count, places)
    total = candidate.resident * whole * float(own[0]) * _static(profile, candidate, chip)
    if rest:
        last = -(-rest // chip.multiprocessors)
        total += last * float(_programs(profile, sizes, candidate, last, chip).max())
    return total


def _programs(
    profile: Profile, sizes: Sizes, candidate: Candidate, resident: int, chip: Chip
) -> Cycles:
    """Cycles that each program takes of a multiprocessor which so many CTAs share."""
    total = np.zeros(sizes.programs if profile.differs else 1)
    crowded = is_crowded(profile, candidate.groups, candidate.resident, chip)
    for loop in profile.loops:
        each = _iteration(profile, loop, resident, crowded, chip)
        if candidate.alternate and loop.feeds:
            each *= chip.choice.in_turn
        if loop.guarded and loop.feeds:
            each *= 1 + chip.choice.guarded
        if loop.body.tensor:
            # A team waits for its own iterations; what all do takes as long as before.
            each *= 1 - chip.choice.waited * (1 - 1 / candidate.slices)
        total += _iterations(profile, loop, sizes) * each
    ends = _ends(profile, candidate, chip) + chip.choice.passed_on * (candidate.slices - 1)
    if candidate.turns:
        # One consumer stores its tile while the other multiplies.
        return np.maximum(total + (1 - chip.choice.hidden) * ends, (total + ends) / 2)
    return total + ends / resident


def _static(profile: Profile, candidate: Candidate, chip: Chip) -> float:
    """How much longer programs take that are shared out beforehand, not as CTAs become free.

    Multiprocessors differ in how far memory is, and two CTAs of several warp groups on one of them
    get unequal shares of its pipes; a plan that ends with spare CTAs (`even`) evens the latter out.
    A CTA of several warp groups that is alone waits for neither: one group goes on meanwhile.
    """
    several = profile.groups > 1
    if not candidate.persistent or (several and candidate.resident == 1):
        return 1.0
    terms, uneven = chip.choice, candidate.resident > 1 and not candidate.even
    return 1 + terms.spread + terms.uneven * uneven * several


def _iterations(profile: Profile, loop: Loop, sizes: Sizes) -> Cycles:
    """Of a loop, in every program; of one if all are alike."""
    values = sizes.values(profile.arguments)
    grid = sizes.grid if profile.differs else (1,)
    found = np.ones(1)
    for count in loop.counts:
        found = found * count.evaluate(grid if count.differs else (1,), values)
    return found


def _iteration(profile: Profile, loop: Loop, resident: int, crowded: bool, chip: Chip) -> float:
    """Cycles of an iteration, with so many CTAs on the multiprocessor, for each of them."""
    body, terms = loop.body, chip.choice
    moved = max(body.loaded / chip.ingest_bytes, _turning(body, resident, chip))
    if loop.gathers and not loop.feeds:
        # They wait for what they load an iteration ahead, and for each other; another CTA goes on.
        return max(body.tensor + body.ordinary + chip.copy_latency / resident, moved)
    if loop.makes and not loop.feeds:
        # Threads make an operand, meet, and multiply; another CTA's do the other meanwhile.
        code, power = max(body.special, body.ordinary), terms.together
        apart = (body.tensor**power + code**power) ** (1 / power)
        return max(body.tensor + code if resident == 1 else apart, moved)
    if not loop.feeds:
        return max(body.tensor, body.special, body.ordinary, moved)
    together = resident * max(1, profile.groups)
    code = _code(body, together, chip)
    if together == 1:
        return max(body.tensor + code + terms.waits, moved)
    power = terms.crowded if crowded else terms.together
    busy = (body.tensor**power + (code / _beside(chip)) ** power) ** (1 / power)
    seen = 1.0 if profile.groups <= PAIR else terms.seen
    return max(busy + seen * terms.waits / resident, moved)


def _turning(body: Cost, resident: int, chip: Chip) -> float:
    """Cycles of the loading role for operands across K: loaded, waited for, and stored."""
    if not body.turned:
        return 0.0
    issued = chip.products.loaded_each * body.turned
    return max(issued, (chip.products.round_trip + issued) / resident)


def _code(body: Cost, together: int, chip: Chip) -> float:
    """Cycles of ordinary code, of which some runs beside what the longer pipe does."""
    longer, shorter = max(body.special, body.ordinary), min(body.special, body.ordinary)
    return longer + chip.choice.beside * shorter / together


def _beside(chip: Chip) -> float:
    """Part of the special-function units' rate that is left beside a busy tensor core."""
    return chip.timing.capacity_beside_tensor[2]


def _ends(profile: Profile, candidate: Candidate, chip: Chip) -> float:
    """Cycles of a program before its loops and after them, that nothing of its own hides."""
    ends, terms = profile.ends, chip.products
    # What a pipeline does before its first iteration is half of one, where something waits for it.
    filled = max((_half(loop.body) for loop in profile.loops if loop.feeds), default=0.0)
    own = terms.stored * ends.stored + ends.tensor + filled
    return own if candidate.persistent else own + terms.started


def _half(body: Cost) -> float:
    return (body.tensor + max(body.special, body.ordinary)) / 2


def _dealt(programs: Cycles, places: int, candidate: Candidate) -> float:
    """When the last of programs that differ is done, each CTA with its own."""
    if candidate.even:
        return max(float(programs.max()), float(programs.sum()) / places / EVEN)
    if candidate.persistent:
        rounds = -(-len(programs) // places)
        padded: Any = np.zeros(rounds * places)
        padded[: len(programs)] = programs
        return float(padded.reshape(rounds, places).sum(axis=0).max())
    if len(programs) > MOST_FOLLOWED:
        return float(programs.sum()) / places + float(programs.max()) / 2
    free = programs[:places].tolist()
    heapify(free)
    for program in programs[places:].tolist():
        heapreplace(free, free[0] + program)
    return max(free)


MOST_FOLLOWED = 1 << 14
"""Programs that are followed one by one, as the hardware starts them."""
