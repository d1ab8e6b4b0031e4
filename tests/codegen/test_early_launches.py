"""Kernels that begin while the one before them runs: they wait before they touch memory."""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.base.kernel_spec import KernelSpec
from tawa.kernels.gemm import Configuration, matmul
from tawa.runtime.launch import LaunchConfig, _config  # pyright: ignore[reportPrivateUsage]


@tawa.jit
def doubled(x: Any, y: Any, n: Any, BLOCK: tl.constexpr, RELEASE: tl.constexpr):
    tl.extra.cuda.gdc_wait()
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    if RELEASE:
        tl.extra.cuda.gdc_launch_dependents()
    tl.store(y + at, value * 2, mask=at < n)


def compiled(release: bool, early: bool) -> Any:
    types = "*f32", "*f32", "i32"
    return doubled.compile(*types, BLOCK=128, RELEASE=release, launch_pdl=early)


@pytest.mark.parametrize("release", [False, True])
@pytest.mark.parametrize("early", [False, True])
def test_waits_first_and_releases_where_asked(release: bool, early: bool) -> None:
    found = compiled(release, early)
    ptx: str = found.stages["ptx"]
    assert ptx.count("griddepcontrol.wait;") == early
    assert ptx.count("griddepcontrol.launch_dependents;") == release
    if early:
        assert ptx.index("griddepcontrol.wait;") < ptx.index("ld.global")
    assert found.spec.early == early
    assert found.metadata.launch_pdl == early
    assert KernelSpec.from_json(found.spec.to_json()) == found.spec


def test_the_launch_says_that_it_begins_early() -> None:
    attributes = {early: ids(_config(compiled(False, early).spec)) for early in (False, True)}
    assert attributes == {False: [], True: [6]}


def ids(config: LaunchConfig) -> list[int]:
    return [config.attributes[i].id for i in range(config.attribute_count)]


def test_a_copying_kernel_waits_after_it_has_made_its_barriers() -> None:
    @tawa.jit
    def product(a: Any, b: Any, c: Any):
        acc = tl.zeros((64, 64), tl.float32)
        for k in range(4):
            acc = tl.dot(a.load([0, k * 64]), b.load([k * 64, 0]), acc)
        c.store([0, 0], acc.to(tl.float16))

    text = product.compile(*["desc<f16,64x64>"] * 3, launch_pdl=True).stages["hopper"]
    begins, ends = text.index("hopper.grid_wait"), text.index("hopper.role")
    assert text.index("hopper.fence_barrier_init") < begins < ends


def test_parts_of_a_product_are_added_by_a_kernel_that_begins_early() -> None:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((64, 512), (512, 64)))
    found = matmul(a, b, config=Configuration(64, 64, 64, group_m=0, split=2))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(found - exact).max() < 0.05
