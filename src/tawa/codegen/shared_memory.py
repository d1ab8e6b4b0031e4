"""Where everything lies in shared memory: rings, staging buffers, scratch and barriers."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntAttr, UnitAttr
from xdsl.ir import Attribute

from tawa.aref.analysis.slots import ALIGNMENT, extents_of, panel_rows, swizzle_for
from tawa.base.errors import TawaError
from tawa.base.spans import Span
from tawa.hopper.dialect.core import number
from tawa.hopper.dialect.structure import ALIAS, Barriers, Ring
from tawa.hopper.dialect.types import RingType, TileType
from tawa.machine.chips import Chip


class SharedMemoryExceeded(TawaError):
    """The kernel's buffers do not fit in shared memory."""

    explanation = (
        "Rings of tiles, staging buffers for stores and scratch space share the shared memory of "
        "one multiprocessor (227 KB on an H100). Ask for fewer stages (`num_stages`), smaller "
        "blocks or fewer staging buffers (`staging`)."
    )
    example = """
import tawa
import tawa.language as tl


@tawa.jit
def gemm(a, b, c, K, M: tl.constexpr, N: tl.constexpr):
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
    c.store([0, 0], acc.to(tl.float16))


tile = "desc<f16,{}x{}>".format
gemm.compile(tile(128, 64), tile(128, 64), tile(128, 128), "i32", 128, 128, num_stages=30)
"""

    def __init__(
        self, needed: int, available: int, parts: list[tuple[str, int]], span: Span | None
    ):
        listed = ", ".join(f"{name} {size} B" for name, size in parts)
        super().__init__(
            "the kernel's buffers do not fit in shared memory",
            span=span,
            expected=f"at most {available} bytes",
            found=f"{needed} bytes ({listed})",
            hint="reduce num_stages, the block sizes or staging",
        )
        self.excess = needed - available


def tile_for(shape: tuple[int, ...], element: Attribute) -> TileType:
    """How a block lies in shared memory: its last dimension in panels, the others as rows."""
    rows, columns = extents_of(shape)
    swizzle = swizzle_for(columns, element) if rows > 1 else 0
    return TileType.of(rows, columns, element, swizzle, panel_rows(rows, swizzle))


def _size(op: Ring) -> int:
    assert isinstance(op.ring.type, RingType)
    return op.ring.type.bytes


@dataclass
class SharedMemory:
    """Hands out offsets; everything in it lives as long as the kernel."""

    target: Chip
    used: int = 0
    parts: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    _scratch: dict[tuple[str, int], list[Ring]] = field(
        default_factory=dict[tuple[str, int], "list[Ring]"]
    )
    """Rings that share an area, by its key."""
    _barriers: int = 0
    _rows: list[tuple[Barriers, int]] = field(default_factory=list[tuple[Barriers, int]])

    def ring(self, name: str, slots: int, tile: TileType) -> Ring:
        """A ring of tiles at an aligned offset."""
        type_ = RingType(IntAttr(slots), tile)
        op = Ring(self._take(name, type_.bytes), type_)
        op.ring.name_hint = name
        return op

    def again(self, ring: Ring, tile: TileType) -> Ring:
        """A ring of as many slots in another's place, whose users are done by then."""
        assert isinstance(ring.ring.type, RingType)
        op = Ring(ring.offset.value.data, RingType(ring.ring.type.slots, tile))
        op.ring.name_hint = ring.ring.name_hint
        op.attributes[ALIAS] = UnitAttr()
        return op

    def scratch(self, tile: TileType, slots: int, owner: str = "") -> Ring:
        """A ring in the scratch area that all its users share, one after the other.

        Slots are of concurrent teams; then only rings of equal slots share an area. A role that
        exchanges tiles while others do is the `owner` of an area of its own.
        """
        type_ = RingType(IntAttr(slots), tile)
        op = Ring(0, type_)
        op.ring.name_hint = "scratch"
        self._scratch.setdefault((owner, tile.bytes if slots > 1 else 0), []).append(op)
        return op

    def barriers(self, name: str, arrivals: int, slots: int) -> Barriers:
        """A row of mbarriers."""
        op = Barriers(0, arrivals, slots)
        op.barrier.name_hint = name
        self._rows.append((op, self._barriers))
        self._barriers += 8 * slots
        return op

    def finish(self, span: Span | None) -> int:
        """Place scratch and barriers; returns all bytes. Raises SharedMemoryExceeded."""
        for rings in self._scratch.values():
            self._share(rings)
        start = self._take("barriers", self._barriers, 8)
        for op, offset in self._rows:
            op.properties["offset"] = number(start + offset)
        if self.used > self.target.shared_bytes:
            raise SharedMemoryExceeded(self.used, self.target.shared_bytes, self.parts, span)
        return self.used

    def _share(self, rings: list[Ring]) -> None:
        """One area for rings that are used one after the other."""
        sizes = [_size(op) for op in rings]
        start = self._take("scratch", max(sizes))
        widest = rings[sizes.index(max(sizes))]
        for op in rings:
            op.properties["offset"] = number(start)
            if op is not widest:
                op.attributes[ALIAS] = UnitAttr()

    def _take(self, name: str, size: int, alignment: int = ALIGNMENT) -> int:
        start = -(-self.used // alignment) * alignment
        self.used = start + size
        self.parts.append((name, size))
        return start
