"""Hopper IR -> CUDA C++: a table from op to text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tawa.base.tile_scheduler import ENTRIES
from tawa.base.types import PlanType, bf16, e4m3, e5m2, f16, f32
from tawa.hopper.dialect import HopperOp
from tawa.hopper.dialect.fragment import Relabel
from tawa.hopper.dialect.memory import SharedLoad
from tawa.hopper.dialect.prelude import HOPPER_PRELUDE
from tawa.hopper.dialect.structure import ANEW, Role
from tawa.hopper.dialect.text import MAY_UNROLL, STRIPS, Writer, c_type, constant
from tawa.hopper.dialect.types import FragType, TensorMapType
from tawa.hopper.unrolling import written_out
from tawa.ir.elementwise import Map
from tawa.ir.scalars.prelude import ELEMENT_TYPES, PRELUDE
from tawa.ir.scalars.scalar_function import cpp_constant

SPEC_LINE = "// tawa.spec: "
"""What the first line of a program starts with: how to launch it, as JSON."""

WIDENED_BYTES = {"sitofp": "widen_bytes", "uitofp": "widen_unsigned_bytes"}
"""The prelude's functions that make numbers of 16 bits of four bytes at once."""


FOURS: dict[tuple[str, Attribute, Attribute], str] = {
    ("truncf", f32, e4m3): "round_four", ("truncf", f32, e5m2): "round_four",
    ("extf", e4m3, f16): "widen_four", ("extf", e4m3, f32): "widen_four",
    ("extf", e5m2, f16): "widen_four", ("extf", e5m2, f32): "widen_four",
}  # fmt: skip
"""The prelude's functions that convert four numbers at once."""


class KernelWriter(Writer):
    """A writer that knows how to write regions of ops."""

    def region(self, region: Region) -> None:
        """Write the ops of a region's only block."""
        for number, ops in groupby(region.block.ops, key=lambda op: _strips(op)[:1]):
            if number:
                _write_strips(self, list(ops))
            else:
                for op in ops:
                    write_op(self, op)


def _strips(op: Operation) -> tuple[int, ...]:
    """What `STRIPS` says of an op; nothing if it is not written strip by strip."""
    found = op.attributes.get(STRIPS)
    return tuple(map(int, found.get_values())) if isinstance(found, DenseArrayBase) else ()


def _constant(w: Writer, op: arith.ConstantOp) -> None:
    value = op.value
    if isinstance(value, DenseIntOrFPElementsAttr):
        raise ValueError("a constant of the hopper level is a scalar")
    assert isinstance(value, IntegerAttr | FloatAttr)
    w.bind(op.result, cpp_constant(value.value.data, op.result.type))


def _map(w: Writer, op: Map) -> None:
    operands, element = op.element_types
    text = op.scalar_function.cuda(operands, element)
    result = op.result.type
    names = [w.name(v) for v in op.arguments]
    if not isinstance(result, FragType):
        w.let(op.result, text.format(*(_atom(n) for n in names)))
        return
    name = w.declare(op.result)
    if op.function.data == "truncf" and operands == [f32] and element in (f16, bf16):
        if result.layout.registers % 2 == 0:
            head = w.registers(result.layout, step=2)
            pairs = f"{name}[i], {name}[i + 1], {names[0]}[i], {names[0]}[i + 1]"
            w.line(f"{head} round_pair({pairs});")
            return
    four = FOURS.get((op.function.data, operands[0], element))
    if four is not None and result.layout.registers % 4 == 0:
        w.line(f"{w.registers(result.layout, step=4)} {four}({name} + i, {names[0]} + i);")
        return
    if op.function.data in WIDENED_BYTES and element in (f16, bf16) and _read_as_words(op):
        head, function = w.registers(result.layout, step=4), WIDENED_BYTES[op.function.data]
        w.line(f"{head} {function}({name} + i, {names[0]} + i);")
        return
    w.line(f"{w.registers(result.layout)} {name}[i] = {text.format(*(f'{n}[i]' for n in names))};")


def _read_as_words(op: Map) -> bool:
    """Whether an operand is bytes that were read from shared memory four at a time."""
    made = op.arguments[0].owner
    while isinstance(made, Relabel):
        made = made.operand.owner
    return isinstance(made, SharedLoad) and made.in_words


def _atom(name: str) -> str:
    """An operand that binds as tightly as a name does."""
    return name if re.fullmatch(r"[\w.]+", name) else f"({name})"


