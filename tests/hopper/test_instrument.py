"""Timestamps change nothing that a kernel does, and record all that its roles do, in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from instrumented import MULTIPROCESSORS, Run, instrumented, plain_module, table_of
from simulation import recording, stored
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.dialects.test import TestOp as Made

from tawa.base.kernel_spec import KernelSpec, TimelineParam
from tawa.base.layout import accumulator
from tawa.base.timeline import DETAILS, Activity, TimelineTable
from tawa.driver.compiled import read_module, spec_of
from tawa.hopper.dialect.fragment import Copy, Fill
from tawa.hopper.dialect.matrix import Wgmma, WgmmaCommit, WgmmaFence
from tawa.hopper.dialect.structure import OneThread, Role
from tawa.hopper.dialect.sync import NamedBarrierArrive, NamedBarrierSync
from tawa.hopper.dialect.trace import ROLE, TRACE, Timestamp
from tawa.hopper.dialect.types import FragType
from tawa.hopper.recording.detail import POINTS_OF_A_TILE, POINTS_OF_AN_ITERATION
from tawa.hopper.recording.instrument import (
    Instrument,
    disturbed,
    is_inner,
    recorders_of,
    work_activity,
)
from tawa.ir.elementwise import Map
from tawa.kernels.attention import Configuration, attention
from tawa.simulate import check
from tawa.simulate.interpret.hopper import check_registers
from tawa.simulate.interpret.machine import Event

RUNS: list[tuple[str, tuple[tuple[str, Any], ...]]] = [
    ("gemm-cooperative", (("cluster", 2),)),
    ("gemm-ping-pong", ()),
    ("gemm-one-role", ()),
    ("gemm-one-role-8-warps", ()),
    ("gemm-three-consumers", ()),
    ("gemm-no-k-persistent", ()),
    ("attention-full-64", ()),
    ("attention-causal-64", ()),
    ("pointers-small", ()),
    ("persistent_gemm-ping-pong", ()),
    ("softmax-f16-1024-8", ()),
    ("vector_add-f16-1", ()),
    ("newton_root", ()),
]


@pytest.fixture(params=RUNS, scope="module", ids=lambda found: found[0])
def run(request: pytest.FixtureRequest) -> Run:
    return Run(*request.param)


def records(trace: Sequence[Event], table: TimelineTable) -> list[int]:
    """The segments that an actor's timestamps recorded, each from its first point to its last."""
    stamps = [e.operands for e in trace if e.kind == "timestamp"]
    if not stamps:
        return []
    assert stamps[0] == (ROLE, 0)
    assert stamps[-1] == (ROLE, 1)
    found: list[int] = []
    due = 0
    for number, index in stamps[1:-1]:
        assert isinstance(number, int)
        assert index == due, f"point {index} of segment {number}, not {due}"
        assert due == 0 or found[-1] == number
        if due == 0:
            found.append(number)
        due = (due + 1) % table.segments[number].points
    assert due == 0
    return found


def recorded_kinds(trace: Sequence[Event], table: TimelineTable) -> Counter[str]:
    """How many activities of each kind an actor's records hold."""
    gaps = (gap for number in records(trace, table) for gap in table.segments[number].gaps)
    return Counter(gap.kind for gap in gaps if gap is not None)


def executed_kinds(trace: Sequence[Event]) -> Counter[str]:
    """The same, counted from what the simulator says the actor did in its role."""
    stamps = [i for i, e in enumerate(trace) if e.kind == "timestamp"] or [0]
    found: Counter[str] = Counter()
    for event in trace[stamps[0] : stamps[-1]]:
        if event.kind == "named":
            found["meeting" if event.operands[4] else "arrival"] += 1
        elif event.kind in KINDS:
            found[KINDS[event.kind]] += 1
    return found


KINDS = {
    "wait": "barrier wait",
    "commit": "wgmma issue",
    "matrix_wait": "wgmma wait",
    "bulk_wait": "store wait",
}


