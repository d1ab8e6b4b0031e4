"""Checking a kernel's launch under many combinations of launch options.

Options interact: each may be right alone and wrong beside another. `Sweep.every` checks every legal
combination of the options that shape communication; `Sweep.pairs` a few that together have every
two values side by side that any combination of options can have.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tawa.base.errors import TawaError
from tawa.base.options import Options

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tawa.cli.empty_arrays import EmptyArrays
    from tawa.driver.jit import Kernel
    from tawa.simulate.interpret.limits import Limits

Chosen = dict[str, Any]
"""Launch options by name; one that is left out is the compiler's choice."""

VALUES: dict[str, tuple[Any, ...]] = {
    "specialize": (None, False),
    "num_stages": (None, 1, 2, 3),
    "mma_depth": (None, 0, 1, 2),
    "consumers": (None, 1, 2, 3),
    "ping_pong": (None, True),
    "slice_k": (1, 2),
    "persistent": (None, True),
    "cluster": (1, 2),
    "staging": (None, 1, 2),
    "overlap": (None, False),
    "alternate": (False, True),
    "deal": (1, 2, "even"),
    "ctas_per_sm": (1, 2),
    "load_together": (False, True),
    "bulk_copies": (True, False),
    "stream_stores": (False, True),
    "num_warps": (4, 8),
}
"""Values of the options that shape a kernel's communication, the default first."""

ALONE = ("overlap", "alternate", "deal", "ctas_per_sm", "load_together", "slice_k",
         "bulk_copies", "stream_stores", "num_warps")  # fmt: skip
"""Options that a full sweep varies one at a time: they meet few of the others' decisions."""

BASES: tuple[Chosen, ...] = (
    {"persistent": True},
    {"cluster": 2},
    {"persistent": True, "cluster": 2},
    {"persistent": True, "ping_pong": True},
)
"""Combinations that many kernels can have, on which pairs of values are tried."""

MULTIPROCESSORS = 2
"""CTAs of a persistent kernel: few, so that each has several tiles."""

NOT_POSSIBLE = frozenset(
    {
        "BadOption", "ClusterNotPossible", "ConsumersNotPossible", "NotSpecialisable",
        "NothingToAlternate", "PingPongNotPossible", "ProductNotSupported", "RegistersExceeded",
        "SharedMemoryExceeded", "SlicesNotPossible",
    }
)  # fmt: skip
"""Errors by which the compiler refuses a combination."""


@dataclass(frozen=True)
class Row:
    """What is known of one combination."""

    options: Chosen
    verdict: str
    """`every launch` (proved of all sizes and trip counts), `proved`, `ordered` (the search's bound
    was reached, but every phase has its place in one order), `not proved: ...`,
    `not possible: ...`, `unsafe: ...` or `wrong: ...`."""
    states: int = 0
    seconds: float = 0.0
    same_as: Chosen | None = None
    """A combination checked before, for which the compiler made the same module."""
    detail: str = ""
    """The whole message of what is wrong."""

    @property
    def possible(self) -> bool:
        """Whether the compiler can meet the options together."""
        return not self.verdict.startswith("not possible")

    @property
    def safe(self) -> bool:
        """Whether nothing can go wrong in any schedule."""
        return self.verdict in ("every launch", "proved", "ordered")

    def render(self) -> str:
        """One line."""
        text = f"{_text(self.options):<72} {self.verdict}"
        if self.same_as is not None:
            return f"{text}, as {_text(self.same_as)}"
        return f"{text}, {self.states} states" if self.states else text


def _text(options: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in options.items()) or "(defaults)"


def _legal(options: Chosen) -> bool:
    try:
        Options(**options)
    except TawaError:
        return False
    return True


def _without_defaults(options: Mapping[str, Any]) -> Chosen:
    return {n: v for n, v in options.items() if n not in VALUES or v != VALUES[n][0]}


def every_combination(fixed: Chosen) -> Iterator[Chosen]:
    """Every legal combination, with the values in `fixed` as they are."""
    names = [n for n in VALUES if n not in fixed and n not in ALONE]
    for values in itertools.product(*(VALUES[n] for n in names)):
        options = {**fixed, **dict(zip(names, values, strict=True))}
        if _legal(options):
            yield _without_defaults(options)
    for name in ALONE:
        if name not in fixed:
            yield from ({**fixed, name: value} for value in VALUES[name][1:])


