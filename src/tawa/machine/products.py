"""Terms of the library's models of a product's time, beside what the chip says of itself."""

from __future__ import annotations

from dataclasses import dataclass

from tawa.machine.figures import figure

_SHAPES = "584 timings of products on an H100 (docs/performance-log.md), all terms together"
_AXON = "measured kernels of products on an H100 (docs/performance-log.md), all terms together"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Products:
    """Terms of the GEMM's model (`kernels/gemm_configurations.py`)."""

    second_pass_us: float = figure(
        1.85, "measured", "gemm-layers.jsonl: 0.85 less than the 2.7 fitted to whole launches"
    )
    """Microseconds more where a second kernel, which begins early, adds the parts up."""
    uneven_columns: float = figure(
        1.025,
        "measured",
        "an H200, 16 rows: 48 and 80 columns take 4 to 12% more beside 64 than the model says in "
        "seven layers; on an H100 they gained up to 5% where no wave is half full",
    )
    """Times a tile of few rows takes that is 48 or 80 columns wide: warps multiply unlike parts."""
    copy_us: float = figure(2.5, "fitted", _SHAPES)
    """Microseconds more for each kernel that copies an operand first, bytes apart."""
    clustered_us: float = figure(0.85, "fitted", _SHAPES)
    """Microseconds more to launch clusters."""
    started: float = figure(1950.0, "fitted", _SHAPES)
    """Cycles until a tile's first products are done, where no tile before it hides them."""
    stored: float = figure(0.08, "fitted", _SHAPES)
    """Cycles for each element of a tile that is stored, if no other tile's products hide it."""
    stored_each: float = figure(0.25, "fitted", _SHAPES)
    """As `stored`, where elements are stored one by one: eight rows at once, a sector of each."""
    round_trip: float = figure(1200.0, "fitted", _SHAPES)
    """Cycles of an iteration whose operands are loaded element by element: latency."""
    loaded_each: float = figure(0.17, "fitted", _SHAPES)
    """Cycles of such an iteration for each element."""
    together: int = figure(2, "fitted", _SHAPES)
    """Programs of a multiprocessor that wait for elements at once."""
    least: float = figure(174.0, "fitted", _SHAPES)
    """Cycles of an iteration, however small its tile is: a wait and an issue."""
    each_line: float = figure(132.0, "fitted", _SHAPES)
    """Cycles of latency of an iteration for each line of K."""
    shared: float = figure(146.0, "fitted", _SHAPES)
    """Bytes a cycle that go to shared memory with tiles' rows, and from there to the products."""
    placed: float = figure(300.0, "fitted", _SHAPES)
    """Cycles of the divisions that find a tile's place where programs walk in groups."""
    misaligned: float = figure(2.4, "fitted", _SHAPES)
    """Lines whose time a row of a tile takes if rows do not start with one: it touches two."""
    transposed: float = figure(28.0, "fitted", _SHAPES)
    """Bytes a cycle that a role transposes, which adds to the time of the products beside it."""
    width: float = figure(8.0, "fitted", _SHAPES)
    """Columns more that an instruction would multiply in the time it takes beside its own."""
    overlap: float = figure(8.0, "fitted", _SHAPES)
    """How nearly the longest of what happens in an iteration at once is its time (a norm)."""
    written_back: float = figure(14e6, "fitted", _SHAPES)
    """Bytes, at most, that what was in L2 writes back to make room for what is not streamed."""
    energy: float = figure(2.0, "fitted", _SHAPES)
    """Part by which a line loaded for every product of two elements would lengthen all: moving
    bytes takes power, which costs clock at the card's limit."""
    sharpness: float = figure(2.5, "fitted", _SHAPES)
    """How nearly the longer of a kernel's own time and its memory's is both's time (a norm)."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FusedProducts:
    """Terms of the model of fused products (`axon/gpu/tiles.py`)."""

    one_group: float = figure(0.6, "fitted", _AXON)
    """Part of the tensor core's rate that tiles of one consumer warp group reach."""
    two_groups: float = figure(0.78, "fitted", _AXON)
    """The same for tiles of two."""
    largest: float = figure(0.81, "fitted", _AXON)
    """The same for the largest tiles."""
    copies: float = figure(0.62, "fitted", _AXON)
    """Part of what L2 gives several that read the same that tiles' operands reach."""
    taken_in: float = figure(0.85, "fitted", _AXON)
    """Part of what one multiprocessor takes in that tiles' operands and results reach."""
    tile_clocks: float = figure(2000.0, "fitted", _AXON)
    """Clocks to fill a tile's pipeline and to begin writing it."""
    scattered: float = figure(12.0, "fitted", _AXON)
    """How much longer a tile of another operand takes to read than to write, if not staged."""
