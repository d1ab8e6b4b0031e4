"""Ops on arefs: rings, cursors, puts and gets, views of a slot's tiles.

An aref (asynchronous reference) is a one-slot channel for a tuple of tiles; `depth` of them in a
ring are one aref here. A *cursor* counts puts (or gets) of one warp group; slot and phase follow
from it. A *token* is what `put_enter` and `get_enter` return: the slot that is being filled or
read. A *view* is a tile in a slot; it may be transposed or reshaped before it is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    IntAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tawa.aref.dialect.types import CursorType, RefType, TensorAttr, TokenType, ViewType
from tawa.base.types import DescType, shape_of
from tawa.ir.boxes import Box, operands_of
from tawa.ir.effects import (
    FILLED,
    GLOBAL,
    MEETING,
    SLOT,
    TAKEN,
    Effects,
    frees,
    makes,
    reads,
    writes,
)

COMPLETIONS = ("none", "tma", "copies", "wgmma")
"""What the ops inside a critical region may leave unfinished when it ends."""


class ArefOp(IRDLOperation):
    """Base of the aref level's ops."""


@irdl_op_definition
class Create(ArefOp):
    """A ring of arefs, all empty; with `multicast`, puts may reach all CTAs of the cluster.

    `interleaved`: products take one operand from this ring and the other from registers, so K may
    lie in the order in which registers have it. What is put is transposed on the way.
    """

    name: ClassVar[str] = "aref.create"
    multicast: UnitAttr | None = opt_prop_def(UnitAttr)
    interleaved: UnitAttr | None = opt_prop_def(UnitAttr)
    ref: SSAValue = result_def(RefType)
    traits = traits_def(Effects(makes(SLOT, "ref")))
    assembly_format = (
        "(`multicast` $multicast^)? (`interleaved` $interleaved^)? attr-dict `:` type($ref)"
    )

    def __init__(
        self,
        depth: int,
        tiles: Sequence[TensorAttr],
        *,
        multicast: bool = False,
        interleaved: bool = False,
    ):
        super().__init__(
            properties={
                "multicast": UnitAttr() if multicast else None,
                "interleaved": UnitAttr() if interleaved else None,
            },
            result_types=[RefType(IntAttr(depth), ArrayAttr(tiles))],
        )

    def verify_(self) -> None:
        """A ring has a slot."""
        assert isinstance(self.ref.type, RefType)
        if self.ref.type.depth.data < 1:
            raise VerifyException("a ring has at least one slot")


@irdl_op_definition
class Agree(ArefOp):
    """Whether both CTAs of the cluster want the same blocks: any of a ring's loads, then each."""

    name: ClassVar[str] = "aref.agree"
    ring: IntegerAttr = prop_def(IntegerAttr)
    flags: Sequence[SSAValue] = var_operand_def(i1)
    traits = traits_def(Pure())

    def __init__(self, ring: int, flags: Sequence[SSAValue]):
        super().__init__(operands=[flags], properties={"ring": IntegerAttr(ring, i64)})


