"""Products that nobody tuned: chosen ones, and random ones by a seed.

Random ones are layers of language models (queries with keys and values, outputs, feed-forward,
logits) at 1 to 16,384 rows, and every fourth an odd one: sizes that are multiples of 8 only.
`families` draws products of every kind: few rows or columns, long K, rows that are not whole 16
bytes, batches, views, other types.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

HIDDEN = (2048, 2560, 3072, 4096, 5120, 6144, 8192)
FEED_FORWARD = (8192, 11008, 14336, 28672)
VOCABULARY = (32000, 128256)
LAYOUTS = ("NT", "NN", "TN")
TYPES = ("fp16", "bf16")
ODD_EVERY = 4
LARGEST = 4e12
"""Operations of the largest random product: a few milliseconds."""


@dataclass(frozen=True)
class Case:
    """An M x N x K product, how A and B lie (T: contiguous along M or K), and their type.

    `batch` of them where it is not 0; each row of A and B is followed by `gap` elements that
    belong to neither.
    """

    m: int
    n: int
    k: int
    layout: str = "NT"
    dtype: str = "fp16"
    family: str = ""
    batch: int = 0
    gap: int = 0

    @property
    def row(self) -> dict[str, Any]:
        """What the result rows say of it."""
        return {**vars(self), "accumulate": "fp32"}

    @property
    def flops(self) -> int:
        """Operations of the product."""
        return 2 * self.m * self.n * self.k * max(self.batch, 1)

    def __str__(self) -> str:
        batch, gap = f"{self.batch}x" * (self.batch > 0), f" +{self.gap}" * (self.gap > 0)
        return f"{self.dtype} {self.layout} {batch}{self.m}x{self.n}x{self.k}{gap} {self.family}"


CASES = (
    *(Case(64, 64, 16384, "NN"), Case(256, 256, 16384), Case(2048, 256, 16384, "NN", "bf16")),
    *(Case(512, 512, 16384, "TN"), Case(128, 1024, 8192, "NT", "bf16"), Case(192, 320, 4096, "TT")),
    *(Case(8192, 256, 4096, "NT", "bf16"), Case(8192, 256, 8192), Case(12288, 256, 1024, "NN")),
    *(Case(256, 16384, 512, "TN", "bf16"), Case(65536, 256, 512), Case(32768, 64, 2048, "NN")),
    *(Case(64, 16384, 1024, "NT", "bf16"), Case(320, 4096, 14336, "NN"), Case(96, 12288, 4096)),
    *(Case(128, 8192, 8192), Case(512, 64, 8192, "NN", "bf16"), Case(400, 400, 400, "NN", "bf16")),
    *(Case(5000, 5000, 5000), Case(6216, 1288, 2056, "NN"), Case(3000, 520, 1000, "NT", "bf16")),
    *(Case(1000, 3000, 2000, "TN"), Case(32776, 264, 776), Case(2056, 2056, 8200, "TT", "bf16")),
    *(Case(2048, 2048, 2048), Case(3072, 3072, 3072, "NN"), Case(1536, 6144, 4096, "TN", "bf16")),
    *(Case(7168, 2048, 7168), Case(16384, 512, 16384, "NT", "bf16"), Case(4096, 384, 16384, "TT")),
)


def random_cases(seed: int, count: int = 40) -> tuple[Case, ...]:
    """`count` products, the same for the same seed."""
    draw = random.Random(seed)
    cases: list[Case] = []
    while len(cases) < count:
        sizes = _odd(draw) if len(cases) % ODD_EVERY == ODD_EVERY - 1 else _layer(draw)
        case = Case(*sizes, draw.choice(LAYOUTS), draw.choice(TYPES))
        if case.layout[0] == "T" and case.m % 8:  # rows of A must be whole 16 bytes
            case = Case(*sizes, "N" + case.layout[1], case.dtype)
        if case.flops <= LARGEST:
            cases.append(case)
    return tuple(cases)


def families(seed: int) -> tuple[Case, ...]:
    """Products of every kind, each of random sizes, the same for the same seed."""
    draw = random.Random(seed)
    large, small = (lambda: _size(draw, 1500, 7000)), (lambda: _size(draw, 64, 1024))
    few, wide = (lambda: _size(draw, 1, 64, 1)), (lambda: draw.choice(HIDDEN + FEED_FORWARD))
    odd = lambda low, high: 2 * _size(draw, low // 2, high // 2, 1) + 1  # noqa: E731
    even = lambda low, high: 8 * _size(draw, low // 8, high // 8, 1) + draw.choice((2, 4, 6))  # noqa: E731
    kinds: list[tuple[str, int, Callable[[], tuple[int, int, int]], str]] = [
        ("large", 6, lambda: (_lines(large()), _lines(large()), _lines(large())), "NT NN TN TT"),
        ("small", 6, lambda: (small(), small(), small()), "NT NN TN TT"),
        ("pieces", 4, lambda: (large() + 8, large() + 8, large() + 8), "NT NN TN TT"),
        ("few rows", 7, lambda: (few(), wide(), wide()), "NT NN"),
        ("few columns", 4, lambda: (wide(), few(), wide()), "NT"),
        ("long K", 4, lambda: (small() // 2, small() // 2, 8 * large()), "NT NN TN TT"),
        ("K even", 5, lambda: (large(), large(), even(200, 7000)), "NT"),
        ("K odd", 5, lambda: (large(), large(), odd(200, 7000)), "NT"),
        ("K odd, few rows", 3, lambda: (few(), large(), odd(1000, 7000)), "NT"),
        ("N odd", 5, lambda: (large(), odd(200, 7000), large()), "NN TN"),
        ("odd", 5, lambda: (odd(500, 6000), odd(500, 6000), odd(500, 6000)), "NT NN TN TT"),
        ("odd, small", 4, lambda: (odd(20, 600), odd(20, 600), odd(20, 600)), "NT NN TN TT"),
    ]
    return tuple(
        Case(*sizes(), draw.choice(layouts.split()), draw.choice(TYPES), name)
        for name, count, sizes, layouts in kinds
        for _ in range(count)
    ) + _others(draw)


def _others(draw: random.Random) -> tuple[Case, ...]:
    """Batches, views, and other types of elements."""
    large, small = (lambda: _size(draw, 1500, 7000)), (lambda: _size(draw, 64, 1024))
    layout, half = (lambda: draw.choice(("NT", "NN", "TN"))), (lambda: draw.choice(TYPES))
    batches = [
        Case(small(), small(), small() + skew, layout(), half(), "batch", draw.randint(2, 48))
        for skew in (0, 0, 0, 0, 1, 2)
    ]
    views = [
        Case(large(), large(), large(), layout(), half(), "view", 0, gap) for gap in (1, 2, 4, 8)
    ]
    types = [
        Case(large(), large(), large(), layout(), "fp32", "type"),
        Case(large(), large(), large() + 1, "NT", "fp32", "type"),
        *(
            Case(_lines(large()), _lines(large()), _lines(large()), "NT", "e4m3", "type")
            for _ in "12"
        ),
        *(
            Case(_lines(large()), _lines(large()), _lines(large()), "NT", "int8", "type")
            for _ in "12"
        ),
    ]
    return (*batches, *views, *types)


def _size(draw: random.Random, low: int, high: int, step: int = 8) -> int:
    """A multiple of `step`, as likely in each doubling."""
    return step * round(math.exp(draw.uniform(math.log(low / step), math.log(high / step))))


def _lines(size: int) -> int:
    """A multiple of 128 near `size`."""
    return max(1, round(size / 128)) * 128


def _layer(draw: random.Random) -> tuple[int, int, int]:
    """A layer's rows, outputs and inputs."""
    hidden, inner = draw.choice(HIDDEN), draw.choice(FEED_FORWARD)
    n, k = draw.choice(
        [
            (3 * hidden, hidden),
            (hidden, hidden),
            (inner, hidden),
            (hidden, inner),
            (draw.choice(VOCABULARY), hidden),
        ]
    )
    power = draw.uniform(0, 14)
    exact = draw.random() < 0.75
    m = 2 ** round(power) if exact else round(2**power)
    return m, n, k


def _odd(draw: random.Random) -> tuple[int, int, int]:
    """Sizes from 64 to 8192, multiples of 8."""
    m, n, k = (8 * round(2 ** draw.uniform(3, 10)) for _ in range(3))
    return m, n, k
