"""Modulo schedules obey the machine's rules, checked without the solver's code."""

from __future__ import annotations

import importlib
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from loop_graphs import attention, graph_of

import tawa
import tawa.language as tl
from tawa.aref.dialect.ops import LanePartials
from tawa.ir.decisions.loops import LoopScheduled
from tawa.ir.elementwise import Map
from tawa.machine.chips import H100
from tawa.pipeline import modulo
from tawa.pipeline.dependence_graph import DependenceGraph
from tawa.pipeline.modulo import UNIT, Solution, bounds, in_units, solve
from tawa.pipeline.modulo_model import COSTLY, Model
from tawa.simulate.interpret.hopper import run

EXAMPLES = str(Path(__file__).parents[2] / "examples")
if EXAMPLES not in sys.path:
    sys.path.insert(0, EXAMPLES)

CAPACITY = 212


@pytest.fixture(scope="module", params=[64, 128])
def scheduled(request: pytest.FixtureRequest) -> tuple[DependenceGraph, Solution]:
    """A graph and its schedule."""
    graph = attention(request.param)
    solution = solve(graph, H100, CAPACITY)
    assert solution is not None
    return graph, solution


def test_no_shorter_than_its_resources(scheduled: tuple[DependenceGraph, Solution]):
    """The period is at least every resource's bound, and at most a tenth above the largest."""
    graph, solution = scheduled
    least = max(bounds(graph).values())
    assert least <= solution.period <= 1.1 * least


def test_the_thread_does_one_thing_at_a_time(scheduled: tuple[DependenceGraph, Solution]):
    """Ops of a turn don't overlap, and none runs over the turn's end."""
    graph, solution = scheduled
    spans = sorted(
        (solution.placed[n.number].offset, UNIT * in_units(n.thread)) for n in graph.nodes
    )
    assert all(start + length <= after for (start, length), (after, _) in pairwise(spans))
    assert spans[-1][0] + spans[-1][1] <= solution.period


def test_values_exist_before_they_are_used(scheduled: tuple[DependenceGraph, Solution]):
    """Ordinary code starts after what it needs; a product's value needs its time on the core."""
    graph, solution = scheduled
    period = solution.period

    def start(number: int) -> int:
        place = solution.placed[number]
        return place.offset + place.stage * period

    for e in graph.edges:
        begin, made = start(e.target.number) + e.distance * period, start(e.source.number)
        needs = UNIT * in_units(e.source.thread)
        if e.source.is_dot and not e.target.is_dot:
            needs = UNIT * in_units(e.source.tensor)
        assert begin >= made + needs, (e.source.ops[-1].name, e.target.ops[-1].name)


def test_products_of_two_iterations_share_a_turn(scheduled: tuple[DependenceGraph, Solution]):
    """The point of it all: the two products of attention come from neighbouring iterations."""
    graph, solution = scheduled
    stages = {solution.placed[n.number].stage for n in graph.dots}
    assert stages == {0, 1}


def test_deterministic():
    """The same graph gives the same schedule, in a fresh search too."""
    first = solve(attention(64), H100, CAPACITY)
    modulo._SOLVED.clear()
    assert solve(attention(64), H100, CAPACITY) == first


def test_too_few_registers_give_no_schedule():
    """Accumulators alone need more than this: no schedule, which the caller reports."""
    assert solve(attention(128), H100, 60) is None


def narrow_attention(d: int) -> DependenceGraph:
    """The library's attention of e4m3, with e4m3 weights, 128 rows by 128 keys."""
    from tawa.kernels.attention_kernel import attention_forward

    names = ("q_desc", "k_desc", "v_desc")
    types = dict.fromkeys(names, f"desc<e4m3,1x1x128x{d}>")
    types |= {"o_desc": f"desc<bf16,1x1x128x{d}>", "multiplier": "f32"}
    types |= dict.fromkeys(("QUERIES", "KEYS", "offset"), "i32")
    unused = ("lse", "q_scale", "k_scale", "v_scale", "prescale", "cap", "left", "right", "splits")
    constants: dict[str, object] = dict.fromkeys(unused)
    constants |= {f"captured{i}": None for i in range(6)}
    constants |= {"GROUP": 1, "D": d, "DV": d, "BLOCK_M": 128, "BLOCK_N": 128, "CAPTURED": 0}
    constants |= {"MASK_END": False, "SCORE_MOD": None, "NARROW": True}
    return graph_of(attention_forward, types, constants)


