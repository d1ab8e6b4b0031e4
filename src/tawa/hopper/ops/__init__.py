"""The vocabulary of the hopper level: every decision is visible, an op is a few lines of C++.

What can no longer appear here: tile and aref ops, tensors, descriptors without a box.
"""

from xdsl.ir import Dialect

from tawa.hopper.ops.assembly import ASSEMBLY
from tawa.hopper.ops.copies import COPIES
from tawa.hopper.ops.core import HopperOp
from tawa.hopper.ops.debug import DEBUG
from tawa.hopper.ops.fragment import FRAGMENT
from tawa.hopper.ops.gather import GATHERS
from tawa.hopper.ops.global_memory import GLOBAL_MEMORY
from tawa.hopper.ops.lanes import LANE_OPS
from tawa.hopper.ops.matrix import MATRIX
from tawa.hopper.ops.memory import MEMORY
from tawa.hopper.ops.structure import STRUCTURE
from tawa.hopper.ops.sync import SYNC
from tawa.hopper.ops.trace import TRACE, TraceType
from tawa.hopper.ops.transpose import TRANSPOSE
from tawa.hopper.ops.warp_matrix import WARP_MATRIX
from tawa.hopper.types import (
    BarrierType,
    FragType,
    MatrixDescType,
    RingType,
    TensorMapType,
    TileType,
)

OPS: tuple[type[HopperOp], ...] = (
    *STRUCTURE, *SYNC, *MEMORY, *TRANSPOSE, *GLOBAL_MEMORY, *MATRIX, *FRAGMENT, *TRACE,
    *COPIES,
)  # fmt: skip
TYPES = (FragType, TileType, RingType, BarrierType, TensorMapType, MatrixDescType, TraceType)
HOPPER = Dialect(
    "hopper", [*OPS, *WARP_MATRIX, *LANE_OPS, *GATHERS, *ASSEMBLY, *DEBUG], list(TYPES)
)