def test_results_are_the_same(run: Run):
    outputs = []
    for module in (run.plain, instrumented(run.plain), instrumented(run.plain, "coarse")):
        run.traces(module)
        outputs.append(run.outputs())
    for name, array in outputs[0].items():
        for other in outputs[1:]:
            np.testing.assert_array_equal(array.view(np.uint8), other[name].view(np.uint8))


def test_everything_is_recorded_in_order(run: Run):
    module = instrumented(run.plain)
    table = table_of(module)
    seen = set()
    for cluster in run.traces(module):
        for name, trace in cluster.items():
            found, expected = recorded_kinds(trace, table), executed_kinds(trace)
            for kind in ("copy issue", "store issue"):  # several ops, one activity
                events = sum(e.kind == kind.split()[0].replace("copy", "load") for e in trace)
                assert (found.pop(kind, 0) > 0) == (events > 0)
            found.pop("work", None)
            assert found == expected
            if any(e.kind == "timestamp" for e in trace):
                seen.add(name.removeprefix("CTA 0 ").removeprefix("CTA 1 "))
    assert seen == set(table.recorders)


@pytest.mark.parametrize("detail", ["coarse", "tiles"])
def test_few_points_leave_no_activity_out(run: Run, detail: str):
    """Records are whole, a turn of an inner loop has few points, and names say all that is done."""
    fine, module = instrumented(run.plain), instrumented(run.plain, detail)
    table = table_of(module)
    for cluster in run.traces(module):
        for trace in cluster.values():
            records(trace, table)

    def elements(table: TimelineTable) -> Counter[tuple[str, Activity]]:
        return Counter(
            (segment.role, element)
            for segment in table.segments
            for activity in (segment.lead, *segment.gaps, segment.trail)
            if activity is not None
            for element in activity.elements
            if element.kind != "work"
        )

    assert elements(table) == elements(table_of(fine))
    assert sum(s.points for s in table.segments) <= sum(s.points for s in table_of(fine).segments)
    assert max(s.points for s in table.segments) <= POINTS_OF_A_TILE
    for op in module.walk():
        if isinstance(op, Timestamp) and is_inner(op):
            assert op.points.value.data <= (POINTS_OF_AN_ITERATION if detail == "coarse" else 1)


def test_nothing_but_timestamps_is_added(run: Run):
    module = instrumented(run.plain)
    added = [op for op in module.walk() if isinstance(op, TRACE)]
    assert {op.name for op in added if not isinstance(op, Timestamp)} >= {"hopper.trace_begin"}
    for op in reversed(added):
        op.detach()
    assert [op.name for op in module.walk()] == [op.name for op in run.plain.walk()]
    kernels = [next(op for op in m.ops if isinstance(op, func.FuncOp)) for m in (module, run.plain)]
    specs = [spec_of(m) for m in (module, run.plain)]
    assert len(kernels[0].args) == len(kernels[1].args) + 3 == len(specs[0].parameters)
    assert specs[0].arguments == specs[1].arguments
    assert specs[1].timeline is None


def test_no_timestamp_lies_among_matrix_instructions(run: Run):
    module = instrumented(run.plain)
    for op in module.walk():
        if isinstance(op, (WgmmaFence, Wgmma)):
            following = op.next_op
            while following is not None and not isinstance(following, WgmmaCommit):
                assert not isinstance(following, TRACE)
                following = following.next_op
            assert following is not None


def test_one_thread_of_each_group_can_reach_every_point(run: Run):
    for op in instrumented(run.plain).walk():
        if isinstance(op, Timestamp):
            parent = op.parent_op()
            while parent is not None and not isinstance(parent, Role):
                assert not isinstance(parent, OneThread) or parent.scope.data in ("team", "group")
                parent = parent.parent_op()
            assert parent is not None


def test_the_text_can_be_read_back(run: Run):
    module = instrumented(run.plain)
    again = read_module(str(module), "hopper")
    assert str(again) == str(module)
    spec = spec_of(again)
    assert KernelSpec.from_json(spec.to_json()) == spec
    assert [p.field for p in spec.parameters if isinstance(p, TimelineParam)] == [
        "buffer",
        "ctas",
        "mask",
    ]


