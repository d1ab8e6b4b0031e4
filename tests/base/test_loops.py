"""Pruning keeps what the roots need, and of loops and branches only those values."""

from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func, FuncOp
from xdsl.dialects.scf import Scf, WhileOp
from xdsl.dialects.test import Test
from xdsl.parser import Parser

from tawa.ir.loops import prune

# The turn counts %i, carries %x (a root needs it), %y (only the condition's result needs it)
# and %z (nobody). The condition passes values on in another order than turns start with.
TEXT = """
func.func @kernel(%n : i32) {
  %zero, %start = "test.op"() : () -> (i32, f32)
  %r:4 = scf.while (%i = %zero, %x = %start, %y = %start, %z = %start)
      : (i32, f32, f32, f32) -> (f32, f32, f32, i32) {
    %more = arith.cmpi slt, %i, %n : i32
    scf.condition(%more) %z, %y, %x, %i : f32, f32, f32, i32
  } do {
  ^bb0(%z : f32, %y : f32, %x : f32, %i : i32):
    %next = arith.addi %i, %n : i32
    %x2 = arith.addf %x, %x : f32
    %y2 = arith.mulf %y, %y : f32
    %z2 = arith.divf %z, %z : f32
    "test.op"(%x2) {root} : (f32) -> ()
    scf.yield %next, %x2, %y2, %z2 : i32, f32, f32, f32
  }
  USE
  func.return
}
"""


def is_root(op) -> bool:
    return "root" in op.attributes or op.name == "func.return"


def pruned(use: str) -> FuncOp:
    context = Context()
    for dialect in (Builtin, Arith, Func, Scf, Test):
        context.load_dialect(dialect)
    module = Parser(context, TEXT.replace("USE", use)).parse_module()
    module.verify()
    (kernel,) = (op for op in module.ops if isinstance(op, FuncOp))
    prune(kernel.body.block, is_root)
    module.verify()
    return kernel


def loop_of(kernel: FuncOp) -> WhileOp:
    (loop,) = (op for op in kernel.walk() if isinstance(op, WhileOp))
    return loop


def test_a_while_loop_carries_only_what_its_roots_and_its_condition_need():
    kernel = pruned("")
    loop = loop_of(kernel)
    assert len(loop.arguments) == 2
    assert [str(r.type) for r in loop.results] == ["f32", "i32"]
    names = {op.name for op in kernel.walk()}
    assert "arith.addf" in names
    assert "arith.mulf" not in names
    assert "arith.divf" not in names


def test_a_result_that_a_root_needs_keeps_its_way_through_the_loop():
    loop = loop_of(pruned('"test.op"(%r#1) {root} : (f32) -> ()'))
    assert len(loop.arguments) == 3
    assert [str(r.type) for r in loop.results] == ["f32", "f32", "i32"]


def test_a_while_loop_that_nobody_needs_is_gone():
    text = TEXT.replace('"test.op"(%x2) {root} : (f32) -> ()', "").replace("USE", "")
    context = Context()
    for dialect in (Builtin, Arith, Func, Scf, Test):
        context.load_dialect(dialect)
    module = Parser(context, text).parse_module()
    (kernel,) = (op for op in module.ops if isinstance(op, FuncOp))
    prune(kernel.body.block, is_root)
    assert not any(isinstance(op, WhileOp) for op in kernel.walk())
