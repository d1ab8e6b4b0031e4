"""The TMA engine, copies of threads and the tensor core, as an actor's instructions start them.

They work at any time between the issue and the wait that covers them. Data is moved at the latest
moment (a schedule may choose an earlier one for copies); that no other moment would give another
result is what the checks at the issue establish.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from tawa.base.numerics import Array, decode, encode, storage_dtype
from tawa.base.types import byte_size
from tawa.hopper.dialect.machine import Steps
from tawa.hopper.dialect.matrix import Wgmma
from tawa.hopper.dialect.types import FragType
from tawa.machine.chips import SM_90A
from tawa.simulate.interpret import errors
from tawa.simulate.interpret.barriers import Arrival
from tawa.simulate.interpret.clocks import FENCED, SEEN, TIMED, granules_of, region
from tawa.simulate.interpret.cta import Cta
from tawa.simulate.interpret.global_memory import OutsideMemory, TensorMap
from tawa.simulate.interpret.instructions import Instructions
from tawa.simulate.interpret.machine import SWITCH, Machine, Task, Warps
from tawa.simulate.interpret.registers import Ref, Registers
from tawa.simulate.interpret.tensor_core import (
    MatrixDescriptor,
    accumulator_places,
    from_fragment,
    multiply,
)


@dataclass
class StoresRead:
    """Waiting until bulk stores have read their tiles."""

    tasks: Sequence[Task]
    describe: Callable[[], str]

    def ready(self) -> bool:
        """Whether they have."""
        return all(task.done for task in self.tasks)


@lru_cache(maxsize=4096)
def _operand(
    word: int, shape: tuple[int, int], element: Attribute, transposed: bool, granule: int
) -> tuple[Array, Array]:
    """Addresses and granules of an operand."""
    at = MatrixDescriptor.decode(word).addresses(*shape, element, transposed)
    return at, granules_of(at, byte_size(element), granule)


class Engines(Instructions):
    """What an actor has in flight."""

    def __init__(self, machine: Machine, cta: Cta, warps: Warps) -> None:
        super().__init__(machine, cta, warps)
        self.stores: list[tuple[int, Task]] = []
        self.stores_committed = 0
        self.stores_read = 0
        self.copies: list[list[Callable[[], None]]] = [[]]
        """Copies of the actor's threads that have not landed, by the arrival that waits for them
        and those before; the last group has none yet."""
        self.matrix_groups: list[list[Callable[[], None]]] = [[]]
        """Groups not yet done, the open one last."""
        self.matrix_issued: list[Array] = []
        """What all warps had done when they issued a group: it starts when the last has."""

    def value(self, name: SSAValue) -> Any:
        """A value that is no fragment."""
        raise NotImplementedError

    def registers(self, name: SSAValue) -> Registers:
        """The registers of a fragment."""
        raise NotImplementedError

    def bind(self, name: SSAValue, value: Any) -> None:
        """Give a value."""
        raise NotImplementedError

    # --- TMA ------------------------------------------------------------------------------------

    def tma_load(
        self, map_: Any, coordinates: Sequence[int], tile: int, barrier: int, ctas: int | None
    ) -> Steps:
        """Copy one box into shared memory (of each CTA in the bit mask) and count its bytes."""
        assert isinstance(map_, TensorMap)
        self.one_issuer("a TMA load")
        yield SWITCH
        self._tile_fits(map_, tile)
        self._begins_whole(map_, coordinates)
        everyone = self.machine.ctas
        targets = [self.cta] if ctas is None else [c for c in everyone if ctas >> c.rank & 1]
        where = region(tile, map_.bytes, self.cta.shadow.granule)
        record = self.machine.record(self.op, self.doing())
        counted = [self.mbarrier(barrier, target, asynchronous=True) for target in targets]
        for found in counted:
            self.knows(found, found.phase, "a copy that counts")
        ranks, phases = [c.rank for c in targets], [found.phase for found in counted]
        self.trace("load", ranks, barrier, map_.bytes, where, phases)
        for target, found in zip(targets, counted, strict=True):
            conflict = target.shadow.check_write(where, self.clock[0], asynchronous=True)
            if conflict is not None and self.machine.checking:
                self.conflict(conflict, target, writing=True)
            target.shadow.note_write(where, found.component, found.phase + 1, record)
            found.start_copy(self.clock[0])
            if target is not self.cta:
                self.touch_remotely(target, "a multicast copy")

        def execute() -> None:
            data = self._global(lambda: map_.read(self.machine.memory, coordinates), op)
            at = map_.shared_addresses(tile)
            for target in targets:
                target.shared[at] = data
            for found in counted:
                found.land(map_.bytes)

        op = self.op
        self.machine.start(Task(f"the load of {self.doing()}", op, execute))

    def tma_store(
        self, map_: Any, coordinates: Sequence[int], tile: int, reduce: str | None = None
    ) -> Steps:
        """Copy one box from shared memory, or combine it into global memory."""
        assert isinstance(map_, TensorMap)
        self.one_issuer("a TMA store")
        yield SWITCH
        self._tile_fits(map_, tile)
        self._begins_whole(map_, coordinates)
        where = region(tile, map_.bytes, self.cta.shadow.granule)
        group = self.stores_committed + 1
        self.trace("store", where, group, map_.bytes)
        self._note_async_read(where, self.clock[0], self.warps.bulk, group)

        def execute() -> None:
            box = self.cta.shared[map_.shared_addresses(tile)]
            self._global(lambda: map_.write(self.machine.memory, coordinates, box, reduce), op)

        op = self.op
        task = self.machine.start(Task(f"the store of {self.doing()}", op, execute))
        self.stores.append((group, task))

    def _global(self, access: Callable[[], Any], op: Operation | None) -> Any:
        try:
            return access()
        except OutsideMemory as outside:
            self.op = op
            self.outside(outside, "copy")

    def _tile_fits(self, map_: TensorMap, tile: int) -> None:
        if tile % 128:
            self.fail(
                errors.Misaligned,
                "a TMA copy at a tile that does not start at a multiple of 128 bytes",
                expected="a multiple of 128",
                found=f"byte {tile} of shared memory",
                hint="start tiles and subtiles at whole swizzle atoms",
            )
        self.inside(np.array([tile, tile + map_.bytes - 1]), 1)

    def _begins_whole(self, map_: TensorMap, coordinates: Sequence[int]) -> None:
        """A box begins at a whole piece: else the device stops (measured on an H200)."""
        size, first = byte_size(map_.element), coordinates[-1]
        if first * size % SM_90A.copy_unit:
            self.fail(
                errors.Misaligned,
                f"a TMA copy begins inside a piece of {SM_90A.copy_unit} bytes",
                expected=f"a first column that is a multiple of {SM_90A.copy_unit // size}",
                found=f"column {first} of elements of {size} bytes",
                hint="copy from a whole piece on, or through pointers",
            )

    def bulk_commit(self) -> None:
        """Close this thread's group of stores."""
        self.trace("bulk_commit")
        self.stores_committed += 1

    def bulk_wait_read(self, pending: int) -> Steps:
        """Wait until all but the newest `pending` groups have read their tiles."""
        yield from self._stores_over(pending)

    def bulk_wait(self, pending: int) -> Steps:
        """Wait until they are complete: a store of this machine reads and writes at once."""
        yield from self._stores_over(pending)

    def _stores_over(self, pending: int) -> Steps:
        yield SWITCH
        last = self.stores_committed - pending
        self.trace("bulk_wait", pending)
        text = self.doing()
        waiting = StoresRead(
            [task for group, task in self.stores if group <= last],
            lambda: f"{text} waits for its bulk stores",
        )
        if not waiting.ready():
            yield waiting
        self.stores = [(group, task) for group, task in self.stores if group > last]
        self.stores_read = max(self.stores_read, last)
        self.clock[0, :, self.warps.bulk] = self.stores_read

    # --- copies of threads ------------------------------------------------------------------------

    def copy_async(
        self, to: Array, at: Array, what: tuple[Attribute, int], wanted: Array, by: Array
    ) -> None:
        """Start copies of `what` (element type, count) from `at` to shared memory, `[threads, n]`.

        They write through the generic proxy, at any time before the actor's next `copy_arrive`.
        """
        element, count = what
        size = count * byte_size(element)
        self._aligned(at[wanted & by], size)
        self.inside(to, size)
        if (to % size).any():
            self.fail(
                errors.Misaligned,
                f"a copy of {size} bytes to shared memory that {size} does not divide",
                expected=f"multiples of {size}",
                found=f"byte {int(to[(to % size) > 0].flat[0])}",
                hint="copy less at a time, or start tiles at whole swizzle atoms",
            )
        for row, part in self._by_warp():
            if by[part].any():
                self._note_copy(granules_of(to[part][by[part]], size, self.cta.shadow.granule), row)
        op, shared = self.op, self.cta.shared
        places, start, some = (to[by][:, None] + np.arange(size)), at[by], wanted[by]

        def execute() -> None:
            found = self._global(lambda: self.global_load(start, element, count, some), op)
            raw = np.ascontiguousarray(encode(found, element)).view(np.uint8)
            shared[places] = raw.reshape(len(start), size)

        self.copies[-1].append(execute)

    def _note_copy(self, where: Array, row: int) -> None:
        """Check that a copy of a warp may write from now on, and note that it does."""
        self.trace("copy", where)
        conflict = self.cta.shadow.check_write(where, self.clock[row], asynchronous=False)
        if conflict is not None and self.machine.checking:
            self.conflict(conflict, self.cta, writing=True)
        record = self.machine.record(self.op, self.doing())
        self.cta.shadow.note_write(where, self.warps.copies, len(self.copies), record)

    def copy_arrive(self, barrier: int) -> Steps:
        """Arrive, each running thread once, when all copies started so far have landed."""
        yield SWITCH
        found = self.mbarrier(barrier, self.cta)
        self.knows(found, found.phase, "an arrival")
        self.trace("copy_arrive", self.rank, barrier, self.active, found.phase)
        groups, number = self.copies, len(self.copies)
        groups.append([])
        clock = np.zeros_like(self.clock[0])
        clock[TIMED] = self.clock[self.rows, TIMED].max(axis=0)
        clock[[SEEN, TIMED], self.warps.copies] = number
        found.start_arrival(clock)
        arrival, count, op = Arrival(self.name, self.doing(), "own"), self.active, self.op

        def execute() -> None:
            for group in groups[:number]:
                for copy in group:
                    copy()
                group.clear()
            found.arrive(arrival, count, clock)

        self.machine.start(Task(f"the copies of {self.doing()}", op, execute))

    # --- matrix instructions ----------------------------------------------------------------------

    def wgmma_fence(self) -> None:
        """Order register writes before matrix instructions."""
        self.fence_at = self.writes

    def wgmma(self, op: Operation) -> Steps:
        """Issue one matrix instruction."""
        assert isinstance(op, Wgmma)
        if self.active != 128 or self.warps.first % 4:
            self.fail(
                errors.NotAWarpGroup,
                f"a matrix instruction is executed by {self.active} threads",
                expected="the 128 threads of four warps, the first a multiple of 4",
                found=f"{self.active} threads from warp {self.warps.first} on",
                hint="give the role whole warp groups and keep it out of `one_thread`",
            )
        yield SWITCH
        group = self.matrix_committed + 1
        accumulator = self.registers(op.accumulator)
        self._fenced(accumulator)
        accumulator.accumulating, accumulator.version = group, accumulator.version + 1
        self.bind(op.result, Ref(accumulator, accumulator.version))
        a = self._a_operand(op, group)
        b = self._shared_operand(op, op.b, op.b_offset.value.data, (op.n.value.data, False))
        keep = op.accumulate is None or bool(self.value(op.accumulate))
        self.trace("wgmma", group)
        types = op.a_type, _element(op.accumulator)
        at = op.first_register.value.data
        self.matrix_groups[-1].append(lambda: _execute(accumulator, at, (a, b), keep, types))

    def _fenced(self, registers: Registers) -> None:
        if registers.written > self.fence_at:
            self.fail(
                errors.MissingWgmmaFence,
                "a matrix instruction uses registers that were written after the last wgmma_fence",
                expected="`hopper.wgmma_fence` between the writes and the instruction",
                found="no fence since the registers were written",
                hint="fence after the accumulator or the A fragment is set up",
            )

    def _a_operand(self, op: Wgmma, group: int) -> Callable[[], Array]:
        if not isinstance(op.a.type, FragType):
            return self._shared_operand(op, op.a, op.a_offset.value.data, (64, True))
        registers = self.registers(op.a)
        self._fenced(registers)
        registers.operand_of = group
        size, first = byte_size(op.a_type), op.a_offset.value.data
        if size < 4:
            word = first * size // 4
            words, element = slice(word, word + 4), op.a_type
            return lambda: from_fragment(_bytes(registers.data[:, words], element), size)
        last = first + 16 // size
        return lambda: from_fragment(registers.data[:, first:last], size)

    def _note_async_read(
        self, where: Array | slice, clock: Array, component: int, group: int
    ) -> None:
        """Check that an engine may read from now on, and note that it does."""
        conflict = self.cta.shadow.check_read(where, clock, asynchronous=True)
        if conflict is not None and self.machine.checking:
            self.conflict(conflict, self.cta, writing=False)
        record = self.machine.record(self.op, self.doing())
        self.cta.shadow.note_read(where, component, group, record)

    def _shared_operand(
        self, op: Wgmma, name: SSAValue, offset: int, rows: tuple[int, bool]
    ) -> Callable[[], Array]:
        """Check that an operand may be read from now until the group is done."""
        element = op.a_type if rows[1] else op.b_type
        transposed = (op.transpose_a if rows[1] else op.transpose_b) is not None
        size = byte_size(element)
        word = (int(self.value(name)) + offset) & (2**64 - 1)
        at, where = _operand(
            word, (rows[0], 32 // size), element, transposed, self.cta.shadow.granule
        )
        self.inside(at, size)
        self.trace("operand", where, self.matrix_committed + 1)
        group = self.matrix_committed + 1
        self._note_async_read(where, self.common_clock(), self.warps.matrix, group)
        stored = self.cta.shared.view(storage_dtype(element))
        return lambda: decode(stored[at // size], element)

    def wgmma_commit(self) -> None:
        """Close the group of matrix instructions."""
        self.trace("commit")
        self.matrix_committed += 1
        self.matrix_issued.append(self.release())
        self.matrix_groups.append([])

    def wgmma_wait(self, pending: int) -> Steps:
        """Wait until at most `pending` groups are in flight."""
        yield SWITCH
        self.trace("matrix_wait", pending)
        while len(self.matrix_groups) - 1 > pending:
            for execute in self.matrix_groups.pop(0):
                execute()
            self.matrix_done += 1
            self.acquire(self.matrix_issued.pop(0))
        self.clock[:, [SEEN, FENCED], self.warps.matrix] = self.matrix_done

    def ended(self) -> None:
        """The actor's threads exit."""
        open_stores = [task for group, task in self.stores if group > self.stores_read]
        if open_stores:
            self.op = open_stores[0].op
            self.fail(
                errors.StoreStillReading,
                "the CTA may end while a bulk store still reads its shared memory",
                expected="`bulk_wait_read 0` in the storing thread before it ends",
                found=f"{len(open_stores)} stores not waited for: {open_stores[0].name}",
                hint="commit and wait before the end",
            )


def _bytes(words: Array, element: Attribute) -> Array:
    """The elements in an A operand's words."""
    return decode(np.ascontiguousarray(words, np.int32).view(storage_dtype(element)), element)


def _element(value: SSAValue) -> Attribute:
    assert isinstance(value.type, FragType)
    return value.type.element_type


def _execute(
    accumulator: Registers,
    first: int,
    operands: tuple[Callable[[], Array], Callable[[], Array]],
    keep: bool,
    types: tuple[Attribute, Attribute],
) -> None:
    a, b = (read() for read in operands)
    row, column = accumulator_places(len(b))
    part = slice(first, first + row.shape[1])
    start = None
    if keep:
        start = np.empty((64, len(b)), accumulator.data.dtype)
        start[row, column] = accumulator.data[:, part]
    accumulator.data[:, part] = multiply(a, b, start, types)[row, column]
