"""Which loads miss, and which iterations are replayed: figures of drawn loads and programs.

What has to hold of them is checked beside the figures, which `--update` writes anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from tawa.simulate.timing.code import COMMIT, ITERATION, MATRIX, WORK
from tawa.simulate.timing.memory import misses
from tawa.simulate.timing.sample import LEAST_ITERATIONS, Cut, cut_of, iterations_of
from tawa.simulate.timing.work import Work


def parts(numbers: tuple[float, ...]) -> str:
    return " ".join(f"{number:.4f}" for number in numbers)


def loads(random: Random) -> list[list[tuple[str, int]]]:
    """Of some CTAs, one after the other, boxes of which some are shared."""
    boxes = [(f"box {n}", random.choice((512, 4096))) for n in range(9)]
    counts = [random.randint(1, 7) for _ in range(random.randint(1, 4))]
    return [[random.choice(boxes) for _ in range(count)] for count in counts]


def test_which_loads_miss(golden: Callable[[str, str], None]):
    lines: list[str] = []
    for seed in range(40):
        random = Random(seed)
        ctas: Any = loads(random)
        whole = sum(size for boxes in ctas for _, size in boxes)
        distinct = sum(size for _, size in {box for boxes in ctas for box in boxes})
        loaded, read, replaced = (random.choice((0, 3000, whole, 2 * whole)) for _ in range(3))
        found = misses(ctas, loaded, read, replaced)
        turns = max(map(len, ctas))
        sizes = [sum(b[turn][1] for b in ctas if turn < len(b)) for turn in range(turns)]
        fresh = sum(part * size for part, size in zip(found.fresh, sizes, strict=True))
        moved = sum(part * size for part, size in zip(found.moved, sizes, strict=True))
        assert fresh == pytest.approx(distinct)
        assert moved - fresh == pytest.approx(min(distinct, replaced))
        lines.append(f"{parts(found.fresh)}; {parts(found.moved)}; {found.rest:.4f}")
    golden("\n".join(lines) + "\n", "txt")


class Programs:
    """Actors whose outermost loops go together: of some each iteration is several."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.count, self.shares = random.randint(5, 60), [random.choice((1, 1, 2))
                                                          for _ in range(random.randint(1, 3))]  # fmt: skip
        self.growing, self.before = random.choice((0.0, 8.0)), random.randint(0, 2)
        self.work = Work(random.choice((0.0, 70.0)), 20.0, random.choice((0.0, 90.0)))
        self.idle = random.choice((None, 3, 80))
        self.steps = random.choice((100, 10_000))

    def program(self, share: int) -> Iterator[tuple[Any, ...]]:
        for _ in range(self.before):
            yield MATRIX, 64.0
        for turn in range(self.count * share):
            yield (ITERATION,)
            yield MATRIX, 32.0 + self.growing * (turn // share)
            yield (COMMIT,)
            yield WORK, self.work

    def found(self) -> list[Any]:
        own = [iterations_of(self.program(share)) for share in self.shares]
        idle = [(COMMIT,)] * (self.idle or 0)
        return [*own, *([iterations_of(iter(idle))] if self.idle else [])]


def of_cut(cut: Cut | None) -> str:
    if cut is None:
        return "all"
    begins = [0.0]
    for cycles in cut.kept:
        begins.append(begins[-1] + 10 + 1.5 * cycles)
    sizes = f"{cut.iterations} {cut.reference} {len(cut.left_out)}"
    return f"{sizes} {cut.before:g} {cut.factor:.4f} {cut.rest(begins):.3f}"


def test_which_iterations_are_replayed(golden: Callable[[str, str], None]):
    lines: list[str] = []
    for seed in range(160):
        drawn = Programs(seed)
        actors = drawn.found()
        cut = cut_of(actors, drawn.steps)
        own = " ".join(f"{a.count}x{sum(a.cycles):g}+{a.before:g}/{sum(a.steps)}+{a.others}"
                       for a in actors)  # fmt: skip
        lines.append(f"{own}: {of_cut(cut)}")
        if cut is None:
            continue
        kept = cut.iterations[cut.reference]
        assert kept >= LEAST_ITERATIONS
        assert len(cut.kept) == kept
        # What takes 10 cycles, and half as much again, does so in what is left out.
        begins = [0.0]
        for cycles in cut.kept:
            begins.append(begins[-1] + 10 + 1.5 * cycles)
        rest = sum(10 + 1.5 * cycles for cycles in cut.left_out)
        assert cut.rest(begins) == pytest.approx(rest)
    golden("\n".join(lines) + "\n", "txt")
    assert sum(line.endswith("all") for line in lines) < 110
