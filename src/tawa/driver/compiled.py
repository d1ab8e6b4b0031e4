"""A compiled kernel: its stages, and how to read them back."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tawa.base.errors import TawaError
from tawa.base.kernel_spec import KernelSpec
from tawa.base.options import Options
from tawa.base.target import GPUTarget
from tawa.base.user_frames import entries
from tawa.driver.relaunch import Relaunch
from tawa.ir.decisions.decision import D, Decision, of_kind, remarks
from tawa.runtime.compile_log import CompileReport, FunctionUsage

if TYPE_CHECKING:  # a kernel that is launched needs no IR
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

    from tawa.ir.text import Kept


class StageNotReadable(TawaError):
    """A stage that was to replace the compiler's own cannot be read."""

    explanation = (
        "A stage given with `start` or `override` must be in the text form that the compiler "
        "dumps: MLIR for `.tile`, `.aref` and `.hopper`, CUDA C++ for `.cu`."
    )
    example = """
from tawa.driver.compiled import read_module

read_module("builtin.module { tile.load }", "tile")
"""


class NotLaunchable(TawaError):
    """A kernel that was compiled without a launch is launched by itself."""

    explanation = (
        "What a launch or `kernel.warmup(...)` gives can be launched again with all arguments: "
        "`compiled[grid](...)`. What `kernel.compile(...)` gives can't: it was made for types "
        "alone, and knows of no launch."
    )
    example = """
import tawa
import tawa.language as tl

@tawa.jit
def fill(p):
    tl.store(p, 1.0)

fill.compile("*f32")[(1,)]
"""


@cache
def context() -> Context:
    """The dialects of all levels."""
    from xdsl.context import Context
    from xdsl.dialects import arith, builtin, func, scf

    from tawa.aref.dialect.ops import AREF
    from tawa.hopper.dialect import HOPPER
    from tawa.ir.elementwise import EW
    from tawa.tile.dialect.ops import TAWA_TYPES, TILE

    found = Context()
    for dialect in (
        builtin.Builtin,
        arith.Arith,
        scf.Scf,
        func.Func,
        EW,
        TAWA_TYPES,
        TILE,
        AREF,
        HOPPER,
    ):
        found.load_dialect(dialect)
    return found


class KernelMetadata(NamedTuple):
    """What a compiled kernel is launched by, and was compiled with, under Triton's names.

    Memory of the kernel's own is 0 in bytes: what it needs beside its arguments is passed to it.
    """

    name: str
    shared: int
    num_warps: int
    num_ctas: int
    cluster_dims: tuple[int, int, int]
    hash: str
    num_stages: int | None
    maxnreg: int | None
    enable_fp_fusion: bool
    launch_cooperative_grid: bool
    target: GPUTarget = GPUTarget()
    debug: bool = False
    launch_pdl: bool = False
    tmem_size: int = 0
    global_scratch_size: int = 0
    global_scratch_align: int = 1
    profile_scratch_size: int = 0
    profile_scratch_align: int = 1


class Stages(dict[str, "str | bytes"]):
    """The stages of a kernel, with those of Triton's that have a counterpart."""

    def __init__(self, compiled: Compiled) -> None:
        super().__init__(compiled.stages)
        self._compiled = compiled
        if "ptx" in self:
            self["ptx"] = moved_by_bits(str(self["ptx"]))

    def __missing__(self, name: str) -> str | bytes:
        """The stage that stands for one of Triton's; KeyError if there is none."""
        if name == "sass":
            return self._compiled.sass
        return self._compiled.stages[{"ttir": "tile", "ttgir": "hopper"}[name]]


MOVES = re.compile(r"\b((?:ld|st)(?:\.[a-z]\w*(?:::\w+)?)*)\.[uf](8|16|32|64)\b")
"""A load or a store of PTX, up to the type of its elements."""


def moved_by_bits(ptx: str) -> str:
    """PTX whose loads and stores say how many bits they move, as Triton writes it: `.b32`.

    The compiler writes `.u32` or `.f32` for the same instruction: neither moves other bits, and
    both fill a wider register with zeros (PTX ISA, "Operand Size Exceeding Instruction-Type Size").
    """
    return MOVES.sub(r"\1.b\2", ptx)


