"""Proofs where roles go by numbers that each computes for itself: loads, searches, divisions."""

from typing import Any

from xdsl.dialects import scf

import tawa
import tawa.language as tl
from tawa.driver.compiled import spec_of
from tawa.hopper.dialect.global_memory import ScalarLoad
from tawa.ir.elementwise import Map
from tawa.simulate import prove
from tawa.simulate.interpret.launch import kernel_of
from tawa.simulate.prove.code import Slice


@tawa.jit
def grouped(a, b, c, sizes, groups, K):
    """A block looks for its group; behind the last one it does nothing."""
    pid = tl.program_id(0)
    group, seen = 0, 0
    for g in range(groups):
        seen += tl.load(sizes + g)
        group = tl.where(seen <= pid, g + 1, group)
    if group < groups:
        acc = tl.zeros((64, 64), tl.float32)
        for k in range(0, K, 64):
            acc = tl.dot(a.load([pid * 64, k]), b.load([group * 64, k]).T, acc)
        c.store([pid * 64, 0], acc.to(tl.float16))


@tawa.jit
def where_asked(a, b, c, wanted, K):
    """A block whose number says so does nothing."""
    if tl.load(wanted + tl.program_id(0)) > 0:
        acc = tl.zeros((64, 64), tl.float32)
        for k in range(0, K, 64):
            acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
        c.store([0, 0], acc.to(tl.float16))


@tawa.jit
def where_asked_and_written(a, b, c, wanted, K):
    """The same, of numbers that change meanwhile."""
    if tl.load(wanted + tl.program_id(0)) > 0:
        acc = tl.zeros((64, 64), tl.float32)
        for k in range(0, K, 64):
            acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
        c.store([0, 0], acc.to(tl.float16))
    tl.atomic_add(wanted + 1, 1)


@tawa.jit
def in_two_loops(a, b, c, K):
    """Whole steps, and then the rest: a quotient that is rounded down, as Python does."""
    whole = K // 64
    if K % 64 < 0:
        whole -= 1
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, whole * 64, 64):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
    for k in range(whole * 64, K, 64):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
    c.store([0, 0], acc.to(tl.float16))


TILE = "desc<f16,64x64>"


def module(kernel: Any, *more: str) -> Any:
    return kernel.compile(TILE, TILE, TILE, *more, num_stages=2).module("hopper")


def searches(found: Any) -> list[scf.ForOp]:
    """The loops that only compute."""
    kept = Slice(kernel_of(found), spec_of(found))
    return [op for op in found.walk() if isinstance(op, scf.ForOp) and kept.steady.computes(op)]


def test_a_search_is_one_function_for_all_roles():
    found = module(grouped, "*i32", "i32", "i32")
    assert len(searches(found)) == 2  # the loading role's, and the consumers'
    proof = prove(found)
    assert proof.proved, proof.why
    assert proof.states < 60  # no iteration of the search is a state


def test_a_search_that_one_role_does_otherwise_is_not_proved():
    found = module(grouped, "*i32", "i32", "i32")
    one = searches(found)[0]
    (compares,) = [
        op for op in one.walk() if isinstance(op, Map) and op.function.data.startswith("cmpi")
    ]
    assert compares.function.data == "cmpi_sle"
    compares.properties["function"] = type(compares.function)("cmpi_slt")
    assert not prove(found).proved


def test_a_number_that_nobody_writes_is_one_for_all_roles():
    """If one role asks something else of it, they no longer go the same way."""
    found = module(where_asked, "*i32", "i32")
    assert prove(found).proved
    asked = [op for op in found.walk() if isinstance(op, Map) and op.function.data == "cmpi_sgt"]
    assert len(asked) == 2
    asked[0].properties["function"] = type(asked[0].function)("cmpi_sge")
    assert not prove(found).proved


def test_a_number_that_the_kernel_writes_may_be_another_each_time():
    found = module(where_asked_and_written, "*i32", "i32")
    steady = Slice(kernel_of(found), spec_of(found)).steady
    loads = [op for op in found.walk() if isinstance(op, ScalarLoad)]
    assert loads
    assert not any(map(steady.loads, loads))


def test_remainders_that_only_conditions_depend_on_are_not_told_apart():
    found = module(in_two_loops, "i32")
    assert any(op.function.data == "remsi" for op in found.walk() if isinstance(op, Map))
    proof = prove(found)
    assert proof.proved, proof.why
    assert proof.states < 64  # fewer than there are remainders