@irdl_op_definition
class Start(ArefOp):
    """A cursor at the first slot."""

    name: ClassVar[str] = "aref.start"
    cursor: SSAValue = result_def(CursorType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__(result_types=[CursorType()])


def _moves_own(op: Operation) -> bool:
    return isinstance(op, Advance) and op.cursor is None


@irdl_op_definition
class Advance(ArefOp):
    """Move a cursor of a ring on by `count` slots (0 or more): the group's own if none is named."""

    name: ClassVar[str] = "aref.advance"
    ref: SSAValue = operand_def(RefType)
    count: SSAValue = operand_def(i32)
    cursor: SSAValue | None = opt_operand_def(CursorType)
    result: SSAValue = result_def(CursorType)
    traits = traits_def(Effects(writes(TAKEN, "ref").when(_moves_own)))
    assembly_format = "$ref `by` $count (`at` $cursor^ `:` type($cursor))? attr-dict `:` type($ref)"

    def __init__(self, ref: SSAValue, count: SSAValue, cursor: SSAValue | None = None):
        super().__init__(operands=[ref, count, cursor], result_types=[CursorType()])


class OpensSlot(ArefOp):
    """Gives the views of a slot that this group has."""

    if TYPE_CHECKING:  # each op defines them: operands or results
        ref: SSAValue
        token: SSAValue
        views: Sequence[SSAValue]


class ViewChange(ArefOp):
    """Gives another view of the same memory; no data moves."""

    if TYPE_CHECKING:  # each op defines them
        view: SSAValue
        result: SSAValue


class _Enter(ArefOp):
    """Wait for a slot's state and give its views and its token."""

    ref: SSAValue = operand_def(RefType)
    cursor: SSAValue | None = opt_operand_def(CursorType)
    token: SSAValue = result_def(TokenType)
    views: Sequence[SSAValue] = var_result_def(ViewType)
    assembly_format = (
        "$ref (`at` $cursor^ `:` type($cursor))? attr-dict `:` type($ref) `->` type($views)"
    )

    def __init__(self, ref: SSAValue, cursor: SSAValue | None = None):
        assert isinstance(ref.type, RefType)
        views = [ViewType(tile) for tile in ref.type.tiles]
        super().__init__(operands=[ref, cursor], result_types=[TokenType(), views])

    def verify_(self) -> None:
        """One view for each tile of the tuple."""
        assert isinstance(self.ref.type, RefType)
        if [v.type for v in self.views] != [ViewType(t) for t in self.ref.type.tiles]:
            raise VerifyException("one view for each tile of the aref")


@irdl_op_definition
class PutEnter(_Enter):
    """Wait until the slot is empty; its views may be filled until `put_exit`."""

    name: ClassVar[str] = "aref.put_enter"
    traits = traits_def(Effects(writes(FILLED, "ref")))


@irdl_op_definition
class GetEnter(_Enter, OpensSlot):
    """Wait until the slot is full; its views may be read until `consumed`."""

    name: ClassVar[str] = "aref.get_enter"
    traits = traits_def(Effects(writes(TAKEN, "ref")))


@irdl_op_definition
class Views(OpensSlot):
    """The views of a slot that this group has entered and not returned."""

    name: ClassVar[str] = "aref.views"
    ref: SSAValue = operand_def(RefType)
    token: SSAValue = operand_def(TokenType)
    views: Sequence[SSAValue] = var_result_def(ViewType)
    traits = traits_def(Pure())
    assembly_format = "$ref `,` $token attr-dict `:` type($ref) `->` type($views)"

    def __init__(self, ref: SSAValue, token: SSAValue):
        assert isinstance(ref.type, RefType)
        super().__init__(
            operands=[ref, token], result_types=[[ViewType(tile) for tile in ref.type.tiles]]
        )


class _Exit(ArefOp):
    """Give a slot on, once what `completion` names has finished."""

    ref: SSAValue = operand_def(RefType)
    token: SSAValue = operand_def(TokenType)
    shared: SSAValue | None = opt_operand_def(i1)
    completion: StringAttr = prop_def(StringAttr)
    assembly_format = (
        "$ref `,` $token (`shared` $shared^ `:` type($shared))? `after` $completion attr-dict "
        "`:` type($ref)"
    )

    def __init__(
        self, ref: SSAValue, token: SSAValue, completion: str, shared: SSAValue | None = None
    ):
        super().__init__(
            operands=[ref, token, shared], properties={"completion": StringAttr(completion)}
        )

    def verify_(self) -> None:
        """The completion kind exists."""
        if self.completion.data not in COMPLETIONS:
            raise VerifyException(f"completion is one of {', '.join(COMPLETIONS)}")


@irdl_op_definition
class PutExit(_Exit):
    """The slot becomes full when the copies into it have finished."""

    name: ClassVar[str] = "aref.put_exit"
    traits = traits_def(Effects(writes(FILLED, "ref")))


@irdl_op_definition
class Consumed(_Exit):
    """The slot becomes empty; the reads it names have finished before. Nothing for `no_token`."""

    name: ClassVar[str] = "aref.consumed"
    traits = traits_def(Effects(frees(SLOT, "token")))


@irdl_op_definition
class NoToken(ArefOp):
    """The token of no slot."""

    name: ClassVar[str] = "aref.no_token"
    token: SSAValue = result_def(TokenType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__(result_types=[TokenType()])


@irdl_op_definition
class LoadInto(ArefOp):
    """Copy a block of a tensor into a view, asynchronously; done before the slot becomes full.

    When `shared` holds, all CTAs of the cluster copy the same block: each a part, for all of them.
    `eviction` says how long L2 should keep the block (as of `tile.desc_load`).
    """

    name: ClassVar[str] = "aref.load_into"
    desc: SSAValue = operand_def(DescType)
    coordinates: Sequence[SSAValue] = var_operand_def(i32)
    view: SSAValue = operand_def(ViewType)
    ref: SSAValue = operand_def(RefType)
    token: SSAValue = operand_def(TokenType)
    shared: SSAValue | None = opt_operand_def(i1)
    eviction: StringAttr | None = opt_prop_def(StringAttr)
    traits = traits_def(Effects(reads(GLOBAL, "desc"), writes(SLOT, "view"), writes(FILLED, "ref")))
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$desc `[` $coordinates `]` `into` $view `of` $ref `,` $token "
        "(`shared` $shared^ `:` type($shared))? (`eviction` $eviction^)? attr-dict "
        "`:` type($desc) `,` type($view) `,` type($ref)"
    )

    def __init__(
        self,
        desc: SSAValue,
        coordinates: Sequence[SSAValue],
        view: SSAValue,
        ref: SSAValue,
        token: SSAValue,
        shared: SSAValue | None = None,
        eviction: StringAttr | None = None,
    ):
        super().__init__(
            operands=[desc, coordinates, view, ref, token, shared],
            properties={"eviction": eviction},
        )


@irdl_op_definition
class CopyInto(ArefOp):
    """Copy the elements that a tile of pointers names into a view, asynchronously; zeros if masked.

    The warp group starts the copies itself; they are done before the slot becomes full. `turned`:
    neighbours in memory are neighbours in a column of pointers, and the view has them as rows.
    Where `holds`, the copy engine copies the block of `desc` at the coordinates instead.
    """

    name: ClassVar[str] = "aref.copy_into"
    pointers: SSAValue = operand_def(base(TensorType))
    mask: SSAValue | None = opt_operand_def(base(TensorType))
    view: SSAValue = operand_def(ViewType)
    ref: SSAValue = operand_def(RefType)
    token: SSAValue = operand_def(TokenType)
    desc: SSAValue | None = opt_operand_def(DescType)
    coordinates = var_operand_def(i32)
    holds: SSAValue | None = opt_operand_def(i1)
    turned: UnitAttr | None = opt_prop_def(UnitAttr)
    traits = traits_def(
        Effects(
            reads(GLOBAL, "pointers"),
            reads(GLOBAL, "desc").if_set("desc"),
            writes(SLOT, "view"),
            writes(FILLED, "ref"),
        )
    )
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$pointers (`mask` $mask^)? `into` $view `of` $ref `,` $token (`turned` $turned^)? "
        "(`box` $desc^ `:` type($desc))? (`at` $coordinates^)? (`where` $holds^)? "
        "attr-dict `:` type($pointers) `,` type($view) `,` type($ref) (`,` type($mask)^)?"
    )

    def __init__(
        self,
        pointers: SSAValue,
        mask: SSAValue | None,
        view: SSAValue,
        slot: tuple[SSAValue, SSAValue],
        *,
        turned: bool = False,
        box: Box | None = None,
    ):
        super().__init__(
            operands=[pointers, mask, view, *slot, *operands_of(box)],
            properties={"turned": UnitAttr() if turned else None},
        )

    def verify_(self) -> None:
        """One pointer an element of the view."""
        assert isinstance(self.view.type, ViewType)
        shape = shape_of(self.pointers.type)
        if self.view.type.tile.get_shape() != (shape[::-1] if self.turned else shape):
            raise VerifyException("one pointer for each element of the view")

    @property
    def box(self) -> Box | None:
        """What the copy engine copies where it can, if that is known."""
        if self.desc is None or self.holds is None:
            return None
        return Box(self.desc, self.coordinates, self.holds)


