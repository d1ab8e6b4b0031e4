"""The launch options of a kernel: the only knobs that compiling reads, part of the cache key."""

from __future__ import annotations

from dataclasses import dataclass, fields

from tawa.base.errors import TawaError
from tawa.base.timeline import DETAILS
from tawa.base.user_frames import entries
from tawa.machine.chips import CHIPS, SM_90A, Chip, chip


class RequestUnmet(TawaError, group=True):
    """An option that was asked for has no value that can be, or can't be met by the kernel."""


class BadOption(RequestUnmet):
    """A launch option has a value that no kernel can be compiled with."""

    explanation = (
        "The launch options are the fields of `tawa.Options`. These are their ranges. `chip` is "
        "'h100' or 'h200'. `num_warps` is 1, 2, 4, 8, 16 or 32. `num_stages` is at least 1. "
        "`mma_depth` is from 0 and less than `num_stages`, since a slot is returned only when the "
        "products that read it are done. `consumers` is 1 to 4, `staging` 1 to 16, `schedule` 0 "
        "to 63, and `cluster` 1 or 2. `deal` is 1 to 8 or 'even'; other than 1 it needs "
        "`persistent` and no clusters. `ctas_per_sm` is 1 to 4; other than 1 it needs no "
        "clusters. `maxnreg` is 16 to 255, for kernels without roles. `launch_cooperative_grid` "
        "is for kernels that are not persistent."
    )
    example = """
import tawa


@tawa.jit
def nothing(x):
    pass


nothing.compile("*f32", num_warps=3)
"""