@entries
@dataclass(frozen=True, repr=False)
class Compiled:
    """A compiled kernel: its stages, how to launch it, and what the compiler had to say."""

    name: str
    stages: dict[str, str | bytes]
    spec: KernelSpec
    log: str
    assembled: CompileReport = CompileReport()
    """What the assembler's log says."""
    decisions: tuple[Decision, ...] = ()
    """What was decided, in order."""
    timings: dict[str, float] = field(default_factory=dict[str, float])
    """Seconds of each stage; empty if it came from the cache."""
    options: Options = field(default=Options(), compare=False)
    """What it was compiled with, as far as a launch says."""
    relaunch: Relaunch | None = field(default=None, compare=False)
    """How it is launched by itself, if it was compiled for a launch or a warm-up."""

    def __getitem__(self, grid: Any) -> Callable[..., Compiled]:
        """With its grid, ready to be called with all arguments, `tl.constexpr` ones too."""
        if self.relaunch is None:
            raise NotLaunchable(
                f"{self.name} was compiled, not for a launch",
                expected="what a launch or `kernel.warmup(...)` gave",
                found="what `kernel.compile(...)` gave",
                hint="launch the kernel itself: `kernel[grid](...)`",
            )
        return partial(self.relaunch, grid)

    def __repr__(self) -> str:
        """The name, what it uses of a multiprocessor, and the stages that can be read."""
        spec = self.spec
        return (
            f"<compiled {self.name}: {spec.threads} threads, {spec.shared_bytes} bytes of shared "
            f"memory; stages {', '.join(self.stages)}>"
        )

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """The decisions as lines for a reader."""
        return remarks(self.decisions)

    @property
    def findings(self) -> tuple[str, ...]:
        """What the assembler reports that costs speed: spills, serialised products."""
        return tuple(f"{found.kind}: {found.text}" for found in self.assembled.findings())

    def decided(self, kind: type[D]) -> tuple[D, ...]:
        """The decisions of one class."""
        return of_kind(self.decisions, kind)

    @property
    def cubin(self) -> bytes:
        """The machine code."""
        found = self.stages["cubin"]
        assert isinstance(found, bytes)
        return found

    @cached_property
    def usage(self) -> FunctionUsage:
        """What the kernel uses of a multiprocessor, as the assembler reports it."""
        return self.assembled.function(self.spec.entry)

    @property
    def n_regs(self) -> int:
        """Registers a thread."""
        return self.usage.registers

    @property
    def n_spills(self) -> int:
        """Words that a thread stores because registers are missing."""
        return self.usage.spill_stores // 4

    @property
    def n_max_threads(self) -> int:
        """Threads that a CTA may have: those that it is launched with."""
        return self.spec.threads

    @property
    def kernel(self) -> bytes:
        """The machine code, under Triton's name."""
        return self.cubin

    @property
    def metadata(self) -> KernelMetadata:
        """Name, shared memory, sizes and options under Triton's names."""
        spec, options = self.spec, self.options
        return KernelMetadata(
            name=spec.entry,
            shared=spec.shared_bytes,
            num_warps=spec.threads // 32,
            num_ctas=math.prod(spec.cluster),
            cluster_dims=spec.cluster,
            hash=self.hash,
            num_stages=options.num_stages,
            maxnreg=options.maxnreg,
            enable_fp_fusion=options.enable_fp_fusion,
            launch_cooperative_grid=options.launch_cooperative_grid,
            launch_pdl=options.launch_pdl,
        )

    @property
    def asm(self) -> dict[str, str | bytes]:
        """The stages under Triton's name: `ptx` and `cubin` are among them.

        Beside them `ttir` stands for `tile`, `ttgir` for `hopper`, and `sass` for the machine code
        as text. Loads and stores of `ptx` are written by bits, `ld.global.v4.b32`, as Triton's.
        """
        return Stages(self)

    def _init_handles(self) -> None:
        """Triton's way to have `n_regs` filled in; here it is at any time."""

    @cached_property
    def hash(self) -> str:
        """A text that differs between kernels whose machine code differs."""
        return hashlib.sha256(self.cubin).hexdigest()

    @property
    def explain(self) -> str:
        """What each pass decided, and what the assembler reported."""
        return "\n".join(self.remarks)

    @cached_property
    def sass(self) -> str:
        """The disassembled machine code (needs the package nvidia-cuda-nvdisasm)."""
        from tawa.runtime.sass import sass_text

        return sass_text(self.cubin)

    def module(self, stage: str) -> ModuleOp:
        """The IR module of the stage `tile`, `aref` or `hopper`: a new one, the caller's own."""
        text = self.stages[stage]
        assert isinstance(text, str)
        known = _LATEST.get((stage, text))
        return known.clone() if known is not None else read_module(text, stage)

    def write(self, folder: Path) -> list[Path]:
        """Write every stage to `folder/name.stage`; returns the paths."""
        folder.mkdir(parents=True, exist_ok=True)
        written: list[Path] = []
        for stage, content in self.stages.items():
            path = folder / f"{self.name}.{stage}"
            path.write_bytes(content.encode() if isinstance(content, str) else content)
            written.append(path)
        return written


def text_of(stage: ModuleOp | str, kept: Kept | None = None) -> str:
    """A stage as the text that is kept for the user. Nothing is chosen by what it says.

    `kept` are texts of attributes, which a kernel's levels share.
    """
    if isinstance(stage, str):
        return stage
    from tawa.ir.text import text_of_op

    return text_of_op(stage, kept)


LATEST = 6
"""Modules that are kept beside their texts: of two kernels, which may be run here next."""

_LATEST: dict[tuple[str, str], ModuleOp] = {}


def remember(stage: str, text: str, module: ModuleOp) -> None:
    """Keep a module that is not changed any more: copying it is quicker than reading its text."""
    if text:
        _LATEST[stage, text] = module
    while len(_LATEST) > LATEST:
        _LATEST.pop(next(iter(_LATEST)))


def read_module(text: str, stage: str) -> ModuleOp:
    """Parse and verify the text of a stage. Raises StageNotReadable."""
    from xdsl.parser import Parser
    from xdsl.utils.exceptions import ParseError, VerifyException

    try:
        module = Parser(context(), text, f"<{stage}>").parse_module()
        module.verify()
    except (ParseError, VerifyException) as error:
        raise StageNotReadable(f"the .{stage} stage cannot be read", found=str(error)) from error
    return module


def spec_of(module: ModuleOp) -> KernelSpec:
    """The kernel spec that a hopper module carries."""
    from xdsl.dialects import func
    from xdsl.dialects.builtin import StringAttr

    kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
    spec = kernel.attributes["tawa.spec"]
    assert isinstance(spec, StringAttr)
    return KernelSpec.from_json(spec.data)