def _copies(w: Writer, pairs: Sequence[tuple[str, SSAValue]]) -> None:
    """Assign values to variables at once, as an SSA yield does."""
    moving = [(target, v) for target, v in pairs if target != w.name(v)]
    targets = {target for target, _ in moving}
    sources: list[str] = []
    for _, value in moving:
        source = w.name(value)
        words = set(re.findall(r"\w+", source))
        if words & targets and not isinstance(value.type, FragType) and len(moving) > 1:
            name = w.fresh("next")
            w.line(f"{constant(value.type)} {name} = {source};")
            source = name
        elif words & targets and len(moving) > 1:
            name = w.fresh("next")
            assert isinstance(value.type, FragType)
            w.line(f"{c_type(value.type)} {name}[{value.type.layout.registers}];")
            w.assign(name, source, value.type)
            source = name
        sources.append(source)
    for (target, value), source in zip(moving, sources, strict=True):
        w.assign(target, source, value.type)


def _carry(w: KernelWriter, arguments: Sequence[SSAValue], values: Sequence[SSAValue]) -> list[str]:
    """Declare loop-carried variables and set them."""
    names: list[str] = []
    for argument, value in zip(arguments, values, strict=True):
        if argument.name_hint is None:
            argument.name_hint = value.name_hint
        name = w.declare(argument)
        w.assign(name, w.name(value), value.type)
        names.append(name)
    return names


def _for(w: KernelWriter, op: scf.ForOp) -> None:
    index, *arguments = op.body.block.args
    names = _carry(w, arguments, op.iter_args)
    for result, name in zip(op.results, names, strict=True):
        w.bind(result, name)
    i, type_ = w.define(index), c_type(index.type)
    lb, ub, step = (_atom(w.name(v)) for v in (op.lb, op.ub, op.step))
    advance = f"++{i}" if step == "1" else f"{i} += {step}"
    if MAY_UNROLL not in op.attributes:
        w.line("#pragma unroll 1")
    with w.block(f"for ({type_} {i} = {lb}; {i} < {ub}; {advance})"):
        w.region(op.body)
        _copies(w, list(zip(names, _terminator(op.body.block).operands, strict=True)))


def _terminator(block: Block) -> Operation:
    assert block.last_op is not None
    return block.last_op


def _if(w: KernelWriter, op: scf.IfOp) -> None:
    names = [w.declare(result) for result in op.results]
    for head, region in ((f"if ({w.name(op.cond)})", op.true_region), ("else", op.false_region)):
        if not region.blocks:
            continue
        last = region.block.last_op
        if head == "else" and len(region.block.ops) == 1 and last is not None and not last.operands:
            continue
        with w.block(head):
            if head == "else" and ANEW in op.attributes:
                at = w.fresh("thread_again")
                w.line(f"int {at} = thread;")
                w.line(f'asm volatile("" : "+r"({at}));')
                w.line(f"const int thread = {at}, warp = {at} / 32, lane = {at} % 32;")
            w.region(region)
            if last is not None and names:
                _copies(w, list(zip(names, last.operands, strict=True)))


def _while(w: KernelWriter, op: scf.WhileOp) -> None:
    before, after = op.before_region.block, op.after_region.block
    names = _carry(w, before.args, op.arguments)
    results = [w.declare(result) for result in op.results]
    with w.block("while (true)"):
        w.region(op.before_region)
        condition, *passed = _terminator(before).operands
        for name, value in zip(results, passed, strict=True):
            w.assign(name, w.name(value), value.type)
        w.line(f"if (!{_atom(w.name(condition))}) break;")
        for argument, name in zip(after.args, results, strict=True):
            w.bind(argument, name)
        w.region(op.after_region)
        _copies(w, list(zip(names, _terminator(after).operands, strict=True)))


def _nothing(_w: Writer, _op: Operation) -> None:
    """Terminators are written by the op they end."""


TABLE: dict[type[Operation], Callable[..., None]] = {
    arith.ConstantOp: _constant,
    Map: _map,
    scf.ForOp: _for,
    scf.IfOp: _if,
    scf.WhileOp: _while,
    scf.YieldOp: _nothing,
    scf.ConditionOp: _nothing,
    func.ReturnOp: _nothing,
}
"""Text of the builtin ops; Hopper's own ops carry theirs."""


