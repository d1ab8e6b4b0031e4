"""What can be wrong with a program of tasks, or with its mapping."""

from __future__ import annotations

from tawa.base.errors import TawaError

_HEAD = """
import numpy as np

import tawa.language as tl
from tawa.tasks import (
    READ, READ_WRITE, WRITE, Instance, Mapping, launch, make_tensor, partition_by_blocks, prange,
    srange, task, tunable,
)


@task(y=WRITE, x=READ)
def twice(y, x):
    \"\"\"y = 2 x.\"\"\"

"""

_GRID = (
    _HEAD
    + """
@twice.inner
def twice_grid(y, x):
    size = tunable("size", 16)
    to, of = partition_by_blocks(y, (size,)), partition_by_blocks(x, (size,))
    for i in prange(to.shape[0]):
        launch(twice, to[i], of[i])

"""
)

_LEAF = """
@twice.leaf
def twice_tile(y, x):
    return x + x

"""

_CALL = """
x = np.arange(40, dtype=np.float32)
twice(np.zeros_like(x), x{})
"""


class NotInTask(TawaError):
    """`launch`, `srange` and the like are used outside of a task that runs."""

    explanation = "They belong into the inner variants of tasks, which run when a task is called."
    example = """
from tawa.tasks import srange

for i in srange(4):
    pass
"""


class UnknownReduction(TawaError, ValueError):
    """`REDUCE` is given an operator that it does not have."""

    explanation = "A reduction combines numbers in any order, so its operator has to allow that."
    example = 'from tawa.tasks import REDUCE\n\nREDUCE("product")\n'


class SignatureMismatch(TawaError):
    """A variant's parameters, or a task's privileges, are not those of the task."""

    explanation = "All variants of a task have its parameters: any of them may run for a launch."
    example = (
        _HEAD
        + """
@twice.leaf
def twice_tile(y):
    return y
"""
    )


class PrivilegeViolation(TawaError):
    """A task does more with a tensor than its privilege, or its caller's, says."""

    explanation = (
        "A task declares what it does with each tensor: READ, WRITE (all of it, unread) or "
        "READ_WRITE. A leaf must not read what it only writes; a task must not launch another with "
        "more rights on a tensor than its own; a task that writes nothing has no effect."
    )
    example = (
        _HEAD
        + """
@twice.leaf
def twice_tile(y, x):
    return y + x
"""
    )


class LeafLaunches(TawaError):
    """A leaf launches tasks, or cuts tensors."""

    explanation = (
        "A leaf is code of the tile language on tiles. What is cut and launched stands in inner "
        "variants, so that a mapping can place each of them."
    )
    example = (
        _HEAD
        + """
@twice.leaf
def twice_tile(y, x):
    for i in srange(2):
        x = x + x
    return x
"""
    )


class InnerTouchesData(TawaError):
    """An inner variant computes with the elements of a tensor."""

    explanation = (
        "Inner variants compute with numbers, cut tensors and launch tasks. They run before the "
        "program does, once for all sizes: elements are not there. Leaves compute with elements."
    )
    example = (
        _HEAD
        + """
@twice.inner
def twice_grid(y, x):
    launch(twice, y, x + x)

"""
        + _CALL.format("")
    )


class NoSuchFact(TawaError, AttributeError):
    """An inner variant asks a tensor for something that it does not have there."""

    explanation = (
        "Inner variants know a tensor's `shape` and its `dtype`, and nothing of its elements. A "
        "transposed view, a sum or a conversion is made in a leaf, of the tiles that it is given."
    )
    example = (
        _HEAD
        + """
@twice.inner
def twice_grid(y, x):
    launch(twice, y, x.T)

"""
        + _CALL.format("")
    )


