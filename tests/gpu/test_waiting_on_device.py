"""Programs that wait for each other on a device: a thousand launches each, none of them stuck."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import waiting

pytestmark = pytest.mark.gpu

LAUNCHES = 1000


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


class Work:
    """Working memory that is made once, and given out as zeros at every launch."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.made: list[Any] = []
        self.given = 0

    def __call__(self, n: int, kind: str) -> Any:
        if self.given == len(self.made):
            kind = getattr(self.torch, kind)
            self.made.append(self.torch.empty(n, dtype=kind, device="cuda"))
        self.given += 1
        return self.made[self.given - 1].zero_()

    def again(self) -> Work:
        self.given = 0
        return self


@pytest.mark.parametrize("n", [2000, 1_000_003])
def test_scan(torch: Any, n: int) -> None:
    x = torch.randint(-9, 9, (n,), dtype=torch.int32, device="cuda")
    expected = torch.cumsum(x, 0, dtype=torch.int32)
    work = Work(torch)
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    for _ in range(LAUNCHES):
        y = torch.full_like(x, -77)
        waiting.launch_scan(x, y, work.again())
        wrong += (y != expected).sum()
    assert wrong.item() == 0


def test_locked_sum(torch: Any) -> None:
    x = torch.randint(-9, 9, (10_000, 200), device="cuda").float()
    expected = x.sum(0)
    work = Work(torch)
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    for _ in range(LAUNCHES):
        sums = torch.zeros(200, device="cuda")
        waiting.launch_locked_sum(x, sums, work.again())
        wrong += (sums != expected).sum()
    assert wrong.item() == 0


@pytest.mark.parametrize(("shape", "programs"), [((128, 192, 200), 4), ((1000, 1544, 1032), 131)])
def test_stream_k(torch: Any, shape: tuple[int, int, int], programs: int) -> None:
    m, n, k = shape
    a = torch.randn((m, k), device="cuda").half()
    b = torch.randn((n, k), device="cuda").half()
    expected = (a.double() @ b.double().T).float()
    scale = expected.abs().max()
    work = Work(torch)
    worst = torch.zeros((), device="cuda")
    for _ in range(LAUNCHES):
        c = torch.full((m, n), float("nan"), dtype=torch.float16, device="cuda")
        waiting.launch_stream_k(a, b, c, work.again(), programs)
        worst = torch.maximum(worst, (c.float() - expected).abs().max().nan_to_num(1e9))
    assert (worst / scale).item() < 2e-3
