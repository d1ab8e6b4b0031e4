"""Which options a launch gets that its caller leaves open."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.base.errors import TawaError
from tawa.codegen.lower import RegistersExceeded
from tawa.driver import choosing
from tawa.driver.attempts import Attempts, TooFewRegisters
from tawa.driver.choice.candidates import Candidate, by_itself, candidates
from tawa.driver.choice.choose import Ranking, ranking
from tawa.driver.choice.model import launch_cycles
from tawa.driver.choice.profile import Cost, Loop, Profile, Sizes
from tawa.driver.choosing import TRIED, Fitted, Rejected, fitted, profile_for
from tawa.ir.decisions.choice import Chosen
from tawa.machine.chips import H200
from tawa.runtime.compile_log import CompileReport, FunctionUsage


@tawa.jit
def gemm(a, b, c, K, M: tl.constexpr, N: tl.constexpr):
    acc = tl.zeros((M, N), tl.float32)
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    for k in range(0, K, 64):
        acc = tl.dot(a.load([row, k]), b.load([column, k]).T, acc)
    c.store([row, column], acc.to(tl.float16))


@tawa.jit
def attention(q, k, v, o, S, CAUSAL: tl.constexpr, D: tl.constexpr, N: tl.constexpr):
    start, base = tl.program_id(0) * 128, tl.program_id(1) * S
    queries = q.load([base + start, 0])
    rows, columns = start + tl.arange(0, 128), tl.arange(0, N)
    top = tl.full((128,), -1e30, tl.float32)
    total, acc = tl.zeros((128,), tl.float32), tl.zeros((128, D), tl.float32)
    for n in range(0, start + 128 if CAUSAL else S, N):
        scores = tl.dot(queries, k.load([base + n, 0]).T)
        if CAUSAL:
            scores = tl.where(rows[:, None] >= (n + columns)[None, :], scores, -1e30)
        new = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp(scores - new[:, None])
        factor = tl.exp(top - new)
        total = total * factor + tl.sum(weights, 1)
        acc = tl.dot(weights.to(tl.float16), v.load([base + n, 0]), acc * factor[:, None])
        top = new
    o.store([base + start, 0], (acc / total[:, None]).to(tl.float16))


@tawa.jit
def guarded(q, k, v, o, S, D: tl.constexpr, N: tl.constexpr):
    queries = q.load([tl.program_id(0) * 128, 0])
    acc = tl.zeros((128, D), tl.float32)
    for n in range(0, S, N):
        scores = tl.dot(queries, k.load([n, 0]).T)
        if n + N > S:
            scores = tl.where((n + tl.arange(0, N) < S)[None, :], scores, -1e30)
        acc = tl.dot(tl.exp(scores).to(tl.float16), v.load([n, 0]), acc)
    o.store([tl.program_id(0) * 128, 0], acc.to(tl.float16))


@tawa.jit
def counted(a, b, c, done, K, M: tl.constexpr, N: tl.constexpr):
    gemm(a, b, c, K, M, N)
    tl.atomic_add(done, 1)


@tawa.jit
def listed(a, b, c, lengths, K, M: tl.constexpr, N: tl.constexpr):
    gemm(a, b, c, tl.load(lengths + tl.program_id(0)), M, N)


GEMM = "desc<f16,128x64>", "desc<f16,128x64>", "desc<f16,128x128>"
TILE = {"M": 128, "N": 128}


def profile(kernel, *types, **constants) -> Profile:
    request = kernel.request(*types, **constants)
    return profile_for(kernel, request.types, request.constants, request.options)


def of_attention(d: int, n: int, causal: bool) -> Profile:
    q, k = f"desc<f16,128x{d}>", f"desc<f16,{n}x{d}>"
    return profile(attention, q, k, k, q, "i32", CAUSAL=causal, D=d, N=n)


def taken(found: Ranking) -> dict[str, object]:
    return dict(found.first.candidate.options)


def test_a_profile_is_kept_whole():
    found = of_attention(64, 64, True)
    assert Profile.from_json(found.to_json()) == found
    assert found.groups == 2
    assert found.differs
    assert found.certain
    assert found.apart
    assert found.accumulators == 128 * 64 + 128 * 64
    assert len(found.loops) == 2, "split where the mask holds"
    assert all(loop.feeds for loop in found.loops)
    (loop, *more) = found.loops
    every = replace(found, loops=(replace(loop, makes=True, gathers=True, guarded=True), *more))
    assert Profile.from_json(every.to_json()) == every


def test_a_guard_takes_part_of_an_iteration():
    tile, keys = "desc<f16,128x64>", "desc<f16,64x64>"
    (loop,) = profile(guarded, tile, keys, keys, tile, "i32", D=64, N=64).loops
    assert loop.guarded
    assert not any(loop.guarded for loop in of_attention(64, 64, True).loops)
    sizes = Sizes((1024,), (("S", 65536),))
    found = of_attention(64, 64, False)
    plain, beside = (
        launch_cycles(replace(found, loops=(replace(found.loops[0], guarded=guard),)), sizes,
                      Candidate((), 1, 2), H200)
        for guard in (False, True)
    )  # fmt: skip
    assert 1.01 < beside / plain < 1.03


def test_three_ctas_where_one_group_waits_for_its_products():
    """Attention of 64 rows, D = 64: 5 to 10% faster on an H200 than with two."""
    two = of_attention(64, 64, False)
    one = replace(two, groups=1, accumulators=two.accumulators // 2, made=two.made // 2, rows=64)
    free = replace(one, loops=tuple(replace(loop, feeds=False) for loop in one.loops))
    sizes = Sizes((16, 512), (("S", 1024),))

    def shared(found: Profile) -> set[object]:
        return {dict(c.options).get("ctas_per_sm") for c in candidates(found, sizes, {}, H200)}

    assert [3 in shared(found) for found in (one, two, free)] == [True, False, False]
    assert taken(ranking(one, sizes, {}, H200))["ctas_per_sm"] == 3


@pytest.mark.parametrize(
    ("d", "n", "causal", "rows", "expected"),
    [
        (64, 64, False, 1024, {"ctas_per_sm": 2}),
        (64, 64, False, 8192, {"ctas_per_sm": 2}),
        (128, 128, False, 1024, {"persistent": True}),
        (64, 64, True, 1024, {"persistent": True, "deal": "even", "ctas_per_sm": 2}),
        (128, 128, True, 8192, {"persistent": True, "deal": "even"}),
    ],
)
def test_attention_as_hands_found_it_best(d, n, causal, rows, expected):
    """Measured on an H200 (choice.jsonl), and what replays of the timing model say."""
    sizes = Sizes((rows // 128, 16384 // rows * 2048 // d), (("S", rows),))
    assert taken(ranking(of_attention(d, n, causal), sizes, {}, H200)) == expected


def test_one_cta_of_two_warp_groups_is_persistent_whatever_the_rows():
    for rows in (1024, 8192):
        sizes = Sizes((rows // 128, 16384 // rows * 16), (("S", rows),))
        found = ranking(of_attention(128, 128, False), sizes, {}, H200)
        assert taken(found) == {"persistent": True}


def test_what_was_asked_for_is_a_demand():
    found, sizes = of_attention(64, 64, True), Sizes((8, 512), (("S", 1024),))
    for asked in ({"persistent": False}, {"ctas_per_sm": 1}, {"deal": 1, "ping_pong": False}):
        for candidate in candidates(found, sizes, asked, H200):
            assert not asked.keys() & dict(candidate.options).keys()
    all_of_them = {"persistent": False, "deal": 1, "ctas_per_sm": 1, "ping_pong": False}
    for asked in (all_of_them, {"specialize": False}, {"cluster": 2}, {"schedule": 3}):
        assert len(list(candidates(found, sizes, asked, H200))) == 1


@tawa.jit
def strips(a, b, c, R, K, M: tl.constexpr, N: tl.constexpr):
    for r in range(R):
        acc = tl.zeros((M, N), tl.float32)
        for k in range(0, K, 64):
            acc = tl.dot(a.load([r * M, k]), b.load([tl.program_id(0) * N, k]).T, acc)
        c.store([r * M, tl.program_id(0) * N], acc.to(tl.float16))


def test_loops_inside_loops_are_done_as_often_as_both_say():
    found = profile(strips, *GEMM, "i32", "i32", **TILE)

    def time(rows: int, columns: int) -> float:
        sizes = Sizes((1320,), (("R", rows), ("K", columns)))
        return ranking(found, sizes, {}, H200).written.microseconds

    assert time(8, 4096) == pytest.approx(2 * time(4, 4096), rel=0.1)
    assert time(8, 4096) == pytest.approx(2 * time(8, 2048), rel=0.1)
    assert time(8, 4096) == pytest.approx(time(64, 512), rel=0.1)


def test_half_of_the_work_takes_half_of_the_time():
    """Programs differ under a causal mask: the first has one block of keys, the last all."""
    sizes = Sizes((64, 32), (("S", 8192),))
    whole, half = (
        ranking(of_attention(128, 128, causal), sizes, {}, H200).written.microseconds
        for causal in (False, True)
    )
    assert 0.4 < half / whole < 0.8


@pytest.mark.parametrize(
    ("groups", "resident", "least", "most"),
    [(1, 1, 0.99, 1.01), (2, 1, 0.0, 0.5), (1, 2, 0.0, 0.5)],
)
def test_only_several_groups_or_ctas_hide_code_behind_products(groups, resident, least, most):
    def cycles(ordinary: float) -> float:
        loop = Loop(Cost(tensor=1000, ordinary=ordinary), (), feeds=True)
        sizes, found = Sizes((132 * resident,)), Profile(loops=(loop,), groups=groups)
        return launch_cycles(found, sizes, Candidate((), resident), H200) / resident

    filling = 300 / resident  # half of an iteration, before the first
    assert least < (cycles(600) - cycles(0) - filling) / 600 < most


def test_few_programs_are_left_as_written():
    found = profile(gemm, *GEMM, "i32", **TILE)
    assert len(list(candidates(found, Sizes((132, 1), (("K", 512),)), {}, H200))) == 1
    assert len(list(candidates(found, Sizes((133, 8), (("K", 512),)), {}, H200))) > 1


@pytest.mark.parametrize(
    ("options", "more", "with_many"),
    [
        ({"num_stages": 3}, 6, None),  # 32 KB each, beside a tile of 32 KB that is stored
        ({"num_stages": 2}, 6, 6),  # 512 cycles of products hide no copy
        ({"num_stages": 6}, None, None),
        ({"num_stages": 1}, 6, 6),
        ({"num_stages": 3, "ping_pong": True, "persistent": True}, 6, None),
        ({"num_stages": 3, "cluster": 2}, None, None),
        ({}, None, None),
    ],
)
def test_few_programs_take_all_slots(options, more, with_many):
    found = profile(gemm, *GEMM, "i32", **TILE)
    for programs, expected in ((1, more), (66, more), (67, with_many), (4096, with_many)):
        first = taken(ranking(found, Sizes((programs, 1), (("K", 4096),)), options, H200))
        assert first.get("num_stages") == expected


@tawa.jit
def weights(x, w, out, N, K, M: tl.constexpr, B: tl.constexpr):
    """Rows times weights of a byte."""
    m, n, k = tl.arange(0, M), tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, 64)
    acc = tl.zeros((M, B), tl.float32)
    for at in range(0, K, 64):
        xt = tl.load(x + m[:, None] * K + at + k[None, :])
        wt = tl.load(w + n[None, :] * K + at + k[:, None])
        acc = tl.dot(xt, wt.to(xt.dtype), acc)
    tl.store(out + m[:, None] * N + n[None, :], acc)


WEIGHTS = "*f16:16", "*i8:16", "*f32:16", "i32:16", "i32:16"


@pytest.mark.parametrize(
    ("options", "programs", "expected"),
    [
        ({}, 64, {"slice_k": 4}),
        ({"num_stages": 2}, 64, {"slice_k": 4}),
        ({}, 133, {}),  # as many programs as multiprocessors, or more, wait beside each other
        ({"slice_k": 1}, 64, {}),
        ({"slice_k": 2}, 64, {}),
        ({"persistent": True}, 64, {}),
        ({"ctas_per_sm": 2}, 64, {}),
    ],
)
def test_teams_share_the_iterations_of_few_programs(options, programs, expected):
    found = profile(weights, *WEIGHTS, M=16, B=64)
    assert (found.slices, found.by_warps) == (4, True)
    sizes = Sizes((programs,), (("K", 4096),))
    first = taken(ranking(found, sizes, options, H200))
    assert {n: v for n, v in first.items() if n == "slice_k"} == expected


def test_a_short_loop_is_not_dealt_out():
    """What teams pass on takes longer than what they wait for."""
    found = profile(weights, *WEIGHTS, M=16, B=64)
    assert taken(ranking(found, Sizes((64,), (("K", 64),)), {}, H200)) == {}


def test_loops_that_carry_more_have_no_slices():
    assert of_attention(64, 64, False).slices == 1
    assert profile(weights, *WEIGHTS, M=16, B=64, num_warps=16).slices == 1


@pytest.mark.parametrize(("function", "type_"), [(counted, "*i32"), (listed, "*i32")])
def test_programs_that_may_wait_or_differ_unknowably_are_not_made_persistent(function, type_):
    found = profile(function, *GEMM, type_, "i32", **TILE)
    assert not (found.apart and found.certain)
    for candidate in candidates(found, Sizes((64, 64), (("K", 512),)), {}, H200):
        assert "persistent" not in dict(candidate.options)


def test_shared_memory_and_registers_bound_what_is_tried():
    wide = profile(gemm, "desc<f16,128x64>", "desc<f16,256x64>", "desc<f16,128x256>", "i32",
                   M=128, N=256)  # fmt: skip
    sizes = Sizes((64, 64), (("K", 512),))
    for candidate in candidates(wide, sizes, {}, H200):
        assert "ctas_per_sm" not in dict(candidate.options), "256 columns take all registers"
    small = profile(gemm, *GEMM, "i32", **TILE)
    asked = {"num_stages": 7}
    for candidate in candidates(small, sizes, asked, H200):
        assert "ctas_per_sm" not in dict(candidate.options), "seven slots fill shared memory"


@tawa.jit
def scaled(a, b, c, s, K, M: tl.constexpr, N: tl.constexpr):
    acc = tl.zeros((M, N), tl.float32)
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    for k in range(0, K, 64):
        acc += tl.dot(a.load([row, k]), b.load([column, k]).T) * tl.load(s + k)
    c.store([row, column], acc.to(tl.float16))


def test_a_sum_beside_a_product_takes_registers_of_its_own():
    found = profile(scaled, *GEMM, "*f32", "i32", **TILE)
    assert found.accumulators == 2 * 128 * 128
    sizes = Sizes((64, 64), (("K", 512),))
    assert all(c.resident == 1 for c in candidates(found, sizes, {}, H200))


def test_too_few_registers_for_several_ctas_are_an_error_that_names_the_option():
    with pytest.raises(RegistersExceeded) as raised:
        scaled.compile(*GEMM, "*f32", "i32", **TILE, ctas_per_sm=2)
    error = raised.value
    assert "ctas_per_sm=2" in str(error.found)
    assert "leave ctas_per_sm below 2" in str(error.hint)
    assert "def scaled" in str(error)


def test_an_option_that_was_not_given_is_not_to_blame():
    options = SimpleNamespace(options=SimpleNamespace(ctas_per_sm=1))
    module = scaled.compile(*GEMM, "*f32", "i32", **TILE).module("tile")
    attempts: Any = SimpleNamespace(compilation=options, tile=module)
    error = Attempts._exceeded(attempts, TooFewRegisters(needed=90, allowed=80))
    assert str(error.hint) == "use smaller blocks"
    assert str(error.found) == "80 registers a thread"


@tawa.jit
def gathered(x, w, c, rows, K, M: tl.constexpr, N: tl.constexpr):
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    at = tl.load(rows + row + tl.arange(0, M))
    inner = tl.arange(0, 64)
    columns = column + tl.arange(0, N)
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, 64):
        a = tl.load(x + at[:, None] * K + (k + inner)[None, :])
        b = tl.load(w + columns[:, None] * K + (k + inner)[None, :])
        acc = tl.dot(a, b.T, acc)
    place = (row + tl.arange(0, M))[:, None] * 4096 + columns[None, :]
    tl.store(c + place, acc.to(tl.float16))


@pytest.mark.parametrize(("rows", "columns", "least"), [(64, 128, 2), (16, 64, 3), (64, 256, 1)])
def test_ctas_that_share_a_multiprocessor_by_themselves_are_counted(rows, columns, least):
    """Rings of a role that copies leave room for others, where one warp group computes."""
    types = "*f16:16", "*f16:16", "*f16:16", "*i32:16", "i32:16"
    constants = {"M": rows, "N": columns}
    found = profile(gathered, *types, **constants)
    compiled = gathered.compile(*types, **constants)
    spec, registers = compiled.spec, compiled.n_regs * compiled.spec.threads
    fit = min(H200.ctas_with(spec.shared_bytes), H200.registers // registers)
    assert min(fit, 4) == by_itself(found, {}, H200)
    assert fit >= least


@tawa.jit
def dequantised(
    x, w, c, K, M: tl.constexpr, N: tl.constexpr, SCALED: tl.constexpr, STEP: tl.constexpr = 1
):
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    rows, columns, inner = row + tl.arange(0, M), column + tl.arange(0, N), tl.arange(0, 64)
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, 64):
        a = tl.load(x + (rows[:, None] * K + (k + inner)[None, :]) * STEP)
        b = tl.load(w + columns[:, None] * K + (k + inner)[None, :])
        if SCALED:
            b = b.to(tl.bfloat16)
        acc = tl.dot(a, b.T, acc)
    tl.store(c + rows[:, None] * 4096 + columns[None, :], acc.to(tl.bfloat16))


@pytest.mark.parametrize(("element", "makes", "expected"), [
    ("i8", True, {"consumers": 1}), ("bf16", False, {"persistent": True}),
])  # fmt: skip
def test_one_computing_group_is_taken_where_threads_make_operands(element, makes, expected):
    """Measured on an H100: bytes 306 us with two groups, 253 with one and two CTAs."""
    types = "*bf16:16", f"*{element}:16", "*bf16:16", "i32:16"
    found = profile(dequantised, *types, **TILE, SCALED=makes, num_warps=8)
    assert [loop.makes for loop in found.loops] == [makes]
    assert found.groups == 2
    sizes = Sizes((16, 64), (("K", 4096),))
    assert taken(ranking(found, sizes, {"num_warps": 8}, H200)) == expected
    assert taken(ranking(found, sizes, {"consumers": 2}, H200)).get("consumers") is None


@pytest.mark.parametrize(("step", "expected"), [
    (1, {"persistent": True}), (3, {"ctas_per_sm": 2}),
])  # fmt: skip
def test_more_ctas_wait_where_threads_gather_operands(step, expected):
    """Measured on an H200, a convolution: 165 us with one CTA a multiprocessor, 123 with two."""
    found = profile(dequantised, *["*bf16:16"] * 3, "i32:16", **TILE, SCALED=False, STEP=step,
                    num_warps=8)  # fmt: skip
    assert [loop.gathers for loop in found.loops] == [step > 1]
    sizes = Sizes((16, 64), (("K", 4096),))
    assert taken(ranking(found, sizes, {"num_warps": 8}, H200)) == expected


@tawa.jit
def in_words(x, w, c, K, M: tl.constexpr, N: tl.constexpr, ACROSS: tl.constexpr):
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    rows, columns, inner = row + tl.arange(0, M), column + tl.arange(0, N), tl.arange(0, 32)
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, 32):
        a = tl.load(x + rows[:, None] * K + (k + inner)[None, :])
        if ACROSS:
            b = tl.load(w + (k + inner)[:, None] * 4096 + columns[None, :])
        else:
            b = tl.load(w + columns[:, None] * K + (k + inner)[None, :]).T
        acc = tl.dot(a, b, acc)
    tl.store(c + rows[:, None] * 4096 + columns[None, :], acc)


@pytest.mark.parametrize("across", [False, True])
def test_words_across_k_go_through_registers(across):
    types = "*f32:16", "*f32:16", "*f32:16", "i32:16"
    found = profile(in_words, *types, **TILE, ACROSS=across, num_warps=8)
    assert [loop.body.turned for loop in found.loops] == [32 * 128 * across]


def test_what_does_not_compile_is_left_out():
    found = profile(gemm, *GEMM, "i32", **TILE)
    ranked = ranking(found, Sizes((64, 64), (("K", 512),)), {}, H200)
    plain = gemm.compile(*GEMM, "i32", **TILE)
    asked_for = []

    def compile_(options):
        asked_for.append(options)
        if options:
            raise TawaError("no room")
        return plain

    result = fitted(ranked, compile_)
    assert isinstance(result, Fitted)
    assert result.options == ()
    assert asked_for[-1] == ()
    assert len(asked_for) == len(ranked.better[:TRIED]) + 1
    (decision,) = [d for d in result.compiled.decisions if isinstance(d, Chosen)]
    assert decision.taken == decision.written
    assert str(decision).startswith("choice: as written")


def test_what_finds_no_room_is_not_tried_with_other_options():
    found = profile(gemm, *GEMM, "i32", **TILE)
    ranked = ranking(found, Sizes((64, 64), (("K", 512),)), {}, H200)
    asked: list[dict[str, Any]] = []
    crowd = Candidate((("ctas_per_sm", 2),), 2)
    alone = Candidate((("persistent", True),), persistent=True)
    first, second, third = (replace(ranked.written, candidate=c) for c in (crowd, crowd, alone))
    ranked = replace(ranked, better=(first, second, third))

    def compile_(options: Any) -> Any:
        asked.append(dict(options))
        if dict(options).get("ctas_per_sm") == 2:
            raise TawaError("no room")
        return gemm.compile(*GEMM, "i32", **TILE)

    assert fitted(ranked, compile_).options == alone.options
    assert [o.get("ctas_per_sm", 1) for o in asked[:2]] == [2, 1]


def test_sizes_that_grow_are_few():
    grown = {Sizes((8,), (("n", n),)).rounded for n in range(1, 1025)}
    assert len(grown) <= 2 * 11
    rounded = [Sizes((8,), (("n", n),)).rounded.numbers[0][1] for n in (0, 1, 2, 3, 5, 9, 1025)]
    assert rounded == [0, 1, 2, 3, 6, 12, 1536]


@pytest.fixture
def launched():
    """A small product, launched for 4 programs and then for 144."""
    kernel = tawa.jit(gemm.fn)

    def run(rows: int, columns: int, depth: int):
        generator = np.random.default_rng(rows)
        a, b = (generator.standard_normal((n * 64, depth)).astype(np.float16)
                for n in (rows, columns))  # fmt: skip
        c = np.zeros((rows * 64, columns * 64), np.float16)
        made = [tawa.TensorDescriptor.from_tensor(x, block)
                for x, block in ((a, [64, 64]), (b, [64, 64]), (c, [64, 64]))]  # fmt: skip
        compiled = kernel[(rows, columns)](*made, depth, M=64, N=64)
        exact = a.astype(np.float64) @ b.astype(np.float64).T
        np.testing.assert_allclose(c, exact, rtol=2e-3, atol=2e-2)
        return compiled

    run.kernel = kernel
    return run


def test_a_launch_of_a_new_size_runs_what_is_at_hand(launched):
    first = launched(2, 2, 64)
    assert first.spec.grid == "plain"
    (entry,) = launched.kernel._current().entries.values()
    assert launched(18, 8, 64).spec.grid == "plain", "it does not wait"
    entry.variants.settle()
    assert launched(18, 8, 64).spec.grid == "persistent"
    assert launched(2, 2, 64).spec.grid == "plain", "few programs have nothing to gain"


def test_a_loop_that_grows_asks_seldom(launched):
    for depth in range(64, 64 * 12, 64):
        launched(2, 1, depth)
    (entry,) = launched.kernel._current().entries.values()
    assert len(entry.variants._known) <= 8
    assert list(entry.variants.found) == [()]


def test_a_candidate_that_spills_is_not_taken_beside_launches_either(launched, monkeypatch):
    launched(2, 2, 64)
    (entry,) = launched.kernel._current().entries.values()
    build, built = entry.variants.build, []
    spills = CompileReport((FunctionUsage("gemm", spill_stores=64),))

    def spilling(options):
        built.append(options)
        return replace(build(options), assembled=spills) if options else build(options)

    monkeypatch.setattr(entry.variants, "build", spilling)
    for _ in range(4):
        assert launched(18, 8, 64).spec.grid == "plain"
        entry.variants.settle()
    assert list(entry.variants.found) == [()]
    tried = [options for options in built if options]
    assert tried, "one was compiled"
    assert len(tried) == len(set(tried)), "and not again"


def test_what_loses_beside_launches_crowds_as_many_ctas_out():
    rejected = Rejected()
    two, other = (("ctas_per_sm", 2),), (("ctas_per_sm", 2), ("persistent", True))
    rejected.add((("persistent", True),))
    assert two not in rejected
    assert other not in rejected
    assert (("persistent", True), ("deal", "even")) in rejected
    assert (("persistent", True), ("ping_pong", True)) not in rejected
    rejected.add(two, crowded=False)
    assert two in rejected
    assert other not in rejected
    rejected.add(two)
    assert other in rejected
    assert (("ctas_per_sm", 3),) not in rejected
    going_on = Rejected()
    going_on.add(other)
    assert (*other, ("deal", "even")) in going_on
    assert two not in going_on, "what keeps fewer values may fit"


def test_a_profile_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The second time it is read; what is no profile is looked at again, and written anew."""
    monkeypatch.setenv("TAWA_CACHE_DIR", str(tmp_path))
    made = profile(gemm, *GEMM, "i32", **TILE)
    looked = list[object]()

    def looking(*args: object) -> Profile:
        looked.append(args)
        return made

    monkeypatch.setattr(choosing, "_profiled", looking)
    request = gemm.request(*GEMM, "i32", **TILE)
    asked = request.types, request.constants, request.options
    for _ in range(3):
        assert profile_for(gemm, *asked, "a key").to_json() == made.to_json()
    assert len(looked) == 1
    profile_for(gemm, *asked, "another key")
    profile_for(gemm, *asked)
    profile_for(gemm, *asked)
    assert len(looked) == 4
    cache = choosing.default_cache()
    monkeypatch.setattr(type(cache), "get", lambda *_: {"json": b"[1, 2]"})
    assert profile_for(gemm, *asked, "a key") is made
    assert len(looked) == 5


@pytest.mark.parametrize(("asked", "expected"), [(1, 2), (2, None), (None, None)])
def test_one_stage_is_a_wish(asked, expected):
    """Something is loaded while something is computed; products that are waited for get no more."""
    options = {} if asked is None else {"num_stages": asked}
    for programs in (67, 4096):
        first = taken(ranking(of_attention(64, 64, False), Sizes((programs, 1), ()), options, H200))
        assert first.get("num_stages") == expected
