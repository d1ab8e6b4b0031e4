"""Tasks and mappings: what a program computes, and apart from it, where its parts run.

    from tawa.tasks import READ, WRITE, Instance, Mapping, launch, partition_by_blocks, prange, task

A task has privileges on its tensors, and variants: inner ones cut tensors and launch tasks, leaves
are code of the tile language. A call of a task runs it under a `Mapping`, or by defaults.
"""

from tawa.tasks.common import clear, copy, fill, multiply
from tawa.tasks.devices.sharded import Sharded
from tawa.tasks.language.instructions import partition_by_mma
from tawa.tasks.language.mapping import Instance, Mapping
from tawa.tasks.language.privileges import READ, READ_WRITE, REDUCE, WRITE, Privilege
from tawa.tasks.language.ragged import Groups, partition_by_offsets
from tawa.tasks.language.running import launch, make_tensor, prange, srange, tunable
from tawa.tasks.language.sizes import cdiv
from tawa.tasks.language.tensors import Partition, Tensor, partition_by_blocks
from tawa.tasks.program import CompiledTasks
from tawa.tasks.runnable import RunnableTask, task

__all__ = [
    "READ",
    "READ_WRITE",
    "REDUCE",
    "WRITE",
    "CompiledTasks",
    "Groups",
    "Instance",
    "Mapping",
    "Partition",
    "Privilege",
    "RunnableTask",
    "Sharded",
    "Tensor",
    "cdiv",
    "clear",
    "copy",
    "fill",
    "launch",
    "make_tensor",
    "multiply",
    "partition_by_blocks",
    "partition_by_mma",
    "partition_by_offsets",
    "prange",
    "srange",
    "task",
    "tunable",
]


def __dir__() -> list[str]:
    return list(__all__)
