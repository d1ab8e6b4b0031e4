"""Which tiles that are loaded through pointers a loading role may copy into rings.

Published kernels load the operands of their products through tiles of addresses. The loading role
runs the part of the program that computes those addresses and masks, and copies each tile into a
slot of shared memory, in the order that products read (`aref.copy_into`): as many iterations ahead
as the ring has slots, where a load into registers can be one iteration ahead at most. The
hardware's asynchronous copies (`cp.async`) move 4, 8 or 16 neighbouring bytes and write zeros where
they are masked off. So a load goes through a ring if

- a product of the same loop reads it, as it is or converted, transposed or computed with: one of
  warp groups' instructions, or, of a kernel with as many warps as a group, any other;
- its neighbours in memory come in runs of at least 4 bytes, and its mask is the same in each run;
- what is masked off is zero;
- the kernel writes nothing that it may read, and its addresses and masks are computed from program
  ids, arguments, counters and other memory that the kernel does not write, not from products.

Copies that the consumers start themselves, several iterations ahead, need no role. But then
every consumer waits for the slowest of them in each iteration, computes addresses between its
products, and knows only the addresses of its own loop: a role runs on to the next tile while the
last one is stored, and its addresses cost the consumers no registers. So they do where there is no
role (`partition.own_copies`): small products of one or two warps, above all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tawa.aref.analysis.products import from_products
from tawa.aref.dialect.ops import CopyInto
from tawa.base.types import byte_size, element_of, shape_of
from tawa.ir.effects import only_reads
from tawa.ir.elementwise import Map
from tawa.ir.walking import every
from tawa.machine.chips import SM_90A
from tawa.machine.costs import DIVISIONS
from tawa.tile.analysis.alias import may_be_written, written
from tawa.tile.analysis.axis_info import AxisAnalysis, access_run
from tawa.tile.analysis.zero import is_zero
from tawa.tile.dialect.ops import DescLoad, Dot, Join, Load, Repeat, Reshape, Split, Trans

TURNED = "aref.turned"
"""Attribute of a load whose tile lies in its ring as its transpose."""

COPY_BYTES = SM_90A.least_async_copy
"""The fewest neighbouring bytes that the hardware copies asynchronously."""

GROUP_ROWS = SM_90A.mma_m
"""Rows of a product that a warp group's instructions multiply."""

GROUP_WARPS = SM_90A.group_warps
"""Warps of a warp group."""

MOST_ADDRESS_WORK = SM_90A.thresholds.address_work
"""Instructions an iteration for addresses beyond which one warp group falls behind two that
compute."""

ROWS_AT_ONCE = SM_90A.copied_rows
"""Rows of a tile that a warp group copies at once."""

EITHER_WAY = SM_90A.either_way_bytes
"""Bytes of the elements that products take with K along either dimension."""

THROUGH = (Map, Trans, Reshape, Repeat, Join, Split)
"""What an operand may go through on its way to a product."""


def products_of(value: SSAValue) -> Iterator[tuple[Dot, int, bool]]:
    """The products that read a tile: operand, and whether they read it as it is (or turned)."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, Dot) and use.index < 2:
            yield op, use.index, True
        elif isinstance(op, THROUGH):
            for result in op.results:
                for dot, index, direct in products_of(result):
                    yield dot, index, direct and isinstance(op, Trans | Reshape)


def run_of(axes: AxisAnalysis, load: Load) -> tuple[int, int]:
    """The dimension along which a load's elements are neighbours, and how many are copied at once.

    They are aligned together, and have one mask.
    """
    return access_run(axes, load.ptr, load.mask)


def reason_against(load: Load, kernel: func.FuncOp, axes: AxisAnalysis, warps: int) -> str | None:
    """Why a load that products need can't go through a ring as it stands; None if it may.

    `warps` is how many the kernel is to have if it has no roles.
    """
    if warps < GROUP_WARPS and not any(_by_groups(dot) for dot, _, _ in products_of(load.result)):
        return f"its products are small ones of {warps} warp{'s' if warps > 1 else ''}"
    return obstacle_to_copies(load, kernel, axes)


def obstacle_to_copies(load: Load, kernel: func.FuncOp, axes: AxisAnalysis) -> str | None:
    """Why threads can't copy what products need of a load into a slot; None if they can."""
    if not only_reads(load):
        return "it is volatile"
    if load.other is not None and not is_zero(load.other):
        return "what is masked off is not zero"
    if may_be_written(load, written([kernel])):
        return "the kernel may write what it reads"
    dim, count = run_of(axes, load)
    size = byte_size(element_of(load.result.type))
    if count * size < COPY_BYTES:
        return f"{count * size} neighbouring bytes of it are known to be together, not {COPY_BYTES}"
    if size != EITHER_WAY and not _k_together(load, dim):
        return "its neighbours in memory are not those along K"
    return None