@pytest.mark.parametrize("name", ["gemm-ping-pong", "gemm-one-role"])
def test_the_checker_says_the_same(name: str):
    run = Run(name)
    reports = [
        check(
            module,
            run.launch.grid,
            run.values(module),
            schedules=1,
            multiprocessors=MULTIPROCESSORS,
            bound=100_000,
        )
        for module in (run.plain, instrumented(run.plain))
    ]
    assert [r.proved for r in reports] == [True, True]
    assert reports[0].states == reports[1].states
    assert all(r.same_results for r in reports)


def test_a_missing_point_would_be_noticed():
    run = Run("gemm-cooperative")
    module = instrumented(run.plain)
    table = table_of(module)
    point = next(o for o in module.walk() if isinstance(o, Timestamp) and o.index.value.data == 1)
    point.detach()
    traces = run.traces(module)[0]
    with pytest.raises(AssertionError, match="point"):
        records(traces["math.0"], table)


def roles(module: ModuleOp) -> list[list[str]]:
    return [recorders_of(op) for op in module.walk() if isinstance(op, Role)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gemm-cooperative", [["math.0", "math.1"], ["load"]]),
        ("gemm-ping-pong", [["math[0]", "math[1]"], ["load"]]),
        ("gemm-one-role-8-warps", [["main.0", "main.1"]]),
        ("vector_add-f16-1", [["main"]]),
    ],
)
def test_recorders_are_called_as_the_simulators_actors(name: str, expected: list[list[str]]):
    run = Run(name)
    assert roles(run.plain) == expected
    actors = {actor for cluster in run.traces(run.plain) for actor in cluster}
    assert {name for role in expected for name in role} <= actors


def test_what_activities_are_called():
    table = table_of(instrumented(Run("gemm-ping-pong").plain))
    math, load = ([s for s in table.segments if s.role == role] for role in ("math", "load"))
    turn = next(s for s in math if any(g and g.kind == "wgmma issue" for g in s.gaps))
    kinds = [gap.kind if gap else "" for gap in turn.gaps]
    assert kinds == ["barrier wait", "wgmma issue", "wgmma wait"]
    wait, _, left = (gap for gap in turn.gaps if gap)
    assert wait.op == "hopper.mbarrier_wait"
    assert wait.detail == "a_b_full"
    assert "gemm.py:" in wait.place
    assert left.pending == 1
    assert sum(s.tile_begins for s in math) == sum(s.tile_ends for s in math) == 1
    copies = [gap for s in load for gap in s.gaps if gap and gap.kind == "copy issue"]
    assert [gap.detail for gap in copies] == ["a_desc, b_desc"]
    store = [gap.detail for s in math for gap in s.gaps if gap and gap.kind == "work"]
    assert "truncf, stmatrix" in store


def test_ordinary_code_is_called_after_its_heaviest_functions():
    table = table_of(instrumented(Run("attention-full-64").plain))
    details = [a.detail for s in table.segments for a in (*s.gaps, s.lead, s.trail) if a]
    assert any("exp2" in detail for detail in details)


@pytest.mark.parametrize(("functions", "expected"), [
    (("addf", "exp2", "mulf"), "exp2, addf, mulf"),
    (("fill", "addf"), "addf, fill"),
    (("fill", "copy", "negf", "sqrt"), "sqrt, negf, fill"),
    (("addf", "mulf", "addf", "copy"), "addf, mulf, copy"),
])  # fmt: skip
def test_functions_weigh_what_their_instructions_take(functions: tuple[str, ...], expected: str):
    """Special functions more than others, and moves nothing."""
    kind = FragType.of(f32, accumulator((64, 8), warps=4))
    number, value = (Made(result_types=[t]).results[0] for t in (f32, kind))
    moves = {"fill": lambda: Fill(number, kind), "copy": lambda: Copy(value)}
    ops = [
        moves[name]() if name in moves else Map(name, [value] * (1 + (name in ("addf", "mulf"))))
        for name in functions
    ]
    assert work_activity(ops).detail == expected


