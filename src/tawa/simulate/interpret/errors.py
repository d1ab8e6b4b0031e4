"""What the simulator reports: one class a rule of the machine that a program breaks.

The examples break a correct kernel by one edit each (`protocols`).
"""

from __future__ import annotations

from tawa.base.errors import TawaError


class ProtocolError(TawaError, group=True):
    """A program breaks a rule of the machine's communication."""


def _example(edit: str) -> str:
    return f"""
from protocols import broken

broken("{edit}").simulate()
"""


class ReadBeforeFull(ProtocolError):
    """Nothing orders a read of shared memory after the write that it needs."""

    explanation = (
        "Somebody reads bytes of shared memory that the write may not have filled yet. The full "
        "barrier is not waited for, is waited for with the wrong parity, or belongs to another "
        "slot. On hardware the read gives what happens to be there. The error is reported even if "
        "this run's schedule gave the right bytes."
    )
    example = _example("consumer waits for the other phase")


class OverwriteWhileBorrowed(ProtocolError):
    """Shared memory is written while somebody may still be reading it."""

    explanation = (
        "A slot is filled again while a reader may not be done. Matrix instructions read shared "
        "memory at any time until they are waited for. So with P of them in flight, iteration k "
        "may only return the slot of iteration k - P. Return the slot after the wait that covers "
        "its last reader, and let the writer wait for the return."
    )
    example = _example("slot returned before its matrix instruction is done")


class OverwriteUnread(ProtocolError):
    """Nothing orders a write of shared memory after an earlier write of the same bytes."""

    explanation = (
        "The second write may come first, or destroy what nobody has read. A producer waits for "
        "the slot's empty barrier before it fills it again."
    )
    example = _example("producer does not wait for empty")


class StoreStillReading(ProtocolError):
    """Shared memory is written (or given back) while a bulk store may still be reading it."""

    explanation = (
        "TMA stores read their staging buffer asynchronously. The thread that issued them waits "
        "(`bulk_wait_read`), then the other threads are told (a named barrier), and only then may "
        "the buffer be written again, or the CTA end."
    )
    example = _example("staging reused without waiting for its store")


class WrongByteCount(ProtocolError):
    """The bytes announced to an mbarrier are not those that its copies move."""

    explanation = (
        "`expect_tx` announces the bytes that must land before the phase completes. If it "
        "announces too few, waiters go on before the data is there. If it announces too many, "
        "they wait for ever. A box counts with its full size, also where it reaches over the "
        "tensor's edge."
    )
    example = _example("half the bytes announced")


class DoubleArrive(ProtocolError):
    """A participant arrives twice in one phase of an mbarrier."""

    explanation = (
        "A second arrival of the same participant stands in for somebody else's, so the phase "
        "completes while a consumer is still reading. Each participant arrives once a phase."
    )
    example = _example("consumer returns the slot twice")


class WrongArrivalCount(ProtocolError):
    """An mbarrier expects another number of arrivals than its phases get."""

    explanation = (
        "The number given to `mbarrier_init` is the number of arrivals that complete a phase. A "
        "slot's empty barrier gets one from each consumer group (from one elected thread) that "
        "returns the slot, in every CTA that shares it. Where all threads arrive, each of them "
        "counts."
    )
    example = _example("empty barrier expects three consumers")


class PhaseAliased(ProtocolError):
    """An mbarrier completes a second phase while somebody still waits for the one before."""

    explanation = (
        "A wait names a phase by its parity, so it tells two neighbouring phases apart and no "
        "more. If a group can get more than one phase ahead of a waiter, the waiter sleeps through "
        "the phase it needs."
    )
    example = _example("turn passed twice")


class MissingProxyFence(ProtocolError):
    """An engine comes after ordinary accesses of the same bytes without a proxy fence between."""

    explanation = (
        "The TMA engine and the tensor core reach shared memory through the asynchronous proxy. "
        "Ordinary writes (`st.shared`, `stmatrix`) become visible to it by `fence.proxy.async` in "
        "the writing threads, followed by the barrier that tells the issuing thread. An ordinary "
        "load (`ld.shared`, `ldmatrix`) may still be in flight when its thread is at a barrier: "
        "before the TMA engine fills the bytes again, the reading threads fence as well."
    )
    example = _example("proxy fence dropped")


class BarrierNotInitialised(ProtocolError):
    """An mbarrier is used before its initialisation is known to the user."""

    explanation = (
        "One thread initialises the mbarriers and makes that visible (`fence.mbarrier_init`). "
        "Then all threads of the CTA meet before the first use: those of the cluster, if it has "
        "several CTAs."
    )
    example = _example("no meeting after barrier initialisation")


class AccumulatorInFlight(ProtocolError):
    """Registers of a matrix instruction in flight are read, moved or written."""

    explanation = (
        "`wgmma` is asynchronous. From its issue until a `wgmma_wait` that leaves it not pending, "
        "its accumulator belongs to it, and so does a fragment that it takes as A. A loop that "
        "carries the accumulator must carry the same registers: otherwise they are moved."
    )
    example = _example("accumulator read with a group in flight")


class MissingWgmmaFence(ProtocolError):
    """A matrix instruction takes registers that were written after the last `wgmma_fence`."""

    explanation = (
        "`wgmma.fence` orders ordinary register writes before the matrix instructions that use "
        "them: before the first one, and whenever an accumulator or A fragment was written since."
    )
    example = _example("no wgmma fence")


class StaleFragment(ProtocolError):
    """A value is read whose registers have been overwritten in place."""

    explanation = (
        "Accumulators are changed in place. After the matrix instruction (or the loop step) the "
        "old value exists no more; a program that needs it makes a `hopper.copy` first."
    )
    example = _example("old accumulator used")


