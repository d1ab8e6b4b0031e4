"""Every example kernel goes through the same passes: simulated at two levels, machine code read."""

from __future__ import annotations

import pytest
from catalogue import BY_NAME, LARGE, WORKLOADS
from simulation import recorded, simulate
from workload import Workload

from tawa.driver.compiled import Compiled
from tawa.runtime import sass


@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_workload(workload: Workload) -> None:
    compiled = simulate(workload, ("tile", "hopper"))
    assert_clean(workload, compiled)


@pytest.mark.parametrize("workload", LARGE, ids=str)
def test_machine_code_of_large_launches(workload: Workload) -> None:
    launch, _ = recorded(workload)
    assert_clean(workload, launch.compile())


SPILLS = ("pointers-large",)
"""Rows of an odd length: no two elements are loaded at once, and their addresses are spilled."""


def assert_clean(workload: Workload, compiled: Compiled) -> None:
    """No spill, no serialised matrix instruction; what the kernel is made of is there."""
    spills = workload.name in SPILLS
    assert [f for f in compiled.findings if not (spills and f.startswith("spill: "))] == []
    (code,) = sass.disassemble(compiled.cubin).values()
    assert {opcode: code.count(opcode) > 0 for opcode in workload.opcodes} == dict.fromkeys(
        workload.opcodes, True
    )
    assert code.in_loops("MEMBAR.ALL.GPU") == ()
    assert spills or code.count("LDL") == code.count("STL") == 0


LIBRARY = [
    "gemm-cooperative",
    "gemm-persistent",
    "gemm-columns-200-rows-256",
    "gemm-ping-pong",
    "gemm-one-role",
]


@pytest.mark.parametrize("name", LIBRARY)
def test_products_stay_in_flight(name: str) -> None:
    """Nothing waits for all products inside the loop over K, and the copies run ahead."""
    workload = BY_NAME[name]
    launch, _ = recorded(workload)
    compiled = launch.compile()
    (code,) = sass.disassemble(compiled.cubin).values()
    waits = [i.text for i in code.in_loops("WARPGROUP.DEPBAR")]
    assert any("gsb0, 0x1" in text for text in waits), waits
    assert code.in_loops("HGMMA")
    assert code.in_loops("UTMALDG")


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize(
    "name", ["gemm-persistent", "gemm-ping-pong", "attention-causal-64", "dual_gemm-plain"]
)
def test_any_order_of_the_actors_gives_the_same(name: str, seed: int) -> None:
    simulate(BY_NAME[name], ("hopper",), seed=seed)