class LoopCarriesValue(TawaError):
    """A variable goes from one iteration of `srange` or `prange` to the next, or out of it."""

    explanation = (
        "The body of a task loop is traced once for all iterations, so that a Python variable "
        "can't change from one to the next. What iterations hand on lies in tensors; numbers are "
        "computed from the index. A loop over Python's `range` is unrolled, and may do anything."
    )
    example = (
        _HEAD
        + """
@twice.inner
def twice_grid(y, x):
    place = 0
    for i in srange(3):
        launch(twice, partition_by_blocks(y, (16,))[place], partition_by_blocks(x, (16,))[i])
        place += 1
"""
    )


class LoopNotUniform(TawaError):
    """The body of `srange` or `prange` does not do the same in each iteration."""

    explanation = (
        "A loop's body is traced twice with the same index, and has to do the same both times. It "
        "must not be left early either (`break`, `return`), because the loop's extent says how "
        "often it runs."
    )
    example = (
        _HEAD
        + _LEAF.replace("twice_tile", "twice_leaf")
        + """
places = []


@twice.inner
def twice_grid(y, x):
    for i in srange(3):
        places.append(i)
        to = partition_by_blocks(y, (16,))[i]
        launch(twice, to, partition_by_blocks(x, (16,))[i * len(places) // 9])


x = np.arange(40, dtype=np.float32)
mapping = Mapping(
    Instance("twice_grid", entry=True, calls=("twice_leaf",)), Instance("twice_leaf")
)
twice(np.zeros_like(x), x, mapping=mapping)
"""
    )


class IndexNotConstant(TawaError):
    """The value of a loop's index is asked for."""

    explanation = (
        "A loop's body is traced once for all iterations, so its index has no value of its own. "
        "It can be computed with, can index a partition, and can be passed to leaves, which may "
        "branch on it."
    )
    example = (
        _HEAD
        + """
@twice.inner
def twice_grid(y, x):
    for i in srange(3):
        if i > 1:
            launch(twice, y, x)

"""
        + _CALL.format("")
    )


class BadPartition(TawaError):
    """A tensor can't be cut, or a partition indexed, this way."""

    explanation = (
        "A box has a size for each dimension. A box may reach past the end of the tensor or the "
        "box that is cut, and reads zeros there. If boxes are cut from such a box, they must "
        "divide it."
    )
    example = (
        _HEAD
        + """
@twice.inner
def twice_grid(y, x):
    launch(twice, partition_by_blocks(y, (16, 16))[0, 0], x)

"""
        + _CALL.format("")
    )


class BadOffsets(TawaError):
    """Offsets of a ragged partition descend, or lie outside of the tensor."""

    explanation = (
        "Group g of `partition_by_offsets(x, offsets)` is from offsets[g] to offsets[g + 1]. "
        "Offsets that descend would give groups that overlap. Offsets in NumPy arrays are "
        "checked. Those on a device are not, because a check would wait for the device."
    )
    example = (
        _HEAD
        + """
from tawa.tasks import partition_by_offsets


@task(y=WRITE, x=READ, offsets=READ)
def each(y, x, offsets):
    \"\"\"y = 2 x, group by group.\"\"\"


@each.inner
def each_group(y, x, offsets):
    to, of = partition_by_offsets(y, offsets), partition_by_offsets(x, offsets)
    for g in prange(*to.shape):
        launch(twice, to[g], of[g])

"""
        + _GRID.removeprefix(_HEAD)
        + _LEAF
        + """
x = np.arange(40, dtype=np.float32)
each(np.zeros_like(x), x, np.array([0, 24, 16, 40], np.int32))
"""
    )


class WrongTaskArguments(TawaError):
    """A task is called or launched with other arguments than it takes."""

    explanation = (
        "A task takes a tensor for each parameter with a privilege, and numbers for the others."
    )
    example = _GRID.replace("to[i], of[i]", "to[i]") + _CALL.format("")


class AliasingIterations(TawaError):
    """Two iterations of a `prange` touch the same elements, and one of them writes."""

    explanation = (
        "Iterations of `prange` may run at the same time. Their order must not matter: none may "
        "write what another one reads or writes. `srange` keeps an order."
    )
    example = _GRID.replace("to[i]", "to[i // 2]") + _LEAF + _CALL.format("")