class SharedMemoryOverlap(ProtocolError):
    """Two allocations of shared memory overlap, or one leaves the CTA's share."""

    explanation = (
        "Every ring and every row of mbarriers has its own bytes. A ring that deliberately takes "
        "another's place carries the attribute `hopper.alias`; its accesses are checked like all "
        "others. Tiles with a swizzle of S bytes start at a multiple of 8 S."
    )
    example = _example("staging overlaps the ring")


class RegistersOverPool(ProtocolError):
    """The roles' register counts exceed what the launch was given."""

    explanation = (
        "`setmaxnreg` moves registers between warp groups, within the pool that the launch got: "
        "threads x floor(65536 / threads / 8) x 8. A request over the pool waits for ever. It is "
        "an instruction of whole warp groups."
    )
    example = _example("too many registers")


class NamedBarrierMismatch(ProtocolError):
    """The users of a named barrier do not agree on its threads."""

    explanation = (
        "Threads meet at `bar.sync id, n` once n of them have arrived. So all users give the same "
        "n, and n is the number of threads that come, in whole warps. Barrier 0 is "
        "`__syncthreads`."
    )
    example = _example("named barrier with too few threads")


class Deadlock(ProtocolError):
    """No actor can go on."""

    explanation = (
        "Every unfinished actor waits for something that will not happen. The message lists who "
        "waits for what, and what the barriers have got so far."
    )
    example = _example("slot never returned")


class ManyIssuers(ProtocolError):
    """An instruction for one thread is executed by many."""

    explanation = (
        "TMA copies, their announcement and mbarrier initialisation are executed once for each "
        "thread that runs them. Put them into `hopper.one_thread` or a `single` role."
    )
    example = _example("all threads issue the store")


class ClusterExit(ProtocolError):
    """A CTA may end before others of its cluster are done with its shared memory."""

    explanation = (
        "Remote arrivals and multicast copies go into another CTA's shared memory, which exists "
        "only while that CTA runs. The CTAs of a cluster meet (`cluster_sync`) after the last such "
        "access."
    )
    example = _example("no meeting before the cluster ends")


class OutOfBounds(ProtocolError):
    """An access touches memory that belongs to no array and no allocation."""

    explanation = (
        "The address lies outside the arrays of the launch (or outside the CTA's shared memory). "
        "Pointer accesses need a mask at the edges; descriptors clip by themselves."
    )
    example = _example("slot index one too far")


class Misaligned(ProtocolError):
    """An access is not aligned as its width demands."""

    explanation = (
        "A vector access needs an address that is a multiple of its size. A TMA copy needs a tile "
        "at a multiple of 128 bytes, and begins at a column whose bytes are a multiple of 16. A "
        "ring with a swizzle of S bytes starts at a multiple of 8 S."
    )
    example = _example("ring not aligned to its swizzle")


class NotAWarpGroup(ProtocolError):
    """A matrix instruction is executed by something else than one warp group."""

    explanation = "`wgmma` is an instruction of four consecutive warps, all of their threads."
    example = _example("consumers not at a warp group's boundary")


class CopyAfterExit(ProtocolError):
    """A CTA may end while a copy into its shared memory is under way."""

    explanation = (
        "The TMA engine writes into shared memory that may belong to another CTA by then. Every "
        "copy that is started must be waited for, also those that a prefetch starts in vain."
    )
    example = _example("one load too many")


class UnsafeInterleaving(ProtocolError):
    """Some interleaving of the actors deadlocks, races, or shifts a phase."""

    explanation = (
        "The search through all interleavings found one that goes wrong. The table shows it: each "
        "actor has a column, and time runs down. `tawa check` searches for errors that depend on "
        "the schedule. Most errors are found before, by the vector clocks of a single run."
    )
    example = """
from protocols import broken

edit = "one more matrix instruction in flight than the return allows"
broken(edit).check(clocks=False)
"""


class OutsideCriticalRegion(ProtocolError):
    """A view of a slot is used before its `get_enter` allows it, or after its return."""

    explanation = (
        "The views that `get_enter` gives may be read until `consumed` returns their slot; those "
        "of `put_enter` may be filled until `put_exit`. Asynchronous dots read their views until "
        "they are waited for."
    )
    example = """
from aref_protocols import broken

broken("view read after its return").simulate()
"""


class SlotOutOfTurn(ProtocolError):
    """A slot of a ring is filled or got in another iteration than its cursor says."""

    explanation = (
        "The k-th put and the k-th get of a ring use slot k mod D. A cursor that is moved twice, "
        "or not past the puts that other teams take, meets a slot in another iteration."
    )
    example = """
from aref_protocols import broken

broken("put cursor moved by two").simulate()
"""


class TurnsDependOnData(TawaError):
    """A prediction moves no data, but how often a loop iterates depends on data."""

    explanation = (
        "The timing model runs a kernel's control flow without its data: loads give zeros. So a "
        "`while` whose condition depends on what is loaded has no end of its own. (Numbers that "
        "programs draw from a counter by additions are known: all programs draw in turn.) `tawa "
        "run` and `tawa check` move the data."
    )
    example = """
import numpy as np
import tawa
import tawa.language as tl
from tawa.simulate import predict_launch


@tawa.jit
def wait(flag, N: tl.constexpr):
    while tl.load(flag) == 0:
        tl.debug_barrier()


module = wait.compile("*i32", 1).module("hopper")
predict_launch(module, (1,), [np.ones(1, np.int32)], clock_ghz=1.7)
"""