@entries
@dataclass(frozen=True, repr=False)
class Options:
    """What a launch may pin; `None` leaves the choice to the compiler.

    A pinned request that cannot be met is an error with the numbers, never a silent fallback.
    """

    target: str = SM_90A.target
    """The architecture that machine code is for; there is no other."""
    chip: str | None = None
    """The GPU whose memory and clock are reckoned with: `"h100"` or `"h200"`.

    By default it is the GPU that is there, and `"h100"` where there is none.
    """
    num_warps: int = 4
    """Warps of a kernel that is not specialised (Triton's meaning)."""
    num_stages: int | None = None
    """D: slots of each ring of asynchronous references in a loop.

    A launch of at most half as many programs as multiprocessors takes all slots that there is
    room for.
    """
    mma_depth: int | None = None
    """P: matrix instructions of earlier iterations left in flight."""
    consumers: int | None = None
    """Consumer warp groups (1 to 4)."""
    ping_pong: bool | None = None
    """Consumers take turns on tiles instead of sharing each tile."""
    slice_k: int = 1
    """Teams of consumers that share the iterations of the loop over K (1 to 4).

    Each takes every `slice_k`-th iteration, and the first team adds up their sums. It is for loops
    that only add up products, in kernels with fewer programs than the device has multiprocessors.
    Each team has `num_stages` slots. If it is left unset, a launch of few programs chooses it.
    """
    specialize: bool | None = None
    """`True`: producer and consumer warp groups, or an error saying why not. `False`: one role."""
    persistent: bool | None = None
    """Wrap a plain grid into a loop over its programs, one CTA per multiprocessor."""
    deal: int | str = 1
    """Consecutive programs that a CTA of a persistent kernel takes at a time (1 to 8).

    `"even"` is for programs of different work. In the order of the grid each goes to the CTA that
    is free first, and of the last ones the longest goes first. Their work follows from the bounds
    of the kernel's loops, program ids and scalar arguments; it is planned before the launch.
    """
    cluster: int = 1
    """CTAs of a cluster: consecutive programs. Loads that they share are multicast."""
    staging: int | None = None
    """Buffers of 64 columns in which each consumer stages descriptor stores."""
    overlap: bool | None = None
    """`False` keeps the order of loops whose products feed ordinary code (no modulo schedule)."""
    alternate: bool = False
    """Consumers that share a tile take turns to issue the products of a scheduled loop."""
    schedule: int = 0
    """Which of the solver's schedules such loops get, by its preference (0 to 63): for tuning."""
    ctas_per_sm: int = 1
    """CTAs that share a multiprocessor, its shared memory and its registers (1 to 4).

    Each has less for its rings and accumulators, and runs under the others' waits and ends.
    """
    bulk_copies: bool | None = None
    """Tiles that pointers address are copied by the copy engine where they are boxes of rows.

    By default they are not where warps multiply by themselves: testing for a box takes longer than
    copying the few bytes of such tiles.
    """
    load_together: bool = False
    """All that an iteration of a loop loads fills one slot, for which consumers wait once.

    That saves a wait and a return of a slot in each iteration, but a slot is held as long as any
    of its tiles is read. It is for short iterations, with memory for three slots or more.
    """
    stream_stores: bool = False
    """Give written lines back to memory first (L2 evict-first): for outputs larger than the L2."""

    may_overlap: tuple[tuple[str, str], ...] = ()
    """Pairs of arguments whose memory may overlap; a launch finds them by itself.

    Otherwise arrays of different arguments are taken to be apart. A launch looks at its arrays, for
    the pairs that matter to its kernel, and runs code that is right for those that do overlap.
    """

    through_pointers: tuple[str, ...] = ()
    """Arguments whose descriptors' blocks are addressed one element each; a launch finds them.

    The copy engine can not do what a launch asks of these: rows that are written end inside a piece
    of 16 bytes, or rows of a descriptor that the kernel makes begin inside one. The engine always
    does the loads of descriptors that the launch passes.
    """

    same_array: tuple[tuple[str, str], ...] = ()
    """Pairs of arguments that start at one address, and of integers that are equal.

    A launch that works in place finds them by itself: the arrays, and their strides if the kernel
    takes each array's.
    """

    enable_fp_fusion: bool = True
    """`False`: the assembler does not make one instruction of a product and a sum."""

    enable_reflect_ftz: bool = True
    """`False`: exponentials of f32 keep denormals, which the unit for them takes for zeros."""

    default_dot_input_precision: str = "tf32"
    """How `tl.dot` takes operands of f32 where the kernel does not say it."""

    launch_cooperative_grid: bool = False
    """All CTAs of a launch run at the same time, or the driver refuses it.

    For programs that wait for each other in any order; such a kernel is not made persistent.
    """

    launch_pdl: bool = False
    """The launch begins while kernels before it still run, and waits for them before it works.

    It is for short kernels after others on a stream. When the wait ends, the kernels before are
    done, and their writes are seen. One of them that calls `gdc_launch_dependents` lets it begin
    earlier.
    """

    maxnreg: int | None = None
    """Registers that a thread may use at most. The kernel then has one role."""

    num_ctas: int = 1
    """CTAs of a program: 1. A wish of Triton's kernels for more is left open."""

    timeline: bool | str = False
    """Write timestamps to a `tawa.Timeline`, which sets this for the launches in its block.

    The value is the timeline's `detail`: `"fine"`, `"coarse"` (as is `True`) or `"tiles"`.
    """

    @property
    def machine(self) -> Chip:
        """The chip as one CTA sees it."""
        return self.whole_machine.divided(self.ctas_per_sm)

    @property
    def whole_machine(self) -> Chip:
        """The chip, all of it."""
        return chip(self.chip)

    def __repr__(self) -> str:
        values = ((field.name, getattr(self, field.name), field.default) for field in fields(self))
        return f"Options({', '.join(f'{n}={v!r}' for n, v, default in values if v != default)})"

    def __post_init__(self) -> None:
        """Check each value's range. Raises BadOption."""
        self._one_of("target", (SM_90A.target,))
        self._one_of("chip", (None, *CHIPS))
        self._one_of("num_warps", (1, 2, 4, 8, 16, 32))
        self._one_of("consumers", (None, 1, 2, 3, 4))
        self._one_of("enable_fp_fusion", (True, False))
        self._one_of("enable_reflect_ftz", (True, False))
        self._one_of("default_dot_input_precision", ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6"))
        self._one_of("launch_cooperative_grid", (True, False))
        self._one_of("launch_pdl", (True, False))
        self._one_of("timeline", (False, True, *DETAILS))
        self._between("num_stages", 1, 64)
        self._between("mma_depth", 0, 7)
        self._between("staging", 1, 16)
        self._between("ctas_per_sm", 1, 4)
        self._between("slice_k", 1, 4)
        self._between("maxnreg", 16, SM_90A.max_registers)
        self._between("num_ctas", 1, 16)
        self._check_registers_and_grid()
        if isinstance(self.deal, str) and self.deal != "even":
            raise BadOption(
                f"there is no deal={self.deal!r}",
                expected="a whole number from 1 to 8, or 'even'",
                found=repr(self.deal),
                hint="leave deal unset for one program at a time",
            )
        if self.deal != "even":
            self._between("deal", 1, 8)
        self._between("schedule", 0, 63)
        if self.deal != 1 and (self.cluster > 1 or not self.persistent):
            raise BadOption(
                "programs are dealt to the CTAs of a persistent kernel without clusters",
                expected="persistent=True and cluster=1",
                found=f"deal={self.deal}, persistent={self.persistent}, cluster={self.cluster}",
                hint="leave `deal` at 1",
            )
        if self.ctas_per_sm > 1 and self.cluster > 1:
            raise BadOption(
                "CTAs of a cluster have a multiprocessor each",
                expected="cluster=1",
                found=f"ctas_per_sm={self.ctas_per_sm}, cluster={self.cluster}",
                hint="leave `ctas_per_sm` or `cluster` at 1",
            )
        stages, products = self.num_stages, self.mma_depth
        if stages is not None and products is not None and products >= stages:
            raise BadOption(
                "more matrix products in flight than there are slots to read from",
                expected=f"num_stages of at least {products + 1} for mma_depth={products}",
                found=f"num_stages={stages}",
                hint="raise num_stages, or lower mma_depth",
            )

    def _check_registers_and_grid(self) -> None:
        if self.maxnreg is not None and self.specialize is None:
            object.__setattr__(self, "specialize", False)
        if self.maxnreg is not None and self.specialize:
            raise BadOption(
                "roles have registers of their own each, whose number the compiler chooses",
                expected="specialize=False with maxnreg",
                found=f"specialize=True, maxnreg={self.maxnreg}",
                hint="leave maxnreg unset",
            )
        if self.launch_cooperative_grid and self.persistent:
            raise BadOption(
                "programs that run at the same time are a CTA each",
                expected="persistent=False with launch_cooperative_grid",
                found="persistent=True",
                hint="leave persistent unset",
            )

    def _one_of(self, name: str, values: tuple[object, ...]) -> None:
        if getattr(self, name) not in values:
            expected = " or ".join(repr(value) for value in values)
            raise BadOption(
                f"there is no {name}={getattr(self, name)!r}",
                expected=expected,
                found=repr(getattr(self, name)),
                hint=f"leave {name} unset for its default",
            )

    def _between(self, name: str, least: int, most: int) -> None:
        value = getattr(self, name)
        if value is not None and not isinstance(value, int):
            raise BadOption(
                f"{name} is a whole number",
                expected=f"{least} to {most}",
                found=repr(value),
                hint=f"leave {name} unset for the compiler's choice",
            )
        if value is not None and not least <= value <= most:
            raise BadOption(
                f"{name}={value} is out of range",
                expected=f"{least} to {most}",
                found=str(value),
                hint=f"leave {name} unset for the compiler's choice",
            )
