"""What a kernel may be compiled as: values of the options that its caller leaves open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from tawa.aref.analysis.registers import BESIDE_ACCUMULATORS, budget
from tawa.driver.choice.profile import Profile, Sizes
from tawa.machine.chips import Chip

OPEN = ("persistent", "deal", "ctas_per_sm", "ping_pong", "consumers", "alternate")
"""The options that are chosen; those of a demand that holds others are left out."""

MOST_DEALT = 16384
"""Programs that are dealt evenly: planning more delays a launch of a new size too long."""

SCRATCH = 1024
"""Bytes that depths leave for barriers and exchanges, and at least for staged stores."""

PAIR = 2
"""CTAs that share a multiprocessor where one alone would wait for its own latency."""

TRIO = 3
"""CTAs that share a multiprocessor where one warp group computes and waits for its products."""

FEWEST_SLOTS = 2
"""Of a ring in a loop: with one, nothing is loaded while something is computed."""

MANY = 4
"""Warp groups that may share a tile's rows, if each has 64 of them to itself."""

GROUP_ROWS = 64
"""Rows of a product that a warp group multiplies at once."""

TOGETHER = 3
"""Slots from which on such groups wait once for all that an iteration loads."""


@dataclass(frozen=True)
class Candidate:
    """Options, and the CTAs of a multiprocessor that they lead to."""

    options: tuple[tuple[str, Any], ...] = ()
    """What differs from what was asked for."""
    resident: int = 1
    persistent: bool = False
    even: bool = False
    turns: bool = False
    """Whether two consumers take turns on tiles."""
    groups: int = 0
    """Warp groups that compute."""
    alternate: bool = False
    """Whether they take turns to issue their products."""
    slices: int = 1
    """Teams that share the iterations of a loop over K."""
    fits: bool = True
    """Whether accumulators, what is made of them, and the fewest slots have room."""

    def __str__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.options) or "as written"


def candidates(
    profile: Profile, sizes: Sizes, asked: Mapping[str, Any], chip: Chip
) -> Iterator[Candidate]:
    """What may be compiled for a launch: first of all what was asked for, and nothing else.

    `asked` are the options that the caller gave: demands.
    """
    persistent = bool(asked.get("persistent"))
    even, turns = asked.get("deal") == "even", bool(asked.get("ping_pong"))
    resident, alternate = _resident(profile, asked, chip), bool(asked.get("alternate"))
    written = Candidate((), resident, persistent, even, turns, profile.groups, alternate)
    if profile.groups:
        crowded = is_crowded(profile, profile.groups, resident, chip)
        written = replace(written, fits=_legal(profile, asked, chip) and not crowded)
    yield written
    if not profile.groups or not is_open(asked):
        return
    if more := _free_slots(profile, sizes, asked, chip, resident):
        yield replace(written, options=more)
    if sizes.programs <= chip.multiprocessors:
        yield from _sliced(profile, asked, chip)
        return
    open_ = [name for name in OPEN if name not in asked]
    choices = {name: _values(name, profile, sizes, asked, chip) for name in open_}
    for values in product(*choices.values()):
        options = {n: v for n, v in zip(choices, values, strict=True) if v is not None}
        if options.get("consumers") == MANY and "load_together" not in asked:
            options["load_together"] = True
        found = {**asked, **options}
        alone = options.get("consumers") == 1  # beside which nothing was measured
        if options and more and not alone and _legal(profile, {**found, **dict(more)}, chip):
            options |= dict(more)
            found |= options
        if options and _legal(profile, found, chip):
            yield Candidate(
                tuple(options.items()),
                _resident(profile, found, chip),
                bool(found.get("persistent")),
                found.get("deal") == "even",
                bool(found.get("ping_pong")),
                options.get("consumers", profile.groups),
                bool(found.get("alternate")),
            )


