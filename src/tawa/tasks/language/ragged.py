"""Ragged partitions: groups of rows of different sizes, one after the other.

`offsets` says where they begin: group g has the rows from offsets[g] to before offsets[g + 1].
Sizes and places that follow from offsets are numbers like others in an inner variant, and known
only when the program runs. Boxes of a group end with it: rows of the next group are past its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tawa.base.user_frames import entries, entry, users_place
from tawa.tasks.language.errors import BadPartition
from tawa.tasks.language.running import runner_of
from tawa.tasks.language.tensors import Bounds, Tensor, require_tensor


@entries
@dataclass(frozen=True, eq=False)
class Groups:
    """A tensor cut into groups: `groups[g]` is one of them, a tensor."""

    tensor: Tensor
    offsets: Tensor
    dim: int

    @property
    def shape(self) -> tuple[Any, ...]:
        """How many groups there are."""
        return (self.offsets.shape[0] - 1,)

    def __getitem__(self, group: Any) -> Tensor:
        """A group, whose size is known only when the program runs."""
        span, tensor = users_place(), self.tensor
        runner, d = runner_of("partition_by_offsets"), tensor.dims[self.dim]
        most = tensor.size[d]
        low = runner.element(self.offsets, group, most, span)
        high = runner.element(self.offsets, group + 1, most, span)
        origin, size = list(tensor.origin), list(tensor.size)
        within = [tensor.bounds(other) for other in range(len(origin))]
        within[d] = Bounds(low, high).at(origin[d])
        origin[d], size[d] = origin[d] + low, high - low
        return Tensor(
            tensor.buffer, tuple(origin), tuple(size), tensor.dims, tensor.past_end, tuple(within)
        )


@entry
def partition_by_offsets(tensor: Tensor, offsets: Tensor, dim: int = 0) -> Groups:
    """Cut a dimension of a tensor into groups, one after the other.

    `offsets` [groups + 1] is a tensor of whole numbers that do not descend, from 0 to at most the
    size of the dimension: group g is from offsets[g] to offsets[g + 1]. It is read when the program
    runs. Raises `BadPartition`.
    """
    require_tensor(tensor, "partition_by_offsets")
    require_tensor(offsets, "partition_by_offsets")
    if len(offsets.shape) != 1 or not 0 <= dim < len(tensor.shape):
        raise BadPartition(
            f"a tensor of {len(tensor.shape)} dimensions is cut along dimension {dim} by offsets "
            f"of {len(offsets.shape)} dimensions",
            span=users_place(),
            expected="one of its dimensions, and offsets of one dimension",
            found=f"dim={dim}, offsets {offsets.shape}",
        )
    name = str(offsets.dtype)
    if not name.removeprefix("u").startswith("int"):
        raise BadPartition(
            "offsets are not whole numbers",
            span=users_place(),
            expected="a tensor of int32 or int64",
            found=name,
        )
    return Groups(tensor, offsets, dim)
