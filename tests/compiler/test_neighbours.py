"""Kernels whose rings threads fill, compiled so that two CTAs share a multiprocessor."""

from __future__ import annotations

from typing import Any

import pytest
from reassembled import POINTERS, states

from tawa.ir.decisions.assembling import CompiledForNeighbours, EntryRegisters
from tawa.machine.chips import H100


def said(compiled: Any) -> bool:
    return CompiledForNeighbours(2) in compiled.decisions


def entry_registers(compiled: Any) -> int:
    (found,) = compiled.decided(EntryRegisters)
    return found.registers


def test_one_computing_group_gets_a_neighbour() -> None:
    compiled = states.compile(*POINTERS, M=64, N=128, BK=64)
    assert said(compiled)
    assert compiled.findings == ()
    assert compiled.spec.threads == 256
    assert 2 * 256 * entry_registers(compiled) <= H100.registers
    assert 2 * compiled.spec.shared_bytes <= H100.shared_bytes


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
    assert not said(states.compile(*POINTERS, **sizes, **options))


def test_what_is_asked_for_stays() -> None:
    compiled = states.compile(*POINTERS, M=64, N=128, BK=64, ctas_per_sm=2)
    assert not said(compiled)
    assert entry_registers(compiled) <= 128
