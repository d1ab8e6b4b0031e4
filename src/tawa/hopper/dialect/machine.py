"""What an op of the hopper level may ask of the machine that executes it.

An op's `run` is its executable meaning, written against these two protocols; `simulate` provides
the machine. The instructions mirror the functions of `hopper.dialect.prelude`, one for one.

An *actor* is up to four consecutive warps that walk through the program together: a warp group, or
fewer warps. Scalars are one value an actor; a fragment is an array `[threads, registers]` with the
actor's threads alone. Shared-memory places (rings, tiles, barriers) are byte addresses in the
CTA's shared memory, matrix descriptors the 64-bit words that the hardware reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from xdsl.ir import Attribute, Operation, Region, SSAValue

from tawa.base.layout import Layout
from tawa.base.numerics import Array


class Wait(Protocol):
    """What an actor waits for; it goes on once `ready` is true."""

    def ready(self) -> bool:
        """Whether the actor may go on."""
        ...


Steps = Iterator[Wait]
"""An op that may block yields what it waits for."""


class Place(Protocol):
    """Where an actor stands in the launch."""

    threads: int
    """Threads of the actor."""
    first_thread: int
    """The actor's first thread, counted in its team."""
    team: int
    """Which team of its role."""
    rank: int
    """Which CTA of its cluster."""
    block: tuple[int, int, int]
    """The CTA's index in the launch grid."""
    grid: tuple[int, int, int]
    """CTAs of the launch grid."""


class Values(Protocol):
    """An actor's registers."""

    def value(self, name: SSAValue) -> Any:
        """A scalar (0-d array or int), an address, a descriptor, a tensor map."""
        ...

    def integer(self, name: SSAValue) -> int:
        """A scalar integer."""
        ...

    def bind(self, name: SSAValue, value: Any) -> None:
        """Give a value that is no fragment."""
        ...

    def fragment(self, name: SSAValue) -> Array:
        """A fragment's registers, `[threads, registers]`, for reading."""
        ...

    def new_fragment(self, name: SSAValue, registers: Array) -> None:
        """Give a fragment registers of its own."""
        ...

    def alias(self, name: SSAValue, of: SSAValue) -> None:
        """Let a value stand for the registers of another."""
        ...

    def window(self, name: SSAValue, of: SSAValue, first: int, count: int) -> None:
        """Let a value stand for some of another's registers."""
        ...

    def overwrite(self, name: SSAValue, of: SSAValue, number: float) -> None:
        """Set another value's registers in place; `name` stands for them from now on."""
        ...

    def coordinates(self, layout: Layout) -> Array:
        """Tile coordinates of the actor's part of a fragment: `[threads, registers, rank]`."""
        ...

    def owners(self, layout: Layout) -> Array:
        """`[threads]`: whether the thread holds the first of several copies."""
        ...

    def from_lane(self, registers: Array, mask: int) -> Array:
        """The registers of the lane whose index differs in the bits of `mask`."""
        ...


class SharedMemory(Protocol):
    """Instructions on shared memory; addresses are arrays of byte addresses."""

    def shared_store(self, at: Array, values: Array, element: Attribute, by: Array) -> None:
        """Write `values[thread, i]` at `at[thread, i]` in the threads where `by` is true."""
        ...

    def shared_load(self, at: Array, element: Attribute, by: Array | None = None) -> Array:
        """Read the elements at `at`, in the threads where `by` is true (else anything)."""
        ...

    def fence_proxy_global(self) -> None:
        """Order ordinary writes to global memory before later asynchronous accesses."""
        ...

    def fence_proxy_async(self) -> None:
        """Order ordinary shared-memory accesses before later asynchronous ones."""
        ...


class GlobalMemory(Protocol):
    """Instructions on global memory; `count` consecutive elements from each address."""

    def global_load(self, at: Array, element: Attribute, count: int, by: Array) -> Array:
        """The elements from `at[...]`, shape `[..., count]`; zeros where `by` is false."""
        ...

    def global_store(self, at: Array, values: Array, element: Attribute, by: Array) -> None:
        """Write `values[..., j]` from `at[...]` on, where `by` is true."""
        ...

    def global_update(self, at: int, element: Attribute, change: Callable[[Array], Array]) -> Array:
        """Change one element atomically; returns the old one."""
        ...


