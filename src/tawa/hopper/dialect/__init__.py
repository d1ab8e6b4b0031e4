"""The vocabulary of the hopper level: every decision is visible, an op is a few lines of C++.

What can no longer appear here: tile and aref ops, tensors, descriptors without a box.
"""

from xdsl.ir import Dialect

from tawa.hopper.dialect.assembly import ASSEMBLY
from tawa.hopper.dialect.copies import COPIES
from tawa.hopper.dialect.core import HopperOp
from tawa.hopper.dialect.debug import DEBUG
from tawa.hopper.dialect.fragment import FRAGMENT
from tawa.hopper.dialect.gather import GATHERS
from tawa.hopper.dialect.global_memory import GLOBAL_MEMORY
from tawa.hopper.dialect.lane_reduction import LANE_REDUCTION
from tawa.hopper.dialect.lanes import LANE_OPS
from tawa.hopper.dialect.matrix import MATRIX
from tawa.hopper.dialect.memory import MEMORY
from tawa.hopper.dialect.structure import STRUCTURE
from tawa.hopper.dialect.sync import SYNC
from tawa.hopper.dialect.trace import TRACE, TraceType
from tawa.hopper.dialect.transpose import TRANSPOSE
from tawa.hopper.dialect.types import (
    BarrierType,
    FragType,
    MatrixDescType,
    RingType,
    TensorMapType,
    TileType,
)
from tawa.hopper.dialect.warp_matrix import WARP_MATRIX

OPS: tuple[type[HopperOp], ...] = (
    *STRUCTURE, *SYNC, *MEMORY, *TRANSPOSE, *GLOBAL_MEMORY, *MATRIX, *FRAGMENT, *TRACE,
    *COPIES,
)  # fmt: skip
TYPES = (FragType, TileType, RingType, BarrierType, TensorMapType, MatrixDescType, TraceType)
HOPPER = Dialect(
    "hopper",
    [*OPS, *WARP_MATRIX, *LANE_OPS, *LANE_REDUCTION, *GATHERS, *ASSEMBLY, *DEBUG],
    list(TYPES),
)
