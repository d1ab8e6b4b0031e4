"""Ops of the hopper level by how an actor of a proof takes them."""

from __future__ import annotations

from tawa.hopper.dialect.copies import CopyArrive, CopyAsync
from tawa.hopper.dialect.gather import SharedGather, SharedHistogram
from tawa.hopper.dialect.matrix import MatrixDesc, TileWords, Wgmma, WgmmaCommit, WgmmaWait
from tawa.hopper.dialect.memory import (
    BulkCommit,
    BulkWait,
    BulkWaitRead,
    SharedLoad,
    SharedStore,
    Slot,
    Stmatrix,
    Subtile,
    SubtileColumn,
    TmaLoad,
    TmaStore,
)
from tawa.hopper.dialect.structure import (
    Barriers,
    ClusterRank,
    GroupIndex,
    Ring,
    TeamIndex,
)
from tawa.hopper.dialect.sync import (
    ClusterSync,
    CtaSync,
    FenceBarrierInit,
    FenceProxyAsync,
    MbarrierArrive,
    MbarrierExpect,
    MbarrierInit,
    MbarrierWait,
    NamedBarrierArrive,
    NamedBarrierSync,
)
from tawa.hopper.dialect.transpose import TransposeTile
from tawa.hopper.dialect.warp_matrix import WarpProduct

ACCESSES = (
    SharedLoad, SharedStore, Stmatrix, TransposeTile, WarpProduct, SharedHistogram, SharedGather,
    CopyAsync,
)  # fmt: skip
"""Ops that access shared memory, and whose places depend on their operands that are no fragments
(a gather's are taken to be all of its tile)."""

STEPS = (
    TmaLoad, TmaStore, BulkCommit, BulkWait, BulkWaitRead, CopyArrive, Wgmma, WgmmaCommit,
    WgmmaWait, MbarrierInit, FenceBarrierInit, FenceProxyAsync, CtaSync, ClusterSync,
    MbarrierExpect, MbarrierWait, MbarrierArrive, NamedBarrierSync, NamedBarrierArrive,
)  # fmt: skip
"""Ops that communicate otherwise."""

PLACES = (Ring, Barriers, TeamIndex, GroupIndex, ClusterRank, Slot, Subtile, SubtileColumn,
          MatrixDesc, TileWords)  # fmt: skip
"""Ops whose results are known integers where their operands are."""
