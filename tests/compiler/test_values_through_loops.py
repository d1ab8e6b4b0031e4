"""Values through loops and branches: what roots need is kept, and no more; where values come from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp, UnitAttr, f32, i1, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, Region, SSAValue

import tawa.language as tl
from tawa.frontend import JITFunction, PointerArg, ScalarArg, lower_to_tile
from tawa.ir.elementwise import Map
from tawa.ir.loops import (
    carry,
    carry_if,
    carry_while,
    extend_condition,
    extend_yield,
    needed,
    passed_out,
    passed_to,
    prune,
    terminator,
    users_in,
)
from tawa.ir.walking import all_of
from tawa.simulate.interpret.tile import run
from tawa.tile.dialect.ops import Store


def counted(x, n):
    a, b, c, d = 0, 1, 2, 3
    for i in range(n):
        a, b, c, d = a + i, b + 2, c + b, d + c
    tl.store(x, a)
    tl.store(x + 1, c)


def waited(x, n):
    a, b, c, turns = 0, 1, 2, 0
    while turns < n:
        a, b, c = a + b, b + 1, c + 5
        turns += 1
    tl.store(x, a)


def chosen(x, n):
    a, b, c = 1, 2, 3
    if n > 2:
        a, b, c = n, n + 1, n + 2  # noqa: F841  # one that nobody needs
        tl.store(x + 1, c)
    else:
        b = 7
    tl.store(x, b)


def nested(x, n):
    a, b, c = 0, 1, 2
    for i in range(n):
        for j in range(i):
            if j > 1:
                a, b = a + j, b + 1
            c = c + a
        tl.store(x + i, a)


def swapped(x, n):
    a, b, c = 1, 2, 3
    for _ in range(n):
        a, b, c = b, c, a
    tl.store(x, b)


def needless(x, n):
    a = 0
    for i in range(n):
        a = a + i
    while a < n:
        a = a + 1
    if n > 3:
        a = 2
    tl.store(x, n)


def waiting_in_a_loop(x, n):
    total, seen, other = 0, 0, 1
    for i in range(n):
        k = i
        while k > 0:
            k = k - 2
            total = total + k
            other = other * 3
        seen = seen + k
    tl.store(x, total)
    tl.store(x + 1, seen)


def asked_alone(x, n):
    a, limit = 0, n
    while a < limit:
        a = a + 1
        limit = n - a // 2
    tl.store(x, a)


KERNELS: dict[str, tuple[Any, list[int]]] = {
    "counted": (counted, [3]), "waited": (waited, [3]), "chosen": (chosen, [1]),
    "nested": (nested, [1, 1, 1]), "swapped": (swapped, [3]), "needless": (needless, []),
    "waiting_in_a_loop": (waiting_in_a_loop, [2, 2]), "asked_alone": (asked_alone, [1]),
}  # fmt: skip
"""Kernels, and how many results their loops and branches keep, in the order of the text."""


def lowered(fn: Any) -> tuple[ModuleOp, Block]:
    kinds = [PointerArg(tl.int32), ScalarArg(tl.int32)]
    module = lower_to_tile(JITFunction(fn), kinds, {})
    (kernel,) = (op for op in module.ops if isinstance(op, func.FuncOp))
    return module, kernel.body.block


def is_store(op: Operation) -> bool:
    return isinstance(op, Store | func.ReturnOp)


@pytest.mark.parametrize("name", KERNELS)
def test_what_stores_need_is_kept_and_no_more(name: str) -> None:
    fn, kept = KERNELS[name]
    module, block = lowered(fn)
    before = []
    for n in range(6):
        x = np.full(8, -1, np.int32)
        run(module, (1,), [x, n])
        before.append(x)
    hints = [r.name_hint for op in block.walk() if isinstance(op, scf.ForOp) for r in op.results]
    prune(block, is_store)
    module.verify()
    around = [op for op in block.walk() if isinstance(op, scf.ForOp | scf.WhileOp | scf.IfOp)]
    assert [len(op.results) for op in around] == kept
    left = [r.name_hint for op in around if isinstance(op, scf.ForOp) for r in op.results]
    assert [hint for hint in hints if hint in left][: len(left)] == left, "names stay"
    for n, expected in enumerate(before):
        x = np.full(8, -1, np.int32)
        run(module, (1,), [x, n])
        np.testing.assert_array_equal(x, expected)
    again = str(module)
    prune(block, is_store)
    assert str(module) == again, "all that is left is needed"


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_needed_is_what_is_left(name: str) -> None:
    _, block = lowered(KERNELS[name][0])
    ops, values = needed(block, is_store)
    for op in block.walk():
        if is_store(op):
            assert op in ops
            assert all(v in values for v in op.operands if v.owner is not block)
    nothing, none = needed(block, lambda _: False)
    assert (nothing, none) == (set(), set())


def made(kind: Any = i32) -> SSAValue:
    return Made(result_types=[kind]).results[0]


def loop_of_two() -> tuple[scf.ForOp, list[SSAValue], list[SSAValue]]:
    """A loop that carries two numbers; what it starts with, and what it yields."""
    starts, ends = [made(), made(f32)], [made(), made(f32)]
    body = Block([scf.YieldOp(*ends)], arg_types=[i32, i32, f32])
    loop = scf.ForOp(made(), made(), made(), starts, body)
    Block([loop])
    return loop, starts, ends


def waiting_of_two() -> tuple[scf.WhileOp, dict[str, list[SSAValue]]]:
    """A `while` that starts with a number and passes on a number and a float."""
    v = {"starts": [made()], "passed": [made(), made(f32)], "ends": [made()]}
    before = Block([scf.ConditionOp(made(i1), *v["passed"])], arg_types=[i32])
    after = Block([scf.YieldOp(*v["ends"])], arg_types=[i32, f32])
    loop = scf.WhileOp(v["starts"], [i32, f32], Region(before), Region(after))
    Block([loop])
    return loop, v


def test_where_values_of_loops_come_from() -> None:
    loop, starts, ends = loop_of_two()
    counter, *carried = loop.body.block.args
    assert passed_to(counter) == []
    assert [passed_to(a) for a in carried] == [[s, e] for s, e in zip(starts, ends, strict=True)]
    assert [passed_out(r) for r in loop.results] == [passed_to(a) for a in carried]


def test_where_values_of_whiles_come_from() -> None:
    loop, v = waiting_of_two()
    assert [passed_to(a) for a in loop.before_region.block.args] == [[v["starts"][0], v["ends"][0]]]
    assert [passed_to(a) for a in loop.after_region.block.args] == [[p] for p in v["passed"]]
    assert [passed_out(r) for r in loop.results] == [[p] for p in v["passed"]]


def test_where_values_of_branches_come_from() -> None:
    yes, no = [made(), made(f32)], [made(), made(f32)]
    branch = scf.IfOp(made(i1), [i32, f32], [scf.YieldOp(*yes)], [scf.YieldOp(*no)])
    assert [passed_out(r) for r in branch.results] == [list(p) for p in zip(yes, no, strict=True)]
    other = Made(result_types=[i32])
    assert passed_out(other.results[0]) == []
    assert passed_to(Block(arg_types=[i32]).args[0]) == []


def test_more_is_carried_through_a_loop() -> None:
    loop, starts, ends = loop_of_two()
    loop.attributes["tawa.mark"] = UnitAttr()
    user = Made(operands=[loop.results[1]])
    more = [made(), made()]
    more[0].name_hint = "more"
    new, arguments, results = carry(loop, more)
    extend_yield(new.body.block, [made(), made()])
    assert [*new.iter_args] == [*starts, *more]
    assert [a.index for a in arguments] == [3, 4]
    assert arguments[0].name_hint == "more"
    assert [r.index for r in results] == [2, 3]
    assert user.operands[0] is new.results[1]
    assert [*terminator(new.body.block).operands][:2] == ends
    assert "tawa.mark" in new.attributes


@pytest.mark.parametrize("both", [False, True])
def test_more_is_given_by_a_branch(both: bool) -> None:
    condition = made(i1)
    regions = [[scf.YieldOp()], [scf.YieldOp()]] if both else [[scf.YieldOp()], None]
    branch = scf.IfOp(condition, [], *(r for r in regions if r is not None))
    Block([branch])
    new, results = carry_if(branch, [i32, f32])
    assert [r.type for r in results] == [i32, f32]
    assert new.cond is condition
    for region in new.regions:
        extend_yield(region.block, [made(), made(f32)])
    new.verify()


def test_more_is_carried_through_a_while() -> None:
    loop, v = waiting_of_two()
    inits = [made(f32)]
    new, first, second, results = carry_while(loop, inits)
    extend_condition(new.before_region.block, [first[0]])
    extend_yield(new.after_region.block, [second[0]])
    assert [*new.arguments] == [*v["starts"], *inits]
    assert ([a.index for a in first], [a.index for a in second]) == ([1], [2])
    assert [r.index for r in results] == [2]
    assert passed_out(results[0]) == [first[0]]
    assert passed_to(first[0]) == [inits[0], second[0]]
    assert passed_to(second[0]) == [first[0]]


def test_users_in_a_block_and_in_what_is_in_it() -> None:
    value, other = made(), made()
    direct = Map("absi", [value])
    inside = Map("absi", [value])
    branch = scf.IfOp(made(i1), [], [inside, scf.YieldOp()])
    elsewhere = Map("absi", [value])
    home = Block([direct, branch, Map("absi", [other])])
    Block([elsewhere])
    assert set(users_in(value, home)) == {direct, branch}
    assert users_in(value, branch.true_region.block) == [inside]
    assert all_of(home, scf.IfOp) == [branch]
