"""Programs of tasks on a device: results, and the same bits under other mappings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tasks"))

from task_programs import NAMES, case, gemm_levels

from tawa.tasks import Instance, Mapping

pytestmark = pytest.mark.gpu

MAPPINGS = {
    "default": None,
    "one group": Mapping(Instance("gemm_block", warp_groups=1, pipeline=2)),
    "large": Mapping(
        Instance("gemm_grid", tunables={"U": 128, "V": 256}),
        Instance("gemm_block", warp_groups=2, pipeline=4, options={"persistent": True}),
    ),
    "registers": Mapping(Instance("multiply_tile", memories={"a": "register"})),
}


def run_on_device(task: Any, mapping: Mapping | None, outs: Any, inputs: Any) -> list[Any]:
    """The results of a call on tensors of the device."""
    torch = pytest.importorskip("torch")
    here = [torch.from_numpy(np.full_like(out, np.nan)).cuda() for out in outs]
    given = [torch.from_numpy(x).cuda() if isinstance(x, np.ndarray) else x for x in inputs]
    task(*here, *given, mapping=mapping)
    return [out.cpu().numpy() for out in here]


@pytest.mark.parametrize("odd", [False, True], ids=["aligned", "odd"])
@pytest.mark.parametrize("name", NAMES)
def test_program(name: str, odd: bool) -> None:
    found = case(name, odd=odd)
    results = run_on_device(found.task, None, found.outputs, found.inputs)
    for out, expected in zip(results, found.expected, strict=True):
        scale = max(1.0, float(np.abs(expected).max()))
        assert np.abs(out.astype(np.float64) - expected).max() <= found.tolerance * scale


@pytest.mark.parametrize("name", MAPPINGS)
def test_mapping(name: str) -> None:
    found = case("gemm")
    (out,) = run_on_device(found.task, MAPPINGS[name], found.outputs, found.inputs)
    assert np.abs(out.astype(np.float64) - found.expected[0]).max() < 0.1


@pytest.mark.parametrize("groups", [1, 2])
def test_warp_groups_of_the_program(groups: int) -> None:
    """Blocks shared by one and two warp groups: the same bits."""
    found = case("gemm", odd=False)
    mapping = gemm_levels.on_groups(groups, pipeline=2)
    task = gemm_levels.gemm
    (out,) = run_on_device(task, mapping, found.outputs, found.inputs)
    assert np.abs(out.astype(np.float64) - found.expected[0]).max() < 0.1
