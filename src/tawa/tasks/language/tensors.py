"""Tensors as inner variants see them: a shape, a type, and where in memory; never their elements.

A `Tensor` is a view of a buffer: a box of it, of which some dimensions of one element may be
hidden. `partition_by_blocks` cuts a view into boxes of one shape. A box that reaches past the end
of what is cut reads zeros there, and what is written there is dropped, as the copy engine does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tawa.base.errors import in_short
from tawa.base.user_frames import entries, entry, users_place
from tawa.tasks.language.errors import BadPartition, InnerTouchesData, NoSuchFact
from tawa.tasks.language.sizes import (
    Number,
    Size,
    cdiv,
    constant,
    is_fraction,
    is_whole,
    last_of,
    plain,
    text,
    value,
)


@dataclass(eq=False)
class Buffer:
    """Memory of a shape: an argument of the program, a tensor that it makes, or a launch's copy.

    `memory` is one of `mapping.MEMORIES`. `data` is the array where an interpreter runs.
    """

    name: str
    shape: tuple[Number, ...]
    dtype: Any
    memory: str = "global"
    kind: str = "argument"
    span: Any = None
    path: tuple[str, ...] = ()
    data: Any = None
    of: Tensor | None = None
    """The caller's view that a launch's buffer is copied from or to at once, if it is one."""
    inside: tuple[str, ...] = ()
    """Indices of the loops that it is made in, anew in each iteration."""
    home: Tensor | None = None
    """The same, whatever copies are left: past its end, a launch's buffer holds zeros."""

    def whole(self) -> Tensor:
        """The view of all of it."""
        zeros = (0,) * len(self.shape)
        return Tensor(self, zeros, self.shape, tuple(range(len(self.shape))))


@dataclass(frozen=True, eq=False)
class Bounds:
    """Where what is cut (a box, a group of rows) begins and ends, and how far in a box begins."""

    low: Number
    high: Number
    shift: Number = 0

    def at(self, place: Number) -> Bounds:
        """The same group of a tensor that is a box from `place` on."""
        return Bounds(place + self.low, place + self.high, self.shift)

    def moved(self, by: Number) -> Bounds:
        """For a box that begins further in."""
        return Bounds(self.low, self.high, self.shift + by)


