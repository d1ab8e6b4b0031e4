"""Registers of each role: a launch gives every warp the same; who needs fewer gives some up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tawa.machine.chips import SM_90A, Chip

ENOUGH = SM_90A.registers_of_four
"""Registers at entry below which consumers need all that others can give."""

MOST = SM_90A.role_registers
"""Registers a thread of a consumer gets at most, or has without a split."""

BESIDE_ACCUMULATORS = SM_90A.thresholds.beside_accumulators
"""Registers without which a consumer's other values do not fit beside its accumulators."""

ROOMY = SM_90A.thresholds.moving_registers
"""Registers of a moving role that can hold four blocks of a tile."""

REGISTERS_OF_ADDRESS, BESIDE, FEWEST = SM_90A.thresholds.loader_registers
"""Registers of a role that copies through pointers: for an address and its mask, beside them, and
at least."""

SELDOM = SM_90A.thresholds.seldom_registers
"""Registers of such a role whose tiles the copy engine copies, but where one is no box."""

LESS = SM_90A.thresholds.loader_spare
"""Registers that such a role does without where its consumers need them."""

MANY = SM_90A.large_accumulators
"""Registers of accumulators beside which consumers need all that others can give."""


@dataclass(frozen=True)
class Copying:
    """A role that copies through pointers: its warps, each thread's addresses, what is to spare.

    What is to spare is the role's, or its consumers' where they need more. `seldom`: the copy
    engine copies all tiles that are boxes.
    """

    warps: int
    addresses: int
    spare: int = 0
    seldom: bool = False

    @property
    def groups(self) -> int:
        """Warp groups."""
        return self.warps // SM_90A.group_warps

    @property
    def registers(self) -> int:
        """Registers of a thread for its addresses and masks, and beside them."""
        return BESIDE + REGISTERS_OF_ADDRESS * self.addresses

    def __bool__(self) -> bool:
        return self.warps > 0


@dataclass(frozen=True)
class Converting:
    """A role that computes operands: its warps, and how many elements a thread makes at a time."""

    warps: int
    elements: int

    @property
    def groups(self) -> int:
        """Warp groups."""
        return self.warps // SM_90A.group_warps

    def registers(self, entry: int) -> int:
        """Of a thread, which is launched with `entry`: for an element, and what it is made of."""
        step = SM_90A.register_step
        return min(entry, -(-(BESIDE + self.elements) // step) * step)

    def __bool__(self) -> bool:
        return self.warps > 0


@dataclass(frozen=True)
class Budget:
    """Registers a thread of each kind of role; None leaves the launch's."""

    producer: int | None
    consumer: int | None
    limit: int
    """What a thread of the computing role may use."""
    entry: int
    """What a thread is launched with."""
    converter: int | None = None


def budget(
    target: Chip,
    consumer_warps: int,
    accumulators: int,
    narrow: bool = False,
    copying: Copying | None = None,
    converting: Converting | None = None,
) -> Budget:
    """The split of the register file; `accumulators` is a consumer thread's accumulator registers.

    The pool is what the launch got: the entry count times the threads, not the whole file. With
    `narrow`, or many accumulators, the loading role keeps the fewest registers there are. One that
    is `copying` through pointers needs them for addresses, as far as the accumulators let it. A
    role that is `converting` beside the consumers gets what its tile takes.
    """
    loaders = copying.groups if copying else 1
    converters = converting.groups if converting else 0
    threads = target.lanes * (consumer_warps + (loaders + converters) * target.group_warps)
    step = target.register_step
    entry = min(target.max_registers, target.registers // threads // step * step)
    groups, rest = divmod(consumer_warps, target.group_warps)
    if groups == 0 or rest or entry >= MOST:
        return Budget(None, None, entry, entry)
    converter = converting.registers(entry) if converting else None
    pool = entry * (groups + loaders + converters) - converters * (converter or 0)
    if copying:
        wanted = copying.registers + (-LESS - 2 * copying.spare if narrow else copying.spare)
        fewest = FEWEST
        if copying.seldom and (narrow or entry < ENOUGH):
            wanted = fewest = SELDOM
        least = -(-(accumulators + BESIDE_ACCUMULATORS) // step) * step
        left = (pool - groups * least) // loaders // step * step
        producer = min(entry, max(fewest, min(left, -(-wanted // step) * step)))
        consumer = min(MOST, (pool - loaders * producer) // groups // step * step)
        return Budget(producer, consumer, consumer, entry, converter)
    few = narrow or accumulators >= MANY or entry < ENOUGH
    producer = target.min_role_registers if few else _spared(target, threads, entry)
    consumer = min(MOST, (pool - producer) // groups // step * step)
    return Budget(producer, consumer, consumer, entry, converter)


def _spared(target: Chip, threads: int, entry: int) -> int:
    """Registers of a loading role whose consumers can do without the most that they may have.

    It gets a step more than the fewest, and what is left when all others have equally many; a
    single one takes that itself.
    """
    others = threads // target.group_threads - 1
    if others == 1:
        return target.min_role_registers
    pool, step = entry * (others + 1), target.register_step
    each = (pool - target.min_role_registers - step) // others // step * step
    return pool - others * each


@dataclass(frozen=True)
class Sharing:
    """What the roles of a CTA need, whatever an attempt leaves to them."""

    warps: int
    """Of the computing roles that multiply; 0 if no others share registers with them."""
    accumulators: int
    copiers: int
    """Warps that copy through pointers."""
    addresses: int
    """Of one of their threads."""
    converters: int = 0
    """Warps that compute operands."""
    converted: int = 0
    """Elements that one of their threads makes at a time."""
    seldom: bool = False
    """Whether the copy engine copies, in the copiers' place, all tiles that are boxes."""

    def split(self, target: Chip, narrow: bool, spare: int) -> Budget:
        """The split of the register file in an attempt; see `Slack` for what it leaves."""
        copying = Copying(self.copiers, self.addresses, spare, self.seldom)
        converting = Converting(self.converters, self.converted)
        return budget(target, self.warps, self.accumulators, narrow, copying, converting)


def blocks_in_flight(registers: int) -> int:
    """Blocks of a tile that a moving role of so many registers can hold: four registers each."""
    return 4 if registers >= ROOMY else 2


def accumulator_registers(words: Sequence[int], warps: int) -> int:
    """32-bit registers a thread holds of accumulators of so many words each."""
    return sum(words) // (SM_90A.lanes * warps)