def _write_strips(w: KernelWriter, ops: Sequence[Operation]) -> None:
    """Write all ops for the first registers, then for the next, but some so many strips ahead."""
    types = [v.type for op in ops for v in (*op.operands, *op.results)]
    registers = next(t.layout.registers for t in types if isinstance(t, FragType))
    _, width, _ = _strips(ops[0])
    ahead = [_strips(op)[2] for op in ops]
    for strip in range(-max(ahead), registers // width):
        for op, further in zip(ops, ahead, strict=True):
            first = (strip + further) * width
            if 0 <= first < registers:
                w.strip = first, first + width
                write_op(w, op)
    w.strip = None


def write_op(w: KernelWriter, op: Operation) -> None:
    """Write one op."""
    outer, w.op = w.op, op
    if isinstance(op, HopperOp):
        op.cuda(w)
    else:
        TABLE[type(op)](w, op)
    w.op = outer


def _parameters(w: KernelWriter, kernel: func.FuncOp) -> str:
    parts: list[str] = []
    for value in kernel.args:
        name = w.define(value)
        if isinstance(value.type, TensorMapType):
            parts.append(f"const __grid_constant__ TensorMap {name}")
            w.bind(value, f"&{name}")
        elif isinstance(value.type, PlanType):
            parts.append(f"const __grid_constant__ Plan {name}")
        else:
            parts.append(f"{c_type(value.type)} {name}")
    return ", ".join(parts)


def _integer(kernel: func.FuncOp, key: str) -> int:
    value = kernel.attributes[f"hopper.{key}"]
    assert isinstance(value, IntegerAttr)
    return value.value.data


def definitions(body: str) -> str:
    """The prelude functions that a program text needs, dependencies first."""
    table = {**PRELUDE, **HOPPER_PRELUDE}
    printed: dict[str, None] = {}
    seen: set[str] = set()

    def visit(text: str) -> None:
        for name in re.findall(r"\b[A-Za-z_]\w*\b(?=\s*[(<])", text):
            if name in table and name not in seen:
                seen.add(name)
                visit(table[name])
                printed.setdefault(table[name])

    visit(body)
    return "\n".join(printed)


@dataclass(frozen=True)
class Program:
    """A program's text, and which op wrote which of its lines (counted from 1)."""

    text: str
    writers: dict[int, Operation]


def emit(module: ModuleOp) -> str:
    """The CUDA C++ program of a hopper module with one kernel."""
    return program_of(module).text


def program_of(module: ModuleOp) -> Program:
    """The CUDA C++ program of a hopper module with one kernel, with its line table."""
    kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
    w = KernelWriter()
    parameters = _parameters(w, kernel)
    threads = _integer(kernel, "threads")
    w.depth = 1
    w.line("extern __shared__ __align__(1024) unsigned char shared_memory[];")
    w.line("const u32 smem = shared_address(shared_memory);")
    w.line("(void)smem;")
    if not any(isinstance(op, Role) and op.whole for op in kernel.body.block.ops):
        uniform = "__shfl_sync(0xffffffffu, threadIdx.x / 32, 0)"
        w.line(f"const int warp_id = {uniform}, lane = threadIdx.x % 32;")
        w.line("(void)warp_id; (void)lane;")
    w.region(kernel.body)
    lines, origins = written_out(w.lines, w.writers)
    body = "\n".join(lines)
    wrappers = "\n".join(w.functions.values())
    cluster = _integer(kernel, "cluster")
    attributes = f"__launch_bounds__({threads}, {_integer(kernel, 'ctas_per_sm')})"
    if "hopper.maxnreg" in kernel.attributes:
        attributes = f"__maxnreg__({_integer(kernel, 'maxnreg')})"
    if cluster > 1:
        attributes += f" __cluster_dims__({cluster}, 1, 1)"
    header = "struct alignas(64) TensorMap { char bytes[128]; };\n"
    if any(isinstance(argument.type, PlanType) for argument in kernel.args):
        header += f"struct Plan {{ unsigned short entries[{ENTRIES}]; }};\n"
    spec = kernel.attributes.get("tawa.spec")
    title = f"{SPEC_LINE}{spec.data}\n" if isinstance(spec, StringAttr) else ""
    head = (
        f"{title}{ELEMENT_TYPES}{header}\n{definitions(body + wrappers)}\n{wrappers}\n"
        f'extern "C" __global__ void {attributes}\n'
        f"{kernel.sym_name.data}({parameters}) {{\n"
    )
    first = head.count("\n") + 1
    writers = {first + i: op for i, op in enumerate(origins) if op is not None}
    return Program(f"{head}{body}\n}}\n", writers)
