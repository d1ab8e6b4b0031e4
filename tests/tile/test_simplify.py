"""Simplification: what each rule does, by op counts, and that nothing changes its meaning.

Every kernel test of the front end runs its module before and after simplification too.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.parser import Parser

import tawa.language as tl
from tawa.frontend import lower_to_tile, parse_argument
from tawa.simulate.interpret.tile import run
from tawa.tile.dialect.ops import Load, tile_context
from tawa.tile.passes.simplify import Simplify, simplify


def module(body: str, arguments: str = "%p : !tawa.ptr<i32>, %x : i32, %t : tensor<8xi32>"):
    return Parser(
        tile_context(), f"func.func @f({arguments}) {{\n{body}\nfunc.return\n}}"
    ).parse_module()


def ops_after(body: str) -> Counter:
    parsed = module(body)
    simplify(parsed)
    parsed.verify()
    names = (
        op.properties["function"].data if op.name == "ew.map" else op.name for op in parsed.walk()
    )
    return Counter(n for n in names if n not in ("builtin.module", "func.func", "func.return"))


USE = "tile.store %p, %r : !tawa.ptr<i32>, i32"
USE_TENSOR = (
    '%s = tile.reduce "addi" %r axis 0 : tensor<8xi32> -> i32\n'
    "tile.store %p, %s : !tawa.ptr<i32>, i32"
)
CONSTANTS = "".join(f"%c{n} = arith.constant {n} : i32\n" for n in (0, 1, 2, 5))


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("%r = ew.map addi(%c2, %c5) : (i32, i32) -> i32", {"arith.constant": 1}),
        ("%r = ew.map addi(%x, %c0) : (i32, i32) -> i32", {}),
        ("%r = ew.map addi(%c0, %x) : (i32, i32) -> i32", {}),
        ("%r = ew.map muli(%x, %c1) : (i32, i32) -> i32", {}),
        ("%r = ew.map muli(%c0, %x) : (i32, i32) -> i32", {"arith.constant": 1}),
        ("%r = ew.map divsi(%x, %c1) : (i32, i32) -> i32", {}),
        ("%r = ew.map divsi(%c1, %x) : (i32, i32) -> i32", {"arith.constant": 1, "divsi": 1}),
        ("%r = ew.map remsi(%x, %c1) : (i32, i32) -> i32", {"arith.constant": 1}),
        ("%r = ew.map remsi(%c1, %x) : (i32, i32) -> i32", {"arith.constant": 1, "remsi": 1}),
        ("%r = ew.map subi(%c0, %x) : (i32, i32) -> i32", {"arith.constant": 1, "subi": 1}),
        ("%r = ew.map divsi(%c5, %c2) : (i32, i32) -> i32", {"arith.constant": 1}),
        ("%d = ew.map addi(%x, %c5) : (i32, i32) -> i32\n"
         "%e = ew.map addi(%x, %c5) : (i32, i32) -> i32\n"
         "%r = ew.map muli(%d, %e) : (i32, i32) -> i32", {"arith.constant": 1, "addi": 1, "muli": 1}),
        ("%dead = ew.map addi(%x, %c5) : (i32, i32) -> i32\n"
         "%r = ew.map muli(%x, %x) : (i32, i32) -> i32", {"muli": 1}),
        ("%b = ew.map cmpi_slt(%c1, %c2) : (i32, i32) -> i1\n"
         "%r = scf.if %b -> (i32) { scf.yield %x : i32 } else { scf.yield %c5 : i32 }", {}),
        ("%r = scf.for %i = %c5 to %c2 step %c1 iter_args(%a = %x) -> (i32) : i32 {\n"
         "%n = ew.map addi(%a, %i) : (i32, i32) -> i32\nscf.yield %n : i32 }", {}),
        ("%r = scf.for %i = %c0 to %c1 step %c1 iter_args(%a = %x) -> (i32) : i32 {\n"
         "%n = ew.map muli(%a, %a) : (i32, i32) -> i32\nscf.yield %n : i32 }", {"muli": 1}),
    ],
)  # fmt: skip
def test_scalars(line, kept):
    counts = ops_after(CONSTANTS + line + "\n" + USE)
    assert counts == Counter({"tile.store": 1, **kept})


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("%a = tile.splat %x : i32 -> tensor<8xi32>\n"
         "%b = tile.splat %c5 : i32 -> tensor<8xi32>\n"
         "%r = ew.map muli(%a, %b) : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>",
         {"arith.constant": 1, "muli": 1, "tile.splat": 1}),
        ("%a = tile.splat %c0 : i32 -> tensor<8xi32>\n"
         "%r = ew.map addi(%t, %a) : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>", {}),
        ("%a = tile.splat %x : i32 -> tensor<1xi32>\n"
         "%r = tile.broadcast %a : tensor<1xi32> -> tensor<8xi32>", {"tile.splat": 1}),
        ("%a = tile.reshape %t : tensor<8xi32> -> tensor<2x4xi32>\n"
         "%b = tile.trans %a order [1, 0] : tensor<2x4xi32> -> tensor<4x2xi32>\n"
         "%c = tile.trans %b order [1, 0] : tensor<4x2xi32> -> tensor<2x4xi32>\n"
         "%r = tile.reshape %c : tensor<2x4xi32> -> tensor<8xi32>", {}),
    ],
)  # fmt: skip
def test_tensors(line, kept):
    counts = ops_after(CONSTANTS + line + "\n" + USE_TENSOR)
    assert counts == Counter({"tile.store": 1, "tile.reduce": 1, **kept})


@pytest.mark.parametrize(
    ("exponent", "kept"),
    [("1.0", {}), ("2.0", {"mulf": 1}), ("3.0", {"mulf": 2}), ("4.0", {"mulf": 2}),
     ("5.0", {"pow": 1, "arith.constant": 1}), ("0.5", {"pow": 1, "arith.constant": 1}),
     ("-2.0", {"pow": 1, "arith.constant": 1})],
)  # fmt: skip
def test_small_whole_powers_are_products(exponent: str, kept: dict[str, int]) -> None:
    parsed = module(
        f"%e = arith.constant {exponent} : f32\n%r = ew.map pow(%x, %e) : (f32, f32) -> f32\n"
        "tile.store %p, %r : !tawa.ptr<f32>, f32",
        "%p : !tawa.ptr<f32>, %x : f32",
    )
    simplify(parsed)
    parsed.verify()
    names = [
        op.properties["function"].data if op.name == "ew.map" else op.name for op in parsed.walk()
    ]
    counts = Counter(names) - Counter(("builtin.module", "func.func", "func.return"))
    assert counts == Counter({"tile.store": 1, **kept})


def test_effects_stay_and_unused_reads_go():
    counts = ops_after(
        "%v = tile.load %p : !tawa.ptr<i32> -> i32\n"
        "%w = tile.load %p volatile : !tawa.ptr<i32> -> i32\n"
        '%o = tile.atomic_rmw "addi" %p, %x order "relaxed" scope "gpu" : !tawa.ptr<i32>, i32 -> i32\n'
        "tile.barrier"
    )
    assert counts == Counter({"tile.load": 1, "tile.atomic_rmw": 1, "tile.barrier": 1})


def test_reads_are_not_unified():
    """Between two equal loads there may be a store."""
    counts = ops_after(
        "%v = tile.load %p : !tawa.ptr<i32> -> i32\n"
        "tile.store %p, %x : !tawa.ptr<i32>, i32\n"
        "%w = tile.load %p : !tawa.ptr<i32> -> i32\n"
        "%r = ew.map addi(%v, %w) : (i32, i32) -> i32\n" + USE
    )
    assert counts["tile.load"] == 2


def test_loops_carry_only_what_they_change_and_keep_their_attributes():
    body = (
        CONSTANTS
        + "%r, %s, %u = scf.for %i = %c0 to %x step %c1 iter_args(%a = %x, %b = %c5, %d = %c0)"
        " -> (i32, i32, i32) : i32 {\n"
        "%k = ew.map muli(%b, %x) : (i32, i32) -> i32\n"
        "%n = ew.map addi(%a, %k) : (i32, i32) -> i32\n"
        "%e = ew.map addi(%d, %c1) : (i32, i32) -> i32\n"
        "scf.yield %n, %b, %e : i32, i32, i32 } {tawa.num_stages = 3 : i32}\n" + USE
    )
    parsed = module(body)
    Simplify().apply(parsed)
    (loop,) = [op for op in parsed.walk() if op.name == "scf.for"]
    assert len(loop.iter_args) == 1
    assert loop.attributes["tawa.num_stages"].value.data == 3
    inside = [op.properties["function"].data for op in loop.body.block.ops if op.name == "ew.map"]
    assert inside == ["addi"]  # %k is moved out, %e is dropped


def gemm(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(0)
    num_m = tl.cdiv(M, BM)
    pid_m = pid % num_m
    pid_n = pid // num_m
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK)):
        a = a_desc.load([pid_m * BM, k * BK])
        b = b_desc.load([pid_n * BN, k * BK])
        acc = tl.dot(a, b.T, acc)
    c_desc.store([pid_m * BM, pid_n * BN], acc.to(tl.float16))


def gemm_module():
    types = ["desc<f16, 128x64>", "desc<f16, 256x64>", "desc<f16, 128x256>", "i32", "i32", "i32"]
    constants = {"BM": 128, "BN": 256, "BK": 64}
    return lower_to_tile(gemm, [parse_argument(t) for t in types], constants)


def test_a_gemm_is_left_with_what_it_needs():
    simplified = gemm_module()
    simplify(simplified)
    (loop,) = [op for op in simplified.walk() if op.name == "scf.for"]
    names = [op.name for op in loop.body.block.ops]
    assert names == [
        "ew.map",
        "tile.desc_load",
        "tile.desc_load",
        "tile.trans",
        "tile.dot",
        "scf.yield",
    ]
    text = str(simplified)
    simplify(simplified)
    assert str(simplified) == text


@st.composite
def programs(draw) -> str:
    """Random straight-line code and loops over int32 scalars, heavy in 0, 1 and repetition."""
    lines = [CONSTANTS.rstrip()]
    names = ["%c0", "%c1", "%c2", "%c5", "%x"]
    functions = ["addi", "subi", "muli", "divsi", "remsi", "andi", "ori", "xori", "shli", "minsi"]
    for index in range(draw(st.integers(1, 12))):
        a, b, name = draw(st.sampled_from(names)), draw(st.sampled_from(names)), f"%v{index}"
        function = draw(st.sampled_from(functions))
        kind = draw(st.sampled_from(["map", "map", "loop", "if"]))
        step = f"ew.map {function}"
        if kind == "map":
            lines.append(f"{name} = {step}({a}, {b}) : (i32, i32) -> i32")
        elif kind == "loop":
            count = draw(st.sampled_from(["%c0", "%c1", "%c5"]))
            lines.append(
                f"{name} = scf.for %i{index} = %c0 to {count} step %c2 iter_args(%q{index} = {a})"
                f" -> (i32) : i32 {{\n%n{index} = {step}(%q{index}, {b}) : (i32, i32) -> i32\n"
                f"scf.yield %n{index} : i32 }}"
            )
        else:
            lines.append(
                f"%b{index} = ew.map cmpi_slt({a}, {b}) : (i32, i32) -> i1\n"
                f"{name} = scf.if %b{index} -> (i32) {{\n%n{index} = {step}({a}, {b}) : (i32, i32) -> i32\n"
                f"scf.yield %n{index} : i32 }} else {{ scf.yield {b} : i32 }}"
            )
        names.append(name)
    result = names[-1]
    return "\n".join(lines) + f"\ntile.store %p, {result} : !tawa.ptr<i32>, i32"


@settings(max_examples=150, deadline=None)
@given(programs(), st.integers(-100, 100))
def test_random_programs_keep_their_meaning(body, x):
    parsed = module(body, "%p : !tawa.ptr<i32>, %x : i32")
    before, after = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run(parsed, (1,), [before, x])
    simplify(parsed)
    parsed.verify()
    run(parsed, (1,), [after, x])
    assert before == after


def test_a_load_keeps_its_box_when_its_mask_goes() -> None:
    text = (
        "%y = arith.constant true\n"
        "%m = tile.splat %y : i1 -> tensor<8xi1>\n"
        "%r = tile.load %q mask %m box %d : !tawa.desc<tensor<1x8xi32>> at %x, %x where %b "
        ": tensor<8x!tawa.ptr<i32>>, tensor<8xi1> -> tensor<8xi32>\n"
    )
    arguments = (
        "%p : !tawa.ptr<i32>, %q : tensor<8x!tawa.ptr<i32>>, %d : !tawa.desc<tensor<1x8xi32>>, "
        "%x : i32, %b : i1"
    )
    parsed = module(text + USE_TENSOR, arguments)
    simplify(parsed)
    parsed.verify()
    (load,) = (op for op in parsed.walk() if isinstance(op, Load))
    assert load.mask is None
    assert load.box is not None
    assert [v.name_hint for v in (load.box.desc, *load.box.coordinates, load.box.holds)] == [
        "d", "x", "x", "b"
    ]  # fmt: skip


def test_variables_that_take_turns_outlive_those_that_nobody_reads():
    body = (
        CONSTANTS + "%r, %s, %u = scf.for %i = %c0 to %x step %c1"
        " iter_args(%a = %x, %b = %c5, %d = %c0) -> (i32, i32, i32) : i32 {\n"
        "%e = ew.map addi(%d, %c1) : (i32, i32) -> i32\n"
        "scf.yield %b, %a, %e : i32, i32, i32 }\n" + USE
    )
    parsed = module(body)
    Simplify().apply(parsed)
    parsed.verify()
    (loop,) = [op for op in parsed.walk() if op.name == "scf.for"]
    assert list(loop.body.block.last_op.operands) == list(reversed(loop.body.block.args[1:]))


NESTED = """
%c0 = arith.constant 0 : i32
%c1 = arith.constant 1 : i32
%r, %q = scf.for %i = %c0 to %x step %c1 iter_args(%a = %c0, %b = %c0) -> (i32, i32) : i32 {
  %j1, %a1, %b1 = scf.while (%j = %c0, %a2 = %a, %b2 = %b) : (i32, i32, i32) -> (i32, i32, i32) {
    %more = ew.map cmpi_slt(%j, %c1) : (i32, i32) -> i1
    scf.condition(%more) %j, %a2, %b2 : i32, i32, i32
  } do {
  ^bb0(%j3: i32, %a3: i32, %b3: i32):
    %j4 = ew.map addi(%j3, %c1) : (i32, i32) -> i32
    %a4 = ew.map addi(%b3, %c1) : (i32, i32) -> i32
    %b4 = ew.map addi(%x, %x) : (i32, i32) -> i32
    scf.yield %j4, %a4, %b4 : i32, i32, i32
  }
  scf.yield %a1, %b1 : i32, i32
}
tile.store %p, %r : !tawa.ptr<i32>, i32
"""


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_what_an_inner_loop_makes_another_variable_of_is_carried(turns: int):
    """Nobody reads `%q`, but `%b` of one iteration makes the next one's `%a`."""
    found: list[int] = []
    for steps in (lambda _: None, simplify):
        parsed = module(NESTED, "%p : !tawa.ptr<i32>, %x : i32")
        memory = np.full(1, -1, np.int32)
        steps(parsed)
        run(parsed, (1,), [memory, turns])
        found.append(int(memory[0]))
    assert found == [(0, 1, 5)[turns]] * 2
