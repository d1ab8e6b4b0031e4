"""Kernels that begin while the one before them runs, on a device: each sees what that one wrote."""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import pytest

import tawa
import tawa.language as tl
from tawa.kernels.gemm import Configuration, matmul

pytestmark = pytest.mark.gpu

PROGRAMS, BLOCK, TURNS = 264, 1024, 400


@tawa.jit
def turned(x: Any, y: Any, rounds: Any, BLOCK: tl.constexpr):
    """Each program takes the block of its mirror image, one more than it was, after some work."""
    tl.extra.cuda.gdc_launch_dependents()
    program, last = tl.program_id(0), tl.num_programs(0) - 1
    at = tl.arange(0, BLOCK)
    value = tl.load(x + (last - program) * BLOCK + at)
    for _ in range(rounds * program):
        value = value * 1.0000001
    tl.store(y + program * BLOCK + at, value * 0 + tl.load(x + (last - program) * BLOCK + at) + 1)


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.mark.parametrize("graph", [False, True])
def test_a_chain_of_launches(torch: Any, graph: bool) -> None:
    first = torch.arange(PROGRAMS * BLOCK, device="cuda").remainder(1000).float()
    x, y = first.clone(), torch.full_like(first, torch.nan)

    def run() -> None:
        for _ in range(TURNS // 2):
            turned[(PROGRAMS,)](x, y, 1, BLOCK=BLOCK, launch_pdl=True)
            turned[(PROGRAMS,)](y, x, 1, BLOCK=BLOCK, launch_pdl=True)

    run()
    torch.cuda.synchronize()
    times = 1
    if graph:
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded):
            run()
        recorded.replay()
        torch.cuda.synchronize()
        times = 2
    assert torch.equal(x, first + times * TURNS)


def test_products_in_parts_one_after_the_other(torch: Any) -> None:
    config = Configuration(64, 64, 128, group_m=0, split=4)
    a = torch.randn((64, 4096), device="cuda").half()
    weights = [torch.randn((4096, 4096), device="cuda").half() / 64 for _ in range(3)]
    found = a
    for w in weights * 20:
        found = matmul(found, w, config=config)
        found = (found / found.float().norm() * a.float().norm()).half()
    again = a
    for w in weights * 20:
        again = again.float() @ w.float()
        again = (again.half() / again.norm() * a.float().norm()).half()
    error = (found.float() - again.float()).norm() / again.float().norm()
    assert error < 2e-2
