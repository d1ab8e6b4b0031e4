"""What the choice says of made-up kernels: every candidate, its cycles, and whether it is taken.

Each kernel changes one number of the one before it that the choice looks at, so that each of its
rules decides something here; `--update` writes the figures anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tawa.base.tile_scheduler import Work
from tawa.driver.choice.candidates import Candidate, by_itself, is_open
from tawa.driver.choice.choose import Ranking, ranking
from tawa.driver.choice.model import Prediction, launch_cycles
from tawa.driver.choice.profile import Cost, Loop, Profile, Sizes
from tawa.machine.chips import H200

PRODUCT = Cost(tensor=512, special=40, ordinary=90, loaded=32768)
DEPTH = Work((("argument", 0), ("constant", 64), ("divsi", 0, 1)))
CAUSAL = Work((("program", 0), ("constant", 1), ("addi", 0, 1)))


def of(*counts: Work, body: Cost = PRODUCT, feeds: bool = False, **more: bool) -> Loop:
    return Loop(body, counts, feeds, **more)


GEMM = Profile(
    ("K",), Cost(stored=16384, tensor=64), (of(DEPTH),), groups=2, accumulators=16384,
    ring_bytes=32768, kept_bytes=1024, staged_bytes=16384, rows=128, apart=True,
)  # fmt: skip
FED = replace(GEMM, loops=(of(DEPTH, feeds=True),))
WORDS = replace(GEMM, copies=True, loops=(of(DEPTH, makes=True),))
ONE = replace(WORDS, groups=1, accumulators=8192, ring_bytes=16384)

KERNELS = {
    "product": GEMM,
    "product that threads copy for": replace(GEMM, copies=True),
    "product across K": replace(GEMM, loops=(of(DEPTH, body=replace(PRODUCT, turned=4096)),)),
    "operands that threads make": WORDS,
    "operands that threads gather": replace(WORDS, loops=(of(DEPTH, gathers=True),)),
    "one group that copies": ONE,
    "one group that copies little": replace(ONE, ring_bytes=2048, kept_bytes=40960),
    "one group of warps": replace(ONE, by_warps=True, accumulators=2048, ring_bytes=6144),
    "fed": FED,
    "fed, one group": replace(FED, groups=1),
    "fed, three groups": replace(FED, groups=3, rows=192, accumulators=24576),
    "fed, rows of four groups": replace(FED, rows=256),
    "fed, operands without room": replace(FED, accumulators=49152, made=8192),
    "fed, guarded": replace(FED, loops=(of(DEPTH, feeds=True, guarded=True),)),
    "fed, causal": replace(FED, loops=(of(CAUSAL, feeds=True), of(feeds=True))),
    "product, causal": replace(GEMM, loops=(of(CAUSAL, DEPTH),)),
    "no product's loop": replace(GEMM, loops=()),
    "much code": replace(FED, loops=(of(DEPTH, body=Cost(400, 900, 700, 512), feeds=True),)),
    "much memory": replace(FED, loops=(of(DEPTH, body=Cost(100, 20, 30, 131072)),)),
    "full of accumulators": replace(FED, accumulators=65536),
    "full shared memory": replace(FED, ring_bytes=90 * 1024),
    "not apart": replace(GEMM, apart=False),
    "not certain": replace(FED, certain=False),
    "one role": replace(GEMM, groups=0),
}
SIZES = (
    Sizes((133,), (("K", 256),)), Sizes((20, 40), (("K", 1000),)), Sizes((17000,), (("K", 64),)),
)  # fmt: skip
ASKED: tuple[Mapping[str, Any], ...] = (
    {}, {"num_stages": 3, "consumers": 1}, {"persistent": True, "deal": "even", "ctas_per_sm": 2},
)  # fmt: skip


def lines(found: Ranking) -> Iterator[str]:
    for prediction in found.all:
        kind = "better" if prediction in found.better else "other"
        one = prediction.candidate
        how = f"{one.resident} x {one.groups}"  # CTAs of a multiprocessor, groups of each
        kind = "written" if prediction is found.written else kind
        yield f"  {prediction.microseconds:.4f} us, {kind}: {one}; {how}"


def test_figures(golden: Callable[[str, str], None]):
    text: list[str] = []
    for name, kernel in KERNELS.items():
        for sizes in SIZES:
            for asked in ASKED:
                text += [f"{name}: {sizes.grid}, {dict(sizes.numbers)}, {dict(asked)}"]
                text += lines(ranking(kernel, sizes, asked, H200))
    golden("\n".join(text) + "\n", "txt")


def test_the_last_round_is_paid_by_those_who_are_in_it():
    """Each multiprocessor has a CTA more for every 132; the last round is as long as it is wide."""

    def cycles(programs: int, resident: int) -> float:
        sizes = Sizes((programs,), (("K", 6400),))
        return launch_cycles(FED, sizes, Candidate((), resident), H200)

    one, two = cycles(132, 1), cycles(264, 2)
    assert cycles(1, 1) == one
    assert cycles(133, 1) == 2 * one
    assert cycles(264, 1) == 2 * one
    assert cycles(132, 2) == one, "alone on its multiprocessor"
    assert cycles(133, 2) == two
    assert cycles(265, 2) == two + one


def test_what_is_asked_for_leaves_nothing_open():
    assert is_open({})
    assert is_open({"persistent": True, "deal": 1, "ctas_per_sm": 1, "ping_pong": True})
    closed: tuple[Mapping[str, Any], ...] = (
        {"specialize": False}, {"cluster": 2}, {"schedule": 2}, {"maxnreg": 64},
        {"launch_cooperative_grid": True},
        {"persistent": True, "deal": 1, "ctas_per_sm": 1, "ping_pong": True, "consumers": 2,
         "alternate": False},
    )  # fmt: skip
    assert not [asked for asked in closed if is_open(asked)]
    assert is_open({"specialize": True, "cluster": 1, "schedule": 0})


def test_slots_leave_room_for_as_many_as_fit():
    """A slot less lets one more in, until registers bound it."""
    small = replace(ONE, accumulators=2048)
    fit = [by_itself(small, {"num_stages": n}, H200) for n in range(1, 15)]
    assert fit == sorted(fit, reverse=True)
    own = [small.ring_bytes * n + small.kept_bytes + small.staged_bytes for n in range(1, 15)]
    least = max(fit)
    assert fit == [max(1, min(least, H200.ctas_with(size))) for size in own]


def test_equals_are_ordered_by_how_little_differs():
    some = [Candidate((("a", 1), ("b", 1))), Candidate((("b", 1),)), Candidate((("a", 1),))]
    found = Ranking(Prediction(Candidate(), 2.0), tuple(Prediction(c, 2.00001) for c in some))
    assert [str(p.candidate) for p in found.all] == ["as written", "a=1", "b=1", "a=1, b=1"]
    assert found.first is found.better[0]
    assert Ranking(found.written).first is found.written