@entries
@dataclass(frozen=True, eq=False)
class Tensor:
    """A box of a buffer: `origin` and `size` in its dimensions, of which `dims` are seen."""

    buffer: Buffer
    origin: tuple[Number, ...]
    size: tuple[Number, ...]
    dims: tuple[int, ...]
    past_end: float | None = None
    """What is read outside of the buffer, if it is said: zeros else."""
    within: tuple[Bounds | None, ...] = ()
    """By the buffer's dimension, what the box is cut from: it ends there, not in its neighbour."""

    def bounds(self, d: int) -> Bounds | None:
        """What the box is cut from in a dimension, if that ends before the buffer."""
        return self.within[d] if self.within else None

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes of the dimensions that are seen."""
        return tuple(self.size[d] for d in self.dims)

    @property
    def dtype(self) -> Any:
        """The type of its elements, one of the tile language's."""
        return self.buffer.dtype

    @property
    def is_whole(self) -> bool:
        """Whether this is all of its buffer, as far as texts show."""
        return all(
            text(o) == "0" and text(s) == text(extent)
            for o, s, extent in zip(self.origin, self.size, self.buffer.shape, strict=True)
        )

    def inside(self, outer: Tensor) -> Tensor:
        """This view, of a buffer that itself is the view `outer` of another."""
        origin = list(outer.origin)
        size = list(outer.size)
        within: list[Bounds | None] = [outer.bounds(d) for d in range(len(origin))]
        for own, d in enumerate(outer.dims):
            origin[d] = outer.origin[d] + self.origin[own]
            size[d] = self.size[own]
            group, around = self.bounds(own), within[d]
            if group is not None:
                within[d] = group.at(outer.origin[d])
            elif around is not None:
                within[d] = around.moved(self.origin[own])
        return Tensor(
            outer.buffer,
            tuple(origin),
            tuple(size),
            tuple(outer.dims[d] for d in self.dims),
            outer.past_end if self.past_end is None else self.past_end,
            tuple(within) if any(within) else (),
        )

    def __str__(self) -> str:
        if self.is_whole:
            return self.buffer.name
        parts: list[str] = []
        for d, (o, s) in enumerate(zip(self.origin, self.size, strict=True)):
            parts.append(plain(o) if d not in self.dims else f"{plain(o)} +: {plain(s)}")
        return f"{self.buffer.name}[{', '.join(parts)}]"

    def _touched(self, *_: object) -> Any:
        raise InnerTouchesData(
            f"an inner variant computes with the elements of `{self}`",
            span=users_place(),
            expected="partitions, launches, and arithmetic on numbers",
            found="an operator on a tensor",
            hint="do it in a leaf, and launch that",
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _touched
    __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = _touched
    __getitem__ = __setitem__ = __matmul__ = __rmatmul__ = __neg__ = __abs__ = _touched
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __float__ = __int__ = __index__ = _touched
    __len__ = __iter__ = __array__ = _touched

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # what libraries look for in any object
            raise AttributeError(name)
        raise NoSuchFact(
            f"a tensor of an inner variant has no `{name}`",
            span=users_place(),
            expected="`shape` or `dtype`",
            found=f"`.{name}` of `{self}`",
            hint="what needs elements is done in a leaf; `partition_by_blocks` cuts boxes",
        )


def _indices(index: Any) -> tuple[Any, ...]:
    """What stands in brackets, as a tuple."""
    return index if isinstance(index, tuple) else (index,)  # pyright: ignore[reportUnknownVariableType]


@entries
@dataclass(frozen=True, eq=False)
class Partition:
    """A tensor cut into boxes: `partition[i, j]` is one of them, a tensor."""

    tensor: Tensor
    block: tuple[Number | None, ...]
    offset: tuple[Number, ...]
    past_end: float | None = None
    bounded: frozenset[int] = frozenset()
    """The buffer's dimensions in which boxes may reach past the end of what is cut."""

    @property
    def shape(self) -> tuple[Any, ...]:
        """How many boxes each dimension is cut into, counted without the offset."""
        found: list[Any] = []
        for size, block in zip(self.tensor.shape, self.block, strict=True):
            whole = block is not None and text(size) == text(block)
            found.append(1 if whole else size if block is None else cdiv(size, block))
        return tuple(found)

    def __getitem__(self, index: Any) -> Tensor:
        """The box with an index, one number a dimension."""
        indices = _indices(index)
        if len(indices) != len(self.block):
            raise BadPartition(
                f"a partition of {len(self.block)} dimensions is indexed with {len(indices)}",
                span=users_place(),
                expected=f"{len(self.block)} indices",
                found=str(len(indices)),
            )
        for one in indices:
            if not is_whole(one):
                raise BadPartition(
                    f"a partition is indexed with {plain(one) if is_fraction(one) else repr(one)}",
                    span=users_place(),
                    expected="a whole number for each dimension",
                    found="a fraction" if is_fraction(one) else f"a {type(one).__name__}",
                    hint="one box has one index; cut larger boxes for several",
                )
        tensor = self.tensor
        origin, size, dims = list(tensor.origin), list(tensor.size), list(tensor.dims)
        within = [tensor.bounds(d) for d in range(len(origin))]
        self._check_constants(indices)
        for d, i, block, offset in zip(tensor.dims, indices, self.block, self.offset, strict=True):
            by = i * (1 if block is None else block) + offset
            origin[d] = tensor.origin[d] + by
            size[d] = 1 if block is None else block
            group = within[d]
            if d in self.bounded:
                group = Bounds(tensor.origin[d], tensor.origin[d] + tensor.size[d])
            within[d] = None if group is None else group.moved(by)
            if block is None:
                dims.remove(d)
        past_end = tensor.past_end if self.past_end is None else self.past_end
        bounds = tuple(within) if any(within) else ()
        return Tensor(tensor.buffer, tuple(origin), tuple(size), tuple(dims), past_end, bounds)

    def _counted(self) -> Any:
        raise BadPartition(
            f"the boxes of `{self.tensor}` are counted as a list's",
            span=users_place(),
            expected="a loop over indices: for i, j in prange(*partition.shape)",
            found="len(partition), or a loop over the partition itself",
            hint="partition.shape says how many boxes each dimension has",
        )

    __len__ = __iter__ = _counted

    def _check_constants(self, indices: tuple[Any, ...]) -> None:
        """Raises `BadPartition` for a number in the program's text that names no box.

        So for the last index of loops whose extents are sizes. Where a loop inside is as long as an
        index around it says, a box may lie past an end: it is zeros there.
        """
        for d, (index, extent) in enumerate(zip(indices, self.shape, strict=True)):
            if text(self.offset[d]) != "0":
                continue
            last = last_of(index) if isinstance(index, Size) else None
            if last is not None and text(last + 1) != text(extent) and not last < extent:
                raise BadPartition(
                    f"a loop goes on behind the last box of a partition in dimension {d}",
                    span=users_place(),
                    expected=f"indices below {plain(extent)}, which is {_now(extent)}",
                    found=f"{plain(index)} up to {plain(last)}, which is {_now(last)}",
                    hint="do the sizes of the tensors agree?",
                )
            traced = isinstance(extent, Size)  # all indices of an interpreter are numbers
            named = isinstance(index, int) and index != 0
            if traced and named and (index < 0 or index >= extent):
                raise BadPartition(
                    f"a partition has no box {index} in dimension {d}",
                    span=users_place(),
                    expected=f"numbers from 0 to below {plain(extent)}",
                    found=str(index),
                    hint="neighbours are boxes of a partition with an offset",
                )


def _now(size: Number) -> Any:
    """What a size is in this launch."""
    return value(size, size.known.values) if isinstance(size, Size) else size


def as_sizes(given: Any, what: str) -> tuple[Any, ...]:
    """Sizes, one a dimension. Raises `BadPartition`."""
    if isinstance(given, tuple | list):
        return tuple(given)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    raise BadPartition(
        f"`{what}` is given {plain(given) if isinstance(given, int | Size) else repr(given)}",
        span=users_place(),
        expected="a tuple with a size for each dimension",
        found=f"a {'number' if isinstance(given, int | Size) else type(given).__name__}",
        hint="write (size,) for one dimension",
    )


def require_tensor(given: Any, what: str) -> None:
    """Raises `BadPartition` for what is no tensor of a variant."""
    if not isinstance(given, Tensor):
        raise BadPartition(
            f"`{what}` is given {in_short(given)}",
            span=users_place(),
            expected="a tensor: an argument of the variant, a box, or one of `make_tensor`",
            found=f"a {type(given).__name__}",
            hint="index the partition for a box of it" if isinstance(given, Partition) else None,
        )


@entry
def partition_by_blocks(
    tensor: Tensor, block: Any, offset: Any = None, *, past_end: Any = None
) -> Partition:
    """Cut a tensor into boxes of one shape; those at its end may reach past it.

    `block` has a size a dimension. None stands for one element, and hides the dimension: the
    matrices of a batch are boxes of `(None, rows, columns)`. `offset` moves all boxes, so that
    `offset=(-1, 0)` are each box's neighbours above (a halo). Elements past the tensor's end (or
    before its start) are read as zeros, or as the number `past_end`, and not written: give the
    neutral element of what a leaf does with them (minus infinity for a maximum). Raises
    `BadPartition`.
    """
    require_tensor(tensor, "partition_by_blocks")
    sizes = as_sizes(block, "partition_by_blocks")
    moved = (0,) * len(sizes) if offset is None else as_sizes(offset, "offset")
    if len(sizes) != len(tensor.shape) or len(moved) != len(sizes):
        raise BadPartition(
            f"a tensor of {len(tensor.shape)} dimensions is cut into boxes of {len(sizes)}",
            span=users_place(),
            expected=f"{len(tensor.shape)} sizes (and offsets)",
            found=f"{sizes}" if offset is None else f"{sizes} at {moved}",
        )
    if not all(map(is_whole, moved)):
        raise BadPartition(
            "boxes are moved by a part of an element",
            span=users_place(),
            expected="a whole number of elements for each dimension",
            found=f"offset={moved}",
        )
    if past_end is not None and not isinstance(past_end, int | float):
        raise BadPartition(
            "what is read past the end is not a number",
            span=users_place(),
            expected="a number that the program names, such as past_end=-float('inf')",
            found=str(past_end),
        )
    for d, size in zip(tensor.dims, sizes, strict=True):
        if (size is not None and not isinstance(size, int | Size)) or (
            isinstance(size, int) and size < 1 and size != tensor.size[d]
        ):
            raise BadPartition(
                "a box has whole sizes from 1",
                span=users_place(),
                expected="a whole number, or None for one element",
                found=repr(size),
            )
    bounded = frozenset(
        d
        for d, size, shift in zip(tensor.dims, sizes, moved, strict=True)
        if _needs_bounds(tensor, d, 1 if size is None else size, shift)
    )
    return Partition(tensor, sizes, moved, past_end, bounded)


def _needs_bounds(tensor: Tensor, d: int, size: Any, shift: Any) -> bool:
    """Whether boxes of a box may reach into its neighbour, so that its end has to be theirs."""
    own = tensor.size[d]
    if (text(own) == text(size) and text(shift) == "0") or (size == 1 and shift == 0):
        return False
    if _covers(tensor, d) or (text(shift) == "0" and own % size == 0):
        return False
    if _is_bounded(tensor, d):
        raise BadPartition(
            f"boxes of {plain(size)} in a box of {plain(own)} end in two ways",
            span=users_place(),
            expected=f"a divisor of {plain(own)}, and no offset: the box of {plain(own)} is itself "
            "one that may reach past an end inside of its tensor",
            found=f"{plain(size)}" + ("" if text(shift) == "0" else f" moved by {plain(shift)}"),
            hint="choose tunables that divide each other, or cut the whole tensor",
        )
    return True


def _is_bounded(tensor: Tensor, d: int) -> bool:
    """Whether a box, or what it is a copy of, ends inside of its buffer in a dimension."""
    home = tensor.buffer.home
    return tensor.bounds(d) is not None or (home is not None and _is_bounded(home, home.dims[d]))


def _covers(tensor: Tensor, d: int) -> bool:
    """Whether a view is all of a dimension, of what its buffer is a copy of too."""
    group = tensor.bounds(d)
    if group is not None:
        return text(group.shift) == "0" and text(tensor.size[d]) == text(group.high - group.low)
    extent, own = tensor.buffer.shape[d], tensor.size[d]
    if text(tensor.origin[d]) != "0" or (text(own) != text(extent) and own != extent):
        return False
    home = tensor.buffer.home
    return home is None or _covers(home, home.dims[d])


def may_meet(one: Tensor, other: Tensor) -> bool:
    """Whether two views may have an element in common."""
    if one.buffer is not other.buffer:
        return False
    return not any(
        first is not None and second is not None and size is not None and first + size <= second
        for o1, s1, o2, s2 in zip(one.origin, one.size, other.origin, other.size, strict=True)
        for first, second, size in (
            (constant(o1), constant(o2), constant(s1)),
            (constant(o2), constant(o1), constant(s2)),
        )
    )
