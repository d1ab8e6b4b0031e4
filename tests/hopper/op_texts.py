"""CUDA text of single ops: each becomes a kernel of its own, compiled to PTX.

The kernel takes the op's operands from memory and writes its results there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cuda.bindings import nvrtc
from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir import Region as IRRegion

from tawa.base.tile_scheduler import ENTRIES
from tawa.base.types import PlanType
from tawa.hopper.dialect import HopperOp
from tawa.hopper.dialect.atomic import GlobalAtomic, MemoryFence
from tawa.hopper.dialect.debug import Assert, Print
from tawa.hopper.dialect.fragment import Undefined
from tawa.hopper.dialect.gather import SharedHistogram
from tawa.hopper.dialect.matrix import Wgmma, WgmmaWait
from tawa.hopper.dialect.structure import OneThread, Role, SharedWarpGroup
from tawa.hopper.dialect.sync import GridRelease, GridWait
from tawa.hopper.dialect.text import c_type
from tawa.hopper.dialect.trace import TRACE
from tawa.hopper.dialect.types import FragType
from tawa.hopper.emit import KernelWriter, definitions, write_op
from tawa.ir.elementwise import Map
from tawa.ir.scalars.prelude import ELEMENT_TYPES
from tawa.simulate.ptx.program import Kernel, kernels

INPUTS, OUTPUTS = 1 << 59, 1 << 60
APART = 1 << 40
"""Where operands and results lie, and how far from each other."""

STRUCTURE = (Role, SharedWarpGroup, OneThread)
LEFT_OUT = (
    *STRUCTURE,
    Undefined,
    Assert,
    Print,
    GlobalAtomic,
    MemoryFence,
    GridWait,
    GridRelease,
    SharedHistogram,
    *TRACE,
)
"""Ops that are not compared as others: of `STRUCTURE`, who runs the region is."""

HEADER = f"""\
{ELEMENT_TYPES}struct alignas(64) TensorMap {{ char bytes[128]; }};
struct Plan {{ unsigned short entries[{ENTRIES}]; }};
"""

PROLOGUE = """\
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  const u32 smem = u32(__cvta_generic_to_shared(shared_memory));
  const int warp_id = threadIdx.x / 32, lane = threadIdx.x % 32, here = threadIdx.x - first_thread;
  const int warp = first_warp + here / 32, thread = warp * 32 + lane, warp_group = warp / 4;
  (void)smem; (void)warp_id; (void)lane; (void)thread; (void)warp_group;
"""


class _Plain(KernelWriter):
    """A writer that gives values names without hints, so that equal ops have equal texts.

    The region of a role or of one thread becomes a note of who gets there.
    """

    noting = False

    def region(self, region: IRRegion) -> None:
        """Write the ops of a region, or who runs it."""
        if self.noting:
            self.line("reinterpret_cast<i32*>(out0)[here] = team * 65536 + thread;")
        else:
            super().region(region)

    def fresh(self, hint: str | None) -> str:
        """A name."""
        return super().fresh(None)


@dataclass
class OpText:
    """The kernel around one op: its parameters are the inputs, then the outputs."""

    name: str
    text: str
    functions: dict[str, str]
    inputs: list[SSAValue]
    outputs: list[SSAValue]
    kernel: Kernel | None = None


def inputs_of(op: Operation) -> list[SSAValue]:
    """The values from outside that an op or its regions use, but for constants."""
    inside = {id(inner) for inner in op.walk()}
    found: dict[SSAValue, None] = {}
    for inner in op.walk():
        for value in inner.operands:
            owner = value.owner
            home = owner.parent_op() if isinstance(owner, Block) else owner
            if id(home) not in inside:
                found[value] = None
    return list(found)


def text_of(op: Operation, name: str) -> OpText:
    """The kernel around an op."""
    w = _Plain()
    w.depth, w.noting = 1, isinstance(op, Role | OneThread)
    parameters = ["i32 first_thread", "i32 first_warp", "i32 team"]
    found = OpText(name, "", w.functions, [], [])
    for value in () if w.noting else inputs_of(op):
        if isinstance(value.owner, arith.ConstantOp):
            write_op(w, value.owner)
        else:
            found.inputs.append(value)
            parameters.append(_input(w, value, len(found.inputs)))
    write_op(w, op)
    found.outputs = [] if isinstance(op, Wgmma | WgmmaWait) else list(op.results)
    if w.noting:
        parameters.append("u64 out0")
    for number, value in enumerate(found.outputs):
        parameters.append(f"u64 out{number}")
        _output(w, value, f"out{number}")
    body = "\n".join(w.lines)
    head = f'extern "C" __global__ void {name}({", ".join(parameters)}) {{\n{PROLOGUE}'
    found.text = f"{head}{body}\n}}\n"
    return found


def _input(w: KernelWriter, value: SSAValue, number: int) -> str:
    """Bind a value to what a parameter says."""
    type_, source = c_type(value.type), f"in{number}"
    if isinstance(value.type, FragType):
        count, name = value.type.layout.registers, w.declare(value)
        w.line("#pragma unroll")
        place = f"reinterpret_cast<{type_} const*>({source})[here * {count} + i]"
        w.line(f"for (int i = 0; i < {count}; ++i) {name}[i] = {place};")
        return f"u64 {source}"
    if isinstance(value.type, PlanType):
        w.bind(value, f"(*{source})")
        return f"const Plan* {source}"
    w.bind(value, source)
    return f"{type_} {source}"


def _output(w: KernelWriter, value: SSAValue, target: str) -> None:
    """Write a value to memory."""
    type_, name = c_type(value.type), w.name(value)
    if isinstance(value.type, FragType):
        count = value.type.layout.registers
        w.line("#pragma unroll")
        place = f"reinterpret_cast<{type_}*>({target})[here * {count} + i]"
        w.line(f"for (int i = 0; i < {count}; ++i) {place} = {name}[i];")
    else:
        w.line(f"reinterpret_cast<{type_}*>({target})[here] = {name};")


def ptx_of(texts: Sequence[OpText], planted: tuple[str, str] | None) -> None:
    """Compile all of them at once; `planted` replaces a piece of the program."""
    functions = {k: v for t in texts for k, v in t.functions.items()}
    body = "\n".join([*functions.values(), *(t.text for t in texts)])
    source = f"{HEADER}{definitions(body)}\n{body}"
    if planted is not None:
        assert planted[0] in source, planted[0]
        source = source.replace(*planted)
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"ops.cu", 0, [], [])
    options = [b"--gpu-architecture=compute_90a", b"-std=c++17"]
    status = nvrtc.nvrtcCompileProgram(program, len(options), options)[0]
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        log = bytes(nvrtc.nvrtcGetProgramLogSize(program)[1])
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.decode())
    ptx = bytes(nvrtc.nvrtcGetPTXSize(program)[1])
    nvrtc.nvrtcGetPTX(program, ptx)
    found = kernels(ptx.decode().rstrip("\0"))
    for text in texts:
        text.kernel = found[text.name]


def written(op: Operation) -> bool:
    """Whether an op is compared: it has a text, and so has all that it consists of."""
    if isinstance(op, scf.IfOp | scf.ForOp | scf.WhileOp):
        return not any(_waits(inner) for inner in op.walk())
    return isinstance(op, Map) or (isinstance(op, HopperOp) and not isinstance(op, LEFT_OUT))


def _waits(op: Operation) -> bool:
    """Whether an op has to be looked at alone: stores, engines, what only structures."""
    if isinstance(op, LEFT_OUT):
        return True
    return isinstance(op, HopperOp) and (not op.results or isinstance(op, Wgmma | WgmmaWait))
