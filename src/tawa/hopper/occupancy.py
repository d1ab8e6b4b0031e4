"""One more CTA on a multiprocessor, where the assembler took a few registers too many for it.

Ordinary code waits for memory and at barriers, and what hides that is other warps. The assembler
takes the registers that the code can use, and does not know that a few fewer would let one more CTA
in. Products of warp groups are left alone: their registers are the roles'.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from tawa.base.target import CTA_BYTES, Target
from tawa.hopper.ops.core import number

FEW_WARPS = 24
"""A multiprocessor with as many warps hides latencies without more of them."""
LARGEST_CUT = 0.2
"""Of its registers, what the assembler is asked to do without."""
MOST_THREADS = 2048
"""Threads of a multiprocessor."""


@dataclass(frozen=True)
class Occupancy:
    """What a CTA of a kernel takes of a multiprocessor."""

    target: Target
    threads: int
    registers: int
    """Of a thread."""
    shared_bytes: int

    @property
    def by_registers(self) -> int:
        """CTAs that the register file holds."""
        step = self.target.register_step
        return self.target.registers // (-(-max(1, self.registers) // step) * step * self.threads)

    @property
    def by_others(self) -> int:
        """CTAs that shared memory and threads allow."""
        memory = self.target.shared_bytes + CTA_BYTES
        return min(memory // (self.shared_bytes + CTA_BYTES), MOST_THREADS // self.threads)

    @property
    def one_more(self) -> int | None:
        """A number of CTAs to ask for, one above what fits now; None if it is too far away."""
        now, wanted = self.by_registers, self.by_registers + 1
        if wanted > self.by_others or now * self.threads >= FEW_WARPS * 32:
            return None
        step = self.target.register_step
        allowed = self.target.registers // (wanted * self.threads) // step * step
        return wanted if allowed >= (1 - LARGEST_CUT) * self.registers else None


@dataclass(frozen=True)
class ShareMultiprocessor:
    """Ask the assembler for registers that let so many CTAs share a multiprocessor."""

    ctas: int
    name: ClassVar[str] = "share-multiprocessor"

    def apply(self, module: ModuleOp) -> None:
        """Set the kernel's bound; how it is launched stays as it is."""
        for kernel in module.ops:
            if isinstance(kernel, func.FuncOp):
                kernel.attributes["hopper.ctas_per_sm"] = number(self.ctas)


def may_share(text: str) -> bool:
    """Whether a `.hopper` stage is ordinary code of one role, with the assembler's registers."""
    return not any(word in text for word in ("hopper.wgmma ", "registers = ", "hopper.cluster = 2"))
