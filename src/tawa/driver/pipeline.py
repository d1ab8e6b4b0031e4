"""The pipeline: which passes lead from one level to the next, in which order, on one screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tawa.aref.passes.async_dots import AsyncDots
from tawa.aref.passes.conditional_rescaling import ConditionalRescaling
from tawa.aref.passes.conversions import Conversions
from tawa.aref.passes.cursors import Cursors
from tawa.aref.passes.last_iteration_peeling import LastIterationPeeling
from tawa.aref.passes.named_barrier_ping_pong import NamedBarrierPingPong
from tawa.aref.passes.own_masks import OwnMasks
from tawa.aref.passes.partial_sums import PartialSums
from tawa.aref.passes.ping_pong import PingPong
from tawa.aref.passes.prefetch import Prefetch
from tawa.aref.passes.register_prefetch import RegisterPrefetch
from tawa.aref.passes.resident_operands import ResidentOperands
from tawa.aref.passes.shared_slots import SharedSlots
from tawa.aref.passes.sink_reads import SinkReads
from tawa.aref.passes.sink_stores import SinkStores
from tawa.aref.passes.slices import Slices
from tawa.aref.passes.transposes import Transposes
from tawa.aref.passes.warp_products import WarpProducts
from tawa.aref.passes.zero_products import ZeroProducts
from tawa.base.attempts import Slack
from tawa.base.options import Options
from tawa.codegen.lower import LowerToHopper
from tawa.hopper.passes.free_loops import FreeLoops
from tawa.hopper.passes.redundant_barriers import RedundantBarrierElimination
from tawa.hopper.passes.roundings import separate_roundings
from tawa.hopper.passes.strips import Strips
from tawa.hopper.passes.unread import UnreadRegisters
from tawa.ir.contracts import Pass, check
from tawa.ir.decisions.decision import Decisions
from tawa.ir.properties import AT_LEVEL
from tawa.ir.tidy import Tidy
from tawa.partition.bulk_copies import BulkCopies
from tawa.partition.partition import Partition
from tawa.pipeline.depths import Depths
from tawa.pipeline.schedule import ScheduleLoops
from tawa.tile.passes.accumulate import FuseAccumulate
from tawa.tile.passes.carried_descriptors import CarriedDescriptors
from tawa.tile.passes.carried_pointers import CarriedPointers
from tawa.tile.passes.chosen_descriptors import ChosenDescriptors
from tawa.tile.passes.descriptor_pointers import DescriptorPointers
from tawa.tile.passes.descriptors import HoistDescriptors
from tawa.tile.passes.guarded_masks import GuardMasks
from tawa.tile.passes.late_reductions import LateReductions
from tawa.tile.passes.loads.batched_loads import BatchedLoads
from tawa.tile.passes.loads.early_loads import EarlyLoads
from tawa.tile.passes.loads.loads_before_products import LoadsBeforeProducts
from tawa.tile.passes.loads.repeated_loads import RepeatedLoads
from tawa.tile.passes.loads.uniform_loads import UniformLoads
from tawa.tile.passes.narrow_comparisons import NarrowComparisons
from tawa.tile.passes.overlaps import Overlaps
from tawa.tile.passes.partial_dead_code import PartialDeadCode
from tawa.tile.passes.range_checks import RangeChecks
from tawa.tile.passes.reciprocals import Reciprocals
from tawa.tile.passes.same_arrays import SameArrays
from tawa.tile.passes.scaled_exponents import ScaledExponents
from tawa.tile.passes.shared_divisors import SharedDivisors
from tawa.tile.passes.shared_extremes import SharedExtremes
from tawa.tile.passes.simplify import Simplify
from tawa.tile.passes.split_loops import SplitLoops
from tawa.tile.passes.waits import Waits
from tawa.tile.passes.widen import WidenAccumulators

LEVELS = ("source", "tile", "aref", "hopper")
"""Each stage of the pipeline leads from one of these to the next."""


def passes(stage: str, options: Options, decided: Decisions, slack: Slack) -> list[Pass]:
    """The passes that lead to a level from the one before, checked against their contracts.

    Raises `BrokenContract`.
    """
    steps = table(stage, options, decided, slack)
    check(steps, AT_LEVEL[LEVELS[LEVELS.index(stage) - 1]], AT_LEVEL[stage])
    return steps


def table(stage: str, options: Options, decided: Decisions, slack: Slack) -> list[Pass]:
    """The passes of a level, in order; what their contracts say of it is not repeated here."""
    if stage == "tile":
        return [SameArrays(options), Waits(), Simplify()]
    if stage == "aref":
        return [*whole_tiles(options, decided), *roles(options, decided, slack)]
    return hopper(options, decided, slack)


def whole_tiles(options: Options, decided: Decisions) -> list[Any]:
    """Towards the aref level: the program as it is written, up to its roles."""
    return [
        CarriedPointers(repeated=True),  # that repeated loads go by
        RepeatedLoads(),  # before copies in bulk, which smaller tiles may be
        # What becomes of descriptors: those of pointers come first, whose tiles may be copied in
        # bulk. These get descriptors, which are hoisted with the others.
        CarriedDescriptors(),
        DescriptorPointers(options),
        BulkCopies(options, decided),
        ChosenDescriptors(),
        HoistDescriptors(),
        # Before all that moves accesses.
        Overlaps(options),
        FuseAccumulate(),
        # What becomes of masks, before what looks at a loop's arithmetic. They go behind branches
        # once scales have moved past what they choose.
        SplitLoops(options, decided),
        ScaledExponents(options),
        GuardMasks(options, decided),
        RangeChecks(),
        NarrowComparisons(),
        WidenAccumulators(),  # after fusing, which saves a rounding
        PartialDeadCode(options, decided),
        Reciprocals(),
        UniformLoads(),
        # Before loads become copies of the loop.
        EarlyLoads(),
        LoadsBeforeProducts(options),
        SharedExtremes(),
        # What loops carry in place of tiles of pointers and of what is reduced.
        CarriedPointers(),
        LateReductions(options),
        BatchedLoads(options, decided),
        SharedDivisors(),
        Partition(options, decided),
    ]


def roles(options: Options, decided: Decisions, slack: Slack) -> list[Any]:
    """Over the aref level: what each role does when, and how far ahead."""
    roomy = not slack.registers and slack.stages > 1
    return [
        # While it is seen which loops only add up products.
        Slices(options, decided),
        # Before everything that takes products for those of warp groups.
        WarpProducts(options, decided),
        # While loads, gets and products are as partition leaves them.
        Conversions(options, decided, enabled=roomy),
        Transposes(decided),
        # Once rings are final.
        LastIterationPeeling(decided),
        OwnMasks(decided),
        # Before the schedule, which counts what is skipped as cheap.
        ConditionalRescaling(),
        PartialSums(),
        ScheduleLoops(options, decided, slack.registers, slack.stages, slack.joined, slack.narrow),
        # Where a pipeline's first iteration stands apart.
        ZeroProducts(),
        AsyncDots(options, decided, slack.in_flight, slack.shared),
        # Once products say what they stage.
        RegisterPrefetch(decided, enabled=roomy),
        SinkReads(),
        SinkStores(),
        # Once products say where they read their operands.
        ResidentOperands(decided, enabled=roomy),
        PingPong(decided),
        NamedBarrierPingPong(options, decided),
        # Before slots are shared out, and once products say when they return theirs.
        SharedSlots(decided, slack.shared),
        # Before what depends on the depth: how far loads run ahead.
        Depths(options, decided, slack.bytes),
        Prefetch(options, decided),
        # After all passes that add or move puts and gets.
        Cursors(),
        Tidy(),
    ]


def hopper(options: Options, decided: Decisions, slack: Slack) -> list[Any]:
    """Towards the hopper level, and over it."""
    return [
        LowerToHopper(options, decided, slack.narrow, slack.registers),
        Tidy(),
        # Once everything lies where it does in shared memory.
        RedundantBarrierElimination(decided),
        # How the same ops are written: what the assembler may put together, and what not.
        *separate_roundings(options),
        Strips(options),
        UnreadRegisters(),
        FreeLoops(),
    ]


def dividing(steps: Sequence[Pass]) -> int:
    """The number of the pass that divides a program into roles."""
    return next(i for i, step in enumerate(steps) if isinstance(step, Partition))


def choosing(steps: Sequence[Pass]) -> int:
    """The number of the first pass whose choices an attempt may make otherwise."""
    return next(i for i, step in enumerate(steps) if isinstance(step, ScheduleLoops))


def sizing(steps: Sequence[Pass]) -> int:
    """The number of the pass that depends on what a kernel leaves of shared memory."""
    return next(i for i, step in enumerate(steps) if isinstance(step, Depths))
