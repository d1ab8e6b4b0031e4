"""No list of op classes stands for what ops do: effects and traits say that.

Every tuple, union and set of two or more op classes (or of their names) in the compiler is found
here. Control flow and what a level's dialect consists of are lists by nature, and so is a table
with a rule for each op; all others stand below, with what they are. A new list fails until it is
named here: first ask whether an op that nobody has heard of should be in it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdsl.dialects import arith, func, scf

from tawa.aref.dialect.ops import AREF
from tawa.hopper.dialect import HOPPER
from tawa.ir.elementwise import EW
from tawa.tile.dialect.ops import TILE

SOURCE = Path(__file__).parents[2] / "src" / "tawa"
ROOMS = ("aref", "codegen", "driver", "frontend", "hopper", "ir", "partition", "pipeline", "simulate", "tile")  # fmt: skip

CONTROL = {op.__name__ for op in (*scf.Scf.operations, *func.Func.operations)}
"""How a program goes on: loops, branches and their ends are a closed set of the IR."""
OPS = [op for d in (TILE, AREF, HOPPER, EW, arith.Arith) for op in d.operations]
CLASSES = {op.__name__ for op in OPS} | CONTROL
NAMES = {op.name for op in OPS}

FIELDS = "a field that these ops have, and the next lines read"
RULE = "the next lines have a rule for each of these"
PATTERN = "the form of program that is looked for, op by op"
PRODUCT = "the forms of a product, which have operands in other places"
TURN = "exchanges dimensions or not: which of the two is what is asked"
ROWS = "along which dimension a vector is repeated is what is asked"
LOADS = "ways in which a tile comes, whose operands differ"
RING = "ops of a ring, of which the ring is asked"
ROLE = "where the code of some threads begins"
PLACE = "a program's place in the grid, in numbers of programs or of CTAs"
MEASURED = "what was measured, and nothing else"
COVERED = "what a proof knows how to do; it refuses whatever else communicates, by its effects"
INSIDE = "what holds other ops"

REASONS: dict[str, dict[str, str]] = {
    "aref/analysis/layouts.py": {
        "ArgReduce, Asm, AsmEffect, ReduceWith, ScanWith": RULE,
        "ArgReduce, ReduceWith": FIELDS,
        "AtomicCas, AtomicRmw, Load, Store": FIELDS,
        "Broadcast, ExpandDims, Map, Repeat, Reshape, Trans": RULE,
        "Broadcast, ExpandDims, Trans": FIELDS,
        "Dot, DotIssue": PRODUCT,
        "DotIssue, WarpDot": PRODUCT,
        "Load, ViewRead": LOADS,
        "Map, Scan": RULE,
        "Map, Trans": PATTERN,
        "Map, ViewRead": PATTERN,
        "Stage, StoreInto": FIELDS,
    },
    "aref/analysis/products.py": {
        "Dot, DotIssue, DotWait": PRODUCT,
        "Reshape, Trans": TURN,
        "Trans, WarpDot": PATTERN,
    },
    "aref/analysis/ranges.py": {
        "CtaCount, NumPrograms": PLACE,
        "CtaIndex, ProgramId": PLACE,
    },
    "aref/analysis/staging.py": {
        "Splat, ViewRead": PATTERN,
    },
    "aref/analysis/stored_runs.py": {
        "ArgReduce, Reduce, ReduceWith": PATTERN,
        "Map, Scan": PATTERN,
        "Scan, ScanWith": FIELDS,
    },
    "aref/passes/conditional_rescaling.py": {
        "Broadcast, ExpandDims": ROWS,
        "ConstantOp, Splat": PATTERN,
        "IfOp, Map": PATTERN,
        "Map, Splat": PATTERN,
    },
    "aref/passes/conversions.py": {
        "Consumed, GetEnter": RING,
        "PutEnter, PutExit, StoreInto": RING,
    },
    "aref/passes/cursors.py": {
        "GetEnter, PutEnter": RING,
    },
    "aref/passes/own_masks.py": {
        "Broadcast, ExpandDims": ROWS,
    },
    "aref/passes/register_prefetch.py": {
        "ArgReduce, Reduce, ReduceWith, Scan, ScanWith": PATTERN,
        "DotIssue, StoreInto, WarpDot": PATTERN,
        "DotIssue, WarpDot": PRODUCT,
        "Stage, StoreInto": FIELDS,
    },
    "aref/passes/shared_slots.py": {"Consumed, GetEnter, PutEnter": RING},
    "aref/passes/sink_reads.py": {
        "Any, AnyAbove": PATTERN,
        "Broadcast, ExpandDims, Reshape": PATTERN,
    },
    "aref/passes/transposes.py": {
        "Consumed, GetEnter, PutEnter, PutExit, TransposeInto": RING,
        "PutEnter, PutExit": RING,
        "Reshape, Trans": TURN,
    },
    "aref/passes/warp_products.py": {
        "DotIssue, WarpDot": PRODUCT,
    },
    "codegen/atomics.py": {
        "FuncOp, IfOp, WarpGroup": ROLE,
        "FuncOp, WarpGroup": ROLE,
    },
    "codegen/channels.py": {
        "Consumed, Views": RING,
        "StoreInto, TransposeInto": RULE,
        "ViewRead, WarpDot": LOADS,
    },
    "codegen/combining.py": {
        "Yield, YieldOp": FIELDS,
    },
    "codegen/gathers.py": {
        "Arange, Broadcast, ExpandDims, Map, Splat": RULE,
    },
    "codegen/lower.py": {
        "WarpProduct, Wgmma": PRODUCT,
    },
    "codegen/places.py": {
        "Anchored, Rearrange": FIELDS,
        "GroupIndex, TeamIndex": RULE,
        "TmaLoad, TmaStore": FIELDS,
    },
    "driver/candidates.py": {
        "Role, SharedWarpGroup": ROLE,
    },
    "driver/choice/profiling.py": {
        "DescStore, Store": RULE,
        "Dot, YieldOp": PATTERN,
        "Map, Reduce": RULE,
    },
    "driver/inspection/products.py": {
        "WarpProduct, Wgmma": PRODUCT,
    },
    "driver/property_checks.py": {
        "GetEnter, PutEnter": RING,
    },
    "frontend/builtins/mapping.py": {
        "ConstantOp, NumPrograms, ProgramId": RULE,
    },
    "frontend/builtins/reductions.py": {
        "ConstantOp, IfOp, Map, Yield, YieldOp": RULE,
    },
    "hopper/passes/occupancy.py": {
        "Assemble, Wgmma": MEASURED,
        "Role, SharedWarpGroup": ROLE,
    },
    "hopper/passes/redundant_barriers.py": {
        "Slot, Subtile, SubtileColumn": FIELDS,
        "Wgmma, WgmmaWait": RULE,
    },
    "hopper/passes/strips.py": {
        "Anchored, Fill, Relabel": FIELDS,
        "Role, Wgmma": ROLE,
    },
    "hopper/passes/unread.py": {
        "Anchored, Coordinate, Fill, Map, Rearrange, Relabel, Window": RULE,
    },
    "hopper/recording/instrument.py": {
        "ForOp, IfOp, OneThread, WhileOp": INSIDE,
        "RecordBegin, Timestamp": PATTERN,
    },
    "partition/multicast.py": {
        "CtaIndex, ProgramId": PLACE,
    },
    "partition/persistent.py": {
        "NumPrograms, ProgramId": PLACE,
    },
    "partition/pointer_loads.py": {
        "DescLoad, Load": LOADS,
        "Join, Map, Repeat, Reshape, Split, Trans": PATTERN,
        "Reshape, Trans": TURN,
    },
    "partition/rings.py": {
        "DescLoad, Load": LOADS,
    },
    "partition/strided_tiles.py": {
        "Broadcast, ExpandDims, Trans": RULE,
    },
    "partition/warps.py": {
        "Load, Reduce, Scan, Store": MEASURED,
    },
    "pipeline/flatten.py": {
        "ConstantOp, ViewRead": PATTERN,
        "Reshape, Trans": TURN,
    },
    "simulate/interpret/aref.py": {
        "Create, ReturnOp, WarpGroup": INSIDE,
    },
    "simulate/interpret/cta.py": {
        "SharedLoad, SharedStore": FIELDS,
    },
    "simulate/prove/actor.py": {
        "BlockId, NumBlocks": RULE,
    },
    "simulate/prove/code.py": {
        "Barriers, MbarrierInit, MbarrierWait": RULE,
    },
    "simulate/prove/functions.py": {
        "ConstantOp, Map, YieldOp": COVERED,
    },
    "simulate/prove/op_kinds.py": {
        (
            "Barriers, ClusterRank, GroupIndex, MatrixDesc, Ring, Slot, Subtile, "
            "SubtileColumn, TeamIndex, TileWords"
        ): COVERED,
        (
            "BulkCommit, BulkWait, BulkWaitRead, ClusterSync, CopyArrive, CtaSync, "
            "FenceBarrierInit, FenceProxyAsync, MbarrierArrive, MbarrierExpect, MbarrierInit,"
            " MbarrierWait, NamedBarrierArrive, NamedBarrierSync, TmaLoad, TmaStore, Wgmma, "
            "WgmmaCommit, WgmmaWait"
        ): COVERED,
        (
            "CopyAsync, SharedGather, SharedHistogram, SharedLoad, SharedStore, Stmatrix, "
            "TransposeTile, WarpProduct"
        ): COVERED,
    },
    "simulate/timing/lines.py": {
        "ReduceLanes, ShuffleFrom, ShuffleXor": RULE,
    },
    "simulate/timing/program.py": {
        "GlobalLoad, GlobalStore": FIELDS,
    },
    "tile/analysis/axis_info.py": {
        "NumPrograms, ProgramId": PLACE,
    },
    "tile/analysis/boxes_apart.py": {
        "ArgReduce, Reduce": FIELDS,
    },
    "tile/analysis/order.py": {
        "DescLoad, DescStore": FIELDS,
    },
    "tile/analysis/past_ends.py": {
        "ReduceWith, ScanWith": FIELDS,
    },
    "tile/analysis/singled_out.py": {
        "Broadcast, ExpandDims": PATTERN,
    },
    "tile/passes/descriptor_pointers.py": {
        "DescLoad, DescSize, DescStore": RULE,
        "DescLoad, DescStore": FIELDS,
    },
    "tile/passes/descriptors.py": {
        "DescBase, DescSize, MakeDesc": RULE,
    },
    "tile/passes/loads/repeated_loads.py": {
        "Arange, Splat": RULE,
        "Broadcast, ExpandDims, Map": RULE,
        "Broadcast, ExpandDims, Splat, Trans": RULE,
    },
    "tile/passes/scaled_exponents.py": {
        "Reshape, Trans": TURN,
    },
    "tile/passes/loads/uniform_loads.py": {
        "Arange, Splat": RULE,
        "Broadcast, ExpandDims, Map, Trans": RULE,
    },
}
"""For each file, its lists, names in order, and what each is."""


def elements(node: ast.AST) -> list[ast.expr]:
    """The members of a list or union."""
    if isinstance(node, ast.Tuple | ast.Set | ast.List):
        return node.elts
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [e for side in (node.left, node.right) for e in (elements(side) or [side])]
    return []


def named(node: ast.expr) -> str:
    """The op class, or the op's name, that an expression is; "" if it is none."""
    if isinstance(node, ast.Name | ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        return name if name in CLASSES else ""
    is_name = isinstance(node, ast.Constant) and node.value in NAMES
    return str(node.value) if is_name else ""


def annotations(tree: ast.AST) -> Iterator[ast.AST]:
    """What only says of which type something is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield from ast.walk(node.annotation)
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            yield from ast.walk(node.returns)
        if isinstance(node, ast.Subscript):
            yield from ast.walk(node.slice)


def lists(text: str) -> Iterator[str]:
    """The lists of a module, as their members' names."""
    tree = ast.parse(text)
    seen = {id(node) for node in annotations(tree)}
    for node in ast.walk(tree):
        if id(node) in seen:
            continue
        found = [name for e in elements(node) if (name := named(e))]
        seen |= {id(inner) for inner in ast.walk(node)} if found else set()
        if len(found) > 1 and not set(found) <= CONTROL:
            yield ", ".join(sorted(set(found)))


def modules() -> Iterator[tuple[str, Path]]:
    """The compiler's modules; a dialect's own say what it consists of."""
    for room in ROOMS:
        for path in sorted((SOURCE / room).rglob("*.py")):
            name = path.relative_to(SOURCE).as_posix()
            if "/dialect/" not in name:
                yield name, path


def test_every_list_of_ops_is_named_with_what_it_is():
    found = {name: set(lists(path.read_text())) for name, path in modules()}
    assert {n: sorted(f) for n, f in found.items() if f} == {
        n: sorted(reasons) for n, reasons in REASONS.items()
    }, "ask for an effect or a trait instead, or say in REASONS what the list is"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if isinstance(op, Load | ops.Store): pass", ["Load, Store"]),
        ("WRITES = {'tile.store', 'tile.desc_store'}", ["tile.desc_store, tile.store"]),
        ("FREE = (hopper.Relabel, Window, scf.YieldOp)", ["Relabel, Window, YieldOp"]),
        ("LOOPS = (scf.ForOp, scf.WhileOp)", []),
        ("def f(op: Load | Store) -> Load | Store: pass", []),
        ("RULES = {Load: f, Store: g}", []),
        ("x = (Load, 3)", []),
    ],
)
def test_lists_are_seen(text: str, expected: list[str]):
    assert list(lists(text)) == expected