Pair = tuple[tuple[str, Any], tuple[str, Any]]


class Pairs:
    """Combinations that have every two values together which can be had together.

    Which can't is found out by trying: `next` proposes, `done` says how it went. A pair is given up
    when it is refused on top of the defaults and of each of the `bases`.
    """

    def __init__(
        self, fixed: Chosen, bases: Sequence[Chosen], values: Mapping[str, tuple[Any, ...]]
    ) -> None:
        self.fixed, self.values = fixed, values
        self.bases: list[Chosen] = [{}, *bases]
        self.names = [n for n in values if n not in fixed]
        self.open: dict[Pair, int] = {
            ((a, x), (b, y)): 0
            for a, b in itertools.combinations(self.names, 2)
            for x, y in itertools.product(values[a], values[b])
            if _legal({**fixed, a: x, b: y})
        }
        self.given_up: list[Pair] = []

    def __iter__(self) -> Iterator[tuple[Pair, Chosen]]:
        """Proposals: a pair, and a combination that has it."""
        while self.open:
            pair = next(iter(self.open))
            tries = self.open[pair]
            yield pair, self._filled(dict(pair)) if not tries else self._on_base(pair, tries - 1)

    def done(self, pair: Pair, options: Chosen, possible: bool) -> None:
        """The combination proposed for a pair was possible, or not."""
        if possible:
            self.cover(options)
            return
        self.open[pair] += 1
        if self.open[pair] > len(self.bases):
            self.given_up.append(pair)
            del self.open[pair]

    def cover(self, options: Chosen) -> None:
        """The pairs that a combination has need no other."""
        whole = {n: options.get(n, self.values[n][0]) for n in self.names}
        for a, b in itertools.combinations(self.names, 2):
            self.open.pop(((a, whole[a]), (b, whole[b])), None)

    def _on_base(self, pair: Pair, number: int) -> Chosen:
        return _without_defaults({**self.fixed, **self.bases[number], **dict(pair)})

    def _filled(self, chosen: Chosen) -> Chosen:
        """The combination completed by values that are in most open pairs with the chosen ones."""
        for name in self.names:
            if name in chosen:
                continue
            best = max(self.values[name], key=lambda v: self._gain(chosen, name, v))
            chosen[name] = best
        return _without_defaults({**self.fixed, **chosen})

    def _gain(self, chosen: Chosen, name: str, value: Any) -> int:
        if not _legal({**self.fixed, **chosen, name: value}):
            return -1
        order = {n: i for i, n in enumerate(self.names)}
        found = 0
        for other, held in chosen.items():
            ends = sorted(((other, held), (name, value)), key=lambda end: order[end[0]])
            found += self.open.get((ends[0], ends[1]), 1) == 0
        return found


