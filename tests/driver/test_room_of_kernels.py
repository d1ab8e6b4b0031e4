"""What a CTA takes of a multiprocessor, as `tawa report` shows it: threads, registers, memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tawa.driver.inspection.occupancy import Occupancy, RoleUse, _limits, occupancy
from tawa.kernels.gemm import gemm
from tawa.language import float32
from tawa.machine.chips import H100
from tawa.runtime.compile_log import FunctionUsage


@pytest.mark.parametrize(
    ("threads", "registers", "expected"),
    [
        (128, 32, (16, 16)), (128, 33, (12, 16)), (128, 128, (4, 16)), (128, 129, (3, 16)),
        (384, 168, (1, 5)), (32, 255, (8, 64)), (33, 32, (32, 32)), (1024, 64, (1, 2)),
        (1, 0, (256, 64)),
    ],
)  # fmt: skip
def test_registers_and_threads_limit_ctas(
    threads: int, registers: int, expected: tuple[int, int]
) -> None:
    """A warp takes registers in units of 256, whatever its threads are."""
    found = _limits(threads, registers, 1024, H100)
    assert (found["registers"], found["threads"]) == expected
    assert found["CTAs"] == 32
    assert found["shared memory"] == H100.ctas_with(1024)


def test_the_scarcest_resource_limits() -> None:
    roles = (RoleUse("load", 4, 1, 24, True, True), RoleUse("math", 4, 2, 240, False, True),
             RoleUse("no role", 1, 1, 168, False, False))  # fmt: skip
    found = Occupancy(416, 168, 1, 2, 1, (), roles, {"a": 3, "b": 2, "c": 4}, 65536)
    assert (found.ctas, found.limited_by) == (2, "b")
    assert found.registers_in_use == 32 * (4 * 24 + 8 * 240 + 168)
    assert replace(found, limits={"c": 2, "a": 2}).limited_by == "c"


def test_a_product_s_buffers_and_roles() -> None:
    compiled = gemm.compile(
        "desc<f16,128x64>", "desc<f16,128x64>", "desc<f16,128x128>", *["i32:16"] * 3,
        TRANSPOSE_A=False, TRANSPOSE_B=True, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64,
        GROUP_M=8, ACCUMULATOR=float32, num_stages=3,
    )  # fmt: skip
    module, spec = compiled.module("hopper"), compiled.spec
    found = occupancy(module, FunctionUsage(spec.entry, 168), H100)
    assert (found.threads, found.entry_registers) == (spec.threads, 168)
    assert (found.shared_bytes, found.shared_available) == (spec.shared_bytes, 232448)
    assert (found.cluster, found.register_file) == (1, 65536)
    assert sum(32 * r.warps * r.teams for r in found.roles) == spec.threads
    single = [role for role in found.roles if role.single]
    assert [role.raised for role in single] == [True]
    offsets = [buffer.offset for buffer in found.buffers]
    assert offsets == sorted(offsets)
    ring = next(buffer for buffer in found.buffers if buffer.slots == 3 and buffer.bytes > 1024)
    assert ring.bytes == 3 * 128 * 64 * 2
    assert ring.what == "128 x 64 f16, swizzle 128"
    barriers = [buffer for buffer in found.buffers if buffer.what.startswith("arrivals ")]
    assert {(buffer.bytes, buffer.slots) for buffer in barriers} == {(24, 3)}
    for one, other in zip(found.buffers, found.buffers[1:], strict=False):
        assert one.offset + one.bytes <= other.offset
    last = found.buffers[-1]
    assert last.offset + last.bytes <= found.shared_bytes


def test_warps_without_a_role_are_counted() -> None:
    compiled = gemm.compile(
        "desc<f16,64x64>", "desc<f16,64x64>", "desc<f16,64x64>", *["i32:16"] * 3,
        TRANSPOSE_A=False, TRANSPOSE_B=True, BLOCK_M=64, BLOCK_N=64, BLOCK_K=64,
        GROUP_M=8, ACCUMULATOR=float32,
    )  # fmt: skip
    module = compiled.module("hopper")
    kernel = next(iter(module.ops))
    threads = kernel.attributes["hopper.threads"]
    kernel.attributes["hopper.threads"] = type(threads)(threads.value.data + 64, threads.type)
    found = occupancy(module, FunctionUsage("k", 90), H100)
    assert found.roles[-1] == RoleUse("no role", 2, 1, 90, False, False)
    assert all(role.name != "no role" for role in found.roles[:-1])