def _k_together(load: Load, dim: int) -> bool:
    """Whether elements along K are neighbours in memory, for every product that reads the slot.

    Those that warps do by themselves can read others one by one.
    """
    for dot, index, direct in products_of(load.result):
        if not _by_groups(dot):
            continue
        turned, value = False, dot.operands[index]
        while direct and isinstance(value.owner, Trans | Reshape):
            turned ^= isinstance(value.owner, Trans)
            value = value.owner.operands[0]
        inner = 1 - index
        if direct and (1 - inner if turned else inner) != dim:
            return False
    return True


def wanted_loads(kernel: func.FuncOp) -> list[Load]:
    """The pointer loads of tiles that products of the same loop read."""
    return [op for op in every(kernel) if isinstance(op, Load) and _is_wanted(op)]


def _is_wanted(load: Load) -> bool:
    loops = set(_loops_around(load))
    if len(shape_of(load.result.type)) != 2 or not loops:
        return False
    for dot, _, _ in products_of(load.result):
        if len(shape_of(dot.result.type)) == 2 and loops & set(_loops_around(dot)):
            return True
    return False


def _by_groups(dot: Dot) -> bool:
    """Whether a product's rows fill those of warp groups' instructions."""
    rows = shape_of(dot.result.type)
    return len(rows) == 2 and rows[0] % GROUP_ROWS == 0


def _loops_around(op: Operation) -> Iterator[Operation]:
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, scf.ForOp | scf.WhileOp):
            yield parent
        parent = parent.parent_op()


def choose(load: Load, axes: AxisAnalysis) -> None:
    """Note how a load's tile lies in its ring."""
    load.attributes.pop(TURNED, None)
    if run_of(axes, load)[0] == 0 and len(shape_of(load.result.type)) == 2:
        load.attributes[TURNED] = UnitAttr()


def slot_tile(load: Load) -> TensorType[Attribute]:
    """How the tile of a chosen load lies in its slot: neighbours in memory along rows."""
    shape = shape_of(load.result.type)
    turned = TURNED in load.attributes
    return TensorType(element_of(load.result.type), shape[::-1] if turned else shape)


def without_room(found: list[Load], kernel: func.FuncOp, most: int) -> list[Load]:
    """The loads of `found` that shared memory of `most` bytes has no room for: load them elsewhere.

    Each takes a slot, as tiles of descriptors do, and what products read of computed tiles a copy.
    Of a loop's, those are left out, the largest first, of which products read only what is
    computed from them.
    """
    computed = [load for load in found if not any(d for _, _, d in products_of(load.result))]
    left: list[Load] = []
    for body in {load.parent: None for load in computed}:
        assert body is not None
        taken = sum(map(_bytes, _kept(body, found)))
        own = [load for load in computed if load.parent is body]
        for load in sorted(own, key=lambda load: -_bytes(load.result)):
            if taken > most:
                left.append(load)
                taken -= _bytes(load.result)
    return left


def _kept(body: Block, found: list[Load]) -> dict[SSAValue, None]:
    """The tiles that a loop's body keeps in shared memory."""
    tiles: dict[SSAValue, None] = {}
    for op in body.ops:
        if isinstance(op, DescLoad) or op in found:
            tiles[op.results[0]] = None
        elif isinstance(op, Dot):
            sides = [v for v in (op.a, op.b) if not _is_loaded(v) and not from_products(v)]
            tiles |= dict.fromkeys(sides)
    return tiles


def _is_loaded(value: SSAValue) -> bool:
    while isinstance(value.owner, Trans | Reshape):
        value = value.owner.operands[0]
    return isinstance(value.owner, Load | DescLoad)


def _bytes(value: SSAValue) -> int:
    return math.prod(shape_of(value.type)) * byte_size(element_of(value.type))


def address_work(body: Block) -> int:
    """About how many instructions one warp group takes for the addresses of an iteration's copies.

    Of tiles of addresses, only the first of those that are copied at once is computed.
    """
    axes, threads = AxisAnalysis(), SM_90A.group_threads
    # Of boxes, hardly any are copied through pointers; of rows, a thread has an address or two.
    copied = [op for op in every(body) if isinstance(op, CopyInto) and op.box is None]
    found = [op for op in copied if len(shape_of(op.pointers.type)) > 1]
    blocks = {op.parent: 0 for op in found}
    for block in blocks:
        assert block is not None
        copies = [op for op in found if op.parent is block]
        runs = [access_run(axes, op.pointers, op.mask)[1] for op in copies]
        for op in block.ops:
            shape = shape_of(op.results[0].type) if isinstance(op, Map) else ()
            if not isinstance(op, Map) or not shape:
                continue
            whole = len([e for e in shape if e > 1]) > 1
            count = math.prod(shape) // (threads * min(runs) if whole else ROWS_AT_ONCE)
            division = op.function.data.startswith(("div", "rem"))
            blocks[block] += max(1, count) * (DIVISIONS["divsi"] if division else 1)
    return max(blocks.values(), default=0)