@dataclass
class Sweep:
    """A launch that is checked with several sets of options.

    `named` has the kernel's arguments by name, its constants among them; arrays hold the results
    of the combination that was checked last.
    """

    kernel: Kernel
    grid: tuple[int, ...]
    named: Mapping[str, Any]
    limits: Limits | None = None
    prove: float = 0.0
    """Seconds for the proof of every launch of one combination; 0 leaves it out."""
    rows: list[Row] = field(default_factory=list[Row])

    def __post_init__(self) -> None:
        self._texts: dict[str, Row] = {}
        self._results: list[Any] = []
        """What each combination's are compared with: of the tile level, or of the first one."""
        self._start: list[Any] = []
        self._varying: tuple[str, ...] = ()
        """Arrays that are not compared: what they hold depends on the order of programs."""
        self._tile: ModuleOp | None = None

    def check_memory(self, empty: EmptyArrays) -> str:
        """Look at every access of global memory at the tile level, which all combinations share.

        Gives the report's text. Raises `RaceBetweenPrograms`, `NeverWritten` or `IllegalAccess`.
        """
        from tawa.simulate.check.levels import tile_arguments
        from tawa.simulate.check.memory import check_memory
        from tawa.simulate.interpret.limits import LimitReached

        tile = self._at_tile_level({})
        arrays = self._restarted(tile)
        given = [self.named[name] for name in tile_arguments(tile)]
        try:
            report = check_memory(
                tile, self.grid, given, unwritten=empty.unwritten(arrays), limits=self.limits
            )
        except LimitReached as limit:
            return f"not covered: global memory: {limit}"
        self._results, self._varying = [a.copy() for a in arrays], report.varying
        return report.render()

    def _restarted(self, tile: ModuleOp) -> list[Any]:
        """The arrays, with what they held at first."""
        from tawa.simulate.check.levels import tile_arguments
        from tawa.simulate.interpret.launch import arrays_of

        arrays = arrays_of([self.named[name] for name in tile_arguments(tile)])
        self._start = self._start or [a.copy() for a in arrays]
        for array, values in zip(arrays, self._start, strict=True):
            if array.flags.writeable:
                array[...] = values
        return arrays

    def every(self, fixed: Chosen) -> Iterator[Row]:
        """Check every combination."""
        yield from self.all_of(every_combination(fixed))

    def all_of(self, combinations: Iterable[Chosen]) -> Iterator[Row]:
        """Check these combinations."""
        for options in combinations:
            yield self.check(options)

    def pairs(
        self,
        fixed: Chosen,
        bases: Sequence[Chosen] = (),
        values: Mapping[str, tuple[Any, ...]] = VALUES,
    ) -> Iterator[Row]:
        """Check combinations that have every possible pair of values."""
        pairs = Pairs(fixed, bases, values)
        known = {repr(sorted(row.options.items())): row for row in self.rows}
        for row in self.rows:
            if row.possible:
                pairs.cover(row.options)
        for pair, options in pairs:
            key = repr(sorted(options.items()))
            if key not in known:
                known[key] = self.check(options)
                yield known[key]
            pairs.done(pair, options, known[key].possible)

    def check(self, options: Chosen) -> Row:
        """Compile to the last level and check; the row is kept too."""
        begin = time.perf_counter()
        try:
            row = self._checked(options)
        except TawaError as error:
            name = type(error).__name__
            if name in NOT_POSSIBLE:
                row = Row(options, f"not possible: {name}")
            else:
                row = Row(options, f"unsafe: {name}", detail=error.render())
        row = Row(
            options, row.verdict, row.states, time.perf_counter() - begin, row.same_as, row.detail
        )
        self.rows.append(row)
        return row

    def _checked(self, options: Chosen) -> Row:
        module = self.module(options)
        text = str(module)
        before = self._texts.get(text)
        if before is not None:
            return Row(options, before.verdict, before.states, same_as=before.options)
        row = self._searched(module, options)
        self._texts[text] = row
        return row

    def _at_tile_level(self, options: Chosen) -> ModuleOp:
        """The kernel's module that all combinations are made of."""
        from tawa.driver.compilation import Compilation
        from tawa.driver.compiler import tile_level

        if self._tile is None:
            request = self.kernel.request(**self.named, **options)
            work = Compilation(request.options)
            self._tile = tile_level(work, self.kernel, request.types, request.constants)
        return self._tile

    def module(self, options: Chosen) -> ModuleOp:
        """The kernel at the last level, without machine code."""
        from tawa.driver.compilation import Compilation

        work = Compilation(self.kernel.request(**self.named, **options).options)
        return work.level("hopper", work.level("aref", self._at_tile_level(options).clone()))

    def _searched(self, module: ModuleOp, options: Chosen) -> Row:
        from tawa.driver.compiled import spec_of
        from tawa.simulate import check, prove
        from tawa.simulate.check.levels import array_elements, differing

        tile = self._at_tile_level(options)
        arrays = self._restarted(tile)
        arguments = [self.named[name] for name in spec_of(module).arguments]
        report = check(
            module, self.grid, arguments,
            multiprocessors=MULTIPROCESSORS, schedules=0, limits=self.limits,
        )  # fmt: skip
        if not report.proved and not report.one_order:
            return Row(options, f"not proved: {'; '.join(report.reached)}", report.states)
        self._results = self._results or [a.copy() for a in arrays]
        apart = differing(array_elements(tile), arrays, self._results)
        wrong = [f"`{name}`" for name in apart if name not in self._varying]
        if wrong:
            return Row(options, f"wrong: other results in {', '.join(wrong)}", report.states)
        verdict = "proved" if report.proved else "ordered"
        if self.prove and not report.cut and prove(module, self.prove).proved:
            verdict = "every launch"
        return Row(options, verdict, report.states)
