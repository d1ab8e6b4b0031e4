"""mbarriers, named barriers and fences (PTX ISA: parallel synchronisation)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    traits_def,
)
from xdsl.utils.exceptions import VerifyException

from tawa.hopper.dialect.core import HopperOp, Number, number
from tawa.hopper.dialect.machine import Actor, Steps
from tawa.hopper.dialect.text import Writer
from tawa.hopper.dialect.types import BarrierType
from tawa.ir.effects import (
    BARRIER,
    COPYING,
    GLOBAL_PROXY,
    MEETING,
    ORDER,
    PHASE,
    PROXY,
    Effects,
    reads,
    writes,
)
from tawa.machine.chips import SM_90A

ORDERS_MEMORY = "hopper.orders_memory"
"""Attribute of a meeting that accesses to global memory are ordered by."""


def barrier_at(w: Writer, barrier: SSAValue, slot: SSAValue) -> str:
    """The address of one slot's mbarrier."""
    return f"{w.name(barrier)} + {w.name(slot)} * 8"


def barrier_address(m: Actor, barrier: SSAValue, slot: SSAValue) -> int:
    """The address of one slot's mbarrier, of an actor. Raises `OutOfBounds`."""
    kind = barrier.type
    assert isinstance(kind, BarrierType)
    return m.mbarrier_at(m.integer(barrier), kind.slots.data, m.integer(slot))


@irdl_op_definition
class MbarrierInit(HopperOp):
    """Set the arrival count of every slot of a row; before any other use, by one thread."""

    name: ClassVar[str] = "hopper.mbarrier_init"
    barrier: SSAValue = operand_def(BarrierType)
    arrivals: IntegerAttr = prop_def(Number)
    traits = traits_def(Effects(writes(BARRIER, "barrier"), writes(ORDER)))
    assembly_format = "$barrier `arrivals` $arrivals attr-dict `:` type($barrier)"

    def __init__(self, barrier: SSAValue, arrivals: int):
        super().__init__(operands=[barrier], properties={"arrivals": number(arrivals)})

    def cuda(self, w: Writer) -> None:
        """A loop over the slots."""
        assert isinstance(self.barrier.type, BarrierType)
        slots, count = self.barrier.type.slots.data, self.arrivals.value.data
        name = w.name(self.barrier)
        w.line(f"for (int s = 0; s < {slots}; ++s) mbarrier_init({name} + s * 8, {count});")

    def run(self, m: Actor) -> None:
        """Each slot's mbarrier."""
        assert isinstance(self.barrier.type, BarrierType)
        first = m.integer(self.barrier)
        for slot in range(self.barrier.type.slots.data):
            m.mbarrier_init(first + slot * 8, self.arrivals.value.data)


class _Plain(HopperOp):
    """An instruction without operands."""

    TEXT: ClassVar[str] = ""
    assembly_format = "attr-dict"

    def cuda(self, w: Writer) -> None:
        """One instruction."""
        w.line(self.TEXT)


@irdl_op_definition
class FenceBarrierInit(_Plain):
    """Make initialised mbarriers visible to the cluster and to the TMA engine."""

    name: ClassVar[str] = "hopper.fence_barrier_init"
    TEXT: ClassVar[str] = "fence_barrier_init();"
    traits = traits_def(Effects(writes(PROXY)))

    def run(self, m: Actor) -> None:
        """The instruction."""
        m.fence_barrier_init()


@irdl_op_definition
class FenceProxyAsync(_Plain):
    """Order this thread's ordinary shared-memory writes before later asynchronous reads."""

    name: ClassVar[str] = "hopper.fence_proxy_async"
    TEXT: ClassVar[str] = "fence_proxy_async();"
    traits = traits_def(Effects(writes(PROXY)))

    def run(self, m: Actor) -> None:
        """The instruction."""
        m.fence_proxy_async()