class AliasingArguments(TawaError):
    """Two arguments of a launch overlap, and one of them is written."""

    explanation = (
        "A mapping decides whether an argument is a copy. What a task writes to one argument must "
        "not be seen in another: otherwise the mapping would change results."
    )
    example = (
        _HEAD
        + """
@twice.inner
def twice_grid(y, x):
    launch(twice, y, y)
"""
        + _CALL.format("")
    ).replace("y=WRITE", "y=READ_WRITE")


class TensorUndefined(TawaError):
    """A launch reads a tensor that nothing was written to, or a task leaves a result undefined."""

    explanation = (
        "`make_tensor` gives a tensor whose elements are undefined until a launch writes them. "
        "A task with the privilege WRITE on a tensor writes all of it."
    )
    example = (
        _HEAD
        + """
@twice.inner
def twice_all(y, x):
    half = make_tensor(x.shape, x.dtype)
    launch(twice, y, half)
"""
        + _CALL.format("")
    )


class TooManyIterations(TawaError):
    """It can't be shown that the iterations of a `prange` are apart."""

    explanation = (
        "Boxes of one partition with indices of their own are apart for all sizes. Other boxes are "
        "compared one by one, up to 8192 of them."
    )
    example = (
        _GRID.replace("to[i]", "to[i % 3]")
        .replace("of[i]", "of[i % 3]")
        .replace("to.shape[0]", "1 << 14")
        + _LEAF
        + _CALL.format("")
    )


class UnboundTunable(TawaError):
    """A tunable has no value."""

    explanation = (
        "`tunable(name)` is a constant that the mapping's record binds; `tunable(name, default)` "
        "has a value where no record does."
    )
    example = _GRID.replace('"size", 16', '"size"') + _CALL.format("")


class MissingVariant(TawaError):
    """A launch finds no variant of the task to run."""

    explanation = (
        "A launch without a record runs the task's first variant; in a variant of the same task "
        "it runs the next one. A record names its variant."
    )
    example = _GRID + _CALL.format("")


class BadMapping(TawaError):
    """A mapping contradicts itself, or does not fit the program."""

    explanation = (
        "No two records have the same name. `calls` names a record for each launch statement of "
        "the instance's variant, in the order of the source. One record at most is the entry."
    )
    example = """
from tawa.tasks import Instance, Mapping

Mapping(Instance("gemm_grid", calls=("gemm_block",)))
"""


class MachineNotThere(TawaError):
    """A mapping names a processor or memory that the machine, or the processor, does not have."""

    explanation = (
        "Processors are node, device, block, warp_group, warp and thread, from the outermost in. "
        "An instance runs where its caller does, or inside of it. Memories are global, shared, "
        "register and none; a device's code reaches global memory alone. Leaves run on blocks, "
        "and below them the compiler chooses the layouts. A mapping for several devices has an "
        "instance on the node, whose `prange` is dealt to them."
    )
    example = """
from tawa.tasks import Instance, Mapping

Mapping(Instance("gemm_grid", processor="cluster"))
"""


class NotShared(TawaError):
    """Warp groups, or warps, can't share what a `prange` of a block launches."""

    explanation = (
        "Warp groups that each run a leaf on a box are one team, which runs it on all boxes at "
        "once. That needs three things. The boxes lie one behind the other in one dimension of one "
        "tile. Numbers that the leaf is given are the same for all. And the leaf does to a tile of "
        "all boxes what it does to each: it does not combine elements of different boxes, or ask "
        "how many there are."
    )
    example = (
        _HEAD
        + """
@twice.inner
def twice_groups(y, x):
    to, of = partition_by_blocks(y, (32,)), partition_by_blocks(x, (32,))
    for g in prange(2):
        launch(twice, to[g], of[g])


@twice.leaf
def twice_tile(y, x):
    return x + tl.sum(x, axis=0)


mapping = Mapping(
    Instance("twice_groups", processor="block"), Instance("twice_tile", processor="warp_group")
)
x = np.arange(64, dtype=np.float32)
twice(np.zeros_like(x), x, mapping=mapping)
"""
    )