def test_weights_are_rounded_to_bytes_among_their_exponentials():
    graph = narrow_attention(128)
    (weights,) = [n for n in graph.nodes if n.special > 64]
    made = [op.function.data for op in weights.ops if isinstance(op, Map)]
    assert {"exp2", "truncf"} <= set(made)
    assert any(isinstance(op, LanePartials) for op in weights.ops)
    assert weights.thread == weights.special  # rounding and adding up take no time of their own
    assert weights.registers == 64 // 4 + 2  # of 64 weights a thread, and of two rows' sums
    solution = solve(graph, H100, CAPACITY)
    assert solution is not None
    assert solution.period < 1.1 * max(bounds(graph).values())


def linear_attention(depth: int) -> DependenceGraph:
    """Chunks of 128 rows, 64 columns of values: the consumers share the state as an operand."""
    kernel = importlib.import_module("linear_attention").linear_attention
    columns = {"q_desc": 128, "k_desc": 128, "v_desc": 64, "o_desc": 64}
    types = {name: f"desc<f16,1x128x{n}>" for name, n in columns.items()} | {"N": "i32:16"}
    return graph_of(kernel, types, {"D": 128, "DV": 64, "CHUNK": 128}, depth)


def test_consumers_that_share_an_operand_are_in_step():
    """Their products count together, and the multiprocessor has one such team."""
    graph = linear_attention(2)
    assert graph.groups == 1
    assert sum(n.tensor for n in graph.dots) == max(bounds(graph).values()) == 2560


@pytest.mark.parametrize("depth", [2, 3])
def test_slots_are_back_in_time_for_their_next_load(depth: int):
    """From a slot's return to the turn that gets it again, its load has time."""
    graph = linear_attention(depth)
    solution = solve(graph, H100, CAPACITY)
    assert solution is not None
    start = {
        n.number: place.offset + solution.period * place.stage
        for n in graph.nodes
        for place in (solution.placed[n.number],)
    }
    assert graph.slots
    for slot in graph.slots:
        returned = max(start[n.number] for n in slot.readers)
        again = start[slot.get.number] + depth * solution.period
        assert returned + slot.load <= again + UNIT


OPTIMA = (
    (64, 212, 183, 192, "0 44 0 0 58 87 88 89 103 167 88 181 88 6+ 35+"),
    (64, 160, 213, 160, "0 71 0 0 85 114 115 116 130 194 115 208 115 6+ 35+"),
    (128, 212, 256, 192, "0 132 0 0 146 175 176 177 191 8+ 176 22+ 176 22+ 51+"),
)
"""Attention's columns, capacity, period and registers, and when its nodes start ("+": a stage on).

Another solver (OR-tools CP-SAT 9.15) proved of each that no schedule is better.
"""


