"""Runs a tile module on NumPy: the meaning of a program.

Programs run one after the other, each to its end or until it waits for another.
Pure ops compute what their classes say, with exact element types; loads,
stores, atomics and descriptors act on the arrays that are passed.

    run(module, (8,), [x, y, n])

`x` and `y` are NumPy arrays in storage form (`base.numerics`: bf16 is uint16, fp8 is uint8), and
results are written into them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tawa.base.errors import TawaError
from tawa.base.numerics import Array, decode, encode, round_to, value_dtype
from tawa.base.spans import span_of
from tawa.base.types import DescType, PtrType, byte_size, element_of, shape_of
from tawa.ir.effects import GLOBAL, touches
from tawa.ir.kernels import argument_names, disjoint_pairs
from tawa.ir.scalars.table import FUNCTIONS
from tawa.machine.chips import SM_90A
from tawa.simulate.interpret.disjoint import Promises
from tawa.simulate.interpret.limits import Limits
from tawa.simulate.interpret.memory import Access, Memory, WindowOutside
from tawa.simulate.interpret.spinning import (
    ONE_BY_ONE,
    Order,
    Spinning,
    Wait,
    always,
    take_turns,
)
from tawa.tile.dialect import ops

Grid: TypeAlias = Sequence[int]

Steps: TypeAlias = Generator[Wait, None, list[Any]]
"""A program yields what it waits for, and ends with values."""


class RowEndsBroken(TawaError):
    """A loop changes a row after the iteration that its `row_ends` names."""

    explanation = (
        "`tl.range(..., row_ends=ends)` promises that iteration `i` changes nothing in rows with "
        "`ends[row] <= i`, so that warp groups may leave it out. On a GPU a broken promise "
        "gives results that depend on who has which rows. The simulator compares what the loop "
        "carries before and after each iteration."
    )
    example = """
import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def sums(x, out, N: tl.constexpr):
    rows = tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for i in tl.range(0, N, row_ends=rows):
        total += tl.where(i <= rows, tl.load(x + i), 0.0)
    tl.store(out + rows, total)


sums[(1,)](np.ones(16, np.float32), np.zeros(16, np.float32), 16)
"""


class DeviceAssertion(TawaError):
    """A `tl.device_assert` does not hold."""

    explanation = "The kernel's own check failed for the program that the message names."
    example = """
import numpy as np
import tawa.language as tl
from tawa.frontend import lower_to_tile, parse_argument
from tawa.simulate.interpret.tile import run


def kernel(x, n):
    tl.device_assert(n > 0, "n must be positive")


module = lower_to_tile(kernel, [parse_argument("*f32"), parse_argument("i32")], {})
run(module, (1,), [np.zeros(4, np.float32), 0])
"""


class WrongLaunch(TawaError):
    """The arguments of a simulated launch do not match the module's parameters."""

    explanation = "Pass one argument a parameter: arrays, numbers, and descriptors of arrays."
    example = """
import numpy as np
import tawa
import tawa.language as tl
from tawa.simulate.interpret.tile import run


@tawa.jit
def twice(x, N: tl.constexpr):
    at = x + tl.arange(0, N)
    tl.store(at, tl.load(at) * 2)


run(twice.compile("*f32", 128).module("tile"), (1,), [])
"""