def registers(module: ModuleOp) -> dict[str, int]:
    found = (op for op in module.walk() if isinstance(op, Role) and op.registers is not None)
    return {op.role.data: op.registers.value.data for op in found}


def test_each_attempt_has_fewer_points_and_says_so():
    assert [(a.detail, a.shift_registers) for a in Instrument.attempts("fine")] == [
        (detail, shift) for detail in DETAILS for shift in (False, True)
    ]
    first, *_, last = Instrument.attempts(True)
    assert (first.detail, first.notes) == ("coarse", ())
    assert (last.detail, last.shift_registers) == ("tiles", True)
    module = Run("gemm-ping-pong").plain
    last.apply(module)
    spec = spec_of(module)
    assert table_of(module).notes == last.notes
    assert "recorded as 'tiles'" in last.notes[0]
    assert "'coarse'" in last.notes[0]
    worse = disturbed(spec, ["spill: 8 bytes"]).timeline
    assert worse is not None
    assert worse.notes[:-1] == last.notes
    assert "spill: 8 bytes" in worse.notes[-1]


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("gemm-cooperative", {"math": 232, "load": 40}, {"math": 240, "load": 24}),
        ("gemm-three-consumers", {"math": 160, "load": 32}, {"math": 160, "load": 24}),
        ("gemm-one-role", {}, {}),
    ],
)
def test_registers_can_be_shifted(name: str, before: dict[str, int], after: dict[str, int]):
    module = Run(name).plain
    assert registers(module) == before
    Instrument(shift_registers=True).apply(module)
    assert registers(module) == after
    assert sum(op.name == "hopper.timestamp" for op in module.walk()) > 0
    kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
    check_registers(kernel, spec_of(module).threads)


@pytest.mark.parametrize(("rows", "groups", "detail"), [(192, 3, "tiles"), (128, 2, "coarse")])
def test_loops_of_three_groups_with_exponentials_have_no_points_by_default(
    rows: int, groups: int, detail: str
):
    """There, points cost more than 3%: the default leaves them out, and the timeline says so."""
    arguments = [stored(np.zeros((1, 1, 384, 64)), "f16") for _ in range(4)]
    with recording() as launches:
        attention(*arguments, using=Configuration(rows, 128, {"consumers": groups}))
    module = plain_module(launches[0])
    default = next(Instrument.attempts(True))
    default.apply(module)
    table = table_of(module)
    assert table.detail == detail
    assert ["ask for detail='fine'" in note for note in table.notes] == [True] * (groups == 3)
    stamps = [op for op in module.walk() if isinstance(op, Timestamp) and is_inner(op)]
    turns = {op.segment.value.data for op in stamps}
    points = {table.segments[n].role: table.segments[n].points for n in turns}
    turned = {"math": POINTS_OF_AN_ITERATION, "load": POINTS_OF_AN_ITERATION}
    assert points == (turned if groups == 2 else {})


def test_no_point_lies_where_other_groups_wait_for_their_turn():
    """Between a meeting and the arrival that ends it one group issues products, others wait."""
    arguments = [stored(np.zeros((1, 1, 256, 64)), "f16") for _ in range(4)]
    options = {"consumers": 2, "alternate": True, "persistent": True}
    with recording() as launches:
        attention(*arguments, using=Configuration(128, 64, options))
    module = plain_module(launches[0])
    Instrument().apply(module)
    turns = [
        op.parent for op in module.walk() if isinstance(op, NamedBarrierArrive) and is_inner(op)
    ]
    assert turns
    for block in turns:
        assert block is not None
        kinds = [type(op) for op in block.ops]
        meeting, arrival = kinds.index(NamedBarrierSync), kinds.index(NamedBarrierArrive)
        stamps = [at for at, kind in enumerate(kinds) if kind is Timestamp]
        assert len(stamps) == POINTS_OF_AN_ITERATION
        assert not any(meeting < at < arrival for at, kind in enumerate(kinds) if kind in TRACE)
        assert min(stamps) < meeting < arrival < max(stamps)
