"""The vocabulary of the tile level: all op modules as one dialect.

A tile module holds one `func.func` whose body uses these ops, `ew.map`, `arith.constant` (scalars
only: a tensor constant is a `tile.splat` of one) and `scf`.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.dialects.scf import Scf
from xdsl.ir import Dialect

from tawa.base.spans import SpanAttr
from tawa.base.types import DescType, PlanType, PtrType
from tawa.ir.elementwise import EW, Map
from tawa.tile.dialect.assembly_ops import ASSEMBLY_OPS, Asm, AsmEffect
from tawa.tile.dialect.combine_ops import COMBINE_OPS, ReduceWith, ScanWith, Yield
from tawa.tile.dialect.compute_ops import (
    COMPUTE_OPS,
    PRECISIONS,
    REDUCTION_KINDS,
    SUMS,
    ArgReduce,
    Dot,
    Reduce,
    Scan,
    products_summed,
)
from tawa.tile.dialect.indexed_ops import INDEXED_OPS, Gather, Histogram
from tawa.tile.dialect.memory_ops import (
    ATOMIC_KINDS,
    EVICTION_POLICIES,
    LOAD_MODIFIERS,
    MEMORY_OPS,
    MEMORY_ORDERS,
    SCOPES,
    STORE_MODIFIERS,
    Assert,
    AtomicCas,
    AtomicRmw,
    Barrier,
    DescBase,
    DescLoad,
    DescSize,
    DescStore,
    Load,
    MakeDesc,
    Print,
    Store,
    pointee,
)
from tawa.tile.dialect.value_ops import (
    VALUE_OPS,
    Arange,
    Broadcast,
    Cat,
    ExpandDims,
    ExtractSlice,
    Join,
    NumPrograms,
    ProgramId,
    Repeat,
    Reshape,
    RowEnds,
    Splat,
    Split,
    TileOp,
    Trans,
    ViewLike,
    spreads,
    tensor_type,
)

__all__ = [
    "ATOMIC_KINDS", "EVICTION_POLICIES", "LOAD_MODIFIERS", "MEMORY_ORDERS", "PRECISIONS",
    "REDUCTION_KINDS", "SCOPES", "STORE_MODIFIERS", "SUMS", "TILE", "ViewLike",
    "Arange", "ArgReduce",
    "Asm", "AsmEffect", "Assert", "AtomicCas", "AtomicRmw", "Barrier", "Broadcast", "Cat",
    "DescBase", "DescLoad", "DescSize", "DescStore", "Dot", "ExpandDims", "ExtractSlice", "Gather",
    "Histogram", "Join", "Load", "MakeDesc", "Map", "NumPrograms", "Print", "ProgramId", "Reduce",
    "ReduceWith", "Repeat", "Reshape", "RowEnds", "Scan", "ScanWith", "Splat", "Split", "Store",
    "TileOp", "Trans", "Yield", "pointee", "products_summed", "spreads", "tensor_type",
    "tile_context",
]  # fmt: skip

TILE = Dialect(
    "tile", [*VALUE_OPS, *COMPUTE_OPS, *COMBINE_OPS, *INDEXED_OPS, *ASSEMBLY_OPS, *MEMORY_OPS]
)
"""The dialect."""

TAWA_TYPES = Dialect("tawa", [], [PtrType, DescType, PlanType, SpanAttr])
"""The types that all levels share, for parsing."""


def tile_context() -> Context:
    """A context that parses tile modules."""
    context = Context()
    for dialect in (Builtin, Func, Scf, Arith, EW, TAWA_TYPES, TILE):
        context.load_dialect(dialect)
    return context