class Barriers(Protocol):
    """mbarriers, named barriers and what orders them."""

    def slot_within(self, slot: int, slots: int) -> int:
        """The index of one of a ring's `slots`."""
        ...

    def mbarrier_at(self, row: int, slots: int, slot: int) -> int:
        """The address of one of a row's `slots`."""
        ...

    def mbarrier_init(self, barrier: int, arrivals: int) -> None:
        """Set the arrivals of each phase."""
        ...

    def fence_barrier_init(self) -> None:
        """Make initialised mbarriers visible to the cluster and to the TMA engine."""
        ...

    def mbarrier_expect(self, barrier: int, size: int) -> Steps:
        """Arrive once and expect `size` bytes in this phase."""
        ...

    def mbarrier_arrive(self, barrier: int, cta: int | None) -> Steps:
        """Arrive, each running thread once."""
        ...

    def mbarrier_wait(self, barrier: int, parity: int) -> Steps:
        """Wait until the phase of this parity has completed."""
        ...

    def named_barrier(self, barrier: int, threads: int, wait: bool) -> Steps:
        """Arrive at a named barrier and, with `wait`, until `threads` threads have."""
        ...

    def cta_sync(self) -> Steps:
        """Wait for all threads of the CTA."""
        ...

    def cluster_sync(self) -> Steps:
        """Wait for all threads of the cluster."""
        ...


class Engines(Protocol):
    """The TMA engine, copies of threads and the tensor core."""

    def tma_load(
        self, map_: Any, coordinates: Sequence[int], tile: int, barrier: int, ctas: int | None
    ) -> Steps:
        """Copy one box into shared memory (of each CTA in the bit mask) and count its bytes."""
        ...

    def tma_store(
        self, map_: Any, coordinates: Sequence[int], tile: int, reduce: str | None = None
    ) -> Steps:
        """Copy one box from shared memory, or combine it into global memory."""
        ...

    def bulk_commit(self) -> None:
        """Close this thread's group of stores."""
        ...

    def bulk_wait_read(self, pending: int) -> Steps:
        """Wait until all but the newest `pending` groups have read their tiles."""
        ...

    def bulk_wait(self, pending: int) -> Steps:
        """Wait until all but the newest `pending` groups are complete."""
        ...

    def copy_async(
        self, to: Array, at: Array, what: tuple[Attribute, int], wanted: Array, by: Array
    ) -> None:
        """Start copies of `what` (element type, count) from `at` to shared memory, `[threads, n]`.

        Zeros are written where `wanted` is false, nothing where `by` is.
        """
        ...

    def copy_arrive(self, barrier: int) -> Steps:
        """Arrive, each running thread once, when all copies started so far have landed."""
        ...

    def wgmma_fence(self) -> None:
        """Order register writes before matrix instructions."""
        ...

    def wgmma(self, op: Operation) -> Steps:
        """Issue one matrix instruction; `op` is a `hopper.wgmma`."""
        ...

    def wgmma_commit(self) -> None:
        """Close the group of matrix instructions."""
        ...

    def wgmma_wait(self, pending: int) -> Steps:
        """Wait until at most `pending` groups are in flight."""
        ...


class Recording(Protocol):
    """What an actor writes down about itself."""

    def timestamp(self, segment: int, index: int) -> None:
        """Note that point `index` of a segment is passed."""
        ...

    def say(self, text: str) -> None:
        """Print a line that names the program."""
        ...

    def assertion_failed(self, message: str, place: Sequence[int]) -> None:
        """Stop: the kernel's own check does not hold for the element at a place."""
        ...


class Control(Protocol):
    """Regions."""

    def region(self, region: Region) -> Steps:
        """Run a region with all the actor's warps."""
        ...

    def role(self, op: Operation) -> Steps:
        """Run the region of a `hopper.role` if the actor belongs to it."""
        ...

    def one_thread(self, scope: str, region: Region) -> Steps:
        """Run a region in the first thread of the scope, if the actor holds it."""
        ...


class Actor(
    Place, Values, SharedMemory, GlobalMemory, Barriers, Engines, Recording, Control, Protocol
):
    """All of it."""