@irdl_op_definition
class TransposeInto(ArefOp):
    """Copy a slot's tile, its dimensions exchanged, into a view; the warp group does it itself."""

    name: ClassVar[str] = "aref.transpose_into"
    source: SSAValue = operand_def(ViewType)
    view: SSAValue = operand_def(ViewType)
    ref: SSAValue = operand_def(RefType)
    token: SSAValue = operand_def(TokenType)
    traits = traits_def(Effects(reads(SLOT, "source"), writes(SLOT, "view"), writes(FILLED, "ref")))
    assembly_format = (
        "$source `into` $view `of` $ref `,` $token attr-dict "
        "`:` type($source) `,` type($view) `,` type($ref)"
    )

    def __init__(self, source: SSAValue, view: SSAValue, ref: SSAValue, token: SSAValue):
        super().__init__(operands=[source, view, ref, token])

    def verify_(self) -> None:
        """Rows become columns; extents of 1 do not count."""
        assert isinstance(self.source.type, ViewType) and isinstance(self.view.type, ViewType)
        *outer, columns = self.source.type.tile.get_shape()
        if self.view.type.tile.get_shape() != (columns, math.prod(outer)):
            raise VerifyException("the view has the source's columns as rows")


@irdl_op_definition
class StoreInto(ArefOp):
    """Store a tile that the role has computed into a view, with all its threads."""

    name: ClassVar[str] = "aref.store_into"
    value: SSAValue = operand_def(base(TensorType))
    view: SSAValue = operand_def(ViewType)
    ref: SSAValue = operand_def(RefType)
    token: SSAValue = operand_def(TokenType)
    traits = traits_def(Effects(writes(SLOT, "view"), writes(FILLED, "ref")))
    assembly_format = (
        "$value `into` $view `of` $ref `,` $token attr-dict "
        "`:` type($value) `,` type($view) `,` type($ref)"
    )

    def __init__(self, value: SSAValue, view: SSAValue, ref: SSAValue, token: SSAValue):
        super().__init__(operands=[value, view, ref, token])

    def verify_(self) -> None:
        """The view has the tile's type."""
        assert isinstance(self.view.type, ViewType)
        if self.view.type.tile != self.value.type:
            raise VerifyException("the view has the type of the tile that is stored")


