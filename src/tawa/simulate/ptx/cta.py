"""One CTA that runs a kernel's PTX, in one of three orders.

`TOGETHER`: warps that come to the same instruction run it together, and copies by the TMA engine
move their data as late as they may: when all threads stand still, or when somebody waits. `FIRST`
and `LAST`: one warp runs as far as it comes, the first or the last that can, and copies move their
data at once. Of the threads of a warp those go on that have not come to where they meet the others
(`ptx.order`). Who waits for a barrier stands still until it lets him go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tawa.base.errors import TawaError
from tawa.base.numerics import Array
from tawa.simulate.interpret.global_memory import GlobalMemory, TensorMap
from tawa.simulate.ptx.arithmetic import Unsupported
from tawa.simulate.ptx.machine import BadAccess, Machine, Region
from tawa.simulate.ptx.order import ranks
from tawa.simulate.ptx.program import Instruction, Kernel

MAPS = 1 << 60
"""Where the addresses of tensor maps begin."""
TOGETHER, FIRST, LAST = "together", "first", "last"
ORDERS = (TOGETHER, FIRST, LAST)
PATIENCE = 10_000
"""Instructions that a warp may be ahead of one that could run, too."""
STEPS = 3_000_000
"""Instructions that a CTA may take."""
NOBODY = 1 << 30
"""A place in the order behind every instruction's."""


class PtxFailed(TawaError):
    """A kernel's PTX does what no program may do, or stops."""

    explanation = (
        "The simulator runs the PTX that the assembler would get. The message has the instruction "
        "at which it stopped. That is an access outside of the launch's arrays or of shared "
        "memory, an instruction that it does not know, or a place at which threads wait for each "
        "other for ever."
    )
    example = """
from tawa.base.kernel_spec import KernelSpec
from tawa.simulate.ptx.launch import run

spec = KernelSpec("k", threads=32, shared_bytes=0, parameters=(), arguments=())
run(".visible .entry k() { bar.red.popc.u32 r, 0, p; }", spec, (1,), [])
"""


@dataclass
class Mbarrier:
    """Counts arrivals and bytes; a phase is over when both are used up."""

    arrivals: int
    pending: int = field(init=False)
    expected: int = 0
    phase: int = 0

    def __post_init__(self) -> None:
        self.pending = self.arrivals

    def arrive(self, count: int = 0, expected: int = 0, landed: int = 0) -> None:
        """Arrivals, bytes that are expected, bytes that have landed."""
        self.expected += expected - landed
        self.pending -= count
        if self.pending < 0:
            raise BadAccess("more arrivals at an mbarrier than it counts")
        if self.pending == 0 and self.expected == 0:
            self.phase, self.pending = self.phase + 1, self.arrivals

    def passes(self, parity: int) -> bool:
        """Whether the phase of this parity is over."""
        return (self.phase - 1) & 1 == parity


@dataclass
class Wait:
    """Threads that stand still until something holds."""

    threads: Array
    over: Callable[[], bool]
    text: str


