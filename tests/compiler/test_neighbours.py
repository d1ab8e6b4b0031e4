"""Kernels whose rings threads fill, compiled so that two CTAs share a multiprocessor."""

from __future__ import annotations

from typing import Any

import pytest

import tawa
import tawa.language as tl
from tawa.machine.target import SM90A


@tawa.jit
def states(x, b, scales, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for i in range(0, K, BK):
        left = tl.load(x + (i + k)[None, :] * M + m[:, None])
        right = tl.load(b + (i + k)[:, None] * N + n[None, :]).to(tl.float32)
        right = (right * tl.exp(tl.load(scales + i + k))[:, None]).to(left.dtype)
        acc = tl.dot(left, right, acc)
    tl.store(out + m[:, None] * N + n[None, :], acc)


TYPES = "*bf16:16", "*bf16:16", "*f32:16", "*f32:16", "i32:16"


def said(compiled: Any) -> bool:
    return any("compiled for 2 CTAs" in line for line in compiled.remarks)


def entry_registers(compiled: Any) -> int:
    (line,) = (line for line in compiled.remarks if "registers a thread at entry" in line)
    return int(line.split()[2])


def test_one_computing_group_gets_a_neighbour() -> None:
    compiled = states.compile(*TYPES, M=64, N=128, BK=64)
    assert said(compiled)
    assert compiled.findings == ()
    assert compiled.spec.threads == 256
    assert 2 * 256 * entry_registers(compiled) <= SM90A.registers
    assert 2 * compiled.spec.shared_bytes <= SM90A.shared_bytes


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ({"M": 128, "N": 128, "BK": 64}, {}),  # two groups compute
        ({"M": 64, "N": 128, "BK": 64}, {"num_stages": 8}),  # no room beside so many slots
        ({"M": 64, "N": 128, "BK": 64}, {"specialize": False}),
        ({"M": 64, "N": 256, "BK": 32}, {}),  # accumulators take the registers
    ],
)
def test_others_stay_alone(sizes: dict[str, int], options: dict[str, Any]) -> None:
    assert not said(states.compile(*TYPES, **sizes, **options))


def test_what_is_asked_for_stays() -> None:
    compiled = states.compile(*TYPES, M=64, N=128, BK=64, ctas_per_sm=2)
    assert not said(compiled)
    assert entry_registers(compiled) <= 128