def _free_slots(
    profile: Profile, sizes: Sizes, asked: Mapping[str, Any], chip: Chip, resident: int
) -> tuple[tuple[str, int], ...]:
    """More slots than were asked for, where programs wait for the latency of memory; else nothing.

    They do where half of the multiprocessors are idle: with 16 to 64 programs, products and
    recurrences gained 2 to 43%. With 132 and more, products of 128 x 128 gained up to 4%, and
    attention and persistent products lost up to 4%. And they do where the products of what is under
    way take less time than a copy: always with one slot, which many kernels ask for since it leaves
    other compilers more registers. Shared memory that CTAs leave over costs nothing.
    """
    stages = asked.get("num_stages")
    if not profile.ring_bytes or stages is None:
        return ()  # as many slots as memory holds
    few = 2 * sizes.programs <= chip.multiprocessors
    exposed = _exposed(profile, stages, chip)
    if not (few or exposed or stages == 1):
        return ()
    own = chip if few else chip.divided(resident)
    room = own.shared_bytes - _shared(profile, 0) - SCRATCH
    most = chip.thresholds.hiding_slots if few or exposed else FEWEST_SLOTS
    slots = min(room // profile.ring_bytes, most)
    return (("num_stages", slots),) if slots > stages else ()


def _exposed(profile: Profile, stages: int, chip: Chip) -> bool:
    """Whether so many slots do not hide a copy behind products that nothing else waits for.

    One of them is being read.
    """
    loads = [loop for loop in profile.loops if loop.body.loaded]
    if profile.by_warps or any(loop.feeds or not loop.body.tensor for loop in loads):
        return False
    return any((stages - 1) * loop.body.tensor < chip.copy_latency for loop in loads)


def _sliced(profile: Profile, asked: Mapping[str, Any], chip: Chip) -> Iterator[Candidate]:
    """Teams that share a loop's iterations, where a program has a multiprocessor to itself.

    Products of warp groups whose results nothing waits for fill it by themselves.
    """
    waits = profile.by_warps or any(loop.feeds for loop in profile.loops)
    demands = any(asked.get(name) for name in ("persistent", "ping_pong", "slice_k"))
    if demands or asked.get("ctas_per_sm", 1) > 1 or profile.groups != 1 or not waits:
        return
    for slices in (2, 4):
        words = profile.accumulators // chip.group_threads
        limit = budget(chip, chip.group_warps * slices, words).limit
        sums = (slices - 1) * profile.accumulators * chip.word
        room = _shared(profile, FEWEST_SLOTS * slices) + sums <= chip.shared_bytes
        if slices <= profile.slices and room and words + BESIDE_ACCUMULATORS <= limit:
            options = (("slice_k", slices),)
            yield Candidate(options, groups=profile.groups, slices=slices)


def is_open(asked: Mapping[str, Any]) -> bool:
    """Whether what was asked for leaves anything to choose."""
    one_role = asked.get("specialize") is False or asked.get("cluster", 1) != 1
    if asked.get("launch_cooperative_grid") or asked.get("maxnreg"):
        return False
    return not one_role and not asked.get("schedule") and any(name not in asked for name in OPEN)


def _resident(profile: Profile, options: Mapping[str, Any], chip: Chip) -> int:
    """CTAs on a multiprocessor: as many as are asked for, or as many as come.

    Of a persistent kernel one is launched, unless the compiler makes it for two.
    """
    if "ctas_per_sm" in options:
        return options["ctas_per_sm"]
    own = replace(profile, groups=options.get("consumers") or profile.groups)
    alone = by_itself(own, options, chip)
    if not options.get("persistent"):
        return alone
    made = options.get("num_stages") is None and not profile.by_warps
    return min(alone, PAIR) if made else 1


def by_itself(profile: Profile, asked: Mapping[str, Any], chip: Chip) -> int:
    """CTAs that share a multiprocessor though nobody asked for it."""
    if asked.get("num_stages") is None:
        return _neighbours(profile, chip)
    words = profile.accumulators // (chip.group_threads * max(1, profile.groups))
    threads = chip.group_threads * (profile.groups + 1)
    launched = min(chip.max_registers, chip.registers // threads)
    if profile.groups == 1:
        launched = min(launched, words + 2 * chip.thresholds.addresses)
    by_registers = chip.registers // (launched * threads)
    return max(1, min(by_registers, chip.ctas_with(_shared(profile, asked["num_stages"]))))


def _neighbours(profile: Profile, chip: Chip) -> int:
    """CTAs that rings of free depth leave room for: one takes what there is, but where it copies.

    What depths are chosen by (`pipeline/depths.py`), and what registers are asked for by
    (`driver/neighbours.py`).
    """
    if not profile.copies or profile.groups != 1:
        return 1
    in_flight = chip.copy_latency * chip.l2_share
    for ctas in (4, 3, 2) if profile.by_warps else (2,):
        own = chip.divided(ctas)
        beside = profile.kept_bytes + max(profile.staged_bytes, SCRATCH) + SCRATCH
        slots = (own.shared_bytes - beside) // max(1, profile.ring_bytes)
        words = profile.accumulators // chip.group_threads
        limit = budget(own, own.group_warps, words).limit
        filled = ctas == PAIR or slots * profile.ring_bytes >= in_flight
        if (
            slots >= chip.thresholds.shared_slots
            and words + BESIDE_ACCUMULATORS <= limit
            and filled
        ):
            return ctas
    return 1


def _values(
    name: str, profile: Profile, sizes: Sizes, asked: Mapping[str, Any], chip: Chip
) -> tuple[Any, ...]:
    """The values of an open option that may pay; None leaves it as it is."""
    known = profile.apart and profile.certain
    match name:
        case "persistent":
            return (None, True) if known else (None,)
        case "deal":
            few = sizes.programs <= MOST_DEALT
            return (None, "even") if known and profile.differs and few else (None,)
        case "ctas_per_sm":
            if sizes.programs <= chip.multiprocessors:
                return (None,)
            fed = any(loop.feeds for loop in profile.loops)
            return (None, PAIR, *((TRIO,) if fed and profile.groups == 1 else ()))
        case "consumers":
            # One computes, where that lets a second CTA in that begins while this one multiplies.
            alone = replace(profile, groups=1)
            pays = profile.groups == PAIR and profile.copies
            one = (1,) if pays and by_itself(alone, asked, chip) >= PAIR else ()
            return (None, *one, *((MANY,) if _may_be_many(profile, asked) else ()))
        case "alternate":
            fed = any(loop.feeds for loop in profile.loops) and not profile.copies
            may = profile.groups > PAIR or _may_be_many(profile, asked)
            return (None, True) if fed and may else (None,)
        case _:
            whole = profile.groups == 2 and not profile.copies and not profile.differs
            fed = any(loop.feeds for loop in profile.loops)
            return (None, True) if known and whole and not fed else (None,)


def _may_be_many(profile: Profile, asked: Mapping[str, Any]) -> bool:
    """Whether ordinary code waits for products whose rows so many groups may share."""
    shared = profile.groups == PAIR and not profile.rows % (MANY * GROUP_ROWS)
    fed = all(loop.feeds for loop in profile.loops if loop.body.tensor)
    return shared and fed and "consumers" not in asked and not profile.copies


def _legal(profile: Profile, options: Mapping[str, Any], chip: Chip) -> bool:
    """Whether options go together, and a kernel with them has room."""
    persistent, ctas = bool(options.get("persistent")), options.get("ctas_per_sm", 1)
    if (options.get("deal") or options.get("ping_pong")) and not persistent:
        return False
    teams = 2 if options.get("ping_pong") else 1
    if teams > 1 and (ctas > 1 or options.get("deal")):
        return False
    if options.get("consumers") in (1, MANY) and (ctas > 1 or teams > 1):
        return False  # beside one group a second CTA comes by itself; many leave no room for it
    groups = options.get("consumers") or (1 if teams > 1 else profile.groups)
    own = chip.divided(ctas)
    words = profile.accumulators // (chip.group_threads * groups)
    limit = budget(own, own.group_warps * groups * teams, words).limit
    if options.get("alternate") and groups <= PAIR:
        return False  # two groups of 128 x 128 tiles lost 1.5% by turns
    together = bool(options.get("load_together"))
    stages = options.get("num_stages") or (TOGETHER if together else FEWEST_SLOTS)
    if together and stages < TOGETHER:
        return False
    return words + BESIDE_ACCUMULATORS <= limit and _shared(profile, stages) <= own.shared_bytes


def is_crowded(profile: Profile, groups: int, ctas: int, chip: Chip) -> bool:
    """Whether registers don't hold what an iteration makes beside the next one's products."""
    own, threads = chip.divided(ctas), chip.group_threads * max(1, groups)
    words, made = profile.accumulators // threads, profile.made // threads
    limit = budget(own, own.group_warps * max(1, groups), words).limit
    return bool(made) and words + made + BESIDE_ACCUMULATORS > limit


def _shared(profile: Profile, stages: int) -> int:
    """Bytes of shared memory with so many slots in loops."""
    return profile.ring_bytes * stages + profile.kept_bytes + profile.staged_bytes
