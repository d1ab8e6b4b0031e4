"""The order of passes is what their contracts allow, and contracts say what is so."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from catalogue import BY_NAME
from reassembled import BLOCKS, BYTES, POINTERS, many_registers, states
from simulation import recorded
from xdsl.dialects.builtin import ModuleOp, TensorType, f16, f32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Region

import tawa
import tawa.language as tl
from tawa.aref.dialect.ops import WarpGroup
from tawa.base.attempts import ATTEMPTS, NO_SLACK
from tawa.base.options import Options
from tawa.driver.jit import Kernel
from tawa.driver.pipeline import LEVELS, passes
from tawa.driver.property_checks import CHECKS, broken
from tawa.driver.request import Request
from tawa.frontend import lower_to_tile, parse_argument
from tawa.ir import properties
from tawa.ir.contracts import BrokenContract, Contract, Pass, Property, check, violations
from tawa.ir.decisions.decision import Decisions
from tawa.ir.properties import AT_LEVEL
from tawa.machine.chips import H100, Chip
from tawa.tile.dialect.ops import Dot

STAGES = dict(zip(LEVELS[1:], LEVELS, strict=False))
"""The level that each stage begins with."""

OPTIONS = Options(enable_fp_fusion=False)  # with this, every pass is there


def steps_of(stage: str) -> list[Pass]:
    return passes(stage, OPTIONS, Decisions(), NO_SLACK)


def expected(steps: list[Pass], stage: str) -> set[tuple[str, Property]]:
    """The violations of an order, by a definition of its own: look back from each pass."""
    found: set[tuple[str, Property]] = set()
    wanted = [(step.name, step.contract.requires) for step in steps]
    for number, (name, needs) in enumerate([*wanted, ("the next level", AT_LEVEL[stage])]):
        for need in needs:
            for before in reversed(steps[:number]):
                if need in before.contract.establishes:
                    break
                if need in before.contract.invalidates:
                    found.add((name, need))
                    break
            else:
                if need not in AT_LEVEL[STAGES[stage]]:
                    found.add((name, need))
    return found


def named(steps: list[Pass], stage: str) -> set[tuple[str, Property]]:
    known = violations(steps, AT_LEVEL[STAGES[stage]], AT_LEVEL[stage])
    return {(violation.step, violation.missing) for violation in known}


@pytest.mark.parametrize("stage", STAGES)
def test_each_order_is_judged_by_the_contracts(stage: str):
    """The pipeline, every swap of neighbours, every pass left out, and random orders."""
    steps, random = steps_of(stage), Random(0)
    orders = [steps, *(steps[:i] + steps[i + 1 :] for i in range(len(steps)))]
    orders += [[*steps[:i], steps[i + 1], steps[i], *steps[i + 2 :]] for i in range(len(steps) - 1)]
    orders += [random.sample(steps, len(steps)) for _ in range(200)]
    for order in orders:
        assert named(order, stage) == expected(order, stage)
    assert not named(steps, stage)


SWAPS = {
    ("widen-accumulators", "fuse-accumulate"): properties.FUSED_SUMS,
    ("partition", "hoist-descriptors"): properties.ARGUMENT_DESCRIPTORS,
    ("partition", "widen-accumulators"): properties.WIDE_SUMS,
    ("transposes", "warp-products"): properties.GROUP_PRODUCTS,
    ("last-iteration-peeling", "transposes"): properties.FINAL_RINGS,
    ("own-masks", "last-iteration-peeling"): properties.OWN_ENDS,
    ("schedule", "conditional-rescaling"): properties.SKIPPED_WORK,
    ("schedule", "partial-sums"): properties.SPREAD_SUMS,
    ("zero-products", "schedule"): properties.SCHEDULED,
    ("async-dots", "schedule"): properties.SCHEDULED,
    ("register-prefetch", "async-dots"): properties.ASYNCHRONOUS,
    ("resident-operands", "async-dots"): properties.ASYNCHRONOUS,
    ("prefetch", "depths"): properties.DEPTHS,
    ("cursors", "depths"): properties.DEPTHS,
    ("redundant-barrier-elimination", "lower-to-hopper"): properties.LAID_OUT,
    ("separate-roundings", "lower-to-hopper"): properties.LOWERED,
}
"""A pass, one that has to come before it, and why."""


@pytest.mark.parametrize(("later", "sooner"), SWAPS)
def test_a_pass_that_comes_too_soon_is_named(later: str, sooner: str):
    """The error names the pass, what it misses, and who should have established it."""
    stage = next(s for s in STAGES if later in [step.name for step in steps_of(s)])
    steps = {step.name: step for step in steps_of(stage)}
    order = [step for step in steps.values() if step.name != later]
    order.insert(order.index(steps[sooner]), steps[later])
    with pytest.raises(BrokenContract) as caught:
        check(order, AT_LEVEL[STAGES[stage]], AT_LEVEL[stage])
    said = f"{later} requires that {SWAPS[later, sooner]}, which {sooner} establishes"
    assert said in str(caught.value.found)


@pytest.mark.parametrize(
    ("moved", "before", "missing"),
    [
        ("prefetch", "cursors", properties.OPEN_SLOTS),
        ("ping-pong", "cursors", properties.OPEN_SLOTS),
        ("zero-products", "async-dots", properties.DOTS),
        ("transposes", "last-iteration-peeling", properties.AS_PARTITIONED),
        ("reciprocals", "partition", properties.ONE_PROGRAM),
    ],
)
def test_a_pass_that_comes_too_late_is_named(moved: str, before: str, missing: Property):
    """Another pass has invalidated what it needs, and the error says which."""
    steps = {step.name: step for step in steps_of("aref")}
    order = [step for step in steps.values() if step.name != moved]
    order.insert(order.index(steps[before]) + 1, steps[moved])
    found = list(violations(order, AT_LEVEL["tile"], AT_LEVEL["aref"]))
    assert (moved, missing, before) in [(v.step, v.missing, v.lost_to) for v in found]
    for violation in found:
        assert str(violation).endswith(
            f"; {violation.lost_to} invalidated it" if violation.lost_to else " establishes"
        )


def test_a_pass_left_out_is_missed():
    """Someone needs each pass that establishes something."""
    for stage in STAGES:
        steps = steps_of(stage)
        for step in steps:
            others = [other for other in steps if other is not step]
            alone = not any(
                set(step.contract.establishes) <= set(other.contract.establishes)
                for other in others
            )
            if step.contract.establishes and alone:
                assert named(others, stage), f"nobody needs {step.name}"


def test_every_pass_of_the_table_has_a_contract():
    for stage in STAGES:
        for step in steps_of(stage):
            assert isinstance(step.contract, Contract)


@pytest.mark.parametrize("slack", ATTEMPTS, ids=str)
def test_every_attempt_keeps_the_contracts(slack):
    for stage in STAGES:
        passes(stage, Options(), Decisions(), slack)


def example(name: str) -> tuple[Kernel, Request]:
    launch = recorded(BY_NAME[name])[0]
    return launch.kernel, launch.request()


CASES = {
    name: lambda name=name: example(name)
    for name in (
        "gemm-cooperative", "gemm-one-role", "gemm-four-take-turns", "persistent_gemm-ping-pong",
        "attention-causal-64", "layouts-e4m3-NT", "gemm_reduction-ping-pong", "fused_mlp-persistent",
        "pointers-small", "softmax-f32-781-4",
    )
} | {
    "copied": lambda: (states, states.request(*POINTERS, M=64, N=128, BK=64)),
    "by warps": lambda: (many_registers, many_registers.request(*BYTES, **BLOCKS, num_warps=2)),
}  # fmt: skip


@tawa.jit
def unusual(x, y, ends, out, n, M: tl.constexpr):
    """What other cases lack: descriptors made here, rows that end early, sums of 16 bits by scalars."""
    a = tl.make_tensor_descriptor(x, [n, 64], [64, 1], [M, 64])
    last = tl.load(ends + tl.arange(0, M))
    acc = tl.zeros((M, 64), tl.float16)
    for k in tl.range(0, n, row_ends=last):
        acc = tl.dot(a.load([0, 0]), y.load([k * 64, 0]), acc, out_dtype=tl.float16)
    out.store([0, 0], acc)
    at = tl.arange(0, 8)[:, None] * 64 + tl.arange(0, 64)[None, :]
    few = tl.dot(tl.load(ends + at).to(tl.float16), y.load([0, 0]), out_dtype=tl.float16)
    tl.store(x + at, few)


CASES["unusual"] = lambda: (
    unusual,
    unusual.request("*f16:16", "desc<f16,64x64>", "*i32:16", "desc<f16,128x64>", "i32:16", M=128),
)


def run(name: str, after: Callable[[str, ModuleOp, set[Property], Chip], None]) -> None:
    """Bring a case to the last level, and look after every pass."""
    kernel, request = CASES[name]()
    types = {n: parse_argument(t) for n, t in request.types.items()}
    module = lower_to_tile(kernel, types, request.constants)
    holding = set(AT_LEVEL["source"])
    for stage in STAGES:
        for step in passes(stage, request.options, Decisions(), NO_SLACK):
            module = step.apply(module) or module
            holding -= set(step.contract.invalidates)
            holding |= set(step.contract.establishes)
            after(step.name, module, holding, request.options.machine)


@pytest.mark.parametrize("name", CASES)
def test_what_passes_establish_is_so(name: str):
    """After every pass of every stage, each property that is said to hold and can be seen holds."""

    def after(step: str, module: ModuleOp, holding: set[Property], target: Chip) -> None:
        assert broken(module, holding, target) == [], f"after {step}"

    run(name, after)


def test_every_check_can_fail():
    """On the way to the last level, each property that can be seen does not hold yet, or no more."""
    failed: set[Property] = set()

    def after(step: str, module: ModuleOp, holding: set[Property], target: Chip) -> None:
        failed.update(p for p in CHECKS if broken(module, {p}, target))

    for name in ("gemm-cooperative", "by warps", "unusual"):
        run(name, after)
    assert failed == set(CHECKS)


@pytest.mark.parametrize(
    ("shape", "warps", "by_columns", "fits"),
    [
        ((128, 64), 4, False, True), ((128, 64), 8, False, True), ((64, 64), 8, False, False),
        ((64, 64), 8, True, True), ((128, 64), 8, True, True), ((64, 16), 8, True, True),
        ((64, 48), 16, True, False), ((64, 64), 6, False, False), ((128, 16), 8, False, True),
    ],
)  # fmt: skip
def test_products_that_warp_groups_share(
    shape: tuple[int, int], warps: int, by_columns: bool, fits: bool
):
    """Their rows, or their columns where the group says so."""
    m, n = shape
    a, b, acc = (Made(result_types=[TensorType(t, s)]).results[0]
                 for t, s in ((f16, (m, 64)), (f16, (64, n)), (f32, shape)))  # fmt: skip
    dot = Dot(a, b, acc)
    body = Region(Block([dot]))
    module = ModuleOp([WarpGroup("math", warps, 1, body, split_columns=by_columns)])
    found = list(CHECKS[properties.GROUP_PRODUCTS](module, H100))
    assert found == ([] if fits else [dot])