class LayoutUnmet(TawaError):
    """The compiler spreads a tile over warps in another way than a mapping, or a program, says."""

    explanation = (
        "Below a block the compiler chooses the layouts. A mapping may still say how warp groups "
        "and warps share a product, and `partition_by_mma` how the matrix instruction does. Both "
        "are compared with the layouts and instructions of the compiled kernel's products. Warp "
        "groups share the rows of a product, and a warp group's warps have 16 rows each of 64."
    )
    example = """
import numpy as np

import tawa.language as tl
from tawa.tasks import READ, WRITE, Instance, Mapping, launch, partition_by_blocks, prange, task


@task(c=WRITE, a=READ, b=READ)
def gemm(c, a, b):
    \"\"\"C = A B, of one block.\"\"\"


@gemm.inner
def gemm_columns(c, a, b):
    of_c = partition_by_blocks(c, (int(c.shape[0]), 64))
    of_b = partition_by_blocks(b, (int(b.shape[0]), 64))
    for g in prange(2):
        launch(gemm, of_c[0, g], a, of_b[0, g])


@gemm.leaf
def gemm_tile(c, a, b):
    return tl.dot(a, b)


mapping = Mapping(
    Instance("gemm_columns", processor="block"), Instance("gemm_tile", processor="warp_group")
)
a, b = np.ones((128, 64), np.float16), np.ones((64, 128), np.float16)
gemm(np.zeros((128, 128), np.float16), a, b, mapping=mapping)
"""


class PastTheEnd(TawaError):
    """A leaf combines elements past the end of a tensor, and they count."""

    explanation = (
        "A box at the end of a tensor may reach past it, and is filled up there: with zeros, or "
        "with what `partition_by_blocks(..., past_end=...)` says. That does no harm where each "
        "element stays in its place, since what is written there is dropped. A sum counts what is "
        "not zero, a maximum what is not minus infinity. Say the neutral element where the tensor "
        "is cut, or mask in the leaf, by numbers that it is given: "
        "`tl.where(columns < n, x, 0.0)`. Sizes that the boxes divide have no such elements."
    )
    example = (
        _HEAD
        + """
@twice.inner
def twice_grid(y, x):
    launch(twice, y, partition_by_blocks(x, (64,))[0])


@twice.leaf
def twice_tile(y, x):
    return tl.max(x, axis=0, keep_dims=True)


x = -np.ones(40, np.float32)
twice(np.zeros(1, np.float32), x)
"""
    )


class UnmetNone(TawaError):
    """A tensor that the mapping puts nowhere has to be materialised."""

    explanation = (
        "Memory `none` is a promise that is checked: the tensor's elements never exist at this "
        "level. Launches inside it take their boxes from the memory that the caller has them in. "
        "So it can't be a leaf's own argument, nor what one launch hands to another."
    )
    example = (
        _GRID
        + _LEAF
        + _CALL.format(', mapping=Mapping(Instance("twice_tile", memories={"x": "none"}))')
    )


class TensorNotMapped(TawaError):
    """A tensor can't be kept in the memory that it is mapped to."""

    explanation = (
        "Tiles in registers and in shared memory are values. A leaf takes such a tile whole. It "
        "takes a box of one only where the tile itself is a box of another tensor. Tensors that a "
        "block makes live in registers or shared memory, those that the device makes in global "
        "memory."
    )
    example = (
        _GRID
        + _LEAF
        + _CALL.format(', mapping=Mapping(Instance("twice_tile", memories={"x": "global"}))')
    )


class SharedCapTooSmall(TawaError):
    """A block needs more shared memory than its cap."""

    explanation = (
        "`shared_cap` bounds the shared memory of a block. It holds the tiles that its instances "
        "keep there, in as many slots as `pipeline` says, and what its stores are staged in."
    )
    example = (
        _GRID.replace("16)", "256)")
        + _LEAF
        + _CALL.format(', mapping=Mapping(Instance("twice_tile", shared_cap=256))')
    )