@pytest.mark.parametrize(("columns", "capacity", "period", "registers", "starts"), OPTIMA)
def test_the_optimum_is_what_another_solver_proved(
    columns: int, capacity: int, period: int, registers: int, starts: str
):
    found = solve(attention(columns), H100, capacity)
    assert found is not None
    assert (found.period // UNIT, found.registers) == (period, registers)
    placed = (found.placed[i] for i in sorted(found.placed))
    assert " ".join(f"{p.offset // UNIT}{'+' * p.stage}" for p in placed) == starts


def test_further_schedules_differ():
    """Each has another order of what takes long than those before, in the same turn or a longer."""
    graph = attention(128)
    found = [solve(graph, H100, CAPACITY, rank=rank) for rank in range(4)]
    orders: set[tuple[tuple[int, int], ...]] = set()
    for solution in found:
        assert solution is not None
        costly = [n.number for n in graph.nodes if n.is_dot or n.thread >= COSTLY]
        placed = sorted((solution.placed[i].offset, i) for i in costly)
        orders.add(tuple((i, solution.placed[i].stage) for _, i in placed))
    assert len(orders) == len(found)
    periods = [solution.period for solution in found if solution is not None]
    assert periods == sorted(periods)


@pytest.mark.parametrize("least", range(1, modulo.PERIODS + 1))
def test_halving_finds_the_least_period(least: int):
    """The first step that has a schedule, whichever it is, and none if none has."""
    asked: list[int] = []

    def possible(step: int, work: int) -> bool:
        asked.append(step)
        return step >= least

    expected = least if least < modulo.PERIODS else None
    assert modulo._least_step(possible) == expected
    assert len(asked) == len(set(asked)) <= (5 if least < 12 else 8)


def test_a_longer_period_has_what_a_shorter_one_has():
    """What halving rests on: idle cycles at the end of a turn keep a schedule one."""
    graph, capacity = attention(64), 160
    found = [
        Model(graph, H100, capacity, modulo._period(bounds(graph), step), 2).possible()
        for step in range(0, modulo.PERIODS, 2)
    ]
    assert found == sorted(found)
    assert found[-1]


def test_a_schedule_that_leaves_enough_registers_is_kept():
    """With registers to spare the first choice stays, unless it needs them."""
    graph = attention(64)
    first = solve(graph, H100, CAPACITY)
    assert first is not None
    assert first.registers <= CAPACITY - 16
    assert solve(graph, H100, CAPACITY, margin=16) == first
    scarce = first.registers + 7
    assert solve(graph, H100, scarce) == first
    tighter = solve(graph, H100, scarce, margin=8)
    assert tighter is not None
    assert tighter.registers <= scarce - 8
    assert tighter.period > first.period


@tawa.jit
def beside(a, b, c, d, o, p, n, M: tl.constexpr, K: tl.constexpr, R: tl.constexpr):
    """A product of warp groups, and one of warps that begins with numbers of rows and columns."""
    rows, columns, few = tl.arange(0, M), tl.arange(0, M), tl.arange(0, R)
    acc = tl.zeros([M, M], tl.float32)
    best = tl.zeros([R], tl.float32)
    for i in range(n):
        acc = tl.dot(a.load([0, i * K]), b.load([i * K, 0]), acc)
        start = few[:, None] * 2 - columns[None, :]
        x = tl.dot(c.load([0, i * K]), d.load([i * K, 0]), start.to(tl.float32))
        best += tl.max(x, 1) + tl.max(tl.max(acc, 0), 0)
    tl.store(o + rows[:, None] * M + columns[None, :], acc)
    tl.store(p + few, best)


def test_what_a_product_of_warps_begins_with_moves_with_it() -> None:
    n, m, k, r = 5, 64, 64, 16
    types = "desc<f16,64x64>", "desc<f16,64x64>", "desc<f16,16x64>", "desc<f16,64x64>"
    compiled = beside.compile(*types, "*f32", "*f32", "i32", M=m, K=k, R=r)
    assert compiled.decided(LoopScheduled)
    random = np.random.default_rng(0)
    a, b, c, d = (
        random.integers(-3, 4, shape).astype(np.float16)
        for shape in ((m, n * k), (n * k, m), (r, n * k), (n * k, m))
    )
    blocks = [64, 64], [64, 64], [16, 64], [64, 64]
    descs = [
        tawa.TensorDescriptor(x, list(x.shape), [x.shape[1], 1], block)
        for x, block in zip((a, b, c, d), blocks, strict=True)
    ]
    out, best = np.zeros((m, m), np.float32), np.zeros(r, np.float32)
    run(compiled.module("hopper"), (1,), [*descs, out, best, n])
    acc, expected = np.zeros((m, m)), np.zeros(r)
    start = 2.0 * np.arange(r)[:, None] - np.arange(m)
    for at in range(0, n * k, k):
        acc += a[:, at : at + k].astype(float) @ b[at : at + k]
        x = start + c[:, at : at + k].astype(float) @ d[at : at + k]
        expected += x.max(1) + acc.max()
    np.testing.assert_array_equal(out, acc)
    np.testing.assert_array_equal(best, expected)
