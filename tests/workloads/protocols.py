"""Broken protocols: small edits of correct kernels, and the error that each of them is.

>>> from protocols import broken, correct
>>> correct("cooperative").simulate()
>>> broken("proxy fence dropped").simulate()      # raises MissingProxyFence
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from handwritten import KINDS, gemm_text, hopper_context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from tawa.base.numerics import Array
from tawa.simulate.check.protocol import CheckReport, check
from tawa.simulate.interpret.hopper import run
from tawa.simulate.interpret.limits import STATES


@dataclass(frozen=True)
class Matrix:
    """A row-major matrix as a descriptor argument."""

    base: Array
    block_shape: tuple[int, int]

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.base.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements."""
        return tuple(s // self.base.itemsize for s in self.base.strides)


@dataclass(frozen=True)
class Kernel:
    """A kernel of the catalogue, with a launch of 256 x 128 x 320."""

    text: str
    k: int = 320

    def module(self) -> ModuleOp:
        """The parsed module."""
        module = Parser(hopper_context(), self.text).parse_module()
        module.verify()
        return module

    @cached_property
    def launch(self) -> tuple[tuple[int, ...], list[Matrix | Array]]:
        """The grid and the arguments a, b, c; where b is copied through pointers, its array too."""
        random = np.random.default_rng(7)
        a = random.standard_normal((256, self.k)).astype(np.float16)
        b = random.standard_normal((128, self.k)).astype(np.float16)
        c = np.full((256, 128), np.nan, np.float16)
        matrices = [Matrix(a, (128, 64)), Matrix(b, (128, 64)), Matrix(c, (64, 64))]
        return (2,), [*matrices, *([b] if "hopper.copy_async" in self.text else [])]

    def simulate(self, seed: int | None = None) -> float:
        """Run it; returns the relative Frobenius error against float64."""
        grid, arguments = self.launch
        run(self.module(), grid, arguments, seed=seed)
        matrices = (m for m in arguments if isinstance(m, Matrix))
        a, b, c = (m.base.astype(np.float64) for m in matrices)
        reference = a @ b.T
        return float(np.linalg.norm(c - reference) / max(np.linalg.norm(reference), 1e-30))

    def check(self, *, clocks: bool = True, bound: int = STATES, schedules: int = 2) -> CheckReport:
        """Check it in every interleaving."""
        grid, arguments = self.launch
        return check(
            self.module(), grid, arguments, clocks=clocks, bound=bound, schedules=schedules
        )


@dataclass(frozen=True)
class Edit:
    """Replace what the pattern `old` finds (its first match) by `new`, in one correct kernel."""

    name: str
    error: str
    """Name of the class that the simulator reports."""
    changes: tuple[tuple[str, str], ...]
    kind: str = "cooperative"

    def apply(self) -> str:
        """The broken text."""
        text = gemm_text(self.kind)
        for old, new in self.changes:
            text, count = re.subn(old, new, text, count=1, flags=re.DOTALL)
            if not count:
                raise ValueError(f"edit {self.name!r} finds nothing to change: {old}")
        return text


def _one_thread(inside: str) -> str:
    """The pattern of a `one_thread group` around `inside`; group 1 is the line itself."""
    start = r'"hopper\.one_thread"\(\) <\{scope = "\w+"\}> \(\{\s*'
    return rf"{start}({inside}[^\n]*)\n\s*\}}\) : \(\) -> \(\)"


_FREE = r"hopper\.bulk_wait_read 0\n.*?(hopper\.named_barrier_sync %name threads 128 \{free\})"
_SECOND = r"(column0 = .*?)"
_ARRIVE = r"hopper\.mbarrier_arrive %empty\[%last\]"

EDITS = (
    Edit("consumer waits for the other phase", "ReadBeforeFull",
         ((r"(%full\[%slot\] parity) %parity", r"\1 %other"),)),
    Edit("producer waits for the other phase", "Deadlock",
         ((r"(%empty\[%slot\] parity) %other", r"\1 %parity"),)),
    Edit("producer does not wait for empty", "OverwriteUnread",
         ((r"hopper\.mbarrier_wait %empty[^\n]*", ""),)),
    Edit("slot never returned", "Deadlock",
         ((_one_thread(_ARRIVE), ""),)),
    Edit("slot returned before its matrix instruction is done", "OverwriteWhileBorrowed",
         ((r"cmpi_sgt\(%k, %zero\)", "cmpi_sge(%k, %zero)"),
          (r"subi\(%k, %one\)", "subi(%k, %zero)"))),
    Edit("one more matrix instruction in flight than the return allows", "OverwriteWhileBorrowed",
         ((r"wgmma_wait 1, %acc4", "wgmma_wait 2, %acc4"),)),
    Edit("consumer does not wait for full", "ReadBeforeFull",
         ((r"hopper\.mbarrier_wait %full[^\n]*", ""),)),
    Edit("half the bytes announced", "WrongByteCount",
         ((r"bytes 32768", "bytes 16384"),)),
    Edit("more bytes announced than copied", "WrongByteCount",
         ((r"bytes 32768", "bytes 49152"),)),
    Edit("one tile of the pair not loaded", "WrongByteCount",
         ((r"hopper\.tma_load %tb[^\n]*", ""),)),
    Edit("consumer returns the slot twice", "DoubleArrive",
         ((rf"({_ARRIVE}[^\n]*)", r"\1\n\1"),)),
    Edit("all threads return the slot", "WrongArrivalCount",
         ((_one_thread(_ARRIVE), r"\1"),)),
    Edit("empty barrier expects three consumers", "WrongArrivalCount",
         ((r"(mbarrier_init %empty arrivals) 2", r"\1 3"),)),
    Edit("empty barrier expects one consumer", "PhaseAliased",
         ((r"(mbarrier_init %empty arrivals) 2", r"\1 1"),)),
    Edit("returned slot index off by one", "Deadlock",
         ((r"(%last = ew\.map remsi\()%before", r"\1%k"),)),
    Edit("returned slot past the end of its row", "OutOfBounds",
         ((r"mbarrier_arrive %empty\[%last\]", "mbarrier_arrive %empty[%depth]"),)),
    Edit("producer fills another slot than it announces", "OverwriteUnread",
         ((r"%b = hopper\.slot %b_ring\[%slot\]", "%b = hopper.slot %b_ring[%zero]"),)),
    Edit("consumer reads another slot than it waited for", "ReadBeforeFull",
         ((r"(math.*?%a = hopper\.slot %a_ring)\[%slot\]", r"\1[%two]"),)),
    Edit("proxy fence dropped", "MissingProxyFence",
         ((r"hopper\.fence_proxy_async", ""),)),
    Edit("staging reused without waiting for its store", "StoreStillReading",
         ((_SECOND + _one_thread(r"hopper\.bulk_wait_read 0"), r"\1"),)),
    Edit("other warps not told that the staging is free", "StoreStillReading",
         ((_SECOND + r"hopper\.named_barrier_sync %name threads 128 \{free\}", r"\1"),)),
    Edit("store issued before all warps have written", "ReadBeforeFull",
         ((r"hopper\.named_barrier_sync %name threads 128 \{written\}", ""),)),
    Edit("end without waiting for the store", "StoreStillReading",
         ((_one_thread(r"hopper\.bulk_wait_read 0 \{end\}"), ""),)),
    Edit("accumulator read with a group in flight", "AccumulatorInFlight",
         ((r"wgmma_wait 0, %sum", "wgmma_wait 1, %sum"),)),
    Edit("no wgmma fence", "MissingWgmmaFence",
         ((r"hopper\.wgmma_fence of %acc [^\n]*", ""),)),
    Edit("old accumulator used", "StaleFragment",
         ((r"wgmma_wait 1, %acc4", "wgmma_wait 1, %acc3"),)),
    Edit("staging overlaps the ring", "SharedMemoryOverlap",
         ((r"smem at 98304", "smem at 97280"),)),
    Edit("barriers outside the CTA's shared memory", "SharedMemoryOverlap",
         ((r"(%turn = hopper\.mbarrier at) 114736", r"\1 114752"),)),
    Edit("ring not aligned to its swizzle", "Misaligned",
         ((r"smem at 49152", "smem at 49280"), (r"smem at 98304", "smem at 98432"))),
    Edit("too many registers", "RegistersOverPool",
         ((r"registers = 224", "registers = 240"),)),
    Edit("named barrier with too few threads", "NamedBarrierMismatch",
         ((r"threads 128 \{written\}", "threads 64 {written}"),)),
    Edit("groups share a named barrier", "NamedBarrierMismatch",
         ((r"(%name = ew\.map addi\()%who", r"\1%zero"),)),
    Edit("all threads issue the store", "ManyIssuers",
         ((_one_thread(r"hopper\.tma_store[^\n]*\n"), r"\1"),)),
    Edit("no meeting after barrier initialisation", "BarrierNotInitialised",
         ((r"hopper\.cta_sync", ""),)),
    Edit("barrier initialisation not fenced", "BarrierNotInitialised",
         ((r"hopper\.fence_barrier_init", ""),)),
    Edit("barriers initialised twice", "BarrierNotInitialised",
         ((r"(hopper\.mbarrier_init %empty[^\n]*)", r"\1\n\1"),)),
    Edit("slot index one too far", "OutOfBounds",
         ((r"%stage = hopper\.slot %staging\[%who\]", "%stage = hopper.slot %staging[%name]"),)),
    Edit("one load too many", "CopyAfterExit",
         ((r"(%puts = ew\.map addi\(%tiles_k,) %zero", r"\1 %one"),)),
    Edit("consumers not at a warp group's boundary", "NotAWarpGroup",
         ((r"first_warp = 8, warps = 4", "first_warp = 10, warps = 2"),
          (r"first_warp = 0", "first_warp = 2"))),
    Edit("lost multicast peer", "WrongByteCount",
         ((r"ctas %everyone", "ctas %one"),), "cluster"),
    Edit("slot returned to one CTA of two", "Deadlock",
         ((r"hopper\.mbarrier_arrive %empty\[%last\] cta %one[^\n]*", ""),), "cluster"),
    Edit("no meeting before the cluster ends", "ClusterExit",
         ((r"hopper\.cluster_sync \{end\}", ""),), "cluster"),
    Edit("only the CTA meets after barrier initialisation", "BarrierNotInitialised",
         ((r"hopper\.cluster_sync", "hopper.cta_sync"),), "cluster"),
    Edit("turn passed twice", "PhaseAliased",
         ((r"(hopper\.mbarrier_arrive %turn[^\n]*)", r"\1\n\1"),), "ping_pong"),
    Edit("turn never passed", "Deadlock",
         ((_one_thread(r"hopper\.mbarrier_arrive %turn"), ""),), "ping_pong"),
    Edit("ping-pong without its order barrier", "ReadBeforeFull",
         ((r"hopper\.mbarrier_wait %turn[^\n]*", ""),), "ping_pong"),
    Edit("arrival that does not wait for the copies", "ReadBeforeFull",
         ((r"hopper\.copy_arrive", "hopper.mbarrier_arrive"),), "copies"),
    Edit("copies not fenced for the tensor core", "MissingProxyFence",
         ((r"hopper\.fence_proxy_async \{copied\}", ""),), "copies"),
    Edit("full barrier expects one arrival, as of the TMA engine alone", "ReadBeforeFull",
         ((r"(mbarrier_init %full arrivals) 129", r"\1 1"),), "copies"),
    Edit("full barrier expects the copying threads alone", "WrongArrivalCount",
         ((r"(mbarrier_init %full arrivals) 129", r"\1 128"),), "copies"),
    Edit("copies do not wait for empty", "OverwriteUnread",
         ((r"hopper\.mbarrier_wait %empty[^\n]*", ""),), "copies"),
    Edit("threads do not arrive for their copies", "ReadBeforeFull",
         ((r"hopper\.copy_arrive [^\n]*", ""), (r"(mbarrier_init %full arrivals) 129", r"\1 1"),
          ), "copies"),
    Edit("both teams start at the first slot", "PhaseAliased",
         ((r"(%start_k = ew\.map muli\()%who", r"\1%zero"),), "ping_pong"),
)  # fmt: skip
"""Every entry."""

BROKEN = {edit.name: edit for edit in EDITS}


def correct(kind: str = "cooperative") -> Kernel:
    """A correct kernel, one of `handwritten.KINDS`."""
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is none of {', '.join(KINDS)}")
    return Kernel(gemm_text(kind))


def broken(name: str) -> Kernel:
    """The kernel that the edit `name` breaks."""
    return Kernel(BROKEN[name].apply())