class Cta(Machine):
    """The threads of one CTA; `maps` are the tensor maps among the kernel's parameters."""

    def __init__(
        self,
        kernel: Kernel,
        parameters: Sequence[int],
        special: dict[str, Array],
        memory: tuple[GlobalMemory, Sequence[Region]],
        shared_bytes: int,
        maps: Mapping[str, TensorMap],
        order: str = TOGETHER,
    ) -> None:
        shared = Region(0, np.full(shared_bytes, 0xFF, np.uint8))  # NaN in every float type
        super().__init__(kernel, parameters, special, memory[1], shared)
        self.memory, self.order, self.taken = memory[0], order, 0
        self.maps: dict[int, TensorMap] = {}
        for number, (name, found) in enumerate(maps.items()):
            self.symbols[name] = MAPS + 128 * number
            self.maps[MAPS + 128 * number] = found
        self.at = np.zeros(self.threads, np.int64)
        self.ranks = np.array(ranks(kernel))
        self.ranked = np.argsort(self.ranks)
        self.turns = np.zeros(self.threads // 32, np.int64)
        self.waits: list[Wait] = []
        self.mbarriers: dict[int, Mbarrier] = {}
        self.meetings: dict[int, Array] = {}
        self.products: dict[tuple[int, str], Array] = {}
        """Who of a warp group has come to a matrix product that others have not come to."""
        self.loads: list[tuple[Callable[[], None], ...]] = []
        """Copies to shared memory that have not landed, and whom each tells."""
        self.stores: dict[int, list[list[Callable[[], None]]]] = {}
        """Copies from shared memory by thread and group; the last group is open."""

    @property
    def ended(self) -> bool:
        """Whether all threads have."""
        return bool((self.at >= len(self.kernel.code)).all())

    def go_on(self, steps: int) -> bool:
        """Take at most so many instructions; whether any was taken."""
        for taken in range(steps):
            standing = self._standing()
            runs = ~standing & (self.at < len(self.kernel.code))
            if not runs.any():
                if not self._land():
                    return taken > 0
                continue
            place = self.ranks[self.at]
            first = np.where(runs, place, NOBODY).reshape(-1, 32).min(axis=1)
            warp = self._next(first < NOBODY)
            chosen = (
                first == first[warp] if self.order == TOGETHER else np.arange(len(first)) == warp
            )
            self.turns[chosen] = self.turns[warp] + 1
            mask = runs & (place == first[warp]) & np.repeat(chosen, 32)
            self._take(int(self.ranked[first[warp]]), mask)
        return True

    def _next(self, able: Array) -> int:
        """The warp whose turn it is, of those that can go on."""
        behind = int(np.where(able, self.turns, NOBODY).argmin())
        if self.order == TOGETHER:
            return behind
        warps = np.flatnonzero(able)
        found = int(warps[0] if self.order == FIRST else warps[-1])
        return found if self.turns[found] < self.turns[behind] + PATIENCE else behind

    def finish(self) -> None:
        """What is under way at the end is done all the same."""
        while self._land():
            pass
        for thread, groups in self.stores.items():
            groups.append([])
            self.stores_over(thread, 0)

    def describe(self) -> str:
        """Who waits for what."""
        return "\n".join(f"{int(w.threads.sum())} threads at {w.text}" for w in self.waits)

    def _standing(self) -> Array:
        standing = np.zeros(self.threads, bool)
        if self.waits:
            self.waits = [wait for wait in self.waits if not wait.over()]
            for wait in self.waits:
                standing |= wait.threads
        return standing

    def _land(self) -> bool:
        if not self.loads:
            return False
        for step in self.loads.pop(0):
            step()
        return True

    def _take(self, number: int, mask: Array) -> None:
        instruction = self.kernel.code[number]
        self.taken += 1
        if self.taken > STEPS:
            raise PtxFailed(
                f"{self.kernel.name} does not end",
                expected=f"at most {STEPS} instructions of a CTA",
                found=f"still at {instruction.place}",
            )
        active = mask
        if instruction.guard is not None:
            name, negated = instruction.guard
            active = mask & (self.raw(name, 1) ^ negated)
        self.at[mask] = number + 1
        try:
            if instruction.opcode[0] in ("ret", "exit"):
                self.at[active] = len(self.kernel.code)
            elif instruction.opcode[0] == "bra":
                target = self.kernel.target(instruction.operands[0], instruction.scope)
                self.at[active] = target
            elif active.any():
                self._step(instruction, active)
        except (BadAccess, Unsupported) as wrong:
            unknown = isinstance(wrong, Unsupported)
            raise PtxFailed(
                "an instruction that the simulator does not know" if unknown else str(wrong),
                expected="instructions of the PTX ISA that kernels consist of" if unknown else "",
                found=instruction.place,
            ) from None

    def stand(self, mask: Array, over: Callable[[], bool], instruction: Instruction) -> None:
        """Let threads stand still."""
        self.waits.append(Wait(mask, over, instruction.place))

    def again(self, mask: Array, instruction: Instruction, over: Callable[[], bool]) -> None:
        """Let threads stand still, and then run the instruction once more."""
        self.at[mask] -= 1
        self.stand(mask, over, instruction)

    def mbarrier(self, address: int) -> Mbarrier:
        """The barrier that was initialised at an address."""
        if address not in self.mbarriers:
            raise BadAccess(f"no mbarrier was initialised at {address}")
        return self.mbarriers[address]

    def map_at(self, address: int) -> TensorMap:
        """The tensor map at an address."""
        if address not in self.maps:
            raise BadAccess(f"no tensor map lies at {address:#x}")
        return self.maps[address]

    def start_load(self, *steps: Callable[[], None]) -> None:
        """Start a copy to shared memory, which lands and then tells its barrier."""
        self.loads.append(steps)
        if self.order != TOGETHER:
            self._land()

    def start_store(self, thread: int, write: Callable[[], None]) -> None:
        """Start a copy from shared memory."""
        if self.order == TOGETHER:
            self.stores.setdefault(thread, [[]])[-1].append(write)
        else:
            write()

    def stores_over(self, thread: int, pending: int) -> None:
        """Let the groups of a thread's stores be over, but the newest that are closed."""
        groups = self.stores.setdefault(thread, [[]])
        for group in groups[: len(groups) - 1 - pending]:
            for store in group:
                store()
            group.clear()