@dataclass(frozen=True)
class HostDescriptor:
    """A tensor in memory with its shape and strides (elements), as a descriptor argument.

    Anything with these attributes is accepted in its place.
    """

    base: Array
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    padding: str = "zero"

    @staticmethod
    def of(array: Array) -> HostDescriptor:
        """The descriptor of a whole array."""
        size = array.dtype.itemsize
        return HostDescriptor(array, array.shape, tuple(s // size for s in array.strides))


@dataclass(frozen=True)
class Described:
    """A descriptor at run time; strides count elements."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    padding: str


def run(
    module: ModuleOp,
    grid: Grid,
    args: Sequence[Any],
    *,
    kernel: str | None = None,
    resident: int = SM_90A.multiprocessors,
    watch: Callable[[Memory], None] | None = None,
    limits: Limits | None = None,
    order: Order = ONE_BY_ONE,
) -> None:
    """Run all program instances of the module's function (`kernel` names it if it has several).

    At most `resident` programs run at the same time, where they wait for each other or `order`
    interleaves them. `watch` is called with the launch's memory before the first of them.

    Raises `IllegalAccess`, `DeviceAssertion`, `NotDisjoint`, `WaitsForever` or `WrongLaunch`, and
    `LimitReached` when a program runs for longer than `limits` allow.
    """
    function = _function(module, kernel)
    block = function.body.block
    if len(args) != len(block.args):
        raise WrongLaunch(f"`{function.sym_name.data}` takes {len(block.args)} arguments",
                          found=str(len(args)))  # fmt: skip
    memory = Memory()
    values = [
        argument_value(memory, name, argument.type, value)
        for name, argument, value in zip(argument_names(function), block.args, args, strict=True)
    ]
    if watch is not None:
        watch(memory)
    if disjoint_pairs(function):
        memory.watch = promises = Promises(function, memory.watch)
        promises.begin(memory.buffers)
    sizes = (*grid, 1, 1, 1)[:3]
    indices = itertools.product(*(range(size) for size in reversed(sizes)))
    programs = (
        Program(memory, index[::-1], sizes, copy(limits), order.switching).steps(block, values)
        for index in indices
    )
    with np.errstate(all="ignore"):
        take_turns(programs, resident, order)


def _function(module: ModuleOp, name: str | None) -> FuncOp:
    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    for function in functions:
        if name is None or function.sym_name.data == name:
            return function
    raise WrongLaunch(f"the module has no function `{name}`")


def argument_value(memory: Memory, name: str, type_: Attribute, value: Any) -> Any:
    """A launch argument as a value: the address of an array, a number, or a descriptor."""
    if isinstance(type_, PtrType):
        return np.asarray(memory.add(name, _array(name, value), type_.pointee), dtype=np.int64)
    if isinstance(type_, DescType):
        base = _array(name, value.base)
        address = memory.add(name, base, type_.block.element_type)
        padding = str(getattr(value, "padding", "zero"))
        return Described(address, tuple(value.shape), tuple(value.strides), padding)
    return round_to(np.asarray(value), type_)


def _array(name: str, value: Any) -> Array:
    if not isinstance(value, np.ndarray):
        raise WrongLaunch(f"argument `{name}` must be a NumPy array", found=type(value).__name__)
    return cast(Array, value)


class Program:
    """One program instance: the values of its SSA names."""

    def __init__(
        self,
        memory: Memory,
        index: tuple[int, ...],
        grid: tuple[int, ...],
        limits: Limits | None = None,
        switching: bool = False,
    ) -> None:
        self.memory = memory
        self.index = index
        self.grid = grid
        self.limits = limits
        self.switching = switching
        self.values: dict[SSAValue, Any] = {}

    def steps(self, block: Block, arguments: Sequence[Any]) -> Steps:
        """Run a block; the generator's value is the operands of its terminator."""
        self.values.update(zip(block.args, arguments, strict=True))
        for op in block.ops:
            if self.limits is not None:
                self.limits.step()
            if isinstance(op, scf.YieldOp | scf.ConditionOp | ReturnOp):
                return self.operands(op)
            if self.switching and touches(op, GLOBAL):
                yield always
            control = CONTROL.get(type(op))
            if control is None:
                self.run_op(op)
            else:
                values = yield from control(self, op)
                self.values.update(zip(op.results, values, strict=True))
        return []

    def operands(self, op: Operation) -> list[Any]:
        """Values of an op's operands."""
        return [self.values[operand] for operand in op.operands]

    def run_op(self, op: Operation) -> None:
        """Run one op and bind its results."""
        action = ACTIONS.get(type(op))
        if action is not None:
            results = action(self, op)
        else:
            results = cast(Any, op).evaluate(*self.operands(op))
        if len(op.results) == 1:
            alone = cast("list[Any]", results)[0] if isinstance(results, list) else results
            self.values[op.results[0]] = alone
        elif op.results:
            self.values.update(zip(op.results, results, strict=True))

    def access(self, op: Operation, verb: str) -> Access:
        """Describes an access for messages."""
        return Access(verb, self.index, span_of(op))

    def atomic_access(self, op: ops.AtomicRmw | ops.AtomicCas) -> Access:
        """Describes an atomic operation; of scope `cta` it is one for its own program only."""
        order, wide = op.order.data, op.scope.data != "cta"
        return replace(
            self.access(op, "updates"),
            atomic=wide,
            acquires=wide and order in ("acquire", "acq_rel") and op.result.first_use is not None,
            releases=wide and order in ("release", "acq_rel"),
        )


# --- values and control flow --------------------------------------------------------------------


def _constant(program: Program, op: ConstantOp) -> Array:
    del program
    value = op.value
    if isinstance(value, IntegerAttr):
        return np.asarray(value.value.data).astype(value_dtype(value.type))
    assert isinstance(value, FloatAttr)
    return round_to(np.asarray(value.value.data), value.type)


def _program_id(program: Program, op: ops.ProgramId) -> Array:
    return np.asarray(program.index[op.axis.value.data], dtype=np.int32)


def _num_programs(program: Program, op: ops.NumPrograms) -> Array:
    return np.asarray(program.grid[op.axis.value.data], dtype=np.int32)


def _if(program: Program, op: scf.IfOp) -> Steps:
    region = op.true_region if program.values[op.cond] else op.false_region
    return (yield from program.steps(region.block, [])) if region.blocks else []


def _for(program: Program, op: scf.ForOp) -> Steps:
    lower, upper, step = (program.values[v] for v in (op.lb, op.ub, op.step))
    kind = value_dtype(op.lb.type)
    if int(step) == 0:
        raise DeviceAssertion("a loop whose step is 0 never ends", span=span_of(op))
    carried = [program.values[v] for v in op.iter_args]
    promise = next((o for o in op.body.block.ops if isinstance(o, ops.RowEnds)), None)
    for counter in range(int(lower), int(upper), int(step)):
        before = carried
        number = np.asarray(counter).astype(kind)
        carried = yield from program.steps(op.body.block, [number, *carried])
        if promise is not None:
            _require_unchanged(program, promise, counter, before, carried)
    return carried


def _require_unchanged(
    program: Program, promise: ops.RowEnds, counter: int, before: list[Any], after: list[Any]
) -> None:
    """Check that an iteration has left the rows as they were that had ended before it."""
    ended = np.asarray(program.values[promise.ends]) <= counter
    for old, new in zip(before, after, strict=True):
        if np.ndim(old) and len(old) == len(ended):
            same = (np.asarray(old) == np.asarray(new)) | (np.asarray(old) != np.asarray(old))
            changed = ended & ~same.reshape(len(ended), -1).all(axis=1)
            if changed.any():
                row = int(np.flatnonzero(changed)[0])
                raise RowEndsBroken(
                    f"iteration {counter} of the loop changes row {row}, which had ended",
                    span=span_of(promise.parent_op()),
                    expected=f"row {row} as before: its entry of `row_ends` is "
                    f"{int(np.asarray(program.values[promise.ends])[row])}",
                    found="another value of what the loop carries",
                    hint="let `row_ends` name the iteration after the last one that changes a row",
                )


def _while(program: Program, op: scf.WhileOp) -> Steps:
    carried = program.operands(op)
    spinning = Spinning(op, program.index, program.memory)
    while True:
        yield from spinning.iteration(carried)
        proceed, *carried = yield from program.steps(op.before_region.block, carried)
        if not proceed:
            return carried
        carried = yield from program.steps(op.after_region.block, carried)


CONTROL: dict[type[Operation], Callable[[Program, Any], Steps]] = {
    scf.IfOp: _if,
    scf.ForOp: _for,
    scf.WhileOp: _while,
}
"""Ops that run others."""


# --- memory -------------------------------------------------------------------------------------


def _selected(program: Program, pointer: SSAValue, mask: SSAValue | None) -> tuple[Array, Array]:
    """Addresses, and which of them are accessed."""
    addresses = np.asarray(program.values[pointer])
    if mask is None:
        return addresses, np.ones(addresses.shape, dtype=bool)
    return addresses, np.asarray(program.values[mask])


def _load(program: Program, op: ops.Load) -> Array:
    addresses, chosen = _selected(program, op.ptr, op.mask)
    element = element_of(op.result.type)
    if op.other is not None:
        result = np.array(program.values[op.other])
    else:
        result = np.zeros(addresses.shape, dtype=value_dtype(element))
    access = program.access(op, "reads")
    if op.volatile is not None:
        access = replace(access, atomic=True, acquires=True)
    result[chosen] = program.memory.read(addresses[chosen], element, access)
    return result


def _store(program: Program, op: ops.Store) -> None:
    addresses, chosen = _selected(program, op.ptr, op.mask)
    values = np.asarray(program.values[op.value])
    element = element_of(op.value.type)
    access = program.access(op, "writes")
    program.memory.write(addresses[chosen], values[chosen], element, access)


_ATOMIC_FUNCTIONS = {"maxf": "maxnumf", "minf": "minnumf"}


def _combine(kind: str, element: Attribute, old: Array, new: Array) -> Array:
    if kind == "xchg":
        return new
    function = FUNCTIONS[_ATOMIC_FUNCTIONS.get(kind, kind)]
    return function.evaluate([element, element], element, old, new)


def _atomic_rmw(program: Program, op: ops.AtomicRmw) -> Array:
    addresses, chosen = _selected(program, op.ptr, op.mask)
    element, kind = element_of(op.value.type), op.kind.data
    values = np.asarray(program.values[op.value])
    access = program.atomic_access(op)
    result = np.zeros(addresses.shape, dtype=value_dtype(element))
    where, new = addresses[chosen], values[chosen]
    olds = np.zeros(where.shape, dtype=value_dtype(element))
    steps = [slice(None)] if np.unique(where).size == where.size else range(where.size)
    for step in steps:  # one element at a time when addresses repeat
        index = step if isinstance(step, slice) else slice(step, step + 1)
        olds[index] = program.memory.read(where[index], element, access)
        combined = _combine(kind, element, olds[index], new[index])
        program.memory.write(where[index], combined, element, access)
    result[chosen] = olds
    return result


def _atomic_cas(program: Program, op: ops.AtomicCas) -> Array:
    element = element_of(op.value.type)
    addresses, compare, new = (np.atleast_1d(v) for v in program.operands(op))
    access = program.atomic_access(op)
    old = np.zeros(addresses.shape, dtype=value_dtype(element))
    for index in range(addresses.size):
        one = slice(index, index + 1)
        old.flat[one] = program.memory.read(addresses.flat[one], element, access)
        same = encode(old.flat[one], element) == encode(compare.flat[one], element)
        if same.all():
            program.memory.write(addresses.flat[one], new.flat[one], element, access)
    return old.reshape(shape_of(op.value.type))


def _make_desc(program: Program, op: ops.MakeDesc) -> Described:
    shape = tuple(int(program.values[v]) for v in op.shape)
    strides = tuple(int(program.values[v]) for v in op.strides)
    padding = op.padding.data if op.padding else "zero"
    return Described(int(program.values[op.base]), shape, strides, padding)


def _desc_base(program: Program, op: ops.DescBase) -> Array:
    desc: Described = program.values[op.desc]
    return np.asarray(desc.address, value_dtype(op.result.type))


def _desc_size(program: Program, op: ops.DescSize) -> Array:
    desc: Described = program.values[op.desc]
    numbers = desc.shape if op.stride is None else desc.strides
    return np.asarray(numbers[op.axis.value.data], value_dtype(op.result.type))


def _block_window(
    program: Program, op: ops.DescLoad | ops.DescStore, verb: str
) -> tuple[Array | None, tuple[slice, ...], Described]:
    """The storage of the part of a block that lies in the tensor, and which part that is."""
    desc: Described = program.values[op.desc]
    starts = [int(program.values[v]) for v in op.coordinates]
    block = shape_of(op.block)
    low = [max(0, start) for start in starts]
    high = [min(size, s + n) for size, s, n in zip(desc.shape, starts, block, strict=True)]
    part = tuple(slice(a - s, max(a, b) - s) for a, b, s in zip(low, high, starts, strict=True))
    if any(b <= a for a, b in zip(low, high, strict=True)):
        return None, part, desc
    element = op.block.element_type
    offset = sum(a * stride for a, stride in zip(low, desc.strides, strict=True))
    address = (desc.address + offset * byte_size(element)) % (1 << 64)
    sizes = [b - a for a, b in zip(low, high, strict=True)]
    access = program.access(op, verb)
    if isinstance(op, ops.DescStore) and op.reduce is not None:
        access = replace(access, atomic=True)
    return program.memory.window(address, sizes, desc.strides, element, access), part, desc


def _desc_load(program: Program, op: ops.DescLoad) -> Array:
    window, part, desc = _block_window(program, op, "reads")
    element = op.block.element_type
    filling = np.nan if desc.padding == "nan" else 0
    result = np.full(shape_of(op.block), filling, dtype=value_dtype(element))
    if window is not None:
        result[part] = decode(window, element)
    return result


def _desc_store(program: Program, op: ops.DescStore) -> None:
    window, part, _ = _block_window(program, op, "writes")
    if window is None:
        return
    program.memory.changes += 1
    element = op.block.element_type
    values = np.asarray(program.values[op.value])[part]
    if op.reduce is not None:
        values = _combine(op.reduce.data, element, decode(window, element), values)
    window[...] = encode(values, element)


# --- debugging ----------------------------------------------------------------------------------


def _assert(program: Program, op: ops.Assert) -> None:
    holds = np.asarray(program.values[op.condition])
    if not np.all(holds):
        where = np.argwhere(~np.atleast_1d(holds))[0].tolist()
        raise DeviceAssertion(
            op.message.data,
            span=span_of(op),
            found=f"false in program {list(program.index)}"
            + (f" at element {where}" if holds.ndim else ""),
        )


def _extract_slice(program: Program, op: ops.ExtractSlice) -> Array:
    try:
        return op.evaluate(*program.operands(op))
    except IndexError as problem:
        raise WindowOutside(
            f"{problem} is taken of a tile",
            span=span_of(op),
            expected=f"a window of {list(shape_of(op.result.type))} inside of "
            f"{list(shape_of(op.value.type))}",
            found=f"offsets {[int(program.values[o]) for o in op.offsets]} "
            f"in program {list(program.index)}",
            hint="load a tile that is wide enough for every offset",
        ) from None


def _print(program: Program, op: ops.Print) -> None:
    shown = " ".join(str(program.values[v]) for v in op.values)
    print(f"program {list(program.index)}: {op.prefix.data} {shown}")


def _nothing(program: Program, op: Operation) -> None:
    del program, op


ACTIONS: dict[type[Operation], Callable[[Program, Any], Any]] = {
    ConstantOp: _constant,
    ops.ProgramId: _program_id,
    ops.NumPrograms: _num_programs,
    ops.Load: _load,
    ops.Store: _store,
    ops.AtomicRmw: _atomic_rmw,
    ops.AtomicCas: _atomic_cas,
    ops.MakeDesc: _make_desc,
    ops.DescBase: _desc_base,
    ops.DescSize: _desc_size,
    ops.DescLoad: _desc_load,
    ops.DescStore: _desc_store,
    ops.ExtractSlice: _extract_slice,
    ops.Barrier: _nothing,
    ops.RowEnds: lambda _program, _op: None,
    ops.Assert: _assert,
    ops.Print: _print,
}
"""What ops do that are not pure; pure ops (`ew.map` and the tile level's) have `evaluate`."""