@irdl_op_definition
class ViewTrans(ViewChange):
    """The view with its two dimensions exchanged; no data moves."""

    name: ClassVar[str] = "aref.view_trans"
    view: SSAValue = operand_def(ViewType)
    result: SSAValue = result_def(ViewType)
    traits = traits_def(Pure())
    assembly_format = "$view attr-dict `:` type($view) `->` type($result)"

    def __init__(self, view: SSAValue):
        assert isinstance(view.type, ViewType)
        tile = view.type.tile
        shape = list(tile.get_shape())[::-1]
        super().__init__(
            operands=[view], result_types=[ViewType(TensorType(tile.element_type, shape))]
        )


@irdl_op_definition
class ViewReshape(ViewChange):
    """The view without dimensions of extent 1, or as a matrix of its rows; no data moves."""

    name: ClassVar[str] = "aref.view_reshape"
    view: SSAValue = operand_def(ViewType)
    result: SSAValue = result_def(ViewType)
    traits = traits_def(Pure())
    assembly_format = "$view attr-dict `:` type($view) `->` type($result)"

    def __init__(self, view: SSAValue, tile: TensorAttr):
        super().__init__(operands=[view], result_types=[ViewType(tile)])

    def verify_(self) -> None:
        """Only extents of 1 differ, or outer dimensions have become rows, as a slot has them."""
        assert isinstance(self.view.type, ViewType) and isinstance(self.result.type, ViewType)
        before, after = (t.tile.get_shape() for t in (self.view.type, self.result.type))
        old, new = ([e for e in shape if e != 1] for shape in (before, after))
        rows = len(after) == 2 and before[-1] == after[-1] and math.prod(before) == math.prod(after)
        if old != new and not rows:
            raise VerifyException("a view's reshape keeps rows, or only changes extents of 1")


@irdl_op_definition
class ViewSlice(ViewChange):
    """A window of the view, from `offsets` on, with whole rows; no data moves."""

    name: ClassVar[str] = "aref.view_slice"
    view: SSAValue = operand_def(ViewType)
    offsets = var_operand_def(i32)
    result: SSAValue = result_def(ViewType)
    traits = traits_def(Pure())
    assembly_format = "$view `[` $offsets `]` attr-dict `:` type($view) `->` type($result)"

    def __init__(self, view: SSAValue, offsets: Sequence[SSAValue], tile: TensorAttr):
        super().__init__(operands=[view, offsets], result_types=[ViewType(tile)])

    def verify_(self) -> None:
        """The window has the view's rank, and its last dimension is whole."""
        assert isinstance(self.view.type, ViewType) and isinstance(self.result.type, ViewType)
        whole, window = (t.tile.get_shape() for t in (self.view.type, self.result.type))
        if len(whole) != len(window) or len(self.offsets) != len(window) or whole[-1] != window[-1]:
            raise VerifyException("a window has the view's rank and its last dimension")


@irdl_op_definition
class ViewRead(ArefOp):
    """The tile as a value: it is copied out of the slot.

    With `meets` the warps of each group wait for each other once they have read it, so that one of
    them may return the slot as soon as it knows that products are done with it.
    """

    name: ClassVar[str] = "aref.view_read"
    view: SSAValue = operand_def(ViewType)
    result: SSAValue = result_def(base(TensorType))
    meets: UnitAttr | None = opt_prop_def(UnitAttr)
    traits = traits_def(Effects(reads(SLOT, "view"), writes(MEETING).if_set("meets")))
    assembly_format = "$view (`meets` $meets^)? attr-dict `:` type($view) `->` type($result)"

    def __init__(self, view: SSAValue):
        assert isinstance(view.type, ViewType)
        super().__init__(operands=[view], result_types=[view.type.tile])


CHANNEL_OPS: tuple[type[ArefOp], ...] = (
    Create,
    Agree,
    Start,
    Advance,
    PutEnter,
    GetEnter,
    Views,
    PutExit,
    Consumed,
    NoToken,
    LoadInto,
    CopyInto,
    TransposeInto,
    StoreInto,
    ViewTrans,
    ViewReshape,
    ViewSlice,
    ViewRead,
)
