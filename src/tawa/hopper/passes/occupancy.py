"""More CTAs on a multiprocessor, where the assembler took registers that the code can do without.

Ordinary code waits for memory and at barriers, and what hides that is other warps. The assembler
takes the registers that the code can use, and does not know that fewer would let more CTAs in. Code
that meets at barriers in a loop is asked for much, other code for less; code whose warps multiply
by themselves is asked up to three times. Products of warp groups are left alone: their registers
are the roles'.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp

from tawa.hopper.dialect.core import number
from tawa.hopper.dialect.lanes import Assemble
from tawa.hopper.dialect.matrix import Wgmma
from tawa.hopper.dialect.structure import Role, SharedWarpGroup
from tawa.hopper.dialect.sync import CtaSync
from tawa.hopper.dialect.warp_matrix import WarpProduct
from tawa.ir.contracts import Contract
from tawa.ir.properties import LOWERED
from tawa.ir.walking import every, has
from tawa.machine.chips import Chip

MOST_OPS = 2200
"""Ops of a module whose machine code is made once: two seconds or more.

An op takes NVRTC 13.0 about 1 ms, up to 2 (0.09 to 0.51 s for 74 to 237 ops of seven kernels of the
suite). It bounds how long a compilation takes, and is no property of a chip.
"""


@dataclass(frozen=True)
class Occupancy:
    """What a CTA of a kernel takes of a multiprocessor."""

    target: Chip
    threads: int
    registers: int
    """Of a thread."""
    shared_bytes: int
    meets: bool = False
    """Whether warps wait for each other in a loop, or for what they multiply."""
    by_warps: bool = False
    """Whether warps multiply by themselves."""

    @staticmethod
    def of(
        module: ModuleOp, target: Chip, threads: int, registers: int, shared_bytes: int
    ) -> Occupancy:
        """What a CTA of a module takes with so many registers a thread."""
        by_warps = multiplies_by_warps(module)
        meets = by_warps or meets_in_loops(module)
        return Occupancy(target, threads, registers, shared_bytes, meets, by_warps)

    @property
    def by_registers(self) -> int:
        """CTAs that the register file holds."""
        step = self.target.register_step
        taken = -(-max(1, self.registers) // step) * step * self.target.lanes
        return self.target.schedulers * (self._file // taken) // self._warps

    @property
    def by_others(self) -> int:
        """CTAs that shared memory, threads and the multiprocessor allow."""
        target = self.target
        threads = target.threads // self.threads
        return min(target.ctas_with(self.shared_bytes), threads, target.ctas)

    @property
    def more(self) -> list[int]:
        """Numbers of CTAs to ask for, above what fits now, the best first; none if too far away."""
        now, found = self.by_registers, list[int]()
        # Of numbers that leave a thread as many registers, the largest.
        counts = range(self.by_others, now, -1)
        rooms = list({self._allowed(n): n for n in reversed(counts)}.values())[::-1]
        small, large = self.target.thresholds.occupancy_cuts
        if self.meets:
            # Operands fill the registers: of 15 such kernels that lost over a third all spilled.
            most = small if self.by_warps else large
            wanted = [n for n in rooms if self._cut(n) <= most]
            found += wanted[: 2 if self.by_warps else 1]
        # With fewer warps than it holds, a multiprocessor may hide more of memory's latency.
        few = self.meets or now * self.threads < self.target.threads
        wanted = [n for n in rooms if few and self._cut(n) <= small]
        found += wanted[-1:] if self.meets else wanted[:1] + wanted[-1:]
        return list(dict.fromkeys(found))

    def _allowed(self, ctas: int) -> int:
        """Registers of a thread that leave room for so many CTAs."""
        step, warps = self.target.register_step, -(-ctas * self._warps // self.target.schedulers)
        return self._file // (warps * self.target.lanes) // step * step

    @property
    def _file(self) -> int:
        """Registers of one scheduler, which the warps that it issues share."""
        return self.target.registers // self.target.schedulers

    @property
    def _warps(self) -> int:
        return self.threads // self.target.lanes

    def _cut(self, ctas: int) -> float:
        """Of its registers, what a thread has to do without for so many CTAs."""
        return 1 - self._allowed(ctas) / max(1, self.registers)


@dataclass(frozen=True)
class ShareMultiprocessor:
    """Ask the assembler for registers that let so many CTAs share a multiprocessor."""

    ctas: int
    name: ClassVar[str] = "share-multiprocessor"
    contract: ClassVar[Contract] = Contract(requires=(LOWERED,))

    def apply(self, module: ModuleOp) -> None:
        """Set the kernel's bound; how it is launched stays as it is."""
        for kernel in module.ops:
            if isinstance(kernel, func.FuncOp):
                kernel.attributes["hopper.ctas_per_sm"] = number(self.ctas)


def meets_in_loops(module: ModuleOp) -> bool:
    """Whether all warps of a CTA wait for each other in a loop."""
    loops = [op for op in every(module) if isinstance(op, scf.ForOp | scf.WhileOp)]
    return any(isinstance(op, CtaSync) for loop in loops for op in every(loop))


def multiplies_by_warps(module: ModuleOp) -> bool:
    """Whether warps multiply by themselves: the assembler would fetch all operands at first."""
    return has(module, WarpProduct)


def may_share(module: ModuleOp) -> bool:
    """Whether a module is ordinary code of one role, with the assembler's registers.

    Not if there is so much of it that assembling it again takes long, and not where registers of
    several values are put together: what fewer of them cost there has not been measured.
    """
    ops = every(module)
    if len(ops) > MOST_OPS or any(isinstance(op, Wgmma | Assemble) for op in ops):
        return False
    roles = [op for op in ops if isinstance(op, Role | SharedWarpGroup)]
    clusters = [op for op in module.ops if op.attributes.get("hopper.cluster") == number(2)]
    return not clusters and all(role.registers is None for role in roles)