@irdl_op_definition
class FenceProxyGlobal(_Plain):
    """Order this thread's ordinary writes to global memory before later asynchronous reads."""

    name: ClassVar[str] = "hopper.fence_proxy_global"
    TEXT: ClassVar[str] = "fence_proxy_global();"
    traits = traits_def(Effects(writes(GLOBAL_PROXY)))

    def run(self, m: Actor) -> None:
        """The instruction."""
        m.fence_proxy_global()


@irdl_op_definition
class GridWait(_Plain):
    """Wait until the kernels before this one on its stream are over, and see what they wrote.

    Of a launch that begins before they end (`launch_pdl`); otherwise they are over.
    """

    name: ClassVar[str] = "hopper.grid_wait"
    TEXT: ClassVar[str] = "grid_wait();"
    traits = traits_def(Effects(reads(ORDER), writes(ORDER)))

    def run(self, m: Actor) -> None:
        """Nothing: the simulated device runs one kernel after the other."""


@irdl_op_definition
class GridRelease(_Plain):
    """Let the next kernel on the stream begin, if it is one that waits by itself."""

    name: ClassVar[str] = "hopper.grid_release"
    TEXT: ClassVar[str] = "grid_release();"
    traits = traits_def(Effects(writes(ORDER)))

    def run(self, m: Actor) -> None:
        """Nothing: the simulated device runs one kernel after the other."""


@irdl_op_definition
class CtaSync(_Plain):
    """All threads of the CTA meet."""

    name: ClassVar[str] = "hopper.cta_sync"
    TEXT: ClassVar[str] = "__syncthreads();"
    traits = traits_def(Effects(reads(MEETING), writes(MEETING)))

    def run(self, m: Actor) -> Steps:
        """The instruction."""
        return m.cta_sync()


@irdl_op_definition
class ClusterSync(_Plain):
    """All threads of the cluster meet."""

    name: ClassVar[str] = "hopper.cluster_sync"
    TEXT: ClassVar[str] = "cluster_sync();"
    traits = traits_def(Effects(reads(MEETING), writes(MEETING), writes(ORDER)))

    def run(self, m: Actor) -> Steps:
        """The instruction."""
        return m.cluster_sync()


@irdl_op_definition
class MbarrierExpect(HopperOp):
    """Arrive once and expect `bytes` of asynchronous copies in this phase."""

    name: ClassVar[str] = "hopper.mbarrier_expect"
    barrier: SSAValue = operand_def(BarrierType)
    slot: SSAValue = operand_def(i32)
    bytes: IntegerAttr = prop_def(Number)
    traits = traits_def(Effects(writes(BARRIER, "barrier"), writes(COPYING)))
    assembly_format = "$barrier `[` $slot `]` `bytes` $bytes attr-dict `:` type($barrier)"

    def __init__(self, barrier: SSAValue, slot: SSAValue, bytes_: int):
        super().__init__(operands=[barrier, slot], properties={"bytes": number(bytes_)})

    def cuda(self, w: Writer) -> None:
        """One instruction."""
        at = barrier_at(w, self.barrier, self.slot)
        w.line(f"mbarrier_expect({at}, {self.bytes.value.data});")

    def run(self, m: Actor) -> Steps:
        """The instruction."""
        at = barrier_address(m, self.barrier, self.slot)
        return m.mbarrier_expect(at, self.bytes.value.data)


@irdl_op_definition
class MbarrierWait(HopperOp):
    """Wait until the phase of this parity has completed."""

    name: ClassVar[str] = "hopper.mbarrier_wait"
    barrier: SSAValue = operand_def(BarrierType)
    slot: SSAValue = operand_def(i32)
    parity: SSAValue = operand_def(i32)
    traits = traits_def(Effects(reads(BARRIER, "barrier"), writes(PHASE, "barrier")))
    assembly_format = "$barrier `[` $slot `]` `parity` $parity attr-dict `:` type($barrier)"

    def __init__(self, barrier: SSAValue, slot: SSAValue, parity: SSAValue):
        super().__init__(operands=[barrier, slot, parity])

    def cuda(self, w: Writer) -> None:
        """A loop around try_wait."""
        at = barrier_at(w, self.barrier, self.slot)
        w.line(f"mbarrier_wait({at}, {w.name(self.parity)});")

    def run(self, m: Actor) -> Steps:
        """The instruction."""
        at = barrier_address(m, self.barrier, self.slot)
        return m.mbarrier_wait(at, m.integer(self.parity))


