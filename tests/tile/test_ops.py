"""Every op of the tile level prints, parses back to the same text, and verifies."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from tawa.ir.elementwise import Map
from tawa.tile.dialect import ops
from tawa.tile.dialect.ops import TILE, tile_context

PROGRAM = """
func.func @all(%p : !tawa.ptr<f16>, %n : i32, %d : !tawa.desc<tensor<16x8xf16>>) {
  %pid = tile.program_id 0 {loc = #tawa.span<"k.py", 3, 4, 3, 20>}
  %np = tile.num_programs 2
  %r = tile.arange 0 to 16 : tensor<16xi32>
  %ns = tile.splat %n : i32 -> tensor<16xi32>
  %m = ew.map cmpi_slt(%r, %ns) : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi1>
  %e = tile.expand_dims %r axis 1 : tensor<16xi32> -> tensor<16x1xi32>
  %b = tile.broadcast %e : tensor<16x1xi32> -> tensor<16x8xi32>
  %s = tile.reshape %b : tensor<16x8xi32> -> tensor<8x16xi32>
  %t = tile.trans %s order [1, 0] : tensor<8x16xi32> -> tensor<16x8xi32>
  %ps = tile.splat %p : !tawa.ptr<f16> -> tensor<16x!tawa.ptr<f16>>
  %q = ew.map addptr(%ps, %r) : (tensor<16x!tawa.ptr<f16>>, tensor<16xi32>) -> tensor<16x!tawa.ptr<f16>>
  %v = tile.load %q mask %m cache "ca" eviction "evict_last" volatile : tensor<16x!tawa.ptr<f16>>, tensor<16xi1> -> tensor<16xf16>
  %w = tile.load %q mask %m other %v : tensor<16x!tawa.ptr<f16>>, tensor<16xi1>, tensor<16xf16> -> tensor<16xf16>
  %one = tile.load %p : !tawa.ptr<f16> -> f16
  tile.store %q, %w mask %m cache "cg" : tensor<16x!tawa.ptr<f16>>, tensor<16xf16>, tensor<16xi1>
  %j = tile.join %v, %w : tensor<16xf16> -> tensor<16x2xf16>
  %a0, %a1 = tile.split %j : tensor<16x2xf16> -> tensor<16xf16>, tensor<16xf16>
  %c = tile.cat %a0, %a1 : tensor<16xf16>, tensor<16xf16> -> tensor<32xf16>
  %size = tile.desc_size %d[0] : !tawa.desc<tensor<16x8xf16>> -> i32
  %step = tile.desc_size %d[0] stride : !tawa.desc<tensor<16x8xf16>> -> i64
  %base = tile.desc_base %d : !tawa.desc<tensor<16x8xf16>> -> !tawa.ptr<f16>
  %x = tile.desc_load %d[%n, %n] : !tawa.desc<tensor<16x8xf16>> -> tensor<16x8xf16>
  %window = tile.extract_slice %x[%n, %n] : tensor<16x8xf16> -> tensor<4x8xf16>
  %xr = tile.repeat %x axis 1 times 2 : tensor<16x8xf16> -> tensor<16x16xf16>
  %xt = tile.trans %x order [1, 0] : tensor<16x8xf16> -> tensor<8x16xf16>
  %z = arith.constant 0.000000e+00 : f32
  %zs = tile.splat %z : f32 -> tensor<16x16xf32>
  %dot = tile.dot %x, %xt, %zs precision "ieee" : tensor<16x8xf16>, tensor<8x16xf16> -> tensor<16x16xf32>
  %red = tile.reduce "addf" %dot axis 1 : tensor<16x16xf32> -> tensor<16xf32>
  %all = tile.reduce "maxnumf" %red axis 0 : tensor<16xf32> -> f32
  %ex, %at = tile.arg_reduce "argmax" %dot axis 0 unsigned : tensor<16x16xf32> -> tensor<16xf32>, tensor<16xi32>
  %scan = tile.scan "addf" %dot axis 1 reverse : tensor<16x16xf32> -> tensor<16x16xf32>
  %both, %counts = tile.reduce_with %dot, %zs axis 0 : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16xf32>, tensor<16xf32> {
  ^bb0(%x0 : f32, %x1 : f32, %y0 : f32, %y1 : f32):
    %w0 = ew.map addf(%x0, %y0) : (f32, f32) -> f32
    %w1 = ew.map mulf(%x1, %y0) : (f32, f32) -> f32
    tile.yield %w0, %w1 : f32, f32
  }
  %run = tile.scan_with %dot axis 0 reverse : tensor<16x16xf32> -> tensor<16x16xf32> {
  ^bb0(%u : f32, %o : f32):
    %uo = ew.map subf(%u, %o) : (f32, f32) -> f32
    tile.yield %uo : f32
  }
  %k = ew.map extsi(%n) : (i32) -> i64
  %md = tile.make_desc %p shape [%n, %n] strides [%k, %k] padding "nan" : !tawa.ptr<f16> -> !tawa.desc<tensor<16x8xf16>>
  tile.desc_store %md[%n, %n], %x reduce "addf" : !tawa.desc<tensor<16x8xf16>>, tensor<16x8xf16>
  %old = tile.atomic_rmw "addf" %q, %v mask %m order "relaxed" scope "gpu" : tensor<16x!tawa.ptr<f16>>, tensor<16xf16>, tensor<16xi1> -> tensor<16xf16>
  %cas = tile.atomic_cas %p, %one, %one order "acq_rel" scope "sys" : !tawa.ptr<f16>, f16
  %g = tile.gather %v, %r axis 0 : tensor<16xf16>, tensor<16xi32> -> tensor<16xf16>
  %hist = tile.histogram %r : tensor<16xi32> -> tensor<8xi32>
  %mv = "tile.asm"(%r) <{text = "mov.b32 $0, $1;", constraints = "=r,r", pack = 1 : i32}> : (tensor<16xi32>) -> tensor<16xi32>
  %me = "tile.asm_effect"(%r) <{text = "mov.b32 $0, $1;", constraints = "=r,r", pack = 1 : i32}> : (tensor<16xi32>) -> tensor<16xi32>
  scf.for %i = %n to %n step %n : i32 {
    tile.row_ends %r : tensor<16xi32>
  }
  tile.barrier
  tile.assert %m, "in range" : tensor<16xi1>
  tile.print "x = ", %n, %v : i32, tensor<16xf16>
  func.return
}
"""


def parse(text: str):
    return Parser(tile_context(), text).parse_module()


def test_every_op_round_trips() -> None:
    module = parse(PROGRAM)
    module.verify()
    text = str(module)
    assert str(parse(text)) == text
    used = {op.name for op in module.walk()}
    assert {op.name for op in TILE.operations} <= used


def test_builders_infer_the_types_of_the_parsed_ops() -> None:
    by_name = {op.name: op for op in parse(PROGRAM).walk()}
    load = by_name["tile.load"]
    assert ops.Load(load.operands[0]).result.type == load.results[0].type
    dot = by_name["tile.dot"]
    assert ops.Dot(*dot.operands).result.type == dot.results[0].type
    for name, build in {
        "tile.trans": lambda op: ops.Trans(op.operands[0]),
        "tile.join": lambda op: ops.Join(*op.operands),
        "tile.cat": lambda op: ops.Cat(*op.operands),
        "tile.split": lambda op: ops.Split(op.operands[0]),
        "tile.scan": lambda op: ops.Scan(op.operands[0], 1, "addf"),
    }.items():
        op = by_name[name]
        assert [r.type for r in build(op).results] == [r.type for r in op.results]


GIVEN = """%x : tensor<4x2xf32>, %s : tensor<2x2xf32>, %b : tensor<4x2xi8>, %q : tensor<2x2xi8>,
  %m : tensor<4x2xi32>, %r : tensor<4xi32>, %p : !tawa.ptr<f32>, %f : f32, %n : i32, %l : i64,
  %t : i1, %d : !tawa.desc<tensor<4x2xf32>>"""

MISTAKES = {
    "tile.program_id 3": "axes 0, 1 and 2",
    "tile.arange 0 to 8 : tensor<16xi32>": "tensor<8xi32> expected",
    "tile.broadcast %x : tensor<4x2xf32> -> tensor<8x2xf32>": "cannot broadcast",
    "tile.reshape %x : tensor<4x2xf32> -> tensor<4xf32>": "cannot reshape",
    "tile.trans %x order [0, 0] : tensor<4x2xf32> -> tensor<4x2xf32>": "no permutation",
    "tile.expand_dims %x axis 3 : tensor<4x2xf32> -> tensor<4x2x1xf32>": "axis 3 is out of range",
    'tile.reduce "addf" %x axis 2 : tensor<4x2xf32> -> tensor<4xf32>': "axis 2 is out of range",
    'tile.reduce "divf" %x axis 1 : tensor<4x2xf32> -> tensor<4xf32>': "no kind of reduction",
    'tile.reduce "addf" %x axis 1 : tensor<4x2xf32> -> tensor<2xf32>': "tensor<4xf32> expected",
    "tile.dot %x, %x, %x : tensor<4x2xf32>, tensor<4x2xf32> -> tensor<4x2xf32>": "do not give",
    "tile.load %p mask %x : !tawa.ptr<f32>, tensor<4x2xf32> -> f32": "a mask i1 expected",
    'tile.load %p cache "zz" : !tawa.ptr<f32> -> f32': "cache is one of",
    "tile.store %p, %x : !tawa.ptr<f32>, tensor<4x2xf32>": "a value f32 expected",
    "ew.map addi(%x, %x) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>": "operands of i8",
    "ew.map addf(%x, %x) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32>": "of one shape",
    "ew.map addf(%x, %x) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf16>": "not f16",
    "ew.map nope(%x) : (tensor<4x2xf32>) -> tensor<4x2xf32>": "unknown scalar function",
    "ew.map negf(%x, %x) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>": "takes 1 operands",
    "tile.num_programs 3": "axes 0, 1 and 2",
    "tile.arange 0 to 0 : tensor<0xi32>": "expected as result",
    "tile.splat %n : i32 -> tensor<4xf32>": "a scalar f32 expected",
    "tile.broadcast %x : tensor<4x2xf32> -> tensor<4x2x2xf32>": "cannot broadcast",
    "tile.broadcast %x : tensor<4x2xf32> -> tensor<4x2xf16>": "cannot broadcast",
    "tile.expand_dims %x axis -1 : tensor<4x2xf32> -> tensor<4x2x1xf32>": "axis -1 is out of range",
    "tile.expand_dims %x axis 1 : tensor<4x2xf32> -> tensor<4x2x1xf32>": "tensor<4x1x2xf32> expected",
    "tile.reshape %x : tensor<4x2xf32> -> tensor<8xf16>": "cannot reshape",
    "tile.trans %x order [1, 0] : tensor<4x2xf32> -> tensor<4x2xf32>": "tensor<2x4xf32> expected",
    'tile.reduce "addf" %x axis -1 : tensor<4x2xf32> -> tensor<4xf32>': "axis -1 is out of range",
    'tile.scan "divf" %x axis 1 : tensor<4x2xf32> -> tensor<4x2xf32>': "no kind of scan",
    'tile.scan "addf" %x axis 2 : tensor<4x2xf32> -> tensor<4x2xf32>': "axis 2 is out of range",
    'tile.scan "addf" %x axis 1 : tensor<4x2xf32> -> tensor<4x2xf16>': "the operand's type",
    "tile.dot %s, %s, %x : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<4x2xf32>": "do not give",
    "tile.dot %x, %s, %b : tensor<4x2xf32>, tensor<2x2xf32> -> tensor<4x2xi8>": "an accumulator of",
    "tile.dot %x, %s, %m : tensor<4x2xf32>, tensor<2x2xf32> -> tensor<4x2xi32>": "only i8 does",
    "tile.dot %b, %q, %x : tensor<4x2xi8>, tensor<2x2xi8> -> tensor<4x2xf32>": "only i8 does",
    'tile.dot %x, %s, %x precision "luck" : tensor<4x2xf32>, tensor<2x2xf32> -> tensor<4x2xf32>': "precision is one of",
    'tile.dot %x, %s, %x precision "sums0" : tensor<4x2xf32>, tensor<2x2xf32> -> tensor<4x2xf32>': "precision is one of",
    'tile.dot %x, %s, %x precision "64" : tensor<4x2xf32>, tensor<2x2xf32> -> tensor<4x2xf32>': "precision is one of",
    "tile.gather %x, %r axis 0 : tensor<4x2xf32>, tensor<4xi32> -> tensor<4xf32>": "the operand's rank",
    "tile.gather %x, %m axis 2 : tensor<4x2xf32>, tensor<4x2xi32> -> tensor<4x2xf32>": "axis 2 is out of range",
    "tile.gather %s, %m axis 1 : tensor<2x2xf32>, tensor<4x2xi32> -> tensor<4x2xf32>": "one shape, but along the axis",
    "tile.gather %x, %x axis 0 : tensor<4x2xf32>, tensor<4x2xf32> -> tensor<4x2xf32>": "i32 indices",
    "tile.gather %x, %m axis 0 : tensor<4x2xf32>, tensor<4x2xi32> -> tensor<4xf32>": "the indices' shape",
    "tile.histogram %m : tensor<4x2xi32> -> tensor<8xi32>": "i32 in a row",
    "tile.histogram %r : tensor<4xi32> -> tensor<8xf32>": "i32 in a row",
    "tile.load %p mask %t other %n : !tawa.ptr<f32>, i1, i32 -> f32": "`other` of f32",
    "tile.load %p : !tawa.ptr<f32> -> i32": "f32 expected as result",
    'tile.load %p eviction "luck" : !tawa.ptr<f32> -> f32': "eviction is one of",
    "tile.store %p, %f mask %n : !tawa.ptr<f32>, f32, i32": "a mask i1 expected",
    'tile.store %p, %f cache "ca" : !tawa.ptr<f32>, f32': "cache is one of",
    'tile.atomic_rmw "addf" %p, %f order "later" scope "gpu" : !tawa.ptr<f32>, f32 -> f32': "order is one of",
    'tile.atomic_rmw "addf" %p, %f order "relaxed" scope "all" : !tawa.ptr<f32>, f32 -> f32': "scope is one of",
    'tile.atomic_rmw "addf" %p, %n order "relaxed" scope "gpu" : !tawa.ptr<f32>, i32 -> i32': "f32 expected",
    'tile.atomic_cas %p, %n, %n order "relaxed" scope "gpu" : !tawa.ptr<f32>, i32': "f32 expected",
    'tile.atomic_cas %p, %f, %f order "later" scope "gpu" : !tawa.ptr<f32>, f32': "order is one of",
    'tile.atomic_cas %p, %f, %f order "relaxed" scope "all" : !tawa.ptr<f32>, f32': "scope is one of",
    "tile.make_desc %p shape [%n] strides [%l, %l] : !tawa.ptr<f32> -> !tawa.desc<tensor<4x2xf32>>": "2 sizes and strides",
    "tile.make_desc %p shape [%n, %n] strides [%l] : !tawa.ptr<f32> -> !tawa.desc<tensor<4x2xf32>>": "2 sizes and strides",
    "tile.make_desc %p shape [%n, %n] strides [%l, %l] : !tawa.ptr<f32> -> !tawa.desc<tensor<4x2xf16>>": "element types differ",
    'tile.make_desc %p shape [%n, %n] strides [%l, %l] padding "one" : !tawa.ptr<f32> -> !tawa.desc<tensor<4x2xf32>>': "padding is one of",
    "tile.desc_load %d[%n] : !tawa.desc<tensor<4x2xf32>> -> tensor<4x2xf32>": "2 coordinates expected",
    "tile.desc_load %d[%n, %n] : !tawa.desc<tensor<4x2xf32>> -> tensor<2x2xf32>": "expected as result",
    "tile.desc_store %d[%n, %n], %s : !tawa.desc<tensor<4x2xf32>>, tensor<2x2xf32>": "a value tensor<4x2xf32>",
    'tile.desc_store %d[%n, %n], %x reduce "divf" : !tawa.desc<tensor<4x2xf32>>, tensor<4x2xf32>': "reduce is one of",
    'tile.assert %n, "never" : i32': "a condition of i1",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_verifiers_say_what_is_wrong(line: str) -> None:
    module = parse(f"func.func @f({GIVEN}) {{\n{line}\nfunc.return\n}}")
    with pytest.raises(VerifyException, match=MISTAKES[line]):
        module.verify()


def test_a_range_may_have_one_element() -> None:
    parse("func.func @f() {\n%r = tile.arange 7 to 8 : tensor<1xi32>\nfunc.return\n}").verify()


def test_map_builds_on_any_container() -> None:
    module = parse("func.func @f(%x : tensor<4xi32>) {\nfunc.return\n}")
    (argument,) = next(iter(module.body.block.ops)).regions[0].block.args
    assert str(Map("sitofp", [argument], parse_type("f16")).result.type) == "tensor<4xf16>"


def parse_type(text: str):
    return Parser(tile_context(), text).parse_type()
