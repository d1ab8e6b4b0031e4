"""The instructions of one actor: memory, barriers, the engines; each with its checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from xdsl.ir import Attribute, Operation

from tawa.base.errors import Note, TawaError
from tawa.base.numerics import Array, decode, encode, storage_dtype
from tawa.base.spans import span_of
from tawa.base.types import byte_size
from tawa.hopper.dialect.machine import Steps
from tawa.simulate.interpret import errors
from tawa.simulate.interpret.barriers import Arrival, Mbarrier, NamedBarrier, Passed, Waiter
from tawa.simulate.interpret.clocks import FENCED, LOADED, ROWS, SEEN, TIMED, Conflict, granules_of
from tawa.simulate.interpret.cta import Cta
from tawa.simulate.interpret.global_memory import OutsideMemory
from tawa.simulate.interpret.machine import SWITCH, Event, Machine, Warps


@dataclass
class NamedWait:
    """Waiting for the others at a named barrier."""

    barrier: NamedBarrier
    generation: int
    describe: Callable[[], str]

    def ready(self) -> bool:
        """Whether all have come."""
        return self.barrier.generation > self.generation


class Instructions:
    """Shared and global memory, mbarriers and named barriers of one actor."""

    op: Operation | None = None
    threads: int

    def __init__(self, machine: Machine, cta: Cta, warps: Warps) -> None:
        self.machine, self.cta, self.warps = machine, cta, warps
        self.name = warps.name
        self.rank, self.block, self.grid = cta.rank, cta.block, machine.grid
        self.clock = np.zeros((warps.count, ROWS, len(machine.components.names)), np.int32)
        self.rows = slice(0, warps.count)
        self.active: int = 32 * warps.count
        """Threads that run."""
        self.writes: int = 0
        self.fence_at: int = 0
        self.matrix_committed: int = 0
        self.matrix_done: int = 0

    # --- messages, given by the subclass --------------------------------------------------------

    def fail(self, error: type[TawaError], message: str, **parts: Any) -> NoReturn:
        """Raise, pointing at the current op."""
        raise NotImplementedError

    def doing(self) -> str:
        """Who does what."""
        raise NotImplementedError

    def trace(self, kind: str, *operands: object) -> None:
        """Note a step of communication for the explorer."""
        if self.machine.traces is not None:
            event = Event(kind, operands, self.op, self.doing(), self.rank)
            self.machine.traces[self.name].append(event)

    # --- clocks ---------------------------------------------------------------------------------

    def release(self) -> Array:
        """What the running warps have done and seen, for others to acquire."""
        clock = self.clock[self.rows].max(axis=0)
        for row in range(self.rows.start, self.rows.stop):
            self.clock[row, [SEEN, TIMED], self.warps.components[row]] += 1
        return clock

    def acquire(self, clock: Array) -> None:
        """The running warps have now seen what others released."""
        np.maximum(self.clock[self.rows], clock, out=self.clock[self.rows])

    def common_clock(self) -> Array:
        """What all running warps have seen."""
        return self.clock[self.rows].min(axis=0)

    # --- shared memory --------------------------------------------------------------------------

    def shared_store(self, at: Array, values: Array, element: Attribute, by: Array) -> None:
        """Write `values[thread, i]` at `at[thread, i]` in the threads where `by` is true."""
        size, granule = byte_size(element), self.cta.shadow.granule
        for row, part in self._by_warp():
            mask = by[part]
            if mask.any():
                where = granules_of(self.inside(at[part][mask], size), size, granule)
                self._note_write(where, row)
        chosen = by[: self.active]
        stored = np.ascontiguousarray(encode(values[: self.active][chosen], element))
        where = at[: self.active][chosen][..., None] + np.arange(size)
        self.cta.shared[where] = stored.view(np.uint8).reshape(where.shape)

    def shared_load(self, at: Array, element: Attribute, by: Array | None = None) -> Array:
        """Read the elements at `at`, in the threads where `by` is true (else anything)."""
        size, granule = byte_size(element), self.cta.shadow.granule
        for row, part in self._by_warp():
            read = at[part] if by is None else at[part][by[part]]
            if read.size:
                self._note_read(granules_of(self.inside(read, size), size, granule), row)
        at = at if by is None else np.where(by[:, None], at, 0)
        raw = self.cta.shared[at[..., None] + np.arange(size)]
        return decode(raw.reshape(*at.shape, size).view(storage_dtype(element))[..., 0], element)

    def _by_warp(self) -> list[tuple[int, slice]]:
        if self.active == 1:
            return [(0, slice(0, 1))]
        return [(w, slice(32 * w, 32 * w + 32)) for w in range(self.warps.count)]

    def inside(self, at: Array, size: int) -> Array:
        """The addresses, if elements of `size` bytes there lie in shared memory."""
        if at.size and (at.min() < 0 or at.max() + size > len(self.cta.shared) - 128):
            last = int(at.max()) + size
            self.fail(
                errors.OutOfBounds,
                "an access leaves the CTA's shared memory",
                expected=f"bytes 0 to {len(self.cta.shared) - 128}",
                found=f"bytes {int(at.min())} to {last}",
                hint="check the slot index: it runs from 0 to the ring's depth - 1",
            )
        return at

    def slot_within(self, slot: int, slots: int) -> int:
        """The index, if a ring has such a slot: what lies behind it belongs to others."""
        if not 0 <= slot < slots:
            self.fail(
                errors.OutOfBounds,
                "a slot is taken that its ring has not",
                expected=f"slots 0 to {slots - 1}",
                found=f"slot {slot}",
                hint="check the slot index: it runs from 0 to the ring's depth - 1",
            )
        return slot

    def _note_write(self, where: Array | slice, row: int) -> None:
        clock, shadow = self.clock[row], self.cta.shadow
        self.trace("write", where, row)
        conflict = shadow.check_write(where, clock, asynchronous=False)
        if conflict is not None and self.machine.checking:
            self.conflict(conflict, self.cta, writing=True)
        component = self.warps.components[row]
        record = self.machine.record(self.op, self.doing())
        shadow.note_write(where, component, int(clock[SEEN, component]), record)

    def _note_read(self, where: Array | slice, row: int) -> None:
        clock, shadow = self.clock[row], self.cta.shadow
        self.trace("read", where, row)
        conflict = shadow.check_read(where, clock, asynchronous=False)
        if conflict is not None and self.machine.checking:
            self.conflict(conflict, self.cta, writing=False)
        component = self.warps.components[row]
        record = self.machine.record(self.op, self.doing())
        shadow.note_read(where, component, int(clock[SEEN, component]), record)

    def conflict(self, found: Conflict, cta: Cta, writing: bool) -> NoReturn:
        """Report two accesses that nothing orders."""
        place = cta.granule_place(found.granule)
        other = self.machine.records[found.record] if found.record >= 0 else None
        before = other.text if other else "nothing"
        note = [Note("the other access", span_of(other.op))] if other and span_of(other.op) else []
        component = self.machine.components.names[found.component] if found.component >= 0 else ""
        if found.fence_missing and not found.was_write:
            self.fail(
                errors.MissingProxyFence,
                f"{place} is overwritten asynchronously while an ordinary load may be in flight",
                expected="`fence.proxy.async` in the reading threads before they return the slot",
                found=f"read by {before}",
                hint="add a `hopper.fence_proxy_async` after the reads",
                notes=note,
            )
        if found.fence_missing:
            self.fail(
                errors.MissingProxyFence,
                f"{place} was written by ordinary stores and is now accessed asynchronously",
                expected="`fence.proxy.async` in the writing threads before they tell others",
                found=f"written by {before}",
                hint="add a `hopper.fence_proxy_async` after the writes",
                notes=note,
            )
        if not writing:
            self.fail(
                errors.ReadBeforeFull,
                f"{place} is read before it is full",
                expected="a wait that orders the read after the write that fills it",
                found=f"last written by {before}" if other else "nobody has written it",
                hint="wait for the slot's full barrier, with the parity of this use",
                notes=note,
            )
        if found.was_write:
            self.fail(
                errors.OverwriteUnread,
                f"{place} is written again, unordered with its last write",
                expected="a wait that orders this write after everybody is done with the last one",
                found=f"last written by {before}",
                hint="wait for the slot's empty barrier before filling it again",
                notes=note,
            )
        if component.endswith("bulk stores"):
            self.fail(
                errors.StoreStillReading,
                f"{place} is written while a bulk store may still read it",
                expected="`bulk_wait_read` in the storing thread, then a barrier for the others",
                found=f"stored by {before}",
                hint="wait until the store has read its buffer before it is written again",
                notes=note,
            )
        self.fail(
            errors.OverwriteWhileBorrowed,
            f"{place} is written while {component} may still read it",
            expected="the reader's return of the slot, after its last reader is done",
            found=f"borrowed by {before}",
            hint="return the slot after the wait that completes the last instruction reading it",
            notes=note,
        )

    def fence_proxy_async(self) -> None:
        """Make what the running warps have seen visible to the asynchronous engines.

        Loads are waited for by a fence of the threads that made them, and by no other's.
        """
        self.trace("fence", self.rows)
        part = self.clock[self.rows]
        np.maximum(part[:, FENCED], part[:, SEEN], out=part[:, FENCED])
        if self.active > 1:
            for row in range(self.rows.start, self.rows.stop):
                own = self.warps.components[row]
                self.clock[row, LOADED, own] = self.clock[row, SEEN, own]
        self.release()

    def fence_proxy_global(self) -> None:
        """Nothing: the engines see global memory as it is."""

    # --- global memory --------------------------------------------------------------------------

    def global_load(self, at: Array, element: Attribute, count: int, by: Array) -> Array:
        """The elements from `at[...]`, shape `[..., count]`; zeros where `by` is false."""
        out = np.zeros((*at.shape, count), storage_dtype(element))
        self._aligned(at[by], count * byte_size(element))
        try:
            loaded = self.machine.memory.load(at[by], element, count)
        except OutsideMemory as outside:
            self.outside(outside, "load")
        out = decode(out, element)
        out[by] = loaded
        return out

    def global_store(self, at: Array, values: Array, element: Attribute, by: Array) -> None:
        """Write `values[..., j]` from `at[...]` on, where `by` is true."""
        self._aligned(at[by], values.shape[-1] * byte_size(element))
        try:
            self.machine.memory.store(at[by], values[by], element)
        except OutsideMemory as outside:
            self.outside(outside, "store")

    def global_update(self, at: int, element: Attribute, change: Callable[[Array], Array]) -> Array:
        """Change one element atomically; returns the old one."""
        place, by = np.array([at]), np.array([True])
        old = self.global_load(place, element, 1, by)[:, 0]
        self.global_store(place, change(old)[:, None], element, by)
        return old

    def _aligned(self, at: Array, size: int) -> None:
        if at.size and (at % size).any():
            self.fail(
                errors.Misaligned,
                f"an access of {size} bytes at an address that is not a multiple of {size}",
                expected=f"multiples of {size}",
                found=f"{int(at[(at % size).argmax()]):#x}",
                hint="use narrower accesses, or align the array",
            )

    def outside(self, outside: OutsideMemory, what: str) -> NoReturn:
        """Report an access of global memory outside the arrays."""
        self.fail(
            errors.OutOfBounds,
            f"a {what} outside the launch's arrays",
            expected="addresses of one array that is passed to the kernel",
            found=str(outside),
            hint="mask the access at the edges",
        )

    # --- mbarriers ------------------------------------------------------------------------------

    def mbarrier_init(self, barrier: int, arrivals: int) -> None:
        """Set the arrivals of each phase."""
        self.one_issuer("mbarrier.init")
        self.trace("init", self.rank, barrier, arrivals)
        component = self.cta.barrier_components.get(barrier)
        if component is None:
            self.unknown_barrier(barrier)
        if barrier in self.cta.mbarriers:
            self.fail(
                errors.BarrierNotInitialised,
                f"{self._barrier_label(barrier)} is initialised a second time",
                expected="one `mbarrier_init` of each mbarrier",
                found="an mbarrier that is in use",
                hint="initialise each row of mbarriers once, before the first meeting",
            )
        clock = self.machine.components.clock
        found = Mbarrier(self._barrier_label(barrier), component, arrivals, clock(), clock())
        found.checking = self.machine.checking
        own = self.warps.components[0]
        found.initialised = own, int(self.clock[0, SEEN, own])
        self.cta.mbarriers[barrier] = found

    def fence_barrier_init(self) -> None:
        """Make initialised mbarriers visible to the cluster and to the TMA engine."""
        for barrier in self.cta.mbarriers.values():
            component, time = barrier.initialised
            if self.clock[self.rows, SEEN, component].max() >= time:
                barrier.fenced = True
        self.release()

    def _barrier_label(self, barrier: int) -> str:
        label = self.cta.place(barrier)
        return label if len(self.machine.ctas) == 1 else f"{label} of CTA {self.cta.rank}"

    def unknown_barrier(self, barrier: int) -> NoReturn:
        """There is no mbarrier at this address."""
        self.fail(
            errors.OutOfBounds,
            "an mbarrier instruction outside the mbarriers",
            expected="a slot of the row of mbarriers that it names",
            found=self.cta.place(barrier),
            hint="check the slot index: it runs from 0 to the ring's depth - 1",
        )

    def mbarrier_at(self, row: int, slots: int, slot: int) -> int:
        """The address of one of a row's slots: past its end other mbarriers may lie."""
        if not 0 <= slot < slots:
            self.unknown_barrier(row + 8 * slot)
        return row + 8 * slot

    def mbarrier(self, barrier: int, cta: Cta, asynchronous: bool = False) -> Mbarrier:
        """The mbarrier at an address, known to be initialised to all running warps."""
        found = cta.mbarriers.get(barrier)
        if found is None and barrier not in cta.barrier_components:
            self.unknown_barrier(barrier)
        if found is not None:
            component, time = found.initialised
            known = self.clock[self.rows, SEEN, component].min() >= time
            if known and (found.fenced or not (asynchronous or cta is not self.cta)):
                return found
        self.fail(
            errors.BarrierNotInitialised,
            f"{cta.place(barrier)} is used before its initialisation is visible",
            expected="mbarrier.init, fence.mbarrier_init and a meeting of all threads",
            found="no initialisation yet" if found is None else "an unordered initialisation",
            hint="initialise in one thread, fence, then `hopper.cta_sync` (`cluster_sync`)",
        )
        return None

    def one_issuer(self, what: str) -> None:
        """Raise if more than one thread runs."""
        if self.active != 1:
            self.fail(
                errors.ManyIssuers,
                f"{what} is executed by {self.active} threads",
                expected="one thread",
                found=f"{self.active} threads, each doing it once",
                hint="put it into `hopper.one_thread`",
            )

    def mbarrier_expect(self, barrier: int, size: int) -> Steps:
        """Arrive once and expect `size` bytes in this phase."""
        self.one_issuer("expect_tx")
        yield SWITCH
        found = self.mbarrier(barrier, self.cta)
        self.knows(found, found.phase, "an arrival")
        self.trace("expect", self.rank, barrier, size, found.phase)
        found.arrive(Arrival(self.name, self.doing(), "expect"), 1, self.release(), size)

    def mbarrier_arrive(self, barrier: int, cta: int | None) -> Steps:
        """Arrive, each running thread once."""
        yield SWITCH
        target = self.cta if cta is None else self.machine.ctas[cta]
        found = self.mbarrier(barrier, target)
        self.knows(found, found.phase, "an arrival")
        self.trace("arrive", target.rank, barrier, self.active, found.phase)
        if target is not self.cta:
            self.touch_remotely(target, "a remote arrival")
        arrival = Arrival(self.name, self.doing(), "own" if cta is None else "peer")
        found.arrive(arrival, self.active, self.release())

    def touch_remotely(self, target: Cta, what: str) -> None:
        """Note that another CTA's shared memory is accessed."""
        own = self.warps.components[0]
        time = int(self.clock[0, SEEN, own])
        target.remote.append((own, time, self.op, f"{what} of {self.doing()}"))

    def mbarrier_wait(self, barrier: int, parity: int) -> Steps:
        """Wait until the phase of this parity has completed."""
        yield SWITCH
        found = self.mbarrier(barrier, self.cta)
        passes = found.passes(parity)
        self.knows(found, found.phase - passes, "a wait")
        self.trace("wait", self.rank, barrier, parity, found.phase - passes)
        if not passes:
            text = self.doing()
            waiter = Waiter(
                self.name, found, found.phase, lambda: f"{text} waits for {found.label}, "
                f"parity {parity} (phase {waiter.awaited})",
            )  # fmt: skip
            found.waiters.append(waiter)
            yield waiter
            found.waiters.remove(waiter)
        self.acquire(found.published)
        self._note_passed(found, self.doing(), found.phase - 1)

    def knows(self, barrier: Mbarrier, phase: int, what: str) -> None:
        """Raise unless all running warps come after the phase before.

        If not, a wait may go on a whole round early, and an arrival count in the phase before.
        """
        clock = self.clock[self.rows, TIMED].min(axis=0)
        known = clock[barrier.component] >= phase or barrier.after_last(clock)
        if self.machine.checking and not known:
            self.fail(
                errors.PhaseAliased,
                f"{what} for phase {phase} of {barrier.label} may meet phase {phase - 1} still "
                "running",
                expected="a wait that orders it after the phase before is complete",
                found=f"nothing orders it after phase {phase - 1}",
                hint="wait for every phase in turn, and let a phase take the arrivals of all who "
                "use the slot",
            )

    def _note_passed(self, barrier: Mbarrier, text: str, phase: int) -> None:
        """Note a wait, which has to be over before the next phase completes."""
        running = range(self.rows.start, self.rows.stop)
        components = tuple(self.warps.components[row] for row in running)
        times = tuple(
            int(self.clock[row, SEEN, c]) for row, c in zip(running, components, strict=True)
        )
        barrier.passed.append(Passed(text, components, times, phase))

    # --- named barriers -------------------------------------------------------------------------

    def named_barrier(self, barrier: int, threads: int, wait: bool) -> Steps:
        """Arrive at a named barrier and, with `wait`, until `threads` threads have."""
        yield SWITCH
        if not 0 < barrier < 16 or self.active == 1:
            self.fail(
                errors.NamedBarrierMismatch,
                f"named barrier {barrier} is used by {self.active} threads",
                expected="barriers 1 to 15 (0 is __syncthreads), whole warps",
                found=f"barrier {barrier}, {self.active} threads",
                hint="move it out of `one_thread`, or choose another barrier",
            )
        yield from self._meet((self.rank, barrier), self.cta.named_barrier(barrier), threads, wait)

    def cta_sync(self) -> Steps:
        """Wait for all threads of the CTA."""
        yield SWITCH
        yield from self._meet(
            (self.rank, 0), self.cta.named_barrier(0), self.machine.cta_threads, True
        )

    def cluster_sync(self) -> Steps:
        """Wait for all threads of the cluster."""
        yield SWITCH
        threads = self.machine.cta_threads * len(self.machine.ctas)
        yield from self._meet((-1, 0), self.machine.meeting, threads, True)

    def _meet(
        self, where: tuple[int, int], barrier: NamedBarrier, threads: int, wait: bool
    ) -> Steps:
        text = self.doing()
        self.trace("named", *where, threads, self.active, wait, barrier.generation)
        generation = barrier.arrive(self.name, self.active, threads, self.release())
        if wait:
            waiting = NamedWait(
                barrier, generation, lambda: f"{text} waits for others: {barrier.state()}"
            )
            if not waiting.ready():
                yield waiting
            self.acquire(barrier.published)