@irdl_op_definition
class MbarrierArrive(HopperOp):
    """Arrive once, at this CTA's barrier or at that of a CTA of the cluster."""

    name: ClassVar[str] = "hopper.mbarrier_arrive"
    barrier: SSAValue = operand_def(BarrierType)
    slot: SSAValue = operand_def(i32)
    cta: SSAValue | None = opt_operand_def(i32)
    traits = traits_def(Effects(writes(BARRIER, "barrier")))
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$barrier `[` $slot `]` (`cta` $cta^ `:` type($cta))? attr-dict `:` type($barrier)"
    )

    def __init__(self, barrier: SSAValue, slot: SSAValue, cta: SSAValue | None = None):
        super().__init__(operands=[barrier, slot, cta])

    def cuda(self, w: Writer) -> None:
        """One instruction (two for another CTA's)."""
        at = barrier_at(w, self.barrier, self.slot)
        if self.cta is None:
            w.line(f"mbarrier_arrive({at});")
        else:
            w.line(f"mbarrier_arrive_remote({at}, {w.name(self.cta)});")

    def run(self, m: Actor) -> Steps:
        """The instruction."""
        at = barrier_address(m, self.barrier, self.slot)
        return m.mbarrier_arrive(at, None if self.cta is None else m.integer(self.cta))


class _Named(HopperOp):
    """A named barrier that `threads` threads use."""

    TEXT: ClassVar[str] = ""
    barrier: SSAValue = operand_def(i32)
    threads: IntegerAttr = prop_def(Number)
    assembly_format = "$barrier `threads` $threads attr-dict"

    def __init__(self, barrier: SSAValue, threads: int):
        super().__init__(operands=[barrier], properties={"threads": number(threads)})

    def verify_(self) -> None:
        """A number that is known now is one of the hardware's."""
        made = self.barrier.owner
        if not isinstance(made, arith.ConstantOp) or not isinstance(made.value, IntegerAttr):
            return
        if not 0 <= made.value.value.data < SM_90A.named_barriers:
            raise VerifyException(f"there are {SM_90A.named_barriers} named barriers, from 0")

    def cuda(self, w: Writer) -> None:
        """One instruction."""
        w.line(f"{self.TEXT}({w.name(self.barrier)}, {self.threads.value.data});")


@irdl_op_definition
class NamedBarrierSync(_Named):
    """Arrive and wait until all threads have arrived; a warp's meet without the barrier."""

    name: ClassVar[str] = "hopper.named_barrier_sync"
    TEXT: ClassVar[str] = "named_barrier_sync"
    traits = traits_def(Effects(reads(MEETING), writes(MEETING)))

    def cuda(self, w: Writer) -> None:
        """One instruction; none where a warp's lanes are together."""
        if self.threads.value.data == SM_90A.lanes:
            w.line("__syncwarp();")
        else:
            super().cuda(w)

    def run(self, m: Actor) -> Steps:
        """The instruction."""
        return m.named_barrier(m.integer(self.barrier), self.threads.value.data, wait=True)


@irdl_op_definition
class NamedBarrierArrive(_Named):
    """Arrive without waiting."""

    name: ClassVar[str] = "hopper.named_barrier_arrive"
    TEXT: ClassVar[str] = "named_barrier_arrive"
    traits = traits_def(Effects(writes(MEETING)))

    def run(self, m: Actor) -> Steps:
        """The instruction."""
        return m.named_barrier(m.integer(self.barrier), self.threads.value.data, wait=False)


SYNC: Sequence[type[HopperOp]] = (
    MbarrierInit, FenceBarrierInit, FenceProxyAsync, FenceProxyGlobal, GridWait, GridRelease,
    CtaSync, ClusterSync, MbarrierExpect, MbarrierWait, MbarrierArrive, NamedBarrierSync,
    NamedBarrierArrive,
)  # fmt: skip
