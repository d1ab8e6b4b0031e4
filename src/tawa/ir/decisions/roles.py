"""Who does what: roles, what goes through rings, and products that warps do by themselves."""

from __future__ import annotations

from dataclasses import dataclass

from tawa.ir.decisions.decision import Decision


class _OfPartition(Decision):
    by = "partition"


@dataclass(frozen=True)
class ProgramsDealt(_OfPartition):
    """A persistent kernel's programs are dealt to the multiprocessors."""

    differs: bool
    """Whether their loops tell how long they are."""

    @property
    def sentence(self) -> str:
        """How they are dealt."""
        how = "as their loops tell" if self.differs else "as equal: no loop tells otherwise"
        return f"programs are dealt evenly, {how}"


@dataclass(frozen=True)
class ProgramsNotSerialised(_OfPartition):
    """A kernel that waits for other programs is not made persistent."""

    op: str

    @property
    def sentence(self) -> str:
        """Where it waits."""
        why = "a program that waits for a later one of its CTA would wait for ever"
        return f"not persistent: programs wait for others ({self.place(self.op)}), and {why}"


@dataclass(frozen=True)
class LoadTogetherUnneeded(_OfPartition):
    """The option `load_together` has nothing to do."""

    @property
    def sentence(self) -> str:
        """Why not."""
        return "load_together changes nothing where one role loads"


@dataclass(frozen=True)
class NotThroughRing(_OfPartition):
    """A load through pointers stays where it is used."""

    tile: str
    why: str
    op: str

    @property
    def sentence(self) -> str:
        """Which, and why."""
        return f"{self.tile} ({self.place(self.op)}) does not go through a ring: {self.why}"


@dataclass(frozen=True)
class CopiedThroughPointers(_OfPartition):
    """Tiles that a loading role copies into rings through pointers."""

    tiles: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Which."""
        return f"copied into rings through pointers: {', '.join(self.tiles)}"


@dataclass(frozen=True)
class CopiedAhead(_OfPartition):
    """Tiles that the only role copies into rings itself."""

    tiles: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Which."""
        return f"copied into rings by the role that computes: {', '.join(self.tiles)}"


class _OfBulkCopies(Decision):
    by = "bulk-copies"


@dataclass(frozen=True)
class CopiedInBulk(_OfBulkCopies):
    """Tiles that the copy engine copies where they are boxes, though pointers address them."""

    tiles: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Which."""
        return f"copied by the copy engine where they are boxes: {', '.join(self.tiles)}"


@dataclass(frozen=True)
class NotCopiedInBulk(_OfBulkCopies):
    """A tile that is loaded through pointers is not known to be a box."""

    tile: str
    why: str
    op: str

    @property
    def sentence(self) -> str:
        """Which, and why."""
        return f"{self.tile} ({self.place(self.op)}) is no box for the copy engine: {self.why}"


@dataclass(frozen=True)
class NotSpecialised(_OfPartition):
    """One role does everything."""

    why: str = ""
    """The obstacle; none if it was asked for."""
    op: str = ""
    """What stands in the way."""

    @property
    def sentence(self) -> str:
        """Why."""
        if not self.why:
            return "one role, as the option `specialize=False` asks"
        where = f" ({self.place(self.op)})" if self.span or self.op else ""
        return f"not specialised: {self.why}{where}"


@dataclass(frozen=True)
class MoreWarps(_OfPartition):
    """A kernel gets more warps than were asked for."""

    warps: int
    asked: int

    @property
    def sentence(self) -> str:
        """How many, and why."""
        return f"{self.warps} warps: a tile has no room in the registers of {self.asked}"


@dataclass(frozen=True)
class FewerWarps(_OfPartition):
    """A kernel gets fewer warps than were asked for."""

    warps: int
    asked: int

    @property
    def sentence(self) -> str:
        """How many, and why."""
        return (
            f"{self.warps} warps: products of so few rows have no instruction for the warp groups "
            f"of {self.asked}"
        )


@dataclass(frozen=True)
class Specialised(_OfPartition):
    """A loading role and a computing one."""

    single: bool
    """Whether one thread loads."""
    teams: int
    groups: int
    """Warp groups of a team."""

    @property
    def sentence(self) -> str:
        """Who loads and who computes."""
        loader = "one loading thread" if self.single else "a loading warp group"
        teams = f"{self.teams} team{'s' if self.teams > 1 else ''}"
        groups = f"{self.groups} consumer warp group{'s' if self.groups > 1 else ''}"
        return f"{loader} and {teams} of {groups}"


@dataclass(frozen=True)
class MultipliedByWarps(Decision):
    """A product has no warp-group instruction."""

    why: str
    by = "warp-products"

    @property
    def sentence(self) -> str:
        """Which product, and why."""
        return f"{self.place('a product')} is done by warps: {self.why}"


@dataclass(frozen=True)
class ConvertedByRole(Decision):
    """What products read is computed from loaded tiles by a role of its own."""

    tile: str
    warps: int
    by = "conversions"

    @property
    def sentence(self) -> str:
        """Which tile, and by how many warps."""
        where = self.place("a product")
        return f"{self.tile} is computed for products by a role of {self.warps} warps ({where})"


@dataclass(frozen=True)
class TransposedByRole(Decision):
    """A tile is transposed between its load and its products."""

    tile: str
    interleaved: bool
    """Whether K gets the order of the other operand's registers."""
    by = "transposes"

    @property
    def sentence(self) -> str:
        """Which tile."""
        order = ", K in the order of the other operand's registers" * self.interleaved
        where = self.place("a product")
        return f"{self.tile} is transposed by a role of its own ({where}){order}"
